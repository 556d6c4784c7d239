//! What goes with an application's capacity: each server's part of it, what servers lost or added change, why it moved, and
//! what of it another process goes on with.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tidegate_control::{
    ServerId,
    capacity::{CapacityEvent, Found, ServerShares},
};

use crate::{ApplicationState, servers::InService};

/// Time between two looks at what the servers have answered.
const LOOK: Duration = Duration::from_millis(250);
/// Events remembered; the oldest go.
const EVENTS_MAX: usize = 256;
/// A change of the capacity smaller than this is none: shares are sums of floating point numbers.
const FACTOR_MIN: f64 = 1e-6;

/// What was found of an application's servers together, for the next process.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundCapacity {
    /// What was found.
    pub found: Found,
    /// The servers that were in service; at least one.
    pub servers: Vec<FoundServer>,
}

/// A server that was in service when a capacity was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundServer {
    /// Its name in the settings.
    pub name: String,
    /// Its address as text.
    pub address: String,
    /// Its share among those that were in service with it; above 0.
    pub weight: u64,
}

/// Server shares and history of one application's capacity.
#[derive(Debug, Default)]
pub(crate) struct CapacityTrack {
    locked: Mutex<Track>,
}

#[derive(Debug, Default)]
struct Track {
    shares: ServerShares,
    /// For which servers a capacity was given, by the knobs and by telling.
    givings: [Giving; 2],
    /// In service at the last look.
    in_service: Vec<InService>,
    /// Whether the limit kept something waiting at the last look.
    held: bool,
    /// What a process before this one had found, until it is known which servers there are.
    to_restore: Option<FoundCapacity>,
    events: VecDeque<CapacityEvent>,
}

/// For which servers a capacity was given: those of which most was in service at once since then, since those that are found by name
/// come one after another.
#[derive(Debug, Default)]
struct Giving {
    number: u64,
    servers: Vec<(ServerId, f64)>,
}

impl Giving {
    /// The part of these servers that is in service, 0 to 1.
    fn part(&mut self, number: u64, shares: &ServerShares, in_service: &[(ServerId, f64)]) -> f64 {
        let mut then = shares.clone();
        let _ = then.set(&self.servers);
        let part = then.set(in_service);
        if self.number != number || part >= 1.0 {
            *self = Self { number, servers: in_service.to_vec() };
            return 1.0;
        }
        part
    }
}

impl CapacityTrack {
    /// These servers are in service. Gives the factor by which the capacity has changed with that.
    ///
    /// While none is in service nothing is known of who comes back: then the last ones stand.
    fn set(&self, in_service: &[InService]) -> f64 {
        let mut track = self.lock();
        let same = |one: &InService, other: &InService| (one.id, one.weight) == (other.id, other.weight);
        let is_same = in_service.len() == track.in_service.len()
            && in_service.iter().zip(&track.in_service).all(|(one, other)| same(one, other));
        if in_service.is_empty() || is_same {
            return 1.0;
        }
        track.in_service = in_service.to_vec();
        let weights = track.weights();
        // What was answered meanwhile is of neither set.
        track.held = false;
        track.shares.set(&weights)
    }

    /// Which parts of the servers for which a capacity was given, and given so often, are in service.
    fn parts_of_given(&self, numbers: [u64; 2]) -> [f64; 2] {
        let mut track = self.lock();
        let in_service = track.weights();
        let Track { shares, givings, .. } = &mut *track;
        let [by_knobs, by_telling] = givings;
        let [knobs, tellings] = numbers;
        [by_knobs.part(knobs, shares, &in_service), by_telling.part(tellings, shares, &in_service)]
    }

    /// What is to be begun with, and by which factor the servers in service are more than those of then, which `id_of` knows
    /// if they are still there.
    fn take_restored(&self, id_of: impl Fn(&FoundServer) -> Option<ServerId>) -> Option<(Found, f64)> {
        let mut track = self.lock();
        if track.in_service.is_empty() {
            return None;
        }
        let FoundCapacity { found, servers } = track.to_restore.take()?;
        // Ids are given from 0 on: those at the other end stand for servers that are gone.
        let gone = (0..=u16::MAX).rev().map(ServerId);
        #[expect(clippy::cast_precision_loss, reason = "a weight")]
        let then: Vec<(ServerId, f64)> = servers
            .iter()
            .zip(gone)
            .map(|(server, gone)| (id_of(server).unwrap_or(gone), server.weight as f64))
            .collect();
        let mut shares = ServerShares::default();
        let _ = shares.set(&then);
        Some((found, shares.set(&track.weights())))
    }

