//! A form that was sent and must wait: its fields go into the page, which sends them again. Nothing of it stays here.
//!
//! Files do not fit into a page that works without scripts: it names them, and asks for them once more.

use std::{fmt::Write, time::Duration};

use http::{HeaderMap, Method, Uri, header};
use percent_encoding::percent_decode;

use super::{charset, html::Escaped, language::Language, multipart};

/// Fields of a form that is kept.
const FIELDS_MAX: usize = 500;

/// A form that comes more slowly than this is a page's that was left.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The same of one that may hold files.
const FILES_TIMEOUT: Duration = Duration::from_secs(60);

/// What became of what a visitor has sent.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Nothing was sent.
    None,
    /// The page sends it again.
    Kept(Kept),
    /// The visitor has to send it again.
    Lost,
}

/// The fields of a form, in order.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::request) struct Kept {
    fields: Vec<Field>,
    is_multipart: bool,
    /// In which a browser is to write it.
    charset: &'static str,
}

#[derive(Debug, PartialEq, Eq)]
struct Field {
    name: String,
    content: Content,
}

#[derive(Debug, PartialEq, Eq)]
enum Content {
    Text(String),
    /// Files that have to be chosen again.
    Files(Vec<String>),
    /// No file was chosen.
    NoFile,
}

/// How a form is written that may be offered again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    UrlEncoded,
    Multipart { boundary: String },
}

/// How a request's form is written, if it is one of a browser that may be offered again.
///
/// Only what a page of this very host has sent, or of the room's `other` one, as `http://host:port`: offered again, a form
/// of another site would be sent by a page of ours, with the cookies that browsers keep from other sites' forms
/// (`SameSite`). Where the other host sends it here a browser names that host still, but if its page was another site's: then it
/// says `null` (Fetch, section 4.4). Chromium says `null` in either case, and its forms are lost.
pub(super) fn may_be_kept(
    method: &Method,
    headers: &HeaderMap,
    is_secure: bool,
    host: &str,
    other: Option<&str>,
) -> Option<Encoding> {
    let is_of_other =
        || other.is_some_and(|other| origin(headers).is_some_and(|origin| is_same(origin, other)));
    if *method != Method::POST || !is_same_origin(headers, is_secure, host) && !is_of_other() {
        return None;
    }
    if is_url_encoded(headers) {
        return Some(Encoding::UrlEncoded);
    }
    multipart::boundary(headers).map(|boundary| Encoding::Multipart { boundary })
}

fn is_url_encoded(headers: &HeaderMap) -> bool {
    let Some(Ok(sent)) = headers.get(header::CONTENT_TYPE).map(|sent| sent.to_str()) else { return false };
    let essence = sent.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case("application/x-www-form-urlencoded")
}

fn is_same_origin(headers: &HeaderMap, is_secure: bool, host: &str) -> bool {
    if let Some(site) = headers.get("sec-fetch-site") {
        return site == "same-origin";
    }
    !host.is_empty() && origin(headers).is_some_and(|origin| is_same(origin, &origin_of(is_secure, host)))
}

fn origin(headers: &HeaderMap) -> Option<&str> {
    headers.get(header::ORIGIN)?.to_str().ok()
}

fn origin_of(is_secure: bool, host: &str) -> String {
    format!("{}://{host}", if is_secure { "https" } else { "http" })
}

/// Whether two origins are one: browsers leave out the port that a scheme has anyway.
fn is_same(one: &str, other: &str) -> bool {
    fn short(origin: &str) -> &str {
        let port = if origin.starts_with("https:") { ":443" } else { ":80" };
        origin.strip_suffix(port).unwrap_or(origin)
    }
    short(one).eq_ignore_ascii_case(short(other))
}

/// Path and query of the page of this host that has sent a form, if its browser says so.
pub(super) fn page_of(headers: &HeaderMap, is_secure: bool, host: &str) -> Option<Uri> {
    let page: Uri = headers.get(header::REFERER)?.to_str().ok()?.parse().ok()?;
    let origin = format!("{}://{}", page.scheme()?, page.authority()?);
    let is_ours = !host.is_empty() && is_same(&origin, &origin_of(is_secure, host));
    let target = page.path_and_query().filter(|_| is_ours)?;
    Some(target.clone().into())
}

/// A form as far as it has come.
#[derive(Debug)]
pub(in crate::request) enum Reader {
    /// All of it, of so many bytes at most.
    UrlEncoded { body: Vec<u8>, bytes_max: usize },
    /// Its texts.
    Multipart(multipart::Reader),
}

