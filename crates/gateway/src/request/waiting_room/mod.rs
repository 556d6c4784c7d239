//! The waiting room's door: who goes on, who is given a time, and what a visitor is told.
//!
//! | step | file |
//! |---|---|
//! | what a request carries, and the request without it | `carried.rs` |
//! | what a visitor is told who does not go on | `tell.rs` |
//! | the page, its languages, a form that comes back | `page.rs`, `language.rs`, `form.rs`, `charset.rs`, `multipart.rs`, `html.rs` |
//! | what goes along with the response of who went on | `visit.rs` |
//!
//! The room decides ([`tidegate_control::waiting_room`]), the signer proves; here is neither.

mod carried;
mod charset;
mod form;
mod html;
mod language;
mod multipart;
mod page;
mod tell;
mod visit;

use std::{borrow::Cow, net::IpAddr};

use http::{HeaderValue, Method, Uri, header};
use tidegate_config::{Application as Settings, ClientKey};
use tidegate_control::{
    ClassId, Refusal,
    classify::canonical_path,
    knobs::{Mode, RoomMethod, RoomRole, keys},
    waiting_room::{Answer, Pass, PassAnswer, Place, Promise, RoomCount},
};
use tidegate_runtime::{Application, CoreApplication};
use tidegate_tokens::{Signer, TokenFault};

use self::carried::{BYPASS_FIELD, Carried, Text, Whose};
pub(super) use self::{
    carried::text_without_turn,
    form::{Kept, Reader},
    tell::Shut,
    visit::Visit,
};
use super::{client_key::Identity, head::Head, hop_by_hop};

/// Where a page asks how things stand.
const ASK: &str = "/.well-known/tidegate/turn";

/// The answer of the door.
pub(super) enum Door {
    /// The request goes on to admission.
    Open(Option<Box<Visit>>),
    /// It does not.
    Shut(Box<Shut>),
}

/// A request at the door.
#[derive(Clone, Copy)]
pub(super) struct Visitor<'a> {
    pub(super) head: Head<'a>,
    pub(super) client: Option<IpAddr>,
    pub(super) class: ClassId,
    /// The host that its client asked for, with the port if one was written; empty where none was.
    pub(super) host: &'a str,
    /// Whether its client came over TLS.
    pub(super) is_secure: bool,
}

/// Of which application a page asks how things stand, if a target is that question: `Some(None)` of the one that its host
/// names.
pub(super) fn asked_of(uri: &Uri) -> Option<Option<&str>> {
    (uri.path() == ASK).then(|| carried::asked_of(uri))
}

/// Asks whether a request goes on. Costs two looks where there is no room and was none.
pub(super) fn ask(application: &CoreApplication, visitor: Visitor<'_>) -> Door {
    let snapshot = &application.application;
    let values = &snapshot.settings.values;
    let (head, mode) = (visitor.head, values.get(keys::MODE).0);
    let is_off = values.get(keys::ROOM_METHOD).0 == RoomMethod::Off || mode == Mode::Off;
    let is_generator = values.get(keys::ROOM_ROLE).0 == RoomRole::Generate;
    if is_off && !is_generator {
        return without_room(application, visitor);
    }
    let bound_to = bound_to(&snapshot.settings, visitor);
    let desk = Desk::new(application, visitor.class, &bound_to);
    if head.uri.path() == ASK {
        // Who has a time of a generator's would be early at the check.
        let is_open = mode == Mode::Watch && !is_generator;
        return Door::Shut(Box::new(Shut::status(&desk, visitor, is_open)));
    }
    let turn_cookie = desk.turn_cookie();
    let carried = Carried::of(head.uri, head.headers, &turn_cookie);
    let stripped = carried.stripped(head.uri);
    if !snapshot.class_values(visitor.class).get(keys::ROOM_QUEUES)
        || passes(&snapshot.settings.waiting_room.assets, head)
        || carried.bypass.is_some_and(|text| desk.bypasses(text))
    {
        return Door::Open(Some(Box::new(Visit::exempt(stripped, bound_to.clone(), carried.passes))));
    }
    let mut visit = Visit::new(stripped, bound_to.clone());
    let verdict = match (is_in_advance(head), is_off) {
        (true, _) => desk.judge_in_advance(carried, &mut visit),
        (false, true) => desk.send_on(carried, &mut visit),
        (false, false) => desk.judge(carried, &mut visit),
    };
    match verdict {
        Verdict::In => Door::Open(Some(Box::new(visit))),
        Verdict::Out(out) if mode == Mode::Watch => {
            let place = if let Out::Wait(place) = &out { Some(*place) } else { None };
            if is_generator {
                let out = match out {
                    Out::Refuse(Refusal::Prefetch) => out,
                    _ => desk.sent_on(place.as_ref().map(|place| &place.promise)),
                };
                return Door::Shut(Box::new(Shut::new(&desk, visitor, out, visit)));
            }
            if let Some(place) = place {
                desk.goes_on(&place.promise);
            }
            Door::Open(Some(Box::new(visit)))
        }
        Verdict::Out(out) => Door::Shut(Box::new(Shut::new(&desk, visitor, out, visit))),
    }
}

