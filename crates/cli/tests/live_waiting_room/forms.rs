//! Forms that were sent and must wait: offered again by the page, files to be chosen once more.

use super::{
    Browser, Shop,
    support::{
        admin::{api, await_metrics},
        origin::Origin,
        report_file,
    },
};

/// A page of the application that sends a form with a file by itself.
pub(crate) const OFFER: &str = "<!doctype html><meta charset=utf-8>\
    <form method=post action=/offered enctype=multipart/form-data>\
    <input name=title value='Grüße & \"mehr\"'><textarea name=note>a\nb</textarea>\
    <input type=file name=photo><input type=file name=none></form>\
    <script>
      const chosen = new DataTransfer();
      chosen.items.add(new File(['a photo of ' + '0'.repeat(200000)], 'my \"cat\".png'));
      document.forms[0].photo.files = chosen.files;
      document.forms[0].submit();
    </script>";

#[test]
fn a_form_waits_in_the_page_and_only_one_of_this_host() {
    let shop = Shop::open("waiting_room.form.bytes.max = \"1KiB\"\n");
    let (mut visitor, _) = shop.one_who_waits_long();
    let form = "content-type: application/x-www-form-urlencoded\r\n";
    let ours = format!("{form}sec-fetch-site: same-origin\r\n");
    let fields = b"name=Gr%C3%BC%C3%9Fe+%26+mehr&note=a%0D%0Ab%22%3E%3Cscript%3E";
    let told = visitor.send("POST", "/buy", &ours, fields);
    assert_eq!(
        (told.status, told.header("refresh")),
        (503, None),
        "the page sends the form, or its button does"
    );
    let page = told.text();
    assert!(page.contains("<form id=\"form\" method=\"post\" action=\"/buy\""), "{page}");
    assert!(page.contains("name=\"name\" value=\"Grüße&#32;&#38;&#32;mehr\""), "{page}");
    assert!(
        !page.contains("<script>\">") && page.matches("<script>").count() == 1,
        "nothing injected: {page}"
    );

    let theirs = format!("{form}sec-fetch-site: cross-site\r\norigin: http://evil.example\r\n");
    let long = format!("a={}", "b".repeat(2000));
    for (headers, body) in [(&theirs, &fields[..]), (&ours, long.as_bytes())] {
        let told = visitor.send("POST", "/buy", headers, body);
        assert_eq!(told.status, 503);
        assert!(!told.text().contains("<form"), "{}", told.text());
        assert!(told.text().contains("noch einmal"), "that it has to be sent again is said: {}", told.text());
    }
    let entered = visitor.come_back_with("POST", "/buy", &ours, fields);
    assert_eq!(entered.status, 200, "{}", entered.text());
    assert_eq!(shop.saw("POST /buy").len(), 1, "it came once, at its time");
    shop.gateway.stop_sound();
}

/// As a browser writes it.
fn multipart(file: &[u8]) -> Vec<u8> {
    let text =
        "--x1\r\nContent-Disposition: form-data; name=\"title\"\r\n\r\nGr\u{fc}\u{df}e \"><script>\r\n";
    let head = "--x1\r\nContent-Disposition: form-data; name=\"photo\"; filename=\"<cat>.png\"\r\nContent-Type: image/png\r\n\r\n";
    [text.as_bytes(), head.as_bytes(), file, b"\r\n--x1--\r\n"].concat()
}

