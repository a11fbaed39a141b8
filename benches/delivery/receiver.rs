//! A backend that answers 204 to everything and notes what came when, in a process of its own,
//! so that what it costs is not counted for the server. It speaks as much HTTP/1.1 as one client
//! needs: one request at a time on a connection, with a length.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use chrono::{DateTime, Utc};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// The word that makes this program the receiver.
pub const ROLE: &str = "receiver";

/// A request that came.
#[derive(Clone)]
pub struct Arrival {
    pub webhook_id: String,
    /// Since 1970.
    pub at: Duration,
    /// What the body says.
    pub due: Duration,
}

impl Arrival {
    /// From when it was due until it came.
    pub fn lateness(&self) -> Duration {
        self.at.saturating_sub(self.due)
    }
}

/// The receiver's process.
pub struct Receiver {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
    port: u16,
}

impl Receiver {
    pub fn start() -> Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg(ROLE)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let orders = child.stdin.take().context("stdin")?;
        let answers = BufReader::new(child.stdout.take().context("stdout")?);
        let mut receiver = Self { child, orders, answers, port: 0 };
        receiver.port = receiver.line()?.parse()?;
        Ok(receiver)
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}/{path}", self.port)
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        Ok(line.trim().to_owned())
    }

    fn ask(&mut self, order: &str) -> Result<usize> {
        writeln!(self.orders, "{order}")?;
        Ok(self.line()?.parse()?)
    }

    /// Waits until `count` requests have come, or for `longest`.
    pub async fn wait_for(&mut self, count: usize, longest: Duration) -> Result<()> {
        let tries = longest.as_millis() / 2;
        for _ in 0..tries {
            if self.ask("count")? >= count {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        bail!("only {} of {count} requests came within {longest:?}", self.ask("count")?)
    }

    /// What came so far. The receiver forgets it.
    pub fn take(&mut self) -> Result<Vec<Arrival>> {
        let count = self.ask("take")?;
        (0..count).map(|_| arrival(&self.line()?)).collect()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn arrival(line: &str) -> Result<Arrival> {
    let mut words = line.split(' ');
    let mut next = || words.next().context("a line of the receiver is too short");
    let (webhook_id, at, due) = (next()?.to_owned(), next()?.parse()?, next()?);
    let due: DateTime<Utc> = due.parse().context("executed_at")?;
    let due = Duration::from_micros(due.timestamp_micros().try_into()?);
    Ok(Arrival { webhook_id, at: Duration::from_micros(at), due })
}

#[derive(Clone, Default)]
struct Noted(Arc<Mutex<Vec<String>>>);

/// Is the receiver until nobody asks any more.
pub fn serve() -> Result<()> {
    let noted = Noted::default();
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    listener.set_nonblocking(true)?;
    println!("{}", listener.local_addr()?.port());
    let for_server = noted.clone();
    std::thread::spawn(move || listen(listener, &for_server));
    for order in std::io::stdin().lines() {
        let mut noted = noted.0.lock().expect("no thread panics");
        let mut out = std::io::stdout().lock();
        writeln!(out, "{}", noted.len())?;
        if order? == "take" {
            for line in noted.drain(..) {
                writeln!(out, "{line}")?;
            }
        }
        out.flush()?;
    }
    Ok(())
}

fn listen(listener: std::net::TcpListener, noted: &Noted) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::from_std(listener)?;
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            tokio::spawn(converse(stream, noted.clone()));
        }
    })
}

async fn converse(mut stream: TcpStream, noted: Noted) -> Result<()> {
    let mut buffer = Vec::with_capacity(4096);
    loop {
        if stream.read_buf(&mut buffer).await? == 0 {
            return Ok(());
        }
        let Some(head) = find(&buffer, b"\r\n\r\n") else { continue };
        let length = after(&buffer[..head], b"content-length: ").unwrap_or("0").parse::<usize>()?;
        let end = head + 4 + length;
        if buffer.len() < end {
            continue;
        }
        let at = SystemTime::now().duration_since(UNIX_EPOCH)?.as_micros();
        let id = after(&buffer[..head], b"webhook-id: ").unwrap_or("-");
        let due = after(&buffer[head..end], b"\"executed_at\":\"").unwrap_or("-");
        noted.0.lock().expect("no thread panics").push(format!("{id} {at} {due}"));
        buffer.drain(..end);
        stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await?;
    }
}

fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).position(|window| window == what)
}

/// The word after `what`.
fn after<'a>(text: &'a [u8], what: &[u8]) -> Option<&'a str> {
    let start = find(text, what)? + what.len();
    let length = text[start..].iter().take_while(|byte| !matches!(byte, b'\r' | b'"')).count();
    std::str::from_utf8(&text[start..start + length]).ok()
}
