//! Forms that had to wait: kept where the page can send them again, and led back to where they can be sent where it cannot.

use std::io::Write;

use crate::support::{Bed, PLAIN, eventually, exchange};

/// A form that is not kept does not end the way: its page leads on by GET, to where the form can be sent again.
#[test]
fn who_has_to_send_a_form_again_is_led_on() {
    let doors = "waiting_room.method = \"event\"\nwaiting_room.opens_at = 4102444800\n";
    for (carry, referer, way_on) in [
        ("cookie", "http://app.example/cart?a=1&tidegate_turn=OLD", "/cart?a=1"),
        ("cookie", "http://app.example//evil.example/x", "/.//evil.example/x"),
        ("cookie", "https://evil.example/cart", "/buy?x=1"),
        ("query", "http://app.example/cart", "/buy?x=1&tidegate_turn="),
    ] {
        let bed = Bed::with_application("", PLAIN, &format!("{doors}waiting_room.carry = \"{carry}\"\n"));
        let post = |target: &str, site: &str| {
            let request = format!(
                "POST {target} HTTP/1.1\r\nhost: app.example\r\naccept: text/html\r\nreferer: {referer}\r\n\
                 sec-fetch-site: {site}\r\ncontent-type: application/x-www-form-urlencoded\r\ncontent-length: 3\r\n\r\na=b"
            );
            exchange(&mut bed.connect(), &request)
        };
        let lost = post("/buy?x=1", "cross-site");
        let token = if carry == "query" { lost.field("tidegate-turn").expect("a token") } else { "" };
        let way_on = format!("{way_on}{token}");
        let refresh = lost.field("refresh").unwrap_or_default();
        assert!(refresh.ends_with(&format!("; url={way_on}")), "{referer}: {refresh}");
        let escaped: String = way_on
            .chars()
            .map(|c| if "?=&".contains(c) { format!("&#{};", u32::from(c)) } else { c.into() })
            .collect();
        for said in [format!("data-to=\"{escaped}\""), format!("<noscript><a href=\"{escaped}\">")] {
            assert!(lost.body.contains(&said) && !lost.body.contains("<form"), "{said}: {}", lost.body);
        }
        let mut kept = post("/buy?x=1", "same-origin");
        if carry == "query" {
            // Where a reload keeps place and form alike: it is sent there as it came, so that it is the page of that address.
            let there = kept.field("location").expect("an address").to_owned();
            assert_eq!((kept.status, there.starts_with("/buy?x=1&tidegate_turn=")), (307, true), "{there}");
            kept = post(&there, "same-origin");
            assert!(kept.body.contains("data-stay=\"\""), "{}", kept.body);
        }
        assert_eq!((kept.status, kept.field("refresh")), (503, None), "going elsewhere would lose it");
        assert!(kept.body.contains("method=\"post\" action=\"/buy&#63;x&#61;1"), "{}", kept.body);
    }
}

/// A proxy before us may ask for another host than its client did, and says which that was.
#[test]
fn a_form_s_host_is_the_one_that_a_trusted_peer_was_asked_for() {
    let doors = "waiting_room.method = \"event\"\nwaiting_room.opens_at = 4102444800\n";
    for (listener, said, is_known) in [
        (
            format!("{PLAIN}trusted = \"127.0.0.0/8\"\n"),
            "x-forwarded-host: shop.example, inner.example\r\n",
            true,
        ),
        (
            format!("{PLAIN}trusted = \"127.0.0.0/8\"\n"),
            "forwarded: for=1.1.1.1;host=\"shop.example\"\r\n",
            true,
        ),
        (format!("{PLAIN}trusted = \"127.0.0.0/8\"\n"), "", false),
        (PLAIN.to_owned(), "x-forwarded-host: shop.example\r\n", false),
    ] {
        let bed = Bed::with_application("", &listener, doors);
        let post = |origin: &str| {
            let request = format!(
                "POST /buy HTTP/1.1\r\nhost: app.example\r\n{said}accept: text/html\r\norigin: {origin}\r\n\
                 referer: http://shop.example/cart\r\n\
                 content-type: application/x-www-form-urlencoded\r\ncontent-length: 3\r\n\r\na=b"
            );
            exchange(&mut bed.connect(), &request)
        };
        assert_eq!(post("http://shop.example").body.contains("<form"), is_known, "{said}");
        assert_eq!(post("http://app.example").body.contains("<form"), !is_known, "{said}");
        let way_on = if is_known { "; url=/cart" } else { "; url=/buy" };
        assert!(post("null").field("refresh").unwrap().ends_with(way_on), "{said}");
    }
}

/// A page of the operator's that has no place for a form cannot send it again: its visitor is led on as one whose form was lost.
#[test]
fn a_page_without_a_place_for_forms_keeps_none() {
    let directory = tempfile::tempdir().unwrap();
    let page = directory.path().join("wait.html");
    for (text, keeps) in [("<p>{{left}}</p>", false), ("<p>{{left}}</p>{{form}}", true)] {
        std::fs::write(&page, text).unwrap();
        let application = format!(
            "waiting_room.method = \"event\"\nwaiting_room.opens_at = 4102444800\nwaiting_room.page = {page:?}\n"
        );
        let bed = Bed::with_application("", PLAIN, &application);
        let told = exchange(
            &mut bed.connect(),
            "POST /buy HTTP/1.1\r\nhost: app.example\r\naccept: text/html\r\nreferer: http://app.example/cart\r\n\
             sec-fetch-site: same-origin\r\ncontent-type: application/x-www-form-urlencoded\r\ncontent-length: 3\r\n\r\na=b",
        );
        let refresh = told.field("refresh").unwrap_or_default();
        assert_eq!(
            (told.body.contains("<form"), refresh.ends_with("; url=/cart")),
            (keeps, !keeps),
            "{}",
            told.head
        );
    }
}

/// A page holds several times what was sent, for as long as its visitor takes nothing of it.
#[test]
fn a_form_is_kept_if_there_is_memory_for_its_page() {
    let doors = "waiting_room.method = \"event\"\nwaiting_room.opens_at = 4102444800\n";
    let bed = Bed::with_application("spool.total = \"1MiB\"\n", PLAIN, doors);
    let form = |length: usize| {
        let body = format!("a={}", "~".repeat(length));
        format!(
            "POST /buy HTTP/1.1\r\nhost: app.example\r\naccept: text/html\r\nsec-fetch-site: same-origin\r\n\
             content-type: application/x-www-form-urlencoded\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
    };
    let is_kept = |length| {
        let page = exchange(&mut bed.connect(), &form(length));
        assert_eq!(page.status, 503);
        page.body.contains("<form")
    };
    assert!(is_kept(60_000));
    // Pages of more than a megabyte in all wait for people who take nothing.
    let mut idle = Vec::new();
    eventually("no memory", || {
        let mut client = bed.connect();
        client.write_all(form(60_000).as_bytes()).unwrap();
        idle.push(client);
        !is_kept(60_000)
    });
    assert!(idle.len() < 50 && is_kept(100), "a short one is");
    drop(idle);
    eventually("memory again", || bed.shared.spool().used() == 0 && is_kept(60_000));
}
