//! The page for those who wait: one document without anything from elsewhere, in the visitor's language, which works
//! without scripts.

use std::fmt::{self, Write};

use http::HeaderValue;
use tidegate_control::Timestamp;

use super::{form::Form, html::Escaped, language::Language};
use crate::request::access_log::Rfc3339;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// What our page may do: its own style and script, by their digests, and requests to this host.
macro_rules! policy {
    ($forms:literal) => {
        HeaderValue::from_static(concat!(
            "default-src 'none'; style-src 'sha256-RYuShZRU5ayLrNsa3m3P6PuD0cce7o5dGY3qh0cRflg='; ",
            "script-src 'sha256-IFpaQQpdenE8od2byU7pmd4AKsW0FNQAdV4SHGSXiN8='; ",
            "connect-src 'self'; base-uri 'none'",
            $forms
        ))
    };
}

/// What our page may do. A form that waits may go anywhere: it goes where we say, and the application may lead its sender on to
/// another host, to pay there, which Chromium holds to `form-action` as well.
pub(super) const fn policy(has_form: bool) -> HeaderValue {
    const WITH_FORM: HeaderValue = policy!("");
    const WITHOUT: HeaderValue = policy!("; form-action 'none'");
    if has_form { WITH_FORM } else { WITHOUT }
}

/// A visitor's wait, as a page shows it.
#[derive(Debug)]
pub(super) struct Wait<'a> {
    /// When it ends, or the draw is; `None`: that is not known yet.
    pub(super) at: Option<Timestamp>,
    /// Whether the visitor's lot is still to be drawn.
    pub(super) undrawn: bool,
    /// Until then, or until he is to look again, milliseconds.
    pub(super) left_ms: u64,
    /// From when the visitor first asked until then, milliseconds.
    pub(super) total_ms: u64,
    /// People promised before.
    pub(super) ahead: u64,
    /// Whether a promise was missed.
    pub(super) renewed: bool,
    /// Where the visitor goes on: path and query on this host, or a URL of the check's; with a lost form by GET.
    pub(super) to: &'a str,
    /// Where a reload keeps the place, if that is not where the page is.
    pub(super) stay: Option<&'a str>,
    /// Where the page asks how things stand.
    pub(super) ask: &'a str,
    /// How often, milliseconds.
    pub(super) every_ms: u64,
    /// What the visitor had sent.
    pub(super) form: &'a Form,
}

/// Room for a page without a form: one that grew would be copied, all of it.
const PAGE_BYTES: usize = STYLE.len() + SCRIPT.len() + 3 * 1024;
/// In place of a time that is not known.
const NO_TIME: &str = "–";
/// A time further away is said with its day, milliseconds; the script has the same bound.
const WITH_DAY_MS: u64 = 20 * 3_600_000;

impl Wait<'_> {
    /// Whole seconds until the visitor is to come, rounded up: nobody is to come too early.
    pub(super) const fn left_s(&self) -> u64 {
        self.left_ms.div_ceil(1000)
    }

    /// Percent of the wait that is over.
    pub(super) fn progress(&self) -> u64 {
        100 * self.total_ms.saturating_sub(self.left_ms) / self.total_ms.max(1)
    }
}

