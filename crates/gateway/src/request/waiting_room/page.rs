//! The page for those who wait: one document without anything from elsewhere, in the visitor's language, which works
//! without scripts.

use std::fmt::Write;

use http::HeaderValue;
use tidegate_control::Timestamp;

use super::{
    form::Form,
    html::Escaped,
    language::Language,
};
use crate::request::access_log::Rfc3339;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// What our page may do: its own style and script, by their digests, and requests to this host.
pub(super) const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; style-src 'sha256-STYLE_DIGEST'; script-src 'sha256-SCRIPT_DIGEST'; \
     connect-src 'self'; form-action 'self'; base-uri 'none'",
);

/// A visitor's wait, as a page shows it.
#[derive(Debug)]
pub(super) struct Wait<'a> {
    /// When it ends.
    pub(super) at: Timestamp,
    /// Until then, milliseconds.
    pub(super) left_ms: u64,
    /// From when the visitor first asked until then, milliseconds.
    pub(super) total_ms: u64,
    /// People promised before.
    pub(super) ahead: u64,
    /// Whether a promise was missed.
    pub(super) renewed: bool,
    /// Where the visitor goes on: path and query on this host.
    pub(super) to: &'a str,
    /// Where the page asks how things stand.
    pub(super) ask: &'a str,
    /// How often, milliseconds.
    pub(super) every_ms: u64,
    /// What the visitor had sent.
    pub(super) form: Form,
}

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
    let mut page = String::with_capacity(6 * 1024);
    head(&mut page, language, language.title);
    let Wait { left_ms, total_ms, every_ms, ahead, .. } = *wait;
    let total_ms = total_ms.max(left_ms);
    // Writing to a String does not fail.
    let _ = write!(
        page,
        "<body data-left=\"{left_ms}\" data-total=\"{total_ms}\" data-every=\"{every_ms}\" data-to=\"{}\" data-ask=\"{}\">\n\
         <main>\n<h1>{}</h1>\n<p>{}</p>\n",
        Escaped(wait.to),
        Escaped(wait.ask),
        language.title,
        language.lead
    );
    if wait.renewed {
        let _ = writeln!(page, "<p class=\"note\" role=\"alert\">{}</p>", language.missed);
    }
    let at = Rfc3339(wait.at).to_string();
    let _ = write!(
        page,
        "<dl>\n<dt>{}</dt><dd><time id=\"at\" datetime=\"{at}\">{} UTC</time></dd>\n\
         <dt>{}</dt><dd id=\"left\" role=\"timer\">{}</dd>\n\
         <dt>{}</dt><dd id=\"ahead\" aria-live=\"polite\">{ahead}</dd>\n</dl>\n\
         <progress id=\"progress\" max=\"100\" value=\"{}\" aria-label=\"{}\"></progress>\n",
        language.entry_at,
        at.get(11..19).unwrap_or_default(),
        language.left,
        clock(wait.left_s()),
        language.ahead,
        wait.progress(),
        language.progress
    );
    match &wait.form {
        Form::None => {
            let _ = write!(
                page,
                "<p class=\"soft\">{}</p>\n<noscript><a href=\"{}\">{}</a></noscript>\n",
                language.keep,
                Escaped(wait.to),
                language.enter
            );
        }
        Form::Kept(kept) => {
            let _ = writeln!(page, "<p class=\"note\">{}</p>", language.form_kept);
            kept.write(&mut page, wait.to, language.form_send);
        }
        Form::Lost => {
            let _ = writeln!(page, "<p class=\"note\">{}</p>", language.form_lost);
        }
    }
    let _ = write!(page, "</main>\n<script>{SCRIPT}</script>\n</body>\n</html>\n");
    page
}

/// Our page for a visitor who gets no time.
pub(super) fn turned_away(language: &Language, title: &str, text: &str) -> String {
    let mut page = String::with_capacity(3 * 1024);
    head(&mut page, language, title);
    let _ = write!(
        page,
        "<body>\n<main>\n<h1>{title}</h1>\n<p role=\"status\">{}</p>\n</main>\n</body>\n</html>\n",
        Escaped(text)
    );
    page
}

fn head(page: &mut String, language: &Language, title: &str) {
    let Language { tag, direction, .. } = language;
    let _ = write!(
        page,
        "<!doctype html>\n<html lang=\"{tag}\" dir=\"{direction}\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n\
         <meta name=\"robots\" content=\"noindex\">\n<title>{title}</title>\n<style>{STYLE}</style>\n</head>\n"
    );
}

/// `2:05`, `1:02:05`.
pub(super) fn clock(seconds: u64) -> String {
    let (hours, minutes, rest) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match hours {
        0 => format!("{minutes}:{rest:02}"),
        _ => format!("{hours}:{minutes:02}:{rest:02}"),
    }
}
