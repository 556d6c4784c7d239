//! The report as people read it.

use std::fmt::{self, Write as _};

use crate::report::{ClassReport, Report, Summary};

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{}  measured {:.1} s after {:.1} s of warm-up, seed {}{}",
            self.url,
            self.measured_s,
            self.warmup_s,
            self.seed,
            if self.stopped_early { "  (stopped early)" } else { "" }
        )?;
        writeln!(f)?;
        writeln!(
            f,
            "{:<14} {:>10} {:>10} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}",
            "class", "offered/s", "good/s", "refused", "timeouts", "errors", "retries", "gave up", "bytes"
        )?;
        for class in self.rows() {
            writeln!(
                f,
                "{:<14} {:>10.1} {:>10.1} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}",
                class.name,
                class.offered_per_s,
                class.goodput_per_s,
                class.refused,
                class.timed_out(),
                class.errored(),
                class.retries,
                class.gave_up,
                human_bytes(class.body_bytes),
            )?;
        }
        writeln!(f)?;
        writeln!(
            f,
            "{:<22} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}",
            "latency, ms", "count", "mean", "p50", "p95", "p99", "p99.9", "max"
        )?;
        for class in self.rows() {
            write_summary(f, &format!("{} good", class.name), &class.good_latency_ms)?;
            if class.refused_latency_ms.count > 0 {
                write_summary(f, &format!("{} refused", class.name), &class.refused_latency_ms)?;
            }
        }
        for class in &self.classes {
            if let Some(waits) = &class.waits {
                write_summary(f, &format!("{} promised", class.name), &waits.promised_ms)?;
                write_summary(f, &format!("{} overdue", class.name), &waits.overdue_ms)?;
                write_summary(f, &format!("{} after return", class.name), &waits.from_return_ms)?;
                write_summary(f, &format!("{} return lag", class.name), &waits.return_lag_ms)?;
            }
        }
        write_summary(f, "send lag", &self.generator.send_lag_ms)?;
        write_summary(f, "connection setup", &self.connections.setup_ms)?;
        writeln!(f)?;
        for class in self.rows() {
            let details = details(class);
            if !details.is_empty() {
                writeln!(f, "{}: {details}", class.name)?;
            }
        }
        for class in &self.classes {
            write_sessions(f, class)?;
            write_waits(f, class)?;
        }
        let connections = &self.connections;
        writeln!(
            f,
            "connections: {} HTTP/1.1, {} HTTP/2, {} failed, {} closed while idle; {} requests on used ones",
            connections.opened_http1,
            connections.opened_http2,
            connections.failed,
            connections.closed_while_idle,
            connections.reuses
        )?;
        if connections.tls_full + connections.tls_resumed > 0 {
            writeln!(
                f,
                "TLS: {} full, {} resumed; {} on 1.2, {} on 1.3",
                connections.tls_full, connections.tls_resumed, connections.tls12, connections.tls13
            )?;
        }
        if let Some(fault) = &connections.tls_fault {
            writeln!(f, "TLS fault: {fault}")?;
        }
        let generator = &self.generator;
        writeln!(
            f,
            "generator: {} thread(s), {:.0} % of a processor each, {:.0} % the busiest",
            generator.threads,
            generator.cpu_share * 100.0,
            generator.cpu_share_max * 100.0
        )?;
        if generator.bottleneck {
            writeln!(f, "\nTHE GENERATOR WAS A BOTTLENECK; do not trust these figures:")?;
            for reason in &generator.reasons {
                writeln!(f, "  - {reason}")?;
            }
        }
        Ok(())
    }
}

impl Report {
    /// Each class, and the total if there are several.
    fn rows(&self) -> impl Iterator<Item = &ClassReport> {
        self.classes.iter().chain((self.classes.len() > 1).then_some(&self.total))
    }
}

fn write_sessions(f: &mut fmt::Formatter<'_>, class: &ClassReport) -> fmt::Result {
    let Some(sessions) = &class.sessions else { return Ok(()) };
    writeln!(
        f,
        "\n{} sessions: {} started, {} completed ({:.2}/s, mean {:.1} s), {} refused ({} at entry), \
         {} abandoned, {} unfinished",
        class.name,
        sessions.started,
        sessions.completed,
        sessions.completed_per_s,
        sessions.length_ms.mean / 1e3,
        sessions.refused,
        sessions.refused_at_entry,
        sessions.abandoned,
        sessions.unfinished
    )?;
    writeln!(
        f,
        "{:<26} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}",
        "page", "requests", "good", "refused", "timeouts", "failed", "mean ms", "p95 ms"
    )?;
    for page in sessions.pages.iter().chain([&sessions.images]).filter(|page| page.requests > 0) {
        writeln!(
            f,
            "{:<26} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9.2} {:>9.2}",
            page.name,
            page.requests,
            page.good,
            page.refused,
            page.timeouts,
            page.failed,
            page.good_latency_ms.mean,
            page.good_latency_ms.p95
        )?;
    }
    writeln!(f)
}

fn write_waits(f: &mut fmt::Formatter<'_>, class: &ClassReport) -> fmt::Result {
    let Some(waits) = &class.waits else { return Ok(()) };
    writeln!(
        f,
        "{} told to come back: {} promises, {} returns ({} kept, {} broken), {} left, {} waited at once; \
         {} redirects",
        class.name,
        waits.promises,
        waits.returned,
        waits.kept,
        waits.broken,
        waits.left,
        waits.waiting_most,
        waits.redirects
    )
}

fn write_summary(f: &mut fmt::Formatter<'_>, name: &str, summary: &Summary) -> fmt::Result {
    if summary.count == 0 {
        return writeln!(f, "{name:<22} {:>9}", 0);
    }
    writeln!(
        f,
        "{name:<22} {:>9} {:>9.2} {:>9.2} {:>9.2} {:>9.2} {:>9.2} {:>9.2}",
        summary.count, summary.mean, summary.p50, summary.p95, summary.p99, summary.p999, summary.max
    )
}

/// Statuses, timeouts and errors by kind, `overruns`, `unfinished` and fairness where there are any.
pub(crate) fn details(class: &ClassReport) -> String {
    let mut text = String::new();
    let mut add = |name: &str, count: u64| {
        if count > 0 {
            let comma = if text.is_empty() { "" } else { ", " };
            // Writing to a string cannot fail.
            let _ = write!(text, "{comma}{name} {count}");
        }
    };
    for (status, count) in &class.statuses {
        add(&status.to_string(), *count);
    }
    for (phase, count) in &class.timeouts {
        add(&format!("timeout in {}", snake(phase)), *count);
    }
    for (kind, count) in &class.errors {
        add(&snake(kind), *count);
    }
    add("overruns", class.overruns);
    add("unfinished", class.unfinished);
    if let Some(fairness) = class.fairness {
        let comma = if text.is_empty() { "" } else { ", " };
        let _ = write!(text, "{comma}fairness {fairness:.3}");
    }
    text
}

/// The name an enum has in JSON.
fn snake(value: &impl serde::Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default()
}

fn human_bytes(bytes: u64) -> String {
    let mut value = bytes as f64;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if value < 1024.0 {
            return if unit == "B" { format!("{value:.0} {unit}") } else { format!("{value:.1} {unit}") };
        }
        value /= 1024.0;
    }
    format!("{value:.1} TiB")
}
