//! What only watches or is off, on the path of a request.

use std::fmt::Write as _;

use super::{Browser, Shop, api, review};

impl Shop {
    /// Changes knobs, given as the members of a JSON object.
    fn change(&self, knobs: &str) {
        let answer = api(self.admin, "PATCH", "/api/v1/knobs", &format!("{{\"changes\":{{{knobs}}}}}"));
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
}

/// Whether the chart of what is in flight has lines of these names, the last of them dashed or none.
fn in_flight_lines(names: &[&str], is_dashed: bool) -> String {
    let chart = "[...document.querySelectorAll('.chart')].find((one) => one.querySelector('h3').innerText === 'In flight against the limit')";
    let names = serde_json::json!(names);
    format!(
        "(() => {{ const chart = {chart};
           const names = [...chart.querySelectorAll('.legend li')].map((one) => one.childNodes[1]?.data.trim()).slice(0, -1);
           const dashes = [...chart.querySelectorAll('path.line:not(.alone)')].map((one) => one.hasAttribute('stroke-dasharray'));
           return names.join() === {names}.join() && dashes.length === names.length
               && dashes.filter(Boolean).length === {} && dashes.at(-1) === {is_dashed}; }})()",
        u8::from(is_dashed)
    )
}

#[test]
fn what_only_watches_or_is_off_is_marked_at_its_stage() {
    let shop = Shop::open(3);
    let mut browser = Browser::start();
    browser.size(1366, 900);
    browser.prefer(&[("prefers-color-scheme", "light")]);
    browser.open(&format!("http://{}/", shop.admin));
    browser.until("document.querySelector('[data-stage=queue] .losses')?.innerText.includes('queue full')");
    assert_eq!(browser.value("document.querySelectorAll('.standings').length"), 0, "everything acts");
    browser.until(&in_flight_lines(&["in flight", "limit"], false));

    // As much is in flight as comes, several times what the limit would let in; the class default would have nobody wait.
    shop.change(
        r#""shop/in_flight.mode":"watch","shop/in_flight.limit":1,"shop/default/queue.max":0,
           "shop/class1/ingress.rate":"20/s","shop/class1/ingress.mode":"watch","shop/class2/queue.mode":"off""#,
    );
    let badges = |stage: &str, names: &str| {
        format!(
            "[...document.querySelectorAll('[data-stage={stage}] .standings a')].map((one) => one.innerText).join() === '{names}'"
        )
    };
    browser.until(&badges("class", "Rate limit: watch only"));
    browser.until(&badges("queue", "Queue bounds: off (class class2)"));
    browser.until(&badges("limit", "Limit: watch only"));
    browser.until(
        "document.querySelector('.headline').innerText.includes('the path shows what only watches or is off')",
    );
    // What each would do, beside it; and nobody is refused any more.
    browser.until(
        "/^would refuse [1-9].* req.s$/.test(document.querySelector('[data-stage=class] .would').innerText)",
    );
    browser.until(
        "/^[1-9][0-9]* would wait$/.test(document.querySelector('[data-stage=limit] .would').innerText)",
    );
    browser.until(
        "document.querySelector('[data-stage=queue] .losses .watched')?.innerText.includes('would be refused: queue full')",
    );
    browser.until("!document.querySelector('.losses .refused')");
    // The sentence that explains it is there for the pointer and for everybody else.
    let sentence = "holds nobody back. Who would wait for it";
    for place in [
        "document.querySelector('[data-stage=limit] .standings a').title",
        "document.querySelector('.reasons').innerText",
    ] {
        let told = browser.text(place);
        assert!(told.contains(sentence) && told.contains("in_flight.mode = watch"), "{told}");
    }
    // Its chart draws a limit that does not act as one.
    browser.until(&in_flight_lines(&["in flight", "limit, only watches:"], true));
    review(&mut browser, "modes");
    // Its knob is a key away.
    browser.value("document.querySelector('[data-stage=queue] .standings a').focus(); 0");
    browser.press("Enter");
    browser.until("location.hash === '#/knobs/shop/class2'");
    browser.until(
        "document.querySelector('[data-knob=\"shop/class2/queue.mode\"] .value')?.innerText === 'off'",
    );

    shop.change(
        r#""shop/mode":"off","shop/in_flight.mode":null,"shop/class1/ingress.mode":null,"shop/class2/queue.mode":null"#,
    );
    browser.open(&format!("http://{}/#/app/shop", shop.admin));
    for stage in ["queue", "limit"] {
        browser
            .until(&format!("document.querySelector('[data-stage={stage}]')?.classList.contains('passed')"));
    }
    browser.until("document.querySelector('.headline').innerText.includes('Mode off')");
    // Streams go by the mode of all; nobody is refused there, and nothing is said of who would be.
    browser.until(&badges("servers", "Long streams: off"));
    let knob = browser.text("document.querySelector('[data-stage=servers] .standings a').hash");
    assert_eq!(knob, "#/knobs/shop");
    assert_eq!(
        browser.value(
            "['queue', 'servers'].map((stage) => getComputedStyle(document.querySelector(`[data-stage=${stage}] .card`)).borderLeftStyle)"
        ),
        serde_json::json!(["dashed", "solid"]),
        "what is passed by looks so"
    );
    assert_eq!(browser.value("document.querySelector('[data-stage=limit] .gauge')"), serde_json::Value::Null);
    browser.until(&in_flight_lines(&["in flight"], false));
    review(&mut browser, "modes-off");
    let complaints = browser.complaints();
    assert!(complaints.is_empty(), "the browser complains: {complaints:#?}");
    shop.gateway.stop_sound();
}

#[test]
fn on_a_phone_half_of_sixty_classes_that_watch_are_one_mark() {
    let shop = Shop::open(60);
    let mut browser = Browser::start();
    browser.size(360, 740);
    browser.prefer(&[("prefers-color-scheme", "dark"), ("prefers-reduced-motion", "reduce")]);
    browser.open(&format!("http://{}/", shop.admin));
    let mut knobs = String::from(r#""shop/client.rate":"1000/s","shop/client.mode":"watch""#);
    for class in 1..=30 {
        let _ = write!(knobs, r#","shop/class{class}/queue.mode":"watch""#);
    }
    shop.change(&knobs);
    browser.until(
        "document.querySelector('[data-stage=queue] .standings')?.innerText.startsWith('Queue bounds: watch only (30 of 60 classes)')",
    );
    browser
        .until("document.querySelector('[data-stage=queue] .would')?.innerText.startsWith('would refuse ')");
    browser.until("document.querySelector('[data-stage=class] .standings a').innerText === 'Rate of one client: watch only'");
    let told = browser.text("document.querySelector('[data-stage=queue] .standings a').title");
    assert!(told.contains("and 25 more"), "{told}");
    browser.value("document.querySelector('[data-stage=queue]').scrollIntoView(); 0");
    review(&mut browser, "phone-modes");
    let elements = browser.value("document.querySelectorAll('*').length");
    assert!(elements.as_u64().is_some_and(|count| count < 3000), "{elements} elements");
    shop.gateway.stop_sound();
}
