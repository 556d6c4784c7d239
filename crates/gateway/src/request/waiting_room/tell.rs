//! What a visitor is told who does not go on: a page for browsers, a problem document with the token for programs.

use std::{borrow::Cow, fmt::Write, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Response, StatusCode, header};
use serde::Serialize;
use tidegate_control::{
    Refusal, Timestamp,
    knobs::{RefusalStatus, RoomCarry, RoomRole, keys},
    waiting_room::{Estimate, Kind, Place},
};
use tidegate_runtime::{PageTemplate, PageValue, Spooled};

use super::{
    ASK, Desk, Out, Visit, Visitor,
    carried::{self, Carried, TURN, TURN_FIELD, TURN_FIELD_NAME},
    form::{self, Encoding, Form, Kept},
    html::Escaped,
    language::Language,
    page::{self, Wait},
    target,
    visit::cookie,
    with_turn,
};
use crate::request::{
    accept::Form as Media,
    access_log::Rfc3339,
    refusal::{self, Asked},
    response_body::ResponseBody,
};

/// A page's script, which looks four times a second, and once a second in a tab out of sight, goes before the field that
/// stands in for it, milliseconds: it knows which part of the page was asked for.
const SCRIPT_FIRST_MS: u64 = 1500;
/// Standard field of no standard: a browser goes to its URL after so many seconds.
const REFRESH: HeaderName = HeaderName::from_static("refresh");
/// As some client libraries know it.
const RETRY_AFTER_MS: HeaderName = HeaderName::from_static("retry-after-ms");
/// A token's cookie outlives its time by this, seconds: who comes late gets credit for the time waited.
const COOKIE_GRACE_S: u64 = 3600;
/// Who comes back to the process that gives times when his own has come may have been sent there by a check, whose clock is
/// another or who has not heard of a key yet: he is not to go to and fro without a pause.
const TO_AND_FRO: Duration = Duration::from_secs(1);
/// The page of who gets no time looks again after so many seconds, and up to so many more, so that not all do at once.
const LOOK_AGAIN_S: (u64, u64) = (60, 30);

/// Room for the fields of a response, and for a document: what grew would be copied.
const FIELDS: usize = 16;
const DOCUMENT_BYTES: usize = 640;

/// What he is told, with the memory granted for it.
struct Page {
    text: Vec<u8>,
    _spooled: Spooled,
}

impl AsRef<[u8]> for Page {
    fn as_ref(&self) -> &[u8] {
        &self.text
    }
}

/// What programs are told that do not go on (RFC 9457).
#[derive(Serialize)]
struct Problem<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    title: Option<&'static str>,
    status: u16,
    reason: &'static str,
    retry_after: u64,
    detail: &'a str,
    #[serde(flatten)]
    wait: Option<Promised<'a>>,
}

/// A time to come back at, and what is to be brought along then.
#[derive(Serialize)]
struct Promised<'a> {
    #[serde(flatten)]
    standing: Standing,
    token: &'a str,
    token_field: &'static str,
    token_parameter: &'static str,
    /// Where, if that is not where it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<String>,
}

/// How things stand for one who waits.
#[derive(Serialize)]
struct Standing {
    time: Option<Rfc3339>,
    left_ms: u64,
    ahead: u64,
    behind: u64,
}

/// A visitor who does not go on, and what he is told.
#[derive(Debug)]
pub(in crate::request) struct Shut {
    told: Told,
    language: &'static Language,
    template: Option<Arc<PageTemplate>>,
    now: Timestamp,
    /// Path and query, without a token.
    to: String,
    /// The same of the page whose form was sent, where it is known and can be gone to with the token.
    form_page: Option<String>,
    /// Where a reload keeps his place: with the token in the query, if that is not where he is.
    stay: Option<String>,
    /// Scheme, host and port where he goes on, if that is not this host.
    check_url: Option<String>,
    is_secure: bool,
    carry: RoomCarry,
    /// The cookie of its promise.
    turn_cookie: Cow<'static, str>,
    /// Another one that has to go for it.
    displaced: Option<String>,
    /// Where its page asks how things stand, if the token is in that cookie.
    ask: String,
    every: Duration,
    form_bytes_max: u64,
    form_files_max: u64,
    /// What programs are answered that do not go on. To browsers, and to who lists pages for a search, only 503 says that the page is
    /// there and comes later.
    refusal_status: RefusalStatus,
    /// How the request's form is written, if it is one that may be offered again.
    form: Option<Encoding>,
    /// Whether it is sent to where a reload keeps the place first, as it came.
    is_sent_there: bool,
}

