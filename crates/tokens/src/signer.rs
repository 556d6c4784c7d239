//! Signs and checks the tokens of one application.

use std::fmt;

use aws_lc_rs::{
    constant_time, digest,
    hmac::{self, HMAC_SHA256},
};
use tidegate_control::{
    ClassId, Timestamp,
    waiting_room::{Bypass, Kind, Pass, Promise},
};

use crate::{ApplicationKey, Text, text::TOKEN_LEN};

const VERSION: u8 = 1;
const FACTS_LEN: usize = 32;
const TAG_LEN: usize = TOKEN_LEN - FACTS_LEN;
/// Nanoseconds in a millisecond.
const MS: u64 = 1_000_000;

const PLACE: u8 = 0;
const LOT: u8 = 1;
const PASS: u8 = 2;
const BYPASS: u8 = 3;

/// Signs and checks for one application. Cheap to share, never changes: made anew when keys or classes change.
pub struct Signer {
    /// The newest first, by number.
    keys: Vec<(u8, hmac::Key)>,
    /// Another process's or role's, whose numbers may be the same.
    others: Vec<(u8, hmac::Key)>,
    /// Names of classes as tokens carry them, dense by id.
    classes: Vec<[u8; 4]>,
}

/// Why a text is no token of ours. Clients are not told which.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum TokenFault {
    /// It is no token at all.
    #[error("no token: wrong length or characters")]
    Malformed,
    /// It is of another version.
    #[error("a token of another version")]
    Version,
    /// Its key is not known, or no longer.
    #[error("a token signed with a key that is not known")]
    Key,
    /// Its tag does not fit: made up, altered, another's, or of another application.
    #[error("a token that was not signed here, for this")]
    Forged,
    /// A promise where a pass is due, or the like.
    #[error("a token for something else")]
    Kind,
    /// Its class is gone.
    #[error("a token of a class that is gone")]
    Class,
}

/// What a token says, whatever it is of.
struct Facts {
    kind: u8,
    renewed: u8,
    class: [u8; 4],
    since: Timestamp,
    at: Timestamp,
    work: u32,
    number: u64,
}

impl Signer {
    /// Signs with the first of `keys`, or of `others` where there are none, and checks by all, for an application whose classes
    /// have these names, dense by id. Without a key nothing is signed, and no token is known.
    #[must_use]
    pub fn new(keys: &[ApplicationKey], others: &[ApplicationKey], classes: &[&str]) -> Self {
        let numbered = |key: &ApplicationKey| (key.id, hmac::Key::new(HMAC_SHA256, &key.secret));
        let [keys, others] = [keys, others].map(|keys| keys.iter().map(numbered).collect());
        Self { keys, others, classes: classes.iter().map(|name| fingerprint(name)).collect() }
    }

    /// A promise as text, bound to `binding`, which the text does not show. Times are kept to the millisecond.
    #[must_use]
    pub fn place(&self, promise: &Promise, binding: &[u8]) -> Text {
        self.sign(
            &Facts {
                kind: if promise.kind == Kind::Lot { LOT } else { PLACE },
                renewed: promise.renewed,
                class: self.name_of(promise.class),
                since: promise.since,
                at: promise.at,
                work: promise.work,
                number: promise.number,
            },
            binding,
        )
    }

    /// The promise a text is of.
    ///
    /// # Errors
    ///
    /// It is none of ours, or not bound to `binding`.
    pub fn read_place(&self, text: &[u8], binding: &[u8]) -> Result<Promise, TokenFault> {
        let facts = self.read(text, binding)?;
        let kind = match facts.kind {
            PLACE => Kind::Place,
            LOT => Kind::Lot,
            _ => return Err(TokenFault::Kind),
        };
        Ok(Promise {
            kind,
            class: self.class_of(facts.class)?,
            since: facts.since,
            at: facts.at,
            work: facts.work,
            renewed: facts.renewed,
            number: facts.number,
        })
    }

    /// A pass as text.
    #[must_use]
    pub fn pass(&self, pass: &Pass, binding: &[u8]) -> Text {
        self.sign(
            &Facts {
                kind: PASS,
                renewed: 0,
                class: self.name_of(pass.class),
                since: pass.begun,
                at: pass.until,
                work: 0,
                number: pass.number,
            },
            binding,
        )
    }

    /// The pass a text is of.
    ///
    /// # Errors
    ///
    /// It is none of ours, or not bound to `binding`.
    pub fn read_pass(&self, text: &[u8], binding: &[u8]) -> Result<Pass, TokenFault> {
        let facts = self.read(text, binding)?;
        if facts.kind != PASS {
            return Err(TokenFault::Kind);
        }
        let class = self.class_of(facts.class)?;
        Ok(Pass { class, begun: facts.since, until: facts.at, number: facts.number })
    }

