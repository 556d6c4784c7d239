//! One key and one place in the room, for what is measured of tokens.

use std::time::Duration;

use tidegate_control::{
    ClassId, Timestamp,
    waiting_room::{Kind, Promise},
};
use tidegate_tokens::{Key, Keys, Signer};

/// What the token is bound to.
pub(crate) const BINDING: &[u8] = b"192.0.2";

/// Who signs for an application of one class.
pub(crate) fn signer() -> Signer {
    let key = Key { id: 1, secret: [7; 32], made: made() };
    Keys::new(key, &[]).expect("one key has no double").for_application("shop", &["default"])
}

/// A place a minute after it was asked for.
pub(crate) fn promise() -> Promise {
    Promise {
        kind: Kind::Place,
        class: ClassId(0),
        since: made(),
        at: made() + Duration::from_secs(60),
        work: 1000,
        renewed: 0,
        number: 1,
    }
}

fn made() -> Timestamp {
    Timestamp::from_nanos(1_795_262_400_000_000_000)
}
