//! `POST /api/machine/scheduled-actions`, and `GET` and `DELETE` of one of them.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::door::{Authenticated, Body};
use super::problem::Problem;
use crate::app::{App, ScheduleResume};
use crate::domain::audit::Caller;
use crate::domain::id::{BackendId, LineOaId, ScheduledActionId, WorkflowId};
use crate::domain::scheduled_action::ScheduledAction;
use crate::error::{Error, Result};

/// A resume of a workflow: at a node of it, at a time, usually for a user.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(example = json!({
    "workflowId": "0198c0de-0000-7000-8000-000000000006",
    "nodePath": "welcome/wait-a-day",
    "userId": "U0123456789abcdef0123456789abcdef",
    "delay": "1d",
    "expiresAfter": "2h",
    "payload": { "step": 2 },
    "dedupeKey": "welcome:U0123456789abcdef0123456789abcdef:2"
}))]
pub(super) struct ScheduledActionRequest {
    /// The workflow's id.
    #[serde(alias = "workflow_id")]
    #[schema(value_type = String, format = Uuid, required = true)]
    workflow_id: Option<String>,
    /// The node to go on at, in the workflow service's own terms.
    #[serde(alias = "node_path")]
    #[schema(value_type = String, required = true, min_length = 1, max_length = 500)]
    node_path: Option<String>,
    /// LINE's id of the user.
    #[serde(alias = "user_id")]
    #[schema(pattern = "^U[0-9a-f]{32}$")]
    user_id: Option<String>,
    /// A LINE OA of the application's project, which the backends are told.
    #[serde(alias = "line_oa_id")]
    #[schema(format = Uuid)]
    line_oa_id: Option<String>,
    /// When, at most 366 days ahead; a time that has passed means now. Give this or `delay`, or
    /// neither for at once.
    #[serde(alias = "execute_at")]
    #[schema(format = DateTime)]
    execute_at: Option<String>,
    /// After how long, such as `90s`, `2h` or `1d`; at most 366 days.
    #[schema(example = "2h")]
    delay: Option<String>,
    /// How long after that it is not delivered any more. Never longer than deliveries are tried,
    /// a day unless configured otherwise.
    #[serde(alias = "expires_after")]
    #[schema(example = "1d")]
    expires_after: Option<String>,
    /// Reaches the backends as it is: any JSON of at most 64 levels, but for
    /// null, which is `{}` as if it were left out. The whole body holds 64 KiB at most.
    #[schema(value_type = Option<Value>)]
    payload: Option<Value>,
    /// The caller's own key, unique in the application: a second request with it queues nothing and
    /// answers the first one's work, also after that was cancelled, as long as it is kept.
    #[serde(alias = "dedupe_key")]
    #[schema(min_length = 1, max_length = 200)]
    dedupe_key: Option<String>,
}

/// Work that is or was to be delivered to an application's backends.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(example = json!({
    "id": "0198c0de-0000-7000-8000-000000000007",
    "actionType": "resume_workflow",
    "workflowId": "0198c0de-0000-7000-8000-000000000006",
    "nodePath": "welcome/wait-a-day",
    "userId": "U0123456789abcdef0123456789abcdef",
    "lineOaId": null,
    "backendId": null,
    "status": "pending",
    "executeAt": "2026-01-02T00:00:00Z",
    "expiresAt": "2026-01-02T02:00:00Z",
    "executedAt": null,
    "attempts": 0,
    "lastError": null,
    "createdAt": "2026-01-01T00:00:00Z",
    "copies": []
}))]
pub(super) struct ScheduledActionAnswer {
    /// Its id. The backend that it goes to gets it as `action_id`; each copy has an id of its own, and
    /// its backend gets that.
    #[schema(value_type = Uuid)]
    id: ScheduledActionId,
    /// What is done.
    action_type: String,
    /// The workflow's id.
    #[schema(value_type = Option<Uuid>)]
    workflow_id: Option<WorkflowId>,
    /// The node of the workflow.
    node_path: Option<String>,
    /// LINE's id of the user.
    user_id: Option<String>,
    /// The LINE OA's id.
    #[schema(value_type = Option<Uuid>)]
    line_oa_id: Option<LineOaId>,
    /// The id of the backend that it goes to; none until it is due. When there are several it goes to
    /// the first of them, and copies of it to the others.
    #[schema(value_type = Option<Uuid>)]
    backend_id: Option<BackendId>,
    /// `pending`, `processing`, `completed`, `failed`, `expired` or `cancelled`: of the call of its own
    /// backend; `copies` has the states of the others.
    #[schema(value_type = String)]
    status: &'static str,
    /// When the next attempt is due, or when the last one was.
    execute_at: DateTime<Utc>,
    /// From when no attempt starts any more.
    expires_at: Option<DateTime<Utc>>,
    /// When it ended.
    executed_at: Option<DateTime<Utc>>,
    /// How many attempts have ended.
    attempts: i32,
    /// What the last attempt failed with, or why it was cancelled.
    last_error: Option<String>,
    /// When it was queued.
    created_at: DateTime<Utc>,
    /// Its copies, one for each backend but the first, the oldest first. Empty until it is due.
    copies: Vec<CopyAnswer>,
    /// How many pieces this request cancelled, copies included: 0 when a request before it had done
    /// so. Only in the answer to a cancel.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u32, required = false)]
    cancelled: Option<u32>,
}

