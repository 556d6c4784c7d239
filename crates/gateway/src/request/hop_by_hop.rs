//! Fields that end at this hop, in both directions (RFC 9110, section 7.6.1).

use http::{HeaderMap, HeaderName, HeaderValue, header};

use crate::http1::{ends_here, members};

/// What `Connection` says of the connection itself: these name no field.
fn is_option(token: &[u8]) -> bool {
    token.eq_ignore_ascii_case(b"close") || token.eq_ignore_ascii_case(b"keep-alive")
}

/// Fields that `Connection` cannot take away: naming them there is an attack on whoever comes next,
/// and what a body's length is, is not the sender's to hide.
fn is_protected(name: &HeaderName) -> bool {
    matches!(*name, header::HOST | header::CONTENT_LENGTH | header::TRANSFER_ENCODING | header::TE)
}

/// Removes the fields that end at this hop. `TE` is left saying `trailers`, or nothing.
///
/// Few messages have more than one of them, so it goes once over the fields that are there instead of
/// looking up each that may be: that would hash ten names.
pub(super) fn remove(headers: &mut HeaderMap) {
    let (mut connection, mut names_others, mut te) = (false, false, false);
    let mut others = Vec::new();
    for (name, value) in &*headers {
        match *name {
            header::CONNECTION => {
                connection = true;
                names_others |= !is_option(value.as_bytes());
            }
            header::TE => te = true,
            _ if ends_here(name) => others.push(name.clone()),
            _ => {}
        }
    }
    if names_others {
        let named = tokens(headers, &header::CONNECTION)
            .filter(|token| !is_option(token))
            .filter_map(|token| HeaderName::from_bytes(token).ok())
            .filter(|name| !is_protected(name));
        others.extend(named);
    }
    if connection {
        headers.remove(header::CONNECTION);
    }
    for name in others {
        headers.remove(name);
    }
    if te {
        let trailers = tokens(headers, &header::TE).any(|token| token.eq_ignore_ascii_case(b"trailers"));
        headers.remove(header::TE);
        if trailers {
            headers.insert(header::TE, HeaderValue::from_static("trailers"));
        }
    }
}

/// The first line of a field, found by going over those that are there: for some dozen of them that
/// costs less than hashing the name.
pub(super) fn find<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a HeaderValue> {
    headers.iter().find(|(other, _)| *other == name).map(|(_, value)| value)
}

/// The protocols a request asks for: `Upgrade`, all its lines as one, where `Connection` names it.
///
/// `h2c` is none: a server that took it would speak HTTP/2 past every rule here.
pub(super) fn upgrade(headers: &HeaderMap) -> Option<HeaderValue> {
    let named = tokens(headers, &header::CONNECTION).any(|token| token.eq_ignore_ascii_case(b"upgrade"));
    let protocols: Vec<_> = tokens(headers, &header::UPGRADE).collect();
    let h2c = protocols.iter().any(|token| token.eq_ignore_ascii_case(b"h2c"));
    if !named || h2c || protocols.is_empty() {
        return None;
    }
    HeaderValue::from_bytes(&protocols.join(&b", "[..])).ok()
}

/// Whether a server changes to what was asked for: to members of the field it was sent, one at least. Names of protocols are
/// compared without case (RFC 9110, section 7.8).
pub(super) fn is_among(chosen: &HeaderValue, asked: &HeaderValue) -> bool {
    let mut chosen = members(chosen).filter(|token| !token.is_empty()).peekable();
    let was_asked = |token: &[u8]| members(asked).any(|asked| asked.eq_ignore_ascii_case(token));
    chosen.peek().is_some() && chosen.all(was_asked)
}

/// The members of a comma-separated field, all its lines in turn, without blanks.
fn tokens<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a [u8]> {
    headers.get_all(name).iter().flat_map(members).filter(|token| !token.is_empty())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn map(fields: &[(&str, &str)]) -> HeaderMap {
        fields
            .iter()
            .map(|(name, value)| {
                (HeaderName::from_bytes(name.as_bytes()).unwrap(), HeaderValue::from_str(value).unwrap())
            })
            .collect()
    }

    #[test]
    fn named_and_well_known_fields_go_and_the_rest_stays() {
        let mut headers = map(&[
            ("connection", "close, X-Private"),
            ("connection", "x-other,,host"),
            ("x-private", "1"),
            ("x-other", "2"),
            ("x-kept", "3"),
            ("host", "a.example"),
            ("keep-alive", "timeout=5"),
            ("proxy-connection", "keep-alive"),
            ("proxy-authorization", "Basic eA=="),
            ("te", "gzip, trailers"),
            ("trailer", "x-sum"),
            ("upgrade", "websocket"),
            ("transfer-encoding", "chunked"),
        ]);
        remove(&mut headers);
        assert_eq!(
            headers,
            map(&[("x-kept", "3"), ("host", "a.example"), ("te", "trailers"), ("trailer", "x-sum")])
        );
    }

    #[test]
    fn an_upgrade_needs_connection_to_name_it_and_is_never_h2c() {
        assert_eq!(upgrade(&map(&[("upgrade", "websocket")])), None);
        assert_eq!(
            upgrade(&map(&[("upgrade", "websocket"), ("connection", "keep-alive, Upgrade")])),
            Some(HeaderValue::from_static("websocket"))
        );
        let two = map(&[("upgrade", "a/1"), ("upgrade", "websocket,b"), ("connection", "upgrade")]);
        assert_eq!(upgrade(&two), Some(HeaderValue::from_static("a/1, websocket, b")));
        assert_eq!(upgrade(&map(&[("upgrade", " "), ("connection", "upgrade")])), None);
        assert_eq!(upgrade(&map(&[("upgrade", "websocket, H2C"), ("connection", "upgrade")])), None);
    }

    #[test]
    fn a_server_changes_to_what_was_asked_for_alone() {
        let asked = HeaderValue::from_static("a/1, websocket");
        for (chosen, was_asked) in [
            ("WebSocket", true),
            ("websocket, a/1", true),
            ("h2c", false),
            ("websocket, h2c", false),
            ("", false),
        ] {
            assert_eq!(is_among(&HeaderValue::from_static(chosen), &asked), was_asked, "{chosen}");
        }
    }

    proptest! {
        #[test]
        fn nothing_that_connection_names_survives(names in prop::collection::vec("[a-z]{1,8}", 0..6)) {
            let mut headers = HeaderMap::new();
            for name in &names {
                headers.append(HeaderName::from_bytes(name.as_bytes()).unwrap(), HeaderValue::from_static("1"));
            }
            headers.insert(header::CONNECTION, HeaderValue::from_str(&names.join(" , ")).unwrap());
            remove(&mut headers);
            for name in headers.keys() {
                prop_assert!(is_protected(name), "{name}");
            }
        }
    }
}