    /// A right to pass the room by as text; it is bound to nothing, since partners have many addresses.
    #[must_use]
    pub fn bypass(&self, bypass: &Bypass) -> Text {
        self.sign(
            &Facts {
                kind: BYPASS,
                renewed: 0,
                class: self.name_of(bypass.class),
                since: bypass.issued,
                at: bypass.until,
                work: 0,
                number: bypass.number,
            },
            &[],
        )
    }

    /// The right to pass the room by that a text is of.
    ///
    /// # Errors
    ///
    /// It is none of ours.
    pub fn read_bypass(&self, text: &[u8]) -> Result<Bypass, TokenFault> {
        let facts = self.read(text, &[])?;
        if facts.kind != BYPASS {
            return Err(TokenFault::Kind);
        }
        let class = self.class_of(facts.class)?;
        Ok(Bypass { class, issued: facts.since, until: facts.at, number: facts.number })
    }

    fn sign(&self, facts: &Facts, binding: &[u8]) -> Text {
        let mut token = [0; TOKEN_LEN];
        let Some((id, key)) = self.keys.first().or(self.others.first()) else { return Text::of(&token) };
        token[..FACTS_LEN].copy_from_slice(&facts.to_bytes(*id));
        let tag = tag(key, &token[..FACTS_LEN], binding);
        token[FACTS_LEN..].copy_from_slice(&tag);
        Text::of(&token)
    }

    fn read(&self, text: &[u8], binding: &[u8]) -> Result<Facts, TokenFault> {
        let token = Text::read(text).ok_or(TokenFault::Malformed)?;
        let (facts, presented) = token.split_first_chunk::<FACTS_LEN>().ok_or(TokenFault::Malformed)?;
        let [version, id, ..] = *facts;
        if version != VERSION {
            return Err(TokenFault::Version);
        }
        let signed_by = |(known, key): &(u8, hmac::Key)| {
            *known == id
                && constant_time::verify_slices_are_equal(&tag(key, facts, binding), presented).is_ok()
        };
        if self.keys.iter().chain(&self.others).any(signed_by) {
            return Ok(Facts::from_bytes(facts));
        }
        // That another key has the number says nothing of a key that is not known yet.
        let is_known = self.keys.iter().any(|(known, _)| *known == id);
        Err(if is_known { TokenFault::Forged } else { TokenFault::Key })
    }

    fn name_of(&self, class: ClassId) -> [u8; 4] {
        self.classes.get(class.index()).copied().unwrap_or_default()
    }

    fn class_of(&self, name: [u8; 4]) -> Result<ClassId, TokenFault> {
        let position = self.classes.iter().position(|known| *known == name).ok_or(TokenFault::Class)?;
        u16::try_from(position).map(ClassId).map_err(|_| TokenFault::Class)
    }
}

impl Facts {
    fn to_bytes(&self, key: u8) -> [u8; FACTS_LEN] {
        let mut bytes = [0; FACTS_LEN];
        bytes[..4].copy_from_slice(&[VERSION, key, self.kind, self.renewed]);
        bytes[4..8].copy_from_slice(&self.class);
        bytes[8..14].copy_from_slice(&milliseconds(self.since));
        bytes[14..20].copy_from_slice(&milliseconds(self.at));
        bytes[20..24].copy_from_slice(&self.work.to_be_bytes());
        bytes[24..].copy_from_slice(&self.number.to_be_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8; FACTS_LEN]) -> Self {
        let number = |from: usize, to: usize| {
            bytes[from..to].iter().fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte))
        };
        let time = |from: usize| Timestamp::from_nanos(number(from, from + 6).saturating_mul(MS));
        Self {
            kind: bytes[2],
            renewed: bytes[3],
            class: [bytes[4], bytes[5], bytes[6], bytes[7]],
            since: time(8),
            at: time(14),
            work: u32::try_from(number(20, 24)).unwrap_or(u32::MAX),
            number: number(24, 32),
        }
    }
}

/// The first 128 bits of the HMAC. What is bound comes last, so facts and binding cannot be shifted into each other.
fn tag(key: &hmac::Key, facts: &[u8], binding: &[u8]) -> [u8; TAG_LEN] {
    let mut context = hmac::Context::with_key(key);
    context.update(facts);
    context.update(binding);
    let full = context.sign();
    let mut tag = [0; TAG_LEN];
    tag.copy_from_slice(&full.as_ref()[..TAG_LEN]);
    tag
}

/// The last six bytes of a time in milliseconds: until the year 10889.
fn milliseconds(at: Timestamp) -> [u8; 6] {
    let [_, _, bytes @ ..] = (at.as_nanos() / MS).to_be_bytes();
    bytes
}

fn fingerprint(name: &str) -> [u8; 4] {
    let hash = digest::digest(&digest::SHA256, name.as_bytes());
    let mut first = [0; 4];
    first.copy_from_slice(&hash.as_ref()[..4]);
    first
}

impl fmt::Debug for Signer {
    /// Without keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signer").field("classes", &self.classes.len()).finish_non_exhaustive()
    }
}
