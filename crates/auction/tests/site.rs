//! The site through its sockets: each of its pages, its writes, and what it does with bad input and overload.

mod client;

use std::num::NonZeroUsize;
use std::time::Duration;

use client::{Client, get, post};
use tidegate_auction::{Auction, Error, Interaction, Method, Options, Running, SPECS, Values};

fn small() -> Options {
    Options { items: 300, users: 50, workers: NonZeroUsize::new(4).expect("not zero"), ..Options::default() }
}

fn start(options: Options) -> Running {
    Auction::start(options).expect("a site")
}

/// An item that can be bought at once, from the pages themselves.
fn buyable(site: &Running) -> u64 {
    let is_buyable = |item: &u64| get(site, &format!("/view-item?item={item}")).body.contains("Buy now for");
    (1..=300).find(is_buyable).expect("half of the items can be bought at once")
}

#[test]
fn every_interaction_gives_its_page() {
    let site = start(small());
    let item = buyable(&site);
    let values = Values { item, user: 4, category: 3, region: 2, page: 0, unique: 1 };
    for spec in SPECS {
        let filled = spec.fill(&values);
        let answer = match filled.method {
            Method::Get => get(&site, &filled.target),
            Method::Post => post(&site, &filled.target, &filled.body.unwrap_or_default()),
        };
        assert_eq!(answer.status, 200, "{}: {}", spec.name, answer.body);
        let said = match spec.interaction {
            Interaction::Home => "from antiques to stamps",
            Interaction::Register => "<option value=\"1\">Amsterdam</option>",
            Interaction::RegisterUser => "Welcome, new1.",
            Interaction::Browse => "All regions",
            Interaction::BrowseCategories => "Antiques &amp; Art (",
            Interaction::SearchItemsInCategory => "<h1>Business &amp; Office</h1>",
            Interaction::BrowseRegions => "Zürich (",
            Interaction::BrowseCategoriesInRegion => "Categories in Athens",
            Interaction::SearchItemsInRegion => "Business &amp; Office in Athens",
            Interaction::ViewItem => "Seller",
            Interaction::ViewUserInfo => "<h1>user4</h1>",
            Interaction::ViewBidHistory => "Bids on ",
            Interaction::BuyNowAuth => "Sign in to buy ",
            Interaction::BuyNow => "Signed in as user4. Each costs",
            Interaction::StoreBuyNow => "It is yours for",
            Interaction::PutBidAuth => "Sign in to bid on ",
            Interaction::PutBid => "Signed in as user4. The least you can bid is",
            Interaction::StoreBid => "is the highest",
            Interaction::PutCommentAuth => "Sign in to comment on user4",
            Interaction::PutComment => "Comment on user4",
            Interaction::StoreComment => "Your comment is posted",
            Interaction::Sell => "Sign in",
            Interaction::SelectCategoryToSellItem => "Choose a category",
            Interaction::SellItemForm => "Describe your item",
            Interaction::RegisterItem => "Your item is on sale",
            Interaction::AboutMe => "About user4",
        };
        assert!(answer.body.contains(said), "{}: no {said:?} in {}", spec.name, answer.body);
        assert_eq!(answer.header("content-type"), Some("text/html; charset=utf-8"), "{}", spec.name);
    }
    assert_eq!(get(&site, "/images/logo.svg").header("content-type"), Some("image/svg+xml"));
    let figures = site.figures();
    assert_eq!((figures.wasted, figures.refused, figures.waiting), (0, 0, 0));
    assert!(figures.served >= 27, "{figures:?}");
}

