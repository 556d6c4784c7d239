//! Text of others in a page of ours: escaped so that it stays text wherever it stands.

use std::fmt::{self, Write};

/// Displays a text so that it is only text in HTML: in content, and in attributes quoted or not.
///
/// Whatever is no letter or digit of ASCII becomes a character reference, which a browser decodes
/// after it has found where attribute and element end (HTML, section 13.2.5).
#[derive(Clone, Copy, Debug)]
pub(super) struct Escaped<'a>(pub(super) &'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            match character {
                'a'..='z' | 'A'..='Z' | '0'..='9' | '-' | '_' | '.' | ',' | ':' | '/' => {
                    f.write_char(character)?;
                }
                // References to these are errors or mean something else.
                '\0' => f.write_str("\u{fffd}")?,
                '\r' => f.write_str("&#13;")?,
                _ if character.is_ascii() => write!(f, "&#{};", u32::from(character))?,
                _ => f.write_char(character)?,
            }
        }
        Ok(())
    }
}

/// A request's path and query as a reference that stays on this host: a path that begins with two slashes would
/// name another one (RFC 3986, section 4.2), and so would a backslash in a browser.
pub(super) fn same_host(target: &str) -> String {
    let second = target.as_bytes().get(1);
    match target.strip_prefix('/') {
        Some(_) if matches!(second, Some(b'/' | b'\\')) => format!("/.{target}"),
        Some(_) => target.to_owned(),
        None => "/".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_markup_is_left() {
        let hostile = "\"'><script>alert(1)</script>`=&amp;\r\n\0 \u{2028}é中";
        let escaped = Escaped(hostile).to_string();
        assert!(!escaped.contains(['"', '\'', '<', '>', '`', '=', '(', '\n', '\r', '\0']), "{escaped}");
        assert!(escaped.ends_with("é中"));
        assert_eq!(Escaped("a&b").to_string(), "a&#38;b");
    }

    #[test]
    fn references_stay_on_this_host() {
        for (target, reference) in [
            ("/a?b=c", "/a?b=c"),
            ("/", "/"),
            ("//evil.example/x", "/.//evil.example/x"),
            ("/\\evil.example", "/./\\evil.example"),
            ("*", "/"),
            ("", "/"),
            ("http://evil.example/", "/"),
        ] {
            assert_eq!(same_host(target), reference, "{target}");
        }
    }

    #[test]
    fn any_text_is_only_text() {
        bolero::check!().with_type::<String>().for_each(|text| {
            let escaped = Escaped(text).to_string();
            assert!(!escaped.contains(['<', '>', '"', '\'', '`', '=', '\n', '\t']));
        });
    }
}
