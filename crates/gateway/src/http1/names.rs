//! Names of fields, remembered as they were written: most heads have the names of those before them, and to know one
//! again costs less than reading it, and no memory where the name is none of the standard's.

use std::cell::RefCell;

use http::{
    HeaderName,
    header::{self, InvalidHeaderName},
};

/// Sets of places for names, and how many a set has.
const SETS: usize = 128;
const PLACES: usize = 2;
/// The longest name that is remembered, bytes.
const LONGEST: usize = 64;

/// A name, and how it was written.
type Known = Option<(Box<[u8]>, HeaderName)>;

thread_local! {
    static KNOWN: RefCell<[[Known; PLACES]; SETS]> = const { RefCell::new([const { [None, None] }; SETS]) };
}

/// The name that stands in a head.
///
/// # Errors
///
/// [`InvalidHeaderName`] if it is none.
pub(crate) fn name(written: &[u8]) -> Result<HeaderName, InvalidHeaderName> {
    if written.len() > LONGEST {
        return HeaderName::from_bytes(written);
    }
    KNOWN.with_borrow_mut(|sets| {
        let set = &mut sets[place(written)];
        if let Some((_, name)) = set.iter().flatten().find(|(known, _)| **known == *written) {
            return Ok(name.clone());
        }
        let name = HeaderName::from_bytes(written)?;
        set.rotate_right(1);
        set[0] = Some((written.into(), name.clone()));
        Ok(name)
    })
}

/// The set a name belongs to, by its ends and its length: names that begin alike end otherwise.
fn place(written: &[u8]) -> usize {
    let end = |bytes: Option<&[u8; 4]>| bytes.map_or(0, |bytes| u32::from_le_bytes(*bytes));
    let (first, last) = (end(written.first_chunk()), end(written.last_chunk()));
    let mixed = (first ^ last.rotate_left(15) ^ written.len() as u32).wrapping_mul(0x9E37_79B1);
    (mixed >> (32 - SETS.ilog2())) as usize
}

/// Whether a field may be called so (RFC 9110, section 5.6.2): of what no name may have, the codec of HTTP/2 lets a quotation
/// mark pass.
pub(crate) fn is_name(name: &HeaderName) -> bool {
    !name.as_str().contains('"')
}

/// Whether a field is for this hop only, whatever `Connection` names (RFC 9110, section 7.6.1). `Trailer` goes on: the fields
/// it announces do.
pub(crate) fn ends_here(name: &HeaderName) -> bool {
    match *name {
        header::CONNECTION | header::TE | header::TRANSFER_ENCODING | header::UPGRADE => true,
        header::PROXY_AUTHENTICATE | header::PROXY_AUTHORIZATION => true,
        _ => matches!(name.as_str(), "keep-alive" | "proxy-connection"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_the_same_whether_or_not_it_is_known() {
        let written =
            ["Host", "host", "HOST", "X-One", "x-one", "Sec-Fetch-Mode", "a", "te", "b c", "", "x:", "é"];
        let long = "x".repeat(LONGEST + 1);
        for written in [written, written].concat().into_iter().chain([&*long]) {
            let read = HeaderName::from_bytes(written.as_bytes()).ok();
            assert_eq!(name(written.as_bytes()).ok(), read, "{written:?}");
        }
    }

    #[test]
    fn a_name_that_is_known_takes_no_memory() {
        let first = name(b"X-Of-Nobody").unwrap();
        assert_eq!(name(b"X-Of-Nobody").unwrap().as_str().as_ptr(), first.as_str().as_ptr());
    }

    #[test]
    fn more_names_than_there_are_places_are_all_read() {
        for round in 0..2 {
            for number in 0..4 * SETS * PLACES {
                let written = format!("X-{number}");
                assert_eq!(name(written.as_bytes()).unwrap(), written.to_lowercase().as_str(), "{round}");
            }
        }
    }

    /// Of the names that browsers and servers write none drives another one out.
    #[test]
    fn common_names_stay_known() {
        let common = [
            "Host",
            "Connection",
            "User-Agent",
            "Accept",
            "Accept-Encoding",
            "Accept-Language",
            "Cache-Control",
            "Cookie",
            "Referer",
            "Origin",
            "Sec-Fetch-Dest",
            "Sec-Fetch-Mode",
            "Sec-Fetch-Site",
            "Sec-Fetch-User",
            "sec-ch-ua",
            "sec-ch-ua-mobile",
            "sec-ch-ua-platform",
            "Upgrade-Insecure-Requests",
            "Priority",
            "Content-Type",
            "Content-Length",
            "Date",
            "Server",
            "Set-Cookie",
            "ETag",
            "Last-Modified",
            "Vary",
            "Accept-Ranges",
            "Content-Encoding",
            "Transfer-Encoding",
            "Location",
            "X-Powered-By",
            "Expires",
            "X-Content-Type-Options",
            "X-Frame-Options",
            "Strict-Transport-Security",
            "If-None-Match",
            "If-Modified-Since",
            "X-Forwarded-For",
            "X-Requested-With",
            "Authorization",
            "Range",
            "Pragma",
        ];
        let mut sets = [0; SETS];
        for written in common {
            sets[place(written.as_bytes())] += 1;
        }
        let crowded = sets.iter().filter(|names| **names > PLACES).count();
        assert_eq!(crowded, 0, "{sets:?}");
    }
}