/// Everybody goes on. Of a room that was switched off tokens and passes are out, of which the application is to see nothing,
/// and people wait who are to hear that they may come.
fn without_room(application: &CoreApplication, visitor: Visitor<'_>) -> Door {
    let head = visitor.head;
    let snapshot = &application.application;
    if !snapshot.state.waiting_room().has_been_on() {
        // Partners send it whether there is a room or not, and it is none of the application's business.
        let has_token = hop_by_hop::find(head.headers, &BYPASS_FIELD).is_some();
        return Door::Open(has_token.then(|| Box::new(Visit::new(None, Identity::default()).exempted())));
    }
    let bound_to = bound_to(&snapshot.settings, visitor);
    let desk = Desk::new(application, visitor.class, &bound_to);
    if head.uri.path() == ASK {
        return Door::Shut(Box::new(Shut::status(&desk, visitor, true)));
    }
    let turn_cookie = desk.turn_cookie();
    let carried = Carried::of(head.uri, head.headers, &turn_cookie);
    if let Some(promise) = desk.read_promise(carried) {
        desk.goes_on(&promise);
    }
    Door::Open(Some(Box::new(Visit::exempt(carried.stripped(head.uri), bound_to, carried.passes))))
}

/// Admission has let through who was let in, and a server has work of it: if that was by a promise, it is kept.
pub(super) fn served(application: &CoreApplication, class: ClassId, visit: Option<&Visit>) {
    if visit.is_some_and(|visit| visit.promise().is_some() && !visit.is_replayed()) {
        application.application.state.waiting_room().with(|room, now| room.served(now, class));
    }
}

/// Admission could not keep who was let in, or no server could be reached: a new time, ahead of newcomers. Who passed by is refused
/// like others.
pub(super) fn missed(
    application: &CoreApplication,
    visitor: Visitor<'_>,
    visit: &Visit,
) -> Option<Box<Shut>> {
    let snapshot = &application.application;
    if !visit.may_be_owed() || snapshot.settings.values.get(keys::MODE).0 != Mode::Enforce {
        return None;
    }
    if visit.promise().is_none() && is_in_advance(visitor.head) {
        return None;
    }
    let class = visitor.class;
    let answer = snapshot.state.waiting_room().with(|room, now| match visit.promise() {
        Some(promise) if visit.is_replayed() => room.not_again(now, class, promise),
        _ if visit.has_pass() => room.missed_with_pass(now, class),
        promise => room.missed(now, class, promise),
    });
    let bound_to = visit.bound_to().clone();
    let desk = Desk::new(application, class, &bound_to);
    let out = match answer {
        Answer::Enter(_) | Answer::Elsewhere { .. } => return None,
        Answer::Wait(place) => Out::Wait(place),
        Answer::Refuse(refusal) => Out::Refuse(refusal),
    };
    Some(Box::new(Shut::new(&desk, visitor, out, visit.clone())))
}

/// Whether a request passes that needs no place: what a page that was let in fetches for itself, and what a browser
/// asks before it sends another request (Fetch, section 4.9). Paths are compared as rules compare them: many servers take
/// `/checkout;x.css` for `/checkout`.
fn passes(assets: &[String], head: Head<'_>) -> bool {
    if *head.method == Method::OPTIONS {
        return head.headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
    }
    if assets.is_empty() || !matches!(*head.method, Method::GET | Method::HEAD) {
        return false;
    }
    let path = canonical_path(head.uri.path());
    assets.iter().any(|end| path.ends_with(end.as_str()))
}

/// Whether a browser asks for what its visitor may never look at: to have it at hand (`prefetch`), or built already
/// (`prefetch;prerender`). `Purpose` is the name that the field had before.
fn is_in_advance(head: Head<'_>) -> bool {
    let says_so = |value: &HeaderValue| {
        let words = value.as_bytes().split(|byte| matches!(byte, b',' | b';')).map(<[u8]>::trim_ascii);
        words
            .into_iter()
            .any(|word| word.eq_ignore_ascii_case(b"prefetch") || word.eq_ignore_ascii_case(b"prerender"))
    };
    matches!(*head.method, Method::GET | Method::HEAD)
        && ["sec-purpose", "purpose"].iter().flat_map(|name| head.headers.get_all(*name)).any(says_so)
}

/// What tokens of a visitor are bound to.
fn bound_to(settings: &Settings, visitor: Visitor<'_>) -> Identity {
    let bind: Option<&ClientKey> = settings.waiting_room.bind.as_ref();
    bind.map_or_else(Identity::default, |key| Identity::of(key, visitor.client, visitor.head))
}

