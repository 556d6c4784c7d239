//! What is read off a run's course: when it settled, when it recovered.

use std::time::Duration;

use crate::{outcome::Figures, statistics::mean};

/// Seconds a level must hold in a row, beside holding in the mean of all that follows.
const SETTLED_FOR: usize = 5;
const RECOVERED_FOR: usize = 3;

/// The second from which the values are at least `level`, in the mean of the next seconds and in the
/// mean of all that follow; infinite if there is none. Means, because seconds of a Poisson stream
/// scatter.
pub(crate) fn settled_after(per_second: &[f64], level: f64) -> f64 {
    let holds = |from: usize| {
        let rest = &per_second[from..];
        rest.len() >= SETTLED_FOR
            && mean(&rest[..SETTLED_FOR]).is_some_and(|mean| mean >= level)
            && mean(rest).is_some_and(|mean| mean >= level)
    };
    seconds((0..per_second.len()).find(|from| holds(*from)))
}

/// Seconds after `from` until what is good is 95 % of what is offered, over the next seconds and over all
/// that follow; infinite if never.
pub(crate) fn recovered_after(offered: &[f64], good: &[f64], from: usize) -> f64 {
    let end = offered.len().min(good.len());
    // After the end of the load nothing is offered, and nothing recovers.
    let enough = |range: std::ops::Range<usize>| {
        let offered = offered[range.clone()].iter().sum::<f64>();
        offered > 0.0 && good[range].iter().sum::<f64>() >= 0.95 * offered
    };
    let holds = |at: usize| at + RECOVERED_FOR <= end && enough(at..at + RECOVERED_FOR) && enough(at..end);
    seconds((from..end).find(|at| holds(*at)).map(|at| at - from))
}

/// Figures of a load with phases: goodput in the first, recovery in the last.
pub(crate) fn of_phases(
    figures: &mut Figures,
    phases: &[(Duration, f64)],
    capacity: f64,
    offered: &[f64],
    good: &[f64],
) {
    let [(first, _), between @ .., _] = phases else { return };
    let whole = |span: Duration| usize::try_from(span.as_secs()).unwrap_or(usize::MAX);
    let last_begins = whole(*first + between.iter().map(|(length, _)| *length).sum::<Duration>());
    let storm = good.get(2..whole(*first).min(good.len())).and_then(mean);
    if let Some(storm) = storm {
        figures.insert("storm_goodput_of_capacity".to_owned(), storm / capacity);
    }
    figures.insert("recover_s".to_owned(), recovered_after(offered, good, last_begins));
}

#[expect(clippy::cast_precision_loss, reason = "seconds of a run")]
fn seconds(found: Option<usize>) -> f64 {
    found.map_or(f64::INFINITY, |at| at as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settling_is_the_first_second_that_lasts() {
        let mut course = vec![0.0, 40.0, 95.0, 60.0, 60.0];
        course.extend([95.0; 20]);
        assert_eq!(settled_after(&course, 90.0), 5.0);
        // A dip that the mean bears is no end of it.
        course[15] = 85.0;
        assert_eq!(settled_after(&course, 90.0), 5.0);
        assert_eq!(settled_after(&course, 99.0), f64::INFINITY);
        assert_eq!(settled_after(&[100.0; 3], 90.0), f64::INFINITY, "too short to tell");
    }

    #[test]
    fn recovery_counts_from_the_last_phase() {
        let offered = [400.0, 400.0, 400.0, 50.0, 50.0, 50.0, 50.0, 50.0, 50.0, 50.0];
        let good = [90.0, 90.0, 90.0, 10.0, 20.0, 50.0, 50.0, 49.0, 50.0, 50.0];
        assert_eq!(recovered_after(&offered, &good, 3), 2.0);
        assert_eq!(recovered_after(&offered, &[0.0; 10], 3), f64::INFINITY);
        let ended = [&offered[..], &[0.0; 5]].concat();
        assert_eq!(recovered_after(&ended, &[0.0; 15], 3), f64::INFINITY, "the load is over");
        let mut figures = Figures::new();
        let phases = [(Duration::from_secs(3), 4.0), (Duration::from_secs(7), 0.5)];
        of_phases(&mut figures, &phases, 100.0, &offered, &good);
        assert_eq!((figures["recover_s"], figures["storm_goodput_of_capacity"]), (2.0, 0.9));
    }
}
