//! When an application is overloaded: more is asked of it than it gets done, told from its meters.
//!
//! # Decides
//!
//! A scope is overloaded while one of its classes shows, over the last [`Overload::window`], one of
//!
//! - **late**: the 95th percentile of `response_time` is above `late` of the class's knob
//!   `goodput.within`;
//! - **losing**: of those that no rate turned away, more than `losing` were refused for load
//!   (`queue_full`, `codel`, `wait_too_long`, `deadline_passed`, `horizon_full`), left while they waited, or
//!   left before their response was complete (`left`, `abandoned`);
//! - **behind**: of those started, more than `behind` have not been answered: work piles up.
//!
//! It begins above the bound and ends when every class is below half of each bound. A class with
//! fewer than `least` arrivals in the window is not judged, unless the scope was overloaded,
//! something is in flight and nothing is answered: then it still is.
//!
//! # Why so
//!
//! Each sign is seen at the gateway whatever limits are on. *behind* is there within seconds of a
//! flood and needs no reply at all; *late* finds what builds up slowly; *losing* is what remains to
//! be seen once the gateway's own queue and limit keep response times short. Refusals by a rate
//! (`ingress_rate`, `client_rate`) are left out: they are decisions, not signs. A law that limits a
//! rate while overloaded would otherwise see its own refusals and hold its limit for ever.
//!
//! # Source
//!
//! The law of MASTH (Mathur, Dhopeshwarkar & Apte, WWW 2009, fig. 2b) calls `isOverloaded()` and
//! does not define it; this definition is ours.

use std::time::Duration;

use super::{Host, HostError, Measure};
use crate::{
    archive::Stat,
    knobs::{Knob, Value},
    refusal::Refusal,
};

/// Bounds of [`super::Turn::overloaded`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Overload {
    /// What is looked at: this long, up to now.
    pub window: Duration,
    /// Arrivals in the window below which a class is not judged.
    pub least: f64,
    /// Share of `goodput.within` above which a class is late.
    pub late: f64,
    /// Share of requests lost above which a class is losing.
    pub losing: f64,
    /// Share of started requests not answered above which a class is behind.
    pub behind: f64,
}

impl Default for Overload {
    /// 5 s, 20 arrivals, a quarter of `goodput.within`, 10 % lost, half unanswered.
    fn default() -> Self {
        Self { window: Duration::from_secs(5), least: 20.0, late: 0.25, losing: 0.1, behind: 0.5 }
    }
}

/// Bounds of a scope that is overloaded are this much lower.
const ENDS_AT: f64 = 0.5;

impl Overload {
    /// Judges a scope: `""` every application, `"shop"` an application, `"shop/home"` a class.
    /// `before`: whether it was overloaded when last judged.
    ///
    /// # Errors
    ///
    /// [`HostError`] if there is no such application or class.
    pub fn judge(&self, host: &dyn Host, scope: &str, before: bool) -> Result<bool, HostError> {
        for class in classes(host, scope)? {
            if self.is_in_distress(host, &class, before)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn is_in_distress(&self, host: &dyn Host, class: &str, before: bool) -> Result<bool, HostError> {
        let ask = |scope: &str, meter: &str, stat: Stat| {
            let measure = Measure { scope, meter, window: self.window, stat, of: None };
            host.measure(&measure)
        };
        let sum = |meter: &str| ask(class, meter, Stat::Sum).map(|sum| sum.unwrap_or(0.0));
        let refused = |refusal: Refusal| sum(&format!("refused.{}", refusal.name()));
        let (arrived, started) = (sum("arrived")?, sum("started")?);
        let answered = ask(class, "response_time", Stat::Count)?.unwrap_or(0.0);
        if arrived < self.least {
            let application = class.split('/').next().unwrap_or_default();
            let in_flight = ask(application, "in_flight", Stat::Min)?.unwrap_or(0.0);
            return Ok(before && answered == 0.0 && in_flight > 0.0);
        }
        let bound = if before { ENDS_AT } else { 1.0 };

        let within = match host.knob(&format!("{class}/{}", Knob::GOODPUT_WITHIN.name()))? {
            (_, Value::Span(within)) => within.as_secs_f64(),
            _ => f64::INFINITY,
        };
        let p95 = ask(class, "response_time", Stat::Quantile(0.95))?.unwrap_or(0.0);
        let is_late = p95 > self.late * within * bound;

        let mut lost = sum("left")? + sum("abandoned")?;
        for refusal in Refusal::ALL.iter().filter(|refusal| refusal.is_overload()) {
            if *refusal != Refusal::IngressRate {
                lost += refused(*refusal)?;
            }
        }
        let turned_away = refused(Refusal::IngressRate)? + refused(Refusal::ClientRate)?;
        // What arrived before the window may be lost in it.
        let meant = (arrived - turned_away).max(lost);
        let is_losing = lost > self.losing * meant * bound;

        let is_behind = started >= self.least && started - answered > self.behind * started * bound;
        Ok(is_late || is_losing || is_behind)
    }
}

/// Paths of the classes in a scope.
fn classes(host: &dyn Host, scope: &str) -> Result<Vec<String>, HostError> {
    if scope.contains('/') {
        return Ok(vec![scope.to_owned()]);
    }
    let applications = if scope.is_empty() { host.applications() } else { vec![scope.to_owned()] };
    let mut paths = Vec::new();
    for application in applications {
        let classes = host.classes(&application)?;
        paths.extend(classes.iter().map(|class| format!("{application}/{class}")));
    }
    Ok(paths)
}
