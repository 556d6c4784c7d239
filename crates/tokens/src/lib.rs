//! Promises, passes and bypasses of the waiting room as signed text, and back.
//!
//! A token is 48 bytes, 64 characters of URL-safe base64: it goes through a query, a cookie or a header as it is.
//!
//! ```text
//! 0        1       2     3        4       8         14      20     24       32        48
//! version  key id  kind  renewed  class   since     at      work   number   HMAC tag
//! 1        1       1     1        4       6 (ms)    6 (ms)  4      8        16 bytes, numbers big-endian
//! ```
//!
//! The tag is HMAC-SHA-256, truncated to 128 bits, over these 32 bytes and what the token is bound to (a part of the client's
//! address, a cookie, nothing). Its key is derived from the secret and the application's name, so that a token of one
//! application is none of another's; a class goes by 32 bits of the SHA-256 of its name, so that a token outlives a change
//! of the configuration that orders classes anew. A pass has `begun` for `since` and `until` for `at`, a token to pass the room by
//! `issued` and `until`.
//!
//! Nothing a token says is looked at before its tag has been checked, but what is needed to choose the key; the tag is
//! compared in constant time (`examples/timing.rs` measures it). Whether it came at its time, and whether it was used before, is for
//! [`Room`](tidegate_control::waiting_room::Room) to say.
//!
//! Source: WebQ, section III-C (HMAC over client address, time of issue and wait; checked by recomputing it). RFC 2104
//! section 5 for the truncation. Departure: the client's address is in it only if it is bound to that.

mod keys;
mod signer;
mod text;

pub use keys::{ApplicationKey, Key, KeyError, Keys, SECRET_LEN};
pub use signer::{Signer, TokenFault};
pub use text::Text;
