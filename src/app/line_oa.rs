//! LINE Official Accounts of projects. Maintainers and owners write; machine users see none.

mod credentials;

use sea_orm::ConnectionTrait;
use secrecy::SecretString;
use serde_json::json;

use super::App;
use super::change::change;
use crate::domain::access::{Actor, Role, Scope};
use crate::domain::audit::{Caller, Change};
use crate::domain::id::{LineOaId, ProjectId};
use crate::domain::input;
use crate::domain::line::LineOa;
use crate::domain::page::{Page, PageRequest};
use crate::error::{Error, Result};
use crate::store::line::{LineSecrets, NewLineSecrets};
use crate::store::withdrawal::{Kind, Owner};
use crate::store::{Hold, Tx, cycle, line, people, rule};

pub use credentials::LineCredentials;
pub(super) use credentials::{secret_place, token_place};

/// What a new LINE OA is made of.
#[derive(Debug, Clone)]
pub struct CreateLineOa {
    /// The project it belongs to.
    pub project_id: ProjectId,
    /// Required, up to 100 characters.
    pub name: String,
    /// The channel's number at LINE: 1 to 20 digits, unique in the whole server.
    pub channel_id: String,
    /// The channel's secret: 1 to 200 visible ASCII characters.
    pub channel_secret: SecretString,
    /// The channel's access token: 1 to 4000 visible ASCII characters.
    pub channel_access_token: SecretString,
}

/// What of a LINE OA is to change; what is none stays.
#[derive(Debug, Clone, Default)]
pub struct UpdateLineOa {
    /// A new name.
    pub name: Option<String>,
    /// Another channel.
    pub channel_id: Option<String>,
    /// A new channel secret.
    pub channel_secret: Option<SecretString>,
    /// A new access token.
    pub channel_access_token: Option<SecretString>,
}

impl App {
    /// Makes a LINE OA. Its credentials are stored encrypted and can't be read again.
    ///
    /// # Errors
    /// `NOT_FOUND` for the project; `FORBIDDEN`; `INVALID` on a field; `CONFLICT` on `channelId`
    /// when the channel is in use, in whichever project.
    pub async fn create_line_oa(&self, caller: &Caller, new: CreateLineOa) -> Result<LineOa> {
        let now = self.now();
        let tx = self.store.begin().await?;
        let project = people::project(&*tx, caller.actor.scope(), new.project_id).await?;
        self.require(&*tx, &caller.actor, project.id, Role::Maintainer).await?;
        let line_oa = LineOa {
            id: LineOaId::new(),
            organization_id: project.id,
            name: input::name("name", &new.name)?,
            channel_id: channel_id(&new.channel_id)?,
            paused_until: None,
            paused_reason: None,
            created_at: now,
            updated_at: now,
        };
        let secrets = LineSecrets {
            channel_secret: self.seal_line_secret(line_oa.id, &new.channel_secret)?,
            channel_access_token: self.seal_line_token(line_oa.id, &new.channel_access_token)?,
        };
        line::insert(&*tx, &line_oa, &secrets).await?;
        let created = line_change("line_oa.create", &line_oa, None, Some(&line_oa))?;
        tx.commit(caller, now, &[created]).await?;
        Ok(line_oa)
    }

    /// Changes a LINE OA. New credentials end its pause, and what waits to be sent is tried again
    /// at once. The audit row says only that they were changed.
    ///
    /// # Errors
    /// `NOT_FOUND`; `FORBIDDEN`; `INVALID` on a field; `CONFLICT` on `channelId` when the channel
    /// is in use, in whichever project.
    pub async fn update_line_oa(
        &self,
        caller: &Caller,
        id: LineOaId,
        update: UpdateLineOa,
    ) -> Result<LineOa> {
        let now = self.now();
        let tx = self.store.begin().await?;
        let renews = update.channel_secret.is_some() || update.channel_access_token.is_some();
        let before = self.held_line_oa(&tx, &caller.actor, id, Hold::Change).await?;
        if renews {
            line::wake(&*tx, id, now).await?;
        }
        let mut after = LineOa { updated_at: now, ..before.clone() };
        if let Some(name) = update.name {
            after.name = input::name("name", &name)?;
        }
        if let Some(channel) = update.channel_id {
            after.channel_id = channel_id(&channel)?;
        }
        let (secret, token) = (update.channel_secret, update.channel_access_token);
        let secrets = NewLineSecrets {
            channel_secret: secret.map(|text| self.seal_line_secret(id, &text)).transpose()?,
            channel_access_token: token.map(|text| self.seal_line_token(id, &text)).transpose()?,
        };
        let renewed = [
            ("channelSecretChanged", secrets.channel_secret.is_some()),
            ("channelAccessTokenChanged", secrets.channel_access_token.is_some()),
        ];
        if secrets != NewLineSecrets::default() {
            after.paused_until = None;
            after.paused_reason = None;
        }
        line::update(&*tx, &after, secrets).await?;
        let mut updated = line_change("line_oa.update", &after, Some(&before), Some(&after))?;
        if let Some(after) = &mut updated.after {
            for (name, _) in renewed.into_iter().filter(|(_, changed)| *changed) {
                after[name] = true.into();
            }
        }
        tx.commit(caller, now, &[updated]).await?;
        self.wake.hint();
        Ok(after)
    }

