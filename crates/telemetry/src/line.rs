//! One kind of message on its way to the collector: tried again at growing intervals, and trouble said once.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;

use crate::{
    client::{Client, SendError},
    plan::Plan,
};

/// The first pause after a failure; each further one is twice as long.
const PAUSE_MIN: Duration = Duration::from_secs(1);
/// The longest of them.
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// What became of a message.
#[derive(Debug)]
pub(crate) enum Sent {
    /// The collector has it; with the body of its answer.
    Taken(Bytes),
    /// It is to be tried again, or another instead of it, after this time.
    Later(Duration),
    /// It is not to be tried again.
    Refused,
}

/// The way of metrics, or of traces.
pub(crate) struct Line {
    client: Client,
    plan: Arc<Plan>,
    /// `metrics` or `traces`.
    what: &'static str,
    /// While it fails: the pause after the next failure.
    failing: Option<Duration>,
    /// Whether a part of the last message was dropped, and that was said.
    is_partial: bool,
}

impl Line {
    pub(crate) fn new(plan: &Arc<Plan>, what: &'static str, path: &'static str) -> Self {
        Self {
            client: Client::new(Arc::clone(plan), path),
            plan: Arc::clone(plan),
            what,
            failing: None,
            is_partial: false,
        }
    }

    /// Whether the last message was taken.
    pub(crate) const fn is_well(&self) -> bool {
        self.failing.is_none()
    }

    /// Sends a message.
    pub(crate) async fn send(&mut self, message: Bytes) -> Sent {
        let (what, endpoint) = (self.what, &self.plan.settings.endpoint);
        let sent = self.client.send(message).await;
        let error = match sent {
            Ok(answer) => {
                if self.failing.take().is_some() {
                    tracing::info!(%endpoint, "telemetry: the collector takes {what} again");
                }
                return Sent::Taken(answer);
            }
            Err(error) => error,
        };
        if self.failing.is_none() {
            let (SendError::Later { why, .. } | SendError::Refused(why)) = &error;
            tracing::warn!(
                %endpoint,
                error = why,
                "telemetry: the collector does not take {what}; it is tried again, requests are not affected"
            );
        }
        let pause = self.failing.unwrap_or(PAUSE_MIN);
        self.failing = Some((pause * 2).min(PAUSE_MAX));
        match error {
            SendError::Later { pause: asked, .. } => {
                Sent::Later(shaken(pause).max(asked.unwrap_or_default()))
            }
            SendError::Refused(_) => Sent::Refused,
        }
    }

    /// Takes note of how many parts of what it took the collector has dropped, and why.
    pub(crate) fn dropped(&mut self, parts: i64, why: &str) {
        let (what, endpoint) = (self.what, &self.plan.settings.endpoint);
        if parts > 0 && !self.is_partial {
            tracing::warn!(%endpoint, parts, why, "telemetry: the collector does not take all {what}");
        }
        self.is_partial = parts > 0;
    }
}

/// Between half of a pause and all of it, so that many gateways do not come at once.
fn shaken(pause: Duration) -> Duration {
    #[expect(clippy::cast_precision_loss, reason = "a share of a pause")]
    let share = getrandom::u64().map_or(1.0, |random| random as f64 / u64::MAX as f64);
    pause.mul_f64(share.mul_add(0.5, 0.5))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_are_shaken_within_bounds() {
        for _ in 0..1000 {
            let pause = shaken(PAUSE_MAX);
            assert!(pause >= PAUSE_MAX / 2 && pause <= PAUSE_MAX, "{pause:?}");
        }
    }
}
