//! `POST /api/line/webhook/{lineOaId}`.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Request, State};
use serde_json::{Value, json};

use super::door::read_up_to;
use super::problem::{Problem, request_id};
use crate::app::{App, IncomingWebhook};

/// The largest body, in bytes. The platform sends far less.
const WEBHOOK_MAX: usize = 1024 * 1024;

const SIGNATURE: &str = "x-line-signature";

/// Receive a webhook of the LINE platform
///
/// The address to set as the webhook URL of a LINE OA's channel. The body is taken only with the
/// signature that the platform makes with the channel secret; a wrong one and an unknown LINE OA
/// get the same answer.
///
/// A user who follows the account is a `friend_track_event_inserted` event, with the platform's
/// `webhookEventId` as its id and `isUnblocked`, `isFirst` and `source` as its payload. Follows and
/// unfollows are remembered, and every user who does something becomes known. Other events, those
/// of groups and rooms, and those of mode `standby` do nothing. Delivered again, a webhook changes
/// nothing.
///
/// What changed something is written to the audit log as `line_webhook.receive`.
#[utoipa::path(
    post,
    path = "/api/line/webhook/{lineOaId}",
    tag = "LINE",
    params(("lineOaId" = Uuid, Path, description = "The LINE OA's id.")),
    request_body(content = Value, description = "What the platform sends: `destination` and `events`; at most 1 MiB.", content_type = "application/json"),
    responses(
        (status = 200, description = "It was taken, and will not be needed again.", body = Value, example = json!({})),
        (status = 401, description = "The signature is missing or wrong, or there is no such LINE OA.", body = Problem, content_type = "application/problem+json"),
        (status = 413, description = "The body has more than 1 MiB.", body = Problem, content_type = "application/problem+json"),
    ),
    security(("lineSignature" = [])),
)]
pub(super) async fn receive_webhook(
    State(app): State<Arc<App>>,
    Path(line_oa_id): Path<String>,
    request: Request,
) -> Result<Json<Value>, Problem> {
    let signature = match request.headers().get(SIGNATURE) {
        Some(signature) => signature.clone(),
        None => return Err(app.refuse_line_webhook().into()),
    };
    app.clock_holds()?;
    let request_id = request_id(request.extensions());
    let body = read_up_to(request, WEBHOOK_MAX).await?;
    let incoming = IncomingWebhook {
        line_oa_id: &line_oa_id,
        signature: signature.as_bytes(),
        body: &body,
        request_id,
    };
    app.receive_line_webhook(incoming).await?;
    Ok(Json(json!({})))
}
