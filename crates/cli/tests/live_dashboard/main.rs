//! The dashboard in a browser: what it shows of a gateway under load, what it changes, and for whom it works.
//!
//! Pictures of each view are left in target/screenshots.

#[path = "../support/mod.rs"]
mod support;

mod browser;
mod forms;
mod modes;
mod room;

use std::{
    fmt::Write as _,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use browser::Browser;
use serde_json::{Value as Json, json};
use support::{
    Gateway, Start,
    admin::api,
    client::{Client, get},
    free_address,
    origin::{Origin, respond},
};

/// What a page takes at the servers of these tests.
const WORK: Duration = Duration::from_millis(20);

/// Visitors of the application, until dropped: `tidegate load`.
struct Visitors(Child);

impl Visitors {
    fn start(listen: SocketAddr, classes: &[String]) -> Self {
        let mut command = Command::new("timeout");
        command.args([
            "300",
            env!("CARGO_BIN_EXE_tidegate"),
            "load",
            &format!("http://{listen}/"),
            "-d",
            "290s",
        ]);
        command.args(["--timeout", "2s"]);
        for class in classes {
            command.args(["--class", class]);
        }
        Self(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("start the visitors"))
    }
}

impl Drop for Visitors {
    fn drop(&mut self) {
        // The command `timeout` hands it on.
        support::signal(self.0.id(), "TERM");
        let _ = self.0.wait();
    }
}

/// A shop whose servers take four requests at once and are asked for more.
struct Shop {
    gateway: Gateway,
    admin: SocketAddr,
    configuration: String,
    _servers: [Origin; 2],
    _visitors: Visitors,
}

impl Shop {
    fn open(classes: usize) -> Self {
        let server = || {
            Origin::start(|_, stream| {
                thread::sleep(WORK);
                respond(stream, 200, b"a page\n")
            })
        };
        let servers = [server(), server()];
        let (listen, admin) = (free_address(), free_address());
        let mut configuration = format!(
            "admin = \"{admin}\"\nstate_directory = \"state\"\n[[listener]]\naddress = \"{listen}\"\n\
             [application.shop]\nservers = [{{ name = \"one\", url = \"{}\" }}, {{ name = \"two\", url = \"{}\" }}]\n\
             in_flight = {{ algorithm = \"fixed\", limit = 4 }}\n\
             [application.shop.class.default]\nqueue.max = 10\n",
            servers[0].url(),
            servers[1].url()
        );
        for class in 1..classes {
            let _ = write!(
                configuration,
                "[application.shop.class.class{class}]\npriority = {}\nqueue.max = {}\n",
                class % 7,
                5 + class
            );
        }
        for class in 1..classes {
            let _ = write!(
                configuration,
                "[[application.shop.rule]]\nclass = \"class{class}\"\npath = \"/{class}\"\n"
            );
        }
        // Some 200 a second can be served.
        let each = 400 / classes.min(20);
        let visitors: Vec<String> = (0..classes.min(20))
            .map(|class| format!("class{class};poisson:{each}/s;path=/{class}"))
            .collect();
        let gateway = Gateway::run(&configuration, &Start::default());
        let visitors = Visitors::start(listen, &visitors);
        Self { gateway, admin, configuration, _servers: servers, _visitors: visitors }
    }

    fn knob(&self, path: &str) -> Json {
        let answer = get(self.admin, &format!("/api/v1/knobs?path={path}")).expect("an answer");
        let answer: Json = serde_json::from_slice(&answer.body).expect("JSON");
        answer["knobs"][0].clone()
    }
}

#[test]
fn it_shows_a_gateway_under_load_and_changes_it() {
    let shop = Shop::open(3);
    let url = format!("http://{}/", shop.admin);
    let mut browser = Browser::start();
    browser.size(1366, 900);
    browser.prefer(&[("prefers-color-scheme", "light")]);
    browser.open(&url);

    // The path of a request, with what is refused at the queue and why.
    browser.until("document.querySelector('[data-stage=queue] .losses')?.innerText.includes('queue full')");
    browser.until("document.querySelector('.link').innerText === 'live'");
    browser.until("document.querySelector('.chip.warn')?.innerText.includes('refused')");
    for stage in ["listener", "tls", "class", "room", "queue", "limit", "capacity", "servers", "response"] {
        let shown = browser.text(&format!("document.querySelector('[data-stage={stage}]').innerText"));
        assert!(shown.lines().count() > 2, "{stage}: {shown}");
    }
    // Three charts have lines; a fixed limit finds no capacity, and the fourth says so or shows what is started.
    browser.until("document.querySelectorAll('.chart .plot svg').length >= 3");
    browser.until("document.querySelector('.chart .legend b').innerText.includes('req/s')");
    review(&mut browser, "application");
    read_a_chart_by_keys(&mut browser);

    browser.click("a[href='#/app/shop/classes']");
    browser.until("document.querySelectorAll('tbody tr').length === 3");
    // Sorted by a click, and the other way by another.
    browser.click("thead th:first-child button");
    browser.until("document.querySelector('tbody th').innerText === 'class1'");
    browser.click("thead th:first-child button");
    browser.until("document.querySelector('tbody th').innerText === 'default'");
    review(&mut browser, "classes");

    browser.click("a[href='#/app/shop/servers']");
    browser.until("document.querySelectorAll('tbody .chip.good').length === 2");
    browser.click("button[aria-label='Drain two']");
    browser.until("document.querySelector('tbody tr:last-child .chip').innerText === 'draining'");
    let servers = get(shop.admin, "/api/v1/applications/shop/servers").expect("an answer").text();
    assert!(servers.contains("\"draining\":true"), "{servers}");
    review(&mut browser, "servers");
    browser.click("button[aria-label='Bring back two']");
    browser.until("document.querySelectorAll('tbody .chip.good').length === 2");

    change_a_knob(&shop, &mut browser);
    take_it_back(&shop, &mut browser);

    browser.click("nav a[href='#/gateway']");
    browser.until("document.querySelector('h1').innerText === 'Gateway'");
    review(&mut browser, "gateway");
    browser.click("nav a[href='#/controllers']");
    browser.until("document.querySelector('.empty pre')");
    review(&mut browser, "controllers");

    // The value that was tried and is not allowed is answered 400, which the browser notes by itself.
    let complaints: Vec<String> =
        browser.complaints().into_iter().filter(|said| !said.contains("status of 400")).collect();
    assert!(complaints.is_empty(), "the browser complains: {complaints:#?}");
    let outside: Vec<String> = browser
        .requests()
        .into_iter()
        .filter(|address| !address.starts_with(&url) && !address.starts_with("data:image/svg+xml,"))
        .collect();
    assert!(outside.is_empty(), "requests elsewhere: {outside:?}");
    shop.gateway.stop_sound();
}

/// What a pointer reads off a chart, keys do, too, and it is said.
fn read_a_chart_by_keys(browser: &mut Browser) {
    browser.value("document.querySelector('.chart .plot').focus(); 0");
    let (said, legend) = (
        "document.activeElement.getAttribute('aria-valuetext')",
        "document.activeElement.closest('.chart').querySelector('.legend li:last-child').innerText",
    );
    browser.until(&format!("{legend}.startsWith('at ')"));
    let latest = browser.text(legend);
    browser.press("ArrowLeft");
    browser.until(&format!("{legend}.startsWith('at ') && {legend} !== '{latest}'"));
    let (said, legend) = (browser.text(said), browser.text(legend));
    let time = legend.trim_start_matches("at ");
    // Of a moment for which there is nothing yet that is said, too.
    assert!(said.starts_with(&format!("{time}: arrive ")) && said.contains(", goodput "), "{said}");
    browser.value("document.activeElement.blur(); 0");
}

/// By keyboard alone, with a mistake first.
fn change_a_knob(shop: &Shop, browser: &mut Browser) {
    browser.click("a[href='#/app/shop/classes']");
    browser.click("tbody a[href='#/knobs/shop/default']");
    let row = "[data-knob=\"shop/default/queue.max\"]";
    browser.until(&format!("document.querySelector('{row} .value')?.innerText === '10'"));
    browser.value(&format!("document.querySelector('{row} button').focus()"));
    browser.press("Enter");
    browser.until(&format!("document.activeElement === document.querySelector('{row} form input')"));
    browser.write("many");
    browser.until(&format!("document.querySelector('{row} .fault')?.innerText.includes('whole number')"));
    let explained = browser
        .value("document.getElementById(document.activeElement.getAttribute('aria-describedby')).innerText");
    assert!(explained.as_str().is_some_and(|text| text.contains("whole number")), "{explained}");
    review(browser, "knob-at-fault");
    assert_eq!(shop.knob("shop/default/queue.max")["value"], "10", "only tried");
    browser.write("25");
    browser.until(&format!("!document.querySelector('{row} .fault')"));
    // Over ½ and ×2 to the reason, and Enter sends the form.
    for _ in 0..3 {
        browser.press("Tab");
    }
    browser.write("sale begins");
    browser.press("Enter");
    browser.until(&format!("document.querySelector('{row} .value').innerText === '25'"));
    browser.until(&format!("document.activeElement === document.querySelector('{row} .knob-head button')"));
    let knob = shop.knob("shop/default/queue.max");
    assert_eq!((&knob["value"], &knob["drift"]), (&json!("25"), &json!(true)), "{knob}");
    assert_eq!(knob["changed"]["why"], "sale begins", "{knob}");
    assert_eq!(knob["changed"]["who"], "dashboard", "{knob}");
    browser.until(&format!("document.querySelector('{row} .drift-note')?.innerText.includes('sale begins')"));
    review(browser, "knobs");
}

fn take_it_back(shop: &Shop, browser: &mut Browser) {
    browser.click("nav a[href='#/changes']");
    browser.until("document.querySelector('.log')?.innerText.includes('sale begins')");
    browser.click("[data-change] button");
    browser.until("document.activeElement === document.querySelector('[data-change] input')");
    browser.write("sale is over");
    browser.press("Enter");
    browser.until("document.querySelector('[data-change] p').innerText.includes('sale is over')");
    assert_eq!(shop.knob("shop/default/queue.max")["value"], "10");
    // What somebody else changes appears by itself.
    let changed = api(
        shop.admin,
        "PATCH",
        "/api/v1/knobs",
        "{\"changes\":{\"shop/default/queue.max\":12},\"who\":\"ada\",\"why\":\"by hand\"}",
    );
    assert_eq!(changed.status, 200, "{}", changed.text());
    browser.until("document.querySelector('.log').innerText.includes('by hand')");
    browser.until("document.querySelector('.record').innerText.includes('by hand')");
    review(browser, "changes");
}

#[test]
fn sixty_classes_are_shown_on_a_phone_and_in_the_dark() {
    let shop = Shop::open(60);
    let mut browser = Browser::start();
    browser.size(360, 740);
    browser.prefer(&[("prefers-color-scheme", "dark"), ("prefers-reduced-motion", "reduce")]);
    browser.open(&format!("http://{}/", shop.admin));
    browser.until("document.querySelector('[data-stage=response] dd')?.innerText.includes('req/s')");
    browser.until("document.querySelectorAll('.chart .plot svg').length >= 2");
    review(&mut browser, "phone-application");
    // A class may have a long name, and what it is chosen by does not widen the page.
    let width = browser.value(
        "[...document.querySelectorAll('.inline')].find(label => label.innerText.includes('of the class'))
           .querySelector('select').append(new Option('partners'.repeat(8))),
         document.querySelector('h1').append('partners'.repeat(8)), document.documentElement.scrollWidth",
    );
    assert_eq!(width, 360);
    browser.click("a[href='#/app/shop/classes']");
    browser.until("document.querySelectorAll('tbody tr').length === 60");
    rows_stand_still_where_somebody_is(&mut browser);
    // Long lists are drawn anew each second. What that takes is told; what must hold on any machine is that every
    // update is drawn and nothing piles up.
    browser.value(
        "window.updates = 0; new MutationObserver(() => { window.updates += 1; document.body.dataset.updates = window.updates; })
           .observe(document.querySelector('tbody'), { subtree: true, childList: true, characterData: true }); 0",
    );
    let before = browser.busy();
    browser.until("window.updates >= 5");
    let took = (browser.busy() - before) * 1e3 / 5.0;
    eprintln!("60 classes: {took:.1} ms of the page's thread an update");
    let elements = browser.value("document.querySelectorAll('*').length");
    assert!(elements.as_u64().is_some_and(|count| count < 3000), "{elements} elements");
    review(&mut browser, "phone-classes");
    browser.value("document.querySelector('input[type=search]').focus()");
    browser.write("class5");
    browser.until("document.querySelectorAll('tbody tr').length === 11");

    browser.click("nav a[href='#/knobs']");
    browser.until("document.querySelectorAll('.knob').length > 10");
    review(&mut browser, "phone-knobs");
    // Another place is chosen where the focus is, and read alone: of all of them every time would be half a megabyte.
    browser.value(
        "const chosen = document.querySelector('.filters select'); chosen.focus(); chosen.value = 'shop/class7';
         chosen.dispatchEvent(new Event('change', { bubbles: true })); 0",
    );
    browser.until("document.querySelector('[data-knob=\"shop/class7/queue.max\"]')");
    browser.until("document.activeElement.matches('.filters select')");
    let is_of_a_place = |url: &String| url.contains("below=false") || url.contains("changed=true");
    let mut read = browser.requests();
    read.retain(|url| url.contains("/knobs?") && !is_of_a_place(url));
    assert!(read.is_empty(), "{read:?}");
    browser.click("nav a[href='#/changes']");
    browser.until("document.querySelector('h1').innerText === 'Events and changes'");
    review(&mut browser, "phone-changes");
    browser.size(1366, 900);
    browser.click("a[href='#/app/shop/classes'], nav a[href='#/app/shop']");
    browser.until("document.querySelector('[data-stage=response] dd')?.innerText.includes('req/s')");
    browser.until("document.querySelectorAll('.chart .plot svg').length >= 2");
    review(&mut browser, "dark-application");
    browser.click("a[href='#/app/shop/classes']");
    browser.until("document.querySelectorAll('tbody tr').length === 60");
    review(&mut browser, "dark-classes");

    // The switch beats the system, and is remembered.
    let paper = "getComputedStyle(document.body).backgroundColor";
    let dark = browser.text(paper);
    browser.value("const theme = document.querySelector('.theme select'); theme.value = 'light'; theme.dispatchEvent(new Event('change', { bubbles: true }))");
    browser.until("document.documentElement.dataset.theme === 'light'");
    let light = browser.text(paper);
    assert_ne!(dark, light);
    browser.open(&format!("http://{}/#/gateway", shop.admin));
    browser.until("document.documentElement.dataset.theme === 'light'");
    let complaints = browser.complaints();
    assert!(complaints.is_empty(), "the browser complains: {complaints:#?}");
    shop.gateway.stop_sound();
}

/// The focus stays on a class for longer than it takes until rows are put in order again.
fn rows_stand_still_where_somebody_is(browser: &mut Browser) {
    let order = "[...document.querySelectorAll('tbody th')].map((one) => one.innerText).join()";
    // A new view takes the focus when it is there.
    browser.until("document.activeElement === document.querySelector('main')");
    browser.value("document.querySelector('tbody tr:nth-child(3) a').focus(); 0");
    let before = browser.text(order);
    browser.value("window.held = performance.now(); 0");
    browser.until("performance.now() - window.held > 12000");
    assert_eq!(
        browser.value("document.activeElement.closest('tr')?.rowIndex"),
        3,
        "the focus stays where it was"
    );
    assert_eq!(browser.text(order), before, "rows change places under the focus");
    browser.value("document.activeElement.blur(); 0");
}

#[test]
fn everything_is_reached_by_keyboard() {
    let shop = Shop::open(3);
    let mut browser = Browser::start();
    browser.size(1366, 900);
    // In the order of their names, which stays; classes change places with their load.
    for (view, is_there) in [
        ("servers", "document.querySelectorAll('tbody tr').length === 2"),
        ("capacity", "document.querySelectorAll('.knob button').length === 4"),
    ] {
        browser.open("about:blank");
        browser.open(&format!("http://{}/#/app/shop/{view}", shop.admin));
        browser.until(is_there);
        tab_through(&mut browser);
    }

    // Over what is the same on every view, straight to the content.
    browser.open("about:blank");
    browser.open(&format!("http://{}/#/gateway", shop.admin));
    browser.until("document.querySelector('h1')?.innerText === 'Gateway'");
    browser.press("Tab");
    browser.press("Enter");
    browser.until("document.activeElement === document.querySelector('main')");
    shop.gateway.stop_sound();
}

/// Each control is reached once, seen, and on the screen.
fn tab_through(browser: &mut Browser) {
    let wanted = browser.value(
        "[...document.querySelectorAll('a[href], button, select, input, summary, [tabindex=\"0\"]')].length",
    );
    let wanted = usize::try_from(wanted.as_u64().expect("a count")).expect("a small count");
    let mut reached = Vec::new();
    for _ in 0..wanted {
        browser.press("Tab");
        let stop = browser.value(
            "(() => { const one = document.activeElement; const style = getComputedStyle(one);
               const box = one.getBoundingClientRect();
               window.stops ??= []; const isNew = !window.stops.includes(one); window.stops.push(one);
               return { name: one.tagName + ' ' + (one.innerText || one.getAttribute('aria-label') || one.id), isNew,
                        outlined: style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2,
                        inSight: box.bottom > 0 && box.top < innerHeight }; })()",
        );
        assert_eq!(stop["outlined"], true, "the focus is seen: {stop}");
        assert_eq!(stop["inSight"], true, "the focus is on the screen: {stop}");
        assert_eq!(stop["isNew"], true, "each is reached once: {stop} after {reached:?}");
        reached.push(stop["name"].as_str().unwrap_or_default().to_owned());
    }
    assert!(reached[0].contains("Skip"), "{reached:?}");
    assert!(reached.iter().any(|name| name.contains("Knobs")), "{reached:?}");
}

