//! An access log replayed: what was asked for, and when.
//!
//! Each line is for itself either the Common or Combined Log Format or a JSON object with `time`
//! (RFC 3339), `method` and `target`. Lines without a request that could be sent (no head was read,
//! `CONNECT`, `OPTIONS *`) are left out and counted; any other line that cannot be read is a fault with
//! its number.
//!
//! The Common Log Format has whole seconds only. Requests of one second are spread evenly over it, in
//! the order of the log: sent all at its beginning they would be a burst that nobody made.

use std::{
    collections::HashMap,
    fs::File,
    io::{BufRead, BufReader},
    path::Path,
    time::Duration,
};

use http::{Method, Uri, uri::PathAndQuery};
use serde::Deserialize;

use crate::{request::RequestTemplate, units::DURATION_MAX};

/// The most requests a trace may have.
const ENTRIES_MAX: usize = 20_000_000;
/// The longest line, in bytes.
const LINE_BYTES_MAX: usize = 64 * 1024;
/// So many faulty lines are named; the others are counted.
const FAULTS_SHOWN: usize = 5;

/// A log in memory: targets are kept once each.
#[derive(Debug)]
pub(crate) struct Trace {
    entries: Vec<Entry>,
    targets: Vec<(Method, PathAndQuery)>,
    skipped: u64,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Since the first, at the pace of the replay.
    offset_ns: u64,
    target: u32,
}

impl Trace {
    /// Reads a log to be replayed `speed` times as fast as it was written.
    pub(crate) fn read(path: &Path, speed: f64) -> Result<Self, String> {
        let place = |fault: String| format!("{}: {fault}", path.display());
        let file = File::open(path).map_err(|fault| place(fault.to_string()))?;
        Self::parse(BufReader::with_capacity(LINE_BYTES_MAX, file), speed).map_err(place)
    }

    fn parse(mut log: impl BufRead, speed: f64) -> Result<Self, String> {
        let mut reader = LogReader::default();
        let mut line = Vec::new();
        for number in 1u64.. {
            line.clear();
            let limit = LINE_BYTES_MAX as u64 + 1;
            let read = std::io::Read::take(&mut log, limit).read_until(b'\n', &mut line);
            match read.map_err(|fault| format!("line {number}: {fault}"))? {
                0 => break,
                _ if line.len() > LINE_BYTES_MAX => {
                    return Err(format!("line {number}: is longer than {LINE_BYTES_MAX} bytes"));
                }
                _ => reader.take_in(number, line.trim_ascii()),
            }
            if reader.requests.len() > ENTRIES_MAX {
                return Err(format!("has more than {ENTRIES_MAX} requests; split it"));
            }
        }
        reader.finish(speed)
    }

    /// From the first request to the end of the second the last one falls in.
    pub(crate) fn span(&self) -> Duration {
        let last = self.entries.last().map_or(0, |entry| entry.offset_ns);
        Duration::from_secs(last / 1_000_000_000 + 1)
    }

    /// When each request is meant to start, in order.
    pub(crate) fn offsets(&self) -> impl Iterator<Item = Duration> {
        self.entries.iter().map(|entry| Duration::from_nanos(entry.offset_ns))
    }

    /// What the n-th request asks for.
    pub(crate) fn request(&self, index: usize) -> Option<(&Method, &PathAndQuery)> {
        let entry = self.entries.get(index)?;
        self.targets.get(entry.target as usize).map(|(method, target)| (method, target))
    }

    /// Lines without a request that could be sent.
    pub(crate) fn skipped(&self) -> u64 {
        self.skipped
    }
}

/// A log on its way into memory.
#[derive(Default)]
struct LogReader {
    requests: Vec<(At, u32)>,
    targets: Vec<(Method, PathAndQuery)>,
    known: HashMap<(Method, PathAndQuery), u32>,
    skipped: u64,
    faults: Vec<String>,
    faulty: usize,
}

/// A time as the log has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct At {
    unix_ns: i128,
    /// To the whole second.
    coarse: bool,
}

/// What a line says.
enum Line {
    Request(At, Method, PathAndQuery),
    NoRequest,
}

