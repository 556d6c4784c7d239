//! W3C Trace Context: whether a request is traced, and the headers by which a trace goes on at the server.
//!
//! A caller's decision is gone by where its `traceparent` is believed; all others are traced by chance. What is not
//! traced is passed on as it came.

use http::{HeaderMap, HeaderName, HeaderValue};
use tidegate_config::{Settings, TraceParent};
use tidegate_control::knobs::keys;
use tidegate_runtime::TraceIds;

use super::hop_by_hop::find;
use crate::facts::ConnectionFacts;

pub(super) const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
pub(super) const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// Longest `tracestate` taken along, the least that the specification asks for (section 3.3.1.5).
const TRACESTATE_MAX: usize = 512;

/// What a valid `traceparent` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Parent {
    trace_id: [u8; 16],
    span_id: [u8; 8],
    is_sampled: bool,
}

/// Decides whether a request is traced. `random` gives a new random number each time.
pub(super) fn begin(
    settings: &Settings,
    facts: &ConnectionFacts,
    headers: &HeaderMap,
    random: impl Fn() -> u64,
) -> Option<Box<TraceIds>> {
    let telemetry = settings.telemetry.as_ref()?;
    let share = settings.host.get(keys::TRACES_SAMPLE)?;
    let is_believed = match telemetry.parent {
        TraceParent::All => true,
        TraceParent::Trusted => facts.trusted,
        TraceParent::None => false,
    };
    let parent = if is_believed { parent(headers) } else { None };
    let is_sampled = match parent {
        Some(parent) => parent.is_sampled,
        None => is_drawn(share, random()),
    };
    is_sampled.then(|| Box::new(ids(parent, headers, random)))
}

/// Whether a random number lies in the first part, `share` of all.
fn is_drawn(share: f64, random: u64) -> bool {
    // The upper 53 bits are a number from 0 to below 1, exactly.
    #[expect(clippy::cast_precision_loss, reason = "53 bits fit")]
    let drawn = (random >> 11) as f64 / (1_u64 << 53) as f64;
    drawn < share
}

fn ids(parent: Option<Parent>, headers: &HeaderMap, random: impl Fn() -> u64) -> TraceIds {
    // All zero is no id, and as likely as any other number.
    let span_id = || random().max(1).to_be_bytes();
    let new_trace = || {
        let mut trace_id = [0; 16];
        trace_id[..8].copy_from_slice(&random().to_be_bytes());
        trace_id[8..].copy_from_slice(&span_id());
        trace_id
    };
    TraceIds {
        trace_id: parent.map_or_else(new_trace, |parent| parent.trace_id),
        span_id: span_id(),
        exchange_id: span_id(),
        waiting_id: span_id(),
        parent_id: parent.map(|parent| parent.span_id),
        trace_state: if parent.is_some() { trace_state(headers) } else { String::new() },
    }
}

/// The lines of `tracestate` as one; empty if they are not text or too long.
fn trace_state(headers: &HeaderMap) -> String {
    let lines: Option<Vec<&str>> =
        headers.get_all(TRACESTATE).iter().map(|line| line.to_str().ok()).collect();
    let joined = lines.unwrap_or_default().join(",");
    if joined.len() > TRACESTATE_MAX { String::new() } else { joined }
}

/// Puts the exchange with the server in the place of its caller. The state of a trace that is not gone on with goes.
pub(super) fn write(ids: &TraceIds, headers: &mut HeaderMap) {
    let mut text = String::with_capacity(55);
    text.push_str("00-");
    hex(&mut text, &ids.trace_id);
    text.push('-');
    hex(&mut text, &ids.exchange_id);
    text.push_str("-01");
    if let Ok(value) = HeaderValue::try_from(text) {
        headers.insert(TRACEPARENT, value);
    }
    if ids.parent_id.is_none() {
        headers.remove(TRACESTATE);
    }
}

fn hex(text: &mut String, bytes: &[u8]) {
    for byte in bytes {
        for digit in [byte >> 4, byte & 15] {
            text.extend(char::from_digit(u32::from(digit), 16));
        }
    }
}

/// The caller's span; `None` if there is none, several, or one that is malformed (section 3.2.2).
fn parent(headers: &HeaderMap) -> Option<Parent> {
    find(headers, &TRACEPARENT)?;
    let mut lines = headers.get_all(TRACEPARENT).iter();
    let (line, None) = (lines.next()?, lines.next()) else { return None };
    read(line.as_bytes())
}

