//! A line of the access log, as JSON or in the Combined Log Format.
//!
//! Whatever a client sent is escaped so that a line stays one line and a field one field.

use std::{borrow::Cow, fmt, io::Write, net::IpAddr, sync::Arc, time::Duration};

use http::{HeaderValue, Method, Uri, Version};
use tidegate_control::{ClassId, Timestamp};
use tidegate_runtime::{Application, servers::Server};

use crate::{facts::TlsFacts, request::waiting_room::text_without_turn};

/// What is logged of a request.
#[derive(Clone, Debug)]
pub(in crate::request) struct Entry {
    /// When it arrived.
    pub(in crate::request) at: Timestamp,
    pub(in crate::request) client: Option<IpAddr>,
    /// Number of the connection.
    pub(in crate::request) connection: u64,
    /// `None` where no head could be read.
    pub(in crate::request) method: Option<Method>,
    pub(in crate::request) target: Option<Uri>,
    pub(in crate::request) version: Version,
    pub(in crate::request) host: Option<HeaderValue>,
    pub(in crate::request) user_agent: Option<HeaderValue>,
    pub(in crate::request) referer: Option<HeaderValue>,
    pub(in crate::request) request_id: Option<HeaderValue>,
    pub(in crate::request) tls: Option<TlsFacts>,
    /// `None` when none was found to serve it.
    pub(in crate::request) application: Option<Arc<Application>>,
    pub(in crate::request) class: ClassId,
    pub(in crate::request) server: Option<Arc<Server>>,
    /// 499 for a client that left before it was answered.
    pub(in crate::request) status: u16,
    /// Why it was not served, or not to its end.
    pub(in crate::request) reason: Option<&'static str>,
    pub(in crate::request) detail: Option<String>,
    /// What only watches and would have refused it.
    pub(in crate::request) would_refuse: Option<&'static str>,
    pub(in crate::request) bytes_in: u64,
    pub(in crate::request) bytes_out: u64,
    /// From arrival until sent on.
    pub(in crate::request) waiting: Duration,
    /// Of that, gathering the body without a permit.
    pub(in crate::request) gathering: Duration,
    /// Of the time until the server's head, opening a connection for it.
    pub(in crate::request) connect: Option<Duration>,
    /// From sent on until the server's head.
    pub(in crate::request) first_byte: Option<Duration>,
    /// From sent on until the server's end of message.
    pub(in crate::request) service: Option<Duration>,
    /// From arrival until the last byte was handed on, or the client had left.
    pub(in crate::request) total: Duration,
}

impl Entry {
    /// Writes it as a JSON object and a line feed. Times are in seconds.
    pub(super) fn write_json(&self, line: &mut Vec<u8>) {
        let mut fields = Fields { line, first: true };
        fields.raw("time", format_args!("\"{}\"", Rfc3339(self.at)));
        if let Some(client) = self.client {
            fields.raw("client", format_args!("\"{client}\""));
        }
        fields.raw("connection", self.connection);
        fields.text("method", self.method().as_bytes());
        fields.text("target", without_turn(self.target()).as_bytes());
        fields.text("protocol", protocol(self.version).as_bytes());
        fields.header("host", self.host.as_ref());
        fields.raw("status", self.status);
        if let Some(application) = &self.application {
            fields.text("application", application.settings.name.as_bytes());
            fields.text("class", application.class_name(self.class).as_bytes());
        }
        if let Some(server) = &self.server {
            fields.text("server", server.name().as_bytes());
        }
        if let Some(reason) = self.reason {
            fields.text("reason", reason.as_bytes());
        }
        if let Some(detail) = &self.detail {
            fields.text("detail", detail.as_bytes());
        }
        if let Some(reason) = self.would_refuse {
            fields.text("would_refuse", reason.as_bytes());
        }
        fields.raw("bytes_in", self.bytes_in);
        fields.raw("bytes_out", self.bytes_out);
        fields.seconds("waiting_time", Some(self.waiting));
        fields.seconds("gathering_time", (!self.gathering.is_zero()).then_some(self.gathering));
        fields.seconds("connect_time", self.connect);
        fields.seconds("first_byte_time", self.first_byte);
        fields.seconds("service_time", self.service);
        fields.seconds("total_time", Some(self.total));
        fields.header("request_id", self.request_id.as_ref());
        fields.header("user_agent", self.user_agent.as_ref());
        if let Some(referer) = self.referer() {
            fields.text("referer", &referer);
        }
        if let Some(tls) = &self.tls {
            fields.text("tls_version", tls.version.as_bytes());
            fields.text("tls_cipher", tls.cipher.as_bytes());
            fields.raw("tls_resumed", tls.resumed);
            if let Some(name) = &tls.server_name {
                fields.text("tls_server_name", name.as_bytes());
            }
            if let Some(certificate) = &tls.client_certificate {
                fields.text("tls_client_certificate", certificate.as_bytes());
            }
        }
        line.extend_from_slice(b"}\n");
    }

