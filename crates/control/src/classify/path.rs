//! The one form of a path that rules match, whatever way of writing it the client chose.

use std::borrow::Cow;

/// The canonical form of `path`: two spellings that a server takes for the same resource give the
/// same form, so that no spelling evades a rule.
///
/// - Escapes of octets that may stand for themselves are decoded: `%61` is `a` (RFC 3986, section
///   6.2.2.2), and `%40` is `@`: servers decode those of reserved characters too. The separators
///   `/`, `;`, `%`, `?`, `#` and everything outside `!` to `~` stay escaped, in upper case
///   (6.2.2.1). So `%2F` is no separator; of servers that take it for one, most refuse it, but nginx does not.
/// - Octets that cannot stand for themselves, and a `%` that begins no escape, are escaped. The
///   form is plain ASCII.
/// - Parameters (`;` to the segment's end) are cut and empty segments are dropped, as servlet
///   containers do (Jakarta Servlet 6.0, section 3.5.2): `/shop;jsessionid=1//cart` is `/shop/cart`.
/// - Dot segments are removed (RFC 3986, section 5.2.4), after all that, never above the root.
/// - An empty path is `/` (6.2.3). What does not begin with `/` (such as `*`) has its octets
///   put into form and nothing else.
///
/// It serves for matching only; what is forwarded stays as received. Canonical paths come back
/// borrowed: one pass, no allocation. Others cost one allocation of at most three times their
/// length.
///
/// ```
/// use tidegate_control::classify::canonical_path;
///
/// assert_eq!(canonical_path("/shop/cart"), "/shop/cart");
/// // `%61` is `a`; the empty segment goes; `..` takes `b` with it.
/// assert_eq!(canonical_path("/%61dmin//b/../c%2fd"), "/admin/c%2Fd");
/// ```
#[must_use]
pub fn canonical_path(path: &str) -> Cow<'_, str> {
    if is_canonical(path) { Cow::Borrowed(path) } else { Cow::Owned(written(path, Dots::Removed)) }
}

/// The same form but for its dot segments, which stay: so a server sees the path that removes none, as many frameworks do.
/// `None` if there are none.
pub(super) fn path_with_dots(path: &str) -> Option<String> {
    has_dots(path).then(|| written(path, Dots::Kept))
}

/// Whether a path is one that servers read differently whatever is done with its dot segments:
///
/// - one of these is escaped or has parameters (`%2e%2e`, `..;x`): some take it for a name;
/// - `..` comes behind an empty segment (`//..`, `/;x/..`): some take it for the end of that, others for the end of the one before;
/// - it has a backslash: some take it for a slash.
///
/// No browser and no library sends any of these (URL, section 4.4), and Jakarta Servlet 6.0, section 3.5.2, has most refused, too.
///
/// ```
/// use tidegate_control::classify::is_ambiguous_path;
///
/// assert!(is_ambiguous_path("/shop/..;/admin") && is_ambiguous_path("/a//../b") && is_ambiguous_path("/a\\b"));
/// assert!(!is_ambiguous_path("/a/../b//c") && !is_ambiguous_path("/%2ehidden;x/...;y"));
/// ```
#[must_use]
pub fn is_ambiguous_path(path: &str) -> bool {
    if !path.contains("/.") && !path.contains(['%', '\\']) {
        return false;
    }
    let mut is_behind_empty = false;
    let is_ambiguous = |segment: &str| {
        let plain = segment.split(';').next().unwrap_or_default();
        let is_dots = matches!(&*plain.replace("%2e", ".").replace("%2E", "."), "." | "..");
        let is_plain = segment == "." || segment == ".." && !is_behind_empty;
        is_behind_empty |= plain.is_empty();
        is_dots && !is_plain
    };
    path.contains('\\') || path.split('/').skip(1).any(is_ambiguous)
}

fn has_dots(path: &str) -> bool {
    path.contains("/.") && path.split('/').any(|segment| matches!(segment, "." | ".."))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Dots {
    Removed,
    Kept,
}

fn written(path: &str, dots: Dots) -> String {
    let Some(rest) = path.strip_prefix('/') else {
        let mut out = String::with_capacity(path.len() + 2);
        if path.is_empty() {
            out.push('/');
        }
        push_segment(&mut out, path);
        return out;
    };
    let mut out = String::with_capacity(path.len() + 2);
    let mut ends_in_slash = true;
    for segment in rest.split('/') {
        let segment = segment.split(';').next().unwrap_or_default();
        let start = out.len();
        out.push('/');
        push_segment(&mut out, segment);
        ends_in_slash = match &out[start..] {
            "/" => {
                out.truncate(start);
                true
            }
            "/." if dots == Dots::Removed => {
                out.truncate(start);
                true
            }
            "/.." if dots == Dots::Removed => {
                out.truncate(start);
                out.truncate(out.rfind('/').unwrap_or(0));
                true
            }
            _ => false,
        };
    }
    if ends_in_slash {
        out.push('/');
    }
    out
}

/// Whether [`canonical_path`] would change nothing.
fn is_canonical(path: &str) -> bool {
    let Some(rest) = path.strip_prefix('/') else {
        return !path.is_empty() && octets_are_canonical(path.as_bytes());
    };
    let mut rest = rest.as_bytes();
    loop {
        let end = rest.iter().position(|&byte| byte == b'/');
        let (segment, after) = rest.split_at(end.unwrap_or(rest.len()));
        let is_allowed = match segment {
            b"" => end.is_none(),
            b"." | b".." => false,
            _ => octets_are_canonical(segment),
        };
        if !is_allowed {
            return false;
        }
        match after.get(1..) {
            Some(next) => rest = next,
            None => return true,
        }
    }
}

fn octets_are_canonical(segment: &[u8]) -> bool {
    let mut rest = segment;
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        if byte == b'%' {
            if escape(tail).is_none_or(stands_for_itself) || tail[..2].iter().any(u8::is_ascii_lowercase) {
                return false;
            }
            rest = &tail[2..];
        } else if !stands_for_itself(byte) {
            return false;
        }
    }
    true
}

/// Appends a segment with its octets in canonical form.
fn push_segment(out: &mut String, segment: &str) {
    let mut rest = segment.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        let mut byte = byte;
        if byte == b'%'
            && let Some(decoded) = escape(tail)
        {
            byte = decoded;
            rest = &tail[2..];
        }
        if stands_for_itself(byte) {
            out.push(char::from(byte));
        } else {
            const HEX: &[u8; 16] = b"0123456789ABCDEF";
            out.push('%');
            out.push(char::from(HEX[usize::from(byte >> 4)]));
            out.push(char::from(HEX[usize::from(byte & 15)]));
        }
    }
}

/// The octet that two hexadecimal digits at the start of `digits` stand for.
pub(super) fn escape(digits: &[u8]) -> Option<u8> {
    let digit = |at: usize| char::from(*digits.get(at)?).to_digit(16);
    u8::try_from(digit(0)? * 16 + digit(1)?).ok()
}

/// Whether the octet stands unescaped in a canonical path's segment.
const fn stands_for_itself(byte: u8) -> bool {
    matches!(byte, b'!'..=b'~') && !matches!(byte, b'/' | b';' | b'%' | b'?' | b'#')
}

#[cfg(test)]
mod tests;
