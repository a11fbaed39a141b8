//! A stream that does not wait for ever for who takes nothing.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// Fails with `TimedOut` when what is to be written makes no progress for `within`. However little is
/// taken is progress. Reading may take as long as it takes.
pub(super) struct Impatient<S> {
    stream: S,
    within: Duration,
    gives_up: Option<Pin<Box<Sleep>>>,
}

impl<S: Unpin> Impatient<S> {
    pub(super) fn new(stream: S, within: Duration) -> Self {
        Self { stream, within, gives_up: None }
    }

    fn stream(&mut self) -> Pin<&mut S> {
        Pin::new(&mut self.stream)
    }

    #[expect(clippy::disallowed_methods, reason = "it is the end with which a write is waited for")]
    fn watch<T>(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.gives_up = None;
            return written;
        }
        let within = self.within;
        let gives_up = self.gives_up.get_or_insert_with(|| Box::pin(sleep(within)));
        gives_up.as_mut().poll(cx).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Impatient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.stream().poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Impatient<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = self.stream().poll_write(cx, bytes);
        self.watch(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = self.stream().poll_write_vectored(cx, pieces);
        self.watch(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio::time::{advance, timeout};

    use super::*;

    const WITHIN: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn who_takes_nothing_is_given_up() {
        let (ours, _theirs) = duplex(4);
        let mut ours = Impatient::new(ours, WITHIN);
        let written = timeout(2 * WITHIN, ours.write_all(b"more than it takes")).await;
        let error = written.expect("it is not waited for longer").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test(start_paused = true)]
    async fn who_takes_a_little_now_and_then_is_waited_for() {
        let (ours, mut theirs) = duplex(4);
        let mut ours = Impatient::new(ours, WITHIN);
        let writing = tokio::spawn(async move { ours.write_all(&[7; 12]).await });
        for _ in 0..12 {
            advance(WITHIN - Duration::from_secs(1)).await;
            theirs.read_u8().await.unwrap();
        }
        writing.await.unwrap().unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn who_says_nothing_is_not_given_up() {
        let (ours, mut theirs) = duplex(4);
        let mut ours = Impatient::new(ours, WITHIN);
        let saying = async {
            advance(10 * WITHIN).await;
            theirs.write_all(b"x").await
        };
        let (said, heard) = tokio::join!(saying, ours.read_u8());
        said.unwrap();
        assert_eq!(heard.unwrap(), b'x');
    }
}
