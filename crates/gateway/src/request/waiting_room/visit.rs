//! A visit of somebody who was let in or passed by: what the application is not to see, and what goes along with its response.

use std::{borrow::Cow, fmt::Write};

use http::{HeaderMap, HeaderName, HeaderValue, Uri, header, request::Parts};
use tidegate_control::{
    knobs::keys,
    waiting_room::{Entry, How, Pass, Promise, pass_lasts},
};
use tidegate_runtime::Application;

use super::{
    Desk,
    carried::{self, Carried, PASS, PASS_FIELD, Texts},
    read_pass,
};
use crate::request::{client_key::Identity, forwarded::listed};

/// What an application says in the field `Tidegate-Pass` of a response to end a visit.
const REVOKE: &[u8] = b"revoke";

/// Bytes of a cookie besides its name and value.
const COOKIE_REST: usize = 80;

/// One request of somebody who was let in.
#[derive(Clone, Debug)]
pub(in crate::request) struct Visit {
    /// The request's target without a token.
    stripped: Option<Uri>,
    bound_to: Identity,
    /// Whether it passed the room by, and so is owed nothing.
    is_exempt: bool,
    promise: Option<Promise>,
    /// Whether that seems to have been used before.
    is_replayed: bool,
    /// Whether it came with a pass.
    has_pass: bool,
    priority: Option<u8>,
    /// The pass it holds, or gets.
    pass: Option<Pass>,
    /// Whether that is to be handed out.
    is_handed: bool,
    /// The cookie that its pass is in, or goes into.
    pass_cookie: Cow<'static, str>,
    /// The passes it shows where it needs none, as they came, with their cookies: they are read if the application ends the
    /// visit, or gives the visitor another cookie to go by.
    shown: Vec<(Box<[u8]>, Box<str>)>,
    /// The cookie that holds the token that was used up.
    ends_turn: Option<Cow<'static, str>>,
}

impl Visit {
    pub(super) const fn new(stripped: Option<Uri>, bound_to: Identity) -> Self {
        Self {
            stripped,
            bound_to,
            is_exempt: false,
            promise: None,
            is_replayed: false,
            has_pass: false,
            priority: None,
            pass: None,
            is_handed: false,
            pass_cookie: Cow::Borrowed(PASS),
            shown: Vec::new(),
            ends_turn: None,
        }
    }

    /// Of a request that passes the room by, with the passes it shows.
    pub(super) fn exempt(stripped: Option<Uri>, bound_to: Identity, shown: Texts<'_>) -> Self {
        let shown =
            shown.iter().map(|text| (text.bytes.into(), text.cookie.unwrap_or(PASS).into())).collect();
        Self { shown, ..Self::new(stripped, bound_to).exempted() }
    }

    /// The same, of a request that passes the room by.
    pub(super) fn exempted(self) -> Self {
        Self { is_exempt: true, ..self }
    }

    /// By a pass that came in this cookie, if in one. A token that it has besides is of no use any more: another tab was told
    /// to come again with it.
    pub(super) fn enter_by_pass(
        &mut self,
        desk: &Desk<'_>,
        pass: Pass,
        is_handed: bool,
        cookie: Option<&str>,
        carried: Carried<'_>,
    ) {
        (self.pass, self.has_pass, self.is_handed) = (Some(pass), true, is_handed);
        self.pass_cookie = match cookie {
            Some(PASS) => Cow::Borrowed(PASS),
            Some(name) => Cow::Owned(name.to_owned()),
            None => pass_cookie(desk, carried),
        };
        self.ends_turn = turn_to_end(desk, carried);
    }

    pub(super) fn enter(
        &mut self,
        desk: &Desk<'_>,
        promise: Option<Promise>,
        entry: Entry,
        carried: Carried<'_>,
    ) {
        // Where the room does not concern him, nothing was promised that could be kept or missed.
        self.promise = promise.filter(|_| matches!(entry.how, How::Kept | How::Late | How::Replayed));
        (self.priority, self.pass) = (entry.priority, entry.pass);
        self.is_replayed = entry.how == How::Replayed;
        self.is_handed = entry.pass.is_some();
        self.pass_cookie = pass_cookie(desk, carried);
        self.ends_turn = turn_to_end(desk, carried);
    }

    /// The priority its request has by the room, if that is not its class's.
    pub(in crate::request) const fn priority(&self) -> Option<u8> {
        self.priority
    }

    /// Whether it is told a new time where it cannot be served.
    pub(in crate::request) const fn may_be_owed(&self) -> bool {
        !self.is_exempt
    }

    pub(super) const fn promise(&self) -> Option<&Promise> {
        self.promise.as_ref()
    }

    pub(super) const fn is_replayed(&self) -> bool {
        self.is_replayed
    }

    pub(super) const fn has_pass(&self) -> bool {
        self.has_pass
    }

    pub(super) const fn bound_to(&self) -> &Identity {
        &self.bound_to
    }

    /// The request's target without a token, if it had one.
    pub(super) const fn stripped(&self) -> Option<&Uri> {
        self.stripped.as_ref()
    }

    /// Takes out of a request what the application is not to see.
    pub(in crate::request) fn strip(&self, parts: &mut Parts) {
        if let Some(stripped) = &self.stripped {
            parts.uri = stripped.clone();
        }
        carried::strip(&mut parts.headers);
    }

