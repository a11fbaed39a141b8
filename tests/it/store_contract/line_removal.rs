//! Deleting LINE OAs and workflows, alone and with what they belong to.

use trigger_manager::domain::delivery::ActionStatus;
use trigger_manager::domain::line::LineOa;
use trigger_manager::domain::workflow::Workflow;
use trigger_manager::store::{Store, application, audience, cancel, line, people, workflow};

use super::line::line_user;
use super::world::{World, at, execute, number, within};
use crate::harness::TestStore;

const TABLES: [&str; 9] = [
    "line_oa",
    "line_user",
    "audience",
    "audience_member",
    "event",
    "trigger_rule",
    "rule_user_state",
    "scheduled_trigger_execution",
    "scheduled_action",
];

async fn counts(store: &Store) -> Vec<i64> {
    let mut counts = Vec::new();
    for table in TABLES {
        counts.push(number(store, &format!("SELECT count(*) FROM {table}")).await);
    }
    counts
}

/// A LINE OA with one of everything, and three pieces of work: one waits, one is being done, one
/// is done. Rows of tables that other parts write have the account's id as their own.
async fn fill(world: &World, channel: &str) -> LineOa {
    let store = &world.store;
    let account = world.line_oa(channel).await;
    let audience = world.audience(&account, "a").await;
    let rows = [(audience.id, account.id, line_user(1))];
    within!(store, |tx| audience::add(&*tx, &rows, at(0)));
    let from = format!("FROM line_oa WHERE channel_id = '{channel}'");
    let time = "created_at, updated_at";
    for insert in [
        format!(
            "INSERT INTO event (id, event_id, event_type, line_oa_id, organization_id, occurred_at,
                payload, origin, received_at)
            SELECT id, 'e', 'form_submitted', id, organization_id, created_at, '{{}}', 'api',
                created_at {from}"
        ),
        format!(
            "INSERT INTO trigger_rule (id, organization_id, line_oa_id, name, description,
                source_type, source_config, source_key, action_type, action_config, enabled,
                version, created_date, updated_date)
            SELECT id, organization_id, id, 'r', '', 'schedule', '{{}}', '', 'call_backend', '{{}}',
                true, 1, {time} {from}"
        ),
        format!(
            "INSERT INTO rule_user_state (trigger_rule_id, user_id, pause_ms) SELECT id, '', 0 {from}"
        ),
        format!(
            "INSERT INTO scheduled_trigger_execution (id, trigger_rule_id, line_oa_id,
                organization_id, audience_id, scheduled_at, started_at)
            SELECT id, id, id, organization_id, id, {time} {from}"
        ),
    ] {
        execute(store, &insert).await;
    }
    account
}

/// Three pieces of work for `column` = the id of the only row of `table` with that `name`.
async fn queue(world: &World, column: &str, (table, name): (&str, &str)) {
    let store = &world.store;
    let backend = world.backend(name).await;
    world.queued(backend.id, 3).await;
    let claimed = super::world::claim(store, at(100), 2, 2).await;
    let tx = store.begin().await.unwrap();
    super::world::record(&tx, &claimed[..1], ActionStatus::Completed, at(100)).await.unwrap();
    tx.commit_unaudited().await.unwrap();
    let update = format!(
        "UPDATE scheduled_action SET execute_at = '2030-01-01T00:00:00+00:00', {column} = (SELECT id FROM {table} WHERE name = '{name}'),
            application_id = NULL, trigger_id = NULL, trigger_occurrence_id = NULL, organization_id =
            (SELECT organization_id FROM {table} WHERE name = '{name}')
        WHERE organization_id IS NULL"
    );
    execute(store, &update).await;
}

async fn cancelled(store: &Store, reason: &str) -> i64 {
    let sql = format!(
        "SELECT count(*) FROM scheduled_action WHERE status = 'cancelled'
            AND last_error = '{reason}' AND lease_token IS NULL AND executed_at IS NOT NULL"
    );
    number(store, &sql).await
}

