//! The waiting room of a running gateway: times told and kept, passes, forms, restarts, and what the application sees.

#[path = "../live_dashboard/browser.rs"]
mod browser;
mod forms;
mod groups;
mod offline;
mod roles;
#[path = "../support/mod.rs"]
mod support;
mod tabs;
mod visitor;

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
};

use browser::Browser;
use serde_json::{Value as Json, json};
use support::{
    Gateway, Start,
    admin::{api, await_metrics},
    client::Response,
    free_address,
    origin::{Origin, respond},
};
use visitor::{TURN, Visitor, browser, program};

/// What the application has seen.
type Seen = Arc<Mutex<Vec<String>>>;

/// An application that notes each request as it came and ends a visit at `/leave`.
fn application() -> (Origin, Seen) {
    let seen = Seen::default();
    let notes = Arc::clone(&seen);
    let origin = Origin::start(move |request, stream| {
        use std::io::Write;
        let fields: Vec<String> =
            request.headers.iter().map(|(name, value)| format!("{name}: {value}")).collect();
        let body = String::from_utf8_lossy(&request.body);
        let note = format!("{} {}\n{}\n\n{body}", request.method, request.path, fields.join("\n"));
        notes.lock().unwrap_or_else(PoisonError::into_inner).push(note);
        if request.path.starts_with("/leave") {
            let head = "HTTP/1.1 200 OK\r\ntidegate-pass: revoke\r\ncache-control: public, max-age=60\r\n";
            stream.write_all(format!("{head}content-length: 4\r\n\r\nbye\n").as_bytes())?;
            return Ok(support::origin::Then::KeepAlive);
        }
        // A visitor who shops by himself: goes to the cart, and sends its form.
        let page = match request.path.as_str() {
            "/shop" => "<!doctype html><script>location = '/cart'</script>",
            "/cart" => {
                "<!doctype html><form method=post action=/buy><input name=item value=7></form>\
                 <script>document.forms[0].submit()</script>"
            }
            "/offer" => forms::OFFER,
            "/noted" => {
                stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n")?;
                return Ok(support::origin::Then::KeepAlive);
            }
            "/statement.pdf" => {
                stream.write_all(
                    b"HTTP/1.1 200 OK\r\ncontent-type: application/pdf\r\n\
                      content-disposition: attachment\r\ncontent-length: 5\r\n\r\n%PDF-",
                )?;
                return Ok(support::origin::Then::KeepAlive);
            }
            path => {
                let Some(bank) = path.strip_prefix("/pay?at=") else {
                    return respond(stream, 200, b"the shop\n");
                };
                let head = format!("HTTP/1.1 303 See Other\r\nlocation: {bank}/\r\n");
                stream.write_all((head + "content-length: 0\r\n\r\n").as_bytes())?;
                return Ok(support::origin::Then::KeepAlive);
            }
        };
        let head =
            format!("HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: {}\r\n\r\n", page.len());
        stream.write_all((head + page).as_bytes())?;
        Ok(support::origin::Then::KeepAlive)
    });
    (origin, seen)
}

/// A gateway that knows of a capacity of two requests a second.
struct Shop {
    gateway: Gateway,
    listen: SocketAddr,
    admin: SocketAddr,
    _origin: Origin,
    seen: Seen,
    configuration: String,
}

impl Shop {
    fn open(more: &str) -> Self {
        let (origin, seen) = application();
        let (listen, admin) = (free_address(), free_address());
        let configuration = format!(
            "admin = \"{admin}\"\nstate_directory = \"state\"\n\
             [[listener]]\naddress = \"{listen}\"\n\
             [application.shop]\nservers = [\"{}\"]\n\
             capacity.given = \"2/s\"\nin_flight.algorithm = \"fixed\"\nwaiting_room.method = \"fifo\"\n{more}",
            origin.url()
        );
        let gateway = Gateway::run(&configuration, &Start::default());
        let shop = Self { gateway, listen, admin, _origin: origin, seen, configuration };
        await_capacity(shop.admin);
        shop
    }