#[test]
fn what_is_written_is_seen_on_other_pages() {
    let site = start(small());
    let me = "nickname=user7&password=password7";
    assert_eq!(post(&site, "/store-bid", &format!("item=5&bid=123456.78&{me}")).status, 200);
    let history = get(&site, "/view-bid-history?item=5").body;
    assert!(history.contains("€ 123456.78") && history.contains("user7"), "{history}");
    assert!(post(&site, "/about-me", me).body.contains("€ 123456.78"));

    let low = post(&site, "/store-bid", &format!("item=5&bid=123456.79&{me}"));
    assert_eq!((low.status, low.body.contains("€ 123457.03")), (409, true), "{}", low.body);

    let item = buyable(&site);
    assert_eq!(post(&site, "/store-buy-now", &format!("item={item}&{me}")).status, 200);
    assert!(post(&site, "/about-me", me).body.contains("1 × "));
    let all = post(&site, "/store-buy-now", &format!("item={item}&quantity=1000&{me}"));
    assert_eq!(all.status, 409);

    let sold =
        post(&site, "/register-item", &format!("category=1&name=Moon+rock&description=Real&price=3.50&{me}"));
    let link = sold.body.split("/view-item?item=").nth(1).and_then(|rest| rest.split('"').next());
    let page = get(&site, &format!("/view-item?item={}", link.expect("a link to the item"))).body;
    assert!(page.contains("Moon rock") && page.contains("€ 3.50") && page.contains("user7"), "{page}");

    let user = "nickname=ada&password=lovelace&first=A&last=L&email=a%40example.org&region=1";
    assert_eq!(post(&site, "/register-user", user).status, 200);
    assert_eq!(post(&site, "/register-user", user).status, 409);
    assert_eq!(post(&site, "/about-me", "nickname=ada&password=lovelace").status, 200);
    assert_eq!(post(&site, "/about-me", "nickname=ada&password=wrong").status, 401);
}

#[test]
fn a_cookie_keeps_one_signed_in_over_a_kept_connection() {
    let site = start(small());
    let mut client = Client::connect(&site);
    assert_eq!(client.send("GET", "/about-me", &[], b"").status, 401);
    let signed_in = client.send("POST", "/about-me", &[], b"nickname=user2&password=password2");
    let cookie =
        signed_in.header("set-cookie").and_then(|cookie| cookie.split(';').next()).expect("a cookie");
    let again = client.send("GET", "/about-me", &[("cookie", cookie)], b"");
    assert!(again.status == 200 && again.body.contains("About user2"));
    assert_eq!(client.send("POST", "/store-bid", &[("cookie", cookie)], b"item=9").status, 200);
    assert!(get(&site, "/view-bid-history?item=9").body.contains("user2"));
    assert_eq!(client.send("GET", "/about-me", &[("cookie", "auction_session=00")], b"").status, 401);
}

#[test]
fn bids_at_once_keep_item_and_history_in_step() {
    let site = start(small());
    let before = history(&site);
    std::thread::scope(|scope| {
        for user in 1..=8 {
            let site = &site;
            scope.spawn(move || {
                let mut client = Client::connect(site);
                for _ in 0..20 {
                    let body = format!("item=1&nickname=user{user}&password=password{user}");
                    let answer = client.send("POST", "/store-bid", &[], body.as_bytes());
                    assert_eq!(answer.status, 200, "{}", answer.body);
                }
            });
        }
    });
    let after = history(&site);
    assert_eq!(after.len(), (before.len() + 160).min(200), "no bid lost, none written twice");
    assert!(after.windows(2).all(|pair| pair[0] > pair[1]), "each bid is above the one before: {after:?}");
    let page = get(&site, "/view-item?item=1").body;
    assert!(page.contains(&after[0].1), "the item stands at its highest bid, {:?}", after[0]);
}

/// The bids on item 1 in cents and as shown, highest first.
fn history(site: &Running) -> Vec<(u64, String)> {
    let page = get(site, "/view-bid-history?item=1").body;
    let shown = page.split("<td class=\"number\">").skip(1).filter_map(|rest| rest.split('<').next());
    let cents = |shown: &str| shown.chars().filter(char::is_ascii_digit).collect::<String>().parse();
    shown.map(|shown| (cents(shown).expect("an amount"), shown.to_owned())).collect()
}

