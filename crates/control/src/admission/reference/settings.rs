//! What settings and the limiter's time make of what is there.

use std::time::Duration;

use super::{
    super::{AdmissionSettings, Rate},
    Reference, has_token,
    naive::{NaiveBucket, NaiveCodel, NaiveDeficitRoundRobin},
};
use crate::{
    Timestamp,
    knobs::{Algorithm, Mode},
    limit::{Limit, Limiter, Load},
};

fn set(bucket: &mut Option<NaiveBucket>, now: Timestamp, rate: Option<Rate>) {
    *bucket = rate.map(|rate| match bucket.take() {
        Some(mut bucket) => {
            bucket.configure(now, rate.per_s, rate.burst);
            bucket
        }
        None => NaiveBucket::new(now, rate.per_s, rate.burst),
    });
}

impl Reference {
    pub(super) fn configure(&mut self, settings: &AdmissionSettings) {
        self.take_settings(settings);
        self.advance_limiter();
        self.settle();
    }

    pub(super) fn take_settings(&mut self, settings: &AdmissionSettings) {
        let now = self.now;
        let settings = &*settings.share.of(settings);
        set(&mut self.ingress, now, settings.ingress);
        for (id, class) in settings.classes.iter().enumerate() {
            if id == self.classes.len() {
                self.classes.push(class.clone());
                self.started.push(0);
                self.started_in_truth.push(0);
                self.class_ingress.push(None);
                self.class_egress.push(None);
                self.codels.push(None);
                self.followed.push((now, 0, Duration::ZERO));
            }
            self.classes[id] = class.clone();
            set(&mut self.class_ingress[id], now, class.ingress);
            set(&mut self.class_egress[id], now, class.egress);
            self.codels[id] = class.queue.codel.map(|(target, interval)| match self.codels[id].take() {
                Some(mut codel) => {
                    codel.configure(target, interval);
                    codel
                }
                None => NaiveCodel::new(target, interval),
            });
        }
        if self.settings.scheduler != settings.scheduler {
            self.round_robin = 0;
            self.drr = NaiveDeficitRoundRobin::default();
        }
        self.drr.set_shares(&self.classes.iter().map(|class| class.share).collect::<Vec<_>>());
        if self.settings.algorithm == settings.algorithm {
            self.limiter.set_bounds(settings.limit);
        } else {
            self.limiter = Limiter::new(settings.algorithm, settings.limit);
        }
        self.limiter.set_power_ratio(settings.power_ratio);
        self.limiter.set_capacity_bounds(settings.capacity);
        let before = self.settings.mode;
        self.settings = settings.clone();
        self.set_egress();
        if before != settings.mode {
            if before == Mode::Watch {
                self.started.clone_from(&self.started_in_truth);
            }
            match before {
                Mode::Watch => {
                    for request in self.requests.clone() {
                        if request.shadow {
                            self.remove(request.sequence);
                        }
                    }
                }
                Mode::Enforce => {
                    let waiting: Vec<u64> = self.queue(None).iter().map(|request| request.sequence).collect();
                    for sequence in waiting {
                        self.grant(sequence);
                    }
                    self.end_hold();
                }
                Mode::Off => {}
            }
            self.started_in_truth.clone_from(&self.started);
            for permit in &mut self.permits {
                permit.counted = true;
                permit.shadow = None;
            }
        }
    }

    /// The limit in force; true of [`Self::advance_limiter`] if it or the rate has changed.
    pub(super) fn limit(&self) -> u32 {
        let bounds = self.settings.limit;
        let ours = if self.settings.algorithm == Algorithm::Fixed { bounds.initial } else { bounds.max };
        if ours == 0 || !self.settings.share.is_valid(self.now) {
            return 0;
        }
        match &self.limiter {
            Limiter::KneeTrack(knee) if self.settings.mode == Mode::Watch && knee.knee().is_none() => {
                self.settings.limit.max
            }
            limiter => limiter.limit(),
        }
    }

    fn set_egress(&mut self) {
        let egress = Rate::lower(self.settings.egress, self.limiter.rate());
        if egress != self.egress_in_force {
            set(&mut self.egress, self.now, egress);
            self.egress_in_force = egress;
        }
    }

    pub(super) fn advance_limiter(&mut self) -> bool {
        if self.settings.mode != Mode::Enforce {
            return false;
        }
        let (limit, egress) = (self.limit(), self.egress_in_force);
        let in_flight: Vec<u64> = (0..self.classes.len()).map(|class| self.counted(Some(class))).collect();
        self.limiter.advance(
            self.now,
            &Load {
                in_flight: &in_flight,
                started: &self.started,
                limit_holds: self.held,
                rate_holds: !self.queue(None).is_empty() && !has_token(&self.egress, self.now),
            },
        );
        self.set_egress();
        (limit, egress) != (self.limit(), self.egress_in_force)
    }

    pub(super) fn advance(&mut self) {
        if self.advance_limiter() {
            self.settle();
        }
    }
}