    /// Visitors until one has to wait: he, and what he was told.
    fn first_to_wait(&self, make: fn(SocketAddr) -> Visitor) -> (Visitor, Response) {
        for _ in 0..50 {
            let mut visitor = make(self.listen);
            let told = visitor.get("/");
            if told.status == 503 {
                return (visitor, told);
            }
            assert_eq!(told.status, 200, "{}", told.text());
        }
        panic!("with two requests a second not everybody goes on");
    }

    /// One who waits for at least ten seconds: the machine may be slow, and he is to be asked a few things before.
    fn one_who_waits_long(&self) -> (Visitor, Response) {
        self.one_who_waits(10)
    }

    fn one_who_waits(&self, at_least_s: u64) -> (Visitor, Response) {
        loop {
            let (visitor, told) = self.first_to_wait(browser);
            let seconds = told.header("retry-after").and_then(|seconds| seconds.parse().ok());
            if seconds.is_some_and(|seconds: u64| seconds >= at_least_s) {
                return (visitor, told);
            }
        }
    }

    /// Has its doors open then.
    fn opens_in(&self, seconds: u64) {
        let now = std::time::UNIX_EPOCH.elapsed().expect("a time").as_secs();
        let body = format!(
            "{{\"changes\": {{\"shop/waiting_room.method\": \"event\", \"shop/waiting_room.opens_at\": {}}}}}",
            now + seconds
        );
        let changed = api(self.admin, "PATCH", "/api/v1/knobs", &body);
        assert_eq!(changed.status, 200, "{}", changed.text());
    }

    /// What the application saw of requests whose first line begins so.
    fn saw(&self, line: &str) -> Vec<String> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.iter().filter(|note| note.starts_with(line)).cloned().collect()
    }

    fn counted(&self, what: &str, at_least: f64) {
        await_metrics(self.admin, what, |metrics| metrics.sum("class_room", &[("what", what)]) >= at_least);
    }

    fn counted_of(&self, class: &str, what: &str, at_least: f64) {
        await_metrics(self.admin, what, |metrics| {
            metrics.sum("class_room", &[("class", class), ("what", what)]) >= at_least
        });
    }
}

fn room(admin: SocketAddr) -> Json {
    let answer = api(admin, "GET", "/api/v1/applications/shop/waiting-room", "");
    assert_eq!(answer.status, 200, "{}", answer.text());
    serde_json::from_str(&answer.text()).expect("JSON")
}

