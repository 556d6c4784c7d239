//! Round-robin archives: what every meter read, at several resolutions, in bounded memory.
//!
//! Each second a [`Reading`] of each subject (host, application, class, server) comes in. It is
//! kept at several resolutions, the coarser ones for longer, and each drops its oldest points for
//! new ones ([`Layout`]). A point holds of a count the sum and the extremes, of a level those and
//! the number of samples, of a distribution its buckets, so that any percentile over any time can
//! be asked for ([`Query`]).
//!
//! What was not measured has no value: it is not 0. A point knows how much of its time was
//! measured, and rates are per second measured.
//!
//! Time goes forward. After a restart the clock may have been set back: by up to 60 points,
//! readings go on in the next point; by more, the points that would be in the future are forgotten.
//!
//! # Example
//!
//! ```
//! use std::time::Duration;
//! use tidegate_control::{Timestamp, archive::{Archive, Layout, Query, Reading, Stat}, knobs::Scope, meters::Meter};
//!
//! let mut archive = Archive::new(Scope::Class, &Layout::default());
//! let second = |n| Timestamp::EPOCH + Duration::from_secs(n);
//! for (n, good) in (0..).zip([10, 20, 60]) {
//!     let mut reading = Reading::new(Scope::Class);
//!     reading.add(Meter::GOOD, good);
//!     archive.record(second(n), second(n + 1), &reading);
//! }
//! let ask = |stat, of| {
//!     let step = None;
//!     let query = Query { meter: Meter::GOOD, label: None, from: second(0), to: second(3), step, stat, of };
//!     archive.query(&query).unwrap().points[0].value
//! };
//! assert_eq!(ask(Stat::Mean, None), Some(30.0));
//! assert_eq!(ask(Stat::Max, None), Some(60.0));
//! // Of 2 s: (10 + 20) / 2 and 60 alone.
//! assert_eq!(ask(Stat::Min, Some(Duration::from_secs(2))), Some(15.0));
//! ```
//!
//! Source: the idea of round-robin archives with consolidation is RRDtool's (T. Oetiker, 1999);
//! sketches of relative error that merge are those of Masson, Rim and Lee, "DDSketch", VLDB 2019,
//! with linear cuts of octaves in place of logarithms, as in HdrHistogram. Departures:
//!
//! 1. RRDtool interpolates a reading over the points it touches; here it counts where its middle lies.
//! 2. RRDtool keeps one consolidation an archive; here each point holds all of them.
//! 3. RRDtool's unknown share (`xff`) makes a whole point unknown; here a point says what was measured.

mod codec;
mod cursor;
mod layout;
mod query;
mod reading;
mod subject;
mod sums;
mod track;

use std::{collections::BTreeMap, ops::Bound, sync::Arc};

pub use layout::{Layout, LayoutFault, Resolution};
pub use query::{ANSWER_POINTS_MAX, Answer, NoStat, Point, Query, QueryFault, Stat, Window};
pub use reading::Reading;
pub use subject::{Archive, Broken, Closed};

use crate::{Timestamp, knobs::Scope};

/// Most subjects at once.
pub const SUBJECTS_MAX: usize = 4096;

/// The archives of all subjects, by path: empty for the host, `shop`, `shop/home`,
/// `shop/servers/10.0.0.2:8000`, as knobs' paths are but for the knob.
///
/// A clone is what they know now, for questions that take long. It costs nothing: it shares all points with the original,
/// which goes on and copies what changes, some tens of kilobytes of a subject. Points that the original has dropped stay
/// until the clone goes.
#[derive(Clone, Debug)]
pub struct Archives {
    layout: Layout,
    subjects: Arc<BTreeMap<String, Subject>>,
}

#[derive(Clone, Debug)]
struct Subject {
    archive: Arc<Archive>,
    seen: Timestamp,
}

impl Archives {
    /// No archives yet.
    #[must_use]
    pub fn new(layout: Layout) -> Self {
        Self { layout, subjects: Arc::default() }
    }

    /// The resolutions of every archive.
    #[must_use]
    pub const fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Takes the reading of the tick `from..to` of the subject at `path`.
    pub fn record(&mut self, path: &str, from: Timestamp, to: Timestamp, reading: &Reading) {
        self.record_and(path, from, to, reading, |_| {});
    }

