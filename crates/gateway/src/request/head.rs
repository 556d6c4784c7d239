//! What is accepted as a request's head: whatever two parsers could read differently ends here.
//!
//! The grammar of HTTP refuses much by itself (control characters, folded lines, blanks before a colon,
//! lengths that are no numbers or differ). This closes the rest, before anything is decided and
//! before anything is sent on.
//!
//! | request | answer |
//! |---|---|
//! | `Content-Length` beside `Transfer-Encoding` | HTTP/1: the codec goes by `chunked` alone, takes the length away and ends the connection after it (RFC 9112, section 6.1), on every path alike; what still has both is answered 400 |
//! | `Content-Length` that is no number, or beyond 2⁶⁴ − 3 | 400 |
//! | `Transfer-Encoding` other than `chunked`, once | 501 |
//! | HTTP/1.1 without `Host`, or with several | 400 |
//! | `Host` that is no name or address with a port | 400 |
//! | absolute form or `:authority` that disagrees with `Host` | 400 |
//! | absolute form of another scheme, user information | 400 |
//! | `*` with another method than OPTIONS | 400 |
//! | a path with control characters, or none | 400 |
//! | a path with a backslash, a dot segment that is escaped or has parameters (`%2e%2e`, `..;x`), or `..` behind an empty segment | 400 |
//! | CONNECT, TRACE | 501: neither a tunnel nor an echo of internal headers is offered |
//! | over HTTP/2, a field's name with a quotation mark, or a value with a blank at either end (RFC 9113, section 8.2.1), which the codec lets pass | 400 |
//! | `Expect` other than `100-continue` | 417 |
//! | over HTTP/2, more bytes than `head.bytes.max` or more fields than `headers.max`, which over HTTP/1 the codec counts | 431 |

use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, Version, header, request::Parts};
use tidegate_control::{classify::is_ambiguous_path, meters::BadRequest};

use super::host::Host;
use crate::http1::{ends_here, is_name, number};

/// A request's head, borrowed: the same for a codec's request and for bytes judged before.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head<'a> {
    pub(super) method: &'a Method,
    pub(super) uri: &'a Uri,
    pub(super) version: Version,
    pub(super) headers: &'a HeaderMap,
}

/// What one pass over the fields has found.
#[derive(Debug)]
pub(super) struct Examined<'a> {
    /// The host asked for.
    pub(super) host: Host<'a>,
    /// Its length, where it is announced.
    pub(super) length: Option<u64>,
    /// Whether any field that ends at this hop is there.
    pub(super) ends_here: bool,
    /// Whether the client asks for another protocol.
    pub(super) upgrade: bool,
    /// Bytes of the head, as a client would write it compactly.
    pub(super) bytes: u32,
    /// Header fields of it; those into which HTTP/2 splits its cookies (RFC 9113, section 8.2.3) are one.
    pub(super) fields: usize,
}

/// Why a head is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BadHead {
    /// CONNECT or TRACE.
    Method,
    /// `Transfer-Encoding` other than `chunked`.
    TransferEncoding,
    /// Two lengths for one body, or one that is none.
    Length,
    /// No, several, or a malformed host.
    Host,
    /// Target and `Host` disagree.
    HostDisagrees,
    /// The target is no path, no absolute URI of HTTP, has control characters, or is read by servers in more than one way.
    Target,
    /// A field's name that is none.
    Name,
    /// A field's value with a blank at either end, where nothing trims it.
    Value,
    /// `Expect` other than `100-continue`.
    Expectation,
    /// More fields or bytes than are allowed.
    TooLarge,
}

impl BadHead {
    pub(super) const fn status(self) -> StatusCode {
        match self {
            Self::Method | Self::TransferEncoding => StatusCode::NOT_IMPLEMENTED,
            Self::Length | Self::Host | Self::HostDisagrees | Self::Target | Self::Name | Self::Value => {
                StatusCode::BAD_REQUEST
            }
            Self::Expectation => StatusCode::EXPECTATION_FAILED,
            Self::TooLarge => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
        }
    }

