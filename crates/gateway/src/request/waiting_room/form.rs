//! A form that was sent and must wait: its fields go into the page, which sends them again. Nothing of it stays here.

use std::fmt::Write;

use http::{HeaderMap, Method, header};
use percent_encoding::percent_decode;

use super::html::Escaped;

/// Fields of a form that is kept.
const FIELDS_MAX: usize = 500;

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
pub(super) struct Kept {
    fields: Vec<(String, String)>,
}

/// Whether a request is a form of a browser that may be offered again.
///
/// Only what a page of this very host has sent: offered again, a form of another site would be sent by a page of
/// ours, with the cookies that browsers keep from other sites' forms (`SameSite`).
pub(super) fn may_be_kept(method: &Method, headers: &HeaderMap, is_secure: bool, host: &str) -> bool {
    *method == Method::POST && is_form(headers) && is_same_origin(headers, is_secure, host)
}

fn is_form(headers: &HeaderMap) -> bool {
    let Some(Ok(sent)) = headers.get(header::CONTENT_TYPE).map(|sent| sent.to_str()) else { return false };
    let essence = sent.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case("application/x-www-form-urlencoded")
}

fn is_same_origin(headers: &HeaderMap, is_secure: bool, host: &str) -> bool {
    if let Some(site) = headers.get("sec-fetch-site") {
        return site == "same-origin";
    }
    let Some(Ok(origin)) = headers.get(header::ORIGIN).map(|origin| origin.to_str()) else { return false };
    let scheme = if is_secure { "https://" } else { "http://" };
    !host.is_empty() && origin.strip_prefix(scheme).is_some_and(|rest| rest.eq_ignore_ascii_case(host))
}

impl Kept {
    /// Reads a body of `application/x-www-form-urlencoded` (URL, section 5.1); `None` if it is none that could be sent
    /// again as it was.
    pub(super) fn parse(body: &[u8]) -> Option<Self> {
        let mut fields = Vec::new();
        for pair in body.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty()) {
            if fields.len() == FIELDS_MAX {
                return None;
            }
            let equals = pair.iter().position(|byte| *byte == b'=').unwrap_or(pair.len());
            let (name, value) = pair.split_at(equals);
            fields.push((decode(name)?, decode(value.get(1..).unwrap_or_default())?));
        }
        Some(Self { fields })
    }

    /// Writes it as a form that goes to `to`.
    pub(super) fn write(&self, page: &mut String, to: &str, send: &str) {
        let _ = writeln!(
            page,
            "<form id=\"form\" method=\"post\" action=\"{}\" accept-charset=\"utf-8\">",
            Escaped(to)
        );
        for (name, value) in &self.fields {
            let (name, value) = (Escaped(name), Escaped(value));
            let _ = writeln!(page, "<input type=\"hidden\" name=\"{name}\" value=\"{value}\">");
        }
        // A field may be called like a method of forms, but this button has no name.
        let _ = write!(page, "<button type=\"submit\">{send}</button>\n</form>\n");
    }
}

fn decode(text: &[u8]) -> Option<String> {
    let blanks: Vec<u8> = text.iter().map(|byte| if *byte == b'+' { b' ' } else { *byte }).collect();
    let text = percent_decode(&blanks).decode_utf8().ok()?.into_owned();
    // A browser would send it otherwise than it came.
    let is_changed = text.contains('\0') || text.replace("\r\n", "").contains(['\r', '\n']);
    (!is_changed).then_some(text)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn headers(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        fields.iter().map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn fields_come_back_as_they_were_and_are_only_text() {
        let kept =
            Kept::parse(b"name=Gr%C3%BC%C3%9Fe+%26+mehr&note=a%0D%0Ab&empty=&flag&x=%22%3E%3Cscript%3E")
                .unwrap();
        let mut page = String::new();
        kept.write(&mut page, "/buy?a=1&b=\"2", "Send");
        assert!(page.contains("name=\"name\" value=\"Grüße&#32;&#38;&#32;mehr\""), "{page}");
        assert!(page.contains("value=\"a&#13;&#10;b\""), "{page}");
        assert!(
            page.contains("name=\"empty\" value=\"\"") && page.contains("name=\"flag\" value=\"\""),
            "{page}"
        );
        assert!(page.contains("action=\"/buy&#63;a&#61;1&#38;b&#61;&#34;2\""), "{page}");
        assert!(!page.contains("<script>"), "{page}");
    }

    #[test]
    fn what_could_not_be_sent_again_is_not_kept() {
        for body in [&b"a=%ff"[..], b"a=%00", b"a=%0A", b"a=%0D"] {
            assert_eq!(Kept::parse(body), None, "{}", String::from_utf8_lossy(body));
        }
        assert_eq!(Kept::parse("a&".repeat(FIELDS_MAX + 1).as_bytes()), None);
        assert!(Kept::parse("a&".repeat(FIELDS_MAX).as_bytes()).is_some());
    }

    #[test]
    fn forms_of_other_sites_are_not_offered_again() {
        let form = ("content-type", "application/x-www-form-urlencoded; charset=utf-8");
        for (fields, secure, expected) in [
            (vec![form, ("sec-fetch-site", "same-origin")], false, true),
            (vec![form, ("sec-fetch-site", "cross-site"), ("origin", "http://shop.example")], false, false),
            (vec![form, ("sec-fetch-site", "same-site")], false, false),
            (vec![form, ("origin", "http://shop.example")], false, true),
            (vec![form, ("origin", "http://shop.example")], true, false),
            (vec![form, ("origin", "https://shop.example")], true, true),
            (vec![form, ("origin", "http://evil.example")], false, false),
            (vec![form, ("origin", "null")], false, false),
            (vec![form], false, false),
            (vec![("sec-fetch-site", "same-origin")], false, false),
            (vec![("content-type", "application/json"), ("sec-fetch-site", "same-origin")], false, false),
        ] {
            let kept = may_be_kept(&Method::POST, &headers(&fields), secure, "shop.example");
            assert_eq!(kept, expected, "{fields:?} {secure}");
            assert!(!may_be_kept(&Method::PUT, &headers(&fields), secure, "shop.example"));
        }
    }

    #[test]
    fn any_bytes_are_read_or_not() {
        bolero::check!().for_each(|bytes: &[u8]| {
            if let Some(kept) = Kept::parse(bytes) {
                let mut page = String::new();
                kept.write(&mut page, "/", "Send");
                assert_eq!(page.matches("<input").count(), kept.fields.len());
                assert_eq!(page.matches('<').count(), kept.fields.len() + 4);
            }
        });
    }
}