    /// Writes it in the Combined Log Format, as Apache's `combined`, and a line feed.
    pub(super) fn write_combined(&self, line: &mut Vec<u8>) {
        self.write_common_fields(line);
        line.push(b'\n');
    }

    /// Writes the same with times in seconds behind it, named as nginx's users mostly do.
    pub(super) fn write_combined_with_times(&self, line: &mut Vec<u8>) {
        self.write_common_fields(line);
        print(line, format_args!(" rt={}", Seconds(self.total)));
        for (name, time) in [("uct", self.connect), ("uht", self.first_byte), ("urt", self.service)] {
            match time {
                Some(time) => print(line, format_args!(" {name}=\"{}\"", Seconds(time))),
                None => print(line, format_args!(" {name}=\"-\"")),
            }
        }
        line.push(b'\n');
    }

    fn write_common_fields(&self, line: &mut Vec<u8>) {
        match self.client {
            Some(client) => print(line, client),
            None => line.push(b'-'),
        }
        print(line, format_args!(" - - [{}] \"", Clf(self.at)));
        escape(line, self.method().as_bytes());
        line.push(b' ');
        escape(line, without_turn(self.target()).as_bytes());
        print(line, format_args!(" {}\" {} {} \"", protocol(self.version), self.status, self.bytes_out));
        escape(line, self.referer().as_deref().unwrap_or(b"-"));
        line.extend_from_slice(b"\" \"");
        escape(line, self.user_agent.as_ref().map_or(&b"-"[..], HeaderValue::as_bytes));
        line.push(b'"');
    }

    fn method(&self) -> &str {
        self.method.as_ref().map_or("-", Method::as_str)
    }

    /// The page that the client names.
    fn referer(&self) -> Option<Cow<'_, [u8]>> {
        let page = self.referer.as_ref()?.as_bytes();
        let stripped = str::from_utf8(page).ok().and_then(text_without_turn);
        Some(stripped.map_or(Cow::Borrowed(page), |stripped| Cow::Owned(stripped.into_bytes())))
    }

    /// Path and query, whatever the form of the target.
    fn target(&self) -> &str {
        self.target.as_ref().and_then(Uri::path_and_query).map_or("-", |target| target.as_str())
    }
}

/// A token of the waiting room in an address is for nobody's eyes.
fn without_turn(target: &str) -> Cow<'_, str> {
    text_without_turn(target).map_or(Cow::Borrowed(target), Cow::Owned)
}

fn protocol(version: Version) -> &'static str {
    match version {
        Version::HTTP_10 => "HTTP/1.0",
        Version::HTTP_2 => "HTTP/2.0",
        _ => "HTTP/1.1",
    }
}

fn print(line: &mut Vec<u8>, value: impl std::fmt::Display) {
    // Writing to memory does not fail.
    let _ = write!(line, "{value}");
}

/// The fields of an object under construction.
struct Fields<'a> {
    line: &'a mut Vec<u8>,
    first: bool,
}

impl Fields<'_> {
    fn raw(&mut self, name: &str, value: impl std::fmt::Display) {
        let separator = if std::mem::take(&mut self.first) { '{' } else { ',' };
        print(self.line, format_args!("{separator}\"{name}\":{value}"));
    }

    fn text(&mut self, name: &str, value: &[u8]) {
        self.raw(name, '"');
        escape_json(self.line, value);
        self.line.push(b'"');
    }

    fn header(&mut self, name: &str, value: Option<&HeaderValue>) {
        if let Some(value) = value {
            self.text(name, value.as_bytes());
        }
    }

    fn seconds(&mut self, name: &str, time: Option<Duration>) {
        if let Some(time) = time {
            self.raw(name, Seconds(time));
        }
    }
}

