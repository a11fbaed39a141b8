//! The least that turning events into work can cost with this database: store 1,000, claim 500, write
//! the actions of each, mark them as done. No rules, conditions, templates, rate control or log.

use anyhow::Result;
use sea_orm::{ConnectionTrait, FromQueryResult};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use trigger_manager::store::{Engine, Store};
use uuid::Uuid;

use crate::bare::sql;
use crate::measure::Meter;
use crate::place::Source;
use crate::report::Figures;

const STORED_AT_ONCE: usize = 1_000;
const BATCH: i64 = 500;

#[derive(FromQueryResult)]
struct Event {
    id: Uuid,
    payload: String,
}

/// Stores `count` events and writes `actions` for each, beside each other as [`crate::rules`] does.
pub async fn events(source: &Source, count: usize, actions: usize) -> Result<Figures> {
    let place = source.fresh().await?;
    let store = place.store().await?;
    make_tables(&store).await?;
    let meter = Meter::start(&[&store]).await?;
    let (tell, mut stored) = mpsc::unbounded_channel();
    let storing = tokio::spawn(store_all(store.clone(), count, tell));
    let mut more = true;
    while more {
        if !batch(&store, actions).await? {
            more = stored.recv().await.is_some();
        }
    }
    storing.await??;
    let figures = meter.stop(count).await?;
    store.close().await?;
    place.remove().await?;
    Ok(figures)
}

async fn make_tables(store: &Store) -> Result<()> {
    let tx = store.begin().await?;
    let id = match tx.engine() {
        Engine::Sqlite => "blob",
        Engine::Postgres => "uuid",
    };
    for table in [
        format!("bare_event (id {id} PRIMARY KEY, payload text NOT NULL, status text NOT NULL)"),
        format!("bare_action (id {id} PRIMARY KEY, event_id {id} NOT NULL, body text NOT NULL)"),
    ] {
        tx.execute_unprepared(&format!("CREATE TABLE {table}")).await?;
    }
    let index = "CREATE INDEX bare_waiting ON bare_event (id) WHERE status = 'pending'";
    tx.execute_unprepared(index).await?;
    Ok(tx.commit_unaudited().await?)
}

async fn store_all(store: Store, count: usize, tell: mpsc::UnboundedSender<()>) -> Result<()> {
    for _ in 0..count / STORED_AT_ONCE {
        let events = (0..STORED_AT_ONCE).map(|_| {
            let id = Uuid::now_v7().simple().to_string();
            let payload =
                json!({ "formId": "sent", "submissionId": id, "answers": { "name": "Ada" } });
            json!({ "id": id, "payload": payload.to_string() })
        });
        let tx = store.begin().await?;
        let insert = match tx.engine() {
            Engine::Sqlite => {
                "INSERT INTO bare_event SELECT unhex(value ->> 'id'), value ->> 'payload', 'pending'
                    FROM json_each($1)"
            }
            Engine::Postgres => {
                "INSERT INTO bare_event SELECT (x ->> 'id')::uuid, x ->> 'payload', 'pending'
                    FROM json_array_elements($1::json) x"
            }
        };
        tx.execute_raw(sql(&tx, insert, vec![Value::from_iter(events).to_string().into()])).await?;
        tx.commit_unaudited().await?;
        tell.send(())?;
    }
    Ok(())
}

/// One transaction; whether there was something.
async fn batch(store: &Store, actions: usize) -> Result<bool> {
    let tx = store.begin().await?;
    let (claim, insert, mark) = match tx.engine() {
        Engine::Sqlite => (
            "SELECT id, payload FROM bare_event WHERE status = 'pending' ORDER BY id LIMIT $1",
            "INSERT INTO bare_action SELECT unhex(value ->> 'id'), unhex(value ->> 'event'),
                value ->> 'body' FROM json_each($1)",
            "UPDATE bare_event SET status = 'processed'
                WHERE id IN (SELECT unhex(value) FROM json_each($1))",
        ),
        Engine::Postgres => (
            "SELECT id, payload FROM bare_event WHERE status = 'pending' ORDER BY id LIMIT $1
                FOR UPDATE SKIP LOCKED",
            "INSERT INTO bare_action SELECT (x ->> 'id')::uuid, (x ->> 'event')::uuid, x ->> 'body'
                FROM json_array_elements($1::json) x",
            "UPDATE bare_event SET status = 'processed'
                WHERE id IN (SELECT x::uuid FROM json_array_elements_text($1::json) x)",
        ),
    };
    let rows = tx.query_all_raw(sql(&tx, claim, vec![BATCH.into()])).await?;
    let events = rows.iter().map(|row| Event::from_query_result(row, ""));
    let events = events.collect::<Result<Vec<_>, _>>()?;
    if events.is_empty() {
        return Ok(false);
    }
    let made = events.iter().flat_map(|event| (0..actions).map(|_| action(event)));
    tx.execute_raw(sql(&tx, insert, vec![Value::from_iter(made).to_string().into()])).await?;
    let ids = events.iter().map(|event| event.id.simple().to_string());
    tx.execute_raw(sql(&tx, mark, vec![Value::from_iter(ids).to_string().into()])).await?;
    tx.commit_unaudited().await?;
    Ok(true)
}

/// What a rule would queue.
fn action(event: &Event) -> Value {
    let body = json!({ "messages": [{ "type": "text", "text": format!("Thank you, {}!", event.payload) }] });
    let id = Uuid::now_v7().simple().to_string();
    json!({ "id": id, "event": event.id.simple().to_string(), "body": body.to_string() })
}