/// Until the room has heard of the capacity everybody passes; nothing tells when it has.
fn await_capacity(admin: SocketAddr) {
    while room(admin)["work_per_s"].is_null() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

#[test]
fn who_must_wait_is_told_when_and_comes_in_then() {
    let shop = Shop::open("");
    let (mut visitor, told) = shop.one_who_waits_long();
    assert_eq!(told.header("cache-control"), Some("no-store"));
    assert_eq!(told.header("tidegate-reason"), Some("waiting_room"));
    assert!(
        told.header("content-security-policy").is_some_and(|policy| policy.contains("default-src 'none'"))
    );
    let refresh = told.header("refresh").expect("a browser without scripts comes back by itself");
    let (seconds, to) = refresh.split_once("; url=").expect("Refresh: SECONDS; url=TARGET");
    let millis: u64 = told.header("retry-after-ms").expect("to the millisecond").parse().expect("a number");
    let retry_after = millis.div_ceil(1000).max(1).to_string();
    assert_eq!(told.header("retry-after"), Some(retry_after.as_str()), "{millis} ms");
    // After the page's script, which knows more.
    assert_eq!((seconds, to), ((millis + 1500).div_ceil(1000).to_string().as_str(), "/"), "{refresh}");
    let page = told.text();
    assert!(page.contains("<html lang=\"de\"") && page.contains("Sie stehen in der Reihe"), "{page}");
    assert!(visitor.cookies().contains_key(TURN), "the token is in a cookie");

    // Asked again too early, he has the same time, and another tab has it too.
    let (first, again) = (visitor.cookies()[TURN].clone(), visitor.get("/other"));
    assert_eq!(again.status, 503);
    assert_eq!(visitor.cookies()[TURN], first, "the same promise");
    let standing = visitor.get("/.well-known/tidegate/turn");
    let standing: Json = serde_json::from_str(&standing.text()).expect("JSON");
    assert!(standing["left_ms"].as_u64().is_some() && standing["ahead"].as_u64().is_some(), "{standing}");

    let entered = visitor.come_back("/account?x=1");
    assert_eq!((entered.status, entered.text().as_str()), (200, "the shop\n"));
    assert!(visitor.cookies().contains_key("tidegate_pass"), "he has a pass");
    assert!(!visitor.cookies().contains_key(TURN), "the token is used up");
    assert_eq!(entered.header("cache-control"), Some("private"));
    for click in 0..5 {
        assert_eq!(visitor.get(&format!("/click/{click}")).status, 200, "with a pass he goes on");
    }
    let saw = shop.saw("GET /account?x=1\n");
    assert_eq!(saw.len(), 1);
    assert!(!saw[0].contains("tidegate_"), "the application sees nothing of it: {}", saw[0]);

    shop.counted("kept", 1.0);
    shop.counted("early", 1.0);
    shop.counted("passed", 5.0);
    let room = room(shop.admin);
    assert_eq!(
        (&room["method"], &room["counts"]["default"]["missed"]),
        (&json!("fifo"), &json!(0)),
        "{room:#}"
    );
    shop.gateway.stop_sound();
}

/// Nothing takes the page's place then: it is not to stay at `0:00`.
#[test]
fn who_waited_for_a_file_hears_that_he_has_it() {
    let shop = Shop::open("waiting_room.poll = \"1h\"\n");
    shop.one_who_waits(6);
    let mut browser = Browser::start();
    browser.open(&format!("http://{}/statement.pdf", shop.listen));
    browser.until("document.title === 'You have been let in'");
    let (page, link) =
        (browser.text("document.body.innerText"), browser.text("document.querySelector('a').href"));
    assert!(page.contains("your browser has received it") && !page.contains("0:00"), "{page}");
    assert_eq!(link, format!("http://{}/statement.pdf", shop.listen));
    assert_eq!(shop.saw("GET /statement.pdf").len(), 1);
    shop.gateway.stop_sound();
}

/// What the browser saw while it waited is in `target/live/waiting-room.png`.
#[test]
fn a_browser_waits_comes_in_by_itself_and_shops_with_its_pass() {
    let shop = Shop::open("waiting_room.slot = \"2s\"\n");
    // Everybody waits for the next slot at least.
    let body = "{\"changes\": {\"shop/waiting_room.method\": \"wait\"}}";
    assert_eq!(api(shop.admin, "PATCH", "/api/v1/knobs", body).status, 200);
    let url = format!("http://{}", shop.listen);
    // He has to wait, is let in, and goes from page to page as the application's scripts say.
    let mut browser = Browser::start();
    browser.open(&format!("{url}/shop"));
    browser.until_page("location.pathname === '/buy' && document.body.innerText.includes('the shop')");
    for line in ["GET /shop", "GET /cart", "POST /buy"] {
        let saw = shop.saw(line);
        assert_eq!(saw.len(), 1, "{line} once: {saw:?}");
        assert!(saw[0].contains("Chrome") && !saw[0].contains("tidegate_"), "{}", saw[0]);
    }
    shop.counted("kept", 1.0);
    shop.counted("passed", 2.0);

    // Another one waits long enough to be looked at.
    shop.one_who_waits_long();
    let picture = support::report_file("waiting-room.png");
    let _ = std::fs::remove_file(&picture);
    let mut bystander = Browser::start();
    bystander.size(700, 620);
    bystander.open(&format!("{url}/elsewhere"));
    bystander.picture(&picture);
    let saved = std::fs::read(&picture).expect("the browser's picture");
    assert!(saved.starts_with(b"\x89PNG") && saved.len() > 4096, "a picture of {} bytes", saved.len());
    shop.gateway.stop_sound();
}

#[test]
fn no_language_makes_the_page_wider_than_a_narrow_telephone() {
    let shop = Shop::open("");
    shop.one_who_waits(60);
    let url = format!("http://{}/elsewhere", shop.listen);
    let mut browser = Browser::start();
    // As for one who waits for days.
    let width = "(() => {
        document.getElementById('at').textContent = '27. September 2026, 10:59:59';
        document.getElementById('left').textContent = '123:59:59';
        return document.documentElement.scrollWidth;
    })()";
    for language in ["en", "es", "de", "fr", "zh", "hi", "ar"] {
        browser.speak(language);
        browser.open(&url);
        assert_eq!(browser.text("document.documentElement.lang"), language);
        for narrow in [320, 360] {
            browser.size(narrow, 760);
            assert_eq!(browser.value(width), narrow, "{language}");
        }
    }
    shop.gateway.stop_sound();
}