#[test]
fn a_gateway_that_goes_is_said_to_be_gone_and_one_that_comes_back_is_shown() {
    let shop = Shop::open(1);
    let mut browser = Browser::start();
    browser.size(1366, 900);
    browser.open(&format!("http://{}/", shop.admin));
    browser.until("document.querySelector('.link')?.innerText === 'live'");
    browser.until("document.querySelector('.stage')");
    let Shop { gateway, admin, configuration, _servers, _visitors } = shop;
    gateway.stop_sound();
    browser.until("document.querySelector('.link').innerText.includes('not connected since')");
    browser.until("document.querySelector('.banner').innerText.includes('tries again by itself')");
    picture(&mut browser, "gone");
    assert_eq!(
        browser.text("getComputedStyle(document.querySelector('main')).opacity"),
        "1",
        "it can be read as well as before"
    );
    let gateway = Gateway::run(&configuration, &Start::default());
    browser.until("document.querySelector('.link').innerText === 'live'");
    browser.until("!document.querySelector('.banner')");
    // Fed again: a figure of the new process is there.
    let version = get(admin, "/healthz").expect("an answer");
    assert_eq!(version.status, 200);
    browser.until("document.querySelector('[data-stage=response] dd')?.innerText.includes('req/s')");
    // Requests that met nobody are complained about by the browser itself; anything else is a fault.
    let complaints: Vec<String> = browser
        .complaints()
        .into_iter()
        .filter(|said| !said.contains("net::ERR_") && !said.contains("Failed to load resource"))
        .collect();
    assert!(complaints.is_empty(), "the browser complains: {complaints:#?}");
    browser.forget_complaints();
    gateway.stop_sound();
}