#[test]
fn texts_of_a_form_with_files_wait_in_the_page_and_the_files_are_asked_for_again() {
    let shop = Shop::open("waiting_room.form.bytes.max = \"1KiB\"\nwaiting_room.form.files.max = \"1MiB\"\n");
    let (mut visitor, _) = shop.one_who_waits_long();
    let ours = "content-type: multipart/form-data; boundary=x1\r\nsec-fetch-site: same-origin\r\n";
    let told = visitor.send("POST", "/offered", ours, &multipart(&[0xFF; 500_000]));
    assert_eq!((told.status, told.header("refresh")), (503, None));
    let page = told.text();
    for said in [
        "action=\"/offered\" enctype=\"multipart/form-data\"",
        "<input type=\"hidden\" name=\"title\" value=\"Grüße&#32;&#34;&#62;&#60;script&#62;\">",
        "<bdi>&#60;cat&#62;.png</bdi> <input type=\"file\" name=\"photo\" required>",
        "Dateien konnten nicht aufgehoben werden",
    ] {
        assert!(page.contains(said), "{said} is not in {page}");
    }
    assert!(page.matches("<script>").count() == 1, "nothing injected: {page}");

    let theirs = ours.replace("same-origin", "cross-site");
    let other = ours.replace("x1", "x2");
    let long = multipart(&[0; 1 << 20]);
    let wordy = [
        b"--x1\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n".as_slice(),
        &[b'b'; 2000],
        b"\r\n--x1--\r\n",
    ];
    for (headers, body) in [
        (theirs.as_str(), multipart(b"small")),
        (other.as_str(), multipart(b"small")),
        (ours, [&long[..long.len() - 12], b"0", &long[long.len() - 12..]].concat()),
        (ours, wordy.concat()),
    ] {
        let told = visitor.send("POST", "/offered", headers, &body);
        assert_eq!(told.status, 503);
        assert!(!told.text().contains("<form"), "{}", told.text());
        assert!(told.text().contains("noch einmal"), "that it has to be sent again is said: {}", told.text());
    }
    let entered = visitor.come_back_with("POST", "/offered", ours, &multipart(b"small"));
    assert_eq!(entered.status, 200, "{}", entered.text());
    assert_eq!(shop.saw("POST /offered").len(), 1, "it came once, at its time");
    shop.gateway.stop_sound();
}

/// What the browser saw is in `target/live/waiting-room-files.png`.
#[test]
fn a_browser_sends_a_form_again_with_the_file_that_is_chosen_once_more() {
    let shop = Shop::open("waiting_room.slot = \"2s\"\nwaiting_room.session.pass = false\n");
    // Everybody waits for the next slot at least.
    let wait = |method: &str| {
        let body = format!("{{\"changes\": {{\"shop/waiting_room.method\": \"{method}\"}}}}");
        assert_eq!(api(shop.admin, "PATCH", "/api/v1/knobs", &body).status, 200);
    };
    wait("wait");
    let url = format!("http://{}", shop.listen);
    let mut browser = Browser::start();
    browser.size(700, 760);
    browser.open(&format!("{url}/offer"));
    // The page of the application sends its form, and that has to wait.
    browser.until_page("document.querySelector('#form input[type=file]:not([hidden])')");
    let control = "document.querySelector('#form input[type=file]:not([hidden])')";
    assert_eq!(browser.text("document.querySelector('#form bdi').innerText"), "my \"cat\".png");
    browser.picture(&report_file("waiting-room-files.png"));
    // What asks for the file does not widen the page beyond a narrow telephone.
    browser.size(320, 760);
    assert_eq!(browser.value("document.documentElement.scrollWidth"), 320);
    browser.size(700, 760);
    // Its time comes, and the form stays until the file is there.
    browser.until("!document.querySelector('#form > button').disabled");
    assert_eq!(shop.saw("POST /offered").len(), 0, "nothing is sent without the file");
    browser.value(&format!(
        "(() => {{ const chosen = new DataTransfer(); chosen.items.add(new File(['again'], 'my \"cat\".png'));
          {control}.files = chosen.files; }})()"
    ));
    browser.click("#form > button");
    browser.until_page("location.pathname === '/offered' && document.body.innerText.includes('the shop')");
    let saw = shop.saw("POST /offered");
    assert_eq!(saw.len(), 1, "{saw:?}");
    for said in [
        "name=\"title\"\r\n\r\nGrüße & \"mehr\"\r\n",
        "name=\"note\"\r\n\r\na\r\nb\r\n",
        "name=\"photo\"; filename=\"my %22cat%22.png\"\r\n",
        "\r\n\r\nagain\r\n",
        "name=\"none\"; filename=\"\"\r\nContent-Type: application/octet-stream\r\n\r\n\r\n",
    ] {
        assert!(saw[0].contains(said), "{said:?} is not in {}", saw[0]);
    }
    shop.gateway.stop_sound();
}