    /// One sentence for the client.
    pub(super) const fn public(self) -> &'static str {
        match self {
            Self::Method => "This method is not offered here.",
            Self::TransferEncoding => "Transfer-Encoding must be chunked, once.",
            Self::Length => "The request's length is malformed, or announced in two ways.",
            Self::Host => "The request must name one well-formed host.",
            Self::HostDisagrees => "The request's target and its Host disagree.",
            Self::Target => "The request's target is malformed.",
            Self::Name => "The name of a header field is malformed.",
            Self::Value => "The value of a header field has a blank at its beginning or end.",
            Self::Expectation => "The only expectation met is 100-continue.",
            Self::TooLarge => "The request's head is larger than allowed.",
        }
    }

    /// The reason in meters, logs and problem documents.
    pub(super) const fn reason(self) -> BadRequest {
        match self {
            Self::Method => BadRequest::Method,
            Self::TransferEncoding => BadRequest::TransferEncoding,
            Self::Length => BadRequest::Length,
            Self::Host => BadRequest::Host,
            Self::HostDisagrees => BadRequest::HostDisagrees,
            Self::Target => BadRequest::Target,
            Self::Name | Self::Value => BadRequest::BadHead,
            Self::Expectation => BadRequest::Expectation,
            Self::TooLarge => BadRequest::HeadTooLarge,
        }
    }
}

impl<'a> Head<'a> {
    pub(super) fn of(parts: &'a Parts) -> Self {
        Self { method: &parts.method, uri: &parts.uri, version: parts.version, headers: &parts.headers }
    }

    /// The host as it was asked for, for logs: the field, or over HTTP/2 the authority.
    pub(super) fn host_asked(self) -> Option<HeaderValue> {
        let authority = || HeaderValue::from_str(self.uri.authority()?.as_str()).ok();
        self.headers.get(header::HOST).cloned().or_else(authority)
    }

    /// The values of a field. Over HTTP/2 the authority stands for that of `Host`.
    pub(super) fn values(self, name: &'a str) -> impl Iterator<Item = &'a [u8]> + 'a {
        let is_host = name.eq_ignore_ascii_case("host") && !self.headers.contains_key(header::HOST);
        let authority = self.uri.authority().filter(|_| is_host).map(|it| it.as_str().as_bytes());
        self.headers.get_all(name).iter().map(HeaderValue::as_bytes).chain(authority)
    }