    /// So much time has passed since the last look, at whose end the limit keeps something waiting or does not.
    fn look(&self, in_service: &[InService], holds: bool, passed: Duration) {
        let mut track = self.lock();
        let Track { shares, in_service: before, held, .. } = &mut *track;
        if *held && holds {
            for server in in_service {
                if let Some(before) = before.iter().find(|before| before.id == server.id) {
                    shares.departed(server.id, u64::from(server.answered.wrapping_sub(before.answered)));
                }
            }
            shares.fade(passed.as_secs_f64());
        }
        *held = holds;
        for before in before.iter_mut() {
            if let Some(server) = in_service.iter().find(|server| server.id == before.id) {
                before.answered = server.answered;
            }
        }
    }

    fn remember(&self, events: &[CapacityEvent]) {
        let mut track = self.lock();
        track.events.extend(events);
        let surplus = track.events.len().saturating_sub(EVENTS_MAX);
        track.events.drain(..surplus);
    }

    fn lock(&self) -> MutexGuard<'_, Track> {
        self.locked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Track {
    fn weights(&self) -> Vec<(ServerId, f64)> {
        self.in_service.iter().map(|server| (server.id, f64::from(server.weight))).collect()
    }
}

impl ApplicationState {
    /// Begins with what a process before this one had found, as soon as it is known which servers there are. To be
    /// called before anybody is let in.
    pub fn restore_capacity(&self, found: FoundCapacity) {
        self.capacity_track().lock().to_restore = Some(found);
    }

    /// What the next process is to begin with; `None` while nothing is known.
    #[must_use]
    pub fn found_capacity(&self) -> Option<FoundCapacity> {
        let track = self.capacity_track().lock();
        if track.to_restore.is_some() {
            return track.to_restore.clone();
        }
        let in_service = track.in_service.clone();
        drop(track);
        let servers: Vec<FoundServer> = in_service
            .iter()
            .filter_map(|InService { id, weight, .. }| {
                let server = self.servers().server(*id)?;
                let (name, address) = (server.name().to_owned(), server.endpoint().to_string());
                Some(FoundServer { name, address, weight: u64::from(*weight) })
            })
            .collect();
        let found = self.gate().found()?;
        (!servers.is_empty()).then_some(FoundCapacity { found, servers })
    }

    /// Follows the servers and what happens to the capacity, for ever: a server lost or added changes the capacity
    /// at once. One task an application runs this on its home core; `happened` is told of each event.
    pub async fn follow_capacity(self: Arc<Self>, mut happened: impl FnMut(&CapacityEvent)) {
        let mut events = Vec::new();
        let mut looked = self.clock().now();
        loop {
            let changed = self.servers().changed();
            let (in_service, until) = self.servers().in_service();
            let factor = self.capacity_track().set(&in_service);
            let id_of = |then: &FoundServer| self.servers().id_of(&then.name, &then.address);
            let restored = self.capacity_track().take_restored(id_of);
            if let Some((found, _)) = &restored {
                self.gate().restore_found(found);
            }
            let factor = restored.map_or(factor, |(_, factor)| factor);
            if (factor - 1.0).abs() > FACTOR_MIN {
                self.gate().resize(factor);
            }
            let givings = self.gate().givings();
            self.gate().serve_parts(givings, self.capacity_track().parts_of_given(givings));
            let now = self.clock().now();
            if now.since(looked) >= LOOK {
                let holds = self.gate().capacity().limit_holds;
                self.capacity_track().look(&in_service, holds, now.since(looked));
                looked = now;
            }
            self.gate().drain_capacity_events(&mut events);
            self.capacity_track().remember(&events);
            events.drain(..).for_each(|event| happened(&event));
            let next = until.map_or(looked + LOOK, |until| until.min(looked + LOOK));
            tokio::select! {
                () = changed => {}
                () = tokio::time::sleep_until(self.clock().instant(next).into()) => {}
            }
        }
    }

    /// What has happened to the capacity, the latest last; at most 256.
    #[must_use]
    pub fn capacity_events(&self) -> Vec<CapacityEvent> {
        self.capacity_track().lock().events.iter().copied().collect()
    }

