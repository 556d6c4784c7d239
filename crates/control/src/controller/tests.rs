//! Tests of turns, memory, schedules and the judgement of overload, on a host that answers from a table.

use std::collections::BTreeMap;

use super::*;
use crate::{
    knobs::{Scope, Values},
    refusal::Refusal,
};

/// A host with one application `shop` and its classes `default` and `home`.
struct Table {
    now: Timestamp,
    home: Values,
    /// By scope, meter and statistic.
    meters: BTreeMap<String, f64>,
    applied: Vec<Vec<Change>>,
    lines: Vec<(Level, String)>,
    refuses: bool,
    beneath: Beneath<(Value, usize)>,
    /// By whose change each knob is what it is: its value, and its number among all changes.
    changed: BTreeMap<String, (Value, usize)>,
    changes: usize,
    /// What knobs are without changes, if anything is configured.
    configured: Option<Value>,
    /// Whether the classes are configured no more.
    is_gone: bool,
    /// What was given back that was not in force.
    given_back: Vec<String>,
}

impl Table {
    fn new() -> Self {
        Self {
            now: Timestamp::EPOCH + Duration::from_secs(1000),
            home: Values::defaults(Scope::Class),
            meters: BTreeMap::new(),
            applied: Vec::new(),
            lines: Vec::new(),
            refuses: false,
            beneath: Beneath::default(),
            changed: BTreeMap::new(),
            changes: 0,
            configured: None,
            is_gone: false,
            given_back: Vec::new(),
        }
    }

    fn rate(&self) -> Value {
        self.home.value(Knob::INGRESS_RATE)
    }

    /// An operator sets the rate.
    fn pin(&mut self, rate: Value) {
        self.home.set(Knob::INGRESS_RATE, rate).expect("a rate");
        let _ = self.change(RATE, rate);
    }

    fn change(&mut self, path: &str, value: Value) -> (Value, usize) {
        self.changes += 1;
        self.changed.insert(path.to_owned(), (value, self.changes));
        (value, self.changes)
    }

    fn pass(&mut self, time: Duration) {
        self.now = self.now + time;
    }

    fn meter(&mut self, key: &str, value: f64) {
        self.meters.insert(key.to_owned(), value);
    }
}

impl Host for Table {
    fn now(&self) -> Timestamp {
        self.now
    }

    fn applications(&self) -> Vec<String> {
        vec!["shop".to_owned()]
    }

    fn classes(&self, application: &str) -> Result<Vec<String>, HostError> {
        match application {
            "shop" => Ok(vec!["default".to_owned(), "home".to_owned()]),
            other => Err(HostError::Knob(format!("there is no application {other}"))),
        }
    }

    fn measure(&self, measure: &Measure<'_>) -> Result<Option<f64>, HostError> {
        let key = format!("{} {} {}", measure.scope, measure.meter, measure.stat);
        Ok(self.meters.get(&key).copied())
    }

    fn knob(&self, path: &str) -> Result<(Knob, Value), HostError> {
        let name = path.strip_prefix("shop/home/").or_else(|| path.strip_prefix("shop/default/"));
        match name.filter(|_| !self.is_gone).and_then(|name| Knob::find(Scope::Class, name)) {
            Some(knob) => Ok((knob, self.home.value(knob))),
            None => Err(HostError::Knob(format!("{path}: there is no such knob"))),
        }
    }

    fn beneath(&self, path: &str) -> Option<Value> {
        match self.beneath.before(path, self.changed.get(path)?)? {
            Before::Configured => self.configured,
            Before::Changed((value, _)) => Some(*value),
        }
    }

    fn is_of_controller(&self, path: &str) -> bool {
        self.changed.get(path).is_some_and(|present| self.beneath.before(path, present).is_some())
    }

