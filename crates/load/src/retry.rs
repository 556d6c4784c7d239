//! When a request is tried again: bounded in number and in time.

use std::time::Duration;

use crate::{
    outcome::Outcome,
    plan::{BACKOFF_MAX, ClassPlan, DRAIN_MAX, RetryPlan},
};

impl RetryPlan {
    /// The pause before the next try, or `None` if the request ends here. `jitter` is uniform in
    /// 0 to 1.
    pub(crate) fn pause_before_retry(
        &self,
        retries_done: u32,
        outcome: &Outcome,
        jitter: f64,
    ) -> Option<Duration> {
        if outcome.is_good() || retries_done >= self.retries {
            return None;
        }
        let retry_after = match outcome {
            Outcome::Reply { retry_after, .. } if outcome.is_refused() && self.on_refusal => *retry_after,
            Outcome::Timeout(_) | Outcome::Failed(_) if self.on_failure => None,
            _ => return None,
        };
        let backoff = self.backoff(retries_done).mul_f64(1.0 - self.jitter * jitter);
        Some(match (retry_after, self.retry_after_max) {
            (Some(asked), Some(most)) => asked.min(most).max(backoff),
            _ => backoff,
        })
    }

    fn backoff(&self, retries_done: u32) -> Duration {
        let factor = self.factor.powi(i32::try_from(retries_done).unwrap_or(i32::MAX));
        Duration::try_from_secs_f64(self.backoff.as_secs_f64() * factor)
            .unwrap_or(BACKOFF_MAX)
            .min(self.backoff_max)
    }
}

/// The longest time from a request's intended start to the end of its last try, and a second.
pub(crate) fn longest_request(class: &ClassPlan) -> Duration {
    if class.follow.is_some() {
        // How long the server makes them wait is not ours to know.
        return DRAIN_MAX;
    }
    let Some(retry) = &class.retry else { return class.timeout + Duration::from_secs(1) };
    let pauses = (0..retry.retries)
        .map(|done| retry.backoff(done).max(retry.retry_after_max.unwrap_or_default()))
        .fold(Duration::ZERO, Duration::saturating_add);
    class
        .timeout
        .saturating_mul(retry.retries + 1)
        .saturating_add(pauses)
        .saturating_add(Duration::from_secs(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Phase;

    fn refusal(retry_after_s: Option<u64>) -> Outcome {
        Outcome::Reply { status: 503, body_bytes: 0, retry_after: retry_after_s.map(Duration::from_secs) }
    }

    #[test]
    fn pauses_double_and_end_after_the_last_retry() {
        let plan = RetryPlan::new(3);
        let pauses: Vec<_> =
            (0..5).map(|done| plan.pause_before_retry(done, &refusal(Some(9)), 0.5)).collect();
        let millis = |ms| Some(Duration::from_millis(ms));
        assert_eq!(pauses, [millis(100), millis(200), millis(400), None, None]);
        let class = ClassPlan::poisson("a", 1.0).timeout(Duration::from_secs(2)).retry(plan);
        // Four tries of 2 s, pauses of 0.7 s, a second of slack.
        assert_eq!(longest_request(&class), Duration::from_millis(8000 + 700 + 1000));
    }

    #[test]
    fn retry_after_is_kept_up_to_its_bound_and_never_shortens_the_pause() {
        let most = Some(Duration::from_secs(5));
        let plan = RetryPlan { retry_after_max: most, ..RetryPlan::new(2) };
        let pause = |asked| plan.pause_before_retry(0, &refusal(asked), 1.0);
        assert_eq!(pause(Some(3)), Some(Duration::from_secs(3)));
        assert_eq!(pause(Some(60)), most);
        assert_eq!(pause(Some(0)), Some(Duration::from_millis(100)));
        assert_eq!(pause(None), Some(Duration::from_millis(100)));
    }

    #[test]
    fn only_what_the_plan_names_is_retried() {
        let timeout = Outcome::Timeout(Phase::Head);
        let reply = |status| Outcome::Reply { status, body_bytes: 0, retry_after: None };
        let failures = RetryPlan { on_refusal: false, ..RetryPlan::new(1) };
        assert!(failures.pause_before_retry(0, &timeout, 0.5).is_some());
        assert!(failures.pause_before_retry(0, &refusal(None), 0.5).is_none());
        let refusals = RetryPlan { on_failure: false, ..RetryPlan::new(1) };
        assert!(refusals.pause_before_retry(0, &timeout, 0.5).is_none());
        assert!(refusals.pause_before_retry(0, &reply(429), 0.5).is_some());
        assert!(refusals.pause_before_retry(0, &reply(200), 0.5).is_none());
        assert!(refusals.pause_before_retry(0, &reply(404), 0.5).is_none());
    }

    #[test]
    fn jitter_takes_off_at_most_its_share_and_a_huge_backoff_saturates() {
        let plan = RetryPlan { jitter: 0.5, ..RetryPlan::new(1) };
        let pause = |jitter| plan.pause_before_retry(0, &refusal(None), jitter).map(|p| p.as_millis());
        assert_eq!((pause(0.0), pause(1.0)), (Some(100), Some(50)));
        let huge = RetryPlan { backoff: Duration::from_secs(86_400), factor: 10.0, ..RetryPlan::new(100) };
        assert_eq!(huge.pause_before_retry(99, &refusal(None), 0.0), Some(BACKOFF_MAX));
        let bounded = RetryPlan { backoff_max: Duration::from_millis(150), ..RetryPlan::new(3) };
        let pauses = [0, 1, 2].map(|done| bounded.pause_before_retry(done, &refusal(None), 0.0));
        assert_eq!(pauses, [100, 150, 150].map(|ms| Some(Duration::from_millis(ms))));
    }
}
