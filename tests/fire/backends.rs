//! Backends that write down every request, on HTTP/1.1 of their own, since some break it on
//! purpose; and traps: a request springs one, and the executor that sent it is hurt.

use std::sync::{Arc, Mutex};

use anyhow::{Context, Result};
use chrono::{DateTime, Utc};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::time::{Duration, sleep};
use uuid::Uuid;

use crate::processes::Fleet;

/// How a backend behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// Answers 204 at once.
    Healthy,
    /// Never answers.
    Hangs,
    /// Answers 200 when nobody waits any more.
    Late,
    /// Does what it is told, and answers 500.
    Denies,
    /// Answers what is no HTTP.
    Babbles,
    /// Resets the connection.
    Resets,
}

/// What happens to the executor whose request springs a trap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trap {
    /// Killed before it is answered.
    Kill,
    /// Answered and killed at once.
    AnswerAndKill,
    /// Stopped, then answered.
    Stop,
}

/// A trap that was sprung.
#[derive(Debug, Clone, Copy)]
pub struct Sprung {
    /// Which executor was hurt.
    pub slot: usize,
    pub at: DateTime<Utc>,
}

/// Which process sent a request: a slot and a process id.
pub type Sender = (usize, u32);

/// A request as it came.
#[derive(Debug, Clone)]
pub struct Request {
    pub backend: &'static str,
    pub at: DateTime<Utc>,
    /// When it was answered, or its connection closed.
    pub ended: Option<DateTime<Utc>>,
    /// The status, if the answer could be sent while the connection was open.
    pub answered: Option<u16>,
    pub webhook_id: Uuid,
    pub attempt: i32,
    pub token_fits: bool,
    pub body: Vec<u8>,
    pub trigger_id: Option<Uuid>,
    pub due: Option<DateTime<Utc>>,
    pub sender: Option<Sender>,
}

impl Request {
    /// Whether it was answered as a success.
    pub fn succeeded(&self) -> bool {
        self.answered.is_some_and(|status| (200..300).contains(&status))
    }
}

/// A backend.
pub struct Backend {
    pub name: &'static str,
    pub url: String,
    manner: Manner,
}

/// All of them, and what they wrote down.
pub struct Backends {
    pub all: Vec<Backend>,
    shared: Arc<Shared>,
}

struct Shared {
    fleet: Arc<Fleet>,
    timeout: Duration,
    log: Mutex<Vec<Request>>,
    rough: Mutex<bool>,
    trap: Mutex<Option<(Trap, oneshot::Sender<Sprung>)>>,
}

/// The token that callbacks of a backend must show.
pub fn token(name: &str) -> String {
    format!("a-token-for-the-backend-{name}")
}

impl Backends {
    /// Starts backends; those that are not healthy are so all the same until they get rough.
    pub async fn start(
        fleet: Arc<Fleet>,
        timeout: Duration,
        wanted: &[(&'static str, Manner)],
    ) -> Result<Self> {
        let shared = Arc::new(Shared {
            fleet,
            timeout,
            log: Mutex::default(),
            rough: Mutex::default(),
            trap: Mutex::default(),
        });
        let mut all = Vec::new();
        for (name, manner) in wanted.iter().copied() {
            let listener = TcpListener::bind("127.0.0.1:0").await?;
            let port = listener.local_addr()?.port();
            let shared = shared.clone();
            tokio::spawn(async move {
                while let Ok((stream, _)) = listener.accept().await {
                    let talk = Talk { name, manner, shared: shared.clone(), sender: None };
                    // A connection may end in any way.
                    tokio::spawn(async move { talk.converse(stream).await.ok() });
                }
            });
            all.push(Backend { name, url: format!("http://127.0.0.1:{port}/hook"), manner });
        }
        Ok(Self { all, shared })
    }

    /// Whether those that are not healthy behave so.
    pub fn get_rough(&self, rough: bool) {
        *self.shared.rough.lock().expect("nobody panics") = rough;
    }

    /// Sets a trap for the next first attempt at a healthy backend.
    pub fn set(&self, trap: Trap) -> oneshot::Receiver<Sprung> {
        let (tell, sprung) = oneshot::channel();
        *self.shared.trap.lock().expect("nobody panics") = Some((trap, tell));
        sprung
    }

    /// All requests so far, in the order in which they came.
    pub fn requests(&self) -> Vec<Request> {
        self.shared.log.lock().expect("nobody panics").clone()
    }

    /// The names of those that are always healthy.
    pub fn healthy(&self) -> Vec<&'static str> {
        let healthy = self.all.iter().filter(|one| one.manner == Manner::Healthy);
        healthy.map(|one| one.name).collect()
    }
}

/// A connection.
struct Talk {
    name: &'static str,
    manner: Manner,
    shared: Arc<Shared>,
    sender: Option<Sender>,
}

impl Talk {
    async fn converse(mut self, mut stream: TcpStream) -> Result<()> {
        stream.set_nodelay(true)?;
        let (theirs, ours) = (stream.peer_addr()?.port(), stream.local_addr()?.port());
        self.sender = self.shared.fleet.executor_at(theirs, ours);
        let mut buffer = Vec::with_capacity(4096);
        while let Some((head, body)) = read(&mut stream, &mut buffer).await? {
            let number = self.note(&head, body);
            let answered = self.answer(&mut stream, number).await;
            let mut log = self.shared.log.lock().expect("nobody panics");
            log[number].ended = Some(Utc::now());
            log[number].answered = answered;
            if answered.is_none() {
                break;
            }
        }
        Ok(())
    }