    fn apply(&mut self, changes: &[Change]) -> Result<(), HostError> {
        if self.refuses {
            return Err(HostError::Knob("they contradict one another".to_owned()));
        }
        for change in changes {
            let (knob, present) = self.knob(&change.path)?;
            let unset = || self.configured.map_or(Before::Changed((present, 0)), |_| Before::Configured);
            let before = self.changed.get(&change.path).map(|holds| {
                self.beneath.before(&change.path, holds).copied().unwrap_or(Before::Changed(*holds))
            });
            let before = before.unwrap_or_else(unset);
            let to = self.change(&change.path, change.value);
            match before {
                Before::Changed((value, _)) if value == change.value => self.beneath.given_back(&change.path),
                before => self.beneath.changed(&change.path, before, to),
            }
            self.home.set(knob, change.value).expect("a turn sets what the row allows");
        }
        self.applied.push(changes.to_vec());
        Ok(())
    }

    fn give_back_waiting(&mut self, path: &str, _why: &str) -> Result<(), HostError> {
        self.given_back.push(path.to_owned());
        Ok(())
    }

    fn log(&mut self, level: Level, text: &str) {
        self.lines.push((level, text.to_owned()));
    }
}

const RATE: &str = "shop/home/ingress.rate";

fn turn<R>(host: &mut Table, memory: &mut Memory, work: impl FnOnce(&mut Turn<'_>) -> R) -> R {
    let mut turn = Turn::new(host, memory, "law");
    let answer = work(&mut turn);
    turn.commit().expect("the host agrees");
    answer
}

#[test]
fn a_turn_changes_everything_at_its_end_or_nothing() {
    let (mut host, mut memory) = (Table::new(), Memory::default());
    turn(&mut host, &mut memory, |turn| {
        turn.set(RATE, Value::Rate(50.0), None).unwrap();
        turn.set("shop/home/queue.max", Value::Count(7), None).unwrap();
        assert_eq!(turn.get(RATE).unwrap().1, Value::Rate(50.0), "a turn reads what it has written");
    });
    assert_eq!(host.applied.len(), 1);
    assert_eq!(host.applied[0].len(), 2);

    let mut abandoned = Turn::new(&mut host, &mut memory, "law");
    abandoned.set(RATE, Value::Rate(1.0), None).unwrap();
    abandoned.abandon();
    host.refuses = true;
    let mut refused = Turn::new(&mut host, &mut memory, "law");
    refused.set(RATE, Value::Rate(2.0), None).unwrap();
    assert!(refused.commit().is_err());
    host.refuses = false;
    assert_eq!(host.rate(), Value::Rate(50.0));
    assert_eq!(
        memory.held().collect::<Vec<_>>(),
        [(RATE, Value::Rate(50.0)), ("shop/home/queue.max", Value::Count(7))]
    );
}

#[test]
fn what_is_set_again_to_the_same_is_no_change() {
    let (mut host, mut memory) = (Table::new(), Memory::default());
    for _ in 0..3 {
        turn(&mut host, &mut memory, |turn| turn.set(RATE, Value::Rate(50.0), None).unwrap());
    }
    assert_eq!(host.applied.len(), 1);
}

#[test]
fn clearing_gives_back_the_value_before_and_leaves_alone_what_others_have_set() {
    let (mut host, mut memory) = (Table::new(), Memory::default());
    host.home.set(Knob::INGRESS_RATE, Value::Rate(80.0)).unwrap();
    turn(&mut host, &mut memory, |turn| turn.clear(RATE).unwrap());
    assert_eq!(host.rate(), Value::Rate(80.0), "nothing was set, nothing is cleared");
    turn(&mut host, &mut memory, |turn| turn.set(RATE, Value::Rate(50.0), None).unwrap());
    turn(&mut host, &mut memory, |turn| turn.set(RATE, Value::Rate(40.0), None).unwrap());
    turn(&mut host, &mut memory, |turn| {
        turn.clear(RATE).unwrap();
        assert_eq!(turn.get(RATE).unwrap().1, Value::Rate(80.0));
    });
    assert_eq!(host.rate(), Value::Rate(80.0), "the value before the first set");

    turn(&mut host, &mut memory, |turn| turn.set(RATE, Value::Rate(50.0), None).unwrap());
    host.pin(Value::Rate(60.0));
    turn(&mut host, &mut memory, |turn| turn.clear(RATE).unwrap());
    assert_eq!(host.rate(), Value::Rate(60.0), "an operator has set it since");
    assert_eq!(memory.held().count(), 0);

    // To what the law had made it at that moment: it is the operator's all the same.
    for sets_again in [false, true] {
        turn(&mut host, &mut memory, |turn| turn.set(RATE, Value::Rate(50.0), None).unwrap());
        host.pin(Value::Rate(50.0));
        if sets_again {
            turn(&mut host, &mut memory, |turn| turn.set(RATE, Value::Rate(50.0), None).unwrap());
            turn(&mut host, &mut memory, |turn| turn.set(RATE, Value::Rate(40.0), None).unwrap());
        }
        turn(&mut host, &mut memory, |turn| turn.clear(RATE).unwrap());
        assert_eq!(host.rate(), Value::Rate(50.0), "it is pinned: {sets_again}");
        host.pin(Value::Rate(60.0));
    }
}

#[test]
fn of_two_controllers_on_one_knob_nothing_is_left_whoever_goes_first() {
    for first_goes_first in [true, false] {
        let (mut host, mut memories) = (Table::new(), [Memory::default(), Memory::default()]);
        host.home.set(Knob::INGRESS_RATE, Value::Rate(80.0)).unwrap();
        for (which, rate) in [(0, 50.0), (1, 40.0), (0, 50.0), (1, 40.0)] {
            let set = |turn: &mut Turn<'_>| turn.set(RATE, Value::Rate(rate), None).map(drop);
            turn(&mut host, &mut memories[which], set).unwrap();
        }
        if !first_goes_first {
            memories.reverse();
        }
        for memory in &mut memories {
            turn(&mut host, memory, |turn| turn.clear_all());
        }
        assert_eq!(host.rate(), Value::Rate(80.0), "{first_goes_first}");
    }
}

#[test]
fn what_is_given_back_is_what_is_configured_by_now() {
    let (mut host, mut memory) = (Table::new(), Memory::default());
    host.configured = Some(Value::Rate(80.0));
    turn(&mut host, &mut memory, |turn| turn.set(RATE, Value::Rate(50.0), None).unwrap());
    host.configured = Some(Value::Rate(90.0));
    turn(&mut host, &mut memory, |turn| {
        turn.clear(RATE).unwrap();
        assert_eq!(turn.get(RATE).unwrap().1, Value::Rate(90.0));
    });
    assert_eq!(host.rate(), Value::Rate(90.0));
}

#[test]
fn what_is_not_in_force_any_more_is_given_back_too() {
    let lasts = Some(Duration::from_secs(2));
    type GiveBack = fn(&mut Schedule, &mut Table);
    let ways: [(&str, GiveBack); 3] = [
        ("its time is over", |schedule, host| {
            host.pass(Duration::from_secs(2));
            schedule.run(host, |_, _| Ok(()));
        }),
        ("it is stopped", |schedule, host| schedule.stop(host, "law:7: it went wrong")),
        ("it is wanted no more", |schedule, host| schedule.retire(host)),
    ];
    for (way, give_back) in ways {
        let mut host = Table::new();
        let mut schedule = Schedule::new("law", 3, OnFailure::Revert);
        schedule.begin(&mut host, |turn| {
            turn.set(RATE, Value::Rate(50.0), lasts).map(drop).map_err(|error| error.to_string())
        });
        host.is_gone = true;
        give_back(&mut schedule, &mut host);
        assert_eq!(host.given_back, [RATE], "{way}");
        assert_eq!(schedule.memory().held().count(), 0, "{way}");
    }
}

#[test]
fn what_is_set_for_a_time_goes_back_unless_set_again() {
    let mut host = Table::new();
    let mut schedule = Schedule::new("law", 3, OnFailure::Keep);
    let start = host.now;
    schedule.every(start, Duration::from_secs(5));
    let mut run = |host: &mut Table, sets: bool| {
        schedule.run(host, |_, turn| {
            if sets {
                turn.set(RATE, Value::Rate(50.0), Some(Duration::from_secs(12))).unwrap();
            }
            Ok(())
        });
        schedule.next().map(|next| next.since(start).as_secs())
    };
    host.pass(Duration::from_secs(5));
    assert_eq!(run(&mut host, true), Some(10));
    host.pass(Duration::from_secs(5));
    assert_eq!(run(&mut host, true), Some(15), "set again at 10 s: until 22 s");
    for second in [15, 20] {
        host.pass(Duration::from_secs(5));
        run(&mut host, false);
        assert_eq!(host.rate(), Value::Rate(50.0), "at {second} s");
    }
    host.pass(Duration::from_secs(2));
    assert_eq!(run(&mut host, false), Some(25));
    assert_eq!(host.rate(), Value::None);
}

#[test]
fn a_number_beyond_the_range_becomes_its_end_and_the_log_says_so_once() {
    let (mut host, mut memory) = (Table::new(), Memory::default());
    for (wanted, applied, said) in
        [(0.0, 0.001, true), (-5.0, 0.001, false), (1e30, 1e9, true), (0.0, 0.001, true)]
    {
        let set = turn(&mut host, &mut memory, |turn| turn.set(RATE, Value::Rate(wanted), None));
        assert_eq!(set, Ok(Value::Rate(applied)));
        assert_eq!(host.lines.pop().map(|(level, _)| level), said.then_some(Level::Warn), "{wanted}");
    }
    let mut turn = Turn::new(&mut host, &mut memory, "law");
    for value in [Value::Rate(f64::NAN), Value::Count(5)] {
        assert!(matches!(turn.set(RATE, value, None), Err(HostError::Value { .. })), "{value:?}");
    }
    assert!(turn.set("shop/home/wibble", Value::Count(1), None).is_err());
}

#[test]
fn failures_in_a_row_stop_a_controller_and_its_settings_stay_or_go() {
    for (on_failure, after) in [(OnFailure::Keep, Value::Rate(50.0)), (OnFailure::Revert, Value::None)] {
        let mut host = Table::new();
        let mut schedule = Schedule::new("law", 3, on_failure);
        schedule.every(host.now, Duration::from_secs(1));
        // Good, two failures, good, and failures from then on.
        let fails = [false, true, true, false, true, true, true, true, true];
        let mut turns = 0;
        for fails in fails {
            host.pass(Duration::from_secs(1));
            schedule.run(&mut host, |_, turn| {
                turns += 1;
                turn.set(RATE, Value::Rate(50.0), None).unwrap();
                if fails { Err("law:7: it went wrong".to_owned()) } else { Ok(()) }
            });
        }
        assert_eq!(turns, 7, "nothing runs once it is stopped");
        assert_eq!(*schedule.standing(), Standing::Stopped { why: "law:7: it went wrong".to_owned() });
        assert_eq!(schedule.next(), None);
        assert_eq!(host.rate(), after);
        assert_eq!(host.lines.len(), 6, "each failure and the stop: {:?}", host.lines);
        assert!(host.lines.iter().all(|(level, text)| *level == Level::Error && text.contains("law:7")));
    }
}

#[test]
fn runs_that_were_missed_are_not_made_up_for() {
    let mut host = Table::new();
    let mut schedule = Schedule::new("law", 3, OnFailure::Keep);
    let start = host.now;
    schedule.every(start, Duration::from_secs(1));
    let mut turns = 0;
    for pass in [999, 1, 8000, 500, 500, 1000] {
        host.pass(Duration::from_millis(pass));
        schedule.run(&mut host, |_, _| {
            turns += 1;
            Ok(())
        });
    }
    assert_eq!(turns, 4);
    assert_eq!(schedule.next(), Some(start + Duration::from_secs(12)));
}

#[test]
fn a_turn_says_so_much_and_no_more() {
    let (mut host, mut memory) = (Table::new(), Memory::default());
    turn(&mut host, &mut memory, |turn| {
        for _ in 0..1000 {
            turn.log(Level::Info, &"\n\u{1b}[2J".repeat(10_000));
        }
    });
    assert_eq!(host.lines.len(), 33);
    assert!(host.lines.iter().all(|(_, text)| text.len() <= 1024 + 16 && !text.contains(['\n', '\u{1b}'])));
    assert_eq!(host.lines[32].1, "968 more lines of this turn dropped");
}

/// A law may tell a little overload from much of it: neither begins or ends by the bounds of the other.
#[test]
fn overload_by_each_set_of_bounds_is_judged_by_itself() {
    let (mut host, mut memory) = (Table::new(), Memory::default());
    healthy(&mut host);
    let mild = Overload { losing: 0.05, ..Overload::default() };
    let severe = Overload { losing: 0.6, ..Overload::default() };
    for (lost, expected) in [
        (4.0, [false, false]),
        (35.0, [true, false]),
        (61.0, [true, true]),
        (35.0, [true, true]),
        (29.0, [true, false]),
        (35.0, [true, false]),
        (2.0, [false, false]),
    ] {
        host.meter("shop/home refused.queue_full sum", lost);
        let mut turn = Turn::new(&mut host, &mut memory, "law");
        let judged = [mild, severe].map(|bounds| turn.overloaded("shop", &bounds).expect("it is there"));
        assert_eq!(judged, expected, "{lost}");
    }
}

#[test]
fn bounds_that_are_never_asked_again_are_forgotten() {
    let (mut host, mut memory) = (Table::new(), Memory::default());
    healthy(&mut host);
    let first = Overload { losing: 0.25, ..Overload::default() };
    let mut ask = |host: &mut Table, bounds: &Overload, lost: f64| {
        host.pass(Duration::from_secs(1));
        host.meter("shop/home refused.queue_full sum", lost);
        Turn::new(host, &mut memory, "law").overloaded("shop", bounds)
    };
    assert_eq!(ask(&mut host, &first, 30.0), Ok(true));
    for n in 1..=255 {
        assert_eq!(ask(&mut host, &Overload { losing: 1e-6 * f64::from(n), ..first }, 30.0), Ok(true));
    }
    assert_eq!(ask(&mut host, &first, 20.0), Ok(true), "between the bound and its half");
    for n in 300..600 {
        assert_eq!(ask(&mut host, &Overload { losing: 1e-6 * f64::from(n), ..first }, 30.0), Ok(true));
    }
    assert_eq!(ask(&mut host, &first, 20.0), Ok(false), "it has to begin anew");
}

/// A class with 100 arrivals, all started and answered at once.
fn healthy(host: &mut Table) {
    for (meter, value) in [("arrived", 100.0), ("started", 100.0)] {
        host.meter(&format!("shop/home {meter} sum"), value);
    }
    host.meter("shop/home response_time count", 100.0);
    host.meter("shop/home response_time p95", 0.05);
}

#[test]
fn each_sign_of_overload_begins_above_its_bound_and_ends_below_half_of_it() {
    // A meter, a value above its bound, one between the bound and its half, one below.
    let signs = [
        // goodput.within is 10 s: 2.5 s and 1.25 s.
        ("response_time p95", 2.6, 1.3, 1.2),
        // 10 % and 5 % of 100.
        ("refused.queue_full sum", 11.0, 6.0, 5.0),
        ("refused.wait_too_long sum", 11.0, 6.0, 5.0),
        ("refused.horizon_full sum", 11.0, 6.0, 5.0),
        ("left sum", 11.0, 6.0, 5.0),
        ("abandoned sum", 11.0, 6.0, 5.0),
        // Half and a quarter unanswered of 100.
        ("response_time count", 49.0, 70.0, 75.0),
    ];
    for (meter, above, between, below) in signs {
        for scope in ["", "shop", "shop/home"] {
            let (mut host, bounds) = (Table::new(), Overload::default());
            healthy(&mut host);
            let mut before = false;
            for (value, expected) in
                [(between, false), (above, true), (between, true), (below, false), (between, false)]
            {
                host.meter(&format!("shop/home {meter}"), value);
                before = bounds.judge(&host, scope, before).unwrap();
                assert_eq!(before, expected, "{scope} {meter} {value}");
            }
        }
    }
    assert!(Overload::default().judge(&Table::new(), "park", false).is_err());
}

/// The page and the law in Python name each refusal that counts as one for load.
#[test]
fn every_refusal_for_load_is_named_where_losing_is_explained() {
    let page = include_str!("../../../../docs/controllers.md");
    let losing = page.lines().find(|line| line.starts_with("| **losing** |")).expect("a row of its own");
    let python = include_str!("../../../../examples/controllers/home_limit.py");
    for refusal in Refusal::ALL.iter().filter(|refusal| refusal.is_overload()) {
        if *refusal != Refusal::IngressRate {
            assert!(losing.contains(&format!("`{}`", refusal.name())), "{}", refusal.name());
            assert!(python.contains(&format!("\"{}\"", refusal.name())), "{}", refusal.name());
        }
    }
}

#[test]
fn refusals_by_a_rate_are_no_sign_of_overload() {
    let mut host = Table::new();
    healthy(&mut host);
    host.meter("shop/home arrived sum", 1000.0);
    host.meter("shop/home refused.ingress_rate sum", 800.0);
    host.meter("shop/home refused.client_rate sum", 100.0);
    host.meter("shop/home refused.no_server sum", 50.0);
    assert_eq!(Overload::default().judge(&host, "shop", false), Ok(false));
    // Of the hundred no rate turned away, eleven are lost.
    host.meter("shop/home left sum", 11.0);
    assert_eq!(Overload::default().judge(&host, "shop", false), Ok(true));
}

#[test]
fn silence_is_no_overload_unless_it_began_as_one_and_nothing_is_answered() {
    let (mut host, bounds) = (Table::new(), Overload::default());
    healthy(&mut host);
    host.meter("shop/home response_time p95", 9.0);
    host.meter("shop/home arrived sum", 19.0);
    assert_eq!(bounds.judge(&host, "shop", false), Ok(false), "too few to judge");
    assert_eq!(bounds.judge(&host, "shop", true), Ok(false), "some are answered");
    host.meter("shop/home response_time count", 0.0);
    assert_eq!(bounds.judge(&host, "shop", true), Ok(false), "nothing is in flight");
    host.meter("shop in_flight min", 300.0);
    assert_eq!(bounds.judge(&host, "shop", true), Ok(true), "it stands still");
    assert_eq!(bounds.judge(&host, "shop", false), Ok(false));
}

#[test]
fn a_compiled_law_runs_each_period() {
    let mut host = Table::new();
    let mut law = Periodic::new("law", Duration::from_secs(5), |turn: &mut Turn<'_>| {
        if turn.overloaded("", &Overload::default())? {
            let peak =
                turn.measure("shop/home", "goodput", Duration::from_secs(86_400), Stat::Max)?.unwrap_or(0.0);
            turn.set(RATE, Value::Rate(0.6 * peak), None)?;
        } else {
            turn.clear(RATE)?;
        }
        Ok(())
    });
    healthy(&mut host);
    host.meter("shop/home goodput max", 200.0);
    let mut rates = Vec::new();
    for p95 in [0.05, 3.0, 2.0, 0.05] {
        host.meter("shop/home response_time p95", p95);
        let next = law.next_tick().unwrap();
        assert!(next <= host.now + Duration::from_secs(5));
        law.tick(&mut host);
        host.pass(Duration::from_secs(5));
        law.tick(&mut host);
        rates.push(host.rate());
    }
    assert_eq!(rates, [Value::None, Value::Rate(120.0), Value::Rate(120.0), Value::None]);
    assert_eq!(law.schedule().turns(), (4, 0));
}
