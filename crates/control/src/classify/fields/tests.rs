//! Tests of query parameters and cookies.

use std::borrow::Cow;

use proptest::prelude::*;

use super::*;

fn query(text: &str, name: &str) -> Vec<String> {
    query_values(text, name).map(|value| String::from_utf8_lossy(&value).into_owned()).collect()
}

fn cookies(line: &str, name: &str) -> Vec<String> {
    cookie_values(line.as_bytes(), name).map(|value| String::from_utf8_lossy(value).into_owned()).collect()
}

#[test]
fn query_parameters_are_decoded_as_forms() {
    assert_eq!(query("a=1&b=2&a=3", "a"), ["1", "3"]);
    assert_eq!(query("a", "a"), [""]);
    assert_eq!(query("a=b=c", "a"), ["b=c"]);
    assert_eq!(query("%61=x+y%2Bz%26", "a"), ["x y+z&"]);
    assert_eq!(query("a+b=1", "a b"), ["1"]);
    assert_eq!(query("a=%zz%4", "a"), ["%zz%4"]);
    assert_eq!(query("&&=x&", ""), ["x"]);
    assert_eq!(query("A=1", "a"), [""; 0]);
    assert!(matches!(query_values("a=plain", "a").next(), Some(Cow::Borrowed(_))));
}

#[test]
fn cookies_are_pairs_between_semicolons() {
    assert_eq!(cookies("a=1; b=2;a=3 ;", "a"), ["1", "3"]);
    assert_eq!(cookies("a=\"x y\"", "a"), ["\"x y\""]);
    assert_eq!(cookies("a=b=c", "a"), ["b=c"]);
    assert_eq!(cookies("a", "a"), [""; 0]);
    assert_eq!(cookies("A=1", "a"), [""; 0]);
    assert_eq!(cookies("xa=1; a =2", "a"), ["2"]);
}

proptest! {
    /// What a browser's form makes of any names and values reads back as they were.
    #[test]
    fn what_is_encoded_reads_back(
        pairs in prop::collection::vec(("[ab&=+% é]{0,3}", any::<Vec<u8>>()), 0..5),
        upper in any::<bool>(),
    ) {
        let encode = |bytes: &[u8]| -> String {
            bytes
                .iter()
                .map(|byte| match byte {
                    b' ' => "+".to_owned(),
                    byte if byte.is_ascii_alphanumeric() => char::from(*byte).to_string(),
                    byte if upper => format!("%{byte:02X}"),
                    byte => format!("%{byte:02x}"),
                })
                .collect()
        };
        let text: Vec<_> =
            pairs.iter().map(|(name, value)| format!("{}={}", encode(name.as_bytes()), encode(value))).collect();
        let text = text.join("&");
        for (name, _) in &pairs {
            let expected: Vec<_> = pairs.iter().filter(|(n, _)| n == name).map(|(_, v)| v.clone()).collect();
            let found: Vec<_> = query_values(&text, name).map(Cow::into_owned).collect();
            prop_assert_eq!(found, expected);
        }
    }

    /// Beside reading with `String`s.
    #[test]
    fn cookies_are_read_as_the_naive_reader_does(line in "([ab=; \t\"]|\\PC){0,30}", name in "[ab]{1,2}") {
        let blank = |c: char| c.is_ascii_whitespace();
        let naive: Vec<_> = line
            .split(';')
            .filter_map(|pair| pair.split_once('='))
            .filter(|(key, _)| key.trim_matches(blank) == name)
            .map(|(_, value)| value.trim_matches(blank).to_owned())
            .collect();
        prop_assert_eq!(cookies(&line, &name), naive);
    }
}

#[test]
fn fuzz_fields() {
    bolero::check!().with_iterations(20_000).for_each(|bytes: &[u8]| {
        // A name that is there at times: what the input begins with.
        let text = String::from_utf8_lossy(bytes);
        let name = text.split(['=', '&', ';']).next().unwrap_or_default();
        let octets: usize = query_values(&text, name).map(|value| value.len()).sum();
        assert!(octets <= text.len());
        assert!(
            cookie_values(bytes, name).all(|value| value.trim_ascii() == value && !value.contains(&b';'))
        );
    });
}
