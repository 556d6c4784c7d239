//! Passwords, kept under PBKDF2 with few rounds: a demo signs thousands in a second.

use std::num::NonZeroU32;

use aws_lc_rs::pbkdf2::{self, PBKDF2_HMAC_SHA256};

const ROUNDS: NonZeroU32 = NonZeroU32::new(16).unwrap();

/// What is kept of a password. The nickname is its salt.
pub(crate) fn hash(nickname: &str, password: &str) -> [u8; 32] {
    let mut out = [0; 32];
    pbkdf2::derive(PBKDF2_HMAC_SHA256, ROUNDS, nickname.as_bytes(), password.as_bytes(), &mut out);
    out
}

/// Whether this password is the one that was kept.
pub(crate) fn matches(nickname: &str, password: &str, kept: &[u8]) -> bool {
    pbkdf2::verify(PBKDF2_HMAC_SHA256, ROUNDS, nickname.as_bytes(), password.as_bytes(), kept).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_right_password_of_the_right_person_matches() {
        let kept = hash("user1", "password1");
        assert!(matches("user1", "password1", &kept));
        assert!(!matches("user1", "password2", &kept) && !matches("user2", "password1", &kept));
        assert!(!matches("user1", "password1", b""));
    }
}
