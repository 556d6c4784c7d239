//! Tests of the `Priority` field.

use proptest::prelude::*;

use super::*;

fn said(lines: &[&str]) -> (u8, bool) {
    let header = PriorityHeader::parse(lines.iter().map(|line| line.as_bytes()));
    (header.urgency, header.incremental)
}

#[test]
fn known_members_count_and_everything_else_is_ignored() {
    for (lines, expected) in [
        (&[][..], (3, false)),
        (&[""], (3, false)),
        (&["u=0"], (0, false)),
        (&["u=7, i"], (7, true)),
        (&["i=?0, u=5"], (5, false)),
        // RFC 9218, section 4: out of range, of another type, or unknown.
        (&["u=8, i"], (3, true)),
        (&["u=-1"], (3, false)),
        (&["u=256"], (3, false)),
        (&["u=1.0"], (3, false)),
        (&["u=\"1\", i=1"], (3, false)),
        (&["u=(1 2), i"], (3, true)),
        (&["x=1, u=2;p=3, y;z"], (2, false)),
        // Of a member given twice the last counts, though it be one to ignore.
        (&["u=1, u=2"], (2, false)),
        (&["u=1, u=9"], (3, false)),
        // Lines are one dictionary.
        (&["u=1", "i"], (1, true)),
        // No dictionary says nothing at all.
        (&["u=1, "], (3, false)),
        (&["u=1", "=="], (3, false)),
        (&["U=1"], (3, false)),
        (&["u=1,,i"], (3, false)),
        (&["u=é"], (3, false)),
    ] {
        assert_eq!(said(lines), expected, "{lines:?}");
    }
}

#[test]
fn steps_go_up_for_the_urgent() {
    let steps: Vec<_> =
        (0..8).map(|urgency| PriorityHeader { urgency, ..Default::default() }.steps()).collect();
    assert_eq!(steps, [3, 2, 1, 0, -1, -2, -3, -4]);
}

proptest! {
    #[test]
    fn what_is_written_reads_back(urgency in 0..8_u8, incremental in any::<bool>()) {
        let line = format!("u={urgency}, i=?{}", u8::from(incremental));
        prop_assert_eq!(said(&[&line]), (urgency, incremental));
    }
}

#[test]
fn fuzz_priority_header() {
    bolero::check!().with_iterations(20_000).for_each(|bytes: &[u8]| {
        let header = PriorityHeader::parse(bytes.split(|byte| *byte == b'\n'));
        assert!(header.urgency <= 7 && (-4..=3).contains(&header.steps()));
    });
}