#[test]
fn without_traffic_the_page_says_how_to_send_some() {
    let (listen, admin) = (free_address(), free_address());
    let origin = Origin::hello();
    let configuration = format!(
        "admin = \"{admin}\"\n[[listener]]\naddress = \"{listen}\"\n\
         [application.shop]\nhosts = [\"shop.example\"]\nservers = [\"{}\"]\n\
         [application.blog]\nhosts = [\"blog.example\"]\nservers = []\n\
         [application.rest]\nservers = []\n[application.api]\nhosts = []\nservers = []\n\
         [[route]]\napplication = \"api\"\npath_prefix = \"/api\"\n",
        origin.url()
    );
    let gateway = Gateway::run(&configuration, &Start::default());
    let mut browser = Browser::start();
    browser.size(1366, 900);
    browser.open(&format!("http://{admin}/"));
    browser.until("document.querySelectorAll('.summary').length === 4");
    for (name, hosts) in [("shop", "shop.example"), ("rest", "any host"), ("api", "by routes and listeners")]
    {
        let found = format!("document.querySelector('.summary[href=\"#/app/{name}\"] .soft').innerText");
        assert_eq!(browser.text(&found), hosts);
    }
    review(&mut browser, "applications");
    browser.click("a.summary[href='#/app/shop']");
    browser.until("document.querySelector('.note pre')");
    let advice = browser.text("document.querySelector('.note pre').innerText");
    assert_eq!(advice, format!("curl -i -H 'Host: shop.example' http://{listen}/"));
    review(&mut browser, "no-traffic");
    // Whatever host it takes.
    for name in ["rest", "api"] {
        browser.open(&format!("http://{admin}/#/app/{name}"));
        browser.until(&format!("document.querySelector('h1')?.innerText === '{name}'"));
        browser.until("document.querySelector('.note pre') && document.querySelector('[data-stage=room]')");
        assert_eq!(
            browser.text("document.querySelector('.note pre').innerText"),
            format!("curl -i http://{listen}/")
        );
    }
    browser.open(&format!("http://{admin}/#/app/shop"));
    browser.until("document.querySelector('.note pre')");
    // One request alone has no line through it, and is shown all the same.
    let mut client = Client::connect(listen).expect("a connection");
    client.send(b"GET / HTTP/1.1\r\nhost: shop.example\r\n\r\n").expect("send");
    assert_eq!(client.response().expect("an answer").status, 200);
    browser.until(
        "[...document.querySelectorAll('.chart')].some((chart) => chart.querySelector('h3').innerText === 'Response time' \
         && [...chart.querySelectorAll('path.alone')].some((dot) => dot.getAttribute('d').endsWith('h0')))",
    );
    review(&mut browser, "one-request");
    browser.open(&format!("http://{admin}/#/app/blog/servers"));
    browser.until("document.querySelector('.empty')?.innerText.includes('servers = [')");
    browser.open(&format!("http://{admin}/#/app/gone"));
    browser.until("document.querySelector('.empty h1')?.innerText.includes('No application is called gone')");
    let complaints = browser.complaints();
    assert!(complaints.is_empty(), "the browser complains: {complaints:#?}");
    gateway.stop_sound();
}

