//! Trigger rules: events stored, evaluated and their actions queued; the matcher alone; a cycle.

use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use chrono::Utc;
use secrecy::SecretString;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use trigger_manager::app::App;
use trigger_manager::app::CreateLineOa;
use trigger_manager::domain::access::Actor;
use trigger_manager::domain::audience::Audience;
use trigger_manager::domain::audit::Caller;
use trigger_manager::domain::event::{Event, EventOrigin, EventStatus};
use trigger_manager::domain::id::{AudienceId, EventId, ProjectId, TriggerRuleId};
use trigger_manager::domain::line::LineOa;
use trigger_manager::domain::people::Project;
use trigger_manager::domain::rule::{Frequency, TriggerRule};
use trigger_manager::executor::Executor;
use trigger_manager::rules::RuleIndex;
use trigger_manager::sources;
use trigger_manager::store::{audience, event, people, rule};

use crate::bare_events;
use crate::measure::{Meter, number};
use crate::place::Source;
use crate::report::{Figures, Line};

const EVENTS: usize = 10_000;
/// As one request may bring.
const STORED_AT_ONCE: usize = 1_000;
const USERS: usize = 50_000;
const MATCHED: usize = 200_000;

/// 10,000 events of which each meets one or three rules, among 1,000 and among 10,000.
pub async fn events(source: &Source) -> Result<Vec<Line>> {
    let least = bare_events::events(source, EVENTS, 1).await?;
    let one = events_among(source, 1_000, 1).await?.beside(&least);
    let least_of_three = bare_events::events(source, EVENTS, 3).await?;
    let small = events_among(source, 1_000, 3).await?.beside(&least_of_three);
    let mut large = events_among(source, 10_000, 3).await?.beside(&least_of_three);
    large.pass_to_small = large.per_second.zip(small.per_second).map(|(a, b)| b / a);
    Ok(vec![
        Line::new("1 of 1,000 rules", one),
        Line::new("1 rule, bare loop", least),
        Line::new("3 of 1,000 rules", small),
        Line::new("3 of 10,000 rules", large),
        Line::new("3 rules, bare loop", least_of_three),
        Line::new("matcher, 1,000 rules", matcher()),
        Line::new("cycle of 50,000 users", cycle(source).await?),
    ])
}

async fn events_among(source: &Source, rules: usize, meets: usize) -> Result<Figures> {
    let place = source.fresh().await?;
    let app = place.app().await?;
    let line_oa = line_oa(&app).await?;
    let tx = app.store.begin().await?;
    let version = rule::next_version(&tx, line_oa.id).await?;
    for number in 0..rules {
        let form = if number < meets { "sent".to_owned() } else { format!("other-{number}") };
        let rule = TriggerRule { version, ..form_rule(&line_oa, number, form) };
        rule::insert(&*tx, &rule).await?;
    }
    tx.commit_unaudited().await?;
    let executor = Executor::new(app.clone());
    // The first look reads the rules.
    store(&app, &[form(&line_oa, EVENTS)]).await?;
    executor.take_events(app.now()).await?;
    let events: Vec<_> = (0..EVENTS).map(|number| form(&line_oa, number)).collect();
    let meter = Meter::start(&[&app.store]).await?;
    let (tell, mut stored) = mpsc::unbounded_channel();
    let storing = tokio::spawn(store_all(app.clone(), events, tell));
    let mut more = true;
    while more {
        if executor.take_events(app.now()).await?.events == 0 {
            more = stored.recv().await.is_some();
        }
    }
    storing.await??;
    let figures = meter.stop(EVENTS).await?;
    let queued = number(&app.store, "SELECT count(*) AS n FROM scheduled_action").await?;
    ensure!(usize::try_from(queued)? == (EVENTS + 1) * meets, "{queued} actions were queued");
    app.store.clone().close().await?;
    place.remove().await?;
    Ok(figures)
}

/// As APIs do while executors evaluate.
async fn store_all(
    app: Arc<App>,
    events: Vec<Event>,
    tell: mpsc::UnboundedSender<()>,
) -> Result<()> {
    for batch in events.chunks(STORED_AT_ONCE) {
        store(&app, batch).await?;
        tell.send(())?;
    }
    Ok(())
}

async fn store(app: &App, events: &[Event]) -> Result<()> {
    let tx = app.store.begin().await?;
    event::insert(&*tx, events).await?;
    tx.commit_unaudited().await?;
    Ok(())
}

/// One thread, nothing but memory: events are read, the rules that could match are found in an
/// index of 1,000, and their source is asked.
fn matcher() -> Figures {
    let line_oa = unsaved();
    let rules: Vec<_> =
        (0..1_000).map(|number| form_rule(&line_oa, number, format!("f{number}"))).collect();
    let index = RuleIndex::build(&rules);
    let events: Vec<_> = (0..1_000)
        .map(|number| Event { payload: of_form(number), ..form(&line_oa, number) })
        .collect();
    let began = Instant::now();
    let mut met = 0;
    for event in events.iter().cycle().take(MATCHED) {
        let Ok(source) = sources::find(&event.event_type) else { continue };
        let Ok(payload) = source.parse_payload(&event.payload) else { continue };
        let rules = index.candidates(&event.event_type, &payload.keys);
        met += rules
            .iter()
            .filter(|rule| rule.parts().is_ok_and(|parts| parts.source.matches(&payload).is_ok()))
            .count();
    }
    std::hint::black_box(met);
    let per_second = Some(MATCHED as f64 / began.elapsed().as_secs_f64());
    Figures { per_second, ..Figures::default() }
}

