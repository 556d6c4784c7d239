//! The task of one HTTP/2 stream: it ends when its client takes nothing of the response for too long.
//!
//! On HTTP/1 that shows at the socket ([`super::pulse`]). Here the socket may be busy with other streams
//! while the window of one stays closed; the codec then does not ask for more of its body, and nobody
//! would ever end it.

use std::{
    cell::Cell,
    future::{Future, poll_fn},
    pin::{Pin, pin},
    task::{Poll, ready},
    time::Duration,
};

use tokio::time::{Instant, Sleep};

thread_local! {
    static LAST: Cell<Option<Turn>> = const { Cell::new(None) };
}

/// Whose turn it is at a response's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// The client's: there may be more, once it has taken what it was given.
    Client,
    /// The server's: nothing is there yet.
    Server,
}

impl Turn {
    /// Notes whose turn it is at the body of the stream whose task runs.
    pub(super) fn note(self) {
        LAST.set(Some(self));
    }
}

/// Runs a stream to its end, or until its client has taken nothing for `idle_timeout`; dropping what is
/// left of it resets the stream.
pub(super) async fn run<F: Future>(stream: F, idle_timeout: Duration) {
    let mut stream = pin!(stream);
    // Only while it is the client's turn, which most streams never see.
    let mut stalled: Option<Pin<Box<Sleep>>> = None;
    poll_fn(|context| {
        LAST.set(None);
        if stream.as_mut().poll(context).is_ready() {
            return Poll::Ready(());
        }
        match LAST.take() {
            Some(Turn::Client) => match &mut stalled {
                Some(stalled) => stalled.as_mut().reset(Instant::now() + idle_timeout),
                None => stalled = Some(Box::pin(tokio::time::sleep(idle_timeout))),
            },
            Some(Turn::Server) => stalled = None,
            // It was not asked for more.
            None => {}
        }
        let Some(stalled) = &mut stalled else { return Poll::Pending };
        ready!(stalled.as_mut().poll(context));
        Poll::Ready(())
    })
    .await;
}