/// Reads a token that may be bound to any of what its bearer goes by.
fn read_bound<T>(
    bound_to: &Identity,
    read: impl Fn(&[u8]) -> Result<T, TokenFault>,
) -> Result<T, TokenFault> {
    let mut readings = bound_to.all().map(read);
    let first = readings.next().unwrap_or(Err(TokenFault::Forged));
    if matches!(first, Err(TokenFault::Forged)) { readings.next().unwrap_or(first) } else { first }
}

/// What is bound to something else looks like another's: it stays where it is, and comes of use again with what it is bound to.
const fn whose<T>(read: &Result<T, TokenFault>) -> Whose {
    match read {
        Ok(_) | Err(TokenFault::Kind | TokenFault::Class) => Whose::Ours,
        Err(TokenFault::Malformed) => Whose::Nobodys,
        Err(_) => Whose::Anothers,
    }
}

fn read_pass(signer: &Signer, text: &[u8], bound_to: &Identity) -> Option<Pass> {
    read_bound(bound_to, |binding| signer.read_pass(text, binding)).ok()
}

/// What the door needs to know of an application to judge a visitor.
struct Desk<'a> {
    application: &'a Application,
    /// Whether a route leads to the application, so that its host does not say which it is.
    is_routed: bool,
    class: ClassId,
    bound_to: &'a Identity,
}

/// Whether a visitor goes on.
enum Verdict {
    In,
    Out(Out),
}

/// Why a visitor does not go on.
#[derive(Debug)]
enum Out {
    Wait(Place),
    Refuse(Refusal),
    /// Times are given elsewhere; with the token that he is to take along.
    Elsewhere(Option<String>),
}

/// What became of the tokens that a request carries.
struct Read<'a> {
    /// The promise that lets its bearer in first, of those whose signature holds, and its text.
    promise: Option<Promise>,
    text: Option<&'a [u8]>,
    /// The first that a key signed which is not known here.
    of_unknown_key: Option<&'a [u8]>,
}

impl<'a> Desk<'a> {
    fn new(application: &'a CoreApplication, class: ClassId, bound_to: &'a Identity) -> Self {
        Self { application: &application.application, is_routed: application.is_routed, class, bound_to }
    }
}