    /// Deletes a LINE OA for good, with its rules, events, users and audiences. What is not done
    /// yet is cancelled, of very much the rest in steps by the executors, which start none of it; the
    /// trigger log stays until its retention ends.
    /// The audit row says how much went.
    ///
    /// # Errors
    /// `NOT_FOUND`; `FORBIDDEN`.
    pub async fn delete_line_oa(&self, caller: &Caller, id: LineOaId) -> Result<LineOa> {
        const REASON: &str = "line_oa_deleted";
        let now = self.now();
        let tx = self.store.begin().await?;
        let found = self.writable_line_oa(&*tx, &caller.actor, id).await?;
        // Work before what it is for, as whoever finishes it; and once more, for what evaluations
        // and walks that were under way have queued.
        let project_id = found.organization_id;
        let owner = Owner { kind: Kind::LineOa, id: id.0, project_id, application_id: None };
        let mut back = self.take_back(&tx, owner, (REASON, now));
        back.cancel().await?;
        rule::hold_rules(&tx, &[id]).await?;
        cycle::hold_of_line_oa(&tx, id).await?;
        back.cancel().await?;
        let before = self.held_line_oa(&tx, &caller.actor, id, Hold::Delete).await?;
        let contents = line::contents(&*tx, id).await?;
        line::delete(&*tx, id).await?;
        back.cancel().await?;
        let mut deleted = line_change("line_oa.delete", &before, Some(&before), None)?;
        if let Some(before) = &mut deleted.before {
            before["contents"] = json!(contents);
        }
        back.leave_rest(&mut deleted.before, now).await?;
        tx.commit(caller, now, &[deleted]).await?;
        self.wake.hint();
        Ok(before)
    }

    /// The LINE OA of that id.
    pub async fn line_oa(&self, scope: Scope, id: LineOaId) -> Result<LineOa> {
        line::shown(self.store.read(), scope, id).await
    }

    /// The LINE OAs of these ids, in no order; those out of scope are left out.
    pub async fn line_oas_by_ids(&self, scope: Scope, ids: &[LineOaId]) -> Result<Vec<LineOa>> {
        line::find_all(self.store.read(), scope, ids).await
    }

    /// The LINE OAs in scope, of one project or of all, by name.
    pub async fn line_oas(
        &self,
        scope: Scope,
        project: Option<ProjectId>,
        request: &PageRequest,
    ) -> Result<Page<LineOa>> {
        line::list(self.store.read(), scope, project, request).await
    }

    /// The LINE OA of that id, if `actor` may see it and has at least the maintainer role in its
    /// project.
    pub(super) async fn writable_line_oa(
        &self,
        db: &impl ConnectionTrait,
        actor: &Actor,
        id: LineOaId,
    ) -> Result<LineOa> {
        let line_oa = line::shown(db, actor.scope(), id).await?;
        self.require(db, actor, line_oa.organization_id, Role::Maintainer).await?;
        Ok(line_oa)
    }

    /// The same, held.
    pub(super) async fn held_line_oa(
        &self,
        tx: &Tx,
        actor: &Actor,
        id: LineOaId,
        hold: Hold,
    ) -> Result<LineOa> {
        let line_oa = line::find_held(tx, actor.scope(), id, hold).await?;
        self.require(&**tx, actor, line_oa.organization_id, Role::Maintainer).await?;
        Ok(line_oa)
    }
}

/// LINE's own ids of channels are ten digits at present.
fn channel_id(text: &str) -> Result<String> {
    let text = text.trim();
    if (1..=20).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Ok(text.to_owned());
    }
    let reason = "channelId must be the channel's number at LINE: 1 to 20 digits, \
                  for example 1234567890";
    Err(Error::invalid("channelId", reason))
}

fn line_change(
    action: &'static str,
    of: &LineOa,
    before: Option<&LineOa>,
    after: Option<&LineOa>,
) -> Result<Change> {
    let project_id = Some(of.organization_id);
    Ok(Change { project_id, ..change(action, ("line_oa", of.id), before, after)? })
}