/// Who is next in line may be called before his time: his page asks more often than others do, of which `waiting_room.poll` says how
/// often.
#[test]
fn the_page_asks_more_often_as_its_time_comes_near() {
    let shop = Shop::open("waiting_room.poll = \"1h\"\n");
    shop.one_who_waits(12);
    let mut browser = Browser::start();
    browser.open(&format!("http://{}/cart", shop.listen));
    let asked =
        "performance.getEntriesByType('resource').filter(entry => entry.name.includes('/turn')).length";
    browser.until(&format!("document.getElementById('left') && {asked} >= 2"));
    browser.until_page("document.body.innerText.includes('the shop')");
    shop.gateway.stop_sound();
}

/// Figures that change each second are no news for who listens to the page; a time that moves is.
#[test]
fn who_listens_is_told_how_long_it_still_is_and_not_each_second() {
    let shop = Shop::open("waiting_room.poll = \"1s\"\n");
    shop.opens_in(3590);
    let mut browser = Browser::start();
    browser.open(&format!("http://{}/", shop.listen));
    let told = "document.getElementById('told').textContent";
    let left = browser.text("document.getElementById('left').textContent");
    browser.until(&format!("document.getElementById('left').textContent !== '{left}'"));
    assert_eq!(browser.text(told), "", "nothing has happened");
    shop.opens_in(8 * 60 + 30);
    browser.until(&format!("{told} === 'Time left: 9 minutes'"));
    let heard = browser.value(
        "[...document.querySelectorAll('[aria-live], [role=status], [role=alert], [role=log], output')].map(one => one.id)",
    );
    assert_eq!(heard, json!(["told"]), "nothing else is read out when it changes");
    shop.gateway.stop_sound();
}

/// Who reads or listens stays where he is, though his browser was to load the page again when doors were to open.
#[test]
fn a_page_whose_time_is_put_off_is_not_loaded_again() {
    let shop = Shop::open("waiting_room.poll = \"1s\"\n");
    shop.opens_in(20);
    let mut browser = Browser::start();
    browser.open(&format!("http://{}/", shop.listen));
    browser.value("window.isTheSame = true");
    shop.opens_in(590);
    browser.until("document.getElementById('left').textContent.startsWith('9:')");
    browser.until("performance.now() > 24_000");
    assert_eq!(browser.value("window.isTheSame"), true);
    shop.gateway.stop_sound();
}

/// With the token in the query there is no cookie: the address that a reload loads again holds the place.
#[test]
fn a_reload_keeps_the_place_without_a_cookie() {
    let shop = Shop::open("waiting_room.carry = \"query\"\n");
    let (mut tab, mut plain) = (Browser::start(), Browser::start());
    // Nobody comes in while a slow machine loads its pages.
    shop.one_who_waits(60);
    let url = format!("http://{}/cart?x=1", shop.listen);
    let (time, keep) = ("document.getElementById('at').dateTime", "document.getElementById('keep').hidden");
    tab.open(&url);
    let told = tab.text(time);
    tab.reload();
    assert_eq!((tab.text(time), tab.value(keep)), (told, json!(false)), "{}", tab.text("location.href"));
    // Without scripts the address cannot change: the page does not say that it may be loaded again; its link keeps the place.
    plain.run_scripts(false);
    plain.open(&url);
    let told = plain.text(time);
    assert_eq!(plain.value(keep), json!(true));
    let link = plain.text("document.body.dataset.to");
    plain.open(&format!("http://{}{link}", shop.listen));
    assert_eq!((plain.text(time), plain.value(keep)), (told, json!(false)), "{link}");
    shop.gateway.stop_sound();
}

