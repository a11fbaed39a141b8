//! The scenarios. Each makes its own database and deletes it.

use std::io::{BufRead, BufReader};
use std::iter::repeat_n;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use chrono::{DateTime, DurationRound, TimeDelta, Timelike, Utc};
use sea_orm::ConnectionTrait;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use trigger_manager::app::App;
use trigger_manager::executor::{Executor, driver};
use trigger_manager::store::{Engine, Store, executor};

use crate::bare::Bare;
use crate::measure::{self, Meter};
use crate::place::{Place, Source};
use crate::receiver::{Arrival, Receiver};
use crate::report::{Figures, Line};
use crate::seed::{self, Shape};

const DELIVERIES: usize = 10_000;
const LONGEST: Duration = Duration::from_secs(120);

/// Running executors.
struct Running {
    stop: CancellationToken,
    drivers: JoinSet<()>,
}

impl Running {
    fn start(apps: &[Arc<App>]) -> Self {
        let stop = CancellationToken::new();
        let mut drivers = JoinSet::new();
        for app in apps {
            drivers.spawn(driver::run(Arc::new(Executor::new(app.clone())), stop.clone()));
        }
        Self { stop, drivers }
    }

    /// Ends them; what is under way is recorded first.
    async fn end(mut self) {
        self.stop.cancel();
        while self.drivers.join_next().await.is_some() {}
    }
}

/// 10,000 waiting deliveries: one application, 1,000 occurrences, 10 backends.
pub async fn drain(source: &Source) -> Result<Vec<Line>> {
    let (place, mut receiver) = (source.fresh().await?, Receiver::start()?);
    let app = place.app().await?;
    let shape = Shape { applications: 1, backends: 10, triggers: 1 };
    let made = seed::seed(&app, &receiver, shape, ("0 0 0 1 1 *", in_a_year(&app))).await?;
    seed::waiting(&app, &made[0], i64::try_from(DELIVERIES / shape.backends)?).await?;
    analyze(&app.store).await?;
    let meter = Meter::start(&[&app.store]).await?;
    let running = Running::start(std::slice::from_ref(&app));
    receiver.wait_for(DELIVERIES, LONGEST).await?;
    running.end().await;
    let mut own = meter.stop(DELIVERIES).await?;
    measure::arrived(&mut own, &receiver.take()?);
    all_delivered(&app.store, DELIVERIES).await?;
    app.store.clone().close().await?;

    let bare = Bare::new(&place, &receiver, repeat_n(app.now(), DELIVERIES)).await?;
    let meter = Meter::start(&[&bare.store]).await?;
    bare.run().await?;
    let mut least = meter.stop(DELIVERIES).await?;
    measure::arrived(&mut least, &receiver.take()?);
    bare.store.close().await?;
    place.remove().await?;
    Ok(vec![Line::new("drain", own.beside(&least)), Line::new("drain, bare loop", least)])
}

/// 10,000 triggers due in the same second: 100 applications with 100 triggers and one backend.
pub async fn herd(source: &Source) -> Result<Vec<Line>> {
    let least = bare_herd(source).await?;
    let one = herd_of(source, 1).await?.beside(&least);
    let mut lines = vec![Line::new("herd", one)];
    if source.engine == Engine::Postgres {
        let three = herd_of(source, 3).await?.beside(&least);
        lines.push(Line::new("herd, three executors", three));
    }
    lines.push(Line::new("herd, bare loop", least));
    Ok(lines)
}

async fn herd_of(source: &Source, executors: usize) -> Result<Figures> {
    let (place, mut receiver) = (source.fresh().await?, Receiver::start()?);
    let mut apps = Vec::new();
    for _ in 0..executors {
        apps.push(place.app().await?);
    }
    let due = moment(&apps[0], 8)?;
    let cron = format!("{} {} {} * * *", due.second(), due.minute(), due.hour());
    let shape = Shape { applications: 100, backends: 1, triggers: DELIVERIES / 100 };
    seed::seed(&apps[0], &receiver, shape, (&cron, due)).await?;
    analyze(&apps[0].store).await?;
    ensure!(apps[0].now() < due, "making the triggers took too long");
    let stores: Vec<_> = apps.iter().map(|app| &app.store).collect();
    let running = Running::start(&apps);
    let meter = Meter::start(&stores).await?;
    receiver.wait_for(DELIVERIES, LONGEST).await?;
    running.end().await;
    let mut figures = meter.stop(DELIVERIES).await?;
    let arrivals = receiver.take()?;
    measure::arrived(&mut figures, &arrivals);
    measure::late(&mut figures, &arrivals);
    measure::since_due(&mut figures, &arrivals);
    all_delivered(&apps[0].store, DELIVERIES).await?;
    for app in &apps {
        app.store.clone().close().await?;
    }
    place.remove().await?;
    Ok(figures)
}