/// The same work for another backend, which is tried and ends on its own.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(example = json!({
    "id": "0198c0de-0000-7000-8000-000000000009",
    "backendId": "0198c0de-0000-7000-8000-000000000001",
    "status": "failed",
    "lastError": "connection refused"
}))]
pub(super) struct CopyAnswer {
    /// Its id, which its backend gets as `action_id`.
    #[schema(value_type = Uuid)]
    id: ScheduledActionId,
    /// The backend's id.
    #[schema(value_type = Option<Uuid>)]
    backend_id: Option<BackendId>,
    /// `pending`, `processing`, `completed`, `failed`, `expired` or `cancelled`.
    #[schema(value_type = String)]
    status: &'static str,
    /// What the last attempt failed with, or why it was cancelled.
    last_error: Option<String>,
}

/// Queue a resume of a workflow
///
/// At its time, the server POSTs it to every active backend of the workflow's application. Each
/// backend is tried on its own until that backend answers 2xx or the work expires. A machine user
/// queues for the workflows of its own application; a user needs the maintainer or owner role in the
/// application's project.
///
/// With a `dedupeKey` it is safe to repeat after a lost answer. A key holds as long as the work is
/// kept (`retention.delivered` and `retention.failed` of the server's configuration, counted from its
/// end), also after a cancel. Of a repetition `workflowId`, `nodePath` and `userId` are compared with the
/// first request, times and payload are not.
#[utoipa::path(
    post,
    path = "/api/machine/scheduled-actions",
    tag = "Workflows",
    request_body = ScheduledActionRequest,
    responses(
        (status = 200, description = "Work with this dedupeKey was queued before; this is it, and nothing was changed.", body = ScheduledActionAnswer),
        (status = 201, description = "It is queued.", body = ScheduledActionAnswer),
        (status = 404, description = "There is no such workflow or LINE OA, or the caller may not see it.", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "The dedupeKey was given to work with another workflowId, nodePath or userId.", body = Problem, content_type = "application/problem+json"),
    ),
)]
pub(super) async fn create(
    Authenticated(caller): Authenticated,
    State(app): State<Arc<App>>,
    Body(request): Body<ScheduledActionRequest>,
) -> Result<(StatusCode, Json<ScheduledActionAnswer>), Problem> {
    let (action, created) = app.schedule_resume(&caller, request.parse()?).await?;
    if created {
        // Nothing is read any more that could fail: it is queued.
        return Ok((StatusCode::CREATED, Json(ScheduledActionAnswer::of(action, Vec::new()))));
    }
    Ok((StatusCode::OK, Json(answer(&app, &caller, action).await?)))
}

