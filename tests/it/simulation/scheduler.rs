//! Who goes on, and what happens to them there.
//!
//! Each actor is a task that stops at every checkpoint. One of them runs at a time, from one checkpoint to the
//! next, so that the order of everything is the dice's. Whoever is between the beginning and the
//! end of a transaction keeps the others from beginning one: nobody ever waits for a database lock.

use std::collections::{BTreeMap, HashMap};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration as Span;

use chrono::{DateTime, Duration, Utc};
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use trigger_manager::checkpoint::{Checkpoint, Point};
use trigger_manager::clock::ManualClock;
use trigger_manager::error::{Error, Result};

use super::backend::Requests;
use super::dice::Dice;
use crate::harness::engine;

/// How long, in real time, an actor may take from one checkpoint to the next.
const PATIENCE: Span = Span::from_secs(60);
/// How long an attempt may take; what the simulation's settings say too.
pub const TIMEOUT: Duration = Duration::seconds(10);
/// A run that takes longer than this may lose its leases to others whose clocks are ahead.
const SLOW: Duration = Duration::seconds(8);

/// How many steps a failure tells.
const TOLD: usize = 60;

pub type ActorId = usize;

tokio::task_local! {
    static ACTOR: ActorId;
}

enum Event {
    At(ActorId, Point, oneshot::Sender<Result<()>>),
    Ended(ActorId, Ending),
}

/// How an actor ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Ending {
    Well,
    Badly(String),
    Panicked,
    Crashed,
}

/// The checkpoint of all actors. Lets others, who prepare and check, pass.
pub struct Turnstile(mpsc::UnboundedSender<Event>);

impl Checkpoint for Turnstile {
    fn pass(&self, point: Point) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            let Ok(actor) = ACTOR.try_with(|actor| *actor) else { return Ok(()) };
            let (answer, decided) = oneshot::channel();
            let _ = self.0.send(Event::At(actor, point, answer));
            decided.await.unwrap_or(Err(Error::Busy))
        })
    }
}

/// What may happen at a checkpoint, and how often of a thousand times.
#[derive(Debug, Clone, Default)]
pub struct Faults {
    pub fail: usize,
    pub crash: usize,
    pub stall: usize,
    /// That time passes while something is under way.
    pub drift: usize,
    /// How far clocks may be off, in milliseconds.
    pub skew: i64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Fate {
    Pass,
    Fail,
    Crash,
    Stall,
}

struct Actor {
    name: String,
    task: JoinHandle<()>,
    at: Option<(Point, oneshot::Sender<Result<()>>)>,
    stalled_until: DateTime<Utc>,
    began: DateTime<Utc>,
    send_began: DateTime<Utc>,
    /// Its requests, as numbers in the log.
    requests: Vec<usize>,
    /// The one whose answer it has not yet.
    sending: Option<usize>,
    /// Something was made to go wrong.
    faulted: bool,
}

/// What an actor did, once it has ended.
#[derive(Debug, Clone)]
pub struct Ended {
    pub actor: ActorId,
    pub name: String,
    pub ending: Ending,
    pub faulted: bool,
}

pub struct Scheduler {
    pub seed: u64,
    pub dice: Dice,
    pub faults: Faults,
    pub time: DateTime<Utc>,
    /// Each clock and how far it is off.
    pub clocks: Vec<(ManualClock, Duration)>,
    /// When the transactions of actors were committed, by the actor's name.
    pub commits: HashMap<String, DateTime<Utc>>,
    trace: Vec<String>,
    pub requests: Requests,
    actors: BTreeMap<ActorId, Actor>,
    ended: Vec<Ended>,
    writer: Option<ActorId>,
    committed: bool,
    events: mpsc::UnboundedReceiver<Event>,
    sender: mpsc::UnboundedSender<Event>,
    next: ActorId,
}

impl Scheduler {
    pub fn new(seed: u64, dice: Dice, time: DateTime<Utc>, requests: Requests) -> Self {
        let (sender, events) = mpsc::unbounded_channel();
        Self {
            seed,
            dice,
            faults: Faults::default(),
            time,
            clocks: Vec::new(),
            commits: HashMap::new(),
            trace: Vec::new(),
            requests,
            actors: BTreeMap::new(),
            ended: Vec::new(),
            writer: None,
            committed: false,
            events,
            sender,
            next: 0,
        }
    }

