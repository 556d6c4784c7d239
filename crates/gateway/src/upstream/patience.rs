//! How long a server may let us wait for the head of its response.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::time::{Instant, Sleep};

/// Counted from the request's last byte, and while the server does not take the request's body, from the last
/// piece it took.
pub(super) struct Patience {
    timeout: Duration,
    began: Instant,
    /// The piece of the body from which the timer was armed; of no piece while the client is waited for.
    armed: Option<Option<u64>>,
}

/// Who is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// The server; the request went to it in one piece.
    Whole,
    /// The client: the server has taken everything there was of the body.
    Client,
    /// The server, after so many pieces of the body.
    Pieces(u64),
}

impl Patience {
    /// Patience that begins at `began`.
    pub(super) const fn new(timeout: Duration, began: Instant) -> Self {
        Self { timeout, began, armed: None }
    }

    /// Ready when it has run out.
    pub(super) fn poll(
        &mut self,
        turn: Turn,
        mut timer: Pin<&mut Sleep>,
        context: &mut Context<'_>,
    ) -> Poll<()> {
        let (piece, since) = match turn {
            Turn::Whole => (Some(0), Some(self.began)),
            Turn::Client => (None, None),
            Turn::Pieces(pieces) => (Some(pieces), None),
        };
        loop {
            if self.armed != Some(piece) {
                timer.as_mut().reset(since.unwrap_or_else(Instant::now) + self.timeout);
                self.armed = Some(piece);
            }
            ready!(timer.as_mut().poll(context));
            if piece.is_some() {
                return Poll::Ready(());
            }
            // Nobody may tell that the client has gone on.
            self.armed = None;
        }
    }
}
