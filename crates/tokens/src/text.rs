//! The text of a token: 64 characters, kept in place.

use std::{fmt, ops::Deref};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};

/// Bytes of a token.
pub(crate) const TOKEN_LEN: usize = 48;
const TEXT_LEN: usize = 64;

/// A token as text; needs no allocation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Text([u8; TEXT_LEN]);

impl Text {
    pub(crate) fn of(bytes: &[u8; TOKEN_LEN]) -> Self {
        let mut text = [b'A'; TEXT_LEN];
        let written = URL_SAFE_NO_PAD.encode_slice(bytes, &mut text);
        debug_assert_eq!(written, Ok(TEXT_LEN), "48 bytes are 64 characters");
        Self(text)
    }

    /// The token's bytes; `None`: the text is none.
    pub(crate) fn read(text: &[u8]) -> Option<[u8; TOKEN_LEN]> {
        if text.len() != TEXT_LEN {
            return None;
        }
        let mut bytes = [0; TOKEN_LEN];
        let read = URL_SAFE_NO_PAD.decode_slice(text, &mut bytes).ok()?;
        (read == TOKEN_LEN).then_some(bytes)
    }
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        // The alphabet is ASCII.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}