    fn note(&self, head: &str, body: Vec<u8>) -> usize {
        let json: Value = serde_json::from_slice(&body).unwrap_or_default();
        let text = |key: &str| json[key].as_str().unwrap_or_default();
        let header = |name| header(head, name).unwrap_or_default();
        let request = Request {
            backend: self.name,
            at: Utc::now(),
            ended: None,
            answered: None,
            webhook_id: header("webhook-id").parse().unwrap_or_default(),
            attempt: header("x-trigger-attempt").parse().unwrap_or_default(),
            token_fits: header("authorization") == format!("Bearer {}", token(self.name)),
            trigger_id: text("trigger_id").parse().ok(),
            due: text("executed_at").parse().ok(),
            sender: self.sender,
            body,
        };
        let mut log = self.shared.log.lock().expect("nobody panics");
        log.push(request);
        log.len() - 1
    }

    /// Answers; none: no answer went out and the connection is over.
    async fn answer(&self, stream: &mut TcpStream, number: usize) -> Option<u16> {
        let rough = *self.shared.rough.lock().expect("nobody panics");
        match if rough { self.manner } else { Manner::Healthy } {
            Manner::Healthy => match self.trap(number) {
                Some(Trap::Kill) => None,
                _ => say(stream, 204, "No Content").await,
            },
            Manner::Hangs => closed(stream).await,
            Manner::Late => {
                let late = self.shared.timeout + Duration::from_secs(1);
                tokio::select! {
                    nothing = closed(stream) => nothing,
                    () = sleep(late) => say(stream, 200, "OK").await,
                }
            }
            Manner::Denies => say(stream, 500, "Internal Server Error").await,
            Manner::Babbles => {
                let _ = stream.write_all(b"\x00\xffHTTP? never heard of it\r\n\r\n").await;
                None
            }
            Manner::Resets => {
                let _ = stream.set_zero_linger();
                None
            }
        }
    }

    /// Springs the trap, if one is set. A kill before the answer leaves it to the dead connection.
    fn trap(&self, number: usize) -> Option<Trap> {
        let (slot, pid) = self.sender?;
        let victim = &self.shared.fleet.executors[slot];
        if victim.pid() != Some(pid) {
            return None;
        }
        let (trap, tell) = self.shared.trap.lock().expect("nobody panics").take()?;
        match trap {
            Trap::Kill | Trap::AnswerAndKill => {
                let victim = victim.clone();
                let delay = if trap == Trap::Kill { 0 } else { 1 };
                tokio::spawn(async move {
                    sleep(Duration::from_millis(delay)).await;
                    victim.kill();
                });
            }
            Trap::Stop => victim.signal("STOP"),
        }
        let at = self.shared.log.lock().expect("nobody panics")[number].at;
        let _ = tell.send(Sprung { slot, at });
        Some(trap)
    }
}

/// Waits until the other side has gone.
async fn closed(stream: &mut TcpStream) -> Option<u16> {
    let mut byte = [0];
    let _ = stream.read(&mut byte).await;
    None
}

async fn say(stream: &mut TcpStream, status: u16, word: &str) -> Option<u16> {
    let answer = format!("HTTP/1.1 {status} {word}\r\ncontent-length: 0\r\n\r\n");
    let answer = if status == 204 { answer.replace("content-length: 0\r\n", "") } else { answer };
    stream.write_all(answer.as_bytes()).await.is_ok().then_some(status)
}

/// The next request: its head and its body.
async fn read(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Result<Option<(String, Vec<u8>)>> {
    loop {
        let end = buffer.windows(4).position(|window| window == b"\r\n\r\n");
        if let Some(end) = end {
            let head = String::from_utf8_lossy(&buffer[..end]).into_owned();
            let length = header(&head, "content-length").context("no length")?;
            let all = end + 4 + length.parse::<usize>()?;
            if buffer.len() >= all {
                let body = buffer[end + 4..all].to_vec();
                buffer.drain(..all);
                return Ok(Some((head, body)));
            }
        }
        if stream.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    }
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        key.eq_ignore_ascii_case(name).then(|| value.trim())
    })
}
