//! The report as a page that needs nothing else: tables, plots, and the JSON result itself.

mod plots;

use std::time::{Duration, UNIX_EPOCH};

use maud::{DOCTYPE, Markup, PreEscaped, html};

use self::plots::{BLUE, BROWN, COLOURS, GREEN, GREY, Line, PINK, Picture, RED, short};
use crate::{
    plan::{ClassPlan, Plan},
    report::{ClassReport, PageReport, Report, SessionReport, Summary, WaitReport},
    session::Sessions,
    table::details,
    units::format_duration,
};

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;color:#1c2b30;background:#fff;max-width:62rem;\
margin:2rem auto;padding:0 1rem}h1{font-size:1.5rem;margin-bottom:.2rem}h2{font-size:1.15rem;margin-top:2rem}\
table{border-collapse:collapse;width:100%;margin:.8rem 0;font-size:.9rem;font-variant-numeric:tabular-nums}\
th,td{text-align:right;padding:.25rem .5rem;border-bottom:1px solid #e2e2e2}th:first-child,td:first-child\
{text-align:left}th{color:#555;font-weight:600}.note{color:#555}.bad{border-left:5px solid #d55e00;\
background:#fff4ec;padding:.5rem 1rem}.wide{overflow-x:auto}figure{margin:1rem 0}details{margin-top:2rem}\
pre{white-space:pre-wrap;word-break:break-all;font-size:.75rem}:root{color-scheme:light dark}\
@media(prefers-color-scheme:dark){body{color:#e4e4e4;background:#161616}th,td{border-color:#3a3a3a}th,.note\
{color:#aaa}.bad{background:#33210f}figure svg{filter:invert(.91) hue-rotate(180deg)}}";

/// The whole page.
#[must_use]
pub fn page(report: &Report) -> String {
    let began = UNIX_EPOCH + Duration::from_millis(report.began_unix_ms);
    let total = &report.total;
    let json = serde_json::to_string(report).unwrap_or_default();
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "Load on " (report.url) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                h1 { "Load on " (report.url) }
                p .note {
                    "Began " (httpdate::fmt_http_date(began)) "; measured " (number(report.measured_s)) " s after "
                    (number(report.warmup_s)) " s of warm-up; seed " (report.seed) "."
                    @if report.stopped_early { " Stopped early." }
                }
                (generator(report))
                h2 { "Load" }
                (load(&report.plan))
                h2 { "Requests" }
                (classes(report))
                @for class in rows(report) {
                    @let details = details(class);
                    @if !details.is_empty() { p .note { (class.name) ": " (details) } }
                }
                (latencies(report))
                (figure("Rates over time", rates(total)))
                (figure("Latency of good replies over time", latency_over_time(total)))
                (figure("Latency of good replies by percentile", latency_by_percentile(report)))
                @for class in &report.classes {
                    @if let Some(sessions) = &class.sessions { (session_part(class, sessions)) }
                    @if let Some(waits) = &class.waits { (wait_part(class, waits)) }
                }
                h2 { "Connections" }
                (connections(report))
                @if let Ok(plan) = toml::to_string(&report.plan) {
                    details {
                        summary { "The plan, to run it again with --plan" }
                        pre { (plan) }
                    }
                }
                details {
                    summary { "The result as JSON" }
                    pre { (json) }
                }
            }
        }
    };
    page.into_string()
}

fn generator(report: &Report) -> Markup {
    let generator = &report.generator;
    html! {
        @if generator.bottleneck {
            div .bad {
                strong { "The generator was a bottleneck; do not trust these figures." }
                ul { @for reason in &generator.reasons { li { (reason) } } }
            }
        } @else {
            p .note {
                "The generator kept up: 99 % of the requests began within " (number(generator.send_lag_ms.p99))
                " ms of their time, its busiest of " (generator.threads) " thread(s) used "
                (number(generator.cpu_share_max * 100.0)) " % of a processor."
            }
        }
    }
}

/// What was asked for, class by class.
fn load(plan: &Plan) -> Markup {
    html! {
        div .wide { table {
            tr { th { "class" } th { "arrivals" } th { "asks for" } th { "timeout" } th { "retries" } th { "follows" } }
            @for class in &plan.classes {
                tr {
                    td { (class.name) } td { (class.arrivals) } td { (asked(plan, class)) }
                    td { (format_duration(class.timeout)) }
                    td { (class.retry.as_ref().map_or(0, |retry| retry.retries)) }
                    td { @if class.follow.is_some() { "yes" } @else { "no" } }
                }
            }
        } }
    }
}

fn asked(plan: &Plan, class: &ClassPlan) -> String {
    match &class.sessions {
        Some(Sessions::File(path)) => format!("sessions of {}", path.display()),
        Some(Sessions::Model(model)) => {
            format!("sessions from {}, think time {}", model.entry, format_duration(model.think))
        }
        None => format!("{} {}", class.method, class.path.as_deref().unwrap_or(&plan.url)),
    }
}

fn rows(report: &Report) -> impl Iterator<Item = &ClassReport> {
    report.classes.iter().chain((report.classes.len() > 1).then_some(&report.total))
}

fn classes(report: &Report) -> Markup {
    html! {
        div .wide { table {
            tr {
                th { "class" } th { "offered" } th { "offered/s" } th { "good" } th { "good/s" } th { "refused" }
                th { "timeouts" } th { "errors" } th { "retries" } th { "gave up" } th { "unfinished" }
            }
            @for class in rows(report) {
                tr {
                    td { (class.name) } td { (class.offered) } td { (number(class.offered_per_s)) }
                    td { (class.good) } td { (number(class.goodput_per_s)) } td { (class.refused) }
                    td { (class.timed_out()) } td { (class.errored()) } td { (class.retries) }
                    td { (class.gave_up) } td { (class.unfinished) }
                }
            }
        } }
    }
}

fn latencies(report: &Report) -> Markup {
    html! {
        div .wide { table {
            (summary_head("latency, ms"))
            @for class in rows(report) {
                (summary_row(&format!("{}, good", class.name), &class.good_latency_ms))
                @if class.refused_latency_ms.count > 0 {
                    (summary_row(&format!("{}, refused", class.name), &class.refused_latency_ms))
                }
            }
        } }
    }
}

fn session_part(class: &ClassReport, sessions: &SessionReport) -> Markup {
    let series = &class.series;
    let over_time = Picture {
        x_label: "time (s)",
        y_label: "sessions a second",
        log_y: false,
        x_text: short,
        x_labels: 10,
        lines: vec![
            Line::rate("started", GREY, &series.sessions_started),
            Line::rate("completed", BLUE, &series.sessions_completed),
            Line::rate("refused", RED, &series.sessions_refused),
            Line::rate("abandoned", BROWN, &series.sessions_abandoned),
        ],
    };
    html! {
        h2 { "Sessions of " (class.name) }
        div .wide { table {
            tr {
                th { "started" } th { "completed" } th { "completed/s" } th { "refused" } th { "of them at entry" }
                th { "abandoned" } th { "unfinished" } th { "mean length" }
            }
            tr {
                td { (sessions.started) } td { (sessions.completed) } td { (number(sessions.completed_per_s)) }
                td { (sessions.refused) } td { (sessions.refused_at_entry) } td { (sessions.abandoned) }
                td { (sessions.unfinished) } td { (number(sessions.length_ms.mean / 1e3)) " s" }
            }
        } }
        (figure("Sessions over time", over_time))
        div .wide { table {
            tr {
                th { "page" } th { "requests" } th { "good" } th { "refused" } th { "timeouts" } th { "failed" }
                th { "mean, ms" } th { "p50" } th { "p95" } th { "p99" }
            }
            @for page in sessions.pages.iter().chain([&sessions.images]).filter(|page| page.requests > 0) {
                (page_row(page))
            }
        } }
    }
}

fn page_row(page: &PageReport) -> Markup {
    let latency = &page.good_latency_ms;
    html! {
        tr {
            td { (page.name) } td { (page.requests) } td { (page.good) } td { (page.refused) }
            td { (page.timeouts) } td { (page.failed) } td { (number(latency.mean)) } td { (number(latency.p50)) }
            td { (number(latency.p95)) } td { (number(latency.p99)) }
        }
    }
}

fn wait_part(class: &ClassReport, waits: &WaitReport) -> Markup {
    let over_time = Picture {
        x_label: "time (s)",
        y_label: "clients who wait",
        log_y: false,
        x_text: short,
        x_labels: 10,
        lines: vec![Line::rate("waiting", PINK, &class.series.waiting)],
    };
    html! {
        h2 { "Clients of " (class.name) " told to come back" }
        div .wide { table {
            tr {
                th { "promises" } th { "returned" } th { "kept" } th { "broken" } th { "left" } th { "redirects" }
                th { "most at once" }
            }
            tr {
                td { (waits.promises) } td { (waits.returned) } td { (waits.kept) } td { (waits.broken) }
                td { (waits.left) } td { (waits.redirects) } td { (waits.waiting_most) }
            }
        } }
        (figure("Waiting over time", over_time))
        div .wide { table {
            (summary_head("ms"))
            (summary_row("wait promised", &waits.promised_ms))
            (summary_row("served after the first promised time", &waits.overdue_ms))
            (summary_row("served after the last promised time", &waits.from_return_ms))
            (summary_row("generator late in coming back", &waits.return_lag_ms))
        } }
        @if !waits.by_returns.is_empty() {
            p .note {
                "Clients by how often they came back: "
                @for (index, (returns, clients)) in waits.by_returns.iter().enumerate() {
                    @if index > 0 { ", " }
                    (returns) " × " (clients)
                }
                "."
            }
        }
    }
}

fn connections(report: &Report) -> Markup {
    let connections = &report.connections;
    html! {
        div .wide { table {
            tr {
                th { "HTTP/1.1" } th { "HTTP/2" } th { "failed" } th { "closed idle" } th { "used again" }
                th { "TLS full" } th { "TLS resumed" } th { "TLS 1.2" } th { "TLS 1.3" } th { "setup p95, ms" }
            }
            tr {
                td { (connections.opened_http1) } td { (connections.opened_http2) } td { (connections.failed) }
                td { (connections.closed_while_idle) } td { (connections.reuses) } td { (connections.tls_full) }
                td { (connections.tls_resumed) } td { (connections.tls12) } td { (connections.tls13) }
                td { (number(connections.setup_ms.p95)) }
            }
        } }
        @if let Some(fault) = &connections.tls_fault { p .note { "First TLS fault: " (fault) } }
    }
}

fn rates(total: &ClassReport) -> Picture<'static> {
    let series = &total.series;
    Picture {
        x_label: "time (s)",
        y_label: "requests a second",
        log_y: false,
        x_text: short,
        x_labels: 10,
        lines: vec![
            Line::rate("offered", GREY, &series.offered),
            Line::rate("good", BLUE, &series.good),
            Line::rate("refused", RED, &series.refused),
            Line::rate("timeouts", BROWN, &series.timeouts),
            Line::rate("failed", PINK, &series.failed),
            Line::rate("told to come back", GREEN, &series.promised),
        ],
    }
}

fn latency_over_time(total: &ClassReport) -> Picture<'static> {
    let series = &total.series;
    Picture {
        x_label: "time (s)",
        y_label: "ms",
        log_y: true,
        x_text: short,
        x_labels: 10,
        lines: vec![
            Line::percentile("99 %", RED, &series.p99_ms),
            Line::percentile("95 %", BROWN, &series.p95_ms),
            Line::percentile("median", BLUE, &series.p50_ms),
        ],
    }
}

