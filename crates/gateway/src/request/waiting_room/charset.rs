//! The charsets in which a page has its browser write a form: UTF-8, or bytes that are not as windows-1252, in which each byte is one
//! character and no two are the same (Encoding, section 9). So bytes of any charset come back as they were, whatever their texts mean.

/// As browsers call it.
pub(super) const UTF_8: &str = "UTF-8";
/// As browsers call it.
pub(super) const WINDOWS_1252: &str = "windows-1252";

/// What a browser writes as 0x80 to 0x9F; all others are as in Latin-1.
const FROM_80: [char; 32] = [
    '\u{20ac}', '\u{81}', '\u{201a}', '\u{192}', '\u{201e}', '\u{2026}', '\u{2020}', '\u{2021}', '\u{2c6}',
    '\u{2030}', '\u{160}', '\u{2039}', '\u{152}', '\u{8d}', '\u{17d}', '\u{8f}', '\u{90}', '\u{2018}',
    '\u{2019}', '\u{201c}', '\u{201d}', '\u{2022}', '\u{2013}', '\u{2014}', '\u{2dc}', '\u{2122}', '\u{161}',
    '\u{203a}', '\u{153}', '\u{9d}', '\u{17e}', '\u{178}',
];

/// The text for which a browser writes these bytes in windows-1252.
pub(super) fn of_bytes(bytes: &[u8]) -> String {
    let character = |byte: &u8| {
        let high = byte.checked_sub(0x80).and_then(|at| FROM_80.get(usize::from(at)));
        high.copied().unwrap_or(char::from(*byte))
    };
    bytes.iter().map(character).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_byte_is_a_character_of_its_own() {
        let all: Vec<u8> = (0..=u8::MAX).collect();
        let text = of_bytes(&all);
        assert_eq!(text.chars().collect::<BTreeSet<_>>().len(), 256);
        assert!(text.starts_with("\0\u{1}") && text.ends_with("ýþÿ"), "{text}");
        assert_eq!(of_bytes(b"\x7f\x80\x9f\xa0"), "\u{7f}€Ÿ\u{a0}");
    }
}