#[derive(Debug)]
enum Told {
    /// To come back, with this token.
    Wait { estimate: Estimate, since: Timestamp, renewed: bool, token: String },
    /// No.
    Refuse { refusal: Refusal, message: Option<String>, retry_after: Duration },
    /// To ask there for a time.
    Elsewhere { url: String, token: Option<String> },
    /// How things stand; `None`: there is no token, or no valid one. With the token of a lot, whose doors may be put off for
    /// longer than its cookie lasts.
    Status { estimate: Option<Estimate>, lot: Option<String> },
}

impl Shut {
    pub(super) fn new(desk: &Desk<'_>, visitor: Visitor<'_>, out: Out, visit: Visit) -> Self {
        let application = desk.application;
        let settings = &application.settings;
        let room = &settings.waiting_room;
        let head = visitor.head;
        let base = desk.turn_cookie();
        let carried = Carried::of(head.uri, head.headers, &base);
        let other_url = match settings.values.get(keys::ROOM_ROLE).0 {
            RoomRole::Both => &None,
            RoomRole::Generate => &room.check_url,
            RoomRole::Check => &room.generate_url,
        };
        let gives_times = settings.values.get(keys::ROOM_ROLE).0 == RoomRole::Generate;
        // Who has a lot comes back here to hear what was drawn.
        let is_time = matches!(&out, Out::Wait(place) if place.promise.kind == Kind::Place);
        let check_url = room.check_url.clone().filter(|_| gives_times && is_time);
        let refused = |refusal, message| Told::Refuse {
            refusal,
            message,
            retry_after: settings.values.get(keys::REFUSAL_RETRY_AFTER),
        };
        let told = match out {
            Out::Wait(Place { promise, mut estimate }) => {
                let now = application.state.waiting_room().now();
                let is_over = estimate.at.is_some_and(|at| at <= now);
                if gives_times && is_time && is_over && now.since(promise.since) >= TO_AND_FRO {
                    estimate.at = Some(now + TO_AND_FRO);
                }
                Told::Wait {
                    estimate,
                    since: promise.since,
                    renewed: promise.renewed > 0,
                    token: desk.signed(&promise),
                }
            }
            Out::Refuse(Refusal::RoomClosed) => {
                refused(Refusal::RoomClosed, application.closed_message(desk.class).map(str::to_owned))
            }
            Out::Refuse(refusal) => refused(refusal, None),
            Out::Elsewhere(token) => match room.generate_url.clone() {
                Some(url) => Told::Elsewhere { url, token },
                // Under one host name: a cookie has led him here, and the parameter leads him to who gives times.
                None if !carried.in_query && carried::has_cookie(head.headers) => {
                    Told::Elsewhere { url: String::new(), token: Some(token.unwrap_or_default()) }
                }
                None => refused(Refusal::RoomClosed, None),
            },
        };
        let (host, is_secure) = (visitor.host, visitor.is_secure);
        let to = target(visit.stripped().unwrap_or(head.uri));
        let carry = settings.values.get(keys::ROOM_CARRY).0;
        // A token in the query is of the class of this request, which another page may not have.
        let form_page = form::page_of(head.headers, is_secure, host)
            .filter(|_| carry == RoomCarry::Cookie && check_url.is_none())
            .map(|page| target(&carried::without_turn(&page).unwrap_or(page)));
        let stay = match &told {
            Told::Wait { token, .. } if carry == RoomCarry::Query => {
                Some(with_turn(&to, token)).filter(|stay| *stay != target(head.uri))
            }
            _ => None,
        };
        let turn_cookie = carried.turns.cookie(base.clone(), &settings.name, |text| desk.whose_turn(text));
        // Nobody is sent to and fro who comes with a token that is known nowhere.
        let is_sent_there =
            stay.is_some() && (!carried.in_query || desk.read_turn(carried).promise.is_some());
        // A page without a place for it cannot send it again.
        let holds_forms = application.waiting_page.as_ref().is_none_or(|page| page.has(PageValue::Form));
        Self {
            form: form::may_be_kept(head.method, head.headers, is_secure, host, other_url.as_deref())
                .filter(|_| holds_forms),
            to,
            form_page,
            stay,
            check_url,
            displaced: carried::displaced(head.headers, &turn_cookie),
            turn_cookie,
            is_sent_there,
            ..Self::told(desk, told, head.headers, is_secure)
        }
    }

