//! Text of others in a page of ours: escaped so that it stays text wherever it stands.

use std::fmt;

/// Displays a text so that it is only text in HTML: in content, and in attributes quoted or not.
///
/// Whatever is no letter or digit of ASCII becomes a character reference, which a browser decodes
/// after it has found where attribute and element end (HTML, section 13.2.5).
#[derive(Clone, Copy, Debug)]
pub(super) struct Escaped<'a>(pub(super) &'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0;
        // What may stay as it is goes in one piece.
        while let Some((plain, after)) = rest.find(is_special).map(|at| rest.split_at(at)) {
            f.write_str(plain)?;
            let mut characters = after.chars();
            match characters.next().unwrap_or_default() {
                // References to these are errors or mean something else.
                '\0' => f.write_str("\u{fffd}")?,
                '\r' => f.write_str("&#13;")?,
                character => write!(f, "&#{};", u32::from(character))?,
            }
            rest = characters.as_str();
        }
        f.write_str(rest)
    }
}

const fn is_special(character: char) -> bool {
    character.is_ascii()
        && !(character.is_ascii_alphanumeric() || matches!(character, '-' | '_' | '.' | ',' | ':' | '/'))
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
