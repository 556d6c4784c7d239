//! Models as people write them, right and wrong, and the walk through the example against its own sums.

use std::time::Instant;

use super::*;
use crate::{client::Destination, plan::Protocol, random::SplitMix64};

const EXAMPLE: &str = include_str!("../../../../examples/load/auction-bidding.toml");
const WRITES: [&str; 5] = ["RegisterUser", "StoreBuyNow", "StoreBid", "StoreComment", "RegisterItem"];

fn chain(text: &str) -> Result<Chain, Vec<String>> {
    Sessions::from(SessionModel::from_toml(text).expect("TOML")).resolve(&HeaderMap::new())
}

fn session(chain: &Chain, seed: u64) -> Session {
    let destination = Destination {
        addresses: Vec::new(),
        scheme: http::uri::Scheme::HTTP,
        authority: http::uri::Authority::from_static("x"),
        tls: None,
        protocol: Protocol::Http1,
        keep_alive: true,
        requests_per_connection: None,
        h2_connections: 1,
    };
    let pool = crate::client::Pool::of_its_own(&destination);
    Session::begin(chain, SplitMix64::stream(seed, 0), Instant::now(), 0, None, pool)
}

/// A chain that always goes the same way.
const STRAIGHT: &str = r#"
entry = "Login"
think = "1s"
images = ["/logo", "/picture/{item}"]
images_per_page = 1.5
[parameters]
item = { from = 7, to = 7 }
user = { from = 1, to = 1000000, per = "session" }
[page.Login]
path = "/login"
form = "user={user}&again={user}"
images = 0
next = { Item = 1.0 }
[page.Item]
path = "/item?i={item}&u={user}"
next = { Bye = 1.0 }
[page.Bye]
path = "/bye"
method = "HEAD"
images = 2.0
end = 1.0
"#;

#[test]
fn a_session_goes_its_way_and_keeps_what_is_drawn_for_it() {
    let chain = chain(STRAIGHT).expect("a model");
    let mut session = session(&chain, 1);
    let asked = |session: &Session| {
        let (template, body) = session.request(&chain).expect("a request");
        let kind = template.headers.get("content-type").map(|kind| kind.to_str().expect("text").to_owned());
        (
            format!("{} {}", template.method, template.target),
            String::from_utf8(body.to_vec()).expect("text"),
            kind,
        )
    };
    let (line, form, kind) = asked(&session);
    assert_eq!((line.as_str(), kind.as_deref()), ("POST /login", Some("application/x-www-form-urlencoded")));
    let user = form.strip_prefix("user=").and_then(|rest| rest.split('&').next()).expect("a user").to_owned();
    assert_eq!(form, format!("user={user}&again={user}"));
    assert_eq!(asked(&session).1, form, "a retry asks for the same");
    assert!(session.is_at_entry());
    assert!(matches!(session.step(&chain), Step::Page(_)), "no image at the login");
    assert_eq!(asked(&session).0, format!("GET /item?i=7&u={user}"));
    let mut images = Vec::new();
    while session.step(&chain) == Step::Image {
        assert!(session.is_at_image() && !session.is_at_entry());
        images.push(asked(&session).0);
    }
    assert!(
        [vec!["GET /logo"], vec!["GET /logo", "GET /picture/7"]]
            .contains(&images.iter().map(String::as_str).collect())
    );
    assert_eq!(asked(&session), ("HEAD /bye".to_owned(), String::new(), None));
    assert_eq!(
        [session.step(&chain), session.step(&chain), session.step(&chain)],
        [Step::Image, Step::Image, Step::Done]
    );
}

