//! A turn of a control law: reads at once, changes gathered until its end; and what one turn leaves to the next.

use std::{collections::BTreeMap, fmt, time::Duration};

use super::{Change, Host, HostError, Level, Measure, Overload};
use crate::{
    Timestamp,
    archive::Stat,
    knobs::{Knob, Value},
};

/// Knobs a controller may hold at once.
const HELD_MAX: usize = 256;
/// Overloaded scopes, each by its bounds, that are known to have been so.
const OVERLOADED_MAX: usize = 256;
/// Lines a turn may put into the log; the rest is dropped and counted.
const LINES_MAX: u32 = 32;
/// Bytes of such a line; the rest is cut off.
const LINE_BYTES_MAX: usize = 1024;
/// Resolution of extremes unless another is asked for: maxima of single seconds are noise.
const EXTREMES_OF: Duration = Duration::from_secs(5);

/// What a controller's turns leave to the next: which knobs it has changed, and what they were.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    held: BTreeMap<String, Held>,
    /// What was overloaded when last judged, and when that was.
    overloaded: BTreeMap<Judged, Timestamp>,
}

/// A scope and the bounds it is judged by: window, then the bits of `least`, `late`, `losing` and `behind`.
type Judged = (String, Duration, [u64; 4]);

/// A knob that a controller has changed.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Held {
    /// Its value before this controller, or any other, set it.
    before: Value,
    /// What it was set to; another value now, or one of nobody's law, means that somebody else has changed it since.
    ours: Value,
    /// When it goes back by itself.
    until: Option<Timestamp>,
}

/// What a turn wants of a knob.
#[derive(Clone, Debug, PartialEq)]
struct Wish {
    action: Action,
    why: String,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Action {
    Set { value: Value, lasts: Option<Duration> },
    Clear,
}

/// One turn of a control law.
pub struct Turn<'t> {
    host: &'t mut dyn Host,
    memory: &'t mut Memory,
    wishes: BTreeMap<String, Wish>,
    /// Why what follows is set, for the audit.
    why: String,
    lines: u32,
    lines_dropped: u32,
}

impl Memory {
    /// The knobs it holds, with the value it gave them.
    pub fn held(&self) -> impl Iterator<Item = (&str, Value)> {
        self.held.iter().map(|(path, held)| (path.as_str(), held.ours))
    }

    /// When the first of its settings runs out.
    #[must_use]
    pub fn next_expiry(&self) -> Option<Timestamp> {
        self.held.values().filter_map(|held| held.until).min()
    }

    /// Settings made for a time stay from now on.
    pub(super) fn forget_expiries(&mut self) {
        for held in self.held.values_mut() {
            held.until = None;
        }
    }

    fn expired(&self, now: Timestamp) -> Vec<String> {
        let due = self.held.iter().filter(|(_, held)| held.until.is_some_and(|until| until <= now));
        due.map(|(path, _)| path.clone()).collect()
    }
}

impl<'t> Turn<'t> {
    /// A turn; `why` goes with its changes, such as the controller's name.
    pub fn new(host: &'t mut dyn Host, memory: &'t mut Memory, why: impl Into<String>) -> Self {
        Self { host, memory, wishes: BTreeMap::new(), why: why.into(), lines: 0, lines_dropped: 0 }
    }

