//! Admission beside the reference, under random operations.

use proptest::prelude::*;

use super::{
    super::grammar::{Driver, Op, START, settings},
    Reference,
};

/// Tells what was done when a test fails: the last settings and what came after.
struct Trail(Vec<Op>);

impl Drop for Trail {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let from = self.0.iter().rposition(|op| matches!(op, Op::Configure(_))).unwrap_or(0);
            let tail = self.0.len().saturating_sub(20).max(from + 1);
            eprintln!("{:?}\n... {:#?}", self.0[from], &self.0[tail..]);
        }
    }
}

/// Runs bytes through both and compares everything that can be seen after each operation.
fn compare(bytes: Vec<u8>) {
    let mut bytes = bytes.into_iter();
    let settings = settings(|| bytes.next().unwrap_or(0));
    let mut driver = Driver::new(&settings, START);
    let mut reference = Reference::new(&settings, START);
    let mut trail = Trail(vec![Op::Configure(Box::new(settings))]);
    while let Some(op) = Op::read(&mut bytes) {
        trail.0.push(op.clone());
        let (seen, expected) = (driver.apply(&op), reference.apply(&op));
        assert_eq!(seen, expected, "admission left, reference right");
    }
    driver.finish();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, max_shrink_iters: 2000, ..ProptestConfig::default() })]

    #[test]
    fn admission_decides_as_the_reference(bytes in prop::collection::vec(any::<u8>(), 40..1500)) {
        compare(bytes);
    }
}
