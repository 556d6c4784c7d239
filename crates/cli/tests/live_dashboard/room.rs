//! Capacity and waiting room on the page: what is shown of them, and what is changed there.

use std::{process::Command, sync::Mutex, thread, time::Duration};

use serde_json::Value as Json;

use crate::{
    Visitors,
    browser::Browser,
    review,
    support::{
        Gateway, Start,
        admin::api,
        client::get,
        free_address,
        origin::{Origin, respond},
    },
};

/// The last change of the record.
fn recorded(admin: std::net::SocketAddr) -> Json {
    let answer = get(admin, "/api/v1/knobs/changes?limit=1").expect("an answer").text();
    let answer: Json = serde_json::from_str(&answer).expect("JSON");
    answer["changes"][0].clone()
}

/// Changes a knob that is open to be changed in the list, by keyboard.
fn change(browser: &mut Browser, knob: &str, value: &str, why: &str) {
    let row = format!("[data-knob=\"{knob}\"]");
    browser.until(&format!("document.querySelector('{row} button')"));
    browser.value(&format!("document.querySelector('{row} button').focus()"));
    browser.press("Enter");
    browser.until(&format!("document.activeElement?.closest('{row} form')"));
    let is_list = browser.value("document.activeElement.tagName === 'SELECT'");
    if is_list == Json::Bool(true) {
        browser.value(&format!(
            "{{ const list = document.activeElement; list.value = '{value}'; list.dispatchEvent(new Event('change', {{ bubbles: true }})); }}"
        ));
    } else {
        browser.write(value);
    }
    browser.value(&format!("document.querySelector('{row} input[placeholder]').focus()"));
    browser.write(why);
    browser.press("Enter");
    browser.until(&format!("document.querySelector('{row} .value').innerText.startsWith('{value}')"));
}

#[test]
fn who_waits_is_shown_and_doors_are_changed_where_they_are_seen() {
    let origin = Origin::hello();
    let (listen, admin) = (free_address(), free_address());
    let configuration = format!(
        "admin = \"{admin}\"\n[[listener]]\naddress = \"{listen}\"\n\
         [application.shop]\nservers = [\"{}\"]\nin_flight.algorithm = \"fixed\"\n\
         capacity.given = \"20/s\"\nwaiting_room.method = \"fifo\"\n",
        origin.url()
    );
    let gateway = Gateway::run(&configuration, &Start::default());
    // Half as many again as can be served: the wait grows, and those who were told a time come back at it.
    let people = "people;poisson:30/s;header=accept: text/html;follow=yes".to_owned();
    let _visitors = Visitors::start(listen, &[people]);
    let mut browser = Browser::start();
    browser.size(1366, 900);
    browser.prefer(&[("prefers-color-scheme", "light")]);
    browser.open(&format!("http://{admin}/"));
    browser.until("document.querySelector('[data-stage=room] .bars path')");
    browser.until("document.querySelector('[data-stage=room]').innerText.includes('told a time')");
    browser.until("/all [0-9]|[0-9] %/.test(document.querySelector('[data-stage=room]').innerText)");
    browser.until("document.querySelector('[data-stage=capacity] [role=meter]')");
    browser.until("document.querySelector('[data-stage=capacity]').innerText.includes('given by hand')");
    browser.until("document.querySelector('.sentence').innerText.includes('in the waiting room')");
    // Enough of them that there is something to see.
    let waiting = "Number(document.querySelector('a[href=\"#/app/shop/room\"] small')?.innerText)";
    browser.until(&format!("{waiting} >= 40"));
    browser.until("document.querySelectorAll('.chart .plot svg').length >= 4");
    review(&mut browser, "room-path");

    browser.click("[data-stage=room] h3 a");
    browser.until("document.querySelector('.ahead .bars path')");
    let said = browser.text("document.querySelector('.ahead svg').getAttribute('aria-label')");
    assert!(said.contains("to come in the next"), "{said}");
    browser.until("document.querySelectorAll('.chart .plot svg').length === 3");
    review(&mut browser, "room");
    change(&mut browser, "shop/waiting_room.method", "closed", "stocktaking");
    browser.until("document.querySelector('.tiles').innerText.includes('for doors to open')");
    let change_of_doors = recorded(admin);
    assert_eq!(
        (&change_of_doors["who"], &change_of_doors["why"], &change_of_doors["changes"][0]["to"]),
        (&"dashboard".into(), &"stocktaking".into(), &"closed".into())
    );
    browser.size(360, 740);
    browser.prefer(&[("prefers-color-scheme", "dark"), ("prefers-reduced-motion", "reduce")]);
    review(&mut browser, "phone-room");

    browser.click("a[href='#/app/shop/capacity']");
    change(&mut browser, "shop/capacity.given", "25/s", "a server more");
    browser
        .until("document.querySelector('.log')?.innerText.includes('20 req/s → 25 req/s: somebody gave it')");
    review(&mut browser, "phone-capacity");
    browser.click("a[href='#/app/shop']");
    browser.until("document.querySelector('[data-stage=room]').innerText.includes('doors closed')");
    review(&mut browser, "phone-room-path");
    // Switched off, its stage says so, and its view how to have one.
    browser.size(1366, 900);
    browser.click("a[href='#/app/shop/room']");
    change(&mut browser, "shop/waiting_room.method", "off", "no longer needed");
    browser.until("document.querySelector('.empty')?.innerText.includes('There is none')");
    review(&mut browser, "room-off");
    browser.click("a[href='#/app/shop']");
    browser.until("document.querySelector('[data-stage=room].off')?.innerText.includes('no waiting room')");
    let complaints: Vec<String> =
        browser.complaints().into_iter().filter(|said| !said.contains("status of 400")).collect();
    assert!(complaints.is_empty(), "the browser complains: {complaints:#?}");
    gateway.stop_sound();
}

