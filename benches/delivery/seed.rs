//! What a database holds before it is measured.

use anyhow::Result;
use chrono::{DateTime, Duration, Utc};
use sea_orm::{ConnectionTrait, DbBackend, Statement};
use trigger_manager::app::App;
use trigger_manager::domain::application::{Application, Backend};
use trigger_manager::domain::fan_out::fan_out;
use trigger_manager::domain::id::{ApplicationId, BackendId, OccurrenceId, ProjectId, TriggerId};
use trigger_manager::domain::people::Project;
use trigger_manager::domain::trigger::{
    CatchUp, Occurrence, OccurrenceStatus, Origin, Payload, Trigger,
};
use trigger_manager::egress::SigningSecret;
use trigger_manager::store::application::BackendSecrets;
use trigger_manager::store::{Engine, application, executor, people, trigger};

use crate::receiver::Receiver;

/// Applications and how many of what each has.
#[derive(Clone, Copy)]
pub struct Shape {
    pub applications: usize,
    pub backends: usize,
    pub triggers: usize,
}

/// Writes applications with backends that stay active, and triggers that are due at `due` for
/// the first time. Answers the triggers and each one's backends.
pub async fn seed(
    app: &App,
    receiver: &Receiver,
    shape: Shape,
    (cron, due): (&str, DateTime<Utc>),
) -> Result<Vec<(Trigger, Vec<BackendId>)>> {
    let now = app.now();
    let tx = app.store.begin().await?;
    let project = Project {
        id: ProjectId::new(),
        slug: "bench".to_owned(),
        name: "Bench".to_owned(),
        created_at: now,
        updated_at: now,
    };
    people::insert_project(&*tx, &project).await?;
    let mut made = Vec::new();
    for number in 0..shape.applications {
        let owner = Application {
            id: ApplicationId::new(),
            project_id: project.id,
            slug: format!("app-{number}"),
            name: format!("Application {number}"),
            created_at: now,
            updated_at: now,
        };
        application::insert(&*tx, &owner).await?;
        let mut backends = Vec::new();
        for number in 0..shape.backends {
            let (backend, secrets) = backend(app, receiver, owner.id, number)?;
            application::upsert_backend(&*tx, &backend, &secrets).await?;
            backends.push(backend.id);
        }
        for number in 0..shape.triggers {
            let trigger = new_trigger(owner.id, number, (cron, due), now);
            trigger::insert(&*tx, &trigger).await?;
            made.push((trigger, backends.clone()));
        }
    }
    tx.commit_unaudited().await?;
    Ok(made)
}

fn backend(
    app: &App,
    receiver: &Receiver,
    application_id: ApplicationId,
    number: usize,
) -> Result<(Backend, BackendSecrets)> {
    let (id, now) = (BackendId::new(), app.now());
    let backend = Backend {
        id,
        application_id,
        machine_user_id: None,
        name: format!("backend-{number}"),
        description: String::new(),
        callback_url: receiver.url(&format!("hooks/{number}")),
        version: None,
        registered_at: now,
        // Nobody sends heartbeats here.
        last_heartbeat_at: now + Duration::days(1),
        deactivated_at: None,
        deactivated_reason: None,
        created_at: now,
        updated_at: now,
    };
    let encrypt = |secret: &str, what| {
        app.cipher.encrypt(secret, &format!("backend_registration/{id}/{what}"))
    };
    let secrets = BackendSecrets {
        token: encrypt("a token of about as many characters as ours have", "token")?,
        signing_secret: encrypt(&SigningSecret::generate().expose(), "signing_secret")?,
    };
    Ok((backend, secrets))
}

fn new_trigger(
    application_id: ApplicationId,
    number: usize,
    (cron, due): (&str, DateTime<Utc>),
    now: DateTime<Utc>,
) -> Trigger {
    Trigger {
        id: TriggerId::new(),
        application_id,
        name: format!("Nightly report {number}"),
        description: String::new(),
        run_key: format!("nightly-report-{number}"),
        cron_expression: cron.to_owned(),
        time_zone: None,
        enabled: true,
        catch_up: CatchUp::All,
        evaluated_at: due - Duration::milliseconds(1),
        next_fire_at: Some(due),
        created_at: now,
        updated_at: now,
    }
}

/// Writes `occurrences` of one trigger with a waiting delivery for each of its backends.
pub async fn waiting(
    app: &App,
    (trigger, backends): &(Trigger, Vec<BackendId>),
    occurrences: i64,
) -> Result<()> {
    let now = app.now();
    let tx = app.store.begin().await?;
    let mut made = Vec::new();
    let mut deliveries = Vec::new();
    for number in 0..occurrences {
        let at = now - Duration::seconds(occurrences - number);
        let mut occurrence = Occurrence {
            id: OccurrenceId::new(),
            trigger_id: trigger.id,
            application_id: trigger.application_id,
            scheduled_at: at,
            until_at: None,
            occurrences: 1,
            origin: Origin::Schedule,
            status: OccurrenceStatus::Pending,
            reason: None,
            payload: Payload::new(trigger, at),
            deliveries: 0,
            delivered: 0,
            failed: 0,
            fan_out_attempts: 0,
            next_attempt_at: None,
            created_at: now,
            finished_at: None,
        };
        let policy = app.retry_policy();
        let new = fan_out(&mut occurrence, backends, now, (&policy, 0.0));
        deliveries.extend(new.into_iter().map(|delivery| (delivery, None)));
        made.push(occurrence);
    }
    executor::insert_occurrences(&*tx, &made).await?;
    executor::insert_deliveries(&*tx, &deliveries).await?;
    Ok(tx.commit_unaudited().await?)
}

/// Writes `count` triggers that are due in a year.
pub async fn asleep(app: &App, application: ApplicationId, count: i64) -> Result<()> {
    const COLUMNS: &str = "INSERT INTO trigger (id, application_id, name, description, run_key,
        cron_expression, enabled, catch_up, evaluated_at, next_fire_at, created_at, updated_at)";
    const VALUES: &str = "$2, 'Yearly', '', 'yearly', '0 0 0 1 1 *', true, 'all', $3, $4, $3, $3";
    let (backend, sql) = match app.store.engine() {
        Engine::Sqlite => {
            let numbers =
                "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < $1)";
            (
                DbBackend::Sqlite,
                format!("{COLUMNS} {numbers} SELECT randomblob(16), {VALUES} FROM n"),
            )
        }
        Engine::Postgres => {
            let from = "FROM generate_series(1, $1)";
            (DbBackend::Postgres, format!("{COLUMNS} SELECT gen_random_uuid(), {VALUES} {from}"))
        }
    };
    let now = app.now();
    let values =
        vec![count.into(), application.0.into(), now.into(), (now + Duration::days(365)).into()];
    let tx = app.store.begin().await?;
    tx.execute_raw(Statement::from_sql_and_values(backend, sql, values)).await?;
    Ok(tx.commit_unaudited().await?)
}
