//! An [`App`] on a database of its own for the tests of use cases.

use std::path::PathBuf;

use chrono::{DateTime, TimeZone, Utc};
use secrecy::{ExposeSecret, SecretString};

use super::{App, Parts};
use crate::clock::{Clock, ManualClock};
use crate::config::Config;
use crate::domain::access::Actor;
use crate::domain::audit::{AuditLog, Caller};
use crate::domain::cron::Zone;
use crate::domain::id::UserId;
use crate::domain::page::PageRequest;
use crate::domain::people::User;
use crate::egress::{AddressPolicy, Egress, EgressConfig};
use crate::secrets::{Password, SecretKey};
use crate::store::{Options, Store, audit, people};

/// The application, its clock, and its folder, which goes when the test is over.
pub(super) struct TestApp {
    pub(super) app: App,
    pub(super) clock: ManualClock,
    folder: PathBuf,
}

impl std::ops::Deref for TestApp {
    type Target = App;

    fn deref(&self) -> &App {
        &self.app
    }
}

impl Drop for TestApp {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

pub(super) fn start() -> DateTime<Utc> {
    Utc.with_ymd_and_hms(2026, 3, 1, 12, 0, 0).unwrap()
}

pub(super) const PASSWORD: &str = "correct horse battery staple";
pub(super) const KEY: &str = "a passphrase of the tests";

impl TestApp {
    pub(super) async fn new() -> Self {
        Self::with(&[]).await
    }

    /// With these `PFY_` variables.
    pub(super) async fn with(variables: &[(&str, &str)]) -> Self {
        let folder = std::env::temp_dir().join(format!("pfy-app-{}", uuid::Uuid::now_v7()));
        let clock = ManualClock::new(start());
        let parts = parts(&folder, &clock, variables).await;
        parts.store.migrate().await.unwrap();
        Self { app: App::new(parts).unwrap(), clock, folder }
    }

    /// Another process on the same database.
    pub(super) async fn beside(&self, key: &str, zone: &str, variables: &[(&str, &str)]) -> App {
        let mut parts = parts(&self.folder, &self.clock, variables).await;
        parts.key = SecretKey::from_text(&SecretString::from(key)).unwrap();
        parts.zone = Zone::parse(zone).unwrap();
        App::new(parts).unwrap()
    }

    /// A user with [`PASSWORD`], and as what it calls.
    pub(super) async fn person(&self, email: &str, administrator: bool) -> (User, Caller) {
        let now = self.clock.now();
        let user = User {
            id: UserId::new(),
            email: email.to_owned(),
            name: "Ada".to_owned(),
            administrator,
            disabled_at: None,
            created_at: now,
            updated_at: now,
        };
        let hash = Password::parse(PASSWORD).unwrap().hash().unwrap();
        let tx = self.store.begin().await.unwrap();
        people::insert_user(&*tx, &user, Some(hash)).await.unwrap();
        tx.commit_unaudited().await.unwrap();
        let caller = caller_of(&user);
        (user, caller)
    }

    /// All that was written to the audit log, oldest first.
    pub(super) async fn audited(&self) -> Vec<AuditLog> {
        let request = PageRequest { limit: 200, ..PageRequest::default() };
        let (scope, filter) = (Actor::System.scope(), audit::Filter::default());
        let page = audit::list(self.store.read(), scope, &filter, &request).await.unwrap();
        page.rows.into_iter().rev().map(|(_, row)| row).collect()
    }

    /// The actions that were written to the audit log, oldest first.
    pub(super) async fn actions(&self) -> Vec<String> {
        self.audited().await.into_iter().map(|row| row.action).collect()
    }
}

pub(super) fn caller_of(user: &User) -> Caller {
    let (id, email, administrator) = (user.id, user.email.clone(), user.administrator);
    Caller {
        actor: Actor::User { id, email, administrator, ends: None },
        request_id: Some("r-1".to_owned()),
    }
}

pub(super) fn bearer(token: &SecretString) -> String {
    format!("Bearer {}", token.expose_secret())
}

async fn parts(folder: &std::path::Path, clock: &ManualClock, variables: &[(&str, &str)]) -> Parts {
    let variables = variables.iter().map(|(name, value)| ((*name).into(), (*value).into()));
    let options = Options {
        url: format!("sqlite://{}", folder.join("data.db").display()),
        max_connections: 4,
        schema: None,
    };
    Parts {
        store: Store::connect(&options).await.unwrap(),
        clock: std::sync::Arc::new(clock.clone()),
        config: Config::load(None, variables).unwrap(),
        zone: Zone::parse("UTC").unwrap(),
        egress: Egress::new(EgressConfig {
            policy: AddressPolicy::new(Vec::new()),
            timeout: std::time::Duration::from_secs(5),
            max_response_bytes: 1024,
            max_idle_per_host: 1,
            user_agent: "test".to_owned(),
        })
        .unwrap(),
        key: SecretKey::from_text(&SecretString::from(KEY)).unwrap(),
    }
}

pub(super) fn code<T: std::fmt::Debug>(result: crate::error::Result<T>) -> &'static str {
    result.unwrap_err().code()
}
