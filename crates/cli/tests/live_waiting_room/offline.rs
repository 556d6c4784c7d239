//! A page that waits where there is no network when its time comes.

use super::{Browser, Shop};

/// A laptop that wakes after its time has no network yet: the page stays, with what was entered, in place of the browser's own page
/// of errors.
#[test]
fn a_page_whose_time_comes_without_a_network_goes_on_once_there_is_one() {
    let shop = Shop::open("waiting_room.poll = \"1s\"\nwaiting_room.session.pass = false\n");
    let [mut reader, mut buyer] = [Browser::start(), Browser::start()];
    let url = format!("http://{}/", shop.listen);
    buyer.open(&url);
    // Nobody comes in while a slow machine loads its pages.
    shop.opens_in(3600);
    reader.open(&url);
    buyer.value(
        "document.body.innerHTML = '<form method=post action=\"/buy\"><input name=item value=7></form>';
         document.forms[0].submit()",
    );
    buyer.until_page("document.querySelector('#form > button')");
    shop.opens_in(15);
    let left = "document.getElementById('left').textContent";
    for browser in [&mut reader, &mut buyer] {
        browser.until(&format!("{left}.startsWith('0:')"));
        browser.connect(false);
    }
    for browser in [&mut reader, &mut buyer] {
        browser.until(&format!("{left} === '0:00'"));
        // The page looks four times a second.
        browser.value("new Promise(done => setTimeout(done, 1000))");
        browser.connect(true);
        browser.until_page("document.body.innerText.includes('the shop')");
    }
    let saw = shop.saw("POST /buy");
    assert!(saw.len() == 1 && saw[0].ends_with("item=7"), "{saw:?}");
    shop.gateway.stop_sound();
}
