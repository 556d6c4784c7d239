//! An experiment's load as a plan of the load generator.

use std::{collections::BTreeMap, fmt::Write as _, time::Duration};

use tidegate_load::{Arrivals, ClassPlan, FollowPlan, Plan, RetryPlan, SessionModel, Sessions};

use crate::{
    LabError,
    experiment::{Live, Load, Page, Population, Web, pairs},
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
    let (poisson, phases, clients) = match &web.load.population {
        Population::Open { poisson, phases, clients, .. } => (poisson, pairs(phases), *clients),
        Population::Browsers { think, pages } => {
            let browsers = site::browsers_at(*think, capacity, load);
            let visitors = ClassPlan::new("visitors", Arrivals::closed(browsers))
                .sessions(Sessions::Model(Box::new(sessions(web, *think, pages))))
                .timeout(web.load.timeout);
            let visitors = match retry(&web.load) {
                Some(retry) => visitors.retry(retry),
                None => visitors,
            };
            return Ok((steady(Plan::new(url), live, &web.load).class(visitors), Vec::new()));
        }
    };
    let length: Duration = phases.iter().map(|(length, _)| *length).sum();
    let mut plan = Plan::new(url);
    plan = if phases.is_empty() { steady(plan, live, &web.load) } else { plan.duration(length) };
    for (class, share) in web.classes.iter().zip(site::mix(web)) {
        if share <= 0.0 {
            continue;
        }
        let arrivals = arrivals(*poisson, &phases, load, capacity * share)?;
        let mut class = ClassPlan::new(&class.name, arrivals)
            .path(&class.path)
            .timeout(web.load.timeout)
            .clients(clients);
        if let Some(retry) = retry(&web.load) {
            class = class.retry(retry);
        }
        plan = plan.class(class);
    }
    Ok((plan, phases))
}

/// Load goes on until the last measured request has had its reply or its client has left: one that waits in a queue when
/// the load ends would have the server to itself.
fn steady(plan: Plan, live: &Live, load: &Load) -> Plan {
    let length = live.warm_up + live.measured + load.timeout;
    plan.warmup(live.warm_up).cooldown(load.timeout).duration(length)
}

/// The same with clients who come when they are told to, as the waiting page's script does: to the millisecond.
pub(super) fn followed(mut plan: Plan) -> Plan {
    for class in &mut plan.classes {
        class.follow = Some(FollowPlan { scripts: true, ..FollowPlan::default() });
        class.headers.insert("accept".to_owned(), "text/html".to_owned());
    }
    plan
}

/// The pages as the load generator has them, each below the path of its class.
fn sessions(web: &Web, think: Duration, pages: &[Page]) -> SessionModel {
    let name = |page: &Page| page.name.clone();
    let page = |page: &Page| tidegate_load::session::Page {
        method: None,
        path: format!("{}/{}", web.classes[page.class].path.trim_end_matches('/'), page.name),
        form: None,
        images: None,
        next: page.next.iter().map(|(next, share)| (name(&pages[*next]), *share)).collect(),
        end: (1.0 - page.next.iter().map(|(_, share)| share).sum::<f64>()).max(0.0),
    };
    SessionModel {
        entry: pages.first().map(name).unwrap_or_default(),
        think,
        interactions_max: 1_000_000,
        images: Vec::new(),
        images_per_page: 0.0,
        parameters: BTreeMap::new(),
        page: pages.iter().map(|known| (known.name.clone(), page(known))).collect(),
    }
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
    plan.backoff_max = retry.max.min(tidegate_load::plan::BACKOFF_MAX);
    plan.jitter = if retry.jitter { 1.0 } else { 0.0 };
    plan.on_refusal = retry.after_refusal;
    Some(plan)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Subject, builtin};

    /// What the generator would refuse is found here, not in the middle of a live run.
    #[test]
    fn the_generator_takes_the_load_of_every_builtin_experiment() {
        let mut plans = 0;
        for builtin in builtin::ALL {
            let experiment = builtin.experiment().unwrap_or_else(|faults| panic!("{faults}"));
            let (Some(live), Subject::Web(web)) = (&experiment.live, &experiment.subject) else { continue };
            let web = &super::super::with_phases_of(web, live, 1.0);
            for load in &live.loads {
                let (plan, _) = plan(web, live, *load, 100.0, "http://127.0.0.1:9/").expect("a plan");
                let plan = followed(plan);
                plan.check().unwrap_or_else(|error| panic!("{} at {load}: {error}", builtin.name));
                plans += 1;
            }
        }
        assert!(plans > 5, "{plans} plans");
    }
}