#[test]
fn a_token_is_asked_for_and_who_may_only_look_is_offered_no_change() {
    let directory = tempfile::tempdir().expect("a directory for the test");
    let (looks, changes) = ("a-token-that-only-looks-0123456789", "a-token-that-may-change-0123456789");
    let reports = "a-token-that-only-reports-0123456789";
    for (name, token) in [("looks.token", looks), ("changes.token", changes), ("reports.token", reports)] {
        std::fs::write(directory.path().join(name), token).expect("write a token");
    }
    let admin = free_address();
    let configuration = format!(
        "admin = \"{admin}\"\n[[listener]]\naddress = \"{}\"\n[application.shop]\nservers = [\"http://127.0.0.1:1\"]\n\
         [[admin_token]]\nname = \"eve\"\nfile = \"looks.token\"\nrole = \"read\"\n\
         [[admin_token]]\nname = \"ada\"\nfile = \"changes.token\"\nrole = \"operator\"\n\
         [[admin_token]]\nname = \"room\"\nfile = \"reports.token\"\nrole = \"check\"\n",
        free_address()
    );
    let gateway = Gateway::run_in(directory, &configuration, &Start::default());
    let mut browser = Browser::start();
    browser.size(1366, 900);
    browser.open(&format!("http://{admin}/#/knobs"));
    browser.until("document.querySelector('#token')");
    review(&mut browser, "token");
    // As a terminal or a page shortens it; no field of HTTP can carry that.
    browser.click("#token");
    browser.write("a-token-that-only-looks…");
    browser.press("Enter");
    browser.until("document.querySelector('#token-why.fault')?.innerText.includes('Copy it whole')");
    browser.write("not-a-token-of-this-gateway-01234");
    browser.press("Enter");
    browser.until("document.querySelector('#token-why.fault')?.innerText.includes('token') && !document.querySelector('#token-why').innerText.includes('whole')");
    // One that is for something else is not the end of it.
    browser.click("#token");
    browser.write(reports);
    browser.press("Enter");
    browser
        .until("document.querySelector('#token-why.fault')?.innerText.includes('reports of waiting rooms')");
    browser.click("#token");
    browser.write(looks);
    browser.press("Enter");
    browser.until("document.querySelectorAll('.knob').length > 10");
    browser.until("document.querySelector('footer').innerText.includes('not change settings (eve)')");
    assert_eq!(browser.value("document.querySelectorAll('.knob button').length"), 0);
    // Another tab, another token.
    browser.value("sessionStorage.clear()");
    browser.open("about:blank");
    browser.open(&format!("http://{admin}/#/knobs"));
    browser.click("#token");
    browser.write(changes);
    browser.press("Enter");
    browser.until("document.querySelectorAll('.knob button').length > 10");
    browser.until("document.querySelector('footer').innerText.includes('You may change settings (ada)')");
    // It is worth nothing any more: another one is asked for.
    let fresh = gateway.directory.path().join("fresh");
    std::fs::write(&fresh, "a-token-of-another-day-0123456789").expect("write a token");
    std::fs::rename(&fresh, gateway.directory.path().join("changes.token")).expect("put it in its place");
    browser.until("document.querySelector('#token-why.fault')?.innerText.includes('not known here')");
    gateway.stop_sound();
}

