//! What a script sees: its functions, their values and their errors.

use std::time::Duration;

use tidegate_control::{
    controller::{Controller, Level, OnFailure, Standing},
    knobs::{Knob, Value},
};
use tidegate_scripts::{Engine, Limits, LoadError};

use crate::shop::Shop;

fn engine(source: &str) -> Engine {
    Engine::new("law.lua", source, Limits::default()).expect("it compiles")
}

/// Runs a script for ten seconds and gives what it logged.
fn logged(source: &str) -> Vec<String> {
    let mut shop = Shop::new();
    let mut engine = engine(source);
    shop.run(&mut engine, 10);
    shop.lines.into_iter().map(|(_, line)| line).collect()
}

/// What an expression is, after four seconds of 30 requests a second in each class.
fn evaluated(expression: &str) -> String {
    let mut shop = Shop::new();
    let source = format!("every(4, function() log(tostring({expression})) end)");
    shop.run(&mut engine(&source), 5);
    let (_, line) = shop.lines.first().unwrap_or_else(|| panic!("{expression} logs nothing"));
    line.strip_prefix("law.lua:1: ").unwrap_or(line).to_owned()
}

#[test]
fn meters_read_as_numbers_in_their_units() {
    for (expression, expected) in [
        (r#"sum("shop/home", "arrived", "4s")"#, "120"),
        (r#"rate("shop/home", "arrived", 4)"#, "30"),
        (r#"mean("shop/home", "goodput", "4s")"#, "30"),
        (r#"max("shop/home", "goodput", "1d")"#, "30"),
        (r#"max("shop/home", "goodput", "1d", { resolution = "1s" })"#, "30"),
        (r#"min("shop/home", "goodput", "1h")"#, "30"),
        (r#"count("shop/home", "response_time", "4s")"#, "120"),
        (r#"sum("shop/home", "refused.ingress_rate", "4s")"#, "0"),
        (r#"mean("shop", "goodput", "4s")"#, "60"),
        (r#"max("shop", "goodput", "1d")"#, "60"),
        (r#"sum("shop/home", "refused", "4s") == 0"#, "true"),
        (r#"mean("shop/home", "queued", "4s")"#, "nil"),
        (r#"math.abs(p95("shop/home", "response_time", "4s") - 0.05) < 0.0025"#, "true"),
        (r#"math.abs(mean("shop", "response_time", "4s") - 0.05) < 0.0025"#, "true"),
        (r#"p99("shop/home", "response_time", "4s") == p50("shop/home", "response_time", "4s")"#, "true"),
        ("overloaded()", "false"),
        (r#"overloaded("shop")"#, "false"),
        (r#"overloaded("shop/home", { late = 0.004 })"#, "true"),
        (r#"table.concat(classes("shop"), " ")"#, "default home checkout robots"),
        (r#"set_capacity("shop", 120)"#, "120"),
        (r#"set_capacity("shop", "90/min", { lasts = "10s" })"#, "1.5"),
        ("applications()[1]", "shop"),
        ("now()", "1700000005"),
    ] {
        assert_eq!(evaluated(expression), expected, "{expression}");
    }
}

#[test]
fn knobs_are_set_read_and_cleared() {
    let mut shop = Shop::new();
    let mut engine = engine(
        r#"
        local knobs = "shop/home/"
        every("1s", function()
            state.turn = (state.turn or 0) + 1
            if state.turn == 1 then
                assert(get(knobs .. "ingress.rate") == nil)
                assert(set(knobs .. "ingress.rate", 12.5) == 12.5)
                assert(get(knobs .. "ingress.rate") == 12.5)
                assert(set(knobs .. "egress.rate", "90/min") == 1.5)
                assert(set(knobs .. "queue.max", 7.4) == 7)
                assert(set(knobs .. "queue.wait.max", 0.25) == 0.25)
                assert(set(knobs .. "queue.bytes.max", "10MiB") == 10485760)
                assert(set(knobs .. "queue.codel.enabled", true) == true)
                assert(set(knobs .. "queue.discipline", "fifo") == "fifo")
                assert(set(knobs .. "queue.max", -3) == 0)
                assert(set(knobs .. "queue.max", 1e12) == 10000000)
                assert(set(knobs .. "deadline", -1.5) > 0)
                assert(set(knobs .. "deadline", "2s", { lasts = "3s" }) == 2)
            elseif state.turn == 2 then
                assert(get(knobs .. "ingress.rate") == 12.5)
                clear(knobs .. "ingress.rate")
                assert(get(knobs .. "ingress.rate") == nil)
                set(knobs .. "egress.rate", "none")
            end
        end)
        "#,
    );
    shop.run(&mut engine, 2);
    let home = |shop: &Shop, knob: Knob| shop.value(&format!("shop/home/{}", knob.name()));
    assert_eq!(home(&shop, Knob::INGRESS_RATE), Value::Rate(12.5), "{:?}", shop.lines);
    assert_eq!(home(&shop, Knob::EGRESS_RATE), Value::Rate(1.5));
    assert_eq!(home(&shop, Knob::QUEUE_MAX), Value::Count(10_000_000));
    assert_eq!(home(&shop, Knob::QUEUE_WAIT_MAX), Value::Span(Duration::from_millis(250)));
    assert_eq!(home(&shop, Knob::QUEUE_BYTES_MAX), Value::Size(10 << 20));
    assert_eq!(home(&shop, Knob::QUEUE_CODEL), Value::Flag(true));
    assert_eq!(home(&shop, Knob::QUEUE_DISCIPLINE), Value::Choice("fifo"));
    assert_eq!(home(&shop, Knob::DEADLINE), Value::Span(Duration::from_secs(2)));
    shop.run(&mut engine, 1);
    assert_eq!(home(&shop, Knob::INGRESS_RATE), Value::None);
    assert_eq!(home(&shop, Knob::EGRESS_RATE), Value::None);
    shop.run(&mut engine, 2);
    assert_eq!(home(&shop, Knob::DEADLINE), Value::None, "three seconds are over");
    let said: Vec<_> = shop.lines.iter().map(|(_, line)| line.as_str()).collect();
    assert_eq!(
        said,
        [
            "law.lua:16: shop/home/queue.max: 1000000000000 is out of range: 10000000 it is",
            "law.lua:17: shop/home/deadline: -1.5 is out of range: 1ms it is"
        ]
    );
}

#[test]
fn mistakes_are_told_with_their_line_and_change_nothing() {
    for (statement, what) in [
        (r#"set("shop/home/wibble", 1)"#, "law.lua:3: shop/home/wibble: there is no such knob"),
        (
            r#"set("shop/home/ingress.rate", 0/0)"#,
            "law.lua:3: shop/home/ingress.rate: NaN is not allowed here: expected a rate",
        ),
        (r#"set("shop/home/ingress.rate", math.huge)"#, "law.lua:3: shop/home/ingress.rate: inf is not"),
        (r#"set("shop/home/ingress.rate", nil)"#, "law.lua:3: shop/home/ingress.rate: nil is not allowed"),
        (r#"set("shop/home/ingress.rate", "fast")"#, "law.lua:3: shop/home/ingress.rate: \"fast\" is not"),
        (r#"set("shop/home/queue.max", "7/s")"#, "law.lua:3: shop/home/queue.max: \"7/s\" is not allowed"),
        (r#"set("shop/home/queue.max", {})"#, "law.lua:3: shop/home/queue.max: a table is not allowed"),
        (
            r#"set("shop/home/queue.discipline", 3)"#,
            "law.lua:3: shop/home/queue.discipline: 3 is not allowed",
        ),
        (
            r#"set("shop/home/queue.max", 3, { last = "1s" })"#,
            "options: \"last\" is none: there is \"lasts\"",
        ),
        (r#"set(5, 3)"#, "law.lua:3: set: expected a text, not 5"),
        (r#"set("shop/home/queue.max", 3, { lasts = -1 })"#, "lasts: expected a span of time"),
        (r#"get("shop/nowhere/queue.max")"#, "law.lua:3: shop/nowhere/queue.max: there is no such knob"),
        (r#"mean("shop/home", "wibble", "1min")"#, "\"wibble\" is no meter of a class"),
        (r#"mean("shop/nowhere", "goodput", "1min")"#, "there is no class \"nowhere\""),
        (
            r#"mean("shop/home", "refused.wibble", "1min")"#,
            "refused has no part \"wibble\": it has ingress_rate, client_rate,",
        ),
        (r#"mean("shop/home", "goodput.wibble", "1min")"#, "goodput has no part \"wibble\": it is not split"),
        (
            r#"mean("shop/home", "goodput")"#,
            "window: expected a span of time such as \"5s\" or \"1min\", not nil",
        ),
        (r#"p95("shop/home", "goodput", "1min")"#, "p95 of goodput"),
        (r#"mean("shop", "cost", "1min")"#, "\"cost\" is no meter of an application"),
        (r#"mean("shop/home", "goodput", "0s")"#, "window: expected a span of time such as \"5s\""),
        (r#"mean("shop/home", "goodput", "soon")"#, "window: expected a span of time such as \"5s\""),
        (r#"overloaded("park")"#, "there is no application \"park\""),
        (r#"overloaded("shop", { late = -1 })"#, "late: expected a number from 0, not -1"),
        (r#"log("loud", "x")"#, "there is no level \"loud\""),
        (r#"classes("park")"#, "there is no application \"park\""),
        (r#"every("1s", function() end)"#, "law.lua:3: every: belongs at the top of the script"),
        (r#"local x = 3 * mean("shop/home", "queued", "1min")"#, "law.lua:3: attempt to perform arithmetic"),
        (r#"error("no more")"#, "law.lua:3: no more"),
        (r#"error({})"#, "law.lua:1: in the function of this line: "),
    ] {
        let source =
            format!("every(\"1s\", function()\n set(\"shop/home/ingress.rate\", 1)\n {statement}\nend)");
        let mut shop = Shop::new();
        shop.run(&mut engine(&source), 2);
        assert!(shop.has_line(what), "{statement}: {:?}", shop.lines);
        assert_eq!(shop.value("shop/home/ingress.rate"), Value::None, "{statement}");
    }
}

#[test]
fn a_script_with_a_fault_at_its_top_is_stopped_at_once() {
    for (source, what) in [
        ("", "law.lua: nothing to run"),
        ("\n\nwibble()", "law.lua:3: attempt to call a nil value: wibble()"),
        ("every('1s', function() end)\nerror('x')", "law.lua:2: x"),
        ("every('1us', function() end)", "law.lua:1: every: 1µs is not allowed here"),
        ("every('2d', function() end)", "law.lua:1: every: "),
        ("every('1s', 5)", "law.lua:1: every: expected a function, not 5"),
        ("for i = 1, 100 do every('1s', function() end) end", "law.lua:1: every: more than 64 jobs"),
    ] {
        let mut shop = Shop::new();
        let mut engine = engine(source);
        shop.run(&mut engine, 3);
        let Standing::Stopped { why } = engine.status().standing else { panic!("{source:?} runs") };
        assert!(why.contains(what), "{source:?}: {why}");
        assert_eq!((shop.lines.len(), engine.next_tick()), (1, None), "{source:?}: {:?}", shop.lines);
        assert_eq!(shop.lines[0].0, Level::Error);
    }
}

#[test]
fn what_is_no_script_is_refused_with_its_line() {
    let fault = |source: &str| Engine::new("law.lua", source, Limits::default()).expect_err(source);
    let LoadError::Syntax(text) = fault("x = 1\nif then end") else { panic!("another fault") };
    assert!(text.starts_with("law.lua:2:"), "{text}");
    assert!(matches!(fault("set(\"a\", 1, {for=\"1m\"})"), LoadError::Syntax(_)));
    assert!(matches!(fault(&" ".repeat(256 * 1024 + 1)), LoadError::TooLong { .. }));
    // Binary chunks are not verified by the language and would crash it.
    assert!(Engine::new("law.lua", "\u{6}\u{3}\u{0}\u{0}", Limits::default()).is_err());
    let nested = format!("x = {}1{}", "(".repeat(100_000), ")".repeat(100_000));
    assert!(matches!(fault(&nested), LoadError::Syntax(_)));
}

#[test]
fn state_is_kept_and_random_numbers_follow_from_the_seed() {
    let source = r#"
        local calls = 0
        every("1s", function()
            calls += 1
            state.sum = (state.sum or 0) + calls
            total = (total or 0) + 1
            log(calls .. " " .. state.sum .. " " .. total .. " " .. math.random(1e9))
        end)
    "#;
    let run = |seed: u64| {
        let mut shop = Shop::new();
        let limits = Limits { seed, ..Limits::default() };
        shop.run(&mut Engine::new("law.lua", source, limits).expect("it compiles"), 4);
        shop.lines.into_iter().map(|(_, line)| line).collect::<Vec<_>>()
    };
    let lines = run(7);
    assert!(lines[2].starts_with("law.lua:7: 3 6 3 "), "{lines:?}");
    assert_eq!(lines, run(7));
    assert_ne!(lines, run(8));
}

#[test]
fn a_turn_is_the_same_number_of_steps_each_time() {
    let steps = || {
        let mut shop = Shop::new();
        let mut engine = engine(
            r#"every("1s", function()
                local words = {}
                for i = 1, 100 do words[i] = tostring(math.random()):gsub("%d", "x") end
                table.sort(words, function(a, b) return a < b end)
                max("shop/home", "goodput", "1d")
            end)"#,
        );
        shop.run(&mut engine, 5);
        assert!(shop.lines.is_empty(), "{:?}", shop.lines);
        engine.status().steps
    };
    assert!(steps() > 1000);
    assert_eq!(steps(), steps());
}

#[test]
fn jobs_run_each_at_its_period_and_fail_each_for_itself() {
    let lines = logged(
        r#"
        every("1s", function() log("a") end)
        every("3s", function() error("b") end)
        every("4s", function() log("c") end)
        "#,
    );
    // At 1 s the script begins; b fails at 4, 7 and 10 s.
    let of = |what: &str| lines.iter().filter(|line| line.ends_with(what)).count();
    assert_eq!((of(": a"), of(": c")), (9, 2), "{lines:?}");
    assert_eq!(lines.iter().filter(|line| line.contains("law.lua:3: b (failure")).count(), 3, "{lines:?}");
    assert_eq!(lines.last().unwrap(), "law.lua: stopped, its settings stay; its last fault: law.lua:3: b");
}

#[test]
fn a_script_that_takes_anothers_place_gives_back_what_that_has_set() {
    let mut shop = Shop::new();
    let mut first = engine(r#"every("1s", function() set("shop/home/queue.max", 7) end)"#);
    shop.run(&mut first, 3);
    assert_eq!(shop.value("shop/home/queue.max"), Value::Count(7));
    let mut second = engine(r#"every("1s", function() clear("shop/home/queue.max") end)"#)
        .with_memory(first.into_memory());
    shop.run(&mut second, 3);
    assert_eq!(shop.value("shop/home/queue.max"), Value::Count(1000));
}

#[test]
fn a_stopped_script_reverts_when_told_so() {
    let source = r#"every("1s", function()
        state.turn = (state.turn or 0) + 1
        if state.turn > 2 then error("enough") end
        set("shop/home/queue.max", 7)
    end)"#;
    for (on_failure, left) in [(OnFailure::Keep, 7), (OnFailure::Revert, 1000)] {
        let mut shop = Shop::new();
        let limits = Limits { on_failure, ..Limits::default() };
        let mut engine = Engine::new("law.lua", source, limits).expect("it compiles");
        shop.run(&mut engine, 10);
        assert!(shop.has_line("stopped"), "{:?}", shop.lines);
        assert_eq!(shop.value("shop/home/queue.max"), Value::Count(left));
    }
}

#[test]
fn a_host_that_refuses_fails_the_turn() {
    let mut shop = Shop::new();
    shop.refuses = true;
    let mut engine = engine(r#"every("1s", function() set("shop/home/queue.max", 7) end)"#);
    shop.run(&mut engine, 10);
    assert!(
        shop.has_line("law.lua: they contradict one another (failure 3 of 3 in a row)"),
        "{:?}",
        shop.lines
    );
}