    /// How things stand for the holder of a token; it changes nothing. Where doors are open, everybody may come at once.
    pub(super) fn status(desk: &Desk<'_>, visitor: Visitor<'_>, is_open: bool) -> Self {
        let head = visitor.head;
        let told =
            |estimate, lot| Self::told(desk, Told::Status { estimate, lot }, head.headers, visitor.is_secure);
        if is_open {
            let estimate = Estimate {
                at: Some(desk.application.state.waiting_room().now()),
                undrawn: false,
                ahead: 0,
                behind: 0,
                waited: Duration::ZERO,
                early: false,
            };
            return told(Some(estimate), None);
        }
        let asked_about = carried::turn_cookie(carried::asked_about(head.uri));
        let carried = Carried::of(head.uri, head.headers, &asked_about);
        let Some(promise) = desk.read_promise(carried) else { return told(None, None) };
        let estimate = desk.room(|room, now| room.look(now, &promise));
        let lot = estimate.undrawn.then(|| desk.signed(&promise));
        // It may have come in a field or a query.
        let of_class = carried::turn_cookie(desk.application.class_name(promise.class));
        let carried = Carried::of(head.uri, head.headers, &of_class);
        let name = &desk.application.settings.name;
        let turn_cookie = carried.turns.cookie(of_class.clone(), name, |text| desk.whose_turn(text));
        Self { turn_cookie, ..told(Some(estimate), lot) }
    }

    fn told(desk: &Desk<'_>, told: Told, headers: &http::HeaderMap, is_secure: bool) -> Self {
        let application = desk.application;
        let values = &application.settings.values;
        Self {
            told,
            language: Language::negotiate(headers.get_all(header::ACCEPT_LANGUAGE).iter()),
            template: application.waiting_page.clone(),
            now: application.state.waiting_room().now(),
            to: "/".to_owned(),
            form_page: None,
            stay: None,
            check_url: None,
            is_secure,
            carry: values.get(keys::ROOM_CARRY).0,
            turn_cookie: desk.turn_cookie(),
            displaced: None,
            ask: carried::ask_about(
                ASK,
                desk.is_routed.then_some(application.settings.name.as_str()),
                application.class_name(desk.class),
            ),
            every: values.get(keys::ROOM_POLL),
            form_bytes_max: values.get(keys::ROOM_FORM_BYTES_MAX).0,
            form_files_max: values.get(keys::ROOM_FORM_FILES_MAX).0,
            refusal_status: values.get(keys::REFUSAL_STATUS).0,
            form: None,
            is_sent_there: false,
        }
    }