/// With the token in the query a browser gets a page from the address that a script has given it, and would get it without the
/// form: it is sent to that address with the form instead.
#[test]
fn a_browser_that_loads_the_page_again_keeps_form_and_place_by_the_address() {
    let shop = Shop::open(
        "waiting_room.carry = \"query\"\n\
         [application.shop.class.buy]\nwaiting_room.method = \"event\"\n\
         [[application.shop.rule]]\nclass = \"buy\"\npath_prefix = \"/buy\"\n",
    );
    let mut browser = Browser::start();
    // The application's page sends its form, and that has to wait for doors.
    browser.open(&format!("http://{}/cart", shop.listen));
    let waits = "document.querySelector('#form input[name=item]')?.value === '7'";
    browser.until_page(waits);
    let place = browser.text("location.href");
    assert!(place.contains("/buy?tidegate_turn="), "{place}");
    for _ in 0..2 {
        browser.reload();
        browser.until_page(waits);
        assert_eq!(browser.text("location.href"), place);
    }
    let body = "{\"changes\": {\"shop/buy/waiting_room.method\": \"fifo\"}}";
    assert_eq!(api(shop.admin, "PATCH", "/api/v1/knobs", body).status, 200);
    browser.reload();
    browser.until_page("document.body.innerText.includes('the shop')");
    let saw = shop.saw("POST /buy");
    assert!(saw.len() == 1 && saw[0].ends_with("item=7") && !saw[0].contains("tidegate"), "{saw:?}");
    shop.gateway.stop_sound();
}

/// Chromium holds what answers a form to the policy of the page that sent it.
#[test]
fn a_form_that_has_waited_leads_on_to_another_site() {
    let (shop, bank) = (Shop::open("waiting_room.session.pass = false\n"), Origin::hello());
    let mut browser = Browser::start();
    browser.open(&format!("http://{}/", shop.listen));
    let body = "{\"changes\": {\"shop/waiting_room.method\": \"wait\"}}";
    assert_eq!(api(shop.admin, "PATCH", "/api/v1/knobs", body).status, 200);
    // A page of the application sends its form, and that has to wait.
    browser.value(&format!(
        "document.body.innerHTML = '<form method=post action=\"/pay?at={}\"><input name=item value=7></form>';
         document.forms[0].submit()",
        bank.url()
    ));
    browser.until_page(&format!("location.href === '{}/'", bank.url()));
    let saw = shop.saw("POST /pay");
    assert!(saw.len() == 1 && saw[0].ends_with("item=7"), "{saw:?}");
    shop.gateway.stop_sound();
}

/// A browser that kept the page in its memory shows it again, as it was, to who goes back: WebKit does.
#[test]
fn a_form_that_was_sent_is_not_sent_again_by_itself() {
    let shop = Shop::open("waiting_room.session.pass = false\n");
    let mut browser = Browser::start();
    browser.open(&format!("http://{}/", shop.listen));
    let body = "{\"changes\": {\"shop/waiting_room.method\": \"wait\"}}";
    assert_eq!(api(shop.admin, "PATCH", "/api/v1/knobs", body).status, 200);
    browser.value(
        "document.body.innerHTML = '<form method=post action=\"/noted\"><input name=item value=7></form>';
         document.forms[0].submit()",
    );
    browser.until_page("document.querySelector('#form > button')");
    // What is answered without content leaves the page where it is.
    await_metrics(shop.admin, "the form is served", |metrics| {
        metrics.sum("class_room", &[("what", "kept")]) >= 1.0
    });
    // The page looks four times a second.
    browser.value(
        "new Promise(done => {
             dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true }));
             setTimeout(done, 1000);
         })",
    );
    assert_eq!(shop.saw("POST /noted").len(), 1);
    browser.click("#form > button");
    await_metrics(shop.admin, "its button sends it", |metrics| {
        metrics.sum("class_room", &[("what", "promised")]) >= 2.0
    });
    shop.gateway.stop_sound();
}
