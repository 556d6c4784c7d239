//! The form of a message of ours, by the client's `Accept` (RFC 9110, section 12.5.1).

use http::HeaderValue;

/// A form our own messages come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// A problem document (RFC 9457), also for whoever takes anything.
    Problem,
    /// A small page.
    Html,
    /// Plain text, for whoever asks for something we do not have.
    Text,
}

/// How well a form suits a client: quality in thousandths, then how exactly it was named.
type Suits = (u16, u8);

impl Form {
    /// The form a client likes best; more exactly named wins a tie, then the order of the enum.
    pub(super) fn negotiate<'a>(accept: impl Iterator<Item = &'a HeaderValue>) -> Self {
        // The best match of each form; a more exact range replaces a less exact one whatever its
        // quality, so that `text/html;q=0, */*` means "no HTML".
        let mut best: [Option<Suits>; 3] = [None; 3];
        let mut asked = false;
        for value in accept {
            for range in value.as_bytes().split(|byte| *byte == b',').take(RANGES_MAX) {
                asked |= !range.trim_ascii().is_empty();
                let Some((media, quality)) = media_range(range) else { continue };
                for (form, best) in FORMS.into_iter().zip(&mut best) {
                    if let Some(exactness) = form.matches(media)
                        && best.is_none_or(|(_, other)| exactness >= other)
                    {
                        *best = Some((quality, exactness));
                    }
                }
            }
        }
        if !asked {
            return Self::Problem;
        }
        let mut winner = (Self::Text, (0, 0));
        for (form, suits) in FORMS.into_iter().zip(best) {
            if let Some(suits) = suits
                && suits > winner.1
                && suits.0 > 0
            {
                winner = (form, suits);
            }
        }
        winner.0
    }

    /// The media type.
    pub(super) const fn media_type(self) -> HeaderValue {
        match self {
            Self::Problem => HeaderValue::from_static("application/problem+json"),
            Self::Html => HeaderValue::from_static("text/html; charset=utf-8"),
            Self::Text => HeaderValue::from_static("text/plain; charset=utf-8"),
        }
    }

    /// How exactly a range names this form; `None` if it does not.
    fn matches(self, media: &[u8]) -> Option<u8> {
        let is = |name: &[u8]| media.eq_ignore_ascii_case(name);
        let (exact, family): (bool, &[u8]) = match self {
            Self::Problem => (is(b"application/problem+json") || is(b"application/json"), b"application/*"),
            Self::Html => (is(b"text/html") || is(b"application/xhtml+xml"), b"text/*"),
            Self::Text => (is(b"text/plain"), b"text/*"),
        };
        match () {
            () if exact => Some(3),
            () if is(family) => Some(2),
            () if is(b"*/*") => Some(1),
            () => None,
        }
    }
}

const FORMS: [Form; 3] = [Form::Problem, Form::Html, Form::Text];

/// Ranges looked at; the rest of a longer list is not.
const RANGES_MAX: usize = 32;

/// A media range without its parameters, and its quality in thousandths.
fn media_range(range: &[u8]) -> Option<(&[u8], u16)> {
    let mut parts = range.split(|byte| *byte == b';');
    let media = parts.next()?.trim_ascii();
    if !media.contains(&b'/') {
        return None;
    }
    let mut quality = 1000;
    for part in parts {
        let part = part.trim_ascii();
        if let [b'q' | b'Q', b'=', value @ ..] = part {
            quality = thousandths(value)?;
        }
    }
    Some((media, quality))
}

/// A quality value: `0`, `1`, or one of them with up to three decimals.
fn thousandths(value: &[u8]) -> Option<u16> {
    let (whole, decimals) = match value {
        [whole @ (b'0' | b'1')] => (*whole, &[][..]),
        [whole @ (b'0' | b'1'), b'.', decimals @ ..] if decimals.len() <= 3 => (*whole, decimals),
        _ => return None,
    };
    let mut quality = u16::from(whole - b'0') * 1000;
    let mut unit = 100;
    for digit in decimals {
        if !digit.is_ascii_digit() {
            return None;
        }
        quality += u16::from(digit - b'0') * unit;
        unit /= 10;
    }
    (quality <= 1000).then_some(quality)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn negotiate(accept: &str) -> Form {
        Form::negotiate(HeaderValue::from_bytes(accept.as_bytes()).iter())
    }

    #[test]
    fn clients_get_what_they_like_best() {
        for (accept, form) in [
            ("", Form::Problem),
            ("*/*", Form::Problem),
            ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", Form::Html),
            ("application/json", Form::Problem),
            ("application/problem+json;q=0.5, text/html;q=0.4", Form::Problem),
            ("application/json;q=0.4, text/html;q=0.5", Form::Html),
            ("text/html;q=0, */*", Form::Problem),
            ("text/html;q=0, text/*", Form::Text),
            ("text/plain", Form::Text),
            ("text/*", Form::Html),
            ("image/png", Form::Text),
            ("application/json;q=0", Form::Text),
            ("text/html;q=2, text/plain", Form::Text),
            ("TEXT/HTML; Q=0.7", Form::Html),
            ("nonsense", Form::Text),
        ] {
            assert_eq!(negotiate(accept), form, "{accept}");
        }
        assert_eq!(Form::negotiate(std::iter::empty()), Form::Problem);
    }

    #[test]
    fn any_bytes_give_a_form() {
        bolero::check!().for_each(|bytes: &[u8]| {
            if let Ok(value) = HeaderValue::from_bytes(bytes) {
                let _ = Form::negotiate([&value].into_iter());
            }
            if let Some(quality) = thousandths(bytes) {
                assert!(quality <= 1000);
            }
        });
    }
}
