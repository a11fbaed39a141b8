//! A server of several processes, and the weather that it works in.

use std::sync::{Arc, Mutex};

use chrono::{DateTime, Duration, Utc};
use trigger_manager::app::App;
use trigger_manager::clock::ManualClock;
use trigger_manager::domain::access::Scope;
use trigger_manager::domain::audit::Caller;
use trigger_manager::domain::id::BackendId;
use trigger_manager::domain::page::PageRequest;
use trigger_manager::executor::Executor;
use trigger_manager::line::stand_in::Fault;

use super::backend::{Backends, Mood, Requests};
use super::calls::{self, Call, Door};
use super::dice::Dice;
use super::rules::{self, Ground};
use super::scheduler::{ActorId, Ending, Faults, Scheduler};
use super::watch::Times;
use crate::app::{TestApp, parts, start};
use crate::rules::place::Place;

/// How many users the audience of time-based rules has.
pub const MEMBERS: usize = 4;
/// How far a clock may be off.
pub const SKEW: i64 = 5_000;
/// Much shorter than a server's, so that much happens in few steps.
pub const SETTINGS: [(&str, &str); 12] = [
    // 32 bytes: a passphrase costs each process a moment.
    ("PFY_SECRET_KEY", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="),
    ("PFY_CRON_TRIGGER_CHECK_INTERVAL", "10s"),
    ("PFY_CRON_BACKEND_HEARTBEAT_TIMEOUT", "60s"),
    ("PFY_CRON_CATCH_UP_WINDOW", "5m"),
    ("PFY_DISPATCH_TIMEOUT", "10s"),
    ("PFY_LINE_TIMEOUT", "10s"),
    ("PFY_DISPATCH_LEASE", "20s"),
    ("PFY_DISPATCH_RETRY_INITIAL", "2s"),
    ("PFY_DISPATCH_RETRY_MAX", "30s"),
    ("PFY_DISPATCH_RETRY_MAX_ATTEMPTS", "6"),
    ("PFY_DISPATCH_RETRY_MAX_AGE", "5m"),
    // So that what is disabled with little that waits is taken back in steps, too.
    ("PFY_RETENTION_BATCH", "2"),
];
/// A round that takes more steps than this will never end.
const STEPS_MAX: usize = 20_000;

/// A process with an executor.
struct Process {
    app: Arc<App>,
    executor: Arc<Executor>,
    running: Option<ActorId>,
    down_until: DateTime<Utc>,
    started: usize,
}

pub struct World {
    /// Looks on: no checkpoint, no skew.
    pub p: Place,
    pub s: Scheduler,
    pub calls: Vec<(String, Call)>,
    backends: Backends,
    api: Arc<App>,
    processes: Vec<Process>,
    rounds: usize,
    /// How many calls a round has at most.
    busy: usize,
    pub times: Times,
    /// The executors that began in this round, and when it began, if one of them has become idle.
    begun: Vec<ActorId>,
    pub(super) idle_since: Option<DateTime<Utc>>,
    round_began: DateTime<Utc>,
    theme: Theme,
}

/// What it is about.
struct Theme {
    triggers: bool,
    rules: bool,
    /// How many events were told of.
    told: usize,
    /// A day has passed since the round before: people try again what has ended.
    new_day: bool,
    /// A day passes before the next round.
    is_evening: bool,
    ground: Ground,
}

impl World {
    pub async fn new(seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let requests = Requests::new(dice.fork(), start());
        let mut s = Scheduler::new(seed, dice.fork(), start(), requests.clone());
        let p = Place::with(&SETTINGS).await;
        let t = &p.t;
        s.clocks.push((t.clock.clone(), Duration::zero()));
        let backends = Backends::start(requests).await;
        let api = process(t, &mut s).await;
        let mut processes = Vec::new();
        for _ in 0..dice.range(2, 3) {
            let app = process(t, &mut s).await;
            let executor = executor(&app, dice.fork());
            let (running, down_until, started) = (None, start(), 1);
            processes.push(Process { app, executor, running, down_until, started });
        }
        s.faults = Faults {
            fail: dice.pick(&[0, 10, 40]),
            crash: dice.pick(&[0, 5, 15]),
            stall: dice.pick(&[0, 0, 10]),
            drift: dice.pick(&[0, 20, 100]),
            skew: dice.pick(&[0, 0, SKEW]),
        };
        let faults = s.faults.clone();
        s.note(format_args!("{} executors, {faults:?}", processes.len()));
        let (rounds, busy) = (dice.range(8, 20) as usize, dice.below(4));
        let themes = [(true, false), (true, false), (false, true), (true, true)];
        let (triggers, rules) = dice.pick(&themes);
        let audience = p.audience(MEMBERS).await.id;
        let ground = Ground { line_oa: p.line_oa.id, audience, application: p.t.application.id };
        let theme = Theme { triggers, rules, told: 0, new_day: false, is_evening: false, ground };
        let (calls, times) = (Vec::new(), Times::default());
        let (begun, idle_since, round_began) = (Vec::new(), None, start());
        Self {
            p,
            s,
            calls,
            backends,
            api,
            processes,
            rounds,
            busy,
            times,
            begun,
            idle_since,
            round_began,
            theme,
        }
    }

    /// Lives through all rounds and through the end, when nothing goes wrong any more.
    pub async fn live(&mut self) {
        for number in 0..=self.s.dice.below(2) {
            self.quietly(Call::Register { number }).await;
        }
        for _ in 0..self.s.dice.range(1, 3) {
            if self.theme.triggers {
                let call = calls::trigger(&mut self.s.dice);
                self.quietly(call).await;
            }
            if self.theme.rules {
                let call = Call::Rules(rules::rule(&mut self.s.dice));
                self.quietly(call).await;
            }
        }
        self.watch().await;
        for _ in 0..self.rounds {
            self.change_weather().await;
            self.round(true).await;
        }
        self.end().await;
    }

    /// Makes a call that nothing happens to.
    async fn quietly(&mut self, call: Call) {
        let caller = Caller { request_id: Some("quiet".into()), ..self.p.t.caller.clone() };
        call.perform(&self.p.t.app, &caller, &self.door()).await.unwrap();
    }

    fn door(&self) -> Door {
        let (application, base) = (self.p.t.application.id, self.backends.base.clone());
        Door { application, base, ground: self.theme.ground }
    }

    async fn change_weather(&mut self) {
        let dice = &mut self.s.dice;
        let moods = [Mood::Healthy, Mood::Healthy, Mood::Flaky, Mood::Flaky, Mood::Broken];
        if dice.chance(250) {
            let moods = [dice.pick(&moods), dice.pick(&moods)];
            self.s.requests.set_moods(moods);
            self.s.note(format_args!("the backends are {moods:?}"));
        }
        let skew = self.s.faults.skew;
        if skew > 0 && self.s.dice.chance(200) {
            let which = 1 + self.s.dice.below(self.s.clocks.len() - 1);
            self.s.clocks[which].1 = Duration::milliseconds(self.s.dice.range(-skew, skew));
            let now = self.s.clocks[which].1;
            self.s.note(format_args!("clock {which} is off by {now}"));
        }
        let mut passes = self.s.dice.range(1, 50) * 100;
        if self.s.dice.chance(60) {
            self.s.note("all executors are down");
            self.stop_all().await;
            passes = self.s.dice.range(20, 400) * 1000;
        }
        self.theme.new_day = false;
        if self.theme.rules {
            self.change_line(&mut passes).await;
        }
        self.s.advance(passes);
        if self.s.dice.chance(900) {
            self.beat().await;
        }
    }

    /// What the LINE platform is up to; and when there are no triggers, which would be due too often, days
    /// pass. It remembers a retry key for one. In the round before nothing that is sent seems to be.
    async fn change_line(&mut self, passes: &mut i64) {
        let faults = [Fault::ErrorBefore, Fault::ErrorAfter, Fault::CutAfter, Fault::RateLimited];
        let is_evening = !self.theme.triggers && self.s.dice.chance(60);
        if is_evening || self.s.dice.chance(200) {
            let (times, fault) = (self.s.dice.range(1, 12) as usize, self.s.dice.pick(&faults));
            let fault = if is_evening { Fault::ErrorAfter } else { fault };
            self.p.line.fail_next(times, fault);
            self.s.note(format_args!("the LINE platform: {times} times {fault:?}"));
        }
        if std::mem::replace(&mut self.theme.is_evening, is_evening) {
            self.s.note("a day passes");
            self.stop_all().await;
            *passes = self.s.dice.range(22 * 3600, 26 * 3600) * 1000;
            self.theme.new_day = true;
            if *passes >= 24 * 3600 * 1000 {
                self.p.line.forget_keys();
            }
        }
    }

    /// Every backend that may sends a heartbeat.
    async fn beat(&self) {
        let page = PageRequest { limit: 200, ..Default::default() };
        let all = self.p.t.app.backends(Scope::Everything, None, None, &page).await.unwrap();
        let alive: Vec<BackendId> = all
            .rows
            .into_iter()
            .filter(|(_, backend)| backend.deactivated_at.is_none())
            .map(|(_, backend)| backend.id)
            .collect();
        self.p.t.heartbeat(&alive).await;
    }

    async fn stop_all(&mut self) {
        for process in &self.processes {
            if let Some(running) = process.running {
                self.s.crash(running).await;
            }
        }
        self.notice();
    }

    /// Lets every executor run until it is idle, and calls come in between.
    async fn round(&mut self, with_calls: bool) {
        let mut calls = if with_calls { self.s.dice.below(self.busy + 1) } else { 0 };
        if self.theme.new_day && with_calls {
            calls += 3;
        }
        self.begun.clear();
        (self.idle_since, self.round_began) = (None, self.s.time);
        let mut starting: Vec<_> = (0..self.processes.len()).collect();
        for steps in 0.. {
            assert!(steps < STEPS_MAX, "the executors never become idle");
            let stepped = self.s.step().await;
            self.notice();
            if self.s.has_committed() {
                self.watch().await;
            }
            if !starting.is_empty() && (!stepped || self.s.dice.chance(100)) {
                let which = self.s.dice.below(starting.len());
                self.run_executor(starting.swap_remove(which)).await;
            } else if calls > 0 && (!stepped || self.s.dice.chance(60)) {
                calls -= 1;
                self.call().await;
            } else if !stepped {
                return self.count().await;
            }
            self.notice();
        }
    }

    async fn run_executor(&mut self, which: usize) {
        let process = &self.processes[which];
        if process.running.is_some() || process.down_until > self.s.time {
            return;
        }
        let executor = process.executor.clone();
        let name = format!("executor {which}.{}", process.started);
        let run = async move {
            executor.run_until_idle().await.map(drop).map_err(|error| format!("{error:?}"))
        };
        let id = self.s.spawn(name, run).await;
        self.processes[which].running = Some(id);
        self.begun.push(id);
    }

    async fn call(&mut self) {
        let Theme { triggers, rules, ref mut told, new_day, .. } = self.theme;
        let (dice, app) = (&mut self.s.dice, &self.p.t.app);
        let retry =
            rules::retry(dice, app, (self.calls.last().map(|(_, call)| call), new_day)).await;
        let call = match retry {
            Some(retry) => Call::Rules(retry),
            None if rules && (!triggers || dice.chance(500)) => {
                Call::Rules(rules::choose(dice, app, told).await)
            }
            None => calls::choose(dice, app).await,
        };
        let name = format!("call {}", self.calls.len());
        self.s.note(format_args!("{name} is {call:?}"));
        self.calls.push((name.clone(), call.clone()));
        let caller = Caller { request_id: Some(name.clone()), ..self.p.t.caller.clone() };
        let (app, door) = (self.api.clone(), self.door());
        let work = async move { calls::answered(call.perform(&app, &caller, &door).await) };
        self.s.spawn(name, work).await;
    }

    /// Looks at who has ended, and how.
    fn notice(&mut self) {
        for ended in self.s.take_ended() {
            match &ended.ending {
                Ending::Panicked => panic!("{} panicked", ended.name),
                Ending::Badly(error) if !ended.faulted => {
                    panic!("{} failed, although nothing was made to: {error}", ended.name)
                }
                _ => {}
            }
            let process = self.processes.iter_mut().find(|p| p.running == Some(ended.actor));
            let Some(process) = process else { continue };
            process.running = None;
            if ended.ending == Ending::Well && self.begun.contains(&ended.actor) {
                self.idle_since = Some(self.round_began);
            }
            if ended.ending == Ending::Crashed {
                process.executor = executor(&process.app, self.s.dice.fork());
                process.started += 1;
                let away = self.s.dice.range(1, 30);
                process.down_until = self.s.time + Duration::seconds(away);
            }
        }
    }
}

/// An executor whose retries are spread as `dice` say, and that holds as many of the deliveries it makes.
fn executor(app: &Arc<App>, mut dice: Dice) -> Arc<Executor> {
    let room = dice.pick(&[0, 1, 2, 100]);
    let dice = Mutex::new(dice);
    let jitter = move || dice.lock().unwrap().below(1000) as f64 / 1000.0;
    Arc::new(Executor::new(app.clone()).with_jitter(jitter).with_room(room))
}

/// Another process on the same database, behind the checkpoint and with a clock of its own.
async fn process(t: &TestApp, s: &mut Scheduler) -> Arc<App> {
    let clock = ManualClock::new(start());
    s.clocks.push((clock.clone(), Duration::zero()));
    let store = t.database.another().await.with_checkpoint(s.checkpoint());
    let egress = t.app.egress.clone().with_checkpoint(s.checkpoint());
    let parts = parts(store, &clock, t.app.config.clone(), egress);
    Arc::new(App::new(parts).unwrap())
}

mod ending;
