//! Processors and the jobs that run on them: processor sharing, with levels that preempt and groups that share.
//!
//! A group is an application. Its jobs on one level progress at the same rate, so that a job ends when the
//! level's virtual time (the work each of its jobs has been given) reaches its begin plus its work. One
//! heap a level therefore serves, and a change of rates costs nothing for the jobs.
//!
//! Rates: the host's processors are shared out to groups ([`Sharing`]), each group getting at most a
//! processor a job. Within a group the highest level takes what it can use, and the next what is
//! left. What a job then gets is lessened by the host's speed, by the group's faults, and by
//! switching when there are more jobs than processors.

use std::{cmp::Reverse, collections::BinaryHeap};

use tidegate_control::Timestamp;

use crate::scenario::{Sharing, Switching};

/// Levels of the operating system's priorities.
const LEVELS: usize = 8;

#[derive(Debug)]
pub(super) struct Processors {
    count: u16,
    sharing: Sharing,
    speed: f64,
    groups: Vec<Group>,
    /// Until when progress is in the virtual times.
    at: Timestamp,
    next: Timestamp,
    /// Group and level of the job that ends next.
    ends: (usize, usize),
    jobs: u64,
}

#[derive(Debug)]
struct Group {
    levels: Vec<Level>,
    runnable: u32,
    /// Processors it may use; `None`: all.
    set: Option<Vec<u16>>,
    share: u32,
    switching: Option<Switching>,
    /// Share of the speed it works at: faults, pauses.
    pace: f64,
    /// Processors it has now.
    given: f64,
    /// Integral of `given` while it works, processor seconds.
    busy: f64,
}

#[derive(Debug, Default)]
struct Level {
    /// By the virtual time at which a job ends (as bits: not negative, so in order), then by number.
    jobs: BinaryHeap<Reverse<(u64, u64, u64)>>,
    /// Work each job of the level has been given, seconds.
    given: f64,
    /// Its growth, seconds a second.
    rate: f64,
}

impl Processors {
    pub(super) fn new(count: u16, sharing: Sharing, now: Timestamp) -> Self {
        Self {
            count,
            sharing,
            speed: 1.0,
            groups: Vec::new(),
            at: now,
            next: Timestamp::FAR_FUTURE,
            ends: (0, 0),
            jobs: 0,
        }
    }

    /// Adds a group that may use the processors in `set`.
    pub(super) fn group(&mut self, set: Option<Vec<u16>>, share: u32, switching: Option<Switching>) {
        self.groups.push(Group {
            levels: vec![Level::default()],
            runnable: 0,
            set,
            share,
            switching,
            pace: 1.0,
            given: 0.0,
            busy: 0.0,
        });
    }

    /// A job of so many seconds of work begins.
    pub(super) fn begin(&mut self, now: Timestamp, group: usize, level: u8, work: f64, id: u64) {
        self.progress(now);
        self.jobs += 1;
        let group = &mut self.groups[group];
        let level = usize::from(level).min(LEVELS - 1);
        if group.levels.len() <= level {
            group.levels.resize_with(level + 1, Level::default);
        }
        let level = &mut group.levels[level];
        if level.jobs.is_empty() {
            // Nobody depends on its old value; a small one is exact to a finer fraction.
            level.given = 0.0;
        }
        level.jobs.push(Reverse(((level.given + work).to_bits(), self.jobs, id)));
        group.runnable += 1;
        self.share_out();
    }

    /// When the next job ends.
    pub(super) const fn next(&self) -> Timestamp {
        self.next
    }

    /// Ends the next job, due now.
    pub(super) fn end(&mut self, now: Timestamp) -> Option<u64> {
        self.progress(now);
        let group = self.groups.get_mut(self.ends.0)?;
        let level = group.levels.get_mut(self.ends.1)?;
        let Reverse((end, _, id)) = level.jobs.pop()?;
        level.given = level.given.max(f64::from_bits(end));
        group.runnable -= 1;
        self.share_out();
        Some(id)
    }

    /// Sets the host's speed.
    pub(super) fn set_speed(&mut self, now: Timestamp, speed: f64) {
        self.progress(now);
        self.speed = speed;
        self.share_out();
    }

    /// Sets a group's pace.
    pub(super) fn set_pace(&mut self, now: Timestamp, group: usize, pace: f64) {
        self.progress(now);
        self.groups[group].pace = pace;
        self.share_out();
    }

    /// Sets a group's affinity.
    pub(super) fn set_affinity(&mut self, now: Timestamp, group: usize, set: Option<Vec<u16>>) {
        self.progress(now);
        self.groups[group].set = set;
        self.share_out();
    }

    /// Processor seconds a group has had until now.
    pub(super) fn busy(&mut self, now: Timestamp, group: usize) -> f64 {
        self.progress(now);
        self.groups[group].busy
    }

    /// Processors a group may use.
    pub(super) fn usable(&self, group: usize) -> f64 {
        usable(self.count, &self.groups[group])
    }

