//! What people and front ends wait for: a list, and a change. Requests go through the whole of the
//! server but the socket: sign-in, roles, the cost of the document, the database, the answer.
//! Beside the list stands the same query over rows in memory, by the same library.

use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use async_graphql::{EmptyMutation, EmptySubscription, Object, Schema, SimpleObject};
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode};
use chrono::Utc;
use sea_orm::ConnectionTrait;
use secrecy::ExposeSecret;
use serde_json::{Value, json};
use tower::ServiceExt;
use trigger_manager::api;
use trigger_manager::domain::trigger::Trigger;
use trigger_manager::store::{Engine, Store};
use uuid::Uuid;

use crate::bare::sql;
use crate::measure::Meter;
use crate::place::Source;
use crate::receiver::Receiver;
use crate::report::{Figures, Line};
use crate::seed::{Shape, seed};

const ROWS: usize = 50;
const REQUESTS: usize = 4_000;
const CALLERS: usize = 16;
const LARGEST_ANSWER: usize = 1 << 20;

const LIST: &str = "query($application: ID) {
    triggers(applicationId: $application, first: 50) {
        nodes {
            id name description runKey cronExpression enabled nextRunAt createdAt updatedAt
            application { id name slug project { id name slug } } }
        pageInfo { hasNextPage endCursor } } }";

const CREATE: &str = "mutation($application: ID!) {
    createTrigger(input: {
        applicationId: $application, name: \"Made\", runKey: \"made\", cronExpression: \"@daily\",
        enabled: true }) { id nextRunAt } }";

/// A list of 50 rows with what they belong to, the same from memory, and a mutation with its audit
/// row.
pub async fn api(source: &Source) -> Result<Vec<Line>> {
    let place = source.fresh().await?;
    let app = place.app().await?;
    let token = app.bootstrap().await?.token.context("a fresh database")?;
    let token = format!("Bearer {}", token.expose_secret());
    let shape = Shape { applications: 1, backends: 0, triggers: ROWS };
    let receiver = Receiver::start()?;
    let made = seed(&app, &receiver, shape, ("0 0 0 1 1 *", Utc::now())).await?;
    let triggers: Vec<_> = made.into_iter().map(|(trigger, _)| trigger).collect();
    let application = triggers[0].application_id.to_string();
    let asked =
        |query: &str| json!({ "query": query, "variables": { "application": application } });
    let server = Caller { router: api::router(app.clone()), token };
    let memory = Caller { router: in_memory(&triggers), token: String::new() };

    let answer = server.ask(&asked(LIST)).await?;
    let known = memory.ask(&asked(LIST)).await?;
    let rows = |answer: &Value| answer["data"]["triggers"]["nodes"].as_array().map(Vec::len);
    ensure!(rows(&answer) == Some(ROWS), "{answer}");
    ensure!(rows(&known) == Some(ROWS), "{known}");

    let meter = Meter::start(&[&app.store]).await?;
    memory.repeat(&asked(LIST)).await?;
    let bare = meter.stop(REQUESTS).await?;
    let meter = Meter::start(&[&app.store]).await?;
    let mut latencies = server.repeat(&asked(LIST)).await?;
    let list = timed(meter.stop(REQUESTS).await?, &mut latencies).beside(&bare);
    let meter = Meter::start(&[&app.store]).await?;
    let mut latencies = server.repeat(&asked(CREATE)).await?;
    let create = timed(meter.stop(REQUESTS).await?, &mut latencies);
    make_table(&app.store).await?;
    let meter = Meter::start(&[&app.store]).await?;
    two_rows(&app.store).await?;
    let rows = meter.stop(REQUESTS).await?;
    app.store.clone().close().await?;
    place.remove().await?;
    Ok(vec![
        Line::new("list of 50, in memory", bare),
        Line::new("list of 50 rows", list),
        Line::new("mutation", create.beside(&rows)),
        Line::new("a mutation's rows alone", rows),
    ])
}

/// As many transactions, each of which inserts two narrow rows: no request, roles or checks.
async fn two_rows(store: &Store) -> Result<()> {
    let writers = (0..CALLERS).map(|_| {
        let store = store.clone();
        tokio::spawn(async move {
            for _ in 0..REQUESTS / CALLERS {
                let tx = store.begin().await?;
                for _ in 0..2 {
                    let values = vec![Uuid::now_v7().into(), CREATE.into()];
                    let insert = sql(&tx, "INSERT INTO bare_row VALUES ($1, $2)", values);
                    tx.execute_raw(insert).await?;
                }
                tx.commit_unaudited().await?;
            }
            anyhow::Ok(())
        })
    });
    for ended in writers.collect::<Vec<_>>() {
        ended.await??;
    }
    Ok(())
}