#[test]
fn the_page_is_fenced_in_and_not_sent_twice() {
    let admin = free_address();
    let configuration = format!(
        "admin = \"{admin}\"\n[[listener]]\naddress = \"{}\"\n[application.shop]\nservers = [\"http://127.0.0.1:1\"]\n",
        free_address()
    );
    let gateway = Gateway::run(&configuration, &Start::default());
    for path in ["/", "/app.js", "/app.css"] {
        let file = get(admin, path).expect("an answer");
        assert_eq!(file.status, 200, "{path}");
        let policy = file.header("content-security-policy").expect("a policy");
        assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
        assert_eq!(file.header("x-frame-options"), Some("DENY"));
        assert_eq!(file.header("x-content-type-options"), Some("nosniff"));
        let tag = file.header("etag").expect("a tag").to_owned();
        let again = support::client::Client::connect(admin)
            .and_then(|mut client| {
                client.get(path, &format!("if-none-match: {tag}\r\nconnection: close\r\n"))
            })
            .expect("an answer");
        assert_eq!((again.status, again.body.len()), (304, 0), "{path}");
    }
    gateway.stop_sound();
}

/// Leaves a picture, and checks what must hold of every view: labels, contrast, and nothing wider than the window.
fn review(browser: &mut Browser, name: &str) {
    picture(browser, name);
    let nameless: Vec<_> =
        browser.controls().into_iter().filter(|(_, name)| name.trim().is_empty()).collect();
    assert!(nameless.is_empty(), "{name}: controls without a name: {nameless:?}");
    // Who speaks to a browser says what he sees.
    let unlike = browser.value(
        "[...document.querySelectorAll('button[aria-label]')].map((one) => [one.innerText.trim(), one.getAttribute('aria-label')])
           .filter(([seen, called]) => !called.includes(seen))",
    );
    assert_eq!(unlike, json!([]), "{name}: buttons that are called otherwise than they look");
    let faint = browser.value(include_str!("looks.js"));
    assert_eq!(faint, json!([]), "{name}: text that is hard to read");
    let wide = browser.value("[document.documentElement.scrollWidth, innerWidth]");
    assert!(wide[0].as_u64() <= wide[1].as_u64(), "{name}: the page is wider than the window: {wide}");
    let outline =
        browser.value("[...document.querySelectorAll('h1, h2, h3')].map((one) => Number(one.tagName[1]))");
    let levels: Vec<u64> = outline.as_array().into_iter().flatten().filter_map(Json::as_u64).collect();
    assert_eq!(
        levels.iter().filter(|level| **level == 1).count(),
        1,
        "{name}: one heading of the page: {levels:?}"
    );
    assert!(
        levels.windows(2).all(|pair| pair[1] <= pair[0] + 1),
        "{name}: headings skip a level: {levels:?}"
    );
}

fn picture(browser: &mut Browser, name: &str) {
    let file = screenshots().join(format!("dashboard-{name}.png"));
    browser.picture(&file);
    let picture = std::fs::read(&file).expect("the picture");
    assert!(
        picture.starts_with(b"\x89PNG") && picture.len() > 4096,
        "{name}: a picture of {} bytes",
        picture.len()
    );
}

fn screenshots() -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../screenshots");
    std::fs::create_dir_all(&directory).expect("target/screenshots");
    directory
}