impl LogReader {
    fn take_in(&mut self, number: u64, line: &[u8]) {
        if line.is_empty() {
            return;
        }
        let text = String::from_utf8_lossy(line);
        match if text.starts_with('{') { read_json(&text) } else { read_common(&text) } {
            Ok(Line::Request(at, method, target)) => {
                let next = u32::try_from(self.targets.len()).unwrap_or(u32::MAX);
                let known = self.known.entry((method, target));
                if let std::collections::hash_map::Entry::Vacant(new) = &known {
                    self.targets.push(new.key().clone());
                }
                self.requests.push((at, *known.or_insert(next)));
            }
            Ok(Line::NoRequest) => self.skipped += 1,
            Err(fault) => {
                self.faulty += 1;
                if self.faults.len() < FAULTS_SHOWN {
                    self.faults.push(format!("line {number}: {fault}"));
                }
            }
        }
    }

    fn finish(mut self, speed: f64) -> Result<Trace, String> {
        if self.faulty > 0 {
            let more = self.faulty - self.faults.len();
            let rest = if more > 0 { format!("; and {more} more") } else { String::new() };
            return Err(format!("{}{rest}", self.faults.join("; ")));
        }
        // Logs are written in the order of completion. The sort is stable.
        self.requests.sort_by_key(|(at, _)| at.unix_ns);
        let times = spread(&self.requests);
        let first = times.first().copied().ok_or("has no request that could be replayed")?;
        let entries: Vec<Entry> = times
            .iter()
            .zip(&self.requests)
            .map(|(at, (_, target))| {
                let offset_s = (at - first) as f64 / 1e9 / speed;
                let offset = Duration::try_from_secs_f64(offset_s).unwrap_or(Duration::MAX);
                Entry { offset_ns: u64::try_from(offset.as_nanos()).unwrap_or(u64::MAX), target: *target }
            })
            .collect();
        let trace = Trace { entries, targets: self.targets, skipped: self.skipped };
        if trace.span() > DURATION_MAX {
            return Err("spans more than 240h at this speed".to_owned());
        }
        Ok(trace)
    }
}

/// The times in order, those of one whole second spread over it.
fn spread(requests: &[(At, u32)]) -> Vec<i128> {
    let mut times = Vec::with_capacity(requests.len());
    for second in requests.chunk_by(|(one, _), (other, _)| one.coarse && one == other) {
        let count = second.len() as i128;
        for (place, (at, _)) in second.iter().enumerate() {
            times.push(at.unix_ns + place as i128 * 1_000_000_000 / count);
        }
    }
    // Where lines of both kinds share a second, spreading may have passed a finer one.
    times.sort_unstable();
    times
}

#[derive(Deserialize)]
struct JsonLine {
    time: String,
    method: String,
    target: String,
}

fn read_json(text: &str) -> Result<Line, String> {
    let line: JsonLine = serde_json::from_str(text).map_err(|fault| fault.to_string())?;
    let at = read_rfc3339(&line.time).ok_or_else(|| format!("`{}` is no RFC 3339 time", line.time))?;
    request(At { unix_ns: at, coarse: false }, &line.method, &line.target)
}

/// `host ident user [20/Nov/2026:23:42:00 +0000] "GET /x HTTP/1.1" 200 5 …`
fn read_common(text: &str) -> Result<Line, String> {
    let (_, rest) = text.split_once('[').ok_or("has no time in brackets")?;
    let (time, rest) = rest.split_once(']').ok_or("has no time in brackets")?;
    let at = read_common_time(time)
        .ok_or_else(|| format!("`{time}` is no time such as 20/Nov/2026:23:42:00 +0000"))?;
    let quoted = rest.trim_start().strip_prefix('"').ok_or("has no request in quotes after its time")?;
    let (line, rest) = unquote(quoted).ok_or("has no end of the quoted request")?;
    let status = rest.split_whitespace().next().and_then(|status| status.parse::<u16>().ok());
    let status = status.ok_or("has no status after its request")?;
    let words: Vec<&str> = line.split(' ').collect();
    match words[..] {
        [method, target, protocol] if protocol.starts_with("HTTP/") => {
            request(At { unix_ns: at, coarse: true }, method, target)
        }
        // What servers log of TLS on a plain port, of a probe, of a client that sent nothing.
        _ if line == "-" || matches!(status, 0 | 400 | 408 | 499) => Ok(Line::NoRequest),
        _ => Err(format!("`{line}` is no request line")),
    }
}