/// The table of [`two_rows`].
async fn make_table(store: &Store) -> Result<()> {
    let tx = store.begin().await?;
    let id = match tx.engine() {
        Engine::Sqlite => "blob",
        Engine::Postgres => "uuid",
    };
    let table = format!("CREATE TABLE bare_row (id {id} PRIMARY KEY, body text NOT NULL)");
    tx.execute_unprepared(&table).await?;
    Ok(tx.commit_unaudited().await?)
}

fn timed(mut figures: Figures, latencies: &mut [f64]) -> Figures {
    latencies.sort_by(f64::total_cmp);
    let at = |part: f64| latencies.get(((latencies.len() - 1) as f64 * part) as usize).copied();
    (figures.p50_ms, figures.p99_ms) = (at(0.5), at(0.99));
    figures
}

/// Calls a router.
#[derive(Clone)]
struct Caller {
    router: Router,
    token: String,
}

impl Caller {
    async fn ask(&self, body: &Value) -> Result<Value> {
        let request = Request::post("/graphql")
            .header("content-type", "application/json")
            .header("authorization", &self.token)
            .body(Body::from(body.to_string()))?;
        let answer = self.router.clone().oneshot(request).await?;
        ensure!(answer.status() == StatusCode::OK, "{}", answer.status());
        let answer = to_bytes(answer.into_body(), LARGEST_ANSWER).await?;
        let answer: Value = serde_json::from_slice(&answer)?;
        ensure!(answer.get("errors").is_none(), "{answer}");
        Ok(answer)
    }

    /// Asks as often as measured, some at once; answers how long each took, in milliseconds.
    async fn repeat(&self, body: &Value) -> Result<Vec<f64>> {
        let callers = (0..CALLERS).map(|_| {
            let (caller, body) = (self.clone(), body.clone());
            tokio::spawn(async move {
                let mut took = Vec::with_capacity(REQUESTS / CALLERS);
                for _ in 0..REQUESTS / CALLERS {
                    let began = Instant::now();
                    caller.ask(&body).await?;
                    took.push(began.elapsed().as_secs_f64() * 1e3);
                }
                Ok::<_, anyhow::Error>(took)
            })
        });
        let mut all = Vec::with_capacity(REQUESTS);
        for caller in callers.collect::<Vec<_>>() {
            all.extend(caller.await??);
        }
        Ok(all)
    }
}

#[derive(SimpleObject, Clone)]
struct Project {
    id: String,
    name: String,
    slug: String,
}

#[derive(SimpleObject, Clone)]
struct Application {
    id: String,
    name: String,
    slug: String,
    project: Project,
}

#[derive(SimpleObject, Clone)]
struct Row {
    id: String,
    name: String,
    description: String,
    run_key: String,
    cron_expression: String,
    enabled: bool,
    next_run_at: Option<String>,
    created_at: String,
    updated_at: String,
    application: Application,
}

#[derive(SimpleObject, Clone)]
struct PageInfo {
    has_next_page: bool,
    end_cursor: String,
}

#[derive(SimpleObject, Clone)]
struct Page {
    nodes: Vec<Row>,
    page_info: PageInfo,
}

struct InMemory(Arc<Page>);

#[Object]
impl InMemory {
    async fn triggers(&self, application_id: Option<String>, first: i32) -> Page {
        std::hint::black_box((application_id, first));
        (*self.0).clone()
    }
}

/// The same rows in memory, behind the library's own handler.
fn in_memory(triggers: &[Trigger]) -> Router {
    let text = |name: &str| name.to_owned();
    let project = Project { id: text("p"), name: text("Bench"), slug: text("bench") };
    let rows = triggers.iter().map(|trigger| Row {
        id: trigger.id.to_string(),
        name: trigger.name.clone(),
        description: trigger.description.clone(),
        run_key: trigger.run_key.clone(),
        cron_expression: trigger.cron_expression.clone(),
        enabled: trigger.enabled,
        next_run_at: trigger.next_fire_at.map(|at| at.to_rfc3339()),
        created_at: trigger.created_at.to_rfc3339(),
        updated_at: trigger.updated_at.to_rfc3339(),
        application: Application {
            id: trigger.application_id.to_string(),
            name: text("Application 0"),
            slug: text("app-0"),
            project: project.clone(),
        },
    });
    let page_info = PageInfo { has_next_page: false, end_cursor: text("end") };
    let page = Page { nodes: rows.collect(), page_info };
    let schema = Schema::build(InMemory(Arc::new(page)), EmptyMutation, EmptySubscription).finish();
    Router::new()
        .route("/graphql", axum::routing::post_service(async_graphql_axum::GraphQL::new(schema)))
}