/// Reads `00-TRACE-SPAN-FLAGS`; a later version may say more behind another hyphen (section 4.3).
fn read(bytes: &[u8]) -> Option<Parent> {
    let (known, more) = bytes.split_at_checked(55)?;
    let [version] = unhex(known.get(..2)?)?;
    let is_whole = match version {
        0 => more.is_empty(),
        0xff => false,
        _ => more.is_empty() || more.first() == Some(&b'-'),
    };
    let hyphens = [2, 35, 52].iter().all(|at| known.get(*at) == Some(&b'-'));
    let (trace_id, span_id) = (unhex(known.get(3..35)?)?, unhex(known.get(36..52)?)?);
    let [flags] = unhex(known.get(53..55)?)?;
    (is_whole && hyphens && trace_id != [0; 16] && span_id != [0; 8]).then_some(Parent {
        trace_id,
        span_id,
        is_sampled: flags & 1 == 1,
    })
}

/// Lower-case digits only, as the grammar has it.
fn unhex<const N: usize>(digits: &[u8]) -> Option<[u8; N]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let (pairs, []) = digits.as_chunks::<2>() else { return None };
    let mut bytes = [0; N];
    if pairs.len() != N {
        return None;
    }
    for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// The example of the specification.
    const EXAMPLE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
        let field = |(name, value): &(&'static str, &str)| {
            (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())
        };
        let mut headers = HeaderMap::new();
        for (name, value) in lines.iter().map(field) {
            headers.append(name, value);
        }
        headers
    }

    /// 1, 2, 3 and so on.
    fn counting() -> impl Fn() -> u64 {
        let last = Cell::new(0);
        move || {
            last.set(last.get() + 1);
            last.get()
        }
    }

    #[test]
    fn a_parent_is_read_as_the_specification_has_it() {
        let parent = read(EXAMPLE.as_bytes()).unwrap();
        assert_eq!(parent.trace_id[..2], [0x4b, 0xf9]);
        assert_eq!(parent.span_id, [0x00, 0xf0, 0x67, 0xaa, 0x0b, 0xa9, 0x02, 0xb7]);
        assert!(parent.is_sampled);
        assert!(!read(EXAMPLE.replace("-01", "-02").as_bytes()).unwrap().is_sampled);
        // A later version may say more.
        assert_eq!(read(EXAMPLE.replacen("00-", "cc-", 1).as_bytes()), Some(parent));
        assert_eq!(read(format!("cc{}-what", &EXAMPLE[2..]).as_bytes()), Some(parent));
        for bad in [
            "",
            "00",
            &EXAMPLE[..54],
            &format!("{EXAMPLE}-what"),
            &format!("cc{}what", &EXAMPLE[2..]),
            &EXAMPLE.replacen("00-", "ff-", 1),
            &EXAMPLE.to_uppercase(),
            &EXAMPLE.replace('-', "_"),
            &EXAMPLE.replace("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32)),
            &EXAMPLE.replace("00f067aa0ba902b7", &"0".repeat(16)),
            &EXAMPLE.replace("-01", "-0g"),
        ] {
            assert_eq!(read(bad.as_bytes()), None, "{bad}");
        }
        assert_eq!(parent_of(&[("traceparent", EXAMPLE), ("traceparent", EXAMPLE)]), None);
    }

    fn parent_of(lines: &[(&'static str, &str)]) -> Option<Parent> {
        parent(&headers(lines))
    }

    #[test]
    fn a_trace_goes_on_with_its_state() {
        let mut head = headers(&[("traceparent", EXAMPLE), ("tracestate", "a=1"), ("tracestate", "b=2")]);
        let ids = ids(parent(&head), &head, counting());
        assert_eq!(
            (ids.parent_id, ids.trace_state.as_str()),
            (Some(0xf0_67aa_0ba9_02b7_u64.to_be_bytes()), "a=1,b=2")
        );
        write(&ids, &mut head);
        assert_eq!(head[TRACEPARENT], "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000002-01");
        assert_eq!(head.get_all(TRACESTATE).iter().count(), 2);
    }

    #[test]
    fn a_new_trace_leaves_the_state_of_another_behind() {
        let mut head = headers(&[("traceparent", EXAMPLE), ("tracestate", "a=1")]);
        let ids = ids(None, &head, counting());
        assert_eq!((ids.parent_id, ids.trace_state.as_str()), (None, ""));
        write(&ids, &mut head);
        assert_eq!(head[TRACEPARENT], "00-00000000000000010000000000000002-0000000000000004-01");
        assert!(!head.contains_key(TRACESTATE));
    }

    #[test]
    fn a_share_is_drawn() {
        assert!(!is_drawn(0.0, 0) && is_drawn(1.0, u64::MAX));
        assert!(is_drawn(0.5, u64::MAX / 2 - 4096) && !is_drawn(0.5, u64::MAX / 2 + 4096));
    }

    /// Fuzz target: no value of a client panics, and what is read is what would be written.
    #[test]
    fn any_bytes_are_a_parent_or_not() {
        bolero::check!().for_each(|bytes: &[u8]| {
            if let Some(parent) = read(bytes) {
                let mut text = String::new();
                hex(&mut text, &parent.trace_id);
                assert_eq!(text.as_bytes(), &bytes[3..35]);
            }
        });
    }
}
