//! The recorder: once a second it takes what all cores have counted to the archives.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use tidegate_control::{
    Timestamp,
    archive::{Closed, Reading},
    knobs::Scope,
    meters::{Meter, MeterKind},
};

use crate::{HostSample, Readings, Served, Shared, Subject};

/// Time after each whole second at which the recorder reads, so that every core has handed over
/// what it counted until then.
const PHASE: Duration = Duration::from_millis(100);
/// Time after which a second that has ended is in the archives.
const RECORDED_AFTER: Duration = Duration::from_millis(150);
const SECOND_NANOS: u64 = 1_000_000_000;

/// Takes the differences of totals to the archives.
#[derive(Debug)]
pub struct Recorder {
    /// End of the last tick.
    from: Timestamp,
    totals: BTreeMap<Subject, Readings>,
    /// What the system had told at the end of the last tick.
    told: BTreeMap<(Subject, Meter), u64>,
    readings: BTreeMap<String, Reading>,
}

impl Recorder {
    /// A recorder whose first tick begins now and holds all that has been counted before.
    #[must_use]
    pub fn new(shared: &Shared) -> Self {
        Self {
            from: shared.clock().now(),
            totals: BTreeMap::new(),
            told: told(&shared.served(&HostSample::read())),
            readings: BTreeMap::new(),
        }
    }

    /// When [`Recorder::tick`] is to be called next.
    #[must_use]
    pub fn next(shared: &Shared) -> Timestamp {
        let now = shared.clock().now() - PHASE;
        Timestamp::from_nanos((now.as_nanos() / SECOND_NANOS + 1) * SECOND_NANOS) + PHASE
    }

    /// The end of the last second that is in the archives at `now`: who asks for the last seconds asks for those until then.
    #[must_use]
    pub fn recorded(now: Timestamp) -> Timestamp {
        Timestamp::from_nanos((now - RECORDED_AFTER).as_nanos() / SECOND_NANOS * SECOND_NANOS)
    }

    /// Takes what has been counted since the last tick to the archives; `closed` gets every point that
    /// will not change any more, with the path and scope of its subject.
    pub fn tick(&mut self, shared: &Shared, mut closed: impl FnMut(&str, Scope, Closed<'_>)) {
        shared.look_at_processes();
        let served = shared.served(&HostSample::read());
        let totals = shared.totals().read();
        // Cores hand over on the second; what is read at a later moment was counted until then.
        let to = (shared.clock().now() - PHASE).max(self.from);

        let known: BTreeSet<&str> = served.iter().map(|served| served.path.as_str()).collect();
        self.readings.retain(|path, _| known.contains(path.as_str()));
        self.readings.values_mut().for_each(Reading::clear);
        for served in &served {
            self.read(served, &totals);
        }
        let told = told(&served);
        self.read_told(&served, &told);
        shared.change_measured(|archives| {
            for (path, reading) in &self.readings {
                let scope = reading.scope();
                archives.record_and(path, self.from, to, reading, |point| closed(path, scope, point));
            }
        });
        (self.from, self.totals, self.told) = (to, totals, told);
    }

    /// Adds what the system has told since the last tick. What it told at one end only is not measured; of several
    /// addresses with one path, those that are count.
    fn read_told(&mut self, served: &[Served], told: &BTreeMap<(Subject, Meter), u64>) {
        for meter in Served::TOLD.iter().copied() {
            let mut measured = BTreeSet::new();
            let of_scope = |served: &&Served| served.subject.scope() == meter.scope();
            for served in served.iter().filter(of_scope) {
                let key = (served.subject, meter);
                if let (Some(before), Some(now), Some(reading)) =
                    (self.told.get(&key), told.get(&key), self.readings.get_mut(&served.path))
                {
                    reading.add(meter, now.saturating_sub(*before));
                    measured.insert(served.path.as_str());
                }
            }
            for served in served.iter().filter(of_scope) {
                if !measured.contains(served.path.as_str())
                    && let Some(reading) = self.readings.get_mut(&served.path)
                {
                    reading.unmeasured(meter);
                }
            }
        }
    }

    /// Adds a subject's counts since the last tick, and its levels.
    fn read(&mut self, served: &Served, totals: &BTreeMap<Subject, Readings>) {
        let scope = served.subject.scope();
        if !self.readings.contains_key(&served.path) {
            self.readings.insert(served.path.clone(), Reading::new(scope));
        }
        let Some(reading) = self.readings.get_mut(&served.path) else { return };
        for (meter, level) in &served.levels {
            reading.add_level(*meter, *level);
        }
        let Some(now) = totals.get(&served.subject) else { return };
        let before = self.totals.get(&served.subject);
        for meter in Meter::ALL.iter().copied().filter(|meter| meter.scope() == scope) {
            match meter.kind() {
                MeterKind::Level => {}
                MeterKind::Count => {
                    for (label, count) in now.counts(meter).iter().enumerate() {
                        let before = before.map_or(0, |before| before.counts(meter)[label]);
                        reading.add_labelled(meter, label, count.wrapping_sub(before));
                    }
                }
                MeterKind::Distribution => {
                    let values = now.distribution(meter);
                    match before.map(|before| before.distribution(meter)) {
                        None => reading.distribution(meter).merge(values.buckets(), values.sum_nanos()),
                        Some(before) if before.count() == values.count() => {}
                        Some(before) => reading.distribution(meter).merge_difference(values, before),
                    }
                }
            }
        }
    }
}

/// What the system tells, by subject and meter.
fn told(served: &[Served]) -> BTreeMap<(Subject, Meter), u64> {
    let of = |served: &Served| {
        let subject = served.subject;
        served.told.iter().map(move |(meter, count)| ((subject, *meter), *count)).collect::<Vec<_>>()
    };
    served.iter().flat_map(of).collect()
}