/// Each further step of the x axis leaves a tenth of the replies: 0, 90, 99, 99.9 %.
fn latency_by_percentile(report: &Report) -> Picture<'static> {
    const STEPS: u32 = 80;
    const NINES: f64 = 4.0;
    let lines = report.classes.iter().zip(COLOURS.iter().cycle()).map(|(class, colour)| {
        let points = (0..=STEPS).filter_map(|step| {
            let x = f64::from(step) / f64::from(STEPS) * NINES;
            let beyond = 10f64.powf(-x);
            // Beyond that a percentile is the maximum and no percentile.
            let told = class.good_latency_ms.count as f64 * beyond >= 1.0;
            told.then(|| (x, Some(class.percentile(100.0 * (1.0 - beyond)))))
        });
        Line { name: class.name.clone(), colour: *colour, points: points.collect() }
    });
    Picture {
        x_label: "percentile",
        y_label: "ms",
        log_y: true,
        x_text: |x| format!("{} %", short_percentile(x)),
        x_labels: 5,
        lines: lines.collect(),
    }
}

fn short_percentile(x: f64) -> String {
    let digits = x.floor().clamp(0.0, 6.0) as usize;
    let text = format!("{:.*}", digits, 100.0 * (1.0 - 10f64.powf(-x)));
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

fn figure(title: &str, picture: Picture<'_>) -> Markup {
    html! {
        @if let Some(svg) = picture.draw() {
            h2 { (title) }
            figure { (PreEscaped(svg)) }
        }
    }
}

fn summary_head(unit: &str) -> Markup {
    html! {
        tr {
            th { (unit) } th { "count" } th { "mean" } th { "p50" } th { "p95" } th { "p99" } th { "p99.9" }
            th { "max" }
        }
    }
}

fn summary_row(name: &str, summary: &Summary) -> Markup {
    html! {
        tr {
            td { (name) } td { (summary.count) } td { (number(summary.mean)) } td { (number(summary.p50)) }
            td { (number(summary.p95)) } td { (number(summary.p99)) } td { (number(summary.p999)) }
            td { (number(summary.max)) }
        }
    }
}

/// Three significant digits are what a histogram tells apart.
fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}