    /// As [`Archives::record`]; `closed` gets every point that will not change any more.
    pub fn record_and(
        &mut self,
        path: &str,
        from: Timestamp,
        to: Timestamp,
        reading: &Reading,
        closed: impl FnMut(Closed<'_>),
    ) {
        if let Some(subject) = self.subject(path, reading.scope(), to) {
            subject.seen = to;
            subject.archive().record_and(from, to, reading, closed);
        }
    }

    /// Takes back a point that [`Archives::record_and`] gave, oldest first; [`Archives::resume`] when
    /// all are back.
    ///
    /// # Errors
    ///
    /// [`Broken`]; nothing changes.
    pub fn restore(
        &mut self,
        path: &str,
        scope: Scope,
        resolution: usize,
        slot: u64,
        bytes: &[u8],
    ) -> Result<(), Broken> {
        self.subject_at(path, scope, resolution, slot)
            .ok_or(Broken)?
            .archive()
            .restore(resolution, slot, bytes)
    }

    /// Adds a point of the finest resolution that other archives gave, after those that are here;
    /// `closed` gets every point that will not change any more. See [`Archive::append`].
    ///
    /// # Errors
    ///
    /// [`Broken`]; nothing changes.
    pub fn append(
        &mut self,
        path: &str,
        scope: Scope,
        slot: u64,
        bytes: &[u8],
        closed: impl FnMut(Closed<'_>),
    ) -> Result<(), Broken> {
        self.subject_at(path, scope, 0, slot).ok_or(Broken)?.archive().append(slot, bytes, closed)
    }

    /// The subject at `path`, seen at `slot` of a resolution.
    fn subject_at(&mut self, path: &str, scope: Scope, resolution: usize, slot: u64) -> Option<&mut Subject> {
        let step = self.layout.resolutions().get(resolution)?.step;
        let step_nanos = u64::try_from(step.as_nanos()).unwrap_or(u64::MAX);
        let at = Timestamp::from_nanos(slot.saturating_mul(step_nanos));
        let subject = self.subject(path, scope, at)?;
        subject.seen = subject.seen.max(at);
        Some(subject)
    }

    /// Makes the open points of the coarser resolutions from the points that were restored.
    pub fn resume(&mut self) {
        Arc::make_mut(&mut self.subjects).values_mut().for_each(|subject| subject.archive().resume());
    }

    /// Closes what is open, so that `closed` has everything: for an end in good order. It also gets
    /// path and scope.
    pub fn finish(&mut self, mut closed: impl FnMut(&str, Scope, Closed<'_>)) {
        for (path, subject) in Arc::make_mut(&mut self.subjects) {
            let scope = subject.archive.scope();
            subject.archive().finish(|point| closed(path, scope, point));
        }
    }

    /// The archives of a subject.
    #[must_use]
    pub fn get(&self, path: &str) -> Option<&Archive> {
        self.subjects.get(path).map(|subject| &*subject.archive)
    }

    /// Answers a question to the subject at `path`. A meter of its parts (the classes and servers of an application,
    /// everything of the host) is asked of all of them as one: what they count and hold is added up, distributions
    /// are merged, and extremes are those of the sum, span by span.
    ///
    /// # Errors
    ///
    /// [`QueryFault`].
    pub fn query(&self, path: &str, query: &Query) -> Result<Answer, QueryFault> {
        let wanted = query.meter.scope();
        let scope = Self::scope_of(path).unwrap_or(Scope::Host);
        if !scope.parts().contains(&wanted) || (scope != wanted && !query.meter.adds_up()) {
            return Err(QueryFault::Scope { meter: query.meter.name(), scope });
        }
        let mut found: Vec<&Archive> = if scope == wanted {
            self.get(path).into_iter().collect()
        } else {
            // Parts of one subject stand side by side.
            let parts = if scope == Scope::Host { String::new() } else { format!("{path}/") };
            let below = self.subjects.range::<str, _>((Bound::Included(parts.as_str()), Bound::Unbounded));
            let below = below.take_while(|(of, _)| of.starts_with(&parts));
            below.map(|(_, subject)| &*subject.archive).collect()
        };
        found.retain(|archive| archive.scope() == wanted);
        match found.split_first() {
            Some((first, others)) => query::query_all(first, others, query),
            // Who has just begun has no archive yet, and nothing measured.
            None => Archive::new(wanted, &self.layout).query(query),
        }
    }

    /// Every subject: its path and archives.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Archive)> {
        self.subjects.iter().map(|(path, subject)| (path.as_str(), &*subject.archive))
    }

    /// Memory held, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.subjects.iter().map(|(path, subject)| path.capacity() + subject.archive.bytes()).sum()
    }

    /// The scope of a path: `None` if it has not the shape of one.
    #[must_use]
    pub fn scope_of(path: &str) -> Option<Scope> {
        if path.is_empty() {
            return Some(Scope::Host);
        }
        let mut parts = path.split('/');
        let found = match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some(_), None, None, None) => Scope::Application,
            (Some(_), Some(class), None, None) if class != "servers" => Scope::Class,
            (Some(_), Some("servers"), Some(_), None) => Scope::Server,
            _ => return None,
        };
        path.split('/').all(|part| !part.is_empty()).then_some(found)
    }

    /// The subject at `path`, made if there is room: those go that have not been seen for longer
    /// than any point is kept, and, to make room, the one unseen for longest. A path whose scope
    /// has changed begins anew.
    fn subject(&mut self, path: &str, scope: Scope, now: Timestamp) -> Option<&mut Subject> {
        let subjects = Arc::make_mut(&mut self.subjects);
        let is_known = subjects.get(path).is_some_and(|subject| subject.archive.scope() == scope);
        if !is_known {
            let keep = self.layout.resolutions().last()?.keep;
            subjects.retain(|_, subject| now.since(subject.seen) <= keep);
            if subjects.len() >= SUBJECTS_MAX {
                let longest = subjects.iter().min_by_key(|(_, subject)| subject.seen)?;
                if longest.1.seen >= now {
                    return None;
                }
                let path = longest.0.clone();
                subjects.remove(&path);
            }
            let archive = Arc::new(Archive::new(scope, &self.layout));
            subjects.insert(path.to_owned(), Subject { archive, seen: now });
        }
        subjects.get_mut(path)
    }
}