#[test]
fn programs_bring_their_token_back_in_a_field_or_the_query() {
    let shop = Shop::open("");
    for carry in ["field", "query"] {
        let (mut visitor, told) = shop.first_to_wait(program);
        let document: Json = serde_json::from_str(&told.text()).expect("a problem document");
        assert_eq!(
            (&document["status"], &document["reason"]),
            (&json!(503), &json!("waiting_room")),
            "{document:#}"
        );
        assert_eq!(told.header("refresh"), None, "that is for browsers");
        let token = document["token"].as_str().expect("a token").to_owned();
        visitor.wait(document["left_ms"].as_u64().expect("a time"));
        visitor.forget();
        let entered = match carry {
            "field" => visitor.get_with("/field", &format!("tidegate-turn: {token}\r\n")),
            _ => visitor.get(&format!("/query?a=1&tidegate_turn={token}&b=2")),
        };
        assert_eq!(entered.status, 200, "{carry}: {}", entered.text());
        let pass = entered.header("tidegate-pass").expect("a pass for programs").to_owned();
        visitor.forget();
        assert_eq!(visitor.get_with("/next", &format!("tidegate-pass: {pass}\r\n")).status, 200);
    }
    let (field, query) = (shop.saw("GET /field"), shop.saw("GET /query"));
    assert!(query[0].starts_with("GET /query?a=1&b=2\n"), "{}", query[0]);
    assert!(!field[0].contains("tidegate-"), "{}", field[0]);
    shop.gateway.stop_sound();
}

/// WebQ's burst (section V-B): several times the capacity at once, then quiet. Everybody is served in the end, and comes
/// back once for it.
#[test]
fn a_burst_is_served_to_the_last_visitor() {
    let shop = Shop::open("waiting_room.session.pass = false\n");
    let told = api(shop.admin, "POST", "/api/v1/applications/shop/capacity", "{\"per_s\": \"50/s\"}");
    assert_eq!(told.status, 200, "{}", told.text());
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["load", &format!("http://{}/", shop.listen), "-a", "poisson:200/s", "-d", "1s", "--follow"])
        .args(["--drain", "2m", "--timeout", "60s", "-H", "accept: text/html", "--json"])
        .output()
        .expect("run tidegate load");
    let report: Json = serde_json::from_slice(&output.stdout).expect("a report");
    let (total, waits) = (&report["total"], &report["total"]["waits"]);
    println!("offered {}, good {}, waits {waits}", total["offered"], total["good"]);
    assert!(total["offered"].as_u64().is_some_and(|offered| offered > 100), "{report:#}");
    assert_eq!(total["good"], total["offered"], "everybody is served: {report:#}");
    assert!(waits["promises"].as_u64().is_some_and(|promises| promises > 50), "most had to wait: {report:#}");
    assert_eq!((&waits["broken"], &waits["left"]), (&json!(0), &json!(0)), "{report:#}");
    shop.gateway.stop_sound();
}

#[test]
fn what_needs_no_place_passes() {
    let shop = Shop::open(
        "[application.shop.class.partners]\nwaiting_room.queues = false\n\
         [[application.shop.rule]]\nclass = \"partners\"\npath = \"/health\"\n",
    );
    let (mut visitor, _) = shop.one_who_waits_long();
    for path in ["/style.css", "/app.js?v=3", "/app.webmanifest", "/manifest.json", "/health"] {
        assert_eq!(visitor.get(path).status, 200, "{path}");
    }
    let preflight = visitor.send("OPTIONS", "/cart", "access-control-request-method: POST\r\n", b"");
    assert_eq!(preflight.status, 200);
    assert_eq!(visitor.send("OPTIONS", "/cart", "", b"").status, 503, "no preflight");
    assert_eq!(visitor.send("POST", "/x.css", "", b"").status, 503, "no asset");
    assert_eq!(visitor.get("/cart").status, 503);
    shop.gateway.stop_sound();
}

