//! The real program: starts, stops, crashes, and several processes on one database.
//!
//! Nothing here sleeps. A test waits for a line that the program prints, or asks until something
//! has come about, each with a bound after which the test fails.

mod commands;
mod executors;
mod hints;
mod place;
mod refused;
mod roles;
mod starts;
mod stops;

use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::client::{Client, PATIENCE};

pub use self::place::Place;

/// A running program. Killed when dropped.
pub struct Process {
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
    news: watch::Receiver<()>,
}

impl Process {
    /// Runs `trigger-manager ARGUMENTS` in a place, with settings over those of the place.
    pub fn start(place: &Place, arguments: &[&str], settings: &[(&str, &str)]) -> Self {
        let mut command = command(place, arguments);
        command.envs(place.settings()).envs(settings.iter().copied());
        Self::run(command)
    }

    /// Runs `trigger-manager demo` where only its ports and `settings` are set.
    pub fn demo(place: &Place, settings: &[(&str, &str)]) -> Self {
        let mut command = command(place, &["demo"]);
        command.envs(settings.iter().copied());
        command.envs([("PFY_HTTP_ADDR", "127.0.0.1:0"), ("PFY_CRON_METRICS_PORT", "0")]);
        Self::run(command)
    }

    fn run(mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = Arc::<Mutex<Vec<String>>>::default();
        let (tell, news) = watch::channel(());
        let tell = Arc::new(tell);
        tokio::spawn(read(child.stdout.take().unwrap(), lines.clone(), tell.clone()));
        tokio::spawn(read(child.stderr.take().unwrap(), lines.clone(), tell));
        Self { child, lines, news }
    }

    /// All lines of both outputs so far.
    pub fn output(&self) -> String {
        self.lines.lock().unwrap().join("\n")
    }

    /// Waits for a line that contains `part`.
    pub async fn line(&mut self, part: &str) -> String {
        let waiting = async {
            loop {
                self.news.mark_unchanged();
                let found = self.lines.lock().unwrap().iter().find(|l| l.contains(part)).cloned();
                match found {
                    Some(line) => return Some(line),
                    None if self.news.changed().await.is_err() => return None,
                    None => {}
                }
            }
        };
        let found = timeout(PATIENCE, waiting).await.ok().flatten();
        found.unwrap_or_else(|| panic!("no line with {part:?} in:\n{}", self.output()))
    }

    /// What follows `before` in its line, up to a blank.
    pub async fn word_after(&mut self, before: &str) -> String {
        let line = self.line(before).await;
        let rest = line.split_once(before).unwrap().1.trim_start();
        rest.split([' ', ',']).next().unwrap().to_owned()
    }

    /// An anonymous client of the API, once it listens.
    pub async fn api(&mut self) -> Client {
        let address = self.word_after("GraphQL at ").await;
        Client::new(address.strip_suffix("/graphql").unwrap())
    }

    /// A client of metrics and health, once they are there.
    pub async fn monitor(&mut self) -> Client {
        let address = self.word_after("metrics at ").await;
        Client::new(address.strip_suffix("/metrics").unwrap())
    }

    /// Sends a signal, for example `TERM`.
    pub async fn signal(&self, name: &str) {
        let kill = format!("kill -{name} {}", self.child.id().unwrap());
        assert!(Command::new("sh").args(["-c", &kill]).status().await.unwrap().success());
    }

    /// Waits until it has ended and everything that it said was read.
    pub async fn ended(&mut self) -> ExitStatus {
        let ending = async {
            let status = self.child.wait().await.unwrap();
            while self.news.changed().await.is_ok() {}
            status
        };
        let status = timeout(PATIENCE, ending).await;
        status.unwrap_or_else(|_| panic!("it goes on:\n{}", self.output()))
    }

    /// Ends it as an operator does.
    pub async fn stop(mut self) -> String {
        self.signal("TERM").await;
        let status = self.ended().await;
        assert!(status.success(), "{status}\n{}", self.output());
        self.output()
    }

    /// Ends it as a power cut does.
    pub async fn kill(mut self) {
        self.signal("KILL").await;
        self.ended().await;
    }
}

fn command(place: &Place, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_trigger-manager"));
    command.args(arguments).current_dir(&place.folder).env_clear().kill_on_drop(true);
    command.env("PATH", "/usr/bin:/bin").env("TMPDIR", &place.folder);
    command
}

async fn read(
    from: impl AsyncRead + Unpin,
    lines: Arc<Mutex<Vec<String>>>,
    tell: Arc<watch::Sender<()>>,
) {
    let mut reader = BufReader::new(from).lines();
    while let Ok(Some(line)) = reader.next_line().await {
        lines.lock().unwrap().push(line);
        tell.send_replace(());
    }
}
