//! Registering and deleting backends.
//!
//! A registration is a statement, not a step: saying it twice leaves what saying it once left.
//! That is why it needs no idempotency key. Only the secrets made here can get lost, when the
//! answer that shows them does; [`RegisterBackend::rotate_secrets`] makes new ones.

mod secrets;

pub(crate) use self::secrets::secret_place;

use chrono::{DateTime, Utc};
use sea_orm::ConnectionTrait;
use secrecy::SecretString;
use serde_json::{Value, json};

use self::secrets::GivenSecrets;
use super::App;
use crate::domain::access::{Actor, Role};
use crate::domain::application::{Application, Backend};
use crate::domain::audit::{Caller, Change};
use crate::domain::id::{ApplicationId, BackendId};
use crate::domain::input;
use crate::error::{Error, Result};
use crate::store::withdrawal::{Kind, Owner};
use crate::store::{Hold, application, delivery};

/// The most backends of one application.
pub const BACKENDS_MAX: usize = 100;

/// What a backend says of itself. What is none stays as it is, or is empty on a new backend.
#[derive(Debug, Clone, Default)]
pub struct RegisterBackend {
    /// The application. A machine user need not name its own; everybody else must.
    pub application_id: Option<ApplicationId>,
    /// Required, up to 100 characters; unique in the application.
    pub name: String,
    /// Where it is called; see [`crate::egress::AddressPolicy::parse_url`].
    pub callback_url: String,
    /// Up to 1000 characters.
    pub description: Option<String>,
    /// Up to 100 characters; an empty one takes it away.
    pub version: Option<String>,
    /// The token that callbacks carry: 16 to 512 visible ASCII characters.
    pub token: Option<SecretString>,
    /// The secret that signs callbacks, `whsec_…`.
    pub signing_secret: Option<SecretString>,
    /// Whether secrets that are not given are made anew.
    pub rotate_secrets: bool,
}

/// What came of a registration.
#[derive(Debug)]
pub struct Registration {
    /// The backend.
    pub backend: Backend,
    /// Whether it is new.
    pub created: bool,
    /// The token, if it was made just now. Never shown again.
    pub token: Option<SecretString>,
    /// The signing secret, if it was made just now. Never shown again.
    pub signing_secret: Option<SecretString>,
}

/// A registration whose every value fits.
struct Checked {
    name: String,
    callback_url: String,
    description: Option<String>,
    version: Option<Option<String>>,
    secrets: GivenSecrets,
}

impl App {
    /// Registers a backend, or refreshes the one of the same application and name. Counts as a
    /// heartbeat and ends a deactivation; one that was not active has its waiting work due now.
    /// Two at once for one name: one makes it, the other refreshes it.
    ///
    /// # Errors
    /// `NOT_FOUND` for an application that the caller may not see, `FORBIDDEN` for a member,
    /// `INVALID` for a value, `CALLBACK_URL_INVALID` and `CALLBACK_ADDRESS_REFUSED` for the URL
    /// (its name is looked up before anything is written), `CONFLICT` beyond [`BACKENDS_MAX`].
    pub async fn register_backend(
        &self,
        caller: &Caller,
        new: RegisterBackend,
    ) -> Result<Registration> {
        let id = application_of(&caller.actor, new.application_id)?;
        let application = application::find(self.store.read(), caller.actor.scope(), id).await?;
        self.may_keep_backends(self.store.read(), &caller.actor, &application).await?;
        let checked = self.check_registration(new).await.inspect_err(|error| {
            if error.code() == "CALLBACK_ADDRESS_REFUSED" {
                tracing::warn!(application = %id, %error, "a callback URL was refused");
            }
        })?;
        self.write_registration(caller, id, checked).await
    }

    /// Deletes a backend. What is not delivered to it yet is cancelled and counts as failed in its
    /// occurrences; of very much, the rest in steps by the executors, which send none of it. Allowed to the application's machine users and
    /// to maintainers.
    pub async fn delete_backend(&self, caller: &Caller, id: BackendId) -> Result<Backend> {
        const REASON: &str = "backend_deleted";
        let now = self.now();
        let tx = self.store.begin().await?;
        let scope = caller.actor.scope();
        let (found, _) = application::backend(&*tx, scope, id).await?;
        let application = application::find(&*tx, scope, found.application_id).await?;
        self.may_keep_backends(&*tx, &caller.actor, &application).await?;
        // Work before the backend, as whoever finishes it; and once more, for what a pass that
        // read of the backend has queued meanwhile.
        let (project_id, application_id) = (application.project_id, Some(application.id));
        let owner = Owner { kind: Kind::Backend, id: id.0, project_id, application_id };
        let mut back = self.take_back(&tx, owner, (REASON, now));
        back.cancel().await?;
        let before = application::backend_held(&tx, scope, id).await?;
        application::delete_backend(&*tx, id).await?;
        back.cancel().await?;
        let before_json = self.backend_json(&before, now)?;
        let states = (Some(before_json), None);
        let mut change = backend_change("backend.delete", &application, id, states);
        back.leave_rest(&mut change.before, now).await?;
        tx.commit(caller, now, &[change]).await?;
        self.wake.hint();
        Ok(before)
    }

    /// Checks that `actor` may register, keep alive and delete an application's backends: its
    /// machine users and its project's maintainers may. The application was found in its scope.
    pub(super) async fn may_keep_backends(
        &self,
        db: &impl ConnectionTrait,
        actor: &Actor,
        application: &Application,
    ) -> Result<()> {
        match actor {
            Actor::Machine { application_id, .. } if *application_id == application.id => Ok(()),
            _ => self.require(db, actor, application.project_id, Role::Maintainer).await,
        }
    }