/// `tidegate token`, as its user runs it.
fn token(admin: SocketAddr, whose: &str, valid_for: &str) -> String {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["token", whose, "--for", valid_for, "--why", "a test", "--admin", &admin.to_string()])
        .output()
        .expect("run tidegate token");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text").trim_end().to_owned()
}

#[test]
fn partners_pass_by_with_a_signed_token_and_nobody_else_does() {
    let shop = Shop::open(
        "[application.shop.class.partners]\n[[application.shop.rule]]\nclass = \"partners\"\npath_prefix = \"/partner\"\n\
         [application.blog]\nhosts = [\"blog.example\"]\nservers = [\"http://127.0.0.1:9\"]\n",
    );
    let good = token(shop.admin, "shop/partners", "30d");
    let brief = token(shop.admin, "shop/partners", "1s");
    let others = [
        token(shop.admin, "shop", "1h"),
        token(shop.admin, "blog", "1h"),
        format!("{}A{}", &good[..40], &good[41..]),
        format!("{}B{}", &good[..40], &good[41..]),
        "x".to_owned(),
    ];
    let recorded = api(shop.admin, "GET", "/api/v1/knobs/changes?limit=1", "").text();
    assert!(recorded.contains("\"from\":\"none\"") && recorded.contains(" for 1h\""), "{recorded}");
    // Nobody is let in by himself.
    let wait = "{\"changes\": {\"shop/waiting_room.method\": \"wait\"}}";
    assert_eq!(api(shop.admin, "PATCH", "/api/v1/knobs", wait).status, 200);
    let mut partner = program(shop.listen);
    let mut with = |path: &str, token: &str| {
        partner.forget();
        partner.get_with(path, &format!("tidegate-bypass: {token}\r\n")).status
    };
    for click in 0..20 {
        assert_eq!(with(&format!("/partner/{click}"), &good), 200, "it costs no place");
    }
    assert_eq!(with("/elsewhere", &good), 503, "of another class");
    let taken =
        others.iter().filter(|token| token.as_str() != good).filter(|token| with("/partner", token) != 503);
    assert_eq!(taken.count(), 0, "of another class or application, altered, made up");
    // It is over a second after it was made: nothing announces that.
    std::thread::sleep(std::time::Duration::from_millis(1001));
    assert_eq!(with("/partner", &brief), 503, "expired");
    shop.counted("bypassed", 20.0);

    let off = "{\"changes\": {\"shop/waiting_room.method\": \"off\"}}";
    assert_eq!(api(shop.admin, "PATCH", "/api/v1/knobs", off).status, 200);
    assert_eq!(with("/partner/without-a-room", &good), 200);
    let saw = shop.saw("GET /partner");
    assert_eq!(saw.len(), 21);
    assert!(
        saw.iter().all(|note| !note.contains("tidegate-")),
        "the application sees nothing of it: {saw:?}"
    );
    for (body, status) in [
        ("{\"valid_for\": \"32d\"}", 400),
        ("{}", 400),
        ("{\"valid_for\": \"1h\", \"class\": \"nobody\"}", 400),
        ("{\"valid_for\": \"1h\", \"for\": 1}", 400),
    ] {
        let path = "/api/v1/applications/shop/waiting-room/bypass";
        let answer = api(shop.admin, "POST", path, body);
        assert_eq!(answer.status, status, "{body}: {}", answer.text());
    }
    assert_eq!(
        api(shop.admin, "POST", "/api/v1/applications/nobody/waiting-room/bypass", "{\"valid_for\": \"1h\"}")
            .status,
        404
    );
    shop.gateway.stop_sound();
}

