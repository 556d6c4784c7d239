//! A request's head on its way to a server: what ends here, what is added, what is edited.
//!
//! `Via` is neither added nor removed: servers that see it turn compression off, and the request id
//! finds loops as well. An operator who wants it adds it by a header edit.

use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Uri, Version, header, request::Parts, uri::PathAndQuery,
};
use tidegate_config::{HeaderEdit, ResponseEdit};
use tidegate_runtime::Application;

use super::{
    forwarded, hop_by_hop,
    request_id::{self, RequestIds},
    waiting_room::Visit,
};
use crate::{body::RequestBody, facts::ConnectionFacts, http1::number};

/// What of a request's head matters again for its response.
#[derive(Clone, Debug)]
pub(super) struct Forwarded {
    pub(super) request_id: HeaderValue,
    /// Whether the client came over TLS, and is to send cookies of ours over TLS only.
    pub(super) is_secure: bool,
    /// The protocols that the client wants to change to, where it may.
    pub(super) upgrade: Option<HeaderValue>,
    /// How the waiting room let it in.
    pub(super) visit: Option<Box<Visit>>,
}

/// Makes the client's head the one that goes to a server. `ends_here` says whether any field that
/// ends at this hop is there, `wants_upgrade` whether the client asks for another protocol.
pub(super) fn request(
    parts: &mut Parts,
    facts: &ConnectionFacts,
    application: &Application,
    ids: &RequestIds,
    (ends_here, wants_upgrade): (bool, bool),
) -> Forwarded {
    let headers = &mut parts.headers;
    let upgrade = if wants_upgrade { hop_by_hop::upgrade(headers) } else { None };
    if ends_here {
        hop_by_hop::remove(headers);
        // A body is asked for here, by whoever gathers it.
        headers.remove(header::EXPECT);
    }
    if let Some(protocols) = &upgrade {
        headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(header::UPGRADE, protocols.clone());
    }
    if parts.version == Version::HTTP_2 {
        join_cookies(headers);
    }
    if parts.method == Method::OPTIONS {
        count_hop(headers);
    }
    let host = host(parts.uri.authority(), &mut parts.headers, application);
    let is_secure = forwarded::is_secure(facts, &parts.headers);
    forwarded::write(&mut parts.headers, facts, host);
    let id = match request_id::given(facts, &parts.headers) {
        Some(id) => id.clone(),
        None => {
            let id = ids.next();
            parts.headers.insert(request_id::FIELD, id.clone());
            id
        }
    };
    remove_look_alikes(&mut parts.headers, &application.settings.request_headers);
    edit(&mut parts.headers, &application.settings.request_headers);
    target(parts, application);
    parts.version = Version::HTTP_11;
    Forwarded { request_id: id, is_secure, upgrade, visit: None }
}

