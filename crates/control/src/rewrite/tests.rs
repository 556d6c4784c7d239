//! Tests of path rewriting.

use proptest::prelude::*;

use super::*;

#[test]
fn the_first_that_matches_replaces_what_it_matched() {
    let rewriter = Rewriter::compile(&[
        ("/a/(?<rest>.*)", "/b/${rest}"),
        ("/c|/d", "/e"),
        ("/money/([0-9]+)", "/$$$1/${1}0"),
        ("/opt(/x)?$", "/o$1"),
    ])
    .unwrap();
    for (path, expected) in [
        ("/a/x%2Fy/z", Some("/b/x%2Fy/z")),
        ("/d/rest", Some("/e/rest")),
        ("/x/d", None),
        ("/money/5/more", Some("/$5/50/more")),
        ("/opt", Some("/o")),
        ("/opt/x", Some("/o/x")),
        ("/opt/y", None),
    ] {
        assert_eq!(rewriter.apply(path).as_deref(), expected, "{path}");
    }
}

#[test]
fn every_fault_is_found_with_its_mend() {
    let faults = Rewriter::compile(&[
        ("/(", "/"),
        ("/a", "b"),
        ("/(a)", "/$2"),
        ("/(a)", "/${1"),
        ("/(a)", "/a?b"),
        ("/(a)", "/$a"),
        ("a)|(b", "/"),
        ("/((a{100}){100}){100}", "/"),
    ])
    .unwrap_err();
    let places: Vec<_> = faults.iter().map(|fault| (fault.rewrite, fault.field)).collect();
    let (pattern, replacement) = ("pattern", "replacement");
    assert_eq!(
        places,
        [
            (0, pattern),
            (1, replacement),
            (2, replacement),
            (3, replacement),
            (4, replacement),
            (5, replacement),
            (6, pattern),
            (7, pattern)
        ]
    );
    assert_eq!(
        faults[2].to_string(),
        "rewrites[2].replacement: \"/$2\": the pattern has no group \"2\" (it has 1): write `$$` for a dollar sign"
    );
}

proptest! {
    #[test]
    fn the_result_is_an_absolute_path_of_bounded_length(path in "/[a-c/%0-9]{0,40}") {
        let rewriter = Rewriter::compile(&[("/(a+)/(.*)", "/$1$2$1"), ("(.*)b", "/${1}x")]).unwrap();
        if let Some(result) = rewriter.apply(&path) {
            prop_assert!(result.starts_with('/'));
            prop_assert!(result.len() <= 3 * path.len() + 2);
        }
    }

    /// Beside the regular expression library's own replacement.
    #[test]
    fn is_what_replacing_once_gives(path in "/[a-c/]{0,12}", literal in "[a-z]{0,3}") {
        let replacement = format!("/{literal}${{2}}{literal}$$${{1}}");
        let rewriter = Rewriter::compile(&[("/(a*)(b|/)?".to_owned(), replacement.clone())]).unwrap();
        let naive = regex::Regex::new("^(?:/(a*)(b|/)?)").unwrap().replace(&path, replacement).into_owned();
        prop_assert_eq!(rewriter.apply(&path), Some(naive));
    }
}