fn request(at: At, method: &str, target: &str) -> Result<Line, String> {
    if method == "-" || target == "-" || target == "*" || method == "CONNECT" {
        return Ok(Line::NoRequest);
    }
    let read = Method::from_bytes(method.as_bytes()).map_err(|_| format!("`{method}` is no method"))?;
    let target = match target.parse::<Uri>() {
        Ok(uri) if uri.scheme().is_some() => {
            RequestTemplate::parse_target(&RequestTemplate::origin_form(&uri))
        }
        _ => RequestTemplate::parse_target(target),
    }
    .ok_or_else(|| format!("`{target}` is no path"))?;
    Ok(Line::Request(at, read, target))
}

/// Up to the closing quote, with `\"`, `\\` and `\xhh` read; bytes beyond ASCII come back
/// percent-encoded, as they must be in a target.
fn unquote(text: &str) -> Option<(String, &str)> {
    let mut read = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((read, text.get(at + 1..)?)),
            '\\' => match characters.next()?.1 {
                'x' => {
                    let byte = u8::from_str_radix(text.get(at + 2..at + 4)?, 16).ok()?;
                    characters.nth(1)?;
                    if byte.is_ascii_graphic() {
                        read.push(char::from(byte));
                    } else {
                        read.push_str(&format!("%{byte:02X}"));
                    }
                }
                escaped => read.push(escaped),
            },
            _ if character.is_ascii() => read.push(character),
            _ => character.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| {
                read.push_str(&format!("%{byte:02X}"));
            }),
        }
    }
    None
}

/// `20/Nov/2026:23:42:00 +0000`, in nanoseconds since the epoch.
fn read_common_time(text: &str) -> Option<i128> {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (date, zone) = text.split_once(' ')?;
    let mut parts = date.split([':', '/']);
    let day = number(parts.next()?)?;
    let month_name = parts.next()?;
    let month = MONTHS.iter().position(|month| month.eq_ignore_ascii_case(month_name))?;
    let fields = [number(parts.next()?)?, i64::try_from(month).ok()? + 1, day];
    let clock = [number(parts.next()?)?, number(parts.next()?)?, number(parts.next()?)?];
    if parts.next().is_some() {
        return None;
    }
    Some(i128::from(unix_seconds(fields, clock)? - read_zone(zone)?) * 1_000_000_000)
}

/// `2026-11-20T23:42:00.123Z`, in nanoseconds since the epoch.
fn read_rfc3339(text: &str) -> Option<i128> {
    let (date, time) = text.split_once(['T', 't', ' '])?;
    let zone_at = time.find(['Z', 'z', '+', '-'])?;
    let (time, zone) = time.split_at(zone_at);
    let zone_s = if zone.eq_ignore_ascii_case("z") { 0 } else { read_zone(zone)? };
    let (time, fraction) = time.split_once('.').unwrap_or((time, ""));
    let mut date = date.split('-');
    let fields = [number(date.next()?)?, number(date.next()?)?, number(date.next()?)?];
    let mut time = time.split(':');
    let clock = [number(time.next()?)?, number(time.next()?)?, number(time.next()?)?];
    if date.next().is_some() || time.next().is_some() {
        return None;
    }
    let nanos = if fraction.is_empty() {
        0
    } else {
        number(&format!("{:0<9}", fraction.get(..fraction.len().min(9))?))?
    };
    Some(i128::from(unix_seconds(fields, clock)? - zone_s) * 1_000_000_000 + i128::from(nanos))
}

/// `+0130` or `+01:30`, in seconds.
fn read_zone(text: &str) -> Option<i64> {
    let sign = match text.get(..1)? {
        "+" => 1,
        "-" => -1,
        _ => return None,
    };
    let digits = text.get(1..)?.replace(':', "");
    if digits.len() != 4 {
        return None;
    }
    Some(sign * (number(digits.get(..2)?)? * 3600 + number(digits.get(2..)?)? * 60))
}

fn number(text: &str) -> Option<i64> {
    let digits = !text.is_empty() && text.len() <= 9 && text.bytes().all(|byte| byte.is_ascii_digit());
    if digits { text.parse().ok() } else { None }
}

/// Howard Hinnant's `days_from_civil`, and the clock.
fn unix_seconds([year, month, day]: [i64; 3], [hour, minute, second]: [i64; 3]) -> Option<i64> {
    // A leap second is logged as 60.
    let in_range = (1..=9999).contains(&year)
        && (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && hour < 24
        && minute < 60
        && second <= 60;
    if !in_range {
        return None;
    }
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year / 400, year % 400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    Some((era * 146_097 + day_of_era - 719_468) * 86_400 + hour * 3600 + minute * 60 + second)
}

#[cfg(test)]
mod tests;
