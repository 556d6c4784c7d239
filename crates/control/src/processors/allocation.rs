//! How many processors each application gets, by need and priority.
//!
//! Where the needs fit, everyone gets what it needs. Where they do not, [`Policy`] decides:
//!
//! ```text
//! MaxMin        the next unit goes to the application with the least A_i / P_i of those with A_i < R_i
//! Proportional  A_i = P_i · R_i · N / Σ P_j · R_j
//! ```
//!
//! A unit is half a processor, or a whole one without [`Sharing`].
//!
//! Source: Guitart et al. 2008, section 3.1.1, equation 1 and the two paragraphs of sharing behind it. Deviations of
//! `Proportional`:
//!
//! 1. Nobody gets more than it needs: what is above goes to the others, by the same proportion. By the equation
//!    R = 1 and 4 of priority 10 and 1 on four processors would be given 3 and 1.
//! 2. Processors are dealt out by largest remainder, so that they are neither more nor fewer than there are. By the
//!    equation's rounding, R = 3, 3, 2 on four would be given 2, 2, 1.
//! 3. Nobody gets nothing: who would, has a half, or without sharing a whole one.
//! 4. A half is shared only where its application does not need it. As published, whoever has all it asked for gives one
//!    up, be it in use or not.
//!
//! `MaxMin` is ours. A proportion of needs rewards whoever asks for more, and where a need is known by use alone it
//! keeps each application at what it has: who has one processor and uses it can show no need for three. By the fairest
//! share whoever needs little gets it, and those who need more than their share get equal shares, as their
//! priorities weigh.

use super::Halves;

/// How to divide processors that do not suffice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// Weighted max-min fairness: the default.
    #[default]
    MaxMin,
    /// By priority times need, as published.
    Proportional,
}

/// Whether two applications may share a processor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sharing {
    /// Each processor is one application's.
    None,
    /// Halves go to whoever needs them: the default.
    #[default]
    Halves,
    /// Only an application of higher priority is given a half of another's processor.
    Upwards,
}

/// What one application needs, and may have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Claim {
    /// P, above 0, default 1. What is not is as 1.
    pub priority: f64,
    /// R, processors. What is no number or below 0 is as 0.
    pub need: f64,
    /// What it has whatever it needs, and whatever the others do; by `Proportional`, whatever it needs.
    pub min: Halves,
    /// What it has at most.
    pub max: Halves,
}

/// Divides `processors` among applications; the answer has their order.
///
/// The sum is at most the processors, if there are as many of them as applications, or with sharing half as many, and
/// as all `min` together. Otherwise it is what the least of each come to.
///
/// Costs the product of units and applications.
///
/// ```
/// use tidegate_control::processors::{Claim, Halves, Policy, Sharing, allocate};
///
/// let claim = |need, priority| Claim { priority, need, min: Halves::ONE, max: Halves::whole(4) };
/// // Four processors; 3.7 and 0.4 are needed. Halves that hold them are 4 and 0.5: half a processor too many.
/// let amounts = allocate(Policy::MaxMin, Sharing::Halves, 4, &[claim(3.7, 1.0), claim(0.4, 1.0)]);
/// assert_eq!(amounts, [Halves::new(7), Halves::new(1)]);
/// // Both need all, the first is worth twice the second: 2.67 and 1.33, in halves 2.5 and 1.5.
/// let amounts = allocate(Policy::MaxMin, Sharing::Halves, 4, &[claim(4.0, 2.0), claim(4.0, 1.0)]);
/// assert_eq!(amounts, [Halves::new(5), Halves::new(3)]);
/// ```
#[must_use]
pub fn allocate(policy: Policy, sharing: Sharing, processors: u32, claims: &[Claim]) -> Vec<Halves> {
    match policy {
        Policy::MaxMin => max_min(sharing, processors, claims),
        Policy::Proportional => proportional(sharing, processors, claims),
    }
}

impl Claim {
    fn weight(&self) -> f64 {
        if self.priority > 0.0 && self.priority.is_finite() { self.priority } else { 1.0 }
    }

    /// The units that hold `amount` and are no more than the application's most, at least one.
    fn units(&self, amount: Halves, unit: u32) -> u32 {
        amount.0.min(self.max.0).div_ceil(unit).max(1)
    }

    fn least(&self, unit: u32) -> u32 {
        self.units(self.min, unit)
    }

    fn wanted(&self, unit: u32) -> u32 {
        self.units(self.min.max(Halves::holding(self.need)), unit)
    }
}

