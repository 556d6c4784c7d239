//! Tabs of one browser: each has its own request, all have the same cookies.

use serde_json::{Value as Json, json};

use super::{
    Browser, Shop, room,
    support::admin::api,
    visitor::{TURN, browser},
};

const SEARCH: &str = "[application.shop.class.search]\n\
     [[application.shop.rule]]\nclass = \"search\"\npath_prefix = \"/search\"\n";

/// The cookie of promises of the class `search`.
const SEARCH_TURN: &str = "tidegate_turn_search";

/// Tabs on paths of different classes have a promise each, which is kept whatever the other one is told meanwhile.
#[test]
fn tabs_of_different_classes_keep_a_promise_each() {
    let shop = Shop::open(&format!("waiting_room.session.pass = false\n{SEARCH}"));
    let (mut tabs, told) = shop.one_who_waits_long();
    let of_pages = told.header("tidegate-turn").expect("a token").to_owned();
    let told = tabs.get("/search?q=tea");
    assert_eq!(told.status, 503, "there is room for nobody");
    let of_search = told.header("tidegate-turn").expect("a token").to_owned();
    assert_ne!(of_pages, of_search, "a promise is of one class");
    assert!(
        told.text().contains("data-ask=\"/.well-known/tidegate/turn&#63;class&#61;search\""),
        "{}",
        told.text()
    );

    // However often both are loaded again, each has its own.
    for _ in 0..3 {
        for (path, token) in [("/cart", &of_pages), ("/search?q=tea", &of_search)] {
            let told = tabs.get(path);
            assert_eq!((told.status, told.header("tidegate-turn")), (503, Some(token.as_str())), "{path}");
        }
    }
    assert_eq!((&tabs.cookies()[TURN], &tabs.cookies()[SEARCH_TURN]), (&of_pages, &of_search));

    // Each page asks about its own, and comes in by it; the other one's stays.
    let mut time = |ask: &str| {
        let standing: Json = serde_json::from_str(&tabs.get(ask).text()).expect("JSON");
        standing["time"].as_str().expect("a time").to_owned()
    };
    let (pages, search) =
        (time("/.well-known/tidegate/turn"), time("/.well-known/tidegate/turn?class=search"));
    assert!(pages < search, "he asked for it later: {pages}, {search}");
    assert_eq!(tabs.come_back("/cart").status, 200);
    assert_eq!((tabs.cookies().get(TURN), &tabs.cookies()[SEARCH_TURN]), (None, &of_search));
    assert_eq!(tabs.come_back_as("search", "/search?q=tea").status, 200);
    assert!(tabs.cookies().is_empty(), "both are used up: {:?}", tabs.cookies());
    for (class, early) in [("default", 3), ("search", 3)] {
        shop.counted_of(class, "kept", 1.0);
        let counts = &room(shop.admin)["counts"][class];
        assert_eq!(
            (&counts["early"], &counts["forged"], &counts["missed"]),
            (&json!(early), &json!(0), &json!(0)),
            "{class}: {counts}"
        );
    }
    let saw = [shop.saw("GET /cart"), shop.saw("GET /search")].concat();
    assert!(
        saw.len() == 2 && !saw.concat().contains("tidegate"),
        "the application sees nothing of it: {saw:?}"
    );
    shop.gateway.stop_sound();
}

/// One who shows the token of one class in the cookie of another one gains nothing by it.
#[test]
fn a_promise_of_one_class_opens_no_other() {
    let shop = Shop::open(SEARCH);
    let (visitor, _) = shop.one_who_waits_long();
    let token = visitor.cookies()[TURN].clone();
    let cheat = &mut browser(shop.listen);
    for _ in 0..5 {
        cheat.forget();
        let told = cheat.get_with("/search", &format!("cookie: {SEARCH_TURN}={token}\r\n"));
        assert_eq!(told.status, 503);
        assert_ne!(told.header("tidegate-turn"), Some(token.as_str()));
    }
    shop.counted_of("search", "forged", 5.0);
    shop.gateway.stop_sound();
}

#[test]
fn two_tabs_of_a_browser_come_in_by_themselves_each_in_its_class() {
    let shop =
        Shop::open(&format!("waiting_room.slot = \"2s\"\nwaiting_room.session.pass = false\n{SEARCH}"));
    // Everybody waits for the next slot at least.
    let body = "{\"changes\": {\"shop/waiting_room.method\": \"wait\"}}";
    assert_eq!(api(shop.admin, "PATCH", "/api/v1/knobs", body).status, 200);
    let url = format!("http://{}", shop.listen);
    let mut browser = Browser::start();
    browser.open(&format!("{url}/page?x=1#part"));
    let first = browser.open_tab();
    browser.open(&format!("{url}/search#part"));
    browser.until_page("document.body.innerText.includes('the shop')");
    browser.until_page("location.pathname + location.search + location.hash === '/search#part'");
    browser.show_tab(first);
    browser.until_page("document.body.innerText.includes('the shop')");
    browser.until_page("location.pathname + location.search + location.hash === '/page?x=1#part'");
    for class in ["default", "search"] {
        shop.counted_of(class, "kept", 1.0);
        let counts = &room(shop.admin)["counts"][class];
        assert_eq!(counts["forged"], 0, "{class}: {counts}");
    }
    shop.gateway.stop_sound();
}