impl Reader {
    /// Of a form of `bytes_max` bytes at most, besides `files_max` of files.
    pub(super) fn new(encoding: &Encoding, bytes_max: u64, files_max: u64) -> Self {
        let bytes_max = usize::try_from(bytes_max).unwrap_or(usize::MAX);
        match encoding {
            Encoding::UrlEncoded => Self::UrlEncoded { body: Vec::new(), bytes_max },
            Encoding::Multipart { boundary } => {
                Self::Multipart(multipart::Reader::new(boundary, bytes_max, files_max))
            }
        }
    }

    /// How long its sender may take.
    pub(in crate::request) const fn timeout(&self) -> Duration {
        match self {
            Self::UrlEncoded { .. } => TIMEOUT,
            Self::Multipart(_) => FILES_TIMEOUT,
        }
    }

    /// Reads on; whether that may become a form that is kept.
    #[must_use]
    pub(in crate::request) fn push(&mut self, bytes: &[u8]) -> bool {
        match self {
            Self::UrlEncoded { body, bytes_max } => {
                let fits = body.len() + bytes.len() <= *bytes_max;
                if fits {
                    body.extend_from_slice(bytes);
                }
                fits
            }
            Self::Multipart(reader) => reader.push(bytes).is_ok(),
        }
    }

    /// Bytes that are kept of what was read.
    pub(in crate::request) const fn held(&self) -> u64 {
        match self {
            Self::UrlEncoded { body, .. } => body.len() as u64,
            Self::Multipart(reader) => reader.held(),
        }
    }

    /// The form, if all of it has come and it can be sent again as it was.
    pub(in crate::request) fn finish(self) -> Option<Kept> {
        match self {
            Self::UrlEncoded { body, .. } => Kept::url_decode(&body),
            Self::Multipart(reader) => reader.finish(),
        }
    }
}

impl Kept {
    /// Reads a body of `application/x-www-form-urlencoded` (URL, section 5.1); `None` if it is none that could be sent
    /// again as it was.
    pub(super) fn url_decode(body: &[u8]) -> Option<Self> {
        let mut kept = Self { fields: Vec::new(), is_multipart: false, charset: charset::UTF_8 };
        for pair in body.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty()) {
            let equals = pair.iter().position(|byte| *byte == b'=').unwrap_or(pair.len());
            let (name, value) = pair.split_at(equals);
            kept.add_text(&decode(name), &decode(value.get(1..).unwrap_or_default()))?;
        }
        kept.whole()
    }

    /// A form of `multipart/form-data`, without fields yet.
    pub(super) const fn multipart() -> Self {
        Self { fields: Vec::new(), is_multipart: true, charset: charset::UTF_8 }
    }

    /// Adds a field; `None` if it would not be sent again as it is.
    pub(super) fn add_text(&mut self, name: &[u8], value: &[u8]) -> Option<()> {
        let [name, value] = self.read_texts([name, value]);
        let is_changed = |text: &str| text.contains('\0') || text.replace("\r\n", "").contains(['\r', '\n']);
        if is_changed(&name) || is_changed(&value) {
            return None;
        }
        self.add(name, Content::Text(value))
    }

    /// Adds a file of a field; `None` if the visitor could not choose it again in such a form.
    pub(super) fn add_file(&mut self, name: &[u8], file: &[u8], is_empty: bool) -> Option<()> {
        let [name, file] = self.read_texts([name, file]);
        if file.is_empty() {
            return if is_empty { self.add(name, Content::NoFile) } else { None };
        }
        // A control for folders sends paths.
        if file.contains('/') {
            return None;
        }
        match self.fields.last_mut() {
            Some(Field { name: last, content: Content::Files(files) }) if *last == name => files.push(file),
            _ => self.add(name, Content::Files(vec![file]))?,
        }
        Some(())
    }

    /// The form, all of it having come; `None` if it would not be sent again as it is.
    pub(super) fn whole(self) -> Option<Self> {
        // A browser fills this one in by itself (HTML, section 4.10.21.4).
        let is_changed = |field: &Field| match &field.content {
            Content::Text(value) => field.name.eq_ignore_ascii_case("_charset_") && value != self.charset,
            Content::Files(_) | Content::NoFile => false,
        };
        if self.fields.iter().any(is_changed) { None } else { Some(self) }
    }

    /// The texts for which a browser writes these bytes. Of a form with any that are not UTF-8 all are bytes.
    fn read_texts(&mut self, bytes: [&[u8]; 2]) -> [String; 2] {
        if self.charset == charset::UTF_8 {
            if let [Ok(one), Ok(other)] = bytes.map(str::from_utf8) {
                return [one.to_owned(), other.to_owned()];
            }
            self.charset = charset::WINDOWS_1252;
            let as_bytes = |text: &mut String| *text = charset::of_bytes(text.as_bytes());
            for Field { name, content } in &mut self.fields {
                as_bytes(name);
                match content {
                    Content::Text(value) => as_bytes(value),
                    Content::Files(files) => files.iter_mut().for_each(as_bytes),
                    Content::NoFile => {}
                }
            }
        }
        bytes.map(charset::of_bytes)
    }

    /// A field without a name is not sent.
    fn add(&mut self, name: String, content: Content) -> Option<()> {
        let is_kept = self.fields.len() < FIELDS_MAX && !name.is_empty();
        is_kept.then(|| self.fields.push(Field { name, content }))
    }

    /// Writes it as a form that goes to `to`.
    pub(super) fn write(&self, page: &mut String, to: &str, language: &Language) {
        let encoding = if self.is_multipart { " enctype=\"multipart/form-data\"" } else { "" };
        let _ = writeln!(
            page,
            "<form id=\"form\" method=\"post\" action=\"{}\"{encoding} accept-charset=\"{}\">",
            Escaped(to),
            self.charset
        );
        if self.fields.iter().any(|field| matches!(field.content, Content::Files(_))) {
            let _ = writeln!(page, "<p>{}</p>", language.form_files);
        }
        for Field { name, content } in &self.fields {
            content.write(page, Escaped(name));
        }
        // A field may be called like a method of forms, but this button has no name.
        let _ = write!(page, "<button type=\"submit\">{}</button>\n</form>\n", language.form_send);
    }
}

