//! A backend on loopback that answers byte by byte as a script says.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;

use super::AMPLE;

/// What the backend does after it has read a request.
#[derive(Clone, Copy)]
pub(super) enum Step {
    /// Writes these bytes.
    Send(&'static [u8]),
    /// Writes these bytes again and again until the connection is gone.
    SendForever(&'static [u8]),
    /// The same with a pause after each, to keep an idle time-out from passing.
    Drip(&'static [u8]),
    /// Keeps the connection open and silent until the other side closes it.
    Stall,
    /// Closes the connection in order.
    Close,
    /// Closes the connection with a reset.
    Reset,
}

/// What happened, in the order it happened.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Seen {
    Connected,
    Request(String),
    Gone,
}

pub(super) struct Backend {
    pub(super) address: SocketAddr,
    seen: UnboundedReceiver<Seen>,
    listening: JoinHandle<()>,
}

impl Backend {
    /// Answers every request on every connection by the same script. A script
    /// that does not end the connection leaves it open for the next request.
    pub(super) async fn start(script: &'static [Step]) -> Self {
        Self::listen("127.0.0.1:0", script).await
    }

    async fn listen(at: &str, script: &'static [Step]) -> Self {
        let listener = TcpListener::bind(at).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, seen) = unbounded_channel();
        let listening = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let sender = sender.clone();
                tokio::spawn(async move {
                    let _ = sender.send(Seen::Connected);
                    serve(stream, script, &sender).await;
                    let _ = sender.send(Seen::Gone);
                });
            }
        });
        Self { address, seen, listening }
    }

    /// The next thing that happens.
    pub(super) async fn next(&mut self) -> Seen {
        tokio::time::timeout(AMPLE, self.seen.recv()).await.unwrap().unwrap()
    }

    /// What has happened so far, without waiting.
    pub(super) fn so_far(&mut self) -> Vec<Seen> {
        std::iter::from_fn(|| self.seen.try_recv().ok()).collect()
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

async fn serve(mut stream: TcpStream, script: &[Step], seen: &UnboundedSender<Seen>) {
    while let Some(request) = read_request(&mut stream).await {
        let _ = seen.send(Seen::Request(request));
        for step in script {
            if !perform(&mut stream, *step).await {
                return;
            }
        }
    }
}

/// Whether the connection can still be used.
async fn perform(stream: &mut TcpStream, step: Step) -> bool {
    match step {
        Step::Send(bytes) => stream.write_all(bytes).await.is_ok(),
        Step::SendForever(bytes) => {
            while stream.write_all(bytes).await.is_ok() {}
            false
        }
        Step::Drip(bytes) => {
            let mut beat = tokio::time::interval(Duration::from_millis(5));
            while stream.write_all(bytes).await.is_ok() {
                beat.tick().await;
            }
            false
        }
        Step::Stall => {
            let mut rest = [0; 1024];
            while stream.read(&mut rest).await.is_ok_and(|read| read > 0) {}
            false
        }
        Step::Close => false,
        Step::Reset => {
            let _ = stream.set_zero_linger();
            false
        }
    }
}

/// Head and body, by `content-length`; none when the connection ends first.
async fn read_request(stream: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    loop {
        if let Some(head) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            let text = String::from_utf8_lossy(&bytes[..head]).to_ascii_lowercase();
            let length = text
                .lines()
                .find_map(|line| line.strip_prefix("content-length: "))
                .map_or(0, |length| length.parse().unwrap());
            if bytes.len() >= head + 4 + length {
                return Some(String::from_utf8_lossy(&bytes).into_owned());
            }
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
}
