//! Groups of classes: doors, draws and messages of their own, switched while the gateway runs.

use std::time::{Duration, SystemTime};

use serde_json::{Value as Json, json};

use super::{
    Shop, await_capacity, room,
    support::{
        Gateway, Start,
        admin::{api, await_metrics},
    },
    visitor::{Visitor, browser, program},
};

/// Everybody comes as he comes; tickets and boxes wait for doors of theirs, news for others.
const GROUPS: &str = "waiting_room.closed_message = \"Back at noon.\"\n\
     [application.shop.class.tickets]\n\
     waiting_room = { method = \"event\", order = \"in_order\", share = 0.4, closed_message = \"Sold out.\" }\n\
     [application.shop.class.boxes]\nwaiting_room.group = \"tickets\"\n\
     [application.shop.class.news]\nwaiting_room.method = \"event\"\n\
     [[application.shop.rule]]\nclass = \"tickets\"\npath_prefix = \"/tickets\"\n\
     [[application.shop.rule]]\nclass = \"boxes\"\npath_prefix = \"/boxes\"\n\
     [[application.shop.rule]]\nclass = \"news\"\npath_prefix = \"/news\"\n";

fn set(shop: &Shop, changes: &Json) -> (u16, String) {
    let changed = api(shop.admin, "PATCH", "/api/v1/knobs", &json!({ "changes": changes }).to_string());
    (changed.status, changed.text())
}

/// Who gets a lot of a class.
fn with_lot(shop: &Shop, class: &str) -> (Visitor, String) {
    let mut visitor = browser(shop.listen);
    let told = visitor.get(&format!("/{class}"));
    assert_eq!((told.status, told.header("tidegate-reason")), (503, Some("waiting_room")), "{class}");
    (visitor, told.header("tidegate-turn").expect("a token").to_owned())
}

/// People with a lot, by group.
fn lots(shop: &Shop) -> Vec<(String, u64)> {
    let groups = room(shop.admin)["groups"].as_array().expect("groups").clone();
    let lots = |group: &Json| {
        (group["class"].as_str().expect("a class").to_owned(), group["lots"].as_u64().expect("a number"))
    };
    groups.iter().map(lots).collect()
}

fn named(lots: &[(&str, u64)]) -> Vec<(String, u64)> {
    lots.iter().map(|(class, lots)| ((*class).to_owned(), *lots)).collect()
}

#[test]
fn groups_have_doors_draws_and_messages_of_their_own() {
    let shop = Shop::open(GROUPS);
    let (mut stalls, _) = with_lot(&shop, "tickets");
    let (mut balcony, _) = with_lot(&shop, "boxes");
    let (mut reader, of_news) = with_lot(&shop, "news");
    let mut customer = browser(shop.listen);
    assert_eq!(customer.get("/").status, 200, "everybody else has no doors");
    assert!(customer.cookies().contains_key("tidegate_pass"));
    assert_eq!(customer.get("/again").status, 200, "a pass");
    assert_eq!(customer.get("/tickets").status, 503, "which does not open the doors of others");
    assert_eq!(lots(&shop), named(&[("tickets", 3), ("news", 1)]));
    let group = room(shop.admin)["groups"][0].clone();
    assert_eq!(
        (&group["classes"], &group["method"], &group["opens_at"]),
        (&json!(["tickets", "boxes"]), &json!("event"), &Json::Null),
        "{group}"
    );

    // Their time is known now, and has come: both classes of the group are drawn, the others wait on.
    assert_eq!(set(&shop, &json!({ "shop/tickets/waiting_room.opens_at": 1 })).0, 200);
    assert_eq!(lots(&shop), named(&[("tickets", 0), ("news", 1)]));
    for (visitor, class) in [(&mut stalls, "tickets"), (&mut balcony, "boxes")] {
        assert_eq!(visitor.come_back_as(class, &format!("/{class}")).status, 200, "{class}");
        shop.counted_of(class, "kept", 1.0);
    }
    let told = reader.get("/news");
    assert_eq!((told.status, told.header("tidegate-turn")), (503, Some(of_news.as_str())), "the same lot");

    // Closed, one group with its own words and another with those of all; nobody else is.
    let closed =
        json!({ "shop/tickets/waiting_room.method": "closed", "shop/news/waiting_room.method": "closed" });
    assert_eq!(set(&shop, &closed).0, 200);
    for (path, words) in [("/tickets", "Sold out."), ("/boxes", "Sold out."), ("/news", "Back at noon.")] {
        let told = program(shop.listen).get(path);
        assert_eq!((told.status, told.header("tidegate-reason")), (503, Some("room_closed")), "{path}");
        let document: Json = serde_json::from_str(&told.text()).expect("JSON");
        assert_eq!(document["detail"], words, "{path}");
    }
    let told = browser(shop.listen).get("/");
    assert_ne!(told.header("tidegate-reason"), Some("room_closed"), "{}", told.text());
    for path in ["/tickets", "/boxes", "/"] {
        assert_eq!(balcony.get(path).status, 200, "{path}: who is in goes on");
    }

    // The doors are the group's: a class of it has none to set.
    let (status, text) = set(&shop, &json!({ "shop/boxes/waiting_room.method": "fifo" }));
    assert_eq!(status, 400, "{text}");
    assert!(text.contains("set shop/tickets/waiting_room.method"), "{text}");

    // Who waits for doors that are not needed any more comes in.
    assert_eq!(set(&shop, &json!({ "shop/news/waiting_room.method": "fifo" })).0, 200);
    assert_eq!(reader.come_back_as("news", "/news").status, 200);
    shop.gateway.stop_sound();
}

#[test]
fn lots_of_a_group_outlive_a_kill_and_a_configuration_in_which_classes_come_in_another_order() {
    let mut shop = Shop::open(GROUPS);
    let (mut balcony, of_boxes) = with_lot(&shop, "boxes");
    let (mut reader, of_news) = with_lot(&shop, "news");
    // What was promised is written each second.
    let told = SystemTime::now() + Duration::from_secs(1);
    let state = shop.gateway.directory.path().join("state/waiting-room-shop.state");
    let written = || state.metadata().and_then(|file| file.modified()).is_ok_and(|written| written > told);
    await_metrics(shop.admin, "the lots are written", |_| written());
    let directory = shop.gateway.kill();
    // Other classes come before them now, and have doors that are open.
    let first = "[application.shop.class.archive]\nwaiting_room.method = \"fifo\"\n\
                 [application.shop.class.attic]\nwaiting_room.method = \"fifo\"\n\
                 [application.shop.class.tickets]";
    let configuration = shop.configuration.replace("[application.shop.class.tickets]", first);
    shop.gateway = Gateway::run_in(directory, &configuration, &Start::default());
    shop.gateway.log.await_line("promises of the waiting room are taken over", 1);
    await_capacity(shop.admin);
    assert_eq!(lots(&shop), named(&[("archive", 0), ("attic", 0), ("tickets", 1), ("news", 1)]));
    for (visitor, path, token) in [(&mut balcony, "/boxes", &of_boxes), (&mut reader, "/news", &of_news)] {
        let told = visitor.get(path);
        assert_eq!((told.status, told.header("tidegate-turn")), (503, Some(token.as_str())), "{path}");
    }
    assert_eq!(set(&shop, &json!({ "shop/news/waiting_room.opens_at": 1 })).0, 200);
    assert_eq!(reader.come_back_as("news", "/news").status, 200);
    assert_eq!(balcony.get("/boxes").header("tidegate-turn"), Some(of_boxes.as_str()), "theirs are not open");
    shop.gateway.stop_sound();
}