    /// Examines the head in one pass; `secure` says which scheme the client reached us by.
    pub(super) fn examine(self, secure: bool) -> Result<Examined<'a>, BadHead> {
        if matches!(*self.method, Method::CONNECT | Method::TRACE) {
            return Err(BadHead::Method);
        }
        let mut fields = Fields::default();
        for (name, value) in self.headers {
            fields.bytes += name.as_str().len() + value.len() + 4;
            if self.version == Version::HTTP_2 && has_blank_around(value) {
                return Err(BadHead::Value);
            }
            match *name {
                header::HOST if fields.host.replace(value).is_some() => return Err(BadHead::Host),
                header::TRANSFER_ENCODING => {
                    if fields.chunked || !value.as_bytes().eq_ignore_ascii_case(b"chunked") {
                        return Err(BadHead::TransferEncoding);
                    }
                    fields.chunked = true;
                }
                header::CONTENT_LENGTH => {
                    let length = length(value).ok_or(BadHead::Length)?;
                    if fields.length.replace(length).is_some_and(|other| other != length) {
                        return Err(BadHead::Length);
                    }
                }
                header::EXPECT if !value.as_bytes().eq_ignore_ascii_case(b"100-continue") => {
                    return Err(BadHead::Expectation);
                }
                header::COOKIE => fields.cookies += 1,
                header::UPGRADE => {
                    fields.ends_here = true;
                    fields.upgrade = self.version == Version::HTTP_11;
                }
                header::EXPECT => fields.ends_here = true,
                _ if ends_here(name) => fields.ends_here = true,
                _ if self.version == Version::HTTP_2 && !is_name(name) => return Err(BadHead::Name),
                _ => {}
            }
        }
        if fields.chunked && (fields.length.is_some() || self.version == Version::HTTP_10) {
            return Err(BadHead::Length);
        }
        let target_bytes = self.target(&fields)?;
        Ok(Examined {
            host: self.host(&fields, secure)?,
            length: fields.length,
            ends_here: fields.ends_here || fields.chunked,
            upgrade: fields.upgrade,
            bytes: u32::try_from(fields.bytes + target_bytes + 16).unwrap_or(u32::MAX),
            fields: self.headers.len() - fields.cookies.saturating_sub(1),
        })
    }

    /// Checks the target; gives its length.
    fn target(self, fields: &Fields<'_>) -> Result<usize, BadHead> {
        let Some(target) = self.uri.path_and_query() else { return Err(BadHead::Target) };
        let target = target.as_str();
        let asterisk = target == "*" && *self.method == Method::OPTIONS;
        // Only the absolute form may leave the path out (RFC 3986, section 3.3), and only HTTP/1 has that.
        let pathless =
            target.starts_with('?') && self.uri.authority().is_some() && self.version != Version::HTTP_2;
        if !(target.starts_with('/') || asterisk || pathless)
            || target.bytes().any(|byte| byte < 0x21 || byte == 0x7f)
            || is_ambiguous_path(self.uri.path())
        {
            return Err(BadHead::Target);
        }
        match (self.uri.scheme_str(), self.uri.authority()) {
            (None, None) => {}
            (Some("http" | "https"), Some(authority)) if !authority.as_str().contains('@') => {}
            // Some HTTP/2 clients leave the authority to `host`.
            (Some("http" | "https"), None) if self.version == Version::HTTP_2 && fields.host.is_some() => {}
            _ => return Err(BadHead::Target),
        }
        Ok(target.len())
    }

    /// Whether this is the last hop that its client asks: a gateway answers then in place of the server (RFC 9110, section 7.6.2).
    pub(super) fn is_last_hop(self) -> bool {
        let may_go_on = self.headers.get(header::MAX_FORWARDS).and_then(|most| number(most.as_bytes()));
        *self.method == Method::OPTIONS && may_go_on == Some(0)
    }

    /// Whether this is a gRPC call, whose messages and answers may take turns: over HTTP/2 only, as gRPC is.
    pub(super) fn is_grpc(self) -> bool {
        let kind = self.headers.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
        let rest = kind.and_then(|kind| kind.strip_prefix(b"application/grpc"));
        self.version == Version::HTTP_2
            && rest.is_some_and(|rest| matches!(rest.first(), None | Some(b'+' | b';')))
    }

    fn host(self, fields: &Fields<'a>, secure: bool) -> Result<Host<'a>, BadHead> {
        let parse = |bytes| Host::parse(bytes).ok_or(BadHead::Host);
        let field = fields.host.map(|value| parse(value.as_bytes())).transpose()?;
        let target =
            self.uri.authority().map(|authority| parse(authority.as_str().as_bytes())).transpose()?;
        match (target, field) {
            (Some(target), Some(field)) => {
                // The absolute form's scheme gives the port that is not written.
                let secure = self.uri.scheme_str().map_or(secure, |scheme| scheme == "https");
                if target.agrees(&field, if secure { 443 } else { 80 }) {
                    Ok(target)
                } else {
                    Err(BadHead::HostDisagrees)
                }
            }
            (Some(target), None) if self.version != Version::HTTP_11 => Ok(target),
            (None, Some(field)) => Ok(field),
            (None, None) if self.version == Version::HTTP_10 => Ok(Host::NONE),
            (Some(_) | None, None) => Err(BadHead::Host),
        }
    }
}

/// Whether a value begins or ends with a blank: over HTTP/1 that belongs to the line, over HTTP/2 such a request is malformed.
fn has_blank_around(value: &HeaderValue) -> bool {
    let is_blank = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    is_blank(value.as_bytes().first()) || is_blank(value.as_bytes().last())
}

#[derive(Default)]
struct Fields<'a> {
    host: Option<&'a HeaderValue>,
    length: Option<u64>,
    chunked: bool,
    ends_here: bool,
    upgrade: bool,
    cookies: usize,
    bytes: usize,
}

/// The longest body that hyper takes, which uses the two numbers above for bodies of unknown length.
const LENGTH_MAX: u64 = u64::MAX - 2;

