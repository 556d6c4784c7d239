//! When certificates expire, and how often that is said.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant, SystemTime},
};

use rustls_pki_types::{CertificateDer, UnixTime};
use tidegate_config::Certificate;
use webpki::{EndEntityCert, Error, KeyUsage};

/// How long before its end a certificate is said to need another one; of one that was made for less than three times as
/// long, a third of its time, since who makes such ones renews them late.
const SOON: Duration = Duration::from_secs(14 * 24 * 3600);
/// How often the same is said of a file that is not read again.
const SAID_EVERY: Duration = Duration::from_secs(24 * 3600);

/// From when until when a certificate is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Validity {
    until: Duration,
    from: Duration,
}

impl Validity {
    /// Since 1970; `None` of what is no certificate.
    fn of(certificate: &CertificateDer<'_>) -> Option<Self> {
        let certificate = EndEntityCert::try_from(certificate).ok()?;
        // Nobody is trusted: what is wanted is what it says of the time, which it looks at first.
        let fault = |time| {
            let time = UnixTime::since_unix_epoch(time);
            certificate.verify_for_usage(&[], &[], &[], time, KeyUsage::server_auth(), None, None).err()
        };
        let since_1970 = |time: UnixTime| Duration::from_secs(time.as_secs());
        let Some(Error::CertExpired { not_after, .. }) = fault(Duration::MAX) else { return None };
        let from = match fault(Duration::ZERO) {
            Some(Error::CertNotValidYet { not_before, .. }) => since_1970(not_before),
            _ => Duration::ZERO,
        };
        Some(Self { until: since_1970(not_after), from })
    }

    /// When it is to be said that it ends.
    fn told_from(self) -> Duration {
        self.until.saturating_sub(SOON.min(self.until.saturating_sub(self.from) / 3))
    }
}

/// When the first certificate of a chain expires, since 1970.
pub(crate) fn first_expiry(chain: &[CertificateDer<'_>]) -> Option<Duration> {
    chain.iter().filter_map(Validity::of).map(|validity| validity.until).min()
}

/// Of a file whose certificates clients will not accept at this time, or not for long.
pub(super) fn untimely(files: &Certificate, chain: &[CertificateDer<'_>], now: Duration) -> Option<String> {
    let date = |time: Duration| httpdate::fmt_http_date(SystemTime::UNIX_EPOCH + time);
    let validities = || {
        chain.iter().enumerate().filter_map(|(position, chained)| Some((Validity::of(chained)?, position)))
    };
    let (position, what) = match validities().min()? {
        (Validity { until, .. }, position) if until < now => {
            (position, format!("has expired on {}, and clients do not accept it: renew it", date(until)))
        }
        (ending, position) if ending.told_from() <= now => {
            let on = date(ending.until);
            (position, format!("expires on {on}, and clients do not accept it from then on: renew it"))
        }
        _ => {
            let (Validity { from, .. }, position) = validities().find(|(validity, _)| validity.from > now)?;
            (position, format!("is not valid before {}: look at it, and at this host's clock", date(from)))
        }
    };
    let which = if position == 0 { "the certificate" } else { "a certificate of its chain" };
    Some(format!("{}: {which} {what}", files.chain.display()))
}

/// What was said of certificates, and when.
#[derive(Debug, Default)]
pub(crate) struct Reminders {
    said: BTreeMap<String, Instant>,
}

impl Reminders {
    /// What of `doubts` is to be said now: all of them where files were read, else what was not said for a day.
    pub(crate) fn due(
        &mut self,
        doubts: impl IntoIterator<Item = String>,
        were_read: bool,
        now: Instant,
    ) -> Vec<String> {
        let before = std::mem::take(&mut self.said);
        let mut due = Vec::new();
        for doubt in doubts {
            let said =
                before.get(&doubt).filter(|said| !were_read && now.duration_since(**said) < SAID_EVERY);
            // Of several listeners with the same file, one is enough.
            let is_known = self.said.insert(doubt.clone(), *said.unwrap_or(&now)).is_some();
            if said.is_none() && !is_known {
                due.push(doubt);
            }
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 3600);
    /// The first of January 2030, since 1970.
    const NEW_YEAR: Duration = Duration::from_secs(1_893_456_000);

    fn valid(from: (i32, u8, u8), until: (i32, u8, u8)) -> CertificateDer<'static> {
        let mut params = rcgen::CertificateParams::new(vec!["one.example".to_owned()]).unwrap();
        params.not_before = rcgen::date_time_ymd(from.0, from.1, from.2);
        params.not_after = rcgen::date_time_ymd(until.0, until.1, until.2);
        params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap().der().clone()
    }

    #[test]
    fn an_end_is_told_in_time_and_by_the_certificate_that_ends_first() {
        let files = Certificate { chain: "one.pem".into(), key: "one.key".into() };
        let said = |chain: &[CertificateDer<'_>], now| untimely(&files, chain, now).unwrap_or_default();
        let year = [valid((2029, 1, 1), (2030, 1, 1))];
        assert_eq!(first_expiry(&year), Some(NEW_YEAR));
        assert_eq!(said(&year, NEW_YEAR - 15 * DAY), "");
        let soon = said(&year, NEW_YEAR - 14 * DAY);
        assert!(soon.starts_with("one.pem: the certificate expires on Tue, 01 Jan 2030"), "{soon}");
        assert!(said(&year, NEW_YEAR + DAY).contains("has expired on Tue, 01 Jan 2030"));
        assert!(said(&year, NEW_YEAR - 366 * DAY).contains("is not valid before Mon, 01 Jan 2029"));
        // One of six days is told two days before its end.
        let week = [valid((2029, 12, 26), (2030, 1, 1))];
        assert_eq!(said(&week, NEW_YEAR - 3 * DAY), "");
        assert!(said(&week, NEW_YEAR - 2 * DAY).contains("expires on"));
        let [year] = year;
        let chain = [valid((2029, 1, 1), (2031, 1, 1)), year];
        assert_eq!(first_expiry(&chain), Some(NEW_YEAR));
        assert!(said(&chain, NEW_YEAR + DAY).contains("a certificate of its chain has expired"));
    }

    #[test]
    fn the_same_is_said_once_a_day_and_whenever_files_are_read() {
        let start = Instant::now();
        let mut reminders = Reminders::default();
        let doubts = || ["a".to_owned(), "b".to_owned(), "a".to_owned()];
        assert_eq!(reminders.due(doubts(), true, start), ["a", "b"]);
        let hour = |hours: u32| start + DAY / 24 * hours;
        assert!(reminders.due(doubts(), false, hour(1)).is_empty());
        // One that has expired meanwhile is told as that at once.
        assert_eq!(reminders.due(["a".to_owned(), "b expired".to_owned()], false, hour(2)), ["b expired"]);
        assert_eq!(reminders.due(["a".to_owned()], true, hour(3)), ["a"]);
        assert!(reminders.due(["a".to_owned()], false, hour(26)).is_empty());
        assert_eq!(reminders.due(["a".to_owned()], false, hour(27)), ["a"]);
        assert!(reminders.due([], false, hour(28)).is_empty() && reminders.said.is_empty());
    }
}
