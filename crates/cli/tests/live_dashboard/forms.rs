//! Forms that change something: they keep what was written and the focus, whatever happens meanwhile, and say what
//! became of it.

use super::*;

const ROW: &str = "[data-knob=\"shop/default/queue.max\"]";

/// Opens the form of the knob and writes a value and a reason.
fn fill_in(browser: &mut Browser, value: &str, why: &str) {
    browser.until(&format!("document.querySelector('{ROW} button')"));
    browser.click(&format!("{ROW} button"));
    browser.until(&format!("document.activeElement === document.querySelector('{ROW} form input')"));
    browser.write(value);
    browser.value(&format!("document.querySelector('{ROW} input[required]').focus()"));
    browser.write(why);
}

#[test]
fn a_change_that_met_nobody_is_made_when_the_gateway_is_back() {
    let shop = Shop::open(1);
    let mut browser = Browser::start();
    browser.size(1366, 900);
    browser.open(&format!("http://{}/#/knobs/shop/default", shop.admin));
    fill_in(&mut browser, "25", "sale begins");
    // Fields of a form are as high as what is in them.
    let height = browser.value(&format!("document.querySelector('{ROW} form input').offsetHeight"));
    assert!(height.as_u64().is_some_and(|height| height < 50), "{height}");
    let Shop { gateway, admin, configuration, _servers, _visitors } = shop;
    gateway.stop_sound();
    browser.until("document.querySelector('.link').innerText.includes('not connected since')");
    browser.press("Enter");
    browser.until(&format!("document.querySelector('{ROW} .fault')?.innerText.includes('does not answer')"));

    let gateway = Gateway::run(&configuration, &Start::default());
    browser.until("document.querySelector('.link').innerText === 'live'");
    browser.until(&format!("!document.querySelector('{ROW} .fault')"));
    browser.press("Enter");
    browser.until(&format!("document.querySelector('{ROW} .value').innerText === '25'"));
    let knob = || {
        let answer = get(admin, "/api/v1/knobs?path=shop/default/queue.max").expect("an answer");
        let answer: Json = serde_json::from_slice(&answer.body).expect("JSON");
        answer["knobs"][0].clone()
    };
    assert_eq!((&knob()["value"], &knob()["changed"]["why"]), (&json!("25"), &json!("sale begins")));

    // What holds now may be made to last. A reason is more than a space.
    browser.until(&format!("!document.querySelector('{ROW} form')"));
    fill_in(&mut browser, "25", " ");
    browser.until(&format!("document.querySelector('{ROW} [type=submit]').disabled"));
    browser.click(&format!("{ROW} [type=checkbox]"));
    browser.until(&format!("!document.querySelector('{ROW} [type=submit]').disabled"));
    browser.click(&format!("{ROW} [type=submit]"));
    browser.until(&format!("document.activeElement === document.querySelector('{ROW} input:invalid')"));
    assert_eq!(knob()["changed"]["lasting"], false);
    browser.write("sale goes on");
    browser.press("Enter");
    browser
        .until(&format!("document.querySelector('{ROW} .said').innerText.includes('kept after a restart')"));
    assert_eq!((&knob()["value"], &knob()["changed"]["lasting"]), (&json!("25"), &json!(true)));
    gateway.stop_sound();
}

#[test]
fn a_form_leaves_the_focus_where_it_is_while_other_things_happen() {
    let shop = Shop::open(1);
    let change = |value: u32, why: &str| {
        let body = format!(
            "{{\"changes\":{{\"shop/default/queue.max\":{value}}},\"who\":\"ada\",\"why\":\"{why}\"}}"
        );
        let changed = api(shop.admin, "PATCH", "/api/v1/knobs", &body);
        assert_eq!(changed.status, 200, "{}", changed.text());
    };
    change(12, "the first one");
    let mut browser = Browser::start();
    browser.size(1366, 900);
    browser.open(&format!("http://{}/#/changes", shop.admin));
    browser.until("document.querySelector('.record')?.innerText.includes('the first one')");
    browser.click("[data-change] button");
    browser.until("document.activeElement === document.querySelector('[data-change] input')");
    browser.write("not wanted");
    for _ in 0..2 {
        browser.press("Tab");
    }
    let cancel = "document.activeElement.innerText === 'Cancel'";
    browser.until(cancel);
    change(13, "the second one");
    browser.until("document.querySelector('.record').innerText.includes('the second one')");
    assert_eq!(browser.value(cancel), true);
    assert_eq!(browser.value("document.querySelector('[data-change] input').value"), "not wanted");
    shop.gateway.stop_sound();
}

#[test]
fn the_record_is_that_of_the_process_that_answers() {
    let shop = Shop::open(1);
    let body = "{\"changes\":{\"shop/default/queue.max\":12},\"who\":\"ada\",\"why\":\"before the restart\"}";
    assert_eq!(api(shop.admin, "PATCH", "/api/v1/knobs", body).status, 200);
    let mut browser = Browser::start();
    browser.size(1366, 900);
    browser.open(&format!("http://{}/#/changes", shop.admin));
    browser.until("document.querySelector('.record')?.innerText.includes('before the restart')");
    let Shop { gateway, configuration, _servers, _visitors, .. } = shop;
    gateway.stop_sound();
    // With a state directory of its own, which knows nothing.
    let gateway = Gateway::run(&configuration, &Start::default());
    browser.until("document.querySelector('.link').innerText === 'live'");
    browser.until("document.querySelector('main').innerText.includes('Nothing was changed')");
    gateway.stop_sound();
}
