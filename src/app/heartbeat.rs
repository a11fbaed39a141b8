//! Heartbeats: backends that say they are there.

use chrono::{DateTime, Utc};
use sea_orm::ConnectionTrait;

use super::App;
use super::backend::{application_of, backend_change};
use crate::domain::access::Actor;
use crate::domain::application::{Application, Backend};
use crate::domain::audit::Caller;
use crate::domain::id::{ApplicationId, BackendId};
use crate::domain::input;
use crate::error::{Error, Result};
use crate::store::{Tx, application, delivery};

/// Whose heartbeat it is: of one backend, by id or by name; with neither, of all that the
/// calling machine user registered.
#[derive(Debug, Clone, Default)]
pub struct HeartbeatOf {
    /// By id.
    pub backend_id: Option<BackendId>,
    /// By name; together with an id both must fit.
    pub name: Option<String>,
    /// The application. A machine user need not name its own; others must, unless by id.
    pub application_id: Option<ApplicationId>,
}

impl App {
    /// Notes that backends are there and answers them. One that was inactive for want of
    /// heartbeats receives triggers again at once, which is written to the audit log. A
    /// heartbeat that only moves the time is not: with one each 30 seconds and backend, the log
    /// would hold little else.
    ///
    /// # Errors
    /// `NOT_FOUND` when there is no such backend in the caller's scope, or none at all;
    /// `CONFLICT` when what is meant was deactivated, which only a registration ends;
    /// `FORBIDDEN` for a member.
    pub async fn heartbeat(&self, caller: &Caller, of: HeartbeatOf) -> Result<Vec<Backend>> {
        let now = self.now();
        let by = if of.backend_id.is_none() && of.name.is_some() { "name" } else { "id" };
        let tx = self.store.begin().await?;
        let (application, found) = self.meant(&*tx, &caller.actor, of).await?;
        self.may_keep_backends(&*tx, &caller.actor, &application).await?;
        let mut backends = held(&tx, found).await?;
        let there: Vec<_> =
            backends.iter().filter(|b| b.deactivated_at.is_none()).map(|b| b.id).collect();
        if there.is_empty() {
            return Err(deactivated(by, &backends));
        }
        let timeout = self.heartbeat_timeout();
        let (mut changes, mut back) = (Vec::new(), Vec::new());
        for backend in backends.iter_mut().filter(|b| b.deactivated_at.is_none()) {
            let before = backend.clone();
            backend.last_heartbeat_at = now;
            if !before.is_active(now, timeout) {
                back.push(backend.id);
                let before = self.backend_json(&before, now)?;
                let after = self.backend_json(backend, now)?;
                let states = (Some(before), Some(after));
                changes.push(backend_change("backend.activate", &application, backend.id, states));
            }
        }
        application::touch_backends(&*tx, &there, now).await?;
        if changes.is_empty() {
            tx.commit_unaudited().await?;
        } else {
            delivery::wake_backends(&tx, application.id, &back, now).await?;
            tx.commit(caller, now, &changes).await?;
            self.wake.hint();
        }
        Ok(backends)
    }

    /// The backends that a heartbeat is of, at least one, all of one application.
    async fn meant(
        &self,
        db: &impl ConnectionTrait,
        actor: &Actor,
        of: HeartbeatOf,
    ) -> Result<(Application, Vec<Backend>)> {
        let missing = || Error::NotFound { what: BackendId::WHAT };
        let name = of.name.map(|name| input::name("name", &name)).transpose()?;
        if let Some(id) = of.backend_id {
            let (backend, _) = application::backend(db, actor.scope(), id).await?;
            let fits = name.is_none_or(|name| name == backend.name)
                && of.application_id.is_none_or(|id| id == backend.application_id);
            let application = application::find(db, actor.scope(), backend.application_id).await?;
            return if fits { Ok((application, vec![backend])) } else { Err(missing()) };
        }
        let id = application_of(actor, of.application_id)?;
        let application = application::find(db, actor.scope(), id).await?;
        let backends: Vec<_> = match (name, actor) {
            (Some(name), _) => {
                let found = application::backend_by_name(db, id, &name).await?;
                found.into_iter().map(|(backend, _)| backend).collect()
            }
            (None, Actor::Machine { id: machine, .. }) => {
                let all = application::backends_of(db, &[id]).await?;
                let mut own: Vec<_> =
                    all.into_iter().filter(|b| b.machine_user_id == Some(*machine)).collect();
                own.sort_by(|a, b| a.name.cmp(&b.name));
                own
            }
            (None, _) => {
                let reason = "name or id is required, unless a machine user calls, which means \
                              all that it registered";
                return Err(Error::invalid("name", reason));
            }
        };
        match backends.is_empty() {
            true => Err(missing()),
            false => Ok((application, backends)),
        }
    }

    /// Whether a backend receives triggers at `now`.
    pub fn is_backend_active(&self, backend: &Backend, now: DateTime<Utc>) -> bool {
        backend.is_active(now, self.heartbeat_timeout())
    }
}

/// The backends that were found, held and as they are now: one may have been deactivated, deleted or
/// heard from since.
async fn held(tx: &Tx, found: Vec<Backend>) -> Result<Vec<Backend>> {
    let ids: Vec<_> = found.iter().map(|backend| backend.id).collect();
    let mut held = application::hold_backends(tx, &ids).await?;
    if held.is_empty() {
        return Err(Error::NotFound { what: BackendId::WHAT });
    }
    held.sort_by_key(|backend| ids.iter().position(|id| *id == backend.id));
    Ok(held)
}

fn deactivated(by: &'static str, backends: &[Backend]) -> Error {
    let why = backends.iter().find_map(|b| b.deactivated_reason.as_deref());
    let why = why.map(|why| format!(" ({why})")).unwrap_or_default();
    Error::conflict(by, format!("the backend was deactivated{why}; register it again"))
}