#[tokio::test]
async fn a_line_oa_goes_with_all_that_is_its_own_and_its_open_work_is_cancelled() {
    let store = TestStore::new().await;
    let world = World::new(&store).await;
    let account = fill(&world, "1").await;
    queue(&world, "line_oa_id", ("line_oa", &account.name)).await;
    let other = fill(&world, "2").await;
    queue(&world, "line_oa_id", ("line_oa", &other.name)).await;
    assert_eq!(counts(&store).await, [2, 2, 2, 2, 2, 2, 2, 2, 6]);
    let done = within!(store, |tx| cancel::of_line_oa(&*tx, account.id, ("why", at(200)), 1_000));
    assert_eq!((done, cancelled(&store, "why").await), (2, 2));
    within!(store, |tx| line::delete(&*tx, account.id));
    assert_eq!(counts(&store).await, [1, 1, 1, 1, 1, 1, 1, 1, 6]);
    let again = within!(store, |tx| cancel::of_line_oa(&*tx, account.id, ("why", at(200)), 1_000));
    assert_eq!(again, 0);
}

#[tokio::test]
async fn a_project_goes_with_its_line_oas_and_workflows_and_all_their_work() {
    let store = TestStore::new().await;
    let (world, other) = (World::named(&store, "one").await, World::named(&store, "other").await);
    for (world, channel) in [(&world, "1"), (&other, "2")] {
        let account = fill(world, channel).await;
        queue(world, "line_oa_id", ("line_oa", &account.name)).await;
    }
    world.workflow("w").await;
    within!(store, |tx| people::delete_project(&*tx, world.project.id));
    assert_eq!(counts(&store).await, [1, 1, 1, 1, 1, 1, 1, 1, 3]);
    assert_eq!(number(&store, "SELECT count(*) FROM workflow").await, 0);
}

async fn with_work(world: &World, name: &str) -> Workflow {
    let made = world.workflow(name).await;
    queue(world, "workflow_id", ("workflow", name)).await;
    made
}

#[tokio::test]
async fn a_deleted_workflow_leaves_its_ended_work_and_an_application_takes_all_along() {
    let store = TestStore::new().await;
    let world = World::new(&store).await;
    let one = with_work(&world, "one").await;
    with_work(&world, "two").await;
    let reason = "workflow_deleted";
    let done = within!(store, |tx| cancel::of_workflow(&*tx, one.id, (reason, at(200)), 1_000));
    assert_eq!((done, cancelled(&store, reason).await), (2, 2));
    within!(store, |tx| workflow::delete(&*tx, one.id));
    assert_eq!(number(&store, "SELECT count(*) FROM workflow").await, 1);
    assert_eq!(number(&store, "SELECT count(*) FROM scheduled_action").await, 6);
    let contents = application::contents(store.read(), &[world.application.id]).await.unwrap();
    assert_eq!(contents.workflows, 1);
    within!(store, |tx| application::delete(&tx, world.application.id));
    assert_eq!(number(&store, "SELECT count(*) FROM workflow").await, 0);
    let left = number(&store, "SELECT count(*) FROM scheduled_action").await;
    assert_eq!(left, 3, "the records of the workflow that was deleted before");
}

#[tokio::test]
async fn what_was_put_off_is_due_when_its_account_is_woken_and_what_waits_for_its_time_is_not() {
    let store = TestStore::new().await;
    let world = World::new(&store).await;
    let account = world.line_oa("1").await;
    queue(&world, "line_oa_id", ("line_oa", &account.name)).await;
    execute(&store, "UPDATE scheduled_action SET lane = line_oa_id").await;
    let woken = within!(store, |tx| line::wake(&*tx, account.id, at(-1000)));
    assert_eq!(woken, 0, "nothing has happened to it yet");
    execute(&store, "UPDATE scheduled_action SET last_error = 'paused'").await;
    let woken = within!(store, |tx| line::wake(&*tx, account.id, at(-1000)));
    assert_eq!(woken, 1, "what is done or being done does not wait");
    assert_eq!(world.claim(at(-1000)).await.len(), 1);
}
