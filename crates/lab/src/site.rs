//! What follows from classes and pages alone: the mix, the mean work, the capacity.

use std::time::Duration;

use crate::experiment::{Page, Population, Tls, Unit, Visit, Web};

/// Requests a second the server can do: its processors (or threads, if fewer) over the mean work.
#[must_use]
pub fn capacity(web: &Web) -> f64 {
    capacity_for(web, &mix(web))
}

/// The same of another mix, given by the share of each class.
#[must_use]
pub fn capacity_for(web: &Web, shares: &[f64]) -> f64 {
    if let Some(server) = &web.stand_in {
        return server.capacity(Duration::ZERO);
    }
    let processors = f64::from(web.server.processors);
    let at_once = web.server.threads.map_or(processors, |threads| processors.min(f64::from(threads)));
    let sum: f64 = shares.iter().sum();
    let work = shares.iter().zip(&web.classes).map(|(share, class)| share * class.work.mean.as_secs_f64());
    let handshakes = secure_visit(web).map_or(0.0, |(visit, tls)| {
        let resumed = resumptions(visit, tls) * tls.resumed.as_secs_f64();
        (tls.full.as_secs_f64() + resumed) / requests_of(visit)
    });
    at_once / (work.sum::<f64>() / sum + handshakes)
}

/// Requests a second of a load, as it is counted.
#[must_use]
pub fn offered_per_s(web: &Web, load: f64, capacity: f64) -> f64 {
    match (web.load.unit, visit(web)) {
        (Unit::Sessions, Some(visit)) => load * requests_of(visit),
        _ => load * capacity,
    }
}

/// Processor seconds of a connection in the mean: its handshake and all requests on it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ConnectionCosts {
    /// Of a new one.
    pub new_s: f64,
    /// Of one that resumes.
    pub resumed_s: f64,
}

/// Requests of a session in the mean; of what is no session, one.
#[must_use]
pub fn requests_a_session(web: &Web) -> f64 {
    visit(web).map_or(1.0, requests_of)
}

/// What connections cost; `None` without TLS.
#[must_use]
pub fn connection_costs(web: &Web) -> Option<ConnectionCosts> {
    let (visit, tls) = secure_visit(web)?;
    let requests_s = requests_of(visit) * mean_work_s(web) / (1.0 + resumptions(visit, tls));
    Some(ConnectionCosts {
        new_s: tls.full.as_secs_f64() + requests_s,
        resumed_s: tls.resumed.as_secs_f64() + requests_s,
    })
}

fn visit(web: &Web) -> Option<&Visit> {
    match &web.load.population {
        Population::Open { visit, .. } => visit.as_ref(),
        Population::Browsers { .. } => None,
    }
}

fn secure_visit(web: &Web) -> Option<(&Visit, &Tls)> {
    visit(web).zip(web.tls.as_ref())
}

/// Mean number of a visit's pauses that are longer than its connection is kept.
fn resumptions(visit: &Visit, tls: &Tls) -> f64 {
    let pages: f64 = pages_of(visit).iter().sum();
    (pages - 1.0) * (-tls.keep_alive.as_secs_f64() / visit.think.as_secs_f64()).exp()
}

/// Mean processor seconds of a request.
#[must_use]
pub fn mean_work_s(web: &Web) -> f64 {
    mix(web).iter().zip(&web.classes).map(|(share, class)| share * class.work.mean.as_secs_f64()).sum()
}

/// Browsers that make up a load, in the simulator.
#[must_use]
pub fn browsers(web: &Web, load: f64) -> u32 {
    let Population::Browsers { think, .. } = &web.load.population else { return 0 };
    u32::try_from(browsers_at(*think, capacity(web), load)).unwrap_or(u32::MAX)
}

/// That many times as many browsers as an idle server of this capacity would just keep up with:
/// capacity · think. (The reply itself takes little beside the thought.)
#[must_use]
pub fn browsers_at(think: Duration, capacity: f64, load: f64) -> usize {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
    let count = (load * capacity * think.as_secs_f64()).round().clamp(1.0, 100_000.0) as usize;
    count
}