    #[expect(clippy::cast_precision_loss, reason = "a span between two events")]
    fn progress(&mut self, now: Timestamp) {
        if now == self.at {
            return;
        }
        let seconds = (now.as_nanos() - self.at.as_nanos()) as f64 * 1e-9;
        self.at = now;
        for group in &mut self.groups {
            if group.runnable == 0 {
                continue;
            }
            group.busy += group.given * seconds;
            for level in &mut group.levels {
                level.given += level.rate * seconds;
            }
        }
    }

    /// Sets all rates and finds the next end.
    fn share_out(&mut self) {
        if let [group] = self.groups.as_mut_slice() {
            group.given = f64::from(group.runnable).min(usable(self.count, group));
        } else {
            self.divide();
        }
        let mut next = f64::INFINITY;
        for (number, group) in self.groups.iter_mut().enumerate() {
            let speed = self.speed * group.pace * group.efficiency();
            if speed <= 0.0 {
                group.given = 0.0;
            }
            let mut left = group.given;
            for (rank, level) in group.levels.iter_mut().enumerate().rev() {
                let Some(Reverse((end, ..))) = level.jobs.peek() else { continue };
                #[expect(clippy::cast_precision_loss, reason = "a number of jobs")]
                let jobs = level.jobs.len() as f64;
                let takes = jobs.min(left);
                left -= takes;
                level.rate = if takes >= jobs { speed } else { speed * takes / jobs };
                if level.rate > 0.0 {
                    let seconds = (f64::from_bits(*end) - level.given).max(0.0) / level.rate;
                    if seconds < next {
                        next = seconds;
                        self.ends = (number, rank);
                    }
                }
            }
        }
        self.next = after(self.at, next);
    }

    /// Shares the processors out to several groups: each processor to those that may use it, by weight; who
    /// cannot use all of its part leaves it to the others, until nothing changes.
    fn divide(&mut self) {
        let all: Vec<u16> = (0..self.count).collect();
        let mut free = vec![1.0; usize::from(self.count)];
        let mut open: Vec<usize> = Vec::new();
        for (number, group) in self.groups.iter_mut().enumerate() {
            group.given = 0.0;
            if group.runnable > 0 && group.pace > 0.0 {
                open.push(number);
            }
        }
        while !open.is_empty() {
            let mut claims = vec![0.0; free.len()];
            let weight = |group: &Group| {
                let set = group.set.as_deref().unwrap_or(&all);
                let whole = match self.sharing {
                    Sharing::Threads => f64::from(group.runnable),
                    Sharing::Applications => f64::from(group.share.max(1)),
                };
                #[expect(clippy::cast_precision_loss, reason = "a number of processors")]
                let each = whole / set.len().max(1) as f64;
                each
            };
            for &number in &open {
                let group = &self.groups[number];
                for &processor in group.set.as_deref().unwrap_or(&all) {
                    if let Some(claim) = claims.get_mut(usize::from(processor)) {
                        *claim += weight(group);
                    }
                }
            }
            let part = |group: &Group, processor: u16| {
                let processor = usize::from(processor);
                match (free.get(processor), claims.get(processor)) {
                    (Some(free), Some(claim)) if *claim > 0.0 => free * weight(group) / claim,
                    _ => 0.0,
                }
            };
            let parts: Vec<(usize, f64)> = open
                .iter()
                .map(|&number| {
                    let group = &self.groups[number];
                    let set = group.set.as_deref().unwrap_or(&all);
                    (number, set.iter().map(|&processor| part(group, processor)).sum())
                })
                .collect();
            // Who gets more than it can use: it takes what it can use, and the rest is shared anew.
            let content: Vec<(usize, f64)> = parts
                .iter()
                .copied()
                .filter(|(number, sum)| f64::from(self.groups[*number].runnable) <= *sum)
                .collect();
            if content.is_empty() {
                for (number, sum) in parts {
                    self.groups[number].given = sum;
                }
                return;
            }
            let mut taken = vec![0.0; free.len()];
            for &(number, sum) in &content {
                let group = &self.groups[number];
                let wanted = f64::from(group.runnable);
                for &processor in group.set.as_deref().unwrap_or(&all) {
                    if let Some(taken) = taken.get_mut(usize::from(processor)) {
                        *taken += part(group, processor) * wanted / sum;
                    }
                }
            }
            for (number, _) in content {
                self.groups[number].given = f64::from(self.groups[number].runnable);
                open.retain(|other| *other != number);
            }
            for (free, taken) in free.iter_mut().zip(taken) {
                *free = f64::max(*free - taken, 0.0);
            }
        }
    }
}

impl Group {
    /// Share of its processors' time that is work, when it has more jobs than processors.
    fn efficiency(&self) -> f64 {
        let Some(switching) = &self.switching else { return 1.0 };
        let jobs = f64::from(self.runnable);
        if jobs <= self.given.max(1.0) {
            return 1.0;
        }
        let cold = (1.0 - f64::from(switching.warm) / jobs).max(0.0);
        let quantum = switching.quantum.as_secs_f64();
        let lost = switching.switch.as_secs_f64() + switching.refill.as_secs_f64() * cold;
        quantum / (quantum + lost)
    }
}