    /// A backend as an audit row shows it.
    pub(super) fn backend_json(&self, backend: &Backend, now: DateTime<Utc>) -> Result<Value> {
        let mut value = serde_json::to_value(backend).map_err(Error::internal)?;
        value["active"] = json!(backend.is_active(now, self.heartbeat_timeout()));
        Ok(value)
    }

    /// Checks each value. Asks the DNS, so no transaction may be open.
    async fn check_registration(&self, new: RegisterBackend) -> Result<Checked> {
        let name = input::name("name", &new.name)?;
        let description =
            new.description.map(|text| input::description("description", &text)).transpose()?;
        let version = new.version.map(|text| version(&text)).transpose()?;
        let secrets = GivenSecrets::check(new.token, new.signing_secret, new.rotate_secrets)?;
        if new.callback_url.trim().is_empty() {
            return Err(Error::invalid("callbackUrl", "callbackUrl is required"));
        }
        let url = self.egress.policy().parse_url(&new.callback_url)?;
        self.egress.check(&url).await?;
        Ok(Checked { name, callback_url: url.as_str().to_owned(), description, version, secrets })
    }

    async fn write_registration(
        &self,
        caller: &Caller,
        id: ApplicationId,
        new: Checked,
    ) -> Result<Registration> {
        let now = self.now();
        let tx = self.store.begin().await?;
        let application =
            application::find_held(&tx, caller.actor.scope(), id, Hold::Change).await?;
        self.may_keep_backends(&*tx, &caller.actor, &application).await?;
        let before = application::backend_by_name(&*tx, id, &new.name).await?;
        if before.is_none() {
            check_room(&*tx, id).await?;
        }
        let (before, stored) = before.unzip();
        let backend = registered(before.as_ref(), id, &caller.actor, &new, now);
        let sealed = self.seal(backend.id, stored.as_ref(), new.secrets)?;
        let timeout = self.heartbeat_timeout();
        // Who was called in vain, be it elsewhere, is called now.
        let awakes = before.as_ref().is_none_or(|before| {
            !before.is_active(now, timeout) || before.callback_url != backend.callback_url
        });
        application::upsert_backend(&*tx, &backend, &sealed.stored).await?;
        if awakes {
            delivery::wake_backends(&tx, id, &[backend.id], now).await?;
        }
        let before_json =
            before.as_ref().map(|before| self.backend_json(before, now)).transpose()?;
        let mut after_json = self.backend_json(&backend, now)?;
        after_json["replacedSecrets"] = json!(sealed.replaced);
        let states = (before_json, Some(after_json));
        let change = backend_change("backend.register", &application, backend.id, states);
        tx.commit(caller, now, &[change]).await?;
        if awakes {
            self.wake.hint();
        }
        Ok(Registration {
            created: before.is_none(),
            backend,
            token: sealed.token,
            signing_secret: sealed.signing_secret,
        })
    }
}

/// The application that a call is about: the one it names, else the machine user's own.
pub(super) fn application_of(actor: &Actor, named: Option<ApplicationId>) -> Result<ApplicationId> {
    match (named, actor) {
        (Some(id), _) => Ok(id),
        (None, Actor::Machine { application_id, .. }) => Ok(*application_id),
        (None, _) => Err(Error::invalid(
            "applicationId",
            "applicationId is required, unless a machine user calls, whose application is known",
        )),
    }
}

async fn check_room(db: &impl ConnectionTrait, id: ApplicationId) -> Result<()> {
    if application::backends_of(db, &[id]).await?.len() < BACKENDS_MAX {
        return Ok(());
    }
    let reason = format!(
        "an application has at most {BACKENDS_MAX} backends; delete one, or register under the \
         name of one that there is"
    );
    Err(Error::conflict("name", reason))
}

fn registered(
    before: Option<&Backend>,
    application_id: ApplicationId,
    actor: &Actor,
    new: &Checked,
    now: DateTime<Utc>,
) -> Backend {
    let registrar = match actor {
        Actor::Machine { id, .. } => Some(*id),
        _ => None,
    };
    Backend {
        id: before.map_or_else(BackendId::new, |before| before.id),
        application_id,
        machine_user_id: registrar.or(before.and_then(|before| before.machine_user_id)),
        name: new.name.clone(),
        description: new
            .description
            .clone()
            .or_else(|| before.map(|before| before.description.clone()))
            .unwrap_or_default(),
        callback_url: new.callback_url.clone(),
        version: new
            .version
            .clone()
            .unwrap_or_else(|| before.and_then(|before| before.version.clone())),
        registered_at: now,
        last_heartbeat_at: now,
        deactivated_at: None,
        deactivated_reason: None,
        created_at: before.map_or(now, |before| before.created_at),
        updated_at: now,
    }
}

fn version(text: &str) -> Result<Option<String>> {
    if text.trim().is_empty() { Ok(None) } else { input::name("version", text).map(Some) }
}

pub(super) fn backend_change(
    action: &'static str,
    application: &Application,
    id: BackendId,
    (before, after): (Option<Value>, Option<Value>),
) -> Change {
    Change {
        action,
        entity_type: "backend",
        entity_id: id.0,
        project_id: Some(application.project_id),
        application_id: Some(application.id),
        before,
        after,
    }
}