/// Share of each class in the requests, adding up to 1.
#[must_use]
pub fn mix(web: &Web) -> Vec<f64> {
    let mut shares = vec![0.0; web.classes.len()];
    match &web.load.population {
        Population::Open { visit: None, .. } => {
            for (share, class) in shares.iter_mut().zip(&web.classes) {
                *share = class.share;
            }
        }
        Population::Browsers { pages, .. } => {
            for (share, page) in visits(pages).into_iter().zip(pages) {
                shares[page.class] += share;
            }
        }
        Population::Open { visit: Some(visit), .. } => {
            for (count, page) in pages_of(visit).into_iter().zip(&visit.pages) {
                shares[page.class] += count;
                shares[page.embedded_class] += count * f64::from(page.embedded);
            }
        }
    }
    let sum: f64 = shares.iter().sum();
    shares.iter().map(|share| share / sum).collect()
}

/// Mean number of requests of a visit.
#[must_use]
pub fn requests_of(visit: &Visit) -> f64 {
    let pages = pages_of(visit).into_iter().zip(&visit.pages);
    pages.map(|(count, page)| count * (1.0 + f64::from(page.embedded))).sum()
}

/// How often a visit comes to each page, in the mean.
fn pages_of(visit: &Visit) -> Vec<f64> {
    let pages = &visit.pages;
    let Some(max) = visit.pages_max else {
        let shares = visits(pages);
        let ends = shares.iter().zip(pages).map(|(share, page)| {
            let goes_on: f64 = page.next.iter().map(|(_, probability)| probability).sum();
            share * (1.0 - goes_on)
        });
        let ends: f64 = ends.sum();
        return shares.into_iter().map(|share| share / ends).collect();
    };
    let mut counts = vec![0.0; pages.len()];
    let mut there = vec![0.0; pages.len()];
    there[0] = 1.0;
    for _ in 0..max {
        let mut after = vec![0.0; pages.len()];
        for ((count, share), page) in counts.iter_mut().zip(&there).zip(pages) {
            *count += share;
            for (next, probability) in &page.next {
                after[*next] += share * probability;
            }
        }
        there = after;
    }
    counts
}

/// The long-run share of each page, a session that ends being followed by one at the first page.
fn visits(pages: &[Page]) -> Vec<f64> {
    #[expect(clippy::cast_precision_loss, reason = "a number of pages")]
    let mut shares = vec![1.0 / pages.len().max(1) as f64; pages.len()];
    for _ in 0..10_000 {
        let mut after = vec![0.0; pages.len()];
        for (share, page) in shares.iter().zip(pages) {
            let mut left = *share;
            for (next, probability) in &page.next {
                after[*next] += share * probability;
                left -= share * probability;
            }
            after[0] += left.max(0.0);
        }
        // Half a step, so that a chain that goes round in a circle settles as well.
        let moved: f64 = shares.iter().zip(&after).map(|(before, after)| (before - after).abs()).sum();
        for (share, after) in shares.iter_mut().zip(after) {
            *share = f64::midpoint(*share, after);
        }
        if moved < 1e-12 {
            break;
        }
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn visits_of_a_circle_and_of_a_site_that_is_left() {
        let page = |next: &[(usize, f64)]| Page {
            name: String::new(),
            class: 0,
            embedded: 0,
            embedded_class: 0,
            next: next.to_vec(),
        };
        let circle = visits(&[page(&[(1, 1.0)]), page(&[(0, 1.0)])]);
        assert!((circle[0] - 0.5).abs() < 1e-9, "{circle:?}");
        // Half of the visitors go on to the second page and leave there: 2/3 and 1/3.
        let left = visits(&[page(&[(1, 0.5)]), page(&[])]);
        assert!((left[0] - 2.0 / 3.0).abs() < 1e-9, "{left:?}");
        // One and a half requests each; four fifths go on from a page to itself: five.
        let visit =
            |pages: &[Page], pages_max| Visit { think: Duration::ZERO, pages: pages.to_vec(), pages_max };
        let requests = |pages: &[Page]| requests_of(&visit(pages, None));
        assert!((requests(&[page(&[(1, 0.5)]), page(&[])]) - 1.5).abs() < 1e-9);
        assert!((requests(&[page(&[(0, 0.8)])]) - 5.0).abs() < 1e-9);
        // Of three pages at most: 1 + 0.8 + 0.64, with two pictures each.
        let pictured = Page { embedded: 2, ..page(&[(0, 0.8)]) };
        assert!((requests_of(&visit(&[pictured], Some(3))) - 3.0 * 2.44).abs() < 1e-9);
    }
}