/// Tickets and boxes go on sale in the year 2100, the archive is closed.
const GROUPS: &str = "[application.shop.class.tickets]\n\
     waiting_room = { method = \"event\", opens_at = 4102444800, order = \"in_order\", share = 0.4 }\n\
     [application.shop.class.boxes]\nwaiting_room.group = \"tickets\"\n\
     [application.shop.class.archive]\n\
     waiting_room = { method = \"closed\", closed_message = \"Back in <January>.\" }\n\
     [[application.shop.rule]]\nclass = \"tickets\"\npath_prefix = \"/tickets\"\n\
     [[application.shop.rule]]\nclass = \"boxes\"\npath_prefix = \"/boxes\"\n\
     [[application.shop.rule]]\nclass = \"archive\"\npath_prefix = \"/archive\"\n";

#[test]
fn groups_are_shown_with_their_doors_and_who_waits_before_them() {
    let origin = Origin::hello();
    let (listen, admin) = (free_address(), free_address());
    let without = format!(
        "admin = \"{admin}\"\n[[listener]]\naddress = \"{listen}\"\n\
         [application.shop]\nservers = [\"{}\"]\nin_flight.algorithm = \"fixed\"\n\
         capacity.given = \"20/s\"\nwaiting_room.method = \"fifo\"\n",
        origin.url()
    );
    let gateway = Gateway::run(&format!("{without}{GROUPS}"), &Start::default());
    let people = |path: &str| format!("{path};poisson:5/s;path=/{path};header=accept: text/html;follow=yes");
    let _visitors = Visitors::start(listen, &[people("tickets"), people("boxes")]);
    let mut browser = Browser::start();
    browser.size(1366, 900);
    browser.prefer(&[("prefers-color-scheme", "light")]);
    browser.open(&format!("http://{admin}/#/app/shop/room"));
    browser.until("document.querySelector('#groups-title')?.innerText === '2 groups of classes'");
    let row = |name: &str| {
        format!(
            "[...document.querySelectorAll('tbody tr')].find((row) => row.querySelector('a').innerText === '{name}')"
        )
    };
    let tickets = row("tickets");
    for part in ["tickets with boxes", "doors open at a time (in ", "at 2100-01-01", "40 %"] {
        browser.until(&format!("{tickets}.innerText.includes('{part}')"));
    }
    // Both classes come, nobody is let in, and all have a lot.
    let waiting = format!("{tickets}.cells[3].innerText");
    browser.until(&format!("Number({waiting}.match(/^([0-9]+) with a lot\\s*\\1$/)?.[1]) >= 10"));
    assert_eq!(browser.text(&format!("{tickets}.cells[5].innerText")), "0");
    let closed = browser.text(&format!("{}.innerText", row("archive")));
    for part in ["doors closed “Back in <January>.”", "with everybody", "for doors to open"] {
        assert!(closed.contains(part), "{part}: {closed}");
    }
    review(&mut browser, "room-groups");
    browser.size(360, 740);
    browser.prefer(&[("prefers-color-scheme", "dark"), ("prefers-reduced-motion", "reduce")]);
    browser.value("document.querySelector('#groups-title').scrollIntoView(); 0");
    review(&mut browser, "phone-room-groups");

    let top = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["top", "--once", "--admin", &admin.to_string()])
        .output()
        .expect("run top");
    let top = String::from_utf8_lossy(&top.stdout).into_owned();
    assert!(top.contains("group archive (closed): 0 wait · doors are closed: Back in <January>."), "{top}");
    assert!(
        top.contains("group tickets (event): ") && top.contains(" · 40 % of each slot · 0.0/s let in"),
        "{top}"
    );

    // Its knobs are a key away; the doors are opened there.
    browser.size(1366, 900);
    browser.prefer(&[("prefers-color-scheme", "dark")]);
    browser.value(&format!("{tickets}.querySelector('a').focus(); 0"));
    browser.press("Enter");
    browser.until("location.hash === '#/knobs/shop/tickets'");
    let opened = api(
        admin,
        "PATCH",
        "/api/v1/knobs",
        "{\"changes\":{\"shop/tickets/waiting_room.opens_at\":1},\"why\":\"the sale begins\"}",
    );
    assert_eq!(opened.status, 200, "{}", opened.text());
    browser.open(&format!("http://{admin}/#/app/shop/room"));
    browser.until(&format!("{tickets}.innerText.includes('doors have opened')"));
    browser.until(&format!("Number({tickets}.cells[5].innerText) > 0"));
    browser.until(&format!("!{waiting}.includes('lot')"));
    review(&mut browser, "dark-room-groups");
    // Where there is none, nothing is said of them.
    gateway.write_configuration(&without);
    browser.until("document.querySelector('.tiles') && !document.querySelector('#groups-title')");
    let complaints = browser.complaints();
    assert!(complaints.is_empty(), "the browser complains: {complaints:#?}");
    gateway.stop_sound();
}