/// Tabs of one browser that come back at once bring the same promise.
#[test]
fn tabs_that_come_back_at_once_are_all_let_in() {
    let shop = Shop::open("");
    let (mut first, told) = shop.first_to_wait(browser);
    let token = told.header("tidegate-turn").expect("a token").to_owned();
    let (mut second, mut third) = (first.clone(), first.clone());
    // Others wait, or a used token would be as good as none.
    shop.one_who_waits_long();
    assert_eq!(first.come_back("/tab/1").status, 200);
    assert!(first.cookies().contains_key("tidegate_pass"));
    // These were on their way before the first one had its pass: one goes on behind everybody, the other comes again.
    assert_eq!(second.get("/tab/2").status, 200);
    assert!(!second.cookies().contains_key("tidegate_pass"), "what may be a replay gets none");
    let told = third.get("/tab/3");
    assert_eq!((told.status, told.header("retry-after")), (503, Some("1")), "{}", told.text());
    assert_eq!(told.header("tidegate-turn"), Some(token.as_str()), "it is no other place");
    assert_eq!(told.header("refresh"), Some("3; url=/tab/3"));
    // They share their cookies: by then the third one has the pass, and the token, told twice, is taken away.
    third.adopt(&first);
    assert!(third.cookies().contains_key(TURN));
    assert_eq!(third.get("/tab/3").status, 200);
    assert!(!third.cookies().contains_key(TURN) && third.cookies().contains_key("tidegate_pass"));
    shop.counted("replayed", 2.0);
    let room = room(shop.admin);
    assert_eq!(room["counts"]["default"]["missed"], 0, "{room:#}");
    shop.gateway.stop_sound();
}

#[test]
fn an_application_ends_a_visit() {
    let shop = Shop::open("");
    let (mut visitor, _) = shop.first_to_wait(browser);
    assert_eq!(visitor.come_back("/").status, 200);
    let pass = visitor.cookies()["tidegate_pass"].clone();
    let left = visitor.get("/leave");
    assert_eq!((left.status, left.header("tidegate-pass")), (200, None), "the word is for the gateway");
    assert_eq!(left.header("cache-control"), Some("private, max-age=60"));
    assert!(!visitor.cookies().contains_key("tidegate_pass"));
    // Kept by a cheat, it is worth nothing: as a newcomer he waits like others while there is no room.
    // Of a slot that begins meanwhile, no place may be left.
    let (mut cheat, _) = shop.one_who_waits_long();
    cheat.forget();
    assert_eq!(cheat.get_with("/again", &format!("tidegate-pass: {pass}\r\n")).status, 503);
    shop.gateway.stop_sound();
}

#[test]
fn promises_outlive_a_kill() {
    let mut shop = Shop::open("");
    let mut waiting: Vec<(Visitor, Response)> = (0..4).map(|_| shop.first_to_wait(browser)).collect();
    // What was promised is written each second.
    let state = shop.gateway.directory.path().join("state/waiting-room-shop.state");
    shop.gateway.log.await_line("ready", 1);
    await_metrics(shop.admin, "the promises are counted", |metrics| {
        metrics.sum("class_room", &[("what", "promised")]) >= 4.0 && state.exists()
    });
    let directory = shop.gateway.kill();
    shop.gateway = Gateway::run_in(directory, &shop.configuration, &Start::default());
    shop.gateway.log.await_line("promises of the waiting room are taken over", 1);
    await_capacity(shop.admin);
    for (visitor, _) in &mut waiting {
        let entered = visitor.come_back("/after");
        assert_eq!(entered.status, 200, "a promise is kept over a kill: {}", entered.text());
    }
    shop.counted("kept", 4.0);
    shop.gateway.stop_sound();
}

