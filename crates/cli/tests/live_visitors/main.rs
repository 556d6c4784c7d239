//! Visitors as they are, before Debian's Tomcat: browsers wait, come in by themselves, shop with a pass and finish.
//!
//! Pictures of what they saw are left in target/screenshots.

#[path = "../live_dashboard/browser.rs"]
mod browser;
#[path = "../support/mod.rs"]
mod support;
#[path = "../live_tomcat/tomcat.rs"]
mod tomcat;

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};

use browser::Browser;
use serde_json::{Value as Json, json};
use support::{
    Gateway, Start,
    admin::{api, await_metrics},
    client::get,
    free_address,
};
use tomcat::Tomcat;

/// Whoever is to be looked at while he waits has to wait so long at least.
const LONG_S: u64 = 30;

/// A gateway before a shop that is known to take two requests a second.
struct Shop {
    gateway: Gateway,
    listen: SocketAddr,
    admin: SocketAddr,
}

impl Shop {
    fn open(server: &str, more: &str) -> Self {
        let (listen, admin) = (free_address(), free_address());
        let configuration = format!(
            "admin = \"{admin}\"\n[[listener]]\naddress = \"{listen}\"\n\
             [application.shop]\nservers = [\"{server}\"]\n\
             capacity.given = \"2/s\"\nin_flight.algorithm = \"fixed\"\nwaiting_room.method = \"fifo\"\n{more}"
        );
        let gateway = Gateway::run(&configuration, &Start::default());
        let shop = Self { gateway, listen, admin };
        await_metrics(admin, "the room has heard of the capacity", |_| !shop.room()["work_per_s"].is_null());
        shop
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.listen)
    }

    fn room(&self) -> Json {
        let answer = api(self.admin, "GET", "/api/v1/applications/shop/waiting-room", "");
        serde_json::from_str(&answer.text()).expect("JSON")
    }

    fn count(&self, what: &str) -> u64 {
        self.room()["counts"]["default"][what].as_u64().expect("a count")
    }

    /// Others come until the next one has to wait so long.
    fn fill(&self, seconds: u64) {
        loop {
            let told = get(self.listen, "/shop.jsp").expect("an answer");
            let wait = told.header("retry-after").and_then(|wait| wait.parse::<u64>().ok());
            if wait.is_some_and(|wait| wait >= seconds) {
                return;
            }
        }
    }
}

/// The time that the page tells, or what it shows if it tells none.
fn told(browser: &mut Browser) -> String {
    let told = browser.value(
        "(() => { const at = document.getElementById('at');
           return at ? [at.dateTime] : [null, location.href, document.documentElement.outerHTML]; })()",
    );
    told[0].as_str().map_or_else(|| panic!("this is no waiting page: {told:#}"), str::to_owned)
}

#[test]
fn browsers_wait_come_in_by_themselves_shop_and_leave() {
    let tomcat = Tomcat::start();
    let shop = Shop::open(&tomcat.url(), "");
    let (page, any) = (shop.url("/shop.jsp"), shop.url("/"));
    // Tomcat compiles the page while nobody waits for it.
    assert_eq!(get(tomcat.address, "/shop.jsp").expect("Tomcat's page").status, 200);
    let [mut one, mut other, mut plain] = [Browser::start(), Browser::start(), Browser::start()];
    for browser in [&mut one, &mut other, &mut plain] {
        browser.size(1000, 760);
        browser.prefer(&[("prefers-color-scheme", "light")]);
    }
    plain.run_scripts(false);
    shop.fill(LONG_S);

    one.open(&page);
    other.open(&page);
    plain.open(&page);
    let mine = told(&mut one);
    let token = one.cookie(&any, "tidegate_turn").expect("the token is in a cookie");
    picture(&mut one, "visitor-waits");
    picture(&mut plain, "visitor-waits-without-scripts");
    assert!(told(&mut other) >= mine, "who came later is not told an earlier time");

    // Reload, another page and back, a second tab: the same place.
    one.reload();
    assert_eq!(told(&mut one), mine, "after a reload");
    one.open(&shop.url("/form"));
    assert_eq!(told(&mut one), mine, "at another page");
    one.back();
    assert_eq!(told(&mut one), mine, "after going back");
    let first = one.open_tab();
    one.open(&shop.url("/shop.jsp?tab=2"));
    assert_eq!(told(&mut one), mine, "in a second tab");
    assert_eq!(one.cookie(&any, "tidegate_turn"), Some(token), "it is one promise");
    one.until_page("document.getElementById('cart')");
    one.show_tab(first);
    shops(&shop, &mut one);
    shops(&shop, &mut other);
    // Without scripts the page does not count, but the field Refresh brings him in.
    shops(&shop, &mut plain);

    // Each core tells its counts once a second.
    await_metrics(shop.admin, "three were let in at their time", |_| shop.count("kept") >= 3);
    let room = shop.room();
    let count = |what: &str| room["counts"]["default"][what].as_u64().expect("a count");
    assert!(count("early") >= 4, "reload, other pages and tabs came too early: {room:#}");
    assert_eq!((count("missed"), count("forged")), (0, 0), "{room:#}");
    for browser in [&mut one, &mut other, &mut plain] {
        // Of a page that is answered 503, or a favicon that Tomcat does not have, the browser complains by itself.
        let complaints: Vec<String> = browser
            .complaints()
            .into_iter()
            .filter(|said| !said.contains("the server responded with a status of"))
            .collect();
        assert!(complaints.is_empty(), "the browser complains: {complaints:#?}");
    }
    shop.gateway.stop_sound();
}