    pub fn checkpoint(&self) -> Arc<Turnstile> {
        Arc::new(Turnstile(self.sender.clone()))
    }

    pub fn note(&mut self, text: impl std::fmt::Display) {
        let time = self.time.format("%H:%M:%S%.3f");
        self.trace.push(format!("{:>5} {time} {text}", self.trace.len()));
    }

    /// Lets time pass on all clocks.
    pub fn advance(&mut self, milliseconds: i64) {
        self.time += Duration::milliseconds(milliseconds);
        self.set_clocks();
    }

    pub fn set_clocks(&mut self) {
        self.requests.set_time(self.time);
        for (clock, skew) in &self.clocks {
            clock.set(self.time + *skew);
        }
    }

    /// Begins an actor and lets it run to its first checkpoint.
    pub async fn spawn<F>(&mut self, name: String, work: F) -> ActorId
    where
        F: Future<Output = Result<(), String>> + Send + 'static,
    {
        let id = self.next;
        self.next += 1;
        let sender = self.sender.clone();
        let task = tokio::spawn(ACTOR.scope(id, async move {
            let ending = match AssertUnwindSafe(work).catch_unwind().await {
                Ok(Ok(())) => Ending::Well,
                Ok(Err(error)) => Ending::Badly(error),
                Err(_) => Ending::Panicked,
            };
            let _ = sender.send(Event::Ended(id, ending));
        }));
        self.note(format_args!("{name} begins"));
        let actor = Actor {
            name,
            task,
            at: None,
            stalled_until: self.time,
            began: self.time,
            send_began: self.time,
            requests: Vec::new(),
            sending: None,
            faulted: false,
        };
        self.actors.insert(id, actor);
        self.settle(id).await;
        id
    }

    pub fn take_ended(&mut self) -> Vec<Ended> {
        std::mem::take(&mut self.ended)
    }

    /// Whether something was committed since the last time this was asked.
    pub fn has_committed(&mut self) -> bool {
        std::mem::take(&mut self.committed)
    }

    /// Lets one actor go on, or something happen to it. False: nobody can.
    pub async fn step(&mut self) -> bool {
        let ready: Vec<_> = self
            .actors
            .iter()
            .filter(|(id, actor)| self.is_ready(**id, actor))
            .map(|(id, _)| *id)
            .collect();
        if ready.is_empty() {
            return false;
        }
        if self.dice.chance(self.faults.drift) {
            let some = self.dice.range(50, 1500);
            self.advance(some);
        }
        let id = self.dice.pick(&ready);
        let fate = self.fate(id);
        let (name, point) = (&self.actors[&id].name, self.actors[&id].at.as_ref().unwrap().0);
        let text = format!("{name} {point:?}: {fate:?}");
        self.note(text);
        match fate {
            Fate::Crash => self.crash(id).await,
            Fate::Stall => {
                let until = self.time + Duration::seconds(self.dice.range(2, 60));
                self.actors.get_mut(&id).unwrap().stalled_until = until;
            }
            Fate::Pass | Fate::Fail => self.release(id, fate == Fate::Pass).await,
        }
        true
    }

    fn is_ready(&self, id: ActorId, actor: &Actor) -> bool {
        let waits = matches!(actor.at, Some((Point::BeforeBegin, _)))
            && self.writer.is_some_and(|writer| writer != id);
        actor.at.is_some() && !waits && actor.stalled_until <= self.time
    }