impl Desk<'_> {
    fn turn_cookie(&self) -> Cow<'static, str> {
        carried::turn_cookie(self.application.class_name(self.class))
    }

    /// Whose the text of a promise is.
    fn whose_turn(&self, text: &[u8]) -> Whose {
        whose(&read_bound(self.bound_to, |binding| self.application.signer.read_place(text, binding)))
    }

    /// Whose the text of a pass is.
    fn whose_pass(&self, text: &[u8]) -> Whose {
        whose(&read_bound(self.bound_to, |binding| self.application.signer.read_pass(text, binding)))
    }

    /// Whether a request has a pass that holds.
    fn enters_by_pass(&self, carried: Carried<'_>, visit: &mut Visit) -> bool {
        let mut is_forged = !carried.passes.is_empty();
        for Text { bytes, cookie } in carried.passes.iter() {
            let Some(pass) = read_pass(&self.application.signer, bytes, self.bound_to) else { continue };
            is_forged = false;
            let answer = self.room(|room, now| room.pass(now, self.class, &pass));
            if let PassAnswer::Enter { renewed } = answer {
                visit.enter_by_pass(self, renewed.unwrap_or(pass), renewed.is_some(), cookie, carried);
                return true;
            }
        }
        if is_forged {
            self.forged();
        }
        false
    }

    /// Role `generate`, and nobody is held: a check sends whom it does not know here, so he is given a time that it takes at
    /// once. Sent on to the servers, which are the check, he would be sent back for ever.
    fn send_on(&self, carried: Carried<'_>, visit: &mut Visit) -> Verdict {
        if self.enters_by_pass(carried, visit) {
            return Verdict::In;
        }
        Verdict::Out(self.sent_on(self.read_promise(carried).as_ref()))
    }

    fn sent_on(&self, promise: Option<&Promise>) -> Out {
        Out::Wait(self.room(|room, now| room.sends_on(now, self.class, promise)))
    }

    fn judge(&self, carried: Carried<'_>, visit: &mut Visit) -> Verdict {
        if self.enters_by_pass(carried, visit) {
            return Verdict::In;
        }
        let had_token = !carried.turns.is_empty();
        let role = self.application.settings.values.get(keys::ROOM_ROLE).0;
        let Read { promise, text, of_unknown_key } = self.read_turn(carried);
        // Who gives times may have signed with a key of which we have not heard yet.
        let unheard = of_unknown_key.filter(|_| promise.is_none() && role == RoomRole::Check);
        if had_token && promise.is_none() && unheard.is_none() {
            self.forged();
        }
        let answer = self.room(|room, now| match &promise {
            Some(promise) => room.come_back(now, self.class, promise),
            None => room.ask(now, self.class),
        });
        match answer {
            Answer::Enter(entry) => {
                visit.enter(self, promise, entry, carried);
                Verdict::In
            }
            Answer::Wait(place) => Verdict::Out(Out::Wait(place)),
            Answer::Refuse(refusal) => Verdict::Out(Out::Refuse(refusal)),
            Answer::Elsewhere { with_promise } => {
                let token = unheard
                    .or(text.filter(|_| with_promise))
                    .and_then(|token| std::str::from_utf8(token).ok());
                Verdict::Out(Out::Elsewhere(token.map(str::to_owned)))
            }
        }
    }

    /// As [`judge`](Self::judge), of a request in advance: it goes on by what the visitor has already, or where there is room, and
    /// takes no place.
    fn judge_in_advance(&self, carried: Carried<'_>, visit: &mut Visit) -> Verdict {
        if self.enters_by_pass(carried, visit) {
            return Verdict::In;
        }
        if self.application.settings.values.get(keys::ROOM_ROLE).0 == RoomRole::Generate {
            // Here nobody is let in, whatever room there is.
            return Verdict::Out(Out::Refuse(Refusal::Prefetch));
        }
        let promise = self.read_promise(carried);
        let (answer, promise) = self.room(|room, now| {
            let is_due = |promise: &Promise| room.lets_in_from(now, promise).is_some_and(|from| from <= now);
            match promise.filter(is_due) {
                Some(promise) => (room.come_back(now, self.class, &promise), Some(promise)),
                None => (room.ask_in_advance(now, self.class), None),
            }
        });
        match answer {
            Answer::Enter(entry) => {
                visit.enter(self, promise, entry, carried);
                Verdict::In
            }
            _ => Verdict::Out(Out::Refuse(Refusal::Prefetch)),
        }
    }

    fn bypasses(&self, text: &[u8]) -> bool {
        match self.application.signer.read_bypass(text) {
            Ok(bypass) => self.room(|room, now| room.bypass(now, self.class, &bypass)),
            Err(_) => {
                self.forged();
                false
            }
        }
    }

    /// A promise as the visitor is to carry it.
    fn signed(&self, promise: &Promise) -> String {
        self.application.signer.place(promise, self.bound_to.now()).to_string()
    }

    /// The promise that holds, if the request carries one.
    fn read_turn<'a>(&self, carried: Carried<'a>) -> Read<'a> {
        let mut read = Read { promise: None, text: None, of_unknown_key: None };
        for text in carried.turns.iter().map(|text| text.bytes) {
            match read_bound(self.bound_to, |binding| self.application.signer.read_place(text, binding)) {
                Ok(promise) if read.promise.is_none_or(|other| self.is_better(&promise, &other)) => {
                    (read.promise, read.text) = (Some(promise), Some(text));
                }
                Err(TokenFault::Key) => read.of_unknown_key = read.of_unknown_key.or(Some(text)),
                Ok(_) | Err(_) => {}
            }
        }
        read
    }

    /// Whether a promise lets its holder in before another one does. One that is used or over does not.
    fn is_better(&self, promise: &Promise, than: &Promise) -> bool {
        let [promise, than] =
            self.room(|room, now| [promise, than].map(|promise| room.lets_in_from(now, promise)));
        promise.is_some_and(|from| than.is_none_or(|than| from < than))
    }

    /// As [`read_turn`](Self::read_turn), where only the promise counts.
    fn read_promise(&self, carried: Carried<'_>) -> Option<Promise> {
        let promise = self.read_turn(carried).promise;
        if promise.is_none() && !carried.turns.is_empty() {
            self.forged();
        }
        promise
    }

    /// Who was promised a time goes on before it, since nobody is held.
    fn goes_on(&self, promise: &Promise) {
        self.room(|room, now| room.goes_on(now, promise));
    }

    fn forged(&self) {
        self.room(|room, _| room.count(self.class, RoomCount::Forged));
    }

    fn room<R>(
        &self,
        f: impl FnOnce(&mut tidegate_control::waiting_room::Room, tidegate_control::Timestamp) -> R,
    ) -> R {
        self.application.state.waiting_room().with(f)
    }
}

/// A target with a token in its query.
fn with_turn(target: &str, token: &str) -> String {
    let separator = if target.contains('?') { '&' } else { '?' };
    format!("{target}{separator}{}={token}", carried::TURN)
}

/// Path and query of a target, as a reference on this host.
fn target(uri: &Uri) -> String {
    html::same_host(uri.path_and_query().map_or("/", |target| target.as_str()))
}