/// A browser that waits comes in by itself, puts two things into its cart, orders, and its visit is over.
fn shops(shop: &Shop, browser: &mut Browser) {
    let url = shop.url("/");
    browser.until_page("document.getElementById('cart')?.innerText === '0'");
    assert!(browser.cookie(&url, "tidegate_pass").is_some(), "he has a pass");
    assert_eq!(browser.cookie(&url, "tidegate_turn"), None, "his token is used up");
    let fields = browser.text("document.getElementById('fields').innerText");
    assert!(
        fields.contains("Mozilla") && !fields.contains("tidegate"),
        "Tomcat sees nothing of it: {fields}"
    );
    for items in ["1", "2"] {
        browser.click("#put");
        browser.until_page(&format!("document.getElementById('cart')?.innerText === '{items}'"));
    }
    browser.click("#order");
    browser.until_page("document.querySelector('h1').innerText === 'Thank you'");
    assert_eq!(browser.text("document.getElementById('cart').innerText"), "2", "nothing was sent twice");
    assert_eq!(browser.cookie(&url, "tidegate_pass"), None, "an order ends the visit");
}

#[test]
fn the_page_is_readable_in_every_language_and_on_a_phone() {
    // Nobody is let in, so there is no application.
    let shop = Shop::open("http://127.0.0.1:9", "waiting_room.closed_message = \"Back at noon.\"\n");
    let change = |changes: &str| {
        let answer = api(shop.admin, "PATCH", "/api/v1/knobs", &format!("{{\"changes\": {{{changes}}}}}"));
        assert_eq!(answer.status, 200, "{}", answer.text());
    };
    change("\"shop/waiting_room.method\": \"wait\", \"shop/waiting_room.fill\": 0.1");
    shop.fill(90);
    let mut browser = Browser::start();
    browser.prefer(&[("prefers-color-scheme", "light")]);
    for (language, direction, width) in [
        ("en", "ltr", 1000),
        ("es", "ltr", 1000),
        ("de-AT", "ltr", 360),
        ("fr", "ltr", 1000),
        ("zh-CN", "ltr", 1000),
        ("hi", "ltr", 1000),
        ("ar", "rtl", 360),
    ] {
        browser.size(width, 640);
        browser.speak(language);
        browser.open(&shop.url("/shop.jsp"));
        let tag = language.split('-').next().unwrap_or_default();
        assert_eq!(browser.text("document.documentElement.lang"), tag);
        assert_eq!(browser.text("getComputedStyle(document.body).direction"), direction, "{language}");
        assert_eq!(browser.value(SAME_GLYPHS), json!([]), "{language}: no font: run scripts/deps test");
        looks_well(&mut browser, &format!("waiting-room-{tag}"));
    }
    browser.size(1000, 640);
    browser.speak("en");
    browser.prefer(&[("prefers-color-scheme", "dark")]);
    browser.open(&shop.url("/shop.jsp"));
    looks_well(&mut browser, "waiting-room-dark");
    assert_eq!(shop.count("direct"), 0, "everybody waits");

    change("\"shop/waiting_room.method\": \"closed\"");
    let mut newcomer = Browser::start();
    newcomer.size(1000, 640);
    newcomer.open(&shop.url("/"));
    newcomer.until("document.body.innerText.includes('Back at noon.')");
    looks_well(&mut newcomer, "waiting-room-closed");
    shop.gateway.stop_sound();
}

/// Pairs of different letters of the heading that are drawn alike: as the box of a letter that no font has.
const SAME_GLYPHS: &str = "(() => {
    const heading = document.querySelector('h1');
    const canvas = Object.assign(document.createElement('canvas'), { width: 64, height: 64 });
    const context = canvas.getContext('2d', { willReadFrequently: true });
    context.font = '32px ' + getComputedStyle(heading).fontFamily;
    const letters = [...new Set(heading.innerText.match(/[\\p{Lo}\\p{Ll}]/gu))];
    const drawn = letters.map((letter) => {
        context.clearRect(0, 0, 64, 64);
        context.fillText(letter, 16, 44);
        return String(context.getImageData(0, 0, 64, 64).data);
    });
    return letters.filter((letter, at) => drawn.indexOf(drawn[at]) !== at);
})()";

/// Leaves a picture, and checks what must hold of every view: contrast, and nothing wider than the window.
fn looks_well(browser: &mut Browser, name: &str) {
    picture(browser, name);
    let faint = browser.value(include_str!("../live_dashboard/looks.js"));
    assert_eq!(faint, json!([]), "{name}: text that is hard to read");
    let wide = browser.value("[document.documentElement.scrollWidth, innerWidth]");
    assert!(wide[0].as_u64() <= wide[1].as_u64(), "{name}: the page is wider than the window: {wide}");
}

fn picture(browser: &mut Browser, name: &str) {
    let file = screenshots().join(format!("{name}.png"));
    browser.picture(&file);
    let picture = std::fs::read(&file).expect("the picture");
    assert!(picture.starts_with(b"\x89PNG") && picture.len() > 4096, "{name}: {} bytes", picture.len());
}

fn screenshots() -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../screenshots");
    std::fs::create_dir_all(&directory).expect("target/screenshots");
    directory
}
