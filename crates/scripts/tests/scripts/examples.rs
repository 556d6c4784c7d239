//! The scripts of examples/controllers and of docs/controllers.md run, and do what they say.

use std::{fs, path::Path};

use tidegate_control::{controller::Standing, knobs::Value};
use tidegate_scripts::{Engine, Limits};

use crate::shop::Shop;

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

fn example(name: &str) -> Engine {
    let source = fs::read_to_string(root().join("examples/controllers").join(name)).expect("it is there");
    Engine::new(name, &source, Limits::default()).unwrap_or_else(|error| panic!("{error}"))
}

/// Good answers a second with `arrivals`, mean of the last minute of three.
fn goodput(shop: &mut Shop, controller: &mut Engine, arrivals: [u64; 4]) -> u64 {
    shop.arrivals = arrivals;
    shop.run(controller, 120);
    let mut good = 0;
    for _ in 0..60 {
        shop.run(controller, 1);
        good += shop.good;
    }
    assert_eq!(controller.status().standing, Standing::Running, "{:?}", shop.lines);
    good / 60
}

#[test]
fn every_script_of_the_directory_runs_through_quiet_flood_and_quiet() {
    let mut names = Vec::new();
    for entry in fs::read_dir(root().join("examples/controllers")).expect("it is there").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if !name.ends_with(".lua") {
            // One in another language, which speaks HTTP.
            continue;
        }
        let (mut shop, mut engine) = (Shop::new(), example(&name));
        for arrivals in [[10, 30, 10, 10], [30, 200, 20, 50], [5, 15, 5, 5], [0; 4]] {
            goodput(&mut shop, &mut engine, arrivals);
        }
        let status = engine.status();
        assert_eq!(status.failures, 0, "{name}: {:?}", shop.lines);
        assert_eq!(status.held, 0, "{name} holds on to something: {:?}", shop.applied);
        names.push(name);
    }
    names.sort();
    assert_eq!(names, ["aimd-rate.lua", "home-hold.lua", "home-limit.lua", "robots-last.lua"]);
}

#[test]
fn without_a_controller_the_shop_collapses_and_with_one_it_does_not() {
    let flood = [30, 220, 0, 0];
    let mut idle =
        Engine::new("idle.lua", "every('1h', function() end)", Limits::default()).expect("it compiles");
    assert_eq!(goodput(&mut Shop::new(), &mut idle, flood), 0, "everybody is served in vain");
    for name in ["home-hold.lua", "aimd-rate.lua", "home-limit.lua"] {
        let (mut shop, mut engine) = (Shop::new(), example(name));
        goodput(&mut shop, &mut engine, [40, 50, 0, 0]);
        let good = goodput(&mut shop, &mut engine, flood);
        assert!(good >= 60, "{name}: {good} of 100: {:?}", shop.applied);
        println!("{name}: {good} good answers of 100 a second at 2.5 times capacity");
    }
}

#[test]
fn robots_wait_when_buyers_do() {
    let (mut shop, mut engine) = (Shop::new(), example("robots-last.lua"));
    goodput(&mut shop, &mut engine, [0, 0, 20, 40]);
    assert_eq!(shop.value("shop/robots/egress.rate"), Value::None);
    shop.arrivals = [0, 0, 80, 60];
    shop.run(&mut engine, 30);
    let Value::Rate(rate) = shop.value("shop/robots/egress.rate") else { panic!("{:?}", shop.lines) };
    assert!((4.0..=6.0).contains(&rate), "a tenth of about 40/s: {rate}");
    assert!(shop.has_line("checkout takes"), "{:?}", shop.lines);
}

#[test]
fn the_scripts_of_the_documentation_run() {
    let page = fs::read_to_string(root().join("docs/controllers.md")).expect("it is there");
    let scripts: Vec<&str> =
        page.split("```lua\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(scripts.len() >= 3, "found only {} scripts: does the search still work?", scripts.len());
    let home_limit =
        fs::read_to_string(root().join("examples/controllers/home-limit.lua")).expect("it is there");
    assert!(home_limit.ends_with(scripts[0]), "the first is the example of that name");
    for script in scripts {
        let mut shop = Shop::new();
        let mut engine =
            Engine::new("docs.lua", script, Limits::default()).unwrap_or_else(|error| panic!("{error}"));
        for arrivals in [[10, 30, 10, 10], [30, 200, 20, 50], [0; 4]] {
            goodput(&mut shop, &mut engine, arrivals);
        }
        assert_eq!(engine.status().failures, 0, "{script}: {:?}", shop.lines);
    }
}
