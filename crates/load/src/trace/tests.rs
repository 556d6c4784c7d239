//! Logs as servers write them, and as they get damaged.

use proptest::prelude::*;

use super::*;

fn read(log: &str, speed: f64) -> Result<Trace, String> {
    Trace::parse(log.as_bytes(), speed)
}

/// Milliseconds, method and target of each request.
fn requests(trace: &Trace) -> Vec<(u64, String, String)> {
    let offsets = trace.offsets().map(|offset| u64::try_from(offset.as_millis()).expect("short"));
    let asked = (0..).map_while(|index| trace.request(index));
    offsets.zip(asked).map(|(ms, (method, target))| (ms, method.to_string(), target.to_string())).collect()
}

fn row(ms: u64, method: &str, target: &str) -> (u64, String, String) {
    (ms, method.to_owned(), target.to_owned())
}

#[test]
fn a_combined_log_is_read_and_whole_seconds_are_spread() {
    let log = r#"
10.0.0.1 - - [20/Nov/2026:23:42:01 +0000] "GET /b?x=1 HTTP/1.1" 200 5 "-" "a \"b\" [c]"
10.0.0.1 - bob [20/Nov/2026:23:42:00 +0000] "GET /a HTTP/1.0" 304 -
::1 - - [21/Nov/2026:00:42:01 +0100] "POST /c HTTP/2.0" 200 0 "-" "-"
10.0.0.1 - - [20/Nov/2026:23:42:01 +0000] "GET http://shop.example/d HTTP/1.1" 200 5
10.0.0.1 - - [20/Nov/2026:23:42:02 +0000] "GET /\xc3\xa4x HTTP/1.1" 404 5
10.0.0.1 - - [20/Nov/2026:23:42:02 +0000] "-" 408 0
10.0.0.1 - - [20/Nov/2026:23:42:02 +0000] "\x16\x03\x01" 400 0
10.0.0.1 - - [20/Nov/2026:23:42:02 +0000] "OPTIONS * HTTP/1.1" 200 0
"#;
    let trace = read(log, 1.0).expect("a log");
    assert_eq!(trace.skipped(), 3);
    assert_eq!(
        requests(&trace),
        [
            row(0, "GET", "/a"),
            row(1000, "GET", "/b?x=1"),
            row(1333, "POST", "/c"),
            row(1666, "GET", "/d"),
            row(2000, "GET", "/%C3%A4x"),
        ]
    );
    assert_eq!(trace.span(), Duration::from_secs(3));
    let fast: Vec<_> = requests(&read(log, 2.0).expect("a log"));
    assert_eq!(fast.iter().map(|row| row.0).collect::<Vec<_>>(), [0, 500, 666, 833, 1000]);
}

#[test]
fn a_json_log_keeps_its_milliseconds() {
    let log = r#"{"time":"2026-11-20T23:59:59.990Z","client":"::1","connection":7,"method":"GET","target":"/a","status":200}
{"time":"2026-11-21T00:00:00.240Z","method":"-","target":"-","status":400}
{"time":"2026-11-21T01:00:00.250+01:00","method":"PUT","target":"/b?c","status":200}
"#;
    let trace = read(log, 0.5).expect("a log");
    assert_eq!(requests(&trace), [row(0, "GET", "/a"), row(520, "PUT", "/b?c")]);
    assert_eq!(trace.skipped(), 1);
}

#[test]
fn times_agree_with_known_seconds() {
    assert_eq!(read_common_time("01/Jan/1970:00:00:00 +0000"), Some(0));
    assert_eq!(read_common_time("29/Feb/2024:12:00:00 -0130"), Some(1_709_213_400_000_000_000));
    assert_eq!(read_rfc3339("2026-11-21T02:38:00.5Z"), Some(1_795_228_680_500_000_000));
    for bad in [
        "",
        "20/Nov/2026",
        "20/Nub/2026:00:00:00 +0000",
        "20/Nov/2026:24:00:00 +0000",
        "20/Nov/2026:00:00:00",
    ] {
        assert_eq!(read_common_time(bad), None, "{bad}");
    }
    for bad in ["", "2026-11-21", "2026-11-21T02:38:00", "2026-13-21T02:38:00Z", "2026-11-21T02:38:00+1Z"] {
        assert_eq!(read_rfc3339(bad), None, "{bad}");
    }
}

#[test]
fn bad_lines_are_named_by_number() {
    let good = "1.1.1.1 - - [20/Nov/2026:23:42:01 +0000] \"GET / HTTP/1.1\" 200 5\n";
    for (bad, said) in [
        ("what is this", "line 2: has no time in brackets"),
        ("h - - [20/Nov/26] \"GET / HTTP/1.1\" 200 5", "line 2: `20/Nov/26` is no time"),
        ("h - - [20/Nov/2026:23:42:01 +0000] GET", "line 2: has no request in quotes"),
        ("h - - [20/Nov/2026:23:42:01 +0000] \"GET / HTTP/1.1", "line 2: has no end"),
        ("h - - [20/Nov/2026:23:42:01 +0000] \"GET / HTTP/1.1\"", "line 2: has no status"),
        ("h - - [20/Nov/2026:23:42:01 +0000] \"GET /\" 200 5", "line 2: `GET /` is no request line"),
        ("h - - [20/Nov/2026:23:42:01 +0000] \"G@T / HTTP/1.1\" 200 5", "line 2: `G@T` is no method"),
        ("h - - [20/Nov/2026:23:42:01 +0000] \"GET x HTTP/1.1\" 200 5", "line 2: `x` is no path"),
        ("{\"time\":\"2026-11-20T23:59:59Z\"}", "line 2: missing field `method`"),
        ("{\"time\":\"now\",\"method\":\"GET\",\"target\":\"/\"}", "line 2: `now` is no RFC 3339 time"),
        ("{", "line 2: EOF"),
    ] {
        let fault = read(&format!("{good}{bad}\n{good}"), 1.0).expect_err(bad);
        assert!(fault.starts_with(said), "{bad}: {fault}");
    }
    let fault = read(&"nonsense\n".repeat(7), 1.0).expect_err("nonsense");
    assert!(fault.contains("line 5:") && fault.ends_with("; and 2 more"), "{fault}");
    assert!(read("\n\n", 1.0).expect_err("empty").contains("no request"));
    let long = "x".repeat(LINE_BYTES_MAX + 1);
    assert!(read(&format!("{good}{long}"), 1.0).expect_err("long").starts_with("line 2: is longer"));
    let apart = format!("{good}{}", good.replace("2026", "2027"));
    assert!(read(&apart, 1.0).expect_err("a year").contains("240h"));
}

proptest! {
    #[test]
    fn no_line_panics(line in "(h - - \\[[0-9/:A-z +]{0,30}\\] )?\"?\\PC{0,60}") {
        let _ = read(&line, 1.0);
    }
}