async fn bare_herd(source: &Source) -> Result<Figures> {
    let (place, mut receiver) = (source.fresh().await?, Receiver::start()?);
    let due = Utc::now().duration_trunc(TimeDelta::seconds(1))? + TimeDelta::seconds(5);
    let bare = Bare::new(&place, &receiver, repeat_n(due, DELIVERIES)).await?;
    ensure!(Utc::now() < due, "making the jobs took too long");
    let meter = Meter::start(&[&bare.store]).await?;
    wait_until(due).await;
    bare.run().await?;
    let mut figures = meter.stop(DELIVERIES).await?;
    let arrivals = receiver.take()?;
    measure::arrived(&mut figures, &arrivals);
    measure::late(&mut figures, &arrivals);
    measure::since_due(&mut figures, &arrivals);
    bare.store.close().await?;
    place.remove().await?;
    Ok(figures)
}

const WARM_UP: usize = 2;
const SECONDS: usize = 15;

/// Triggers that are due each second, for 15 s after two to warm up.
pub async fn steady(source: &Source) -> Result<Vec<Line>> {
    let hundred = Shape { applications: 10, backends: 1, triggers: 10 };
    let one = Shape { applications: 1, backends: 1, triggers: 1 };
    let mut lines = Vec::new();
    for (what, shape) in [("100 a second", hundred), ("one a second", one)] {
        let least = bare_each_second(source, shape.applications * shape.triggers).await?;
        let own = each_second(source, shape).await?.beside(&least);
        lines.push(Line::new(format!("steady, {what}"), own));
        lines.push(Line::new(format!("{what}, bare loop"), least));
    }
    Ok(lines)
}

async fn each_second(source: &Source, shape: Shape) -> Result<Figures> {
    let (place, mut receiver) = (source.fresh().await?, Receiver::start()?);
    let app = place.app().await?;
    let due = moment(&app, 2)?;
    seed::seed(&app, &receiver, shape, ("* * * * * *", due)).await?;
    analyze(&app.store).await?;
    let each = shape.applications * shape.triggers;
    let running = Running::start(std::slice::from_ref(&app));
    receiver.wait_for(each * WARM_UP, LONGEST).await?;
    let meter = Meter::start(&[&app.store]).await?;
    receiver.wait_for(each * (WARM_UP + SECONDS), LONGEST).await?;
    let mut figures = meter.stop(each * SECONDS).await?;
    running.end().await;
    warm(&mut figures, receiver.take()?, due)?;
    app.store.clone().close().await?;
    place.remove().await?;
    Ok(figures)
}

async fn bare_each_second(source: &Source, each: usize) -> Result<Figures> {
    let (place, mut receiver) = (source.fresh().await?, Receiver::start()?);
    let due = Utc::now().duration_trunc(TimeDelta::seconds(1))? + TimeDelta::seconds(3);
    let seconds: Vec<_> =
        (0..).map(|n| due + TimeDelta::seconds(n)).take(WARM_UP + SECONDS).collect();
    let jobs = seconds.iter().flat_map(|second| repeat_n(*second, each));
    let bare = Bare::new(&place, &receiver, jobs).await?;
    ensure!(Utc::now() < due, "making the jobs took too long");
    for second in &seconds[..WARM_UP] {
        wait_until(*second).await;
        bare.run().await?;
    }
    let meter = Meter::start(&[&bare.store]).await?;
    for second in &seconds[WARM_UP..] {
        wait_until(*second).await;
        bare.run().await?;
    }
    let mut figures = meter.stop(each * SECONDS).await?;
    warm(&mut figures, receiver.take()?, due)?;
    bare.store.close().await?;
    place.remove().await?;
    Ok(figures)
}

/// Adds what came of what was due after the time to warm up. The rate says nothing here.
fn warm(figures: &mut Figures, mut arrivals: Vec<Arrival>, due: DateTime<Utc>) -> Result<()> {
    let first = due + TimeDelta::seconds(WARM_UP.try_into()?);
    let first = Duration::from_micros(first.timestamp_micros().try_into()?);
    arrivals.retain(|arrival| arrival.due >= first);
    measure::arrived(figures, &arrivals);
    measure::late(figures, &arrivals);
    figures.per_second = None;
    Ok(())
}

/// A pass with 10 due, among 1,000 triggers and among 1,000,000.
pub async fn sparse(source: &Source) -> Result<Vec<Line>> {
    let small = pass_among(source, 1_000).await?;
    let large = pass_among(source, 1_000_000).await?;
    let line = |what: &str, ms: f64| {
        let (pass_ms, pass_to_small) = (Some(ms), Some(ms / small));
        Line::new(what, Figures { pass_ms, pass_to_small, ..Figures::default() })
    };
    Ok(vec![line("10 due of 1,000", small), line("10 due of 1,000,000", large)])
}