    /// Hands out and takes back with a response of the application, or with ours in its place. Where that gives a visitor another
    /// cookie to go by, his pass goes along.
    pub(in crate::request) fn finish(
        &self,
        application: &Application,
        headers: &mut HeaderMap,
        is_secure: bool,
    ) {
        let revoked = headers.remove(PASS_FIELD).is_some_and(|said| said.as_bytes() == REVOKE);
        let pass = || {
            let read = |text: &[u8]| read_pass(&application.signer, text, &self.bound_to);
            let shown = || self.shown.iter().find_map(|(text, name)| Some((read(text)?, &**name)));
            self.pass.map(|pass| (pass, &*self.pass_cookie)).or_else(shown)
        };
        let bind = application.settings.waiting_room.bind.as_ref();
        let becomes = bind.and_then(|key| self.bound_to.after(key, headers));
        let mut cookies = Vec::new();
        if revoked {
            if let Some((pass, name)) = pass() {
                application.state.waiting_room().with(|room, now| room.revoke(now, &pass));
                cookies.push(cookie(name, "", 0, is_secure));
            }
        } else if (self.is_handed || becomes.is_some())
            && let Some((pass, name)) = pass()
        {
            let bound_to = becomes.as_ref().unwrap_or(&self.bound_to);
            let text = application.signer.pass(&pass, bound_to.now()).to_string();
            let idle = application.settings.values.get(keys::ROOM_SESSION_IDLE);
            cookies.push(cookie(name, &text, pass_lasts(idle).as_secs() + 1, is_secure));
            if let Ok(text) = HeaderValue::from_str(&text) {
                headers.insert(PASS_FIELD, text);
            }
        }
        if let Some(turn_cookie) = &self.ends_turn {
            cookies.push(cookie(turn_cookie, "", 0, is_secure));
        }
        if cookies.is_empty() {
            return;
        }
        for cookie in cookies.into_iter().flatten() {
            headers.append(header::SET_COOKIE, cookie);
        }
        keep_to_one(headers);
    }
}

/// The cookie that a pass goes into: none of another gateway's.
fn pass_cookie(desk: &Desk<'_>, carried: Carried<'_>) -> Cow<'static, str> {
    let whose = |text: &[u8]| desk.whose_pass(text);
    carried.passes.cookie(Cow::Borrowed(PASS), &desk.application.settings.name, whose)
}

/// The cookie of a token that is of no use any more.
fn turn_to_end(desk: &Desk<'_>, carried: Carried<'_>) -> Option<Cow<'static, str>> {
    carried.turns.ours(|text| desk.whose_turn(text)).map(|name| Cow::Owned(name.to_owned()))
}

/// A cookie of ours for the whole host.
pub(super) fn cookie(name: &str, value: &str, lasts_s: u64, is_secure: bool) -> Option<HeaderValue> {
    let secure = if is_secure { "; Secure" } else { "" };
    let mut cookie = String::with_capacity(name.len() + value.len() + COOKIE_REST);
    // Writing to a String does not fail.
    let _ = write!(cookie, "{name}={value}; Path=/; Max-Age={lasts_s}; HttpOnly; SameSite=Lax{secure}");
    HeaderValue::try_from(cookie).ok()
}

/// A response with somebody's pass is nobody else's: caches on the way do not keep it (RFC 9111, section 5.2.2.7).
fn keep_to_one(headers: &mut HeaderMap) {
    let said: Vec<String> = headers
        .get_all(header::CACHE_CONTROL)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| listed(value.as_bytes(), true))
        .filter_map(|directive| str::from_utf8(directive).ok().map(str::to_owned))
        .filter(|directive| {
            let name = directive.split('=').next().unwrap_or_default().to_ascii_lowercase();
            !matches!(name.as_str(), "public" | "s-maxage" | "private")
        })
        .collect();
    let directives = [vec!["private".to_owned()], said].concat().join(", ");
    if let Ok(directives) = HeaderValue::try_from(directives) {
        headers.insert(header::CACHE_CONTROL, directives);
    }
    let of_others: Vec<HeaderName> =
        headers.keys().filter(|name| is_for_some_caches(name)).cloned().collect();
    for name in of_others {
        headers.remove(name);
    }
}

/// Whether a field tells some caches what others are told by `Cache-Control`, before which they heed it: that of networks of caches
/// (RFC 9213), of surrogates, of nginx.
fn is_for_some_caches(name: &HeaderName) -> bool {
    matches!(name.as_str(), "surrogate-control" | "edge-control" | "x-accel-expires")
        || name.as_str().ends_with("-cache-control")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_carries_a_pass_is_kept_by_no_cache_for_others() {
        for (said, becomes) in [
            (&[][..], "private"),
            (&["public, max-age=60, s-maxage=600"], "private, max-age=60"),
            (&["no-store", "Public"], "private, no-store"),
            (&["private=\"x\", must-revalidate"], "private, must-revalidate"),
            (&["private=\"set-cookie, x\", no-store"], "private, no-store"),
            (&["no-cache=\"set-cookie, public\""], "private, no-cache=\"set-cookie, public\""),
            (&["private=\"x, no-store"], "private, no-store"),
        ] {
            let mut headers = HeaderMap::new();
            for value in said {
                headers.append(header::CACHE_CONTROL, HeaderValue::from_static(value));
            }
            for name in [
                "surrogate-control",
                "edge-control",
                "x-accel-expires",
                "cdn-cache-control",
                "cloudflare-cdn-cache-control",
                "akamai-cache-control",
            ] {
                headers.append(name, HeaderValue::from_static("600"));
                headers.append(name, HeaderValue::from_static("max-age=600"));
            }
            keep_to_one(&mut headers);
            assert_eq!(headers[header::CACHE_CONTROL], becomes, "{said:?}");
            assert_eq!(headers.len(), 1);
        }
    }
}