/// A time in seconds, to the microsecond.
struct Seconds(Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:06}", self.0.as_secs(), self.0.subsec_micros())
    }
}

/// JSON's escapes; bytes that are no UTF-8 become U+FFFD.
fn escape_json(line: &mut Vec<u8>, value: &[u8]) {
    for chunk in value.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '"' | '\\' => line.extend_from_slice(&[b'\\', character as u8]),
                '\u{0}'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' => {
                    print(line, format_args!("\\u{:04x}", character as u32));
                }
                _ => line.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        if !chunk.invalid().is_empty() {
            line.extend_from_slice("\u{fffd}".as_bytes());
        }
    }
}

/// Apache's escapes: quotes, backslashes, and everything that is not printable ASCII as `\xhh`.
fn escape(line: &mut Vec<u8>, value: &[u8]) {
    for &byte in value {
        match byte {
            b'"' | b'\\' => line.extend_from_slice(&[b'\\', byte]),
            b' '..=b'~' => line.push(byte),
            _ => print(line, format_args!("\\x{byte:02x}")),
        }
    }
}

/// `2026-11-20T23:42:00.123Z`.
pub(in crate::request) struct Rfc3339(pub(in crate::request) Timestamp);

/// The same as text, kept in place.
pub(in crate::request) struct Rfc3339Text([u8; 24]);

/// `20/Nov/2026:23:42:00 +0000`.
struct Clf(Timestamp);

impl Rfc3339 {
    pub(in crate::request) fn text(&self) -> Rfc3339Text {
        let Civil { year, month, day, hour, minute, second } = Civil::of(self.0);
        let millis = self.0.as_nanos() / 1_000_000 % 1000;
        let mut text = *b"0000-00-00T00:00:00.000Z";
        let fields = [(year, 0..4), (month, 5..7), (day, 8..10), (hour, 11..13), (minute, 14..16)];
        for (mut number, digits) in fields.into_iter().chain([(second, 17..19), (millis, 20..23)]) {
            for digit in text[digits].iter_mut().rev() {
                // One digit fits.
                *digit = b'0' + (number % 10) as u8;
                number /= 10;
            }
        }
        Rfc3339Text(text)
    }
}

impl serde::Serialize for Rfc3339 {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text())
    }
}

impl std::ops::Deref for Rfc3339Text {
    type Target = str;

    fn deref(&self) -> &str {
        // It is ASCII.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl std::fmt::Display for Rfc3339Text {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self)
    }
}

impl std::fmt::Display for Rfc3339 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text())
    }
}

impl std::fmt::Display for Clf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        const MONTHS: [&str; 12] =
            ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
        let Civil { year, month, day, hour, minute, second } = Civil::of(self.0);
        let month = MONTHS.get(month as usize - 1).copied().unwrap_or("-");
        write!(f, "{day:02}/{month}/{year:04}:{hour:02}:{minute:02}:{second:02} +0000")
    }
}

/// A time of the Gregorian calendar, UTC.
struct Civil {
    year: u64,
    month: u64,
    day: u64,
    hour: u64,
    minute: u64,
    second: u64,
}

impl Civil {
    /// Howard Hinnant's `civil_from_days`, for days since the epoch only.
    const fn of(at: Timestamp) -> Self {
        let seconds = at.as_nanos() / 1_000_000_000;
        // Days since 1 March of the year 0; a year begins in March, so that a leap day ends it.
        let days = seconds / 86_400 + 719_468;
        let (era, day_of_era) = (days / 146_097, days % 146_097);
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month + 2) / 5 + 1;
        let month = if month < 10 { month + 3 } else { month - 9 };
        let year = year_of_era + era * 400 + if month <= 2 { 1 } else { 0 };
        Self { year, month, day, hour: seconds / 3600 % 24, minute: seconds / 60 % 60, second: seconds % 60 }
    }
}
