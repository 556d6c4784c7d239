//! The page of a report: one file that refers to nothing outside itself.

use std::time::SystemTime;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::{Carried, Machine};
use crate::{
    experiment::Experiment, metrics, outcome::Outcome, statistics::Estimate, table, verdict::Verdict,
};

const STYLE: &str = "\
body{font:16px/1.5 system-ui,sans-serif;max-width:68rem;margin:2rem auto;padding:0 1rem;color:#1b1b1b;background:#fff}\
h1{font-size:1.6rem;margin-bottom:.2rem}h2{font-size:1.2rem;margin-top:2.2rem}.quiet{color:#555}\
table{border-collapse:collapse;font-variant-numeric:tabular-nums;display:block;overflow-x:auto;max-width:100%}\
th,td{padding:.25rem .7rem;border-bottom:1px solid #ddd;text-align:right;white-space:nowrap}\
th{border-bottom:2px solid #999}td:first-child,th:first-child,.words{text-align:left;white-space:normal}\
.pass{color:#00663a;font-weight:600}.miss{color:#a40000;font-weight:600}\
figure{margin:1.2rem 0}figure svg{max-width:100%;height:auto;border:1px solid #e5e5e5}\
pre{background:#f6f6f6;padding:1rem;overflow-x:auto;font-size:.85rem}summary{cursor:pointer}\
td:first-child:not(.words){min-width:9rem}:root{color-scheme:light dark}@media(prefers-color-scheme:dark){\
body{color:#e4e4e4;background:#161616}.quiet{color:#aaa}th,td{border-color:#3a3a3a}th{border-bottom-color:#777}\
.pass{color:#5fcf95}.miss{color:#ff8a80}pre{background:#222}figure svg{border-color:#ccc;filter:invert(.91) \
hue-rotate(180deg)}}";

pub(super) fn page(
    experiment: &Experiment,
    outcome: &Outcome,
    verdicts: &[Verdict],
    machine: &Machine,
    pictures: &[Option<String>],
    carried: &[Carried<'_>],
) -> String {
    let made = table::made_of(outcome);
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (experiment.title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                h1 { (experiment.title) }
                p.quiet { (experiment.name) ", " (outcome.mode.name()) ": " (made) }
                @for paragraph in experiment.about.split("\n\n").filter(|text| !text.trim().is_empty()) {
                    p { (paragraph) }
                }
                @if !verdicts.is_empty() { h2 { "What was stated, and what was found" } (checks(verdicts)) }
                @for note in &outcome.notes { p { strong { "Note: " } (note) } }
                @if pictures.iter().any(Option::is_some) { h2 { "Pictures" } }
                @for (picture, plot) in pictures.iter().zip(&experiment.plots) {
                    @if let Some(picture) = picture { figure aria-label=(plot.title) { (PreEscaped(picture)) } }
                }
                h2 { "Figures" }
                @for metric in table::shown(experiment, outcome) { (figures(outcome, &metric, experiment.axis.name())) }
                @if !experiment.sources.is_empty() {
                    h2 { "Sources" }
                    ul { @for source in &experiment.sources { li { (source) } } }
                }
                h2 { "How it was made" }
                (provenance(outcome, machine))
                details { summary { "The experiment's file" } pre { (experiment.text) } }
                @for file in carried {
                    details {
                        summary { (file.name) ", of: " (file.arms.join(", ")) }
                        pre { (file.text) }
                    }
                }
            }
        }
    }
    .into_string()
}

fn checks(verdicts: &[Verdict]) -> Markup {
    html! {
        table {
            tr { th.words { "check" } th { "found" } th { "95 % interval or range" } th { "stated" } th.words { "paper" } th { "" } }
            @for verdict in verdicts {
                tr {
                    td.words { (verdict.name) @if let Some(worst) = &verdict.worst { " (worst: " (worst) ")" } }
                    @match verdict.value {
                        None => { td { "not measured" } td {} }
                        Some(Estimate { value, .. }) if !value.is_finite() => { td { "never" } td {} }
                        Some(Estimate { value, low, high, .. }) => {
                            td { (format!("{value:.4}")) } td { (format!("{low:.4} to {high:.4}")) }
                        }
                    }
                    td { (verdict.op.symbol()) " " (verdict.bar) }
                    td.words { (verdict.paper.as_deref().unwrap_or("")) }
                    @if verdict.pass { td.pass { "pass" } } @else { td.miss { "miss" } }
                }
            }
        }
    }
}

fn figures(outcome: &Outcome, metric: &str, x: &str) -> Markup {
    let doc = metrics::find(metric).map_or("", |(_, metric)| metric.doc);
    html! {
        h3 { (metrics::axis(metric)) }
        p.quiet { (doc.replace('`', "")) }
        table {
            tr { th { (x) } @for load in &outcome.loads { th { (load) } } }
            @for (arm, name) in outcome.arms.iter().enumerate() {
                tr {
                    td { (name) }
                    @for load in 0..outcome.loads.len() {
                        td { (table::cell(outcome.estimate(arm, load, metric), outcome.mode)) }
                    }
                }
            }
        }
    }
}

fn provenance(outcome: &Outcome, machine: &Machine) -> Markup {
    let seeds = format!("{} to {}", outcome.seed, outcome.seed + u64::from(outcome.repetitions.max(1)) - 1);
    let memory = machine.memory_mib.map_or_else(|| "unknown".to_owned(), |mib| format!("{mib} MiB"));
    html! {
        table {
            tr { td { "made" } td.words { (httpdate::fmt_http_date(SystemTime::now())) } }
            tr { td { "commit" } td.words { (machine.commit) } }
            tr { td { "version" } td.words { "tidegate " (machine.version) @if !machine.optimised { ", not optimised" } } }
            tr { td { "kernel" } td.words { (machine.kernel) } }
            tr { td { "processor" } td.words { (machine.processor) ", " (machine.processors) " in use" } }
            tr { td { "memory" } td.words { (memory) } }
            @for (name, version) in &outcome.programs {
                tr { td { (name) } td.words { (version) } }
            }
            tr { td { "seeds" } td.words { (seeds) } }
            tr { td { "runs" } td.words { (outcome.runs.len()) } }
        }
        p.quiet { "Every figure of every run is in runs.csv, second by second in series.csv." }
    }
}
