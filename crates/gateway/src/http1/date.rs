//! The time as heads say it (RFC 9110, section 6.6.1), written once a second.

use std::{
    cell::RefCell,
    io::Write,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use httpdate::HttpDate;

thread_local! {
    /// The second that is written, and its text.
    static WRITTEN: RefCell<(u64, Vec<u8>)> = const { RefCell::new((u64::MAX, Vec::new())) };
}

/// Writes the field `Date`.
pub(crate) fn write(out: &mut Vec<u8>) {
    // A clock before 1970 is wrong anyway.
    let second = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    WRITTEN.with_borrow_mut(|(written, text)| {
        if *written != second {
            *written = second;
            text.clear();
            // Writing to memory does not fail.
            let _ = write!(text, "date: {}\r\n", HttpDate::from(UNIX_EPOCH + Duration::from_secs(second)));
        }
        out.extend_from_slice(text);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_a_date_of_now() {
        let mut out = Vec::new();
        write(&mut out);
        let text = String::from_utf8(out).unwrap();
        let date = text.strip_prefix("date: ").and_then(|text| text.strip_suffix("\r\n")).unwrap();
        let date = httpdate::parse_http_date(date).unwrap();
        assert!(SystemTime::now().duration_since(date).unwrap() < Duration::from_secs(60));
    }
}