    /// Why, in the words of logs and problem documents.
    pub(in crate::request) const fn reason(&self) -> &'static str {
        match &self.told {
            Told::Wait { .. } => "waiting_room",
            Told::Refuse { refusal, .. } => refusal.name(),
            Told::Elsewhere { .. } => "waiting_room_elsewhere",
            Told::Status { .. } => "waiting_room_status",
        }
    }

    /// The refusal, if it is one.
    pub(in crate::request) const fn refusal(&self) -> Option<Refusal> {
        match &self.told {
            Told::Refuse { refusal, .. } => Some(*refusal),
            Told::Wait { .. } | Told::Elsewhere { .. } | Told::Status { .. } => None,
        }
    }

    /// What the request's body is to be read by, if it is a form to be offered again.
    pub(in crate::request) fn wants_form(&self, asked: &Asked) -> Option<form::Reader> {
        let waits = matches!(self.told, Told::Wait { .. });
        let encoding = self.form.as_ref().filter(|_| waits && asked.form() == Media::Html)?;
        Some(form::Reader::new(encoding, self.form_bytes_max, self.form_files_max))
    }

    /// A form was read until `now`: what is left of the wait counts from there.
    pub(in crate::request) const fn is_told_at(&mut self, now: Timestamp) {
        self.now = now;
    }

    /// The response, with the request's form if it was wanted and is whole, and if there is memory for its page until its visitor has
    /// taken it: a page is several times as long as what was sent.
    pub(in crate::request) fn response(
        &self,
        asked: &Asked,
        form: Option<Kept>,
        mut spooled: Spooled,
    ) -> Response<ResponseBody> {
        if let Told::Elsewhere { url, token } = &self.told {
            let to = token.as_deref().map_or_else(|| self.to.clone(), |token| with_turn(&self.to, token));
            let mut response = self.redirect(&format!("{url}{to}"));
            // The token that it brought is taken along, or worth nothing any more.
            if let Some(cookie) = cookie(&self.turn_cookie, "", 0, self.is_secure) {
                response.headers_mut().append(header::SET_COOKIE, cookie);
            }
            return response;
        }
        // A page that a script moved to another address is got from there without the form, once it is loaded again: it is
        // to be the answer to that form at that address.
        if let (Some(_), true, Some(stay)) = (&form, self.is_sent_there, &self.stay) {
            return self.redirect(stay);
        }
        // Nobody looks at what is said to a browser that asked in advance.
        let media = match self.refusal() {
            Some(Refusal::Prefetch) => Media::Problem,
            _ => asked.form(),
        };
        let mut form = match form {
            Some(kept) => Form::Kept(kept),
            None if is_safe(asked.method()) => Form::None,
            None => Form::Lost,
        };
        let (status, mut text, is_json) = match &self.told {
            Told::Status { estimate: None, .. } => {
                (StatusCode::NOT_FOUND, br#"{"status":404}"#.to_vec(), true)
            }
            Told::Status { estimate: Some(estimate), .. } => {
                (StatusCode::OK, document(&self.standing(estimate)), true)
            }
            _ if media == Media::Html => {
                (StatusCode::SERVICE_UNAVAILABLE, self.page(&form).into_bytes(), false)
            }
            _ => (self.problem_status(), document(&self.problem()), true),
        };
        // What was read is in the page now.
        spooled.shrink(spooled.bytes());
        if matches!(form, Form::Kept(_)) && !spooled.grow(text.len() as u64) {
            form = Form::Lost;
            text = self.page(&form).into_bytes();
        }
        if spooled.bytes() > 0 {
            text.shrink_to_fit();
        }
        let mut response = Response::new(ResponseBody::empty());
        *response.status_mut() = status;
        *response.headers_mut() = http::HeaderMap::with_capacity(FIELDS);
        let fields = response.headers_mut();
        fields.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static(match (is_json, &self.told) {
                (false, _) => "text/html; charset=utf-8",
                (true, Told::Status { .. }) => "application/json",
                (true, _) => "application/problem+json",
            }),
        );
        fields.insert(header::CONTENT_LENGTH, HeaderValue::from(text.len()));
        fields.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        fields.insert(header::REFERRER_POLICY, HeaderValue::from_static("same-origin"));
        if !matches!(self.told, Told::Status { .. }) {
            fields.insert(refusal::REASON, HeaderValue::from_static(self.reason()));
            fields.insert(header::RETRY_AFTER, HeaderValue::from(self.retry_after_s()));
        }
        if !is_json {
            fields.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
            // Only who waits sees a page of the operator's own.
            let is_refused = matches!(self.told, Told::Refuse { .. });
            if self.template.is_none() || is_refused {
                fields.insert(header::CONTENT_SECURITY_POLICY, page::policy(matches!(form, Form::Kept(_))));
            }
            if is_refused && let Ok(refresh) = HeaderValue::try_from(self.look_again(&form)) {
                fields.insert(REFRESH, refresh);
            }
        }
        if let Told::Wait { estimate, token, .. } = &self.told {
            // A form is sent by its page; going elsewhere would lose it.
            let refreshes = !is_json && !matches!(form, Form::Kept(_));
            let way_on = refreshes.then(|| self.return_to(self.target(&form), token));
            self.hand_out(fields, estimate, token, way_on);
        }
        if let Told::Status { estimate: Some(estimate), lot: Some(token) } = &self.told {
            self.keep(fields, estimate, token);
        }
        if *asked.method() != http::Method::HEAD {
            *response.body_mut() = ResponseBody::whole(Bytes::from_owner(Page { text, _spooled: spooled }));
        }
        response
    }

    /// When the page of who gets no time looks again, and where, if that is not where it is.
    fn look_again(&self, form: &Form) -> String {
        let (least, spread) = LOOK_AGAIN_S;
        // The microsecond at which somebody comes is chance.
        let seconds = self.retry_after_s().max(least) + self.now.as_nanos() / 1000 % spread;
        match form {
            Form::None => seconds.to_string(),
            Form::Kept(_) | Form::Lost => format!("{seconds}; url={}", self.target(form)),
        }
    }

    /// To another address, with what was sent (RFC 9110, section 15.4.8).
    fn redirect(&self, to: &str) -> Response<ResponseBody> {
        let mut response = Response::new(ResponseBody::empty());
        *response.status_mut() = StatusCode::TEMPORARY_REDIRECT;
        let fields = response.headers_mut();
        if let Ok(location) = HeaderValue::try_from(to) {
            fields.insert(header::LOCATION, location);
        }
        fields.insert(header::CONTENT_LENGTH, HeaderValue::from_static("0"));
        fields.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        fields.insert(header::REFERRER_POLICY, HeaderValue::from_static("same-origin"));
        fields.insert(refusal::REASON, HeaderValue::from_static(self.reason()));
        response
    }

    /// Gives the token along, and tells when to come: to the millisecond, and a browser when to come by itself, and where.
    fn hand_out(
        &self,
        fields: &mut http::HeaderMap,
        estimate: &Estimate,
        token: &str,
        way_on: Option<Cow<'_, str>>,
    ) {
        fields.insert(RETRY_AFTER_MS, HeaderValue::from(self.left_ms(estimate)));
        if let Ok(token) = HeaderValue::from_str(token) {
            fields.insert(TURN_FIELD, token);
        }
        self.keep(fields, estimate, token);
        let again_ms = self.left_ms(estimate).saturating_add(SCRIPT_FIRST_MS);
        let refresh = way_on.map(|way_on| format!("{}; url={way_on}", again_ms.div_ceil(1000)));
        if let Some(Ok(refresh)) = refresh.map(HeaderValue::try_from) {
            fields.insert(REFRESH, refresh);
        }
    }

    /// Lets a browser keep the token until he is to come, and for a while after.
    fn keep(&self, fields: &mut http::HeaderMap, estimate: &Estimate, token: &str) {
        if self.carry != RoomCarry::Cookie {
            return;
        }
        let lasts_s = self.left_s(estimate) + COOKIE_GRACE_S;
        let promise = cookie(&self.turn_cookie, token, lasts_s, self.is_secure);
        let displaced = self.displaced.as_deref().and_then(|name| cookie(name, "", 0, self.is_secure));
        for cookie in [promise, displaced].into_iter().flatten() {
            fields.append(header::SET_COOKIE, cookie);
        }
    }

    fn page(&self, form: &Form) -> String {
        let language = self.language;
        let (estimate, since, renewed, token) = match &self.told {
            Told::Wait { estimate, since, renewed, token } => (estimate, *since, *renewed, token),
            Told::Refuse { refusal: Refusal::HorizonFull, .. } => {
                return page::turned_away(language, language.full_title, language.full, form);
            }
            Told::Refuse { message, .. } => {
                let text = message.as_deref().unwrap_or(language.closed);
                return page::turned_away(language, language.closed_title, text, form);
            }
            Told::Elsewhere { .. } | Told::Status { .. } => return String::new(),
        };
        let (to, ask) = (self.return_to(self.target(form), token), self.ask(token));
        let wait = Wait {
            at: estimate.at,
            undrawn: estimate.undrawn,
            left_ms: self.left_ms(estimate),
            total_ms: millis(self.now.since(since)) + self.left_ms(estimate),
            ahead: estimate.ahead,
            renewed,
            to: &to,
            stay: self.stay.as_deref(),
            ask: &ask,
            every_ms: millis(self.every),
            form,
        };
        match &self.template {
            Some(template) => template.fill(|value, page| fill(value, page, language, &wait)),
            None => page::waiting(language, &wait),
        }
    }

    /// What a program is answered that does not go on: too much load, as where the horizon is full, unless doors are closed.
    fn problem_status(&self) -> StatusCode {
        let status = self.refusal_status.of(self.refusal().unwrap_or(Refusal::HorizonFull));
        StatusCode::from_u16(status).unwrap_or(StatusCode::SERVICE_UNAVAILABLE)
    }

    fn problem(&self) -> Problem<'_> {
        let status = self.problem_status();
        let (detail, wait) = match &self.told {
            Told::Wait { estimate, token, .. } => {
                let promised = Promised {
                    standing: self.standing(estimate),
                    token,
                    token_field: TURN_FIELD_NAME,
                    token_parameter: TURN,
                    to: self.check_url.is_some().then(|| self.return_to(&self.to, token).into_owned()),
                };
                ("It is not your turn yet: come back at this time, with this token.", Some(promised))
            }
            Told::Refuse { refusal, message, .. } => (message.as_deref().unwrap_or(refusal.public()), None),
            Told::Elsewhere { .. } | Told::Status { .. } => ("", None),
        };
        Problem {
            kind: "about:blank",
            title: status.canonical_reason(),
            status: status.as_u16(),
            reason: self.reason(),
            retry_after: self.retry_after_s(),
            detail,
            wait,
        }
    }

    fn standing(&self, estimate: &Estimate) -> Standing {
        Standing {
            time: estimate.at.map(Rfc3339),
            left_ms: self.left_ms(estimate),
            ahead: estimate.ahead,
            behind: estimate.behind,
        }
    }

    fn retry_after_s(&self) -> u64 {
        match &self.told {
            Told::Wait { estimate, .. } => self.left_s(estimate),
            Told::Refuse { retry_after, .. } => millis(*retry_after).div_ceil(1000),
            Told::Elsewhere { .. } | Told::Status { .. } => 0,
        }
    }

    /// Until he is to come, or to look again where that is not known.
    fn left_ms(&self, estimate: &Estimate) -> u64 {
        millis(estimate.left(self.now))
    }

    /// Whole seconds, rounded up: nobody is to come too early.
    fn left_s(&self, estimate: &Estimate) -> u64 {
        self.left_ms(estimate).div_ceil(1000)
    }

    /// Where a visitor goes on with this form: who has to send it again goes to where he can, or at least gets a pass.
    fn target(&self, form: &Form) -> &str {
        match (form, &self.form_page) {
            (Form::Lost, Some(page)) => page,
            _ => &self.to,
        }
    }

    fn return_to<'a>(&self, target: &'a str, token: &str) -> Cow<'a, str> {
        match (&self.check_url, self.carry) {
            // A cookie of this host is not sent to another one.
            (Some(url), _) => format!("{url}{}", with_turn(target, token)).into(),
            (None, RoomCarry::Cookie) => target.into(),
            (None, RoomCarry::Query) => with_turn(target, token).into(),
        }
    }

    fn ask(&self, token: &str) -> Cow<'_, str> {
        match self.carry {
            RoomCarry::Cookie => self.ask.as_str().into(),
            RoomCarry::Query => with_turn(&self.ask, token).into(),
        }
    }
}