    /// The present time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.host.now()
    }

    /// The surroundings, to read from.
    #[must_use]
    pub fn host(&self) -> &dyn Host {
        self.host
    }

    /// From here on, the reason that goes with changes.
    pub fn set_why(&mut self, why: impl Into<String>) {
        self.why = why.into();
    }

    /// A meter's statistic over the time up to now; extremes are of 5 s means. `None` if nothing
    /// was measured.
    ///
    /// # Errors
    ///
    /// As [`Host::measure`].
    pub fn measure(
        &self,
        scope: &str,
        meter: &str,
        window: Duration,
        stat: Stat,
    ) -> Result<Option<f64>, HostError> {
        self.host.measure(&Measure { scope, meter, window, stat, of: Some(EXTREMES_OF) })
    }

    /// Whether a scope is overloaded, see [`Overload`]. Whether it was, when last judged by the same bounds, is known of the
    /// last 256 that were.
    ///
    /// # Errors
    ///
    /// [`HostError`] if there is no such application or class.
    pub fn overloaded(&mut self, scope: &str, bounds: &Overload) -> Result<bool, HostError> {
        let Overload { window, least, late, losing, behind } = *bounds;
        let judged = (scope.to_owned(), window, [least, late, losing, behind].map(f64::to_bits));
        let at = self.now();
        let known = &mut self.memory.overloaded;
        let is_overloaded = bounds.judge(self.host, scope, known.contains_key(&judged))?;
        if !is_overloaded {
            known.remove(&judged);
            return Ok(false);
        }
        // A law that computes its bounds anew each time asks each of them once: the oldest give way.
        if known.len() >= OVERLOADED_MAX
            && !known.contains_key(&judged)
            && let Some(oldest) = known.iter().min_by_key(|(_, at)| **at).map(|(judged, _)| judged.clone())
        {
            known.remove(&oldest);
        }
        known.insert(judged, at);
        Ok(true)
    }

    /// A knob's row and its value, as this turn would leave it.
    ///
    /// # Errors
    ///
    /// [`HostError`] if there is no such knob.
    pub fn get(&self, path: &str) -> Result<(Knob, Value), HostError> {
        let (knob, present) = self.host.knob(path)?;
        let value = match self.wishes.get(path).map(|wish| wish.action) {
            None => present,
            Some(Action::Set { value, .. }) => value,
            Some(Action::Clear) => self.before(&self.memory.held, path, present).unwrap_or(present),
        };
        Ok((knob, value))
    }

    /// Sets a knob when the turn ends. A number beyond the knob's range becomes the end of the
    /// range, as an actuator saturates, and the log says so unless it is there already. `lasts`: it
    /// goes back by itself after that long, unless it is set again. Answers the value it will have.
    ///
    /// # Errors
    ///
    /// [`HostError`] if there is no such knob, or its row does not allow values of that kind.
    pub fn set(&mut self, path: &str, value: Value, lasts: Option<Duration>) -> Result<Value, HostError> {
        self.set_given(path, value, &value, lasts)
    }

    /// The same of a value that was `given` in other words, as one that no knob can have: the log tells those.
    ///
    /// # Errors
    ///
    /// As [`Turn::set`].
    pub fn set_given(
        &mut self,
        path: &str,
        value: Value,
        given: &dyn fmt::Display,
        lasts: Option<Duration>,
    ) -> Result<Value, HostError> {
        let (knob, present) = self.get(path)?;
        let nearest =
            knob.nearest(value).map_err(|fault| HostError::Value { path: path.to_owned(), fault })?;
        // A law that stays at the end of a range says so once, not each turn.
        if nearest != value && nearest != present {
            self.log(
                Level::Warn,
                &format!("{}: {path}: {given} is out of range: {nearest} it is", self.why.clone()),
            );
        }
        let known = self.memory.held.contains_key(path) || self.wishes.contains_key(path);
        if !known && self.memory.held.len() + self.wishes.len() >= HELD_MAX {
            return Err(HostError::TooMany { what: "knobs set", max: HELD_MAX });
        }
        self.wish(path, Action::Set { value: nearest, lasts });
        Ok(nearest)
    }

    /// Gives a knob the value back that it would have if this controller, and others that had set it before, had not
    /// set it; leaves it alone if it did not, or somebody else has changed it since.
    ///
    /// # Errors
    ///
    /// [`HostError`] if there is no such knob.
    pub fn clear(&mut self, path: &str) -> Result<(), HostError> {
        self.host.knob(path)?;
        if self.memory.held.contains_key(path) {
            self.wish(path, Action::Clear);
        } else {
            self.wishes.remove(path);
        }
        Ok(())
    }

    /// Gives every knob back that this controller holds.
    pub fn clear_all(&mut self) {
        self.wishes.clear();
        for path in self.memory.held.keys().cloned().collect::<Vec<_>>() {
            self.wish(&path, Action::Clear);
        }
    }

    /// Gives those knobs back whose time has run out.
    pub fn clear_expired(&mut self) {
        let now = self.now();
        for path in self.memory.expired(now) {
            self.wish(&path, Action::Clear);
        }
    }

    /// Puts a line into the log: what is not printable is escaped, what is too long is cut off, and
    /// what a turn says too often is dropped.
    pub fn log(&mut self, level: Level, text: &str) {
        if self.lines >= LINES_MAX {
            self.lines_dropped = self.lines_dropped.saturating_add(1);
            return;
        }
        self.lines += 1;
        self.host.log(level, &one_line(text));
    }

    /// Ends the turn: everything it wants changes at once.
    ///
    /// # Errors
    ///
    /// [`HostError`] if the host refuses; nothing changes, and the memory is as before.
    pub fn commit(mut self) -> Result<(), HostError> {
        let now = self.now();
        let mut held = self.memory.held.clone();
        let (mut changes, mut waiting) = (Vec::new(), Vec::new());
        for (path, wish) in std::mem::take(&mut self.wishes) {
            let present = match self.host.knob(&path) {
                Ok((_, present)) => present,
                // Of an application or class that is configured no more it waits for that.
                Err(_) if wish.action == Action::Clear => {
                    held.remove(&path);
                    waiting.push((path, wish.why));
                    continue;
                }
                Err(error) => return Err(error),
            };
            let before = self.before(&held, &path, present);
            let value = match wish.action {
                Action::Set { value, lasts } => {
                    let until = lasts.map(|lasts| now + lasts);
                    let before = before.or_else(|| self.host.beneath(&path)).unwrap_or(present);
                    let entry = Held { before, ours: value, until };
                    held.insert(path.clone(), entry);
                    value
                }
                Action::Clear => {
                    held.remove(&path);
                    let Some(before) = before else {
                        // Somebody else has changed it since, or it does not fit what is configured by now.
                        waiting.push((path, wish.why));
                        continue;
                    };
                    before
                }
            };
            if value != present {
                changes.push(Change { path, value, why: wish.why });
            }
        }
        if !changes.is_empty() {
            self.host.apply(&changes)?;
        }
        for (path, why) in &waiting {
            self.host.give_back_waiting(path, why)?;
        }
        self.memory.held = held;
        self.report_dropped();
        Ok(())
    }

    /// Ends the turn without changing anything.
    pub fn abandon(mut self) {
        self.report_dropped();
    }

    fn report_dropped(&mut self) {
        if self.lines_dropped > 0 {
            let text = format!("{} more lines of this turn dropped", self.lines_dropped);
            self.host.log(Level::Warn, &text);
        }
    }

    /// What a knob would be if this controller had not set it; `None` if it did not set what it is.
    fn before(&self, held: &BTreeMap<String, Held>, path: &str, present: Value) -> Option<Value> {
        let held = held.get(path).filter(|held| held.ours == present && self.host.is_of_controller(path))?;
        Some(self.host.beneath(path).unwrap_or(held.before))
    }

    fn wish(&mut self, path: &str, action: Action) {
        self.wishes.insert(path.to_owned(), Wish { action, why: self.why.clone() });
    }
}

/// At most [`LINE_BYTES_MAX`] bytes without control characters.
pub(super) fn one_line(text: &str) -> String {
    let mut line = String::new();
    for c in text.chars() {
        if line.len() + c.len_utf8() > LINE_BYTES_MAX {
            line.push('…');
            break;
        }
        match c {
            '\n' | '\t' => line.push(' '),
            c if c.is_control() => line.extend(c.escape_default()),
            c => line.push(c),
        }
    }
    line
}
