//! The six lines of the paper's law, as a script and in Rust, give the same settings in sequence.

use std::time::Duration;

use proptest::prelude::*;
use tidegate_control::{
    archive::Stat,
    controller::{Controller, Overload, Periodic, Turn},
    knobs::Value,
};
use tidegate_scripts::{Engine, Limits};

use crate::shop::Shop;

/// MASTH's law (fig. 2b), as documentation shows it.
const HOME_LIMIT: &str = include_str!("../../../../examples/controllers/home-limit.lua");

fn compiled() -> impl Controller {
    const DAY: Duration = Duration::from_secs(86_400);
    Periodic::new("home-limit", Duration::from_secs(5), |turn: &mut Turn<'_>| {
        if turn.overloaded("", &Overload::default())? {
            let peak = turn.measure("shop/home", "goodput", DAY, Stat::Max)?.unwrap_or(0.0);
            turn.set("shop/home/ingress.rate", Value::Rate(0.6 * peak), None)?;
        } else {
            turn.clear("shop/home/ingress.rate")?;
        }
        Ok(())
    })
}

fn settings(controller: &mut dyn Controller, loads: &[(u64, u64, u64)]) -> Vec<(Duration, String, Value)> {
    let mut shop = Shop::new();
    for (default, home, seconds) in loads {
        shop.arrivals = [*default, *home, 0, 0];
        shop.run(controller, *seconds);
    }
    assert!(shop.lines.is_empty(), "{:?}", shop.lines);
    shop.applied.into_iter().map(|(at, change)| (at, change.path, change.value)).collect()
}

#[test]
fn the_law_limits_home_while_overloaded_and_lets_go() {
    let mut shop = Shop::new();
    let mut law = Engine::new("home-limit.lua", HOME_LIMIT, Limits::default()).expect("it compiles");
    shop.run(&mut law, 60);
    assert!(shop.applied.is_empty(), "nothing is overloaded: {:?}", shop.applied);
    // Three times what is left beside the other class.
    shop.arrivals = [30, 210, 0, 0];
    shop.run(&mut law, 30);
    let (_, first) = &shop.applied[0];
    assert_eq!(first.path, "shop/home/ingress.rate");
    assert_eq!(first.why, "home-limit.lua:4");
    let Value::Rate(rate) = first.value else { panic!("{first:?}") };
    // The largest mean over five seconds that Home has been answered at, times 0.6.
    assert!((0.6 * 30.0..=0.6 * 90.0).contains(&rate), "{rate}");
    shop.arrivals = [10, 10, 0, 0];
    shop.run(&mut law, 60);
    let (_, last) = shop.applied.last().expect("it was limited");
    assert_eq!(last.value, Value::None, "{:?}", shop.applied);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn script_and_rust_set_the_same_in_sequence(
        // Where nobody has been answered there is no rate to set, and both are told so.
        loads in prop::collection::vec((0_u64..150, 1_u64..300, 5_u64..60), 1..6),
    ) {
        let mut script = Engine::new("home-limit.lua", HOME_LIMIT, Limits::default()).expect("it compiles");
        let by_script = settings(&mut script, &loads);
        let in_rust = settings(&mut compiled(), &loads);
        prop_assert_eq!(by_script, in_rust);
    }
}