/// A `Content-Length`: a number of digits only, and none beyond what any codec takes.
pub(crate) fn length(value: &HeaderValue) -> Option<u64> {
    number(value.as_bytes()).filter(|length| *length <= LENGTH_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn examine(
        version: Version,
        method: &str,
        uri: &str,
        fields: &[(&str, &str)],
    ) -> Result<String, BadHead> {
        let mut request = http::Request::builder().version(version).method(method).uri(uri);
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        let (parts, ()) = request.body(()).unwrap().into_parts();
        Head::of(&parts).examine(false).map(|examined| examined.host.name.into_owned())
    }

    #[test]
    fn one_host_is_found_whatever_the_form() {
        let (one, two) = (Version::HTTP_11, Version::HTTP_2);
        let host = [("host", "A.example")];
        for (version, method, uri, fields) in [
            (one, "GET", "/x?y", &host[..]),
            (one, "GET", "/x/../%2ey;z?..;\\", &host),
            (one, "OPTIONS", "*", &host),
            (one, "GET", "http://a.example/", &host),
            (one, "GET", "http://a.example:80/", &host),
            (Version::HTTP_10, "GET", "http://a.example/", &[]),
            (two, "GET", "https://a.example/", &[]),
            (two, "GET", "http://a.example/", &host),
        ] {
            assert_eq!(examine(version, method, uri, fields), Ok("a.example".to_owned()), "{method} {uri}");
        }
        assert_eq!(examine(Version::HTTP_10, "GET", "/", &[]), Ok(String::new()));
    }

    #[test]
    fn ambiguous_heads_are_refused() {
        let one = Version::HTTP_11;
        let host = ("host", "a.example");
        for (method, uri, fields, why) in [
            ("CONNECT", "a.example:443", vec![host], BadHead::Method),
            ("TRACE", "/", vec![host], BadHead::Method),
            ("GET", "*", vec![host], BadHead::Target),
            ("GET", "a.example", vec![host], BadHead::Target),
            ("GET", "ftp://a.example/", vec![host], BadHead::Target),
            ("GET", "http://user@a.example/", vec![host], BadHead::Target),
            ("GET", "/a/..;/b", vec![host], BadHead::Target),
            ("GET", "http://a.example/%2E%2e", vec![host], BadHead::Target),
            ("GET", "/a\\..\\b?c", vec![host], BadHead::Target),
            ("GET", "http://b.example/", vec![host], BadHead::HostDisagrees),
            ("GET", "http://a.example:81/", vec![host], BadHead::HostDisagrees),
            ("GET", "http://a.example/", vec![], BadHead::Host),
            ("GET", "/", vec![], BadHead::Host),
            ("GET", "/", vec![host, host], BadHead::Host),
            ("GET", "/", vec![("host", "a b")], BadHead::Host),
            ("POST", "/", vec![host, ("transfer-encoding", "gzip, chunked")], BadHead::TransferEncoding),
            ("POST", "/", vec![host, ("transfer-encoding", "identity")], BadHead::TransferEncoding),
            (
                "POST",
                "/",
                vec![host, ("transfer-encoding", "chunked"), ("transfer-encoding", "chunked")],
                BadHead::TransferEncoding,
            ),
            (
                "POST",
                "/",
                vec![host, ("transfer-encoding", "chunked"), ("content-length", "5")],
                BadHead::Length,
            ),
            ("POST", "/", vec![host, ("content-length", "5"), ("content-length", "6")], BadHead::Length),
            ("POST", "/", vec![host, ("content-length", "5, 5")], BadHead::Length),
            ("POST", "/", vec![host, ("content-length", "+5")], BadHead::Length),
            ("GET", "/", vec![host, ("expect", "200-ok")], BadHead::Expectation),
        ] {
            assert_eq!(examine(one, method, uri, &fields), Err(why), "{method} {uri} {fields:?}");
        }
        let chunked = [host, ("transfer-encoding", "chunked")];
        assert_eq!(examine(Version::HTTP_10, "POST", "/", &chunked), Err(BadHead::Length));
    }
}
