//! What an attempt changes in our own database, in the transaction that records it: where the
//! lease still holds, and so exactly once.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};

use super::attempt::Done;
use super::job::Place;
use super::verdict;
use crate::actions;
use crate::domain::access::Scope;
use crate::domain::audit::Change;
use crate::domain::id::{AudienceId, BackendId, LineOaId, ScheduledActionId};
use crate::domain::line::LineOa;
use crate::error::{Error, Result};
use crate::store::{Hold, Tx, audience, line, scheduled_action};

/// A change.
pub(super) enum Effect {
    /// What an action asked for.
    Action(actions::Effect),
    /// A call goes to these backends.
    Address(Vec<BackendId>),
    /// A LINE OA sends nothing for a while.
    Pause { line_oa: LineOaId, until: DateTime<Utc>, reason: &'static str },
    /// It was put off, since it leads where nobody can be asked now. Who changed that in the meantime
    /// has passed it over, because it was under a lease.
    PutOff(Place),
}

/// What attempts ask of a LINE OA.
#[derive(Default)]
struct Asked {
    pause: Option<Pause>,
    /// What was attempted, or put off.
    work: Vec<ScheduledActionId>,
}

/// A pause that attempts ask for.
struct Pause {
    until: DateTime<Utc>,
    reason: &'static str,
    /// When the latest of the attempts began.
    began: DateTime<Utc>,
}

impl Asked {
    fn pause(&mut self, pause: Pause) {
        if self.pause.as_ref().is_none_or(|before| pause.began >= before.began) {
            self.pause = Some(pause);
        }
    }
}

/// Work that adds to an audience which was deleted leads nowhere: it is recorded as cancelled.
pub(super) async fn cancel_lost(tx: &Tx, done: &mut [Done], now: DateTime<Utc>) -> Result<()> {
    let wanted: BTreeSet<_> = done.iter().filter_map(Done::adds_to).collect();
    let gone = missing(tx, wanted).await?;
    for done in done.iter_mut() {
        if done.adds_to().is_some_and(|audience| gone.contains(&audience)) {
            let finished = verdict::cancelled(&done.claimed, "audience_deleted", now);
            (done.finished, done.attempt, done.effect) = (finished, None, None);
        }
    }
    Ok(())
}

/// Those that there are not.
async fn missing(tx: &Tx, mut wanted: BTreeSet<AudienceId>) -> Result<BTreeSet<AudienceId>> {
    if !wanted.is_empty() {
        let ids: Vec<_> = wanted.iter().copied().collect();
        for found in audience::find_all(&**tx, Scope::Everything, &ids).await? {
            wanted.remove(&found.id);
        }
    }
    Ok(wanted)
}

/// Adds to audiences.
///
/// # Errors
/// `BUSY` when one was deleted since [`cancel_lost`] looked: who records looks once more.
async fn add(
    tx: &Tx,
    members: &[(AudienceId, LineOaId, String)],
    now: DateTime<Utc>,
) -> Result<()> {
    audience::add(&**tx, members, now).await?;
    // Those that are there are held now.
    let wanted = members.iter().map(|(audience, ..)| *audience).collect();
    match missing(tx, wanted).await?.is_empty() {
        true => Ok(()),
        false => Err(Error::Busy),
    }
}

/// Makes the changes of `done`, those of a kind in one statement. Answers what belongs into the
/// audit log: changes of what people change too.
pub(super) async fn apply<'a>(
    tx: &Tx,
    done: impl Iterator<Item = (&'a Done, &'a Effect)>,
    now: DateTime<Utc>,
) -> Result<Vec<Change>> {
    let (mut members, mut calls) = (Vec::new(), Vec::new());
    let mut line_oas = BTreeMap::<LineOaId, Asked>::new();
    for (done, effect) in done {
        let id = done.finished.id;
        match effect {
            Effect::Action(actions::Effect::AddToAudience { audience_id, user_id }) => {
                let Some(line_oa) = done.claimed.action.concern.line_oa_id else { continue };
                members.push((*audience_id, line_oa, user_id.clone()));
            }
            Effect::Address(backends) => calls.push((id, backends.clone())),
            Effect::Pause { line_oa, until, reason } => {
                let asked = line_oas.entry(*line_oa).or_default();
                asked.pause(Pause { until: *until, reason, began: done.began });
                asked.work.push(id);
            }
            Effect::PutOff(Place::LineOa(line_oa)) => {
                line_oas.entry(*line_oa).or_default().work.push(id);
            }
            // The caller's affair: backends come first.
            Effect::PutOff(_) => {}
        }
    }
    let (mut changes, mut awake) = (Vec::new(), Vec::new());
    // In the order of their ids, as everybody holds them.
    for (line_oa, asked) in line_oas {
        match paused(tx, line_oa, &asked, now).await? {
            Paused::Now(change) => changes.push(*change),
            Paused::Not => awake.extend(asked.work),
            Paused::Before => {}
        }
    }
    scheduled_action::wake(&**tx, &awake, now).await?;
    add(tx, &members, now).await?;
    scheduled_action::address(&**tx, &calls, now).await?;
    Ok(changes)
}

/// Whether a LINE OA is paused.
enum Paused {
    /// Since now.
    Now(Box<Change>),
    /// It was, for longer, or it is gone.
    Before,
    /// It is not: a person changed it after the attempt began, maybe its credentials, and what the
    /// attempt was answered, or why it was not made, says nothing of those.
    Not,
}

async fn paused(tx: &Tx, id: LineOaId, asked: &Asked, now: DateTime<Utc>) -> Result<Paused> {
    let before = match line::find_held(tx, Scope::Everything, id, Hold::Change).await {
        Err(Error::NotFound { .. }) => return Ok(Paused::Before),
        found => found?,
    };
    if let Some(pause) = &asked.pause
        && line::pause(&**tx, id, pause.until, pause.reason, pause.began).await?
    {
        tracing::warn!(line_oa = %id, name = before.name, until = %pause.until, reason = pause.reason, "a LINE OA is paused: the platform refused what concerns all of it");
        return Ok(Paused::Now(Box::new(pause_change(&before, pause)?)));
    }
    let is_paused = before.paused_until.is_some_and(|until| until > now);
    Ok(if is_paused { Paused::Before } else { Paused::Not })
}

fn pause_change(before: &LineOa, pause: &Pause) -> Result<Change> {
    let after = LineOa {
        paused_until: Some(pause.until),
        paused_reason: Some(pause.reason.to_owned()),
        ..before.clone()
    };
    Ok(Change {
        action: "line_oa.pause",
        entity_type: "line_oa",
        entity_id: before.id.0,
        project_id: Some(before.organization_id),
        application_id: None,
        before: Some(serde_json::to_value(before).map_err(Error::internal)?),
        after: Some(serde_json::to_value(&after).map_err(Error::internal)?),
    })
}
