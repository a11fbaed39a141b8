//! The first start, and what every start checks: that this process agrees with the others on the
//! same database.

use chrono::{DateTime, Utc};
use sea_orm::ConnectionTrait;
use secrecy::{ExposeSecret, SecretString};
use uuid::Uuid;

use super::App;
use super::access::require_administrator;
use super::auth::is_personal_form;
use super::change::change;
use super::rule::timetable;
use crate::domain::audit::{Caller, Change};
use crate::domain::cron::Zone;
use crate::domain::id::{PersonalAccessTokenId, UserId};
use crate::domain::people::{PersonalAccessToken, User};
use crate::error::{Error, Result};
use crate::secrets::{TokenKind, generate_token, hash_token, token_prefix};
use crate::store::rule::RuleWindow;
use crate::store::{Store, people, rule, setting, trigger};

const ZONE: &str = "server.time_zone";
pub(super) const KEY_CHECK: &str = "secret_key.check";
const FIRST_START: &str = "first_start";

/// What a start came to.
#[derive(Debug, Default)]
pub struct Bootstrap {
    /// The administrator that this start made; none at every later start.
    pub administrator: Option<User>,
    /// The administrator's token if it was made here, to be shown once: it can't be read again.
    /// None when the configuration gave it.
    pub token: Option<SecretString>,
}

/// Whether a secret key was ever used with the database. Its schema must be up to date.
pub async fn has_secret_key(store: &Store) -> Result<bool> {
    Ok(setting::get(store.read(), KEY_CHECK).await?.is_some())
}

impl App {
    /// Checks that this process fits the database, and makes the first administrator if there
    /// are no users: `auth.bootstrap_email`, without a password, with `auth.bootstrap_token` or
    /// a random one. With users there, both settings are without effect: a changed token changes
    /// nothing. Of processes that start at once, one makes the administrator.
    ///
    /// # Errors
    /// `SECRET_KEY_MISMATCH` when what is stored was encrypted with another key.
    /// `TIME_ZONE_MISMATCH` when the other processes have another time zone. `INVALID` on
    /// `auth.bootstrap_token` when it looks like a token of another kind. The process must not
    /// go on then.
    pub async fn bootstrap(&self) -> Result<Bootstrap> {
        self.check_secret_key().await?;
        self.check_zone().await?;
        if people::count_users(self.store.read()).await? > 0 {
            return Ok(Bootstrap::default());
        }
        self.make_administrator().await
    }

    /// Whether there is anybody who could sign in.
    pub async fn has_users(&self) -> Result<bool> {
        Ok(people::count_users(self.store.read()).await? > 0)
    }

    /// Makes `zone` the one that all processes must have. Triggers and rules that name no zone start
    /// their window now: what of them is due and not evaluated yet is dropped, as with any change of a
    /// schedule. Stop all processes first, and start them with the new zone: a running one keeps
    /// its own.
    ///
    /// # Errors
    /// `FORBIDDEN` for all but administrators; `CONFLICT` while an executor lives.
    pub async fn set_server_zone(&self, caller: &Caller, zone: &Zone) -> Result<()> {
        require_administrator(&caller.actor)?;
        self.clock_holds()?;
        let now = self.now();
        self.refuse_while_running("cron.time_zone").await?;
        let tx = self.store.begin().await?;
        let before = setting::get(&*tx, ZONE).await?;
        setting::set(&*tx, ZONE, zone.name(), now).await?;
        let triggers = trigger::restart_windows_without_zone(&*tx, now).await?;
        let rules = restart_rules_without_zone(&*tx, now).await?;
        let before = before.map(|zone| serde_json::json!({ "timeZone": zone }));
        let after = serde_json::json!({ "timeZone": zone.name(), "triggers": triggers, "triggerRules": rules });
        // A setting is known by its name and has no id.
        let entity = ("setting", Uuid::nil());
        let set = change("setting.set_time_zone", entity, before.as_ref(), Some(&after))?;
        tx.commit(caller, now, &[set]).await?;
        self.wake.hint();
        Ok(())
    }