#[test]
fn what_people_write_is_text_wherever_it_is_shown() {
    let site = start(small());
    let nasty = "%3Cscript%3Ealert(1)%3C%2Fscript%3E%22%27%3E%26amp%3B";
    let me = "nickname=user3&password=password3";
    let registered = format!("nickname={nasty}&password=x&first={nasty}&last={nasty}&email={nasty}&region=1");
    let item = format!("category=1&name={nasty}&description={nasty}&price=1&{me}");
    let comment = format!("to=3&item=1&rating=1&comment={nasty}&{me}");
    let pages = [
        post(&site, "/register-user", &registered),
        post(&site, "/register-user", &registered),
        post(&site, "/register-item", &item),
        get(&site, "/view-item?item=301"),
        get(&site, "/put-bid-auth?item=301"),
        post(&site, "/store-comment", &comment),
        get(&site, "/view-user-info?user=3"),
        get(&site, "/view-user-info?user=51"),
        post(&site, "/about-me", me),
        get(&site, &format!("/view-item?item={nasty}")),
        get(&site, &format!("/{nasty}")),
    ];
    for (index, page) in pages.iter().enumerate() {
        assert!(
            !page.body.contains("<script>alert") && !page.body.contains("\"'>"),
            "{index}: {}",
            page.body
        );
    }
    assert!(pages[3].body.contains("&lt;script&gt;alert(1)&lt;/script&gt;&quot;"), "{}", pages[3].body);
    assert!(pages[6].body.contains("&amp;amp;"), "{}", pages[6].body);
}

#[test]
fn bad_input_is_answered_and_nothing_panics() {
    let site = start(small());
    let mut client = Client::connect(&site);
    for (target, status) in [
        ("/nowhere", 404),
        ("/view-item", 400),
        ("/view-item?item=", 400),
        ("/view-item?item=0", 400),
        ("/view-item?item=-1", 400),
        ("/view-item?item=1.5", 400),
        ("/view-item?item=99999999999999999999999999", 400),
        ("/view-item?item=9223372036854775807", 404),
        ("/view-item?item=301", 404),
        ("/view-item?item=%ff%fe", 400),
        ("/view-item?item=%", 400),
        ("/view-item?item=1'%20OR%201=1--", 400),
        ("/view-user-info?user=51", 404),
        ("/search-items-in-category?category=21", 404),
        ("/search-items-in-category?category=1&page=10000", 200),
        ("/search-items-in-category?category=1&page=10001", 400),
        ("/search-items-in-category?category=1&page=-1", 400),
        ("/search-items-in-region?region=43&category=1", 404),
        ("/browse-categories-in-region?region=43", 404),
        ("/images/category-21.svg", 404),
        ("/images/..%2f..%2fetc%2fpasswd", 404),
        ("/store-bid?item=1&nickname=user1&password=password1", 405),
    ] {
        assert_eq!(client.send("GET", target, &[], b"").status, status, "{target}");
    }
    let me = "nickname=user1&password=password1";
    for (target, body, status) in [
        ("/store-bid", "item=1".to_owned(), 401),
        ("/store-bid", format!("item=301&{me}"), 404),
        ("/store-bid", format!("item=1&bid=1e9&{me}"), 400),
        ("/store-bid", format!("item=1&bid=-5&{me}"), 400),
        ("/store-bid", format!("item=1&quantity=0&{me}"), 400),
        ("/store-bid", format!("item=1&quantity=1000&{me}"), 409),
        ("/store-comment", format!("to=51&item=1&rating=1&comment=x&{me}"), 404),
        ("/store-comment", format!("to=1&item=1&rating=2&comment=x&{me}"), 400),
        ("/store-comment", format!("to=1&item=1&rating=1&comment=%20&{me}"), 400),
        ("/store-comment", format!("to=1&item=1&rating=1&comment={}&{me}", "x".repeat(2_001)), 400),
        ("/register-item", format!("category=21&name=x&description=x&price=1&{me}"), 404),
        ("/register-item", format!("category=1&name=x&description=x&price=0&{me}"), 400),
        ("/register-item", format!("category=1&name=x&description=x&price=2&buy_now=1&{me}"), 400),
        ("/register-item", format!("category=1&name=a%00b&description=x&price=2&{me}"), 400),
        ("/register-user", "nickname=x".to_owned(), 400),
        ("/about-me", "nickname=user1".to_owned(), 400),
        ("/about-me", "nickname=nobody&password=x".to_owned(), 401),
        ("/about-me", "x&".repeat(100), 400),
    ] {
        let answer = client.send("POST", target, &[], body.as_bytes());
        assert_eq!(answer.status, status, "{target} {body}: {}", answer.body);
    }
    assert_eq!(client.send("POST", "/store-bid", &[], b"item=\xff\xfe").status, 400);
    assert_eq!(client.send("POST", "/store-bid", &[("content-type", "text/plain")], b"item=1").status, 415);
    assert_eq!(client.send("DELETE", "/view-item?item=1", &[], b"").status, 405);
    assert_eq!(Client::connect(&site).send("POST", "/store-comment", &[], &vec![b'x'; 65_537]).status, 413);
    assert_eq!(get(&site, "/view-item?item=1").status, 200);
}

