//! A PostgreSQL server of the run's own, as safe as one in use, which can be crashed.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use tokio::process::Command;
use url::Url;

/// The server. `tests/fire/run` deletes it, however the run ends.
pub struct Cluster {
    folder: PathBuf,
    /// Its address, with a password.
    pub url: Url,
}

impl Cluster {
    pub async fn start(work: &Path) -> Result<Self> {
        let folder = work.join("postgres");
        let url = script("start", &folder).await?;
        Ok(Self { folder, url: Url::parse(&url)? })
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.url.port().unwrap_or(5432)
    }

    /// The address of its database behind a proxy.
    pub fn url_through(&self, port: u16) -> Result<String> {
        let mut url = self.url.clone();
        url.set_port(Some(port)).ok().context("the address has no port")?;
        Ok(url.into())
    }

    /// Ends it as a power cut of its machine does.
    pub async fn crash(&self) -> Result<()> {
        script("crash", &self.folder).await.map(drop)
    }

    /// Starts it again, with its data and its port.
    pub async fn revive(&self) -> Result<()> {
        script("revive", &self.folder).await.map(drop)
    }
}

async fn script(action: &str, folder: &Path) -> Result<String> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/postgres");
    let mut command = Command::new(script);
    command.arg(action).arg(folder).env("PFY_POSTGRES_DURABLE", "1");
    let output = command.output().await.context("tests/postgres")?;
    if !output.status.success() {
        bail!("tests/postgres {action}: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}
