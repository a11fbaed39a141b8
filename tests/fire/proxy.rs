//! A TCP proxy between one process and PostgreSQL that knows a `COMMIT` when it sees one, and cuts
//! the connection before or after it.
//!
//! It reads the frontend's messages of the protocol 3.0: a startup message has a length and a
//! code, every later one a type and a length. A commit is the simple query `COMMIT`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use anyhow::{Result, bail};
use chrono::{DateTime, Utc};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, oneshot};

/// What happens to the next commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// It never reaches the database.
    Before,
    /// The database does it; its answer is lost.
    After,
    /// It is held back until [`Proxy::thaw`].
    Hold,
}

/// What is done at the moment of a cut: before the process can notice it.
type Act = Box<dyn FnOnce() + Send>;

struct Armed {
    cut: Cut,
    act: Act,
    fired: oneshot::Sender<DateTime<Utc>>,
}

/// The proxy of one process.
#[derive(Clone)]
pub struct Proxy {
    pub port: u16,
    shared: Arc<Shared>,
}

struct Shared {
    upstream: u16,
    armed: Mutex<Option<Armed>>,
    thaw: Notify,
}

impl Proxy {
    pub async fn start(upstream: u16) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let port = listener.local_addr()?.port();
        let shared =
            Arc::new(Shared { upstream, armed: Mutex::default(), thaw: Notify::default() });
        let for_listener = shared.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let shared = for_listener.clone();
                // A connection ends with an error as often as not.
                tokio::spawn(async move { converse(client, &shared).await.ok() });
            }
        });
        Ok(Self { port, shared })
    }

    /// Cuts at the next commit, and does `act` at that moment. Answers when it was.
    pub fn arm(&self, cut: Cut, act: impl FnOnce() + Send + 'static) -> Fired {
        let (fired, when) = oneshot::channel();
        *self.shared.armed.lock().expect("nobody panics") =
            Some(Armed { cut, act: Box::new(act), fired });
        when
    }

    pub fn disarm(&self) {
        self.shared.armed.lock().expect("nobody panics").take();
    }

    /// Lets a commit that is held back go on.
    pub fn thaw(&self) {
        self.shared.thaw.notify_waiters();
    }
}

/// When the cut was; never if it was disarmed before.
pub type Fired = oneshot::Receiver<DateTime<Utc>>;

async fn converse(client: TcpStream, shared: &Shared) -> Result<()> {
    let server = TcpStream::connect(("127.0.0.1", shared.upstream)).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (client_in, client_out) = client.into_split();
    let (server_in, server_out) = server.into_split();
    let lost = Lost::default();
    // Whichever ends first ends the other: both ends see a closed connection.
    tokio::select! {
        ended = forward(client_in, server_out, shared, &lost) => ended,
        ended = back(server_in, client_out, &lost) => ended,
    }
}

/// Whether the next answer is to be lost, and what is done then.
#[derive(Default)]
struct Lost {
    now: AtomicBool,
    armed: Mutex<Option<Armed>>,
}

/// From the process to the database, message by message.
async fn forward(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    shared: &Shared,
    lost: &Lost,
) -> Result<()> {
    let (mut buffer, mut started) = (Vec::with_capacity(8192), false);
    loop {
        while let Some(length) = message(&buffer, started)? {
            if started && is_commit(&buffer[..length]) {
                let armed = shared.armed.lock().expect("nobody panics").take();
                if let Some(armed) = armed {
                    cut(armed, shared, lost).await?;
                }
            }
            // What asks for encryption is answered, and another startup message follows.
            started |= !asks_for_encryption(&buffer[..length]);
            to.write_all(&buffer[..length]).await?;
            buffer.drain(..length);
        }
        if from.read_buf(&mut buffer).await? == 0 {
            return Ok(());
        }
    }
}

async fn cut(armed: Armed, shared: &Shared, lost: &Lost) -> Result<()> {
    match armed.cut {
        Cut::Before => {
            strike(armed);
            bail!("cut before the commit")
        }
        Cut::After => {
            *lost.armed.lock().expect("nobody panics") = Some(armed);
            lost.now.store(true, Ordering::SeqCst);
        }
        Cut::Hold => {
            let thawed = shared.thaw.notified();
            strike(armed);
            thawed.await;
        }
    }
    Ok(())
}

fn strike(armed: Armed) {
    (armed.act)();
    // Whoever armed it may have stopped waiting.
    let _ = armed.fired.send(Utc::now());
}

/// From the database to the process.
async fn back(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, lost: &Lost) -> Result<()> {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let read = from.read(&mut buffer).await?;
        if lost.now.load(Ordering::SeqCst) {
            let armed = lost.armed.lock().expect("nobody panics").take();
            if let Some(armed) = armed {
                strike(armed);
            }
            bail!("the answer was lost")
        }
        if read == 0 {
            return Ok(());
        }
        to.write_all(&buffer[..read]).await?;
    }
}

/// The length of the first message, if all of it is there.
fn message(buffer: &[u8], started: bool) -> Result<Option<usize>> {
    let (kind, length) = buffer.split_at(buffer.len().min(usize::from(started)));
    let Some(length) = length.first_chunk().map(|bytes| u32::from_be_bytes(*bytes)) else {
        return Ok(None);
    };
    let length = kind.len() + usize::try_from(length)?;
    Ok((buffer.len() >= length).then_some(length))
}

fn asks_for_encryption(message: &[u8]) -> bool {
    const TLS: u32 = 80_877_103;
    const GSS: u32 = 80_877_104;
    message.len() == 8 && [TLS, GSS].iter().any(|code| message[4..] == code.to_be_bytes())
}

fn is_commit(message: &[u8]) -> bool {
    message.first() == Some(&b'Q') && message[5..].eq_ignore_ascii_case(b"COMMIT\0")
}