/// The sums that the example promises, from the matrix itself: how often each page is visited
/// before the hundredth interaction.
#[test]
fn the_auction_example_keeps_its_sums() {
    let model = SessionModel::from_toml(EXAMPLE).expect("the example");
    let chain = Sessions::from(model.clone()).resolve(&HeaderMap::new()).expect("the example");
    assert_eq!(chain.names().count(), 26);
    let ends: Vec<f64> = model.page.values().map(|page| page.end).filter(|end| *end > 0.0).collect();
    assert_eq!(ends, [0.2; 10]);
    assert_eq!(
        (model.think, model.interactions_max, model.images_per_page),
        (Duration::from_secs(7), 100, 1.4)
    );
    let mut here: BTreeMap<&str, f64> = BTreeMap::from([(model.entry.as_str(), 1.0)]);
    let (mut visits, mut writes) = (0.0, 0.0);
    for _ in 0..100 {
        let mut there = BTreeMap::new();
        for (name, share) in &here {
            visits += share;
            writes += if WRITES.contains(name) { *share } else { 0.0 };
            for (to, probability) in &model.page[*name].next {
                *there.entry(to.as_str()).or_insert(0.0) += share * probability;
            }
        }
        here = there;
    }
    assert!((visits - 49.4).abs() < 0.1, "{visits} interactions a session");
    assert!((writes / visits - 0.148).abs() < 0.001, "{} write", writes / visits);

    // And the walk agrees with the matrix: the standard deviation of a session's length is below 40.
    let (mut walked, mut images, mut think_s) = (0.0, 0.0, 0.0);
    for seed in 0..2_000 {
        let mut session = session(&chain, seed);
        walked += 1.0;
        loop {
            match session.step(&chain) {
                Step::Image => images += 1.0,
                Step::Page(pause) => {
                    walked += 1.0;
                    think_s += pause.as_secs_f64();
                }
                Step::Done => break,
            }
        }
    }
    assert!((walked / 2_000.0 - visits).abs() < 3.5 * 40.0 / 2_000f64.sqrt(), "{}", walked / 2_000.0);
    assert!((images / walked - 1.4).abs() < 0.01, "{} images each", images / walked);
    assert!((think_s / (walked - 2_000.0) - 7.0).abs() < 0.1, "{} s", think_s / walked);
}

#[test]
fn unique_numbers_are_never_drawn_twice() {
    let text =
        "entry = \"A\"\n[parameters]\nn = { unique = true }\n[page.A]\npath = \"/{n}\"\nnext = { A = 1.0 }\n";
    let chain = chain(text).expect("a model");
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..3 {
        let mut session = session(&chain, seed);
        for _ in 0..100 {
            let (template, _) = session.request(&chain).expect("a request");
            assert!(seen.insert(template.target.to_string()));
            session.step(&chain);
        }
        assert_eq!(session.step(&chain), Step::Done, "a hundred interactions are the most");
    }
}

#[test]
fn faults_name_their_place_and_come_at_once() {
    let faults = chain(
        r#"
entry = "Hme"
think = "2h"
interactions_max = 0
images_per_page = 1.0
[parameters]
item = { from = 9, to = 1 }
user = { from = 1 }
"bad name" = { unique = true }
[page.Home]
path = "no slash"
next = { Srch = 0.5 }
end = 0.4
[page.Search]
path = "/search?{what}"
form = "a={item"
method = "CONNECT"
next = { Home = 1.5 }
end = -0.5
"#,
    )
    .expect_err("faulty")
    .join("\n");
    for part in [
        "entry: there is no page `Hme`; there are Home, Search",
        "think: must be at most 1h",
        "interactions_max: must be from 1",
        "parameters.item: `from` is above `to`",
        "parameters.user: give `from` and `to`",
        "parameters.bad name: a name has letters",
        "page.Home: `no slash` is not a path",
        "page.Home: has images, but `images` names none",
        "page.Home.next: there is no page `Srch`",
        "page.Home: next and end sum to 0.9",
        "page.Search: there is no parameter `what`",
        "page.Search.form: `a={item` has a `{` without its `}`",
        "page.Search.method: `CONNECT`",
        "page.Search: a probability lies outside 0 to 1",
    ] {
        assert!(faults.contains(part), "{part} is missing in:\n{faults}");
    }
    let fault =
        SessionModel::from_toml("entry = \"A\"\nthnk = \"1s\"\n[page.A]\npath = \"/\"").expect_err("a key");
    assert!(fault.contains("thnk") && fault.contains("line 2"), "{fault}");
    let missing =
        Sessions::File("/no/such/sessions.toml".into()).resolve(&HeaderMap::new()).expect_err("no file");
    assert!(missing[0].starts_with("/no/such/sessions.toml: "), "{missing:?}");
}

#[test]
fn a_plan_takes_a_file_or_the_model() {
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Holder {
        sessions: Sessions,
    }
    let file: Holder = toml::from_str("sessions = \"a.toml\"").expect("a name");
    assert_eq!(file.sessions, Sessions::File("a.toml".into()));
    let model = Holder { sessions: SessionModel::from_toml(STRAIGHT).expect("TOML").into() };
    let text = toml::to_string(&model).expect("TOML");
    assert_eq!(toml::from_str::<Holder>(&text).expect("own output"), model);
    let fault = toml::from_str::<Holder>("[sessions]\nentri = \"A\"").expect_err("a key").to_string();
    assert!(fault.contains("entri"), "{fault}");
}
