//! A small world to test in: a project with an application, and what hangs on it.

use std::future::Future;
use std::sync::Arc;

use chrono::{DateTime, Duration, TimeZone, Utc};
use sea_orm::{ConnectionTrait, DbBackend, QueryResult, Statement, Value};
use tokio::sync::Barrier;
use trigger_manager::domain::access::{Role, Scope};
use trigger_manager::domain::application::{Application, Backend, MachineUser, Tenant};
use trigger_manager::domain::delivery::{ActionStatus, Delivery};
use trigger_manager::domain::id::*;
use trigger_manager::domain::page::PageRequest;
use trigger_manager::domain::people::{Project, ProjectMember, User};
use trigger_manager::domain::scheduled_action::ScheduledAction;
use trigger_manager::domain::trigger::{
    CatchUp, Occurrence, OccurrenceStatus, Origin, Payload, Trigger,
};
use trigger_manager::error::Result;
use trigger_manager::store::application::MachineCredentials;
use trigger_manager::store::executor::{self, Claimed};
use trigger_manager::store::{Engine, Store, application, delivery, people, trigger};

pub use super::work::{asking, claim, ending, lease, new_delivery, record, secrets};
use crate::harness::RACERS;

/// Milliseconds after a fixed start.
pub fn at(milliseconds: i64) -> DateTime<Utc> {
    Utc.with_ymd_and_hms(2026, 3, 1, 12, 0, 0).unwrap() + Duration::milliseconds(milliseconds)
}

/// Whether the tests run on PostgreSQL.
pub fn on_postgres(store: &Store) -> bool {
    store.engine() == Engine::Postgres
}

/// Runs `$body` with `$tx` bound to a transaction, commits it, and answers what the body does.
macro_rules! within {
    ($store:expr, |$tx:ident| $body:expr) => {{
        let $tx = $store.begin().await.unwrap();
        let answer = $body.await.unwrap();
        $tx.commit_unaudited().await.unwrap();
        answer
    }};
}
pub(super) use within;

/// Repeats a transaction until it is not refused as busy. Answers how often it was refused too.
pub async fn patiently<T, F>(mut once: impl FnMut() -> F) -> (T, usize)
where
    F: Future<Output = Result<T>>,
{
    for refused in 0..50 {
        match once().await {
            Ok(value) => return (value, refused),
            Err(error) => assert_eq!(error.code(), "BUSY", "{error:?}"),
        }
    }
    panic!("still busy after 50 tries");
}

/// Starts `RACERS` tasks that begin at the same moment, and answers what they answer.
pub async fn race<T, F>(racer: impl Fn(usize) -> F) -> Vec<T>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    race_of(RACERS, racer).await
}

/// Starts `n` tasks that begin at the same moment, and answers what they answer.
pub async fn race_of<T, F>(n: usize, racer: impl Fn(usize) -> F) -> Vec<T>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let barrier = Arc::new(Barrier::new(n));
    let tasks: Vec<_> = (0..n)
        .map(|number| {
            let (barrier, run) = (barrier.clone(), racer(number));
            tokio::spawn(async move {
                barrier.wait().await;
                run.await
            })
        })
        .collect();
    let mut answers = Vec::with_capacity(n);
    for task in tasks {
        answers.push(task.await.unwrap());
    }
    answers
}

/// Rows of a statement that is the same on both engines.
pub async fn query(store: &Store, sql: &str, values: Vec<Value>) -> Vec<QueryResult> {
    let backend = if on_postgres(store) { DbBackend::Postgres } else { DbBackend::Sqlite };
    store
        .read()
        .query_all_raw(Statement::from_sql_and_values(backend, sql, values))
        .await
        .unwrap_or_else(|error| panic!("{sql}: {error}"))
}

/// The single number that a statement answers.
pub async fn number(store: &Store, sql: &str) -> i64 {
    query(store, sql, vec![]).await[0].try_get_by_index(0).unwrap()
}

