//! Tests of the table of knobs: its rows are sound, and values go through text and back.

use proptest::prelude::*;

use super::*;
use crate::knobs::keys;

#[test]
fn every_row_is_sound() {
    for (position, knob) in Knob::ALL.iter().copied().enumerate() {
        let same = Knob::ALL.iter().filter(|k| k.scope() == knob.scope() && k.name() == knob.name()).count();
        assert_eq!(same, 1, "{} stands twice in its scope", knob.name());
        let below = format!("{}.", knob.name());
        assert!(
            !Knob::ALL.iter().any(|k| k.scope() == knob.scope() && k.name().starts_with(&below)),
            "{} is a value and a table of others: a file cannot hold both",
            knob.name()
        );
        assert_eq!(knob.check(knob.default()), Ok(()), "default of {}", knob.name());
        assert_eq!(Knob::find(knob.scope(), knob.name()), Some(knob));
        assert_eq!(Values::defaults(knob.scope()).value(knob), knob.default());
        assert!(position == 0 || Knob::ALL[position - 1].scope() <= knob.scope(), "scopes are contiguous");
        assert!(knob.doc().ends_with('.'), "{} needs a sentence", knob.name());
        assert_eq!(knob.parse(&knob.default().to_string()), Ok(knob.default()), "{} reads back", knob.name());
    }
    table::read_all_defaults();
}

#[test]
fn a_value_out_of_range_is_refused_with_the_range_and_changes_nothing() {
    let mut values = Values::defaults(Scope::Class);
    let fault = values.set(Knob::PRIORITY, Value::Count(8)).unwrap_err();
    assert_eq!(fault.to_string(), "8 is not allowed here: expected a whole number from 0 to 7");
    assert_eq!(values.get(keys::PRIORITY), 3);
}

#[test]
fn a_knob_of_another_scope_is_a_mistake_of_the_program() {
    for (knob, scope) in Knob::ALL.iter().flat_map(|knob| Scope::ALL.iter().map(move |scope| (*knob, *scope)))
    {
        let read = std::panic::catch_unwind(|| Values::defaults(scope).value(knob));
        assert_eq!(read.is_ok(), knob.scope() == scope, "{} of a {}", knob.name(), scope.name());
    }
}

#[test]
fn none_only_where_the_row_is_optional() {
    assert_eq!(Knob::INGRESS_RATE.parse("none"), Ok(Value::None));
    assert!(Knob::WEIGHT.parse("none").is_err());
}

/// As the schema says.
#[test]
fn a_rate_is_written_in_plain_figures() {
    assert_eq!(Knob::INGRESS_RATE.parse("1.5/s"), Ok(Value::Rate(1.5)));
    for text in ["1e3/s", "+5/s", "-5/s", "inf/s", "/s"] {
        assert!(Knob::INGRESS_RATE.parse(text).is_err(), "{text}");
    }
}

proptest! {
    #[test]
    fn what_is_printed_reads_back(index in 0..Knob::ALL.len(), whole in any::<u64>(), real in any::<f64>()) {
        let knob = Knob::ALL[index];
        let value = match knob.kind() {
            Kind::Count { min, max } => Value::Count(min + whole % (max - min + 1)),
            Kind::Size { min, max } => Value::Size(min + whole % (max - min + 1)),
            Kind::Span { min, max } => {
                let room = u64::try_from((max - min).as_nanos()).unwrap();
                Value::Span(min + std::time::Duration::from_nanos(whole % (room + 1)))
            }
            Kind::Rate { min, max } | Kind::Ratio { min, max } => {
                let x = if real.is_finite() { real.abs().clamp(min, max) } else { min };
                if matches!(knob.kind(), Kind::Rate { .. }) { Value::Rate(x) } else { Value::Ratio(x) }
            }
            Kind::Flag => Value::Flag(whole % 2 == 0),
            Kind::Choice(names) => Value::Choice(names[usize::try_from(whole).unwrap() % names.len()]),
        };
        prop_assert_eq!(knob.parse(&value.to_string()), Ok(value));
    }

    #[test]
    fn any_text_is_read_or_refused(index in 0..Knob::ALL.len(), text in ".*") {
        let _ = Knob::ALL[index].parse(&text);
    }
}
