//! The CPU manager of a simulated host: the divisions are those of `control`, which the real one goes by.
//!
//! What an application asks for is that of Guitart et al. 2008, section 3.2.1 (the "eDragon Load Monitor"), equation 2:
//! `R = (Ô · CTO + N̂ · CTN) / T`, of the resumed and new TLS connections that came, refused ones included. Smoothing and
//! prediction are those of [`Demand`], whose unit of work is here a second of a processor.

use std::time::Duration;

use tidegate_control::{
    Timestamp,
    processors::{Claim, Demand, Halves, allocate, place},
};
use tidegate_sim::{ProcessorManager, START, ServerView};

use crate::{baselines::Assigned, experiment, site::ConnectionCosts};

pub(super) struct Manager {
    settings: experiment::Manager,
    processors: Vec<u32>,
    costs: ConnectionCosts,
    demands: Vec<Demand>,
    placed: Vec<Vec<u32>>,
    assigned: Vec<Assigned>,
    /// What each application was given from when on.
    given: Vec<Vec<(Duration, f64)>>,
}

impl Manager {
    pub(super) fn new(
        settings: experiment::Manager,
        processors: u16,
        costs: ConnectionCosts,
        assigned: Vec<Assigned>,
    ) -> Self {
        Self {
            settings,
            processors: (0..u32::from(processors)).collect(),
            costs,
            demands: vec![Demand::new(1.0); assigned.len()],
            placed: vec![Vec::new(); assigned.len()],
            given: vec![Vec::new(); assigned.len()],
            assigned,
        }
    }

    /// What an application was given from when on.
    pub(super) fn given(&self, application: usize) -> &[(Duration, f64)] {
        &self.given[application]
    }

    /// R, processors.
    #[expect(clippy::cast_precision_loss, reason = "connections of an interval")]
    fn need(&mut self, application: usize, view: &ServerView) -> f64 {
        let work_s = view.resumed as f64 * self.costs.resumed_s + view.new as f64 * self.costs.new_s;
        let demand = &mut self.demands[application];
        demand.interval(work_s / self.settings.interval.as_secs_f64(), 1.0, 1.0);
        demand.processors().unwrap_or(0.0)
    }
}

impl ProcessorManager for Manager {
    fn interval(&self) -> Duration {
        self.settings.interval
    }

    fn assign(&mut self, now: Timestamp, applications: &[ServerView]) -> Vec<Vec<u16>> {
        let count = u32::try_from(self.processors.len()).unwrap_or(u32::MAX);
        let claim = |(application, view)| Claim {
            priority: self.settings.priorities[application],
            need: self.need(application, view),
            min: Halves::ONE,
            max: Halves::whole(count),
        };
        let claims: Vec<Claim> = applications.iter().enumerate().map(claim).collect();
        let amounts = allocate(self.settings.policy, self.settings.sharing, count, &claims);
        self.placed = place(&amounts, &self.processors, &self.placed).of;
        for ((amount, assigned), given) in amounts.iter().zip(&self.assigned).zip(&mut self.given) {
            assigned.set(amount.processors());
            given.push((now.since(START), amount.processors()));
        }
        let numbers = |own: &Vec<u32>| own.iter().filter_map(|number| u16::try_from(*number).ok()).collect();
        self.placed.iter().map(numbers).collect()
    }
}