/// Show queued work
///
/// Any delivery of a rule or a workflow service to the backends of the caller's application, with its
/// copies for several backends.
#[utoipa::path(
    get,
    path = "/api/machine/scheduled-actions/{id}",
    tag = "Workflows",
    params(("id" = Uuid, Path, description = "The scheduled action's id.")),
    responses(
        (status = 200, description = "The work as it is now.", body = ScheduledActionAnswer),
        (status = 404, description = "There is no such work, or the caller may not see it.", body = Problem, content_type = "application/problem+json"),
    ),
)]
pub(super) async fn show(
    Authenticated(caller): Authenticated,
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
) -> Result<Json<ScheduledActionAnswer>, Problem> {
    let id = ScheduledActionId::parse(&id)?;
    let action = app.application_action(&caller.actor, id).await?;
    Ok(Json(answer(&app, &caller, action).await?))
}

/// Cancel queued work
///
/// What is not delivered yet, to whichever backend, will not be: its copies are cancelled with it. An
/// attempt under way is not stopped, but there will be no other. `cancelled` says how many pieces were
/// cancelled. Safe to repeat after a lost answer. Allowed to the application's machine users, and to
/// users with the maintainer or owner role.
#[utoipa::path(
    delete,
    path = "/api/machine/scheduled-actions/{id}",
    tag = "Workflows",
    params(("id" = Uuid, Path, description = "The scheduled action's id.")),
    responses(
        (status = 200, description = "It is cancelled, or was before: `status` and `copies` say what was delivered all the same.", body = ScheduledActionAnswer),
        (status = 404, description = "There is no such work, or the caller may not see it.", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "All of it has ended already, and none of it by a cancel.", body = Problem, content_type = "application/problem+json"),
    ),
)]
pub(super) async fn cancel(
    Authenticated(caller): Authenticated,
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
) -> Result<Json<ScheduledActionAnswer>, Problem> {
    let id = ScheduledActionId::parse(&id)?;
    let (action, cancelled) = app.cancel_application_action(&caller, id).await?;
    let answer = answer(&app, &caller, action).await?;
    Ok(Json(ScheduledActionAnswer { cancelled: Some(cancelled), ..answer }))
}

async fn answer(
    app: &App,
    caller: &Caller,
    action: ScheduledAction,
) -> Result<ScheduledActionAnswer> {
    let copies = app.scheduled_action_copies(caller.actor.scope(), &[action.id]).await?;
    Ok(ScheduledActionAnswer::of(action, copies))
}

impl ScheduledActionRequest {
    fn parse(self) -> Result<ScheduleResume> {
        let required = |field: &'static str, text: Option<String>| {
            text.ok_or_else(|| Error::invalid(field, format!("{field} is required")))
        };
        Ok(ScheduleResume {
            workflow_id: WorkflowId::parse(&required("workflowId", self.workflow_id)?)?,
            node_path: required("nodePath", self.node_path)?,
            user_id: self.user_id,
            line_oa_id: self.line_oa_id.as_deref().map(LineOaId::parse).transpose()?,
            execute_at: self.execute_at,
            delay: self.delay,
            expires_after: self.expires_after,
            payload: self.payload,
            dedupe_key: self.dedupe_key,
        })
    }
}

impl ScheduledActionAnswer {
    fn of(action: ScheduledAction, copies: Vec<ScheduledAction>) -> Self {
        Self {
            id: action.id,
            action_type: action.action_type,
            workflow_id: action.cause.workflow_id,
            node_path: action.cause.workflow_node_path,
            user_id: action.concern.user_id,
            line_oa_id: action.concern.line_oa_id,
            backend_id: action.concern.backend_id,
            status: action.status.as_str(),
            execute_at: action.execute_at,
            expires_at: action.expires_at,
            executed_at: action.executed_at,
            attempts: action.retry_count,
            last_error: action.last_error,
            created_at: action.created_at,
            copies: copies.into_iter().map(CopyAnswer::from).collect(),
            cancelled: None,
        }
    }
}

impl From<ScheduledAction> for CopyAnswer {
    fn from(copy: ScheduledAction) -> Self {
        Self {
            id: copy.id,
            backend_id: copy.concern.backend_id,
            status: copy.status.as_str(),
            last_error: copy.last_error,
        }
    }
}