fn max_min(sharing: Sharing, processors: u32, claims: &[Claim]) -> Vec<Halves> {
    let unit = if sharing == Sharing::Halves { 1 } else { 2 };
    let mut units: Vec<u32> = claims.iter().map(|claim| claim.least(unit)).collect();
    let left = Halves::whole(processors).0 / unit;
    for _ in units.iter().sum()..left {
        let share = |&i: &usize| f64::from(units[i]) / claims[i].weight();
        let poorest = (0..claims.len())
            .filter(|&i| units[i] < claims[i].wanted(unit))
            .min_by(|i, j| share(i).total_cmp(&share(j)));
        let Some(poorest) = poorest else { break };
        units[poorest] += 1;
    }
    let mut amounts: Vec<Halves> = units.into_iter().map(|units| Halves(units * unit)).collect();
    if sharing == Sharing::Upwards {
        share_halves(sharing, claims, &mut amounts);
    }
    amounts
}

fn proportional(sharing: Sharing, processors: u32, claims: &[Claim]) -> Vec<Halves> {
    let wanted: Vec<u32> = claims.iter().map(|claim| claim.wanted(2)).collect();
    let mut amounts = vec![Halves::default(); claims.len()];
    let mut left = processors;
    // Whoever's proportion holds all it wants gets it, and the others divide the rest anew.
    let mut open: Vec<usize> = (0..claims.len()).collect();
    let quota = |left: u32, open: &[usize], i: usize| {
        let worth = |i: usize| claims[i].weight() * f64::from(wanted[i]);
        worth(i) * f64::from(left) / open.iter().map(|&j| worth(j)).sum::<f64>()
    };
    loop {
        let (full, rest): (Vec<usize>, Vec<usize>) =
            open.iter().partition(|&&i| quota(left, &open, i) >= f64::from(wanted[i]));
        if full.is_empty() {
            break;
        }
        for i in full {
            amounts[i] = Halves::whole(wanted[i]);
            left -= wanted[i].min(left);
        }
        open = rest;
    }
    deal(left, &open, |i| quota(left, &open, i), &mut amounts);
    leave_nobody_without(sharing, claims, &mut amounts);
    if sharing != Sharing::None {
        share_halves(sharing, claims, &mut amounts);
    }
    amounts
}

/// Gives out whole processors by largest remainder.
fn deal(processors: u32, open: &[usize], quota: impl Fn(usize) -> f64, amounts: &mut [Halves]) {
    let mut left = processors;
    for &i in open {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to processors")]
        let whole = quota(i).floor() as u32;
        amounts[i] = Halves::whole(whole);
        left -= whole.min(left);
    }
    let mut by_remainder = open.to_vec();
    by_remainder.sort_by(|&i, &j| quota(j).fract().total_cmp(&quota(i).fract()));
    for i in by_remainder.into_iter().take(left as usize) {
        amounts[i].0 += 2;
    }
}

/// Who has nothing takes a unit of whoever has most for its priority.
fn leave_nobody_without(sharing: Sharing, claims: &[Claim], amounts: &mut [Halves]) {
    let unit = if sharing == Sharing::None { 2 } else { 1 };
    for i in 0..amounts.len() {
        if amounts[i].0 > 0 {
            continue;
        }
        amounts[i].0 = unit;
        let share = |&j: &usize| f64::from(amounts[j].0) / claims[j].weight();
        let richest = (0..amounts.len())
            .filter(|&j| j != i && amounts[j].0 > unit)
            .max_by(|j, k| share(j).total_cmp(&share(k)));
        if let Some(richest) = richest {
            amounts[richest].0 -= unit;
        }
    }
}

/// Half a processor that its application does not need goes to one that needs more: to the one of highest priority, and
/// of several to the one that lacks most.
fn share_halves(sharing: Sharing, claims: &[Claim], amounts: &mut [Halves]) {
    let lacks = |amounts: &[Halves], i: usize| claims[i].wanted(1).saturating_sub(amounts[i].0);
    for giver in 0..claims.len() {
        if amounts[giver].0 <= claims[giver].wanted(1) {
            continue;
        }
        let may_take = |i: usize| sharing == Sharing::Halves || claims[i].weight() > claims[giver].weight();
        let in_need = (0..claims.len()).filter(|&i| lacks(amounts, i) > 0 && may_take(i)).max_by(|&i, &j| {
            let by_priority = claims[i].weight().total_cmp(&claims[j].weight());
            by_priority.then(lacks(amounts, i).cmp(&lacks(amounts, j))).then(j.cmp(&i))
        });
        if let Some(in_need) = in_need {
            amounts[giver].0 -= 1;
            amounts[in_need].0 += 1;
        }
    }
}

#[cfg(test)]
mod tests;
