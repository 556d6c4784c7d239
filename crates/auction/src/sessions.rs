//! Who is signed in, by cookie.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

/// A person who is signed in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Person {
    pub(crate) id: i64,
    pub(crate) nickname: String,
}

/// The sessions of a site: at most [`Sessions::MAX`], the oldest goes first.
#[derive(Debug, Default)]
pub(crate) struct Sessions(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    people: HashMap<[u8; 16], Person>,
    by_age: VecDeque<[u8; 16]>,
}

impl Sessions {
    pub(crate) const MAX: usize = 100_000;
    const COOKIE: &str = "auction_session";

    /// Begins a session; returns the value of its `Set-Cookie` header, or `None` where the system has no random
    /// numbers to give.
    pub(crate) fn begin(&self, person: Person) -> Option<String> {
        let mut key = [0; 16];
        aws_lc_rs::rand::fill(&mut key).ok()?;
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if inner.by_age.len() >= Self::MAX
            && let Some(oldest) = inner.by_age.pop_front()
        {
            inner.people.remove(&oldest);
        }
        inner.by_age.push_back(key);
        inner.people.insert(key, person);
        Some(format!("{}={:032x}; Path=/; HttpOnly; SameSite=Lax", Self::COOKIE, u128::from_be_bytes(key)))
    }

    /// Who sent this `Cookie` header.
    pub(crate) fn find(&self, header: &str) -> Option<Person> {
        let value =
            header.split(';').find_map(|pair| pair.trim().strip_prefix(Self::COOKIE)?.strip_prefix('='))?;
        let key = u128::from_str_radix(value, 16).ok()?.to_be_bytes();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).people.get(&key).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_finds_its_person_and_no_other() {
        let sessions = Sessions::default();
        let person = Person { id: 3, nickname: "user3".into() };
        let cookie = sessions.begin(person.clone()).expect("random numbers");
        let pair = cookie.split(';').next().expect("a pair");
        assert_eq!(sessions.find(&format!("other=1; {pair}; more=2")), Some(person));
        for header in ["", "auction_session=", "auction_session=zz", "auction_session=0123", "x"] {
            assert_eq!(sessions.find(header), None, "{header}");
        }
    }

    #[test]
    fn the_oldest_goes_when_there_are_too_many() {
        let sessions = Sessions::default();
        let person = Person { id: 1, nickname: "user1".into() };
        let first = sessions.begin(person.clone()).expect("random numbers");
        for _ in 1..=Sessions::MAX {
            assert!(sessions.begin(person.clone()).is_some());
        }
        assert_eq!(sessions.find(&first), None);
        assert_eq!(sessions.0.lock().expect("no panic").people.len(), Sessions::MAX);
    }
}