/// The rule of a number meets the forms of that number.
fn of_form(number: usize) -> Value {
    json!({ "formId": format!("f{number}") })
}

/// A due rule queues a message for each of 50,000 users.
async fn cycle(source: &Source) -> Result<Figures> {
    let place = source.fresh().await?;
    let app = place.app().await?;
    let line_oa = line_oa(&app).await?;
    let audience = audience_of(&app, &line_oa).await?;
    let now = app.now();
    let due = TriggerRule {
        source_type: "schedule".to_owned(),
        source_config: json!({ "cronExpression": "* * * * * *", "audienceId": audience }),
        evaluated_at: Some(now - chrono::Duration::seconds(1)),
        next_fire_at: Some(now),
        ..form_rule(&line_oa, 0, "sent".to_owned())
    };
    let tx = app.store.begin().await?;
    let version = rule::next_version(&tx, line_oa.id).await?;
    rule::insert(&*tx, &TriggerRule { version, ..due }).await?;
    tx.commit_unaudited().await?;
    let executor = Executor::new(app.clone());
    let meter = Meter::start(&[&app.store]).await?;
    executor.begin_cycles(app.now()).await?;
    while executor.walk_cycle(app.now()).await? {}
    let figures = meter.stop(USERS).await?;
    let queued = number(&app.store, "SELECT count(*) AS n FROM scheduled_action").await?;
    ensure!(usize::try_from(queued)? == USERS, "{queued} actions were queued");
    app.store.clone().close().await?;
    place.remove().await?;
    Ok(figures)
}

async fn audience_of(app: &App, line_oa: &LineOa) -> Result<AudienceId> {
    let now = app.now();
    let made = Audience {
        id: AudienceId::new(),
        line_oa_id: line_oa.id,
        organization_id: line_oa.organization_id,
        name: "All".to_owned(),
        description: String::new(),
        created_at: now,
        updated_at: now,
    };
    let tx = app.store.begin().await?;
    audience::insert(&*tx, &made).await?;
    let users: Vec<_> = (0..USERS).map(|n| (made.id, line_oa.id, user(n))).collect();
    for users in users.chunks(10_000) {
        audience::add(&*tx, users, now).await?;
    }
    tx.commit_unaudited().await?;
    Ok(made.id)
}

async fn line_oa(app: &Arc<App>) -> Result<LineOa> {
    let now = app.now();
    let project = Project {
        id: ProjectId::new(),
        slug: "bench".to_owned(),
        name: "Bench".to_owned(),
        created_at: now,
        updated_at: now,
    };
    let tx = app.store.begin().await?;
    people::insert_project(&*tx, &project).await?;
    tx.commit_unaudited().await?;
    let new = CreateLineOa {
        project_id: project.id,
        name: "Bench".to_owned(),
        channel_id: "1".to_owned(),
        channel_secret: SecretString::from("secret"),
        channel_access_token: SecretString::from("token"),
    };
    let administrator = app.bootstrap().await?.administrator.context("a fresh database")?;
    let (id, email) = (administrator.id, administrator.email);
    let actor = Actor::User { id, email, administrator: true, ends: None };
    Ok(app.create_line_oa(&Caller { actor, request_id: None }, new).await?)
}

fn unsaved() -> LineOa {
    LineOa {
        id: trigger_manager::domain::id::LineOaId::new(),
        organization_id: ProjectId::new(),
        name: "Bench".to_owned(),
        channel_id: "1".to_owned(),
        paused_until: None,
        paused_reason: None,
        created_at: Utc::now(),
        updated_at: Utc::now(),
    }
}

/// A rule that waits for one form and answers with a message.
fn form_rule(line_oa: &LineOa, number: usize, form: String) -> TriggerRule {
    TriggerRule {
        id: TriggerRuleId::new(),
        organization_id: line_oa.organization_id,
        line_oa_id: line_oa.id,
        name: format!("Rule {number}"),
        description: String::new(),
        source_type: "form_submitted".to_owned(),
        source_config: json!({ "formId": form }),
        source_key: form,
        action_type: "send_message".to_owned(),
        action_config: json!({ "messages": [{ "type": "text", "text": "Thank you, {{ event.payload.answers.name }}!" }] }),
        enabled: true,
        frequency: Frequency::OncePerHour,
        cooldown_seconds: 0,
        workflow_id: None,
        workflow_node_path: None,
        evaluated_at: None,
        next_fire_at: None,
        version: 0,
        created_date: line_oa.created_at,
        updated_date: line_oa.created_at,
        deleted_date: None,
    }
}

fn user(number: usize) -> String {
    format!("U{number:032x}")
}

fn form(line_oa: &LineOa, number: usize) -> Event {
    let id = EventId::new();
    Event {
        id,
        event_id: id.to_string(),
        event_type: "form_submitted".to_owned(),
        line_oa_id: line_oa.id,
        organization_id: line_oa.organization_id,
        user_id: Some(user(number)),
        occurred_at: Utc::now(),
        payload: json!({ "formId": "sent", "submissionId": id, "answers": { "name": "Ada" } }),
        subject: None,
        origin: EventOrigin::Api,
        status: EventStatus::Pending,
        matched: None,
        error: None,
        received_at: Utc::now(),
        processed_at: None,
    }
}