    fn fate(&mut self, id: ActorId) -> Fate {
        let actor = &self.actors[&id];
        let (point, send_began) = (actor.at.as_ref().unwrap().0, actor.send_began);
        let sending = matches!(point, Point::BeforeSend | Point::AfterSend);
        if sending && self.time - send_began >= TIMEOUT {
            return Fate::Fail;
        }
        let Faults { fail, crash, stall, .. } = self.faults;
        let roll = self.dice.below(1000);
        match roll {
            _ if roll < fail => Fate::Fail,
            _ if roll < fail + crash => Fate::Crash,
            _ if roll < fail + crash + stall && self.writer != Some(id) => Fate::Stall,
            _ => Fate::Pass,
        }
    }

    async fn release(&mut self, id: ActorId, pass: bool) {
        let actor = self.actors.get_mut(&id).unwrap();
        let (point, answer) = actor.at.take().unwrap();
        actor.faulted |= !pass;
        let before = self.requests.len();
        match point {
            Point::BeforeBegin if pass => self.writer = Some(id),
            Point::AfterSend => {
                let excuse = (!pass).then_some("its answer was lost");
                self.requests.ended(actor.sending.take(), excuse);
            }
            _ => {}
        }
        let _ = answer.send(if pass { Ok(()) } else { Err(Error::internal("made to fail")) });
        self.settle(id).await;
        if point == Point::BeforeSend {
            let sent = before..self.requests.len();
            if let Some(actor) = self.actors.get_mut(&id) {
                actor.sending = sent.clone().last();
                actor.requests.extend(sent);
            }
        }
    }

    /// Ends an actor where it stands, as the death of its process would.
    pub async fn crash(&mut self, id: ActorId) {
        let Some(mut actor) = self.actors.remove(&id) else { return };
        actor.task.abort();
        let _ = (&mut actor.task).await;
        self.free(id);
        self.forget(id, actor, Ending::Crashed);
    }

    fn free(&mut self, id: ActorId) {
        if self.writer == Some(id) {
            self.writer = None;
        }
    }

    /// Waits until the actor stands at its next checkpoint or has ended.
    async fn settle(&mut self, id: ActorId) {
        let event = tokio::time::timeout(PATIENCE, self.events.recv()).await;
        let Ok(Some(event)) = event else {
            let name = &self.actors[&id].name;
            panic!("{name} neither came to its next checkpoint nor ended within a minute");
        };
        match event {
            Event::At(other, point, answer) => {
                assert_eq!(other, id, "one actor runs at a time");
                let actor = self.actors.get_mut(&id).unwrap();
                if point == Point::BeforeSend {
                    actor.send_began = self.time;
                }
                if point == Point::AfterCommit {
                    self.commits.insert(actor.name.clone(), self.time);
                    self.committed = true;
                }
                actor.at = Some((point, answer));
                if point != Point::BeforeCommit {
                    self.free(id);
                }
            }
            Event::Ended(other, ending) => {
                assert_eq!(other, id, "one actor runs at a time");
                self.free(id);
                let actor = self.actors.remove(&id).unwrap();
                self.forget(id, actor, ending);
            }
        }
    }

    fn forget(&mut self, id: ActorId, actor: Actor, ending: Ending) {
        self.note(format_args!("{} ends: {ending:?}", actor.name));
        let excuse = match ending {
            Ending::Well if self.time - actor.began < SLOW => None,
            Ending::Well => Some("its executor was slow"),
            _ => Some("its executor ended badly"),
        };
        for request in &actor.requests {
            self.requests.ended(Some(*request), excuse);
        }
        let Actor { name, faulted, .. } = actor;
        self.ended.push(Ended { actor: id, name, ending, faulted });
    }
}

/// Whatever it is that fails, says how to see it fail again.
impl Drop for Scheduler {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        let last = self.trace.len().saturating_sub(TOLD);
        eprintln!("the last steps of seed {}:\n{}", self.seed, self.trace[last..].join("\n"));
        eprintln!(
            "seed {} failed; to see it again: {}",
            self.seed,
            super::command(self.seed, engine())
        );
    }
}
