//! Tests of canonical paths: a table, a naive reference, and spellings made at random.

use std::borrow::Cow;

use proptest::prelude::*;

use super::{canonical_path, is_ambiguous_path, path_with_dots};

#[test]
fn paths_have_one_canonical_form() {
    for (written, canonical) in [
        ("/", "/"),
        ("", "/"),
        ("*", "*"),
        ("/a/b", "/a/b"),
        ("/a/b/", "/a/b/"),
        ("/a.b/..c/...", "/a.b/..c/..."),
        ("/a/./b/../c", "/a/c"),
        ("/a/..", "/"),
        ("/a/.", "/a/"),
        ("/a/b/..", "/a/"),
        ("/..", "/"),
        ("/../../a", "/a"),
        ("/%2e%2E/a", "/a"),
        ("//a///b//", "/a/b/"),
        ("/a//../b", "/b"),
        ("/%61dmin", "/admin"),
        ("/%7euser/%40me", "/~user/@me"),
        ("/a%2fb%3Bc%25%3f%23", "/a%2Fb%3Bc%25%3F%23"),
        ("/a%00%0a", "/a%00%0A"),
        ("/a%2", "/a%252"),
        ("/a%", "/a%25"),
        ("/a%zz", "/a%25zz"),
        ("/a%+1", "/a%25+1"),
        ("/%%36%31", "/%2561"),
        ("/é", "/%C3%A9"),
        ("/%c3%a9", "/%C3%A9"),
        ("/shop;jsessionid=1/cart;x", "/shop/cart"),
        ("/static/..;/admin", "/admin"),
        ("/a/;x/b", "/a/b"),
        ("/a b", "/a%20b"),
        ("/a/%2e", "/a/"),
        ("/a/.;x", "/a/"),
        ("/a\\..\\b", "/a\\..\\b"),
    ] {
        assert_eq!(canonical_path(written), canonical, "{written}");
    }
}

/// The definition, step by step: segments, without parameters, in octets, dots resolved.
fn naive(path: &str) -> String {
    fn octets(text: &str) -> Vec<Vec<u8>> {
        let bytes = text.as_bytes();
        let is_escape = |at: usize| {
            bytes[at] == b'%'
                && bytes.len() > at + 2
                && bytes[at + 1..at + 3].iter().all(u8::is_ascii_hexdigit)
        };
        let (mut out, mut at) = (Vec::new(), 0);
        while at < bytes.len() {
            let octet = if is_escape(at) {
                at += 2;
                u8::from_str_radix(&text[at - 1..=at], 16).unwrap()
            } else {
                bytes[at]
            };
            at += 1;
            let plain = octet.is_ascii_graphic() && !b"/;%?#".contains(&octet);
            out.push(if plain { vec![octet] } else { format!("%{octet:02X}").into_bytes() });
        }
        out
    }
    let text = |segment: &str| String::from_utf8(octets(segment).concat()).unwrap();
    let Some(rest) = path.strip_prefix('/') else {
        return if path.is_empty() { "/".into() } else { text(path) };
    };
    let mut segments: Vec<String> = rest.split('/').map(|s| text(s.split(';').next().unwrap())).collect();
    // A last segment that is empty or a dot segment leaves a final slash.
    let last_is_open = matches!(segments.last().unwrap().as_str(), "" | "." | "..");
    segments.retain(|segment| !segment.is_empty() && segment != ".");
    let mut kept: Vec<String> = Vec::new();
    for segment in segments {
        if segment == ".." {
            kept.pop();
        } else {
            kept.push(segment);
        }
    }
    if last_is_open || kept.is_empty() {
        kept.push(String::new());
    }
    format!("/{}", kept.join("/"))
}

#[test]
fn paths_that_servers_read_in_more_than_one_way_are_known() {
    for path in ["/.;", "/a/..;x/b", "/%2e", "/a/.%2E", "/%2e%2e;/a", "/a\\b", "/\\", "//..", "/a/;x/b/../c"]
    {
        assert!(is_ambiguous_path(path), "{path}");
    }
    for path in [
        "/",
        "/.",
        "/a/../b",
        "/a;b/c",
        "/a%5Cb",
        "/%2ea",
        "/a%2e",
        "/...;",
        "/a%2f..%2f",
        "/..//a/",
        "*",
        "",
    ] {
        assert!(!is_ambiguous_path(path), "{path}");
    }
    for (path, kept) in
        [("/a/./%62/..", Some("/a/./b/..")), ("//..//a;x/", Some("/../a/")), ("/a.b/.c", None)]
    {
        assert_eq!(path_with_dots(path).as_deref(), kept, "{path}");
    }
}

proptest! {
    #[test]
    fn is_the_naive_form(path in prop_oneof![
        "(/|\\.|a|b|%2e|%2F|%61|;|%|%4|é|~)*",
        "/(/|\\.|a|;|%2E)*",
        ".*",
    ]) {
        prop_assert_eq!(canonical_path(&path), naive(&path));
    }

    #[test]
    fn is_canonical_itself_and_then_costs_no_allocation(path in "/?(/|\\.|a|%2e|%25|;|%|\\PC)*") {
        let canonical = canonical_path(&path);
        prop_assert!(canonical.is_ascii());
        prop_assert!(canonical.len() <= 3 * path.len() + 2);
        prop_assert!(matches!(canonical_path(&canonical), Cow::Borrowed(same) if same == canonical));
    }

    #[test]
    fn every_spelling_of_a_path_has_the_same_form(
        segments in prop::collection::vec("[a-z~@!]{1,4}", 1..5),
        how in prop::collection::vec((0..7_u8, any::<prop::sample::Index>()), 5),
    ) {
        let path = format!("/{}", segments.join("/"));
        prop_assert!(matches!(canonical_path(&path), Cow::Borrowed(_)));
        let spelling: String = segments
            .iter()
            .zip(how)
            .map(|(segment, (how, place))| {
                let at = place.index(segment.len());
                let (before, after) = (&segment[..at], &segment[at + 1..]);
                let octet = segment.as_bytes()[at];
                match how {
                    0 => format!("/{before}%{octet:02x}{after}"),
                    1 => format!("/{before}%{octet:02X}{after}"),
                    2 => format!("//{segment}"),
                    3 => format!("/./{segment}"),
                    4 => format!("/x/%2E./{segment}"),
                    5 => format!("/{segment};v={at}"),
                    _ => format!("/{segment}"),
                }
            })
            .collect();
        prop_assert_eq!(canonical_path(&spelling), path);
    }
}

#[test]
fn fuzz_path() {
    bolero::check!().with_iterations(20_000).for_each(|bytes: &[u8]| {
        let path = String::from_utf8_lossy(bytes);
        let canonical = canonical_path(&path);
        assert_eq!(canonical, naive(&path));
        assert!(matches!(canonical_path(&canonical), Cow::Borrowed(same) if same == canonical));
    });
}