async fn pass_among(source: &Source, triggers: i64) -> Result<f64> {
    const PASSES: i64 = 101;
    let (place, receiver) = (source.fresh().await?, Receiver::start()?);
    let app = place.app().await?;
    let due = moment(&app, 0)?;
    let shape = Shape { applications: 1, backends: 1, triggers: 10 };
    let made = seed::seed(&app, &receiver, shape, ("* * * * * *", due)).await?;
    seed::asleep(&app, made[0].0.application_id, triggers - 10).await?;
    analyze(&app.store).await?;
    let executor = Executor::new(app.clone());
    let mut times = Vec::new();
    for second in 0..PASSES {
        let began = Instant::now();
        let report = executor.pass(due + TimeDelta::seconds(second), 0).await?;
        executor::next_due(app.store.read()).await?;
        times.push(began.elapsed());
        ensure!(report.deliveries == 10, "{report:?}");
    }
    times.sort_unstable();
    app.store.clone().close().await?;
    place.remove().await?;
    Ok(times[times.len() / 2].as_secs_f64() * 1e3)
}

/// The word that makes this program an executor that is looked at from outside.
pub const IDLER: &str = "idler";

/// An executor with nothing to do, in a process of its own, among 1,000,000 triggers.
pub async fn idle(source: &Source) -> Result<Vec<Line>> {
    const SECONDS: u64 = 30;
    let (place, receiver) = (source.fresh().await?, Receiver::start()?);
    let app = place.app().await?;
    let shape = Shape { applications: 1, backends: 1, triggers: 1 };
    let made = seed::seed(&app, &receiver, shape, ("0 0 0 1 1 *", in_a_year(&app))).await?;
    seed::asleep(&app, made[0].0.application_id, 1_000_000).await?;
    analyze(&app.store).await?;
    let mut child = Command::new(std::env::current_exe()?)
        .args([IDLER, &place.url, place.schema.as_deref().unwrap_or_default()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut said = String::new();
    BufReader::new(child.stdout.take().context("stdout")?).read_line(&mut said)?;
    let process = child.id().to_string();
    tokio::time::sleep(Duration::from_secs(3)).await;
    let before = measure::cpu(&process)?;
    tokio::time::sleep(Duration::from_secs(SECONDS)).await;
    let cpu = (measure::cpu(&process)? - before).as_secs_f64() * 1e3;
    let figures = Figures {
        cpu_ms_per_second: Some(cpu / SECONDS as f64),
        peak_mb: Some(measure::memory(&process, "VmHWM")?),
        ..Figures::default()
    };
    drop(child.stdin.take());
    child.wait()?;
    app.store.clone().close().await?;
    place.remove().await?;
    Ok(vec![Line::new("idle, 1,000,000", figures)])
}

/// Is that executor until nobody listens.
pub fn idle_here(words: Vec<String>) -> Result<()> {
    let mut words = words.into_iter();
    let url = words.next().context("no address")?;
    let schema = words.next().filter(|schema| !schema.is_empty());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let app = Place::existing(url, schema).app().await?;
        let running = Running::start(&[app]);
        println!("ready");
        tokio::task::spawn_blocking(|| std::io::stdin().lines().count()).await?;
        running.end().await;
        Ok(())
    })
}

/// Brings the planner's knowledge up to date, as autovacuum does in time. SQLite has none by
/// itself.
async fn analyze(store: &Store) -> Result<()> {
    const TABLES: &str = "application, backend_registration, trigger, trigger_occurrence, \
        scheduled_action, trigger_log";
    if store.engine() == Engine::Postgres {
        store.read().execute_unprepared(&format!("ANALYZE {TABLES}")).await?;
    }
    Ok(())
}

async fn all_delivered(store: &Store, deliveries: usize) -> Result<()> {
    let done = "SELECT count(*) AS n FROM scheduled_action WHERE status = 'completed'";
    let open = "SELECT count(*) AS n FROM trigger_occurrence WHERE status <> 'delivered'";
    let logged = "SELECT count(*) AS n FROM trigger_log WHERE status = 'success'";
    let expected = i64::try_from(deliveries)?;
    ensure!(measure::number(store, done).await? == expected, "not every delivery is recorded");
    ensure!(measure::number(store, open).await? == 0, "not every occurrence has ended");
    ensure!(measure::number(store, logged).await? == expected, "not every attempt is logged");
    Ok(())
}

/// A whole second, at least `seconds` from now.
fn moment(app: &App, seconds: i64) -> Result<DateTime<Utc>> {
    Ok(app.now().duration_trunc(TimeDelta::seconds(1))? + TimeDelta::seconds(seconds + 1))
}

fn in_a_year(app: &App) -> DateTime<Utc> {
    app.now() + TimeDelta::days(365)
}

async fn wait_until(at: DateTime<Utc>) {
    tokio::time::sleep((at - Utc::now()).to_std().unwrap_or_default()).await;
}