/// Runs a statement that is the same on both engines.
pub async fn execute(store: &Store, sql: &str) {
    let tx = store.begin().await.unwrap();
    tx.execute_unprepared(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    tx.commit_unaudited().await.unwrap();
}

/// A page of at most `limit` rows.
pub fn first(limit: u64) -> PageRequest {
    PageRequest { limit, ..PageRequest::default() }
}

/// A user.
pub async fn user(store: &Store, email: &str) -> User {
    let user = User {
        id: UserId::new(),
        email: email.to_owned(),
        name: "Ada".to_owned(),
        administrator: false,
        disabled_at: None,
        created_at: at(0),
        updated_at: at(0),
    };
    within!(store, |tx| people::insert_user(&*tx, &user, None));
    user
}

/// Makes a user a member of a project.
pub async fn member(store: &Store, project: ProjectId, user: UserId, role: Role) -> ProjectMember {
    let member = ProjectMember {
        id: ProjectMemberId::new(),
        project_id: project,
        user_id: user,
        role,
        created_at: at(0),
        updated_at: at(0),
    };
    within!(store, |tx| people::insert_member(&*tx, &member));
    member
}

/// A project with one application.
#[derive(Clone)]
pub struct World {
    pub store: Store,
    pub project: Project,
    pub application: Application,
}

impl World {
    pub async fn new(store: &Store) -> Self {
        Self::named(store, "world").await
    }

    /// A project of that slug, with an application of the same.
    pub async fn named(store: &Store, slug: &str) -> Self {
        let project = Project {
            id: ProjectId::new(),
            slug: slug.to_owned(),
            name: slug.to_owned(),
            created_at: at(0),
            updated_at: at(0),
        };
        within!(store, |tx| people::insert_project(&*tx, &project));
        Self::within_project(store, project, slug).await
    }

    /// An application of that slug in a project that is there already.
    pub async fn within_project(store: &Store, project: Project, slug: &str) -> Self {
        let application = Application {
            id: ApplicationId::new(),
            project_id: project.id,
            slug: slug.to_owned(),
            name: slug.to_owned(),
            created_at: at(0),
            updated_at: at(0),
        };
        within!(store, |tx| application::insert(&*tx, &application));
        Self { store: store.clone(), project, application }
    }

    pub async fn tenant(&self, slug: &str) -> Tenant {
        let tenant = Tenant {
            id: TenantId::new(),
            application_id: self.application.id,
            slug: slug.to_owned(),
            name: slug.to_owned(),
            environment: "production".to_owned(),
            created_at: at(0),
            updated_at: at(0),
        };
        within!(self.store, |tx| application::insert_tenant(&*tx, &tenant));
        tenant
    }

    pub async fn machine_user(&self, username: &str) -> MachineUser {
        let machine_user = MachineUser {
            id: MachineUserId::new(),
            application_id: self.application.id,
            name: username.to_owned(),
            environment: "production".to_owned(),
            username: username.to_owned(),
            token_prefix: "pfy_".to_owned(),
            created_at: at(0),
            updated_at: at(0),
        };
        let credentials = MachineCredentials {
            password_hash: None,
            token_hash: format!("hash of {}", machine_user.id),
        };
        within!(self.store, |tx| application::insert_machine_user(
            &*tx,
            &machine_user,
            &credentials
        ));
        machine_user
    }

    /// A backend that is not stored yet.
    pub fn new_backend(&self, name: &str) -> Backend {
        Backend {
            id: BackendId::new(),
            application_id: self.application.id,
            machine_user_id: None,
            name: name.to_owned(),
            description: String::new(),
            callback_url: "https://backend.example/trigger".to_owned(),
            version: None,
            registered_at: at(0),
            last_heartbeat_at: at(0),
            deactivated_at: None,
            deactivated_reason: None,
            created_at: at(0),
            updated_at: at(0),
        }
    }

    pub async fn backend(&self, name: &str) -> Backend {
        let backend = self.new_backend(name);
        within!(self.store, |tx| application::upsert_backend(&*tx, &backend, &secrets()));
        backend
    }

    /// A trigger that is not stored yet, due at `next`.
    pub fn new_trigger(&self, name: &str, next: Option<DateTime<Utc>>) -> Trigger {
        Trigger {
            id: TriggerId::new(),
            application_id: self.application.id,
            name: name.to_owned(),
            description: String::new(),
            run_key: "run-key".to_owned(),
            cron_expression: "0 * * * * *".to_owned(),
            time_zone: None,
            enabled: next.is_some(),
            catch_up: CatchUp::All,
            evaluated_at: at(0),
            next_fire_at: next,
            created_at: at(0),
            updated_at: at(0),
        }
    }

    pub async fn trigger(&self, name: &str, next: Option<DateTime<Utc>>) -> Trigger {
        let trigger = self.new_trigger(name, next);
        within!(self.store, |tx| trigger::insert(&*tx, &trigger));
        trigger
    }

    /// An occurrence of `trigger` at `scheduled` that is not stored yet.
    pub fn new_occurrence(&self, trigger: &Trigger, scheduled: DateTime<Utc>) -> Occurrence {
        Occurrence {
            id: OccurrenceId::new(),
            trigger_id: trigger.id,
            application_id: trigger.application_id,
            scheduled_at: scheduled,
            until_at: None,
            occurrences: 1,
            origin: Origin::Schedule,
            status: OccurrenceStatus::Pending,
            reason: None,
            payload: Payload::new(trigger, scheduled),
            deliveries: 0,
            delivered: 0,
            failed: 0,
            fan_out_attempts: 0,
            next_attempt_at: None,
            created_at: scheduled,
            finished_at: None,
        }
    }

    /// An occurrence of a new trigger with a delivery, due at `at(0)`, to each of `backends`.
    pub async fn occurrence(&self, backends: &[BackendId]) -> (Occurrence, Vec<Delivery>) {
        let trigger = self.trigger("trigger", None).await;
        self.occurrence_of(&trigger, at(0), backends).await
    }

    /// An occurrence of `trigger` with a delivery, due at once, to each of `backends`.
    pub async fn occurrence_of(
        &self,
        trigger: &Trigger,
        scheduled: DateTime<Utc>,
        backends: &[BackendId],
    ) -> (Occurrence, Vec<Delivery>) {
        let mut occurrence = self.new_occurrence(trigger, scheduled);
        occurrence.deliveries = i32::try_from(backends.len()).unwrap();
        let deliveries: Vec<_> =
            backends.iter().map(|backend| new_delivery(&occurrence, *backend)).collect();
        let rows: Vec<_> = deliveries.iter().map(|new| (new.clone(), None)).collect();
        let tx = self.store.begin().await.unwrap();
        executor::insert_occurrences(&*tx, std::slice::from_ref(&occurrence)).await.unwrap();
        executor::insert_deliveries(&*tx, &rows).await.unwrap();
        tx.commit_unaudited().await.unwrap();
        (occurrence, deliveries)
    }

    /// `n` deliveries of one new occurrence to one backend, due one a millisecond from `at(0)`.
    pub async fn queued(&self, backend: BackendId, n: usize) -> Vec<Delivery> {
        self.queued_from(0, backend, n).await
    }

    /// [`Self::queued`], the first due at `start`.
    pub async fn queued_from(&self, start: i64, backend: BackendId, n: usize) -> Vec<Delivery> {
        let trigger = self.trigger("trigger", None).await;
        let mut occurrence = self.new_occurrence(&trigger, at(0));
        occurrence.deliveries = i32::try_from(n).unwrap();
        let deliveries: Vec<_> = (0..n)
            .map(|number| {
                let mut new = new_delivery(&occurrence, backend);
                new.execute_at = at(start + i64::try_from(number).unwrap());
                (new, None)
            })
            .collect();
        let tx = self.store.begin().await.unwrap();
        executor::insert_occurrences(&*tx, std::slice::from_ref(&occurrence)).await.unwrap();
        for batch in deliveries.chunks(1000) {
            executor::insert_deliveries(&*tx, batch).await.unwrap();
        }
        tx.commit_unaudited().await.unwrap();
        deliveries.into_iter().map(|(new, _)| new).collect()
    }

    pub async fn reread(&self, delivery: &Delivery) -> Delivery {
        delivery::find(self.store.read(), Scope::Everything, delivery.id).await.unwrap()
    }

    pub async fn reread_action(&self, action: &ScheduledAction) -> ScheduledAction {
        delivery::find(self.store.read(), Scope::Everything, action.id).await.unwrap().into()
    }

    pub async fn reread_occurrence(&self, occurrence: &Occurrence) -> Occurrence {
        trigger::occurrence(self.store.read(), Scope::Everything, occurrence.id).await.unwrap()
    }

    pub async fn claim(&self, now: DateTime<Utc>) -> Vec<Claimed> {
        claim(&self.store, now, 1000, 1000).await
    }

    /// Claims everything due and ends it with `status`, counts included.
    pub async fn work_off(&self, now: DateTime<Utc>, status: ActionStatus) -> Vec<Claimed> {
        let claimed = self.claim(now).await;
        let tx = self.store.begin().await.unwrap();
        record(&tx, &claimed, status, now).await.unwrap();
        tx.commit_unaudited().await.unwrap();
        claimed
    }
}
