//! The status page at `/`: each application's last minutes, limit, queues, classes and servers.
//!
//! Rendered here, refreshed by the browser, without scripts or outside requests.

use std::fmt::Write as _;

use tidegate_control::{ClassId, Refusal, meters::Meter};
use tidegate_runtime::{Application, Shared, Subject};

use crate::history::{History, SECONDS, Second};

const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 160.0;

const STYLE: &str = "
:root { color-scheme: light dark; --ink: light-dark(#1c2430, #e6ebf2); --soft: light-dark(#5a6675, #9aa7b8);
  --line: light-dark(#d5dbe3, #38424f); --paper: light-dark(#ffffff, #161b22);
  --arrived: light-dark(#8a94a3, #7d8896); --good: light-dark(#0a7d4f, #3fbf8a); --refused: light-dark(#b3541e, #e08a55); }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 2rem auto; max-width: 60rem; padding: 0 1rem; }
h1 { font-size: 1.3rem; } h2 { font-size: 1.1rem; margin-top: 2.5rem; }
table { border-collapse: collapse; width: 100%; margin: .8rem 0; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .25rem .6rem; border-bottom: 1px solid var(--line); }
th:first-child, td:first-child { text-align: left; } th { color: var(--soft); font-weight: 600; }
svg { width: 100%; height: auto; border-bottom: 1px solid var(--line); }
polyline { fill: none; stroke-width: 2; vector-effect: non-scaling-stroke; }
.scroll { overflow-x: auto; } .soft { color: var(--soft); }
.arrived { stroke: var(--arrived); color: var(--arrived); } .good { stroke: var(--good); color: var(--good); }
.refused { stroke: var(--refused); color: var(--refused); }
";

/// The whole page.
pub(crate) fn render(shared: &Shared, history: &History) -> String {
    let mut page = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>Tidegate</title>\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <meta http-equiv=\"refresh\" content=\"2\"><style>{STYLE}</style></head><body><h1>Tidegate</h1>"
    );
    let snapshot = shared.snapshot();
    for application in &snapshot.applications {
        let seconds = history.of(&application.settings.name);
        let _ = write!(page, "<section><h2>{}</h2>", escape(&application.settings.name));
        summary(&mut page, &seconds);
        chart(&mut page, &seconds);
        classes(&mut page, shared, application);
        servers(&mut page, application);
        page.push_str("</section>");
    }
    page.push_str("</body></html>\n");
    page
}

fn summary(page: &mut String, seconds: &[Second]) {
    let Some(last) = seconds.last() else {
        page.push_str("<p class=\"soft\">Measuring begins with the first full second.</p>");
        return;
    };
    let _ = write!(
        page,
        "<p>Last second: <b class=\"arrived\">{} arrived</b>, <b class=\"good\">{} good</b>, \
         <b class=\"refused\">{} refused</b>; {} of {} in flight, {} waiting.</p>",
        last.arrived, last.good, last.refused, last.in_flight, last.limit, last.queued
    );
}

fn chart(page: &mut String, seconds: &[Second]) {
    let top = seconds.iter().map(|s| s.arrived.max(s.good)).max().unwrap_or(0).max(1);
    let _ = write!(
        page,
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"Requests a second over the last \
         {} seconds: arrived, good and refused; at most {top}\">",
        seconds.len()
    );
    for class in ["arrived", "refused", "good"] {
        let value = |second: &Second| match class {
            "arrived" => second.arrived,
            "refused" => second.refused,
            _ => second.good,
        };
        let _ = write!(page, "<polyline class=\"{class}\" points=\"");
        for (index, second) in seconds.iter().enumerate() {
            #[expect(clippy::cast_precision_loss, reason = "pixels")]
            let (x, y) = (
                (SECONDS - seconds.len() + index) as f64 / SECONDS as f64 * WIDTH,
                HEIGHT - value(second) as f64 / top as f64 * (HEIGHT - 4.0),
            );
            let _ = write!(page, "{x:.0},{y:.1} ");
        }
        page.push_str("\"/>");
    }
    let _ = write!(page, "</svg><p class=\"soft\">Five minutes; the top is {top} requests a second.</p>");
}

fn classes(page: &mut String, shared: &Shared, application: &Application) {
    page.push_str(
        "<div class=\"scroll\"><table><tr><th>class</th><th>arrived</th><th>good</th><th>refused</th><th>left</th>\
         <th>wait 95 %</th><th>response 50 %</th><th>95 %</th></tr>",
    );
    let totals = shared.totals().read();
    for (index, class) in application.classes.iter().enumerate() {
        let id = ClassId(u16::try_from(index).unwrap_or(u16::MAX));
        let Some(readings) = totals.get(&Subject::Class(application.id, id)) else { continue };
        let time =
            |meter: Meter, q: f64| readings.distribution(meter).quantile(q).map_or_else(String::new, millis);
        let reasons: Vec<String> = Refusal::ALL
            .iter()
            .zip(readings.counts(Meter::REFUSED))
            .filter(|(_, n)| **n > 0)
            .map(|(reason, n)| format!("{n} {}", reason.name()))
            .collect();
        let refused = if reasons.is_empty() { "0".to_owned() } else { reasons.join("<br>") };
        let _ = write!(
            page,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{refused}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            escape(&class.name),
            readings.counts(Meter::ARRIVED)[0],
            readings.counts(Meter::GOOD)[0],
            readings.counts(Meter::LEFT)[0],
            time(Meter::WAITING_TIME, 0.95),
            time(Meter::RESPONSE_TIME, 0.5),
            time(Meter::RESPONSE_TIME, 0.95),
        );
    }
    page.push_str("</table></div>");
}

fn servers(page: &mut String, application: &Application) {
    page.push_str(
        "<div class=\"scroll\"><table><tr><th>server</th><th>state</th><th>in flight</th><th>weight</th></tr>",
    );
    for server in application.state.servers().list() {
        let state =
            if server.is_draining || !server.is_member { "draining" } else { server.condition.name() };
        let _ = write!(
            page,
            "<tr><td>{}</td><td>{state}</td><td>{}</td><td>{}</td></tr>",
            escape(&format!("{} ({})", server.name, server.endpoint)),
            server.in_flight,
            server.weight
        );
    }
    page.push_str("</table></div>");
}

#[expect(clippy::cast_precision_loss, reason = "shown with one digit")]
fn millis(nanos: u64) -> String {
    format!("{:.1} ms", nanos as f64 / 1e6)
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