#[test]
fn a_key_that_is_too_old_gives_way_and_what_it_signed_holds() {
    let mut shop = Shop::open("");
    let (mut visitor, _) = shop.first_to_wait(browser);
    let partner = token(shop.admin, "shop", "30d");
    let directory = shop.gateway.kill();
    // As if the gateway had been down for forty days, but that promises do not wait so long.
    let file = directory.path().join("state/waiting-room.keys");
    let keys = std::fs::read_to_string(&file).expect("the file of keys");
    let lines: Vec<String> = keys
        .lines()
        .map(|line| match line.split(' ').collect::<Vec<_>>()[..] {
            [id, made, secret] if made.parse::<u64>().is_ok() => {
                let made: u64 = made.parse().expect("a time");
                format!("{id} {} {secret}", made - 40 * 86_400 * 1_000_000_000)
            }
            _ => line.to_owned(),
        })
        .collect();
    std::fs::write(&file, lines.join("\n") + "\n").expect("write the file of keys");
    shop.gateway = Gateway::run_in(directory, &shop.configuration, &Start::default());
    shop.gateway.log.await_line("signed with a new key, by age", 1);
    await_capacity(shop.admin);
    let written = std::fs::read_to_string(shop.gateway.directory.path().join("state/waiting-room.keys"));
    let written = written.expect("the file of keys");
    assert_eq!(written.lines().count(), lines.len() + 1, "one more key");
    assert!(lines.iter().skip(2).all(|line| written.contains(line)), "and the old one is kept");

    assert_eq!(visitor.come_back("/after").status, 200, "a promise of the old key is kept");
    let by = program(shop.listen).get_with("/", &format!("tidegate-bypass: {partner}\r\n"));
    assert_eq!(by.status, 200);
    shop.counted("kept", 1.0);
    shop.counted("bypassed", 1.0);
    let (new, _) = shop.first_to_wait(browser);
    assert_ne!(new.cookies()[TURN][..3], partner[..3], "the new key signs");
    shop.gateway.stop_sound();
}

#[test]
fn forged_and_altered_tokens_let_nobody_in() {
    let shop = Shop::open("");
    let (visitor, _) = shop.first_to_wait(browser);
    let token = visitor.cookies()[TURN].clone();
    let mut altered: Vec<String> = (0..token.len())
        .map(|at| {
            let mut bytes = token.clone().into_bytes();
            bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
            String::from_utf8(bytes).expect("ASCII")
        })
        .collect();
    altered.extend(["", "x", "%00", &"A".repeat(64), &token[1..]].map(str::to_owned));
    let (mut cheat, _) = shop.first_to_wait(browser);
    for token in &altered {
        cheat.forget();
        for name in ["tidegate-turn", "tidegate-pass"] {
            let told = cheat.get_with("/forged", &format!("{name}: {token}\r\n"));
            assert!(matches!(told.status, 200 | 503), "{token}: {}", told.status);
        }
    }
    // Some go on as newcomers do, at two a second; nobody by a token: those are all counted.
    shop.counted("forged", f64::from(u32::try_from(2 * altered.len() - 10).expect("few")));
    shop.gateway.stop_sound();
}

#[test]
fn a_closed_room_says_so_and_the_operators_page_is_shown() {
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::write(directory.path().join("wait.html"), "<p id=x>{{ahead}} before you, {{to}}</p>{{form}}")
        .expect("write the page");
    let (origin, _) = application();
    let (listen, admin) = (free_address(), free_address());
    let configuration = |method: &str| {
        format!(
            "admin = \"{admin}\"\n[[listener]]\naddress = \"{listen}\"\n\
             [application.shop]\nservers = [\"{}\"]\ncapacity.given = \"2/s\"\nin_flight.algorithm = \"fixed\"\n\
             waiting_room = {{ method = \"{method}\", page = \"wait.html\", closed_message = \"Back at <noon>.\" }}\n",
            origin.url()
        )
    };
    let gateway = Gateway::run_in(directory, &configuration("wait"), &Start::default());
    await_capacity(admin);
    let told = browser(listen).get("/a?b='c'&d=(e)");
    assert_eq!(told.status, 503);
    assert_eq!(told.text(), "<p id=x>0 before you, /a&#63;b&#61;&#39;c&#39;&#38;d&#61;&#40;e&#41;</p>");
    let changed = api(
        admin,
        "PATCH",
        "/api/v1/knobs",
        "{\"changes\": {\"shop/waiting_room.method\": \"closed\"}, \"why\": \"the end of the day\"}",
    );
    assert_eq!(changed.status, 200, "{}", changed.text());
    let told = browser(listen).get("/");
    assert_eq!((told.status, told.header("tidegate-reason")), (503, Some("room_closed")));
    assert!(told.text().contains("Back&#32;at&#32;&#60;noon&#62;."), "{}", told.text());
    let told = program(listen).get("/");
    let document: Json = serde_json::from_str(&told.text()).expect("JSON");
    assert_eq!(document["detail"], "Back at <noon>.");
    gateway.stop_sound();
}
