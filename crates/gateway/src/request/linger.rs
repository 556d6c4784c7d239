//! The permit of a client that left: its server is still busy, so it stays out until the server has
//! answered or the class's 99th percentile of service time has passed. That counts as a time above it: else whoever
//! asks for what takes long and leaves at once could have any amount of it worked on.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use http::StatusCode;
use http_body::Body;
use tokio::time::{Instant, timeout_at};

use super::{
    dispatch::{Answered, Unserved},
    error::outcome_of_broken,
    in_flight::InFlight,
};
use crate::{body::BodyError, upstream::UpstreamBody};

/// An exchange that waits for its server's head, together with the permit. Dropped before that, for
/// its client has left, it goes on by itself as long as the permit lingers.
pub(super) struct Awaited {
    future: Option<Exchange>,
    in_flight: Option<InFlight>,
    /// Told that the client has left, so that nothing is tried again.
    left: std::rc::Rc<std::cell::Cell<bool>>,
}

type Exchange = Pin<Box<dyn Future<Output = Result<Box<Answered>, Box<Unserved>>>>>;

impl Awaited {
    pub(super) fn new(
        future: Exchange,
        in_flight: InFlight,
        left: std::rc::Rc<std::cell::Cell<bool>>,
    ) -> Self {
        Self { future: Some(future), in_flight: Some(in_flight), left }
    }
}

impl Future for Awaited {
    type Output = (Result<Box<Answered>, Box<Unserved>>, InFlight);

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(future) = &mut self.future else { return Poll::Pending };
        let result = std::task::ready!(future.as_mut().poll(context));
        self.future = None;
        match self.in_flight.take() {
            Some(in_flight) => Poll::Ready((result, in_flight)),
            // Polled again after it was ready.
            None => Poll::Pending,
        }
    }
}

impl Drop for Awaited {
    fn drop(&mut self) {
        let (Some(future), Some(in_flight)) = (self.future.take(), self.in_flight.take()) else { return };
        self.left.set(true);
        tokio::task::spawn_local(async move {
            let Some(until) = deadline(&in_flight) else { return };
            let lingering = in_flight.lingering();
            match timeout_at(until, future).await {
                Ok(Ok(answered)) => {
                    let (head, body): (_, UpstreamBody) = answered.response.into_parts();
                    drop(lingering);
                    drain(body, in_flight, head.status).await;
                }
                Ok(Err(unserved)) => in_flight.fail(unserved.failure.outcome()),
                Err(_) => in_flight.outlast(),
            }
        });
    }
}

/// Reads a message that nobody wants to its end, as long as the permit lingers.
pub(super) async fn drain(mut upstream: UpstreamBody, in_flight: InFlight, status: StatusCode) {
    let Some(until) = deadline(&in_flight) else { return };
    let _lingering = in_flight.lingering();
    let end = async {
        while let Some(frame) =
            std::future::poll_fn(|context| Pin::new(&mut upstream).poll_frame(context)).await
        {
            frame?;
        }
        Ok::<_, BodyError>(())
    };
    match timeout_at(until, end).await {
        Ok(Ok(())) => drop(in_flight.finish(status)),
        Ok(Err(error)) => in_flight.fail(outcome_of_broken(&error)),
        // Dropping the body breaks the connection off.
        Err(_) => in_flight.outlast(),
    }
}

fn deadline(in_flight: &InFlight) -> Option<Instant> {
    let until = in_flight.linger_until()?;
    Some(Instant::from_std(in_flight.service().core.shared().clock().instant(until)))
}