fn usable(count: u16, group: &Group) -> f64 {
    match &group.set {
        None => f64::from(count),
        #[expect(clippy::cast_precision_loss, reason = "a number of processors")]
        Some(set) => set.len() as f64,
    }
}

/// So many seconds later, rounded up to the nanosecond: what ends then has ended.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "not negative; `as` saturates, and infinity is the far future"
)]
fn after(at: Timestamp, seconds: f64) -> Timestamp {
    Timestamp::from_nanos(at.as_nanos().saturating_add((seconds * 1e9).ceil() as u64))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_nanos(ms * 1_000_000)
    }

    /// Ends everything; who ended when, in milliseconds.
    fn ends(processors: &mut Processors) -> Vec<(u64, u64)> {
        let mut ends = Vec::new();
        while processors.next() < Timestamp::FAR_FUTURE {
            let now = processors.next();
            let id = processors.end(now).unwrap();
            ends.push((id, (now.as_nanos() + 500_000) / 1_000_000));
        }
        ends
    }

    #[test]
    fn two_jobs_on_one_processor_take_twice_as_long() {
        let mut processors = Processors::new(1, Sharing::Threads, at(0));
        processors.group(None, 1, None);
        processors.begin(at(0), 0, 0, 0.1, 1);
        processors.begin(at(50), 0, 0, 0.1, 2);
        // Job 1 has 50 ms left at 50 ms and half a processor: 150 ms. Then job 2 has 50 left: 200 ms.
        assert_eq!(ends(&mut processors), [(1, 150), (2, 200)]);
        assert!((processors.busy(at(300), 0) - 0.2).abs() < 1e-6);
    }

    #[test]
    fn a_higher_level_preempts_and_a_stall_stops_all() {
        let mut processors = Processors::new(1, Sharing::Threads, at(0));
        processors.group(None, 1, None);
        processors.begin(at(0), 0, 0, 0.1, 1);
        processors.begin(at(50), 0, 3, 0.1, 2);
        processors.set_pace(at(60), 0, 0.0);
        assert_eq!(processors.next(), Timestamp::FAR_FUTURE);
        processors.set_pace(at(160), 0, 1.0);
        assert_eq!(ends(&mut processors), [(2, 250), (1, 300)]);
    }

    #[test]
    fn groups_share_by_threads_or_by_application_and_keep_to_their_sets() {
        for (sharing, sets, given) in [
            // Four threads against one, on two processors: the one gets 2 · 1/5.
            (Sharing::Threads, [None, None], [1.6, 0.4]),
            // One each: the one thread can use one.
            (Sharing::Applications, [None, None], [1.0, 1.0]),
            (Sharing::Threads, [Some(vec![0]), Some(vec![1])], [1.0, 1.0]),
            // Processor 1 is shared: group 0 brings 4/2 threads there, group 1 one.
            (Sharing::Threads, [None, Some(vec![1])], [1.0 + 2.0 / 3.0, 1.0 / 3.0]),
        ] {
            let mut processors = Processors::new(2, sharing, at(0));
            let [first, second] = sets;
            processors.group(first, 1, None);
            processors.group(second, 1, None);
            for id in 0..4 {
                processors.begin(at(0), 0, 0, 10.0, id);
            }
            processors.begin(at(0), 1, 0, 10.0, 4);
            for (group, given) in given.into_iter().enumerate() {
                assert!((processors.groups[group].given - given).abs() < 1e-9, "{sharing:?} {group}");
            }
        }
    }

    #[test]
    fn what_one_group_leaves_the_other_takes() {
        let mut processors = Processors::new(4, Sharing::Applications, at(0));
        processors.group(None, 1, None);
        processors.group(None, 1, None);
        processors.begin(at(0), 0, 0, 1.0, 0);
        for id in 1..=5 {
            processors.begin(at(0), 1, 0, 1.0, id);
        }
        assert!((processors.groups[0].given - 1.0).abs() < 1e-9);
        assert!((processors.groups[1].given - 3.0).abs() < 1e-9);
    }

    #[test]
    fn switching_costs_when_there_are_more_jobs_than_processors() {
        let switching = Switching {
            quantum: Duration::from_millis(10),
            switch: Duration::from_millis(2),
            refill: Duration::from_millis(16),
            warm: 1,
        };
        let mut processors = Processors::new(1, Sharing::Threads, at(0));
        processors.group(None, 1, Some(switching));
        processors.begin(at(0), 0, 0, 0.1, 1);
        assert_eq!(processors.next(), at(100));
        processors.begin(at(0), 0, 0, 0.1, 2);
        // Half the working sets are cold: each 10 ms cost 2 + 8 more, and both end after 400 ms.
        assert_eq!(ends(&mut processors), [(1, 400), (2, 400)]);
    }
}
