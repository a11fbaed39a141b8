//! What the run is about: applications with backends and triggers, a LINE OA with rules; and the
//! tasks that keep using them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::sleep;
use uuid::Uuid;

use crate::backends::{Backends, Manner, token};
use crate::load::Client;
use crate::settings::Form;

/// The channel access token that the stand-in takes.
pub const ACCESS_TOKEN: &str = "a-channel-access-token";
/// Users of the LINE OA.
const USERS: u64 = 20;

/// Applications, and how their backends behave.
pub const BACKENDS: [(&str, Manner); 9] = [
    ("reports-1", Manner::Healthy),
    ("reports-2", Manner::Healthy),
    ("billing-1", Manner::Healthy),
    ("churn-1", Manner::Healthy),
    ("rough-hangs", Manner::Hangs),
    ("rough-late", Manner::Late),
    ("rough-denies", Manner::Denies),
    ("rough-babbles", Manner::Babbles),
    ("rough-resets", Manner::Resets),
];

/// An application, how many triggers it has, and their schedule.
const TRIGGERS: [(&str, usize, &str); 5] = [
    ("reports", 8, "* * * * * *"),
    ("billing", 12, "* * * * * *"),
    ("billing", 5, "*/5 * * * * *"),
    ("churn", 0, ""),
    ("rough", 2, "*/5 * * * * *"),
];

const CREATE_TRIGGER: &str =
    "mutation($input: CreateTriggerInput!) { createTrigger(input: $input) { id } }";
const UPDATE_TRIGGER: &str = "mutation($id: ID!, $input: UpdateTriggerInput!) {
    updateTrigger(id: $id, input: $input) { id } }";

/// What was made, and what is used.
pub struct World {
    pub client: Client,
    line_oa: String,
    rules: [String; 3],
    applications: Vec<Furnished>,
    stop: AtomicBool,
}

struct Furnished {
    slug: String,
    id: String,
    machine: String,
}

impl World {
    /// Makes all of it.
    pub async fn furnish(client: Client, form: &Form, backends: &Backends) -> Result<Arc<Self>> {
        let made = make(
            &client,
            "createProject",
            "CreateProjectInput",
            json!({ "slug": "fire", "name": "Fire" }),
        )
        .await?;
        let project = made["id"].as_str().context("project")?.to_owned();
        let mut applications = Vec::new();
        for slug in ["reports", "billing", "churn", "rough"] {
            applications.push(application(&client, &project, slug).await?);
        }
        let line_oa = make(
            &client,
            "createLineOa",
            "CreateLineOaInput",
            json!({
                "projectId": project, "name": "Fire", "channelId": "1234567890",
                "channelSecret": "a-channel-secret", "channelAccessToken": ACCESS_TOKEN,
            }),
        )
        .await?;
        let line_oa = line_oa["id"].as_str().context("LINE OA")?.to_owned();
        let cooldown = form.cooldown.as_secs();
        let rules =
            [("once", "ONCE", 0), ("cool", "EVERY_TIME", cooldown), ("plain", "EVERY_TIME", 0)];
        let mut ids = Vec::new();
        for (name, frequency, cooldown) in rules {
            let text = format!("{name} {{{{ event.payload.submissionId }}}}");
            let rule = make(&client, "createTriggerRule", "CreateTriggerRuleInput", json!({
                "lineOaId": line_oa, "name": name, "enabled": true, "sourceType": "form_submitted",
                "sourceConfig": { "formId": name }, "actionType": "send_message",
                "actionConfig": { "messages": [{ "type": "text", "text": text }] },
                "frequency": frequency, "cooldownSeconds": cooldown,
            })).await?;
            ids.push(rule["id"].as_str().context("rule")?.to_owned());
        }
        let rules = ids.try_into().ok().context("three rules")?;
        let stop = AtomicBool::new(false);
        let world = Self { client, line_oa, rules, applications, stop };
        world.register(backends).await?;
        for (slug, count, cron) in TRIGGERS {
            for number in 0..count {
                world.create_trigger(slug, (&format!("{slug} {cron} {number}"), cron)).await?;
            }
        }
        Ok(Arc::new(world))
    }

    /// The ids of the rules: once, cooldown, plain.
    pub fn rules(&self) -> Result<[Uuid; 3]> {
        Ok([self.rules[0].parse()?, self.rules[1].parse()?, self.rules[2].parse()?])
    }

    fn application(&self, slug: &str) -> Result<&Furnished> {
        self.applications.iter().find(|one| one.slug == slug).context("no such application")
    }

    async fn register(&self, backends: &Backends) -> Result<()> {
        for backend in &backends.all {
            let slug = backend.name.split('-').next().unwrap_or_default();
            let body = json!({
                "name": backend.name, "callbackUrl": backend.url, "token": token(backend.name),
            });
            let machine = &self.application(slug)?.machine;
            let to = ("/api/machine/register-backend", machine.as_str());
            self.client.post(to, backend.name, &body).await?;
        }
        Ok(())
    }

    async fn create_trigger(&self, slug: &str, (name, cron): (&str, &str)) -> Result<String> {
        let input = json!({ "input": {
            "applicationId": self.application(slug)?.id, "name": name, "runKey": "run",
            "cronExpression": cron, "enabled": true,
        }});
        let made = self.client.insist(("createTrigger", name), CREATE_TRIGGER, &input).await?;
        Ok(made.context("refused")?["id"].as_str().context("no id")?.to_owned())
    }