    /// The part of the capacity that each server has which is in service, 0 to 1.
    #[must_use]
    pub fn capacity_shares(&self) -> Vec<(ServerId, f64)> {
        let track = self.capacity_track().lock();
        track.in_service.iter().map(|server| (server.id, track.shares.share(server.id))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn servers(answered: &[(u16, u32)]) -> Vec<InService> {
        answered.iter().map(|&(id, answered)| InService { id: ServerId(id), weight: 100, answered }).collect()
    }

    #[test]
    fn a_server_that_did_more_takes_more_with_it() {
        let track = CapacityTrack::default();
        assert!((track.set(&servers(&[(0, 0), (1, 0)])) - 1.0).abs() < 1e-9, "the first change nothing");
        // The first look begins the saturation; what was answered before it counts for nothing.
        track.look(&servers(&[(0, 5_000), (1, 0)]), true, LOOK);
        track.look(&servers(&[(0, 5_300), (1, 900)]), true, LOOK);
        let shares: Vec<f64> = (0..2).map(|id| track.lock().shares.share(ServerId(id))).collect();
        assert!((shares[1] - 0.74).abs() < 0.03, "300 against 900, and a prior of even parts: {shares:?}");
        let factor = track.set(&servers(&[(1, 900)]));
        assert!((factor - shares[1]).abs() < 1e-6, "the rest of it: {factor}");
    }

    #[test]
    fn nothing_is_learnt_without_saturation_and_nothing_lost_while_all_are_out() {
        let track = CapacityTrack::default();
        let _ = track.set(&servers(&[(0, 0), (1, 0)]));
        track.look(&servers(&[(0, 1_000), (1, 10)]), false, LOOK);
        track.look(&servers(&[(0, 2_000), (1, 20)]), true, LOOK);
        assert!((track.lock().shares.share(ServerId(0)) - 0.5).abs() < 1e-9);
        assert!((track.set(&[]) - 1.0).abs() < 1e-9, "none in service");
        assert!((track.set(&servers(&[(1, 20)])) - 0.5).abs() < 1e-9, "one of the two is back");
    }

    #[test]
    fn a_given_capacity_is_that_of_the_servers_that_were_in_service_together() {
        let track = CapacityTrack::default();
        let serve = |ids: &[u16], number| {
            let in_service: Vec<(u16, u32)> = ids.iter().map(|id| (*id, 0)).collect();
            let _ = track.set(&servers(&in_service));
            let [part, _] = track.parts_of_given([number, 0]);
            part
        };
        // Found by name, one after another.
        assert_eq!([serve(&[], 1), serve(&[0], 1), serve(&[0, 1], 1)], [1.0; 3]);
        assert!((serve(&[1], 1) - 0.5).abs() < 1e-9, "one is lost, whichever came first");
        assert!((serve(&[], 1) - 0.5).abs() < 1e-9, "nothing is known of who comes back");
        // What was answered meanwhile does not tell what the other one does.
        track.look(&servers(&[(1, 0)]), true, LOOK);
        track.look(&servers(&[(1, 4_000)]), true, LOOK);
        assert_eq!(serve(&[0, 1], 1), 1.0, "it is back with all it had");
        assert!(serve(&[0], 1) < 0.5, "the other one does more");
        assert_eq!(serve(&[0], 2), 1.0, "given anew, for one alone");
        assert_eq!(serve(&[0, 1], 2), 1.0, "never more than was given");
    }

    /// docs/operations.md says so.
    #[test]
    fn a_server_that_is_removed_takes_its_part_of_a_given_capacity_until_another_stands_in_its_place() {
        let track = CapacityTrack::default();
        let serve = |ids: &[u16]| {
            let in_service: Vec<(u16, u32)> = ids.iter().map(|id| (*id, 0)).collect();
            let _ = track.set(&servers(&in_service));
            track.parts_of_given([1, 0])[0]
        };
        assert_eq!(serve(&[0, 1]), 1.0);
        assert!((serve(&[1]) - 0.5).abs() < 1e-9, "removed");
        assert_eq!(serve(&[1, 2]), 1.0, "replaced");
        assert_eq!(serve(&[1, 2, 3]), 1.0, "one more adds nothing");
        assert!((serve(&[1, 2]) - 2.0 / 3.0).abs() < 1e-9, "and has its part from then on");
    }

    #[test]
    fn history_is_bounded() {
        let track = CapacityTrack::default();
        let event = CapacityEvent {
            at: tidegate_control::Timestamp::EPOCH,
            cause: tidegate_control::capacity::Cause::Found,
            before: None,
            after: Some(1.0),
        };
        track.remember(&vec![event; EVENTS_MAX + 7]);
        assert_eq!(track.lock().events.len(), EVENTS_MAX);
    }
}
