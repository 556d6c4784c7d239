//! An experiment's load as a plan of the load generator.

use std::{fmt::Write as _, time::Duration};

use tidegate_load::{Arrivals, ClassPlan, Plan, RetryPlan};

use crate::{
    LabError,
    experiment::{Live, Load, Population, Web},
    site,
};

/// The plan of one cell, and how long of it is measured.
pub(super) fn plan(
    web: &Web,
    live: &Live,
    load: f64,
    capacity: f64,
    url: &str,
) -> Result<(Plan, Vec<(Duration, f64)>), LabError> {
    let Population::Open { poisson, phases, .. } = &web.load.population else {
        return Err(LabError::input("load: browsers are simulated only", "run it without --live"));
    };
    let phases = phases_scaled(phases, live);
    let length: Duration = phases.iter().map(|(length, _)| *length).sum();
    let mut plan = Plan::new(url);
    plan = if phases.is_empty() {
        plan.warmup(live.warm_up).duration(live.warm_up + live.measured)
    } else {
        plan.duration(length)
    };
    for (class, share) in web.classes.iter().zip(site::mix(web)) {
        if share <= 0.0 {
            continue;
        }
        let arrivals = arrivals(*poisson, &phases, load, capacity * share)?;
        let mut class = ClassPlan::new(&class.name, arrivals).path(&class.path).timeout(web.load.timeout);
        if let Some(retry) = retry(&web.load) {
            class = class.retry(retry);
        }
        plan = plan.class(class);
    }
    Ok((plan, phases))
}

/// Phases add up to the measured time of the file; what is scaled there is scaled here.
fn phases_scaled(phases: &[(Duration, f64)], live: &Live) -> Vec<(Duration, f64)> {
    let length: Duration = phases.iter().map(|(length, _)| *length).sum();
    if length.is_zero() {
        return Vec::new();
    }
    let scale = (live.measured.as_secs_f64() / length.as_secs_f64()).min(1.0);
    let second = Duration::from_secs(1);
    phases.iter().map(|(length, load)| (length.mul_f64(scale).max(second), *load)).collect()
}

fn arrivals(
    poisson: bool,
    phases: &[(Duration, f64)],
    load: f64,
    per_load: f64,
) -> Result<Arrivals, LabError> {
    let mut text = String::from(if poisson { "poisson:" } else { "constant:" });
    if phases.is_empty() {
        let _ = write!(text, "{:.4}/s", load * per_load);
    }
    for (position, (length, load)) in phases.iter().enumerate() {
        let comma = if position > 0 { "," } else { "" };
        let _ = write!(text, "{comma}{:.4}/s:{}ms", load * per_load, length.as_millis());
    }
    text.parse().map_err(|error| LabError::Run(format!("load: {error}")))
}

fn retry(load: &Load) -> Option<RetryPlan> {
    let retry = load.retry?;
    let mut plan = RetryPlan::new(retry.attempts);
    plan.backoff = retry.first;
    plan.factor = retry.factor;
    plan.jitter = if retry.jitter { 1.0 } else { 0.0 };
    plan.on_refusal = retry.after_refusal;
    Some(plan)
}