    /// Begins to use it.
    pub fn use_it(self: &Arc<Self>) -> JoinSet<Result<()>> {
        let mut tasks = JoinSet::new();
        for number in 0..3 {
            tasks.spawn(self.clone().send_events(number));
        }
        for number in 0..2 {
            tasks.spawn(self.clone().change_triggers(number));
        }
        tasks
    }

    /// Lets all tasks end after what they are at.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }

    /// Heartbeats of all backends, four in a time-out, for as long as it is polled: what is left is
    /// delivered only to backends that are alive.
    pub async fn beat(self: Arc<Self>) {
        loop {
            for application in &self.applications {
                let to = ("/api/machine/heartbeat", application.machine.as_str());
                // The next one may do better.
                let _ = self.client.post(to, &application.slug, &json!({})).await;
            }
            sleep(Duration::from_secs(15)).await;
        }
    }

    /// Events for the rules, some of them twice.
    async fn send_events(self: Arc<Self>, sender: u64) -> Result<()> {
        let machine = self.application("reports")?.machine.clone();
        let to = ("/api/machine/events", machine.as_str());
        let mut number = 0;
        while self.goes_on() {
            number += 1;
            let form = ["plain", "cool", "once"][number as usize % 3];
            let (id, user) = (format!("{form}-{sender}-{number}"), rand::random_range(0..USERS));
            let event = json!({
                "eventId": id, "type": "form_submitted", "lineOaId": self.line_oa,
                "userId": format!("U{user:032x}"),
                "payload": { "formId": form, "submissionId": id, "answers": {} },
            });
            match number % 7 {
                0 => {
                    let both =
                        (self.client.post(to, &id, &event), self.client.post(to, &id, &event));
                    let (one, other) = tokio::join!(both.0, both.1);
                    one.and(other)?;
                }
                _ => self.client.post(to, &id, &event).await.map(drop)?,
            }
            sleep(Duration::from_millis(200)).await;
        }
        Ok(())
    }

    /// Triggers that come, are run beside their schedule, are switched off and on, and go.
    async fn change_triggers(self: Arc<Self>, changer: u64) -> Result<()> {
        let mut number = 0;
        while self.goes_on() {
            number += 1;
            let name = format!("churn {changer} {number}");
            // Where backends deny what they are asked, work waits when the trigger is switched off.
            let slug = if changer == 0 { "churn" } else { "rough" };
            let id = self.create_trigger(slug, (&name, "* * * * * *")).await?;
            let about = |what| (what, id.as_str());
            let only = json!({ "id": id });
            let run = "mutation($id: ID!) { runTrigger(id: $id) { id } }";
            self.pause().await;
            // Once: repeated, it would run twice.
            self.client.mutate(about("runTrigger"), run, &only).await;
            self.pause().await;
            for enabled in [false, true] {
                let input = json!({ "id": id, "input": { "enabled": enabled } });
                let what = if enabled { "updateTrigger" } else { DISABLE };
                self.client.insist(about(what), &update(what), &input).await?;
                self.pause().await;
            }
            let delete = "mutation($id: ID!) { deleteTrigger(id: $id) { id } }";
            self.client.insist(about("deleteTrigger"), delete, &only).await?;
        }
        Ok(())
    }

    async fn pause(&self) {
        sleep(Duration::from_millis(rand::random_range(500..2_500))).await;
    }

    /// Gives a trigger a schedule that is not due for long: what is queued goes on.
    pub async fn put_to_sleep(&self, id: &str) -> Result<()> {
        let input = json!({ "id": id, "input": { "cronExpression": "0 0 0 1 1 *" } });
        self.client.insist(("updateTrigger", id), UPDATE_TRIGGER, &input).await.map(drop)
    }
}

/// The alias under which a trigger is switched off.
pub const DISABLE: &str = "disable";

fn update(alias: &str) -> String {
    UPDATE_TRIGGER.replace("updateTrigger(", &format!("{alias}: updateTrigger("))
}

async fn make(
    client: &Client,
    what: &'static str,
    input_type: &str,
    input: Value,
) -> Result<Value> {
    let query = format!("mutation($input: {input_type}!) {{ {what}(input: $input) {{ id }} }}");
    let made = client.insist((what, ""), &query, &json!({ "input": input })).await?;
    made.context("it was not found")
}

async fn application(client: &Client, project: &str, slug: &str) -> Result<Furnished> {
    let input = json!({ "projectId": project, "slug": slug, "name": slug });
    let made = make(client, "createApplication", "CreateApplicationInput", input).await?;
    let id = made["id"].as_str().context("application")?.to_owned();
    let query = "mutation($input: CreateMachineUserInput!) { createMachineUser(input: $input) {
        machineUser { id } token } }";
    let input = json!({ "input": {
        "applicationId": id, "name": slug, "environment": "fire", "username": slug,
    }});
    let made = client.insist(("createMachineUser", ""), query, &input).await?;
    let made = made.context("machine user")?;
    let machine = made["token"].as_str().context("token")?.to_owned();
    Ok(Furnished { slug: slug.to_owned(), id, machine })
}