impl Subject {
    /// To change; a clone of the archives keeps what it has.
    fn archive(&mut self) -> &mut Archive {
        Arc::make_mut(&mut self.archive)
    }
}

#[cfg(test)]
mod clones {
    use std::{ops::Range, time::Duration};

    use super::*;
    use crate::meters::Meter;

    const SECOND: Duration = Duration::from_secs(1);

    fn at(seconds: u32) -> Timestamp {
        Timestamp::EPOCH + SECOND * seconds
    }

    fn record(archives: &mut Archives, seconds: Range<u32>) {
        for n in seconds {
            for (path, arrived) in [("shop/home", n % 7), ("shop/cart", n % 3)] {
                let mut reading = Reading::new(Scope::Class);
                reading.add(Meter::ARRIVED, arrived.into());
                archives.record(path, at(n), at(n + 1), &reading);
            }
        }
    }

    /// What home and all together say of every second, and of the last ones.
    fn all(archives: &Archives) -> Vec<Answer> {
        let step = Some(SECOND);
        let of = |(path, from)| {
            let (meter, stat) = (Meter::ARRIVED, Stat::Sum);
            let query = Query { meter, label: None, from: at(from), to: at(2000), step, stat, of: None };
            archives.query(path, &query).unwrap()
        };
        [("shop", 0), ("shop/home", 0), ("shop/home", 950)].map(of).to_vec()
    }

    /// Points are shared; what the original adds, closes, drops or forgets is not the clone's.
    #[test]
    fn a_clone_stays_as_it_is_while_the_original_goes_on() {
        let resolution = |step, keep| Resolution { step: SECOND * step, keep: SECOND * keep };
        let layout = Layout::new(&[resolution(1, 120), resolution(10, 600)], Layout::POINT_BYTES).unwrap();
        // In the middle of a chunk, between two, and with points that are gone already.
        for until in [7, 60, 119, 1000] {
            let mut archives = Archives::new(layout.clone());
            record(&mut archives, 0..until);
            let (clone, before, bytes) = (archives.clone(), all(&archives), archives.bytes());
            record(&mut archives, until..until + 1);
            assert_ne!(all(&archives), before);
            assert_eq!(all(&clone), before);
            record(&mut archives, until + 1..until + 500);
            assert_eq!(all(&clone), before);
            // The clock is set back.
            record(&mut archives, until..until + 2);
            assert_eq!(all(&clone), before);
            assert_eq!(clone.bytes(), bytes);
        }
    }
}

#[cfg(test)]
mod tests;
