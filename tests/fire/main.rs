//! Processes under fire: real ones, on a real PostgreSQL, are killed, stopped and cut off while
//! they work; then the tables are compared with the calendar and with what the backends wrote down.
//!
//! `tests/fire/run [short]` builds and runs it, and cleans up. It is no test of the ordinary kind:
//! without its arguments it does nothing.
//!
//! Real time is its subject, so it waits for real. Nothing fails because the machine is slow:
//! how long something took is printed, and only what must hold on any machine is checked.

#![expect(clippy::disallowed_methods, reason = "real time is the subject")]

mod backends;
mod calls;
mod checks;
mod cluster;
mod faults;
mod ledger;
mod load;
mod processes;
mod proof;
mod proxy;
mod report;
mod settings;
mod world;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use chrono::Utc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use trigger_manager::line::stand_in::StandIn;

use backends::Backends;
use checks::Evidence;
use cluster::Cluster;
use faults::{Past, Victims};
use ledger::Tables;
use load::Client;
use processes::Fleet;
use report::{Phases, Report};
use settings::Form;
use world::World;

/// What healthy processes have not got on with for so long is stuck.
const STUCK: Duration = Duration::from_secs(120);

fn main() -> Result<()> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [form, work] = &arguments[..] else {
        println!("nothing is done here; `tests/fire/run` runs it");
        return Ok(());
    };
    let form = Form::named(form).context("the form is long or short")?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let passed = runtime.block_on(run(form, &PathBuf::from(work)))?;
    anyhow::ensure!(passed, "a promise was broken");
    Ok(())
}

async fn run(form: Form, work: &Path) -> Result<bool> {
    let began = Instant::now();
    let say = |what: &str| println!("{:>4} s  {what}", began.elapsed().as_secs());
    let cluster = Cluster::start(work).await?;
    let platform = StandIn::start([world::ACCESS_TOKEN]).await?;
    let fleet = Fleet::start(&form, &cluster, platform.base_url()).await?;
    say("3 executors and 2 APIs run");
    let backends = Backends::start(fleet.clone(), form.timeout, &world::BACKENDS).await?;
    let world = World::furnish(Client::new(fleet.clone())?, &form, &backends).await?;
    let mut load = world.use_it();
    let heart = tokio::spawn(world.clone().beat());
    let calm = Utc::now();
    sleep(form.calm).await;
    fleet.all().for_each(|slot| slot.weigh());
    say("faults begin");
    backends.get_rough(true);
    let (faults, mut past) = (Utc::now(), Past::default());
    let victims = Victims {
        form: &form,
        fleet: &fleet,
        cluster: &cluster,
        backends: &backends,
        platform: &platform,
    };
    victims.hurt(&mut past).await?;
    backends.get_rough(false);
    let phases = Phases { calm, faults, healed: Utc::now() };
    say("everything is healthy again");
    world.stop();
    let broken = all_ended(&mut load).await?;
    let tables = Tables::open(cluster.url.as_str()).await?;
    let behind = until_none(|| tables.behind(phases.healed)).await?;
    say("all schedules are evaluated");
    for trigger in tables.enabled().await? {
        world.put_to_sleep(&trigger.to_string()).await?;
    }
    let stuck = until_none(|| tables.unfinished()).await?;
    heart.abort();
    say("all work has ended");
    let ledger = tables.read().await?;
    let evidence = Evidence {
        calendar: ledger::calendar(&ledger.audits)?,
        past: Arc::new(past),
        requests: backends.requests(),
        ledger,
        calls: world.client.calls(),
        messages: platform.accepted(),
        rules: world.rules()?,
        output: Arc::new(fleet.all().map(|slot| (slot.name.clone(), slot.output())).collect()),
        memory: fleet.all().map(|s| (s.name.clone(), s.early(), s.resident())).collect(),
        unasked: unasked(&fleet),
        stuck,
        behind,
        broken,
        form,
    };
    conclude(&evidence, phases, &backends.healthy(), work)
}

/// Waits for all who use the world; answers what went wrong for them.
async fn all_ended(load: &mut JoinSet<Result<()>>) -> Result<Vec<String>> {
    let mut broken = Vec::new();
    while let Some(ended) = load.join_next().await {
        broken.extend(ended?.err().map(|error| format!("{error:#}")));
    }
    Ok(broken)
}

/// Asks until there is nothing; answers what there is when it has not become less than ever
/// for [`STUCK`].
async fn until_none<F>(ask: impl Fn() -> F) -> Result<Vec<String>>
where
    F: Future<Output = Result<Vec<String>>>,
{
    let mut found = ask().await?;
    let (mut least, mut since) = (found.len(), Instant::now());
    while !found.is_empty() && since.elapsed() < STUCK {
        sleep(Duration::from_millis(200)).await;
        found = ask().await?;
        if found.len() < least {
            (least, since) = (found.len(), Instant::now());
        }
    }
    Ok(found)
}

fn unasked(fleet: &Fleet) -> Vec<String> {
    fleet
        .all()
        .filter(|slot| !slot.is_alive() || !slot.unasked().is_empty())
        .map(|slot| format!("{}: {:?} of {} starts", slot.name, slot.unasked(), slot.starts()))
        .collect()
}

/// Prints what was found, and keeps all of it in `work`.
fn conclude(evidence: &Evidence, phases: Phases, healthy: &[&str], work: &Path) -> Result<bool> {
    let mut checks = checks::all(evidence);
    checks.push(proof::of(evidence));
    let report = Report::of(evidence, &checks, phases, healthy);
    println!("\n{report}");
    let mut failed = 0;
    for check in &checks {
        if check.passed() {
            println!("passed  {} ({})", check.name, check.seen);
            continue;
        }
        failed += 1;
        println!("FAILED  {} ({}): {} times", check.name, check.seen, check.wrong.len());
        check.wrong.iter().take(5).for_each(|wrong| println!("          {wrong}"));
    }
    std::fs::write(work.join("report.json"), serde_json::to_string_pretty(&report)?)?;
    std::fs::write(work.join("trace.txt"), report::trace(evidence))?;
    for (name, lines) in &*evidence.output {
        std::fs::write(work.join(format!("{name}.log")), lines.join("\n"))?;
    }
    println!("\n{} passed, {failed} failed", checks.len() - failed);
    Ok(failed == 0)
}
