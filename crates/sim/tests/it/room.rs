//! The waiting room over a run: what is kept for a group of classes.

use std::time::Duration;

use tidegate_control::{
    ClassId,
    archive::Stat,
    controller::{Host, Measure},
};
use tidegate_sim::{
    Application, Arrivals, Behaviour, Class, Clients, Draw, Gateway, Population, RunResult, Scenario, Server,
    run,
};

const EVERYBODY: usize = 0;
const TICKETS: usize = 1;
const BOXES: usize = 2;

/// A server of a hundred requests a second, half of which are kept for tickets, before which so many come a second of each
/// class for a minute; boxes are of one group with tickets, or not.
fn a_minute(boxes_are_of_the_group: bool, per_s: [f64; 3]) -> (RunResult, Gateway) {
    let class = |name: &str, group: Option<ClassId>| Class {
        name: name.to_owned(),
        group,
        work: Draw::Constant(0.01),
        good_within: Duration::from_secs(5),
        ..Class::default()
    };
    let group = boxes_are_of_the_group.then_some(ClassId(1));
    let clients = (0..).zip(per_s).map(|(id, per_s)| Clients {
        name: "visitors".to_owned(),
        population: Population::Open {
            arrivals: Arrivals::Poisson { per_s },
            mix: vec![(ClassId(id), 1.0)],
            clients: 1000,
        },
        behaviour: Behaviour { timeout: Some(Duration::from_secs(30)), retry: None },
    });
    let scenario = Scenario {
        duration: Duration::from_secs(60),
        applications: vec![Application {
            classes: vec![class("default", None), class("tickets", None), class("boxes", group)],
            server: Server { threads: Some(1), ..Server::default() },
            clients: clients.collect(),
            ..Application::default()
        }],
        ..Scenario::default()
    };
    let mut gateway = Gateway::of(&scenario.applications[0]);
    for (knob, value) in [
        ("in_flight.algorithm", "fixed"),
        ("in_flight.limit", "2"),
        ("capacity.given", "100/s"),
        ("waiting_room.method", "fifo"),
        ("waiting_room.session.pass", "false"),
        ("tickets/waiting_room.share", "0.5"),
    ] {
        gateway.set(&format!("shop/{knob}"), value).expect("there is such a knob");
    }
    (run(&scenario, &mut gateway), gateway)
}

/// A law sees the room as it does in the gateway, where who is told a time has an answer, too.
#[test]
fn meters_tell_of_the_room() {
    let (result, gateway) = a_minute(true, [300.0, 5.0, 40.0]);
    let read = |meter, stat| {
        let measure = Measure { scope: "shop", meter, window: Duration::from_secs(60), stat, of: None };
        Host::measure(&gateway, &measure).expect("a meter").expect("it is measured")
    };
    let total = result.total();
    assert!(total.told > 10_000, "{}", total.told);
    assert_eq!(read("room.promised", Stat::Sum) as u64, total.told);
    assert_eq!(read("responses.5xx", Stat::Sum) as u64, total.told + total.refused_total());
    assert!(read("room_waiting", Stat::Max) > 1_000.0 && read("room_next", Stat::Max) > 10_000.0);
}

#[test]
fn a_share_is_the_groups_over_a_run() {
    let served = |result: &RunResult, class: usize| {
        let counts = &result.classes[class];
        counts.good as f64 / counts.offered as f64
    };
    // The group asks for less than its half, mostly for boxes, while everybody else comes three times over.
    let asked = [300.0, 5.0, 40.0];
    let (together, _) = a_minute(true, asked);
    for class in [TICKETS, BOXES] {
        assert!(served(&together, class) > 0.95, "{class}: {:.3}", served(&together, class));
    }
    assert!(served(&together, EVERYBODY) < 0.4, "{:.3}", served(&together, EVERYBODY));
    // Alone, boxes wait with everybody else.
    let (alone, _) = a_minute(false, asked);
    assert!(served(&alone, TICKETS) > 0.95, "{:.3}", served(&alone, TICKETS));
    assert!(served(&alone, BOXES) < 0.5, "{:.3}", served(&alone, BOXES));

    // Each comes more than there is room for: half of what is done is the group's, and of the rest it has its part.
    let (crowded, _) = a_minute(true, [200.0, 100.0, 100.0]);
    let replied: Vec<u64> = crowded.classes.iter().map(|class| class.replied).collect();
    let all = replied.iter().sum::<u64>() as f64;
    let of_group = (replied[TICKETS] + replied[BOXES]) as f64 / all;
    assert!(all > 0.9 * 6000.0 && of_group > 0.49, "{of_group:.3} of {all}");
    assert!(replied[EVERYBODY] > 0 && replied[BOXES] > 1000, "{replied:?}");
}