#[test]
fn a_capacity_that_is_found_is_shown_with_why_it_moved_and_searched_anew() {
    // One request at a time, 10 ms each: 100 a second.
    let turn = Mutex::new(());
    let origin = Origin::start(move |_, stream| {
        let turn = turn.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        thread::sleep(Duration::from_millis(10));
        drop(turn);
        respond(stream, 200, b"done\n")
    });
    let (listen, admin) = (free_address(), free_address());
    let configuration = format!(
        "admin = \"{admin}\"\n[[listener]]\naddress = \"{listen}\"\n\
         [application.shop]\nservers = [\"{}\"]\nin_flight = {{ algorithm = \"knee_track\", max = 12 }}\n",
        origin.url()
    );
    let gateway = Gateway::run(&configuration, &Start::default());
    let mut browser = Browser::start();
    browser.size(1366, 900);
    browser.prefer(&[("prefers-color-scheme", "dark")]);
    browser.open(&format!("http://{admin}/#/app/shop/capacity"));
    browser.until("document.querySelector('.tiles')?.innerText.includes('not known')");
    browser.until("document.querySelector('.knob')");
    review(&mut browser, "capacity-none");
    let _visitors = Visitors::start(listen, &["people;closed:24".to_owned()]);
    browser.until("document.querySelector('.log')?.innerText.includes('a search has found it')");
    browser.until("document.querySelector('.tiles').innerText.includes('found by KneeTrack')");
    browser.until("document.querySelector('.chart .plot svg')");
    browser.until("document.querySelector('.legend').innerText.includes('capacity') && !document.querySelector('.legend b').innerText.includes('–')");
    review(&mut browser, "capacity");
    browser.click(".between button");
    browser.until("document.activeElement === document.querySelector('#why-search')");
    browser.write("a new release");
    browser.press("Enter");
    browser.until("document.querySelector('.log').innerText.includes('somebody had it searched anew')");
    let searched = recorded(admin);
    assert_eq!(
        (&searched["who"], &searched["why"], &searched["changes"][0]["what"], &searched["revertible"]),
        (&"dashboard".into(), &"a new release".into(), &"search".into(), &false.into())
    );
    let told = api(
        admin,
        "POST",
        "/api/v1/applications/shop/capacity",
        "{\"per_s\": \"80/s\", \"valid_for\": \"1h\", \"who\": \"estimator\", \"why\": \"measured\"}",
    );
    assert_eq!(told.status, 200, "{}", told.text());
    browser.until("document.querySelector('.tiles').innerText.includes('told by somebody')");
    // Who did it stands with the events and in the record, which offers no revert of it.
    browser.click("nav a[href='#/changes']");
    browser.until("document.querySelector('.log')?.innerText.includes('estimator told a capacity of shop: 80/s for 1h')");
    browser.until(
        "document.querySelector('.record')?.innerText.includes('had the capacity of shop searched anew')",
    );
    assert_eq!(browser.value("document.querySelectorAll('[data-change] button').length"), 0);
    review(&mut browser, "changes-of-capacity");
    let complaints = browser.complaints();
    assert!(complaints.is_empty(), "the browser complains: {complaints:#?}");
    gateway.stop_sound();
}