#[test]
fn a_full_queue_is_answered_503_and_a_client_who_leaves_is_worked_for_all_the_same() {
    let options = Options { workers: NonZeroUsize::MIN, queue_max: 1, ..small() };
    let site = start(options);
    // Static pages cost nothing, so the slow one holds the only worker while the others are judged.
    site.costs().set(Interaction::Home, Duration::from_secs(4));
    let mut slow = Client::connect(&site);
    slow.begin("GET", "/");
    wait_until(|| site.figures().working == 1);
    let mut waiting = Client::connect(&site);
    waiting.begin("GET", "/browse");
    wait_until(|| site.figures().waiting == 1);
    let refused = get(&site, "/browse");
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("1")));
    drop(waiting);
    assert_eq!(slow.finish().status, 200);
    wait_until(|| site.figures().wasted == 1);
    let figures = site.figures();
    assert_eq!((figures.served, figures.refused, figures.waiting), (1, 1, 0));
    assert!(figures.busy >= Duration::from_secs(4), "{figures:?}");
}

/// Waits for something that happens in the site, which tells nobody; gives up after ten seconds.
fn wait_until(happened: impl Fn() -> bool) {
    let end = std::time::Instant::now() + Duration::from_secs(10);
    while !happened() {
        assert!(std::time::Instant::now() < end, "did not happen within 10 s");
        std::thread::yield_now();
    }
}

#[test]
fn a_directory_keeps_the_site_and_refuses_another() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = Options { directory: Some(folder.path().to_owned()), ..small() };
    let site = start(options.clone());
    let bid = "item=2&bid=77777.77&nickname=user1&password=password1";
    assert_eq!(post(&site, "/store-bid", bid).status, 200);
    site.stop();
    let site = start(options.clone());
    assert!(get(&site, "/view-bid-history?item=2").body.contains("77777.77"));
    site.stop();
    let other = Auction::start(Options { seed: 2, ..options.clone() });
    assert!(matches!(other, Err(Error::OtherSite { .. })), "{other:?}");
    let none = Auction::start(Options { items: 0, ..options });
    assert!(matches!(none, Err(Error::OutOfRange { option: "items", value: 0 })), "{none:?}");
}

#[test]
fn a_site_of_the_default_size_has_at_least_30_000_items() {
    let site = start(Options::default());
    assert!(Options::default().items >= 30_000);
    assert_eq!(get(&site, &format!("/view-item?item={}", Options::default().items)).status, 200);
    let page = get(&site, "/browse-categories").body;
    let counts = page.split(" (").skip(1).filter_map(|rest| rest.split(')').next()?.parse::<u32>().ok());
    assert_eq!(counts.sum::<u32>(), Options::default().items);
    let last = get(&site, "/search-items-in-category?category=1&page=70").body;
    assert!(last.contains("/view-item?item="), "{last}");
}