/// Announces the body as it is now: a gathered one has a length, the rest of a longer one keeps the
/// client's, and what has none is chunked.
pub(super) fn announce(parts: &mut Parts, body: &RequestBody) {
    match body {
        // A method that means a body says that it is empty (RFC 9110, section 8.6).
        RequestBody::Empty => {
            if matches!(parts.method, Method::POST | Method::PUT | Method::PATCH) {
                parts.headers.insert(header::CONTENT_LENGTH, HeaderValue::from_static("0"));
            }
        }
        RequestBody::Whole(bytes) => {
            parts.headers.insert(header::CONTENT_LENGTH, HeaderValue::from(bytes.len()));
        }
        RequestBody::Stream(_) => {
            if !parts.headers.contains_key(header::CONTENT_LENGTH) {
                parts.headers.insert(header::TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
            }
        }
    }
}

/// Writes the `Host` a server is told; gives what the client asked for.
fn host(
    authority: Option<&http::uri::Authority>,
    headers: &mut HeaderMap,
    application: &Application,
) -> Option<HeaderValue> {
    let asked = match authority {
        // Both agree, or the head would have been refused.
        Some(authority) => HeaderValue::from_str(authority.as_str()).ok(),
        None => hop_by_hop::find(headers, &header::HOST).cloned(),
    };
    let told = match &application.settings.upstream.host {
        Some(host) => HeaderValue::from_str(host).ok(),
        None if authority.is_some() => asked.clone(),
        None => {
            // Already there, but for HTTP/1.0.
            if asked.is_none() {
                headers.insert(header::HOST, HeaderValue::from_static(""));
            }
            return asked;
        }
    };
    if let Some(told) = told {
        headers.insert(header::HOST, told);
    }
    asked
}

/// Leaves path and query, rewritten, whatever the form of the target was.
fn target(parts: &mut Parts, application: &Application) {
    let rewritten =
        if application.rewriter.is_empty() { None } else { application.rewriter.apply(parts.uri.path()) };
    if rewritten.is_none() && parts.uri.scheme().is_none() {
        return;
    }
    let target = match rewritten {
        None => match parts.uri.path_and_query() {
            // An absolute form without a path.
            Some(target) if target.as_str().starts_with('?') => {
                PathAndQuery::try_from(format!("/{}", target.as_str())).ok()
            }
            target => target.cloned(),
        },
        Some(mut path) => {
            if let Some(query) = parts.uri.query() {
                path.push('?');
                path.push_str(query);
            }
            PathAndQuery::try_from(path).ok()
        }
    };
    if let Some(target) = target {
        parts.uri = Uri::from(target);
    }
}

/// One hop less is left (RFC 9110, section 7.6.2); what is no number goes on as it is.
fn count_hop(headers: &mut HeaderMap) {
    let most = headers.get(header::MAX_FORWARDS).and_then(|most| number(most.as_bytes()));
    if let Some(left) = most.and_then(|most| most.checked_sub(1)) {
        headers.insert(header::MAX_FORWARDS, HeaderValue::from(left));
    }
}

/// Cookies that HTTP/2 has split go on as one field (RFC 9113, section 8.2.3).
fn join_cookies(headers: &mut HeaderMap) {
    let mut lines = headers.get_all(header::COOKIE).iter();
    let (Some(first), Some(second)) = (lines.next(), lines.next()) else { return };
    let mut joined = first.as_bytes().to_vec();
    for line in std::iter::once(second).chain(lines) {
        joined.extend_from_slice(b"; ");
        joined.extend_from_slice(line.as_bytes());
    }
    if let Ok(joined) = HeaderValue::from_bytes(&joined) {
        headers.insert(header::COOKIE, joined);
    }
}

/// Takes out what some servers would take for a field that is set or removed.
fn remove_look_alikes(headers: &mut HeaderMap, edits: &[HeaderEdit]) {
    for edit in edits {
        let (HeaderEdit::Set { name, .. } | HeaderEdit::Remove { name }) = edit else { continue };
        forwarded::remove_where(headers, |other| {
            forwarded::are_alike(other.as_str(), name) && !other.as_str().eq_ignore_ascii_case(name)
        });
    }
}

/// Applies edits in order. Names and values were checked with the settings; one that is no field is
/// passed over.
pub(super) fn edit<'a>(headers: &mut HeaderMap, edits: impl IntoIterator<Item = &'a HeaderEdit>) {
    for edit in edits {
        match edit {
            HeaderEdit::Set { name, value } => {
                if let Some((name, value)) = field(name, value) {
                    headers.insert(name, value);
                }
            }
            HeaderEdit::Add { name, value } => {
                if let Some((name, value)) = field(name, value) {
                    headers.append(name, value);
                }
            }
            HeaderEdit::Remove { name } => {
                headers.remove(name.as_str());
            }
        }
    }
}

/// Applies to an answer of our own the edits meant for those too. What it says itself stays: a page that is to be kept by
/// nobody, with a policy of its own.
pub(super) fn edit_own(headers: &mut HeaderMap, edits: &[ResponseEdit]) {
    for ResponseEdit { edit, .. } in edits.iter().filter(|edit| edit.always) {
        match edit {
            HeaderEdit::Set { name, .. } if headers.contains_key(name.as_str()) => {}
            _ => self::edit(headers, [edit]),
        }
    }
}

fn field(name: &str, value: &str) -> Option<(HeaderName, HeaderValue)> {
    Some((HeaderName::try_from(name).ok()?, HeaderValue::try_from(value).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_apply_in_order() {
        let mut headers = HeaderMap::new();
        headers.insert("x-gone", HeaderValue::from_static("1"));
        let (name, value) = ("x-new".to_owned(), |value: &str| value.to_owned());
        edit(
            &mut headers,
            &[
                HeaderEdit::Remove { name: "x-gone".into() },
                HeaderEdit::Add { name: name.clone(), value: value("a") },
                HeaderEdit::Set { name: name.clone(), value: value("b") },
                HeaderEdit::Add { name, value: value("c") },
            ],
        );
        let values: Vec<_> = headers.get_all("x-new").iter().collect();
        assert_eq!(values, ["b", "c"]);
        assert_eq!(headers.len(), 2);
    }

    #[test]
    fn what_looks_like_an_edited_field_to_some_servers_goes() {
        let mut headers = HeaderMap::new();
        for name in ["x-role", "x_role", "x_tenant-id", "x-tenant_id", "x_other", "tenant_id"] {
            headers.insert(name, HeaderValue::from_static("1"));
        }
        remove_look_alikes(
            &mut headers,
            &[
                HeaderEdit::Remove { name: "X-Role".into() },
                HeaderEdit::Set { name: "x-tenant-id".into(), value: "a".into() },
                HeaderEdit::Add { name: "x-other".into(), value: "a".into() },
            ],
        );
        let mut left: Vec<_> = headers.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["tenant_id", "x-role", "x_other"]);
    }

    #[test]
    fn split_cookies_become_one() {
        let mut headers = HeaderMap::new();
        for cookie in ["a=1", "b=2", "c=3"] {
            headers.append(header::COOKIE, HeaderValue::from_static(cookie));
        }
        join_cookies(&mut headers);
        assert_eq!(headers.get_all(header::COOKIE).iter().collect::<Vec<_>>(), ["a=1; b=2; c=3"]);
    }
}