/// Whether a request can be sent again by going to where it went.
const fn is_safe(method: &http::Method) -> bool {
    matches!(*method, http::Method::GET | http::Method::HEAD)
}

/// Writes a value into the operator's page.
fn fill(value: PageValue, page: &mut String, language: &Language, wait: &Wait<'_>) {
    // Writing to a String does not fail.
    let _ = match value {
        PageValue::Language => write!(page, "{}", language.tag),
        PageValue::Direction => write!(page, "{}", language.direction),
        PageValue::Time => wait.at.map_or(Ok(()), |at| write!(page, "{}", Rfc3339(at))),
        PageValue::Seconds => write!(page, "{}", wait.left_s()),
        PageValue::Left => write!(page, "{}", page::Clock(wait.left_s())),
        PageValue::Ahead => write!(page, "{}", wait.ahead),
        PageValue::Progress => write!(page, "{}", wait.progress()),
        PageValue::To => write!(page, "{}", Escaped(wait.to)),
        PageValue::Ask => write!(page, "{}", Escaped(wait.ask)),
        PageValue::Title => write!(page, "{}", language.title),
        PageValue::Message => write!(page, "{}", if wait.renewed { language.missed } else { language.lead }),
        PageValue::Form => {
            match wait.form {
                Form::Kept(kept) => kept.write(page, wait.to, language),
                Form::Lost => page::say_lost(page, language),
                Form::None => {}
            }
            Ok(())
        }
    };
}

/// A document as text.
fn document(of: &impl Serialize) -> Vec<u8> {
    let mut text = Vec::with_capacity(DOCUMENT_BYTES);
    // Numbers and strings can be written, and writing to memory does not fail.
    let _ = serde_json::to_writer(&mut text, of);
    text
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
