//! One client between two replies: small, for a hundred thousand of them may wait at once.

use std::{borrow::Cow, time::Instant};

use bytes::Bytes;
use http::{HeaderValue, Method, header};

use super::Class;
use crate::{
    cookies::Jar,
    onward::{Onward, Place},
    random::SplitMix64,
    request::RequestTemplate,
    session::Session,
};

/// Somebody who sends requests.
pub(super) struct Visitor {
    pub(super) class: usize,
    pub(super) kind: Kind,
    pub(super) errand: Errand,
    pub(super) jar: Jar,
}

/// What a visitor came for.
pub(super) enum Kind {
    /// One request: the class's, or that of a line of its trace; and which of the class's clients sends it.
    Once { line: Option<usize>, client: u32 },
    /// A closed loop's client, one request after another.
    Loop { random: Box<SplitMix64> },
    /// A session of pages.
    Session(Box<Session>),
    /// A closed loop's client before its next session, and the number in its class that this one will have.
    Between { number: usize, client: usize },
}

/// The request a visitor is at, from its intended start over all tries, redirects and waits.
pub(super) struct Errand {
    /// When the request was meant to start.
    pub(super) intended: Instant,
    /// When this try was meant to start.
    pub(super) due: Instant,
    pub(super) retries: u32,
    /// Redirects followed at once, one after another.
    pub(super) redirects: u32,
    /// Times it came back as told.
    pub(super) returns: u32,
    /// When it was first told to come back at.
    pub(super) promised: Option<Instant>,
    /// It came back as told, and what came of it is not settled.
    pub(super) is_return: bool,
    /// Where it was sent, and whether by `GET` whatever the method was.
    sent_to: Option<Box<str>>,
    as_get: bool,
}

impl Errand {
    pub(super) fn new(intended: Instant) -> Self {
        Self {
            intended,
            due: intended,
            retries: 0,
            redirects: 0,
            returns: 0,
            promised: None,
            is_return: false,
            sent_to: None,
            as_get: false,
        }
    }

    /// Goes where it was told to.
    pub(super) fn turn(&mut self, onward: &Onward) {
        if let Place::Path(path) = &onward.place {
            self.sent_to = Some(path.clone());
        }
        self.as_get |= onward.as_get;
    }
}

impl Visitor {
    pub(super) fn new(class: usize, kind: Kind, intended: Instant) -> Box<Self> {
        Box::new(Self { class, kind, errand: Errand::new(intended), jar: Jar::default() })
    }

    /// What it asks for now, without its cookies if it has none.
    pub(super) fn request<'a>(&self, class: &'a Class, now: Instant) -> (Cow<'a, RequestTemplate>, Bytes) {
        let (mut template, mut body) = self.first_request(class);
        if let Some(target) = self.errand.sent_to.as_deref().and_then(RequestTemplate::parse_target) {
            template.to_mut().target = target;
        }
        if self.errand.as_get && template.method != Method::GET {
            let template = template.to_mut();
            template.method = Method::GET;
            template.headers.remove(header::CONTENT_TYPE);
            body = Bytes::new();
        }
        if let Some(cookies) = self.jar.header(template.target.path(), now) {
            template.to_mut().headers.insert(header::COOKIE, cookies);
        }
        (template, body)
    }

    fn first_request<'a>(&self, class: &'a Class) -> (Cow<'a, RequestTemplate>, Bytes) {
        let plain = || (Cow::Borrowed(&class.template.request), class.body.clone());
        match &self.kind {
            Kind::Loop { .. } | Kind::Between { .. } => plain(),
            Kind::Once { line, client } => {
                let (mut template, mut body) = plain();
                if let Some(name) = &class.template.client_header {
                    template.to_mut().headers.insert(name, HeaderValue::from(*client));
                }
                let logged = line.and_then(|line| class.template.trace.as_ref()?.request(line));
                if let Some((method, target)) = logged {
                    template.to_mut().method = method.clone();
                    template.to_mut().target = target.clone();
                    if *method == Method::GET || *method == Method::HEAD {
                        body = Bytes::new();
                    }
                }
                (template, body)
            }
            // The texts were tried when the model was read.
            Kind::Session(session) => class
                .template
                .chain
                .as_ref()
                .and_then(|chain| session.request(chain))
                .map_or_else(plain, |(template, body)| (Cow::Owned(template), body)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a waiting client costs beside the URL it was given; the heap's entry is 24 bytes more.
    #[test]
    fn a_visitor_is_small() {
        assert!(size_of::<Visitor>() <= 160, "{}", size_of::<Visitor>());
    }
}