    pub(super) async fn check_secret_key(&self) -> Result<()> {
        let fresh = self.cipher.encrypt(KEY_CHECK, KEY_CHECK)?;
        let stored = self.agree(KEY_CHECK, &fresh).await?;
        match self.cipher.decrypt(&stored, KEY_CHECK) {
            Ok(_) => Ok(()),
            Err(error) => Err(Error::invalid_code(
                "SECRET_KEY_MISMATCH",
                "secret_key",
                format!(
                    "secret_key is not the key that this database was set up with ({error}); \
                     start with that key, or restore its file"
                ),
            )),
        }
    }

    async fn check_zone(&self) -> Result<()> {
        let stored = self.agree(ZONE, self.zone.name()).await?;
        if Zone::parse(&stored)? == self.zone {
            return Ok(());
        }
        let ours = self.zone.name();
        Err(Error::invalid_code(
            "TIME_ZONE_MISMATCH",
            "cron.time_zone",
            format!(
                "the time zone of this process is {ours}, but this database was set up with \
                 {stored}; set cron.time_zone to {stored}, or stop all processes and run \
                 `trigger-manager set-time-zone {ours}`"
            ),
        ))
    }

    /// What the processes agreed on; the first one decides.
    async fn agree(&self, key: &str, value: &str) -> Result<String> {
        if let Some(stored) = setting::get(self.store.read(), key).await? {
            return Ok(stored);
        }
        let tx = self.store.begin().await?;
        let stored = setting::get_or_set(&*tx, key, value, self.now()).await?;
        tx.commit_unaudited().await?;
        Ok(stored)
    }

    async fn make_administrator(&self) -> Result<Bootstrap> {
        let now = self.now();
        let configured = self.config.auth.bootstrap_token.as_ref();
        if configured.is_some_and(|token| !is_personal_form(token.expose_secret())) {
            let reason = "auth.bootstrap_token looks like a token of another kind; use pfy_ and 43 \
                          random characters";
            return Err(Error::invalid("auth.bootstrap_token", reason));
        }
        let made = configured.is_none().then(|| generate_token(TokenKind::Personal).secret);
        let Some(secret) = configured.or(made.as_ref()) else { return Ok(Bootstrap::default()) };
        let (user, token) = self.first_user(secret);
        let tx = self.store.begin().await?;
        // PostgreSQL lets a second process wait here until the first has committed.
        setting::get_or_set(&*tx, FIRST_START, &now.to_rfc3339(), now).await?;
        if people::count_users(&*tx).await? > 0 {
            return Ok(Bootstrap::default());
        }
        people::insert_user(&*tx, &user, None).await?;
        let hash = hash_token(secret.expose_secret()).to_string();
        people::insert_token(&*tx, &token, &hash).await?;
        let changes: [Change; 2] = [
            change("user.create", ("user", user.id), None, Some(&user))?,
            change(
                "personal_access_token.create",
                ("personal_access_token", token.id),
                None,
                Some(&token),
            )?,
        ];
        tx.commit(&Caller::system(), now, &changes).await?;
        Ok(Bootstrap { administrator: Some(user), token: made })
    }

    fn first_user(&self, secret: &SecretString) -> (User, PersonalAccessToken) {
        let now = self.now();
        let user = User {
            id: UserId::new(),
            email: self.config.auth.bootstrap_email.to_lowercase(),
            name: "Administrator".to_owned(),
            administrator: true,
            disabled_at: None,
            created_at: now,
            updated_at: now,
        };
        let token = PersonalAccessToken {
            id: PersonalAccessTokenId::new(),
            user_id: user.id,
            name: "first start".to_owned(),
            token_prefix: token_prefix(secret.expose_secret()),
            expires_at: None,
            last_used_at: None,
            created_at: now,
        };
        (user, token)
    }
}

#[cfg(test)]
#[path = "bootstrap_tests.rs"]
mod tests;

/// Starts the windows of time-based rules that name no zone at `now`, as those of triggers. Answers
/// how many.
async fn restart_rules_without_zone(
    db: &impl ConnectionTrait,
    now: DateTime<Utc>,
) -> Result<usize> {
    let rules = rule::scheduled(db).await?;
    let here =
        rules.iter().filter(|rule| timetable(rule).is_some_and(|table| table.zone.is_none()));
    let windows: Vec<_> = here
        .map(|rule| RuleWindow { rule_id: rule.id, evaluated_at: now, next_fire_at: Some(now) })
        .collect();
    rule::move_windows(db, &windows).await?;
    Ok(windows.len())
}
