//! Meters: cells a core writes without a lock, and the totals they are added to each second.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    rc::Rc,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tidegate_control::{
    ApplicationId, ClassId, ServerId,
    knobs::Scope,
    meters::{BUCKETS, Distribution, Meter, MeterKind, bucket},
};

/// What a reading is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    /// The gateway.
    Host,
    /// An application.
    Application(ApplicationId),
    /// A class of an application.
    Class(ApplicationId, ClassId),
    /// A server of an application.
    Server(ApplicationId, ServerId),
}

impl Subject {
    /// The scope it is an instance of.
    #[must_use]
    pub const fn scope(self) -> Scope {
        match self {
            Self::Host => Scope::Host,
            Self::Application(_) => Scope::Application,
            Self::Class(..) => Scope::Class,
            Self::Server(..) => Scope::Server,
        }
    }
}

/// One core's cells for one subject.
#[derive(Debug)]
pub struct Cells {
    subject: Subject,
    counts: Box<[Cell<u64>]>,
    distributions: Box<[Sketch]>,
}

#[derive(Debug)]
struct Sketch {
    /// Touched buckets, so that a flush walks these only.
    touched: RefCell<Vec<u16>>,
    counts: Box<[Cell<u32>; BUCKETS]>,
    sum_nanos: Cell<u64>,
}

impl Cells {
    fn new(subject: Subject) -> Self {
        let scope = subject.scope();
        Self {
            subject,
            counts: (0..Meter::cells_of(scope, MeterKind::Count)).map(|_| Cell::new(0)).collect(),
            distributions: (0..Meter::cells_of(scope, MeterKind::Distribution))
                .map(|_| Sketch::new())
                .collect(),
        }
    }

    /// Counts `n` more.
    ///
    /// # Panics
    ///
    /// As the other methods: if the meter is of another scope or kind, a mistake in the program.
    pub fn add(&self, meter: Meter, n: u64) {
        self.add_labelled(meter, 0, n);
    }

    /// Counts `n` more under the meter's label at `label`.
    pub fn add_labelled(&self, meter: Meter, label: usize, n: u64) {
        debug_assert!(meter.scope() == self.subject.scope() && meter.kind() == MeterKind::Count);
        debug_assert!(label < meter.cells());
        let cell = &self.counts[meter.offset() + label];
        cell.set(cell.get().wrapping_add(n));
    }

    /// Records a time.
    pub fn record(&self, meter: Meter, time: Duration) {
        debug_assert!(meter.scope() == self.subject.scope() && meter.kind() == MeterKind::Distribution);
        self.distributions[meter.offset()].record(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Moves everything counted into `totals`.
    fn flush(&self, totals: &mut Readings) {
        for (total, cell) in totals.counts.iter_mut().zip(&self.counts) {
            *total = total.wrapping_add(cell.take());
        }
        for (total, sketch) in totals.distributions.iter_mut().zip(&self.distributions) {
            let touched = sketch.touched.take();
            let counts = touched.iter().map(|b| {
                let bucket = usize::from(*b);
                (bucket, u64::from(sketch.counts[bucket].take()))
            });
            total.merge(counts, u128::from(sketch.sum_nanos.take()));
        }
    }
}

impl Sketch {
    fn new() -> Self {
        Self {
            touched: RefCell::default(),
            counts: Box::new([const { Cell::new(0) }; BUCKETS]),
            sum_nanos: Cell::new(0),
        }
    }

    fn record(&self, nanos: u64) {
        let bucket = bucket(nanos);
        let cell = &self.counts[bucket];
        let before = cell.get();
        if before == 0 {
            #[expect(clippy::cast_possible_truncation, reason = "BUCKETS is 396")]
            self.touched.borrow_mut().push(bucket as u16);
        }
        cell.set(before.saturating_add(1));
        self.sum_nanos.set(self.sum_nanos.get().saturating_add(nanos));
    }
}

/// One core's cells of every subject it has touched.
#[derive(Debug)]
pub struct CoreMeters {
    host: Rc<Cells>,
    subjects: RefCell<BTreeMap<Subject, Rc<Cells>>>,
}

impl Default for CoreMeters {
    fn default() -> Self {
        let host = Rc::new(Cells::new(Subject::Host));
        Self { subjects: RefCell::new(BTreeMap::from([(Subject::Host, Rc::clone(&host))])), host }
    }
}

impl CoreMeters {
    /// The cells of the gateway as a whole.
    #[must_use]
    pub fn host(&self) -> &Cells {
        &self.host
    }

    /// The cells of a subject; resolve once and keep them, not once a request.
    #[must_use]
    pub fn cells(&self, subject: Subject) -> Rc<Cells> {
        Rc::clone(self.subjects.borrow_mut().entry(subject).or_insert_with(|| Rc::new(Cells::new(subject))))
    }

    /// Adds everything counted since the last flush to the totals.
    pub fn flush(&self, totals: &Totals) {
        let mut readings = totals.lock();
        for (subject, cells) in self.subjects.borrow().iter() {
            cells.flush(readings.entry(*subject).or_insert_with(|| Readings::new(subject.scope())));
        }
    }
}

/// What all cores have counted since the start, by subject.
#[derive(Debug, Default)]
pub struct Totals {
    readings: Mutex<BTreeMap<Subject, Readings>>,
}

/// The counts and distributions of one subject.
#[derive(Clone, Debug)]
pub struct Readings {
    counts: Vec<u64>,
    distributions: Vec<Distribution>,
}

impl Totals {
    /// A copy of every subject's readings.
    #[must_use]
    pub fn read(&self) -> BTreeMap<Subject, Readings> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Subject, Readings>> {
        self.readings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Readings {
    fn new(scope: Scope) -> Self {
        Self {
            counts: vec![0; Meter::cells_of(scope, MeterKind::Count)],
            distributions: vec![Distribution::default(); Meter::cells_of(scope, MeterKind::Distribution)],
        }
    }

    /// The counts of a meter: one, or one for each label.
    #[must_use]
    pub fn counts(&self, meter: Meter) -> &[u64] {
        &self.counts[meter.offset()..meter.offset() + meter.cells()]
    }

    /// The distribution of a meter.
    #[must_use]
    pub fn distribution(&self, meter: Meter) -> &Distribution {
        &self.distributions[meter.offset()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_cores_add_up_and_a_flush_empties_the_cells() {
        let totals = Totals::default();
        let subject = Subject::Class(ApplicationId(0), ClassId(1));
        for core in 1..=2_u64 {
            let meters = CoreMeters::default();
            let cells = meters.cells(subject);
            cells.add(Meter::ARRIVED, core);
            cells.add_labelled(Meter::RESPONSES, 4, 10 * core);
            cells.record(Meter::WAITING_TIME, Duration::from_millis(core));
            meters.flush(&totals);
            meters.flush(&totals);
        }
        let readings = totals.read();
        let class = &readings[&subject];
        assert_eq!(class.counts(Meter::ARRIVED), [3]);
        assert_eq!(class.counts(Meter::RESPONSES), [0, 0, 0, 0, 30]);
        assert_eq!(class.distribution(Meter::WAITING_TIME).count(), 2);
        assert_eq!(class.distribution(Meter::WAITING_TIME).sum_nanos(), 3_000_000);
    }
}
