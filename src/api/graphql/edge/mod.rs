//! The way in and out of GraphQL: HTTP, websockets, and the limits that hold on both.

mod absent;
mod cost;
mod guard;
mod http;
mod media;
mod origin;
mod scan;
mod socket;
#[cfg(test)]
mod tests;

use std::sync::{Arc, OnceLock};

use async_graphql::parser::types::OperationType;
use async_graphql::{Pos, Request, Response, ServerError, Variables};
use axum::Router;
use axum::routing::{MethodRouter, get};
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;

use self::absent::Absences;
use self::guard::Guard;
use super::context::Budget;
use super::error::{Fault, Outcome, publish, refusal};
use super::live::Presented;
use super::loaders::Loaders;
use super::session::Origin;
use super::subscriber::{EachEvent, Subscriber};
use super::{Builder, Schema, builder};
use crate::app::App;
use crate::domain::audit::Caller;
use crate::error::{Error, Result};

/// The longest body of a request and the longest message over a websocket, in bytes.
const BODY_MAX: usize = 1024 * 1024;

/// Routes of the API: `POST /graphql` for all operations but subscriptions, `GET /graphql` for
/// queries, and for websockets that speak `graphql-transport-ws`; `/query` is the same.
pub fn router(app: Arc<App>) -> Router {
    let service = Arc::new(Service::new(app));
    let routes: MethodRouter<Arc<Service>> = get(http::get).post(http::post);
    Router::new().route("/graphql", routes.clone()).route("/query", routes).with_state(service)
}

/// The only one who executes: what leaves it may be read by the client.
struct Service {
    app: Arc<App>,
    schema: Schema,
    /// Made when somebody subscribes: with an extension each single field takes a longer way.
    subscriptions: OnceLock<Schema>,
    guard: Guard,
    absences: Absences,
}

/// A request that may be executed.
struct Checked {
    request: Request,
    kind: OperationType,
    /// The text of its document, which is parsed already.
    text: String,
}

/// Who sends a request, and from where.
#[derive(Clone)]
struct Visitor {
    caller: Option<Caller>,
    presented: Presented,
    origin: Origin,
}

/// An operation as a client writes it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Operation {
    query: Option<String>,
    #[serde(default)]
    operation_name: Option<String>,
    #[serde(default)]
    variables: Option<Variables>,
    /// Accepted and not used.
    #[serde(default, rename = "extensions")]
    _extensions: Option<serde_json::Map<String, serde_json::Value>>,
}

impl Operation {
    /// None without a document.
    fn into_request(self) -> Option<Request> {
        let mut request = Request::new(self.query?);
        request.operation_name = self.operation_name;
        request.variables = self.variables.unwrap_or_default();
        Some(request)
    }
}

impl Service {
    fn new(app: Arc<App>) -> Self {
        let guard = Guard::new(&app.config.graphql);
        let schema = limited().data(Arc::clone(&app)).finish();
        let (subscriptions, absences) = (OnceLock::new(), Absences::default());
        Self { app, schema, subscriptions, guard, absences }
    }

    fn schema(&self, kind: OperationType) -> &Schema {
        let with_events = || limited().data(Arc::clone(&self.app)).extension(EachEvent).finish();
        match kind {
            OperationType::Subscription => self.subscriptions.get_or_init(with_events),
            _ => &self.schema,
        }
    }

    /// Looks who it is. Without credentials anyone may come in, and do little.
    async fn admit(&self, presented: Option<SecretString>, origin: Origin) -> Result<Visitor> {
        let caller = match &presented {
            None => None,
            Some(header) => Some(Caller {
                actor: self
                    .app
                    .authenticate_from(Some(header.expose_secret()), origin.address)
                    .await?,
                request_id: origin.request_id.clone(),
            }),
        };
        Ok(Visitor { caller, presented: Presented(presented), origin })
    }

    /// What is to be executed, or why nothing is.
    async fn check(&self, mut request: Request) -> Result<Checked, Vec<ServerError>> {
        let kind = self.guard.check(&mut request)?;
        if kind == OperationType::Mutation {
            let refused = |error| vec![Fault::from(error).into_server_error(Pos::default())];
            self.app.clock_holds().map_err(refused)?;
        }
        let mut request = self.absences.leave_out(request).await?;
        let text = std::mem::take(&mut request.query);
        Ok(Checked { request, kind, text })
    }

    /// Executes a query or a mutation.
    async fn execute(&self, request: Request, visitor: Visitor) -> (Response, Outcome) {
        let request_id = visitor.origin.request_id.clone().unwrap_or_default();
        let (mut response, text) = match self.check(request).await {
            Ok(Checked { request, kind, text }) => {
                (self.schema.execute(self.equip(request, visitor, kind)).await, text)
            }
            Err(errors) => (Response::from_errors(errors), String::new()),
        };
        let outcome = publish(&mut response, &request_id, &text);
        (response, outcome)
    }

    /// Executes any operation, and says of what kind it is when it begins. Who it is, is looked at anew:
    /// a connection may outlive a token. No subscription begins when the process ends.
    fn stream(
        self: Arc<Self>,
        request: Request,
        presented: Option<SecretString>,
        origin: Origin,
        begun: Arc<OnceLock<OperationType>>,
    ) -> BoxStream<'static, (Response, Outcome)> {
        let request_id = origin.request_id.clone().unwrap_or_default();
        let stream = async move {
            let visitor = match self.admit(presented, origin).await {
                Ok(visitor) => visitor,
                Err(error) => {
                    let refused = (refusal(&error, &request_id), Outcome::Refused);
                    return futures::stream::iter([refused]).boxed();
                }
            };
            let (responses, text) = match self.check(request).await {
                Ok(Checked { request, kind, text }) => {
                    if kind == OperationType::Subscription && self.app.stopping.is_cancelled() {
                        let refused = (refusal(&Error::Busy, &request_id), Outcome::Refused);
                        return futures::stream::iter([refused]).boxed();
                    }
                    let _ = begun.set(kind);
                    let request = self.equip(request, visitor, kind);
                    (self.schema(kind).execute_stream(request), text)
                }
                Err(errors) => {
                    let refused = Response::from_errors(errors);
                    (futures::stream::iter([refused]).boxed(), String::new())
                }
            };
            let published = responses.map(move |mut response| {
                let outcome = publish(&mut response, &request_id, &text);
                (response, outcome)
            });
            published.boxed()
        };
        stream.flatten_stream().boxed()
    }

    fn equip(&self, request: Request, visitor: Visitor, kind: OperationType) -> Request {
        let request = request.data(visitor.presented).data(visitor.origin).data(Budget::default());
        match visitor.caller {
            None => request,
            Some(caller) => {
                // Within a query nothing changes that it has seen.
                let keeps = kind == OperationType::Query;
                let scope = caller.actor.scope();
                let loaders = Loaders::of_request(Arc::clone(&self.app), scope, keeps);
                let request = match kind {
                    OperationType::Subscription => {
                        request.data(Arc::new(Subscriber::new(caller.clone())))
                    }
                    _ => request,
                };
                request.data(loaders).data(caller)
            }
        }
    }
}

/// A schema that walks documents as deep as the guard lets them be.
fn limited() -> Builder {
    builder().limit_recursive_depth(cost::LEVELS)
}

/// Whether an error is about the credentials that were presented.
fn is_unauthenticated(error: &Error) -> bool {
    matches!(error, Error::Unauthenticated { .. })
}