/// Our page for a visitor who waits.
pub(super) fn waiting(language: &Language, wait: &Wait<'_>) -> String {
    let mut page = String::with_capacity(PAGE_BYTES);
    head(&mut page, language, language.title);
    let Wait { left_ms, total_ms, every_ms, ahead, .. } = *wait;
    let total_ms = total_ms.max(left_ms);
    // Writing to a String does not fail.
    let _ = writeln!(
        page,
        "<body data-left=\"{left_ms}\" data-total=\"{total_ms}\" data-every=\"{every_ms}\" data-unknown=\"{}\" data-to=\"{}\" data-stay=\"{}\" data-ask=\"{}\">",
        if wait.at.is_none() { language.unknown } else { "" },
        Escaped(wait.to),
        Escaped(wait.stay.unwrap_or_default()),
        Escaped(wait.ask),
    );
    put(&mut page, &["<main>\n<h1>", language.title, "</h1>\n<p>", language.lead, "</p>\n"]);
    if wait.renewed {
        put(&mut page, &["<p class=\"note\" role=\"alert\">", language.missed, "</p>\n"]);
    }
    let label = if wait.undrawn { language.drawn_at } else { language.entry_at };
    put(&mut page, &["<dl>\n<dt>", label, "</dt><dd>"]);
    match wait.at {
        Some(at) => {
            let at = Rfc3339(at).text();
            // With the day where that is not today's for everybody.
            let day = if left_ms < WITH_DAY_MS { "" } else { at.get(..10).unwrap_or_default() };
            let (space, time) = (if day.is_empty() { "" } else { " " }, at.get(11..19).unwrap_or_default());
            put(&mut page, &["<time id=\"at\" datetime=\"", &at, "\">", day, space, time, " UTC</time>"]);
        }
        None => put(&mut page, &["<span id=\"at\">", language.unknown, "</span>"]),
    }
    put(&mut page, &["</dd>\n<dt>", language.left, "</dt><dd><span id=\"left\" role=\"timer\">"]);
    let _ = match wait.at {
        Some(_) => write!(page, "{}", Clock(wait.left_s())),
        None => page.write_str(NO_TIME),
    };
    put(&mut page, &["</span></dd>\n<dt>", language.ahead, "</dt><dd id=\"ahead\">"]);
    let _ = write!(
        page,
        "{ahead}</dd>\n</dl>\n<p id=\"told\" class=\"unseen\" role=\"status\"></p>\n\
         <progress id=\"progress\" max=\"100\" value=\"{}\" aria-label=\"",
        wait.progress()
    );
    put(&mut page, &[language.progress, "\"></progress>\n"]);
    match wait.form {
        Form::None => {
            // The script says so once the page is where a reload keeps the place.
            let hidden = if wait.stay.is_some() { " hidden" } else { "" };
            put(&mut page, &["<p id=\"keep\" class=\"soft\"", hidden, ">", language.keep, "</p>\n"]);
            link(&mut page, wait, language);
        }
        Form::Kept(kept) => {
            put(&mut page, &["<p class=\"note\">", language.form_kept, "</p>\n"]);
            put(&mut page, &["<noscript><p class=\"note\">", language.form_by_hand, "</p></noscript>\n"]);
            kept.write(&mut page, wait.to, language);
        }
        Form::Lost => {
            say_lost(&mut page, language);
            link(&mut page, wait, language);
        }
    }
    if !matches!(wait.form, Form::Kept(_)) {
        entered(&mut page, wait, language);
    }
    put(&mut page, &["</main>\n<script>", SCRIPT, "</script>\n</body>\n</html>\n"]);
    page
}

/// Says that a form has to be sent again.
pub(super) fn say_lost(page: &mut String, language: &Language) {
    put(page, &["<p class=\"note\">", language.form_lost, "</p>\n"]);
}

/// The way on where no script goes it.
fn link(page: &mut String, wait: &Wait<'_>, language: &Language) {
    let _ = writeln!(page, "<noscript><a href=\"{}\">{}</a></noscript>", Escaped(wait.to), language.enter);
}

/// What the script puts in place of the wait where he was let in and the page stays, as one does whose answer is a file to save: a page
/// that sends no form.
fn entered(page: &mut String, wait: &Wait<'_>, language: &Language) {
    let Language { entered, saved, enter, .. } = language;
    put(page, &["<template id=\"entered\"><h1>", entered, "</h1>\n<p role=\"alert\">", saved, "</p>\n"]);
    let _ = writeln!(page, "<a href=\"{}\">{enter}</a></template>", Escaped(wait.to));
}

/// Our page for a visitor who gets no time. Nothing that he has sent is kept.
pub(super) fn turned_away(language: &Language, title: &str, text: &str, form: &Form) -> String {
    let mut page = String::with_capacity(3 * 1024);
    head(&mut page, language, title);
    let text = Escaped(text);
    let _ = writeln!(page, "<body>\n<main>\n<h1>{title}</h1>\n<p role=\"status\" dir=\"auto\">{text}</p>");
    if *form != Form::None {
        say_lost(&mut page, language);
    }
    page.push_str("</main>\n</body>\n</html>\n");
    page
}

fn head(page: &mut String, language: &Language, title: &str) {
    let Language { tag, direction, .. } = language;
    put(
        page,
        &[
            "<!doctype html>\n<html lang=\"",
            tag,
            "\" dir=\"",
            direction,
            "\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n\
             <meta name=\"robots\" content=\"noindex\">\n<title>",
            title,
            "</title>\n<style>",
            STYLE,
            "</style>\n</head>\n",
        ],
    );
}

/// Texts one after the other. Formatted they would cost several times as much, and it is they of which a page consists.
fn put(page: &mut String, texts: &[&str]) {
    for text in texts {
        page.push_str(text);
    }
}

/// Seconds as `2:05`, `1:02:05`.
pub(super) struct Clock(pub(super) u64);