impl Content {
    fn write(&self, page: &mut String, name: Escaped<'_>) {
        let _ = match self {
            Self::Text(value) => {
                writeln!(page, "<input type=\"hidden\" name=\"{name}\" value=\"{}\">", Escaped(value))
            }
            Self::Files(files) => {
                // Browsers write a quote in a name so, and it alone of what can be seen.
                let shown = |file: &String| format!("<bdi>{}</bdi>", Escaped(&file.replace("%22", "\"")));
                let names: Vec<String> = files.iter().map(shown).collect();
                let several = if files.len() > 1 { " multiple" } else { "" };
                let names = names.join(", ");
                writeln!(
                    page,
                    "<label>{names} <input type=\"file\" name=\"{name}\"{several} required></label>"
                )
            }
            Self::NoFile => writeln!(page, "<input type=\"file\" name=\"{name}\" hidden>"),
        };
    }
}

fn decode(text: &[u8]) -> Vec<u8> {
    let blanks: Vec<u8> = text.iter().map(|byte| if *byte == b'+' { b' ' } else { *byte }).collect();
    percent_decode(&blanks).collect()
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;
    use crate::request::waiting_room::language::LANGUAGES;

    impl Kept {
        /// Names and texts, in order.
        pub(in super::super) fn texts(&self) -> impl Iterator<Item = (&str, &[u8])> {
            self.fields.iter().filter_map(|Field { name, content }| match content {
                Content::Text(value) => Some((name.as_str(), value.as_bytes())),
                Content::Files(_) | Content::NoFile => None,
            })
        }
    }

    fn headers(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        fields.iter().map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn fields_come_back_as_they_were_and_are_only_text() {
        let kept =
            Kept::url_decode(b"name=Gr%C3%BC%C3%9Fe+%26+mehr&note=a%0D%0Ab&empty=&flag&x=%22%3E%3Cscript%3E")
                .unwrap();
        let mut page = String::new();
        kept.write(&mut page, "/buy?a=1&b=\"2", &LANGUAGES[0]);
        assert!(page.contains("name=\"name\" value=\"Grüße&#32;&#38;&#32;mehr\""), "{page}");
        assert!(page.contains("value=\"a&#13;&#10;b\""), "{page}");
        assert!(
            page.contains("name=\"empty\" value=\"\"") && page.contains("name=\"flag\" value=\"\""),
            "{page}"
        );
        assert!(page.contains("action=\"/buy&#63;a&#61;1&#38;b&#61;&#34;2\""), "{page}");
        assert!(!page.contains("<script>"), "{page}");
    }

    /// The texts mean nothing: what counts is which bytes a browser writes for them.
    #[test]
    fn bytes_of_other_charsets_come_back_as_they_were() {
        for (body, charset, name, value) in [
            (&b"a=%E9"[..], "windows-1252", "a", "é"),
            (b"pr\xE9nom=Ren\xE9", "windows-1252", "prénom", "René"),
            (b"preis=5+%80%81", "windows-1252", "preis", "5&#32;€\u{81}"),
            // Shift_JIS, and a field that could be UTF-8 beside one that could not.
            (b"b=%83%65", "windows-1252", "b", "ƒe"),
            (b"a=%C3%A9&b=%E9", "windows-1252", "a", "Ã©"),
            (b"_charset_=windows-1252&a=%E9", "windows-1252", "a", "é"),
            (b"_charset_=UTF-8&a=%C3%A9", "UTF-8", "a", "é"),
        ] {
            let mut page = String::new();
            Kept::url_decode(body).unwrap().write(&mut page, "/", &LANGUAGES[0]);
            assert!(page.contains(&format!("accept-charset=\"{charset}\"")), "{page}");
            assert!(page.contains(&format!("name=\"{name}\" value=\"{value}\"")), "{page}");
        }
    }

    #[test]
    fn what_could_not_be_sent_again_is_not_kept() {
        for body in [&b"a=%00"[..], b"a=%0A", b"a=%0D", b"=a", b"_charset_=x", b"_charset_=UTF-8&a=%ff"] {
            assert_eq!(Kept::url_decode(body), None, "{}", String::from_utf8_lossy(body));
        }
        assert_eq!(Kept::url_decode("a&".repeat(FIELDS_MAX + 1).as_bytes()), None);
        assert!(Kept::url_decode("a&".repeat(FIELDS_MAX).as_bytes()).is_some());
    }

    #[test]
    fn forms_of_other_sites_are_not_offered_again() {
        let form = ("content-type", "application/x-www-form-urlencoded; charset=utf-8");
        let files = ("content-type", "multipart/form-data; boundary=x");
        for (fields, secure, expected) in [
            (vec![form, ("sec-fetch-site", "same-origin")], false, true),
            (vec![form, ("sec-fetch-site", "cross-site"), ("origin", "http://shop.example")], false, false),
            (vec![form, ("sec-fetch-site", "same-site")], false, false),
            (vec![files, ("sec-fetch-site", "same-origin")], false, true),
            (vec![files, ("sec-fetch-site", "cross-site")], false, false),
            (vec![form, ("origin", "http://shop.example")], false, true),
            (vec![form, ("origin", "http://shop.example")], true, false),
            (vec![form, ("origin", "https://shop.example")], true, true),
            (vec![form, ("origin", "http://evil.example")], false, false),
            (vec![form, ("origin", "null")], false, false),
            (vec![form], false, false),
            (vec![("sec-fetch-site", "same-origin")], false, false),
            (vec![("content-type", "application/json"), ("sec-fetch-site", "same-origin")], false, false),
        ] {
            let kept = may_be_kept(&Method::POST, &headers(&fields), secure, "shop.example", None);
            assert_eq!(kept.is_some(), expected, "{fields:?} {secure}");
            assert_eq!(may_be_kept(&Method::PUT, &headers(&fields), secure, "shop.example", None), None);
        }
    }

    #[test]
    fn forms_of_the_other_process_are_offered_again_and_of_nobody_else() {
        let form = ("content-type", "application/x-www-form-urlencoded");
        let site = ("sec-fetch-site", "cross-site");
        for (origin, other, expected) in [
            ("https://shop.example", Some("https://shop.example:443"), true),
            ("http://shop.example:81", Some("http://shop.example:81"), true),
            ("http://shop.example", Some("https://shop.example:443"), false),
            ("https://shop.example:80", Some("https://shop.example:443"), false),
            ("https://shop.example.evil.example", Some("https://shop.example:443"), false),
            ("https://evil.example", Some("https://shop.example:443"), false),
            ("null", Some("https://shop.example:443"), false),
            ("https://shop.example", None, false),
        ] {
            let fields = headers(&[form, site, ("origin", origin)]);
            let kept = may_be_kept(&Method::POST, &fields, true, "queue.example", other);
            assert_eq!(kept.is_some(), expected, "{origin} {other:?}");
        }
        assert_eq!(
            may_be_kept(&Method::POST, &headers(&[form, site]), true, "q", Some("https://q:443")),
            None
        );
    }

    #[test]
    fn the_page_of_a_form_is_one_of_this_host() {
        for (referer, secure, expected) in [
            ("http://shop.example/cart?a=1", false, Some("/cart?a=1")),
            ("http://SHOP.example:80", false, Some("/")),
            ("https://shop.example//evil.example", true, Some("//evil.example")),
            ("http://shop.example/cart", true, None),
            ("http://shop.example@evil.example/cart", false, None),
            ("http://evil.example/cart", false, None),
            ("/cart", false, None),
            ("about:blank", false, None),
        ] {
            let page = page_of(&headers(&[("referer", referer)]), secure, "shop.example");
            assert_eq!(page.as_ref().map(ToString::to_string).as_deref(), expected, "{referer}");
        }
        assert_eq!(page_of(&headers(&[]), false, "shop.example"), None);
    }

    #[test]
    fn any_bytes_are_read_or_not() {
        bolero::check!().for_each(|bytes: &[u8]| {
            if let Some(kept) = Kept::url_decode(bytes) {
                let mut page = String::new();
                kept.write(&mut page, "/", &LANGUAGES[0]);
                assert_eq!(page.matches("<input").count(), kept.fields.len());
                assert_eq!(page.matches('<').count(), kept.fields.len() + 4);
            }
        });
    }
}