impl fmt::Display for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (hours, minutes, rest) = (self.0 / 3600, self.0 / 60 % 60, self.0 % 60);
        match hours {
            0 => write!(f, "{minutes}:{rest:02}"),
            _ => write!(f, "{hours}:{minutes:02}:{rest:02}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::digest::{SHA256, digest};

    use super::*;
    use crate::request::waiting_room::{form::Kept, language::LANGUAGES};

    const fn wait(form: &Form) -> Wait<'_> {
        Wait {
            at: Some(Timestamp::from_nanos(1_700_000_000_000_000_000)),
            undrawn: false,
            left_ms: 61_500,
            total_ms: 123_000,
            ahead: 840,
            renewed: false,
            to: "/a?b=\"<c>",
            stay: None,
            ask: "/.well-known/tidegate/turn",
            every_ms: 20_000,
            form,
        }
    }

    /// RFC 4648, section 4.
    fn base64(bytes: &[u8]) -> String {
        const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let mut text = String::new();
        for group in bytes.chunks(3) {
            let number = (0..3).fold(0, |sum, at| sum << 8 | u32::from(*group.get(at).unwrap_or(&0)));
            for at in 0..4 {
                let letter = LETTERS[(number >> (18 - 6 * at)) as usize & 63];
                text.push(if at <= group.len() { char::from(letter) } else { '=' });
            }
        }
        text
    }

    #[test]
    fn the_policy_names_the_digests_of_style_and_script() {
        let policy = policy(true);
        let policy = policy.to_str().unwrap();
        for (kind, text) in [("style-src", STYLE), ("script-src", SCRIPT)] {
            let wanted = format!("{kind} 'sha256-{}'", base64(digest(&SHA256, text.as_bytes()).as_ref()));
            assert!(policy.contains(&wanted), "the policy is to name {wanted}");
        }
    }

    #[test]
    fn every_language_says_everything_in_its_direction() {
        for language in &LANGUAGES {
            let page = waiting(language, &wait(&Form::None));
            assert!(language.form_by_hand.contains(language.form_send), "{} names the button", language.tag);
            for said in [language.title, language.lead, language.entry_at, language.left, language.keep] {
                assert!(!said.is_empty() && page.contains(said), "{}: {said}", language.tag);
            }
            let opening = format!("<html lang=\"{}\" dir=\"{}\">", language.tag, language.direction);
            assert!(page.contains(&opening), "{page}");
            assert!(
                page.contains(">1:02</span></dd>")
                    && page.contains("value=\"50\"")
                    && page.contains(">840</dd>")
            );
            assert!(!page.contains("<c>"), "a target is only text: {page}");
            // A list of terms has no other parts, and who listens is told by one line, which the script writes now and then.
            assert!(!page.contains("<dd role") && !page.contains("aria-live"), "{page}");
            assert!(page.contains("<p id=\"told\" class=\"unseen\" role=\"status\"></p>"), "{page}");
        }
    }

    #[test]
    fn a_form_is_in_the_page_or_its_loss_is_said() {
        let english = &LANGUAGES[0];
        let kept = waiting(english, &wait(&Form::Kept(Kept::url_decode(b"a=1").unwrap())));
        assert!(kept.contains("<form id=\"form\"") && kept.contains(english.form_kept));
        assert!(
            kept.contains(&format!("<noscript><p class=\"note\">{}</p></noscript>", english.form_by_hand))
        );
        let lost = waiting(english, &wait(&Form::Lost));
        assert!(!lost.contains("<form") && lost.contains(english.form_lost));
        assert!(
            lost.contains("data-to=\"/a&#63;") && lost.contains("<noscript><a href=\"/a&#63;"),
            "it leads on, with a script and without: {lost}"
        );
        let sorry = waiting(english, &Wait { renewed: true, ..wait(&Form::None) });
        assert!(sorry.contains(english.missed));
    }

    #[test]
    fn who_is_let_in_and_gets_a_file_is_to_hear_so() {
        let english = &LANGUAGES[0];
        let page = waiting(english, &wait(&Form::None));
        let (_, said) = page.split_once("<template id=\"entered\">").expect("what the script shows then");
        assert!(said.contains("You have been let in") && said.contains("<a href=\"/a&#63;"), "{said}");
        let kept = waiting(english, &wait(&Form::Kept(Kept::url_decode(b"a=1").unwrap())));
        assert!(!kept.contains("You have been let in"), "a form that was sent stays: {kept}");
    }

    #[test]
    fn a_message_of_the_operator_is_only_text() {
        let page = turned_away(&LANGUAGES[0], "Closed", "<b>back</b> at noon", &Form::None);
        assert!(!page.contains("<b>") && page.contains("back"));
        assert!(
            page.contains("dir=\"auto\""),
            "it is written as it is, whatever the page's language: {page}"
        );
    }

    #[test]
    fn times_are_written_short() {
        assert_eq!([0, 65, 3725].map(|seconds| Clock(seconds).to_string()), ["0:00", "1:05", "1:02:05"]);
    }
}
