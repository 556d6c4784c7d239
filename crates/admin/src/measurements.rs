//! `/api/v1/measurements`: any meter over any time, as JSON or CSV; `/api/v1/archives`: what there is.

use std::{fmt::Write as _, sync::Arc, time::Duration};

use http::StatusCode;
use serde_json::{Map, Value as Json, json};
use tidegate_control::{
    Timestamp,
    archive::{Answer, Archives, Query, Stat},
    knobs::{Kind, Scope, Value},
    meters::{Meter, MeterKind},
};
use tidegate_runtime::{HostSample, Shared};
use tidegate_store::Status;

use crate::{
    events::seconds,
    parameters::{Parameters, bad},
    problem::Problem,
    questions::Questions,
    recording::State,
};

/// Most statistics asked for at once.
const STATS_MAX: usize = 8;
const KNOWN: &[&str] =
    &["meter", "scope", "application", "class", "server", "from", "to", "step", "stat", "of", "format"];

/// What is sent: the text and its type.
pub(crate) type Body = (&'static str, String);

/// A question as asked.
#[derive(Debug)]
struct Question {
    path: String,
    meter: Meter,
    label: Option<usize>,
    stats: Vec<Stat>,
    from: Timestamp,
    to: Timestamp,
    step: Option<Duration>,
    of: Option<Duration>,
    is_csv: bool,
}

/// Answers `/api/v1/measurements`.
pub(crate) async fn answer(
    shared: &Arc<Shared>,
    questions: &Questions,
    query: Option<&str>,
) -> Result<Body, Problem> {
    let (shared, question) = (Arc::clone(shared), Question::read(shared, query)?);
    questions.answer(move || question.answer(&shared.measured())).await?
}

/// Answers `/api/v1/archives`: what is measured of whom, and how long it is kept.
pub(crate) fn describe(shared: &Shared, state: &State) -> Json {
    let archives = shared.measured();
    let resolutions: Vec<Json> = archives
        .layout()
        .resolutions()
        .iter()
        .map(|r| json!({ "step_s": r.step.as_secs_f64(), "keep_s": r.keep.as_secs_f64() }))
        .collect();
    let subjects: Vec<Json> = archives
        .iter()
        .map(|(path, archive)| {
            let points: Vec<usize> = (0..resolutions.len()).map(|index| archive.points(index)).collect();
            json!({ "path": path, "scope": archive.scope().name(), "bytes": archive.bytes(), "points": points })
        })
        .collect();
    let bytes = archives.bytes();
    let meters: Vec<Json> = Meter::ALL
        .iter()
        .map(|meter| {
            json!({
                "name": meter.name(), "scope": meter.scope().name(), "kind": kind(*meter), "unit": meter.unit().name(),
                "labels": meter.labels(), "doc": meter.doc(),
            })
        })
        .collect();
    let state = recording(state);
    json!({ "resolutions": resolutions, "bytes": bytes, "state": state, "subjects": subjects, "meters": meters })
}

/// Whether what is measured is kept on disk, and why not.
pub(crate) fn recording(state: &State) -> Json {
    match state.status() {
        None => json!({ "kept": false, "why": "no state_directory is configured" }),
        Some(Status::Opening) => json!({ "kept": false, "why": "the state directory is being read" }),
        Some(Status::Open) => json!({ "kept": true }),
        Some(Status::Failing(why)) => json!({ "kept": false, "why": why }),
    }
}

impl Question {
    fn read(shared: &Shared, query: Option<&str>) -> Result<Self, Problem> {
        let parameters = Parameters::read(query, KNOWN)?;
        let path = path_of(&parameters)?;
        let Some(scope) = Archives::scope_of(&path) else {
            return Err(bad(format!(
                "{path:?} is no subject: write nothing for the host, application=SHOP, class=SHOP/HOME or server=SHOP/NAME"
            )));
        };
        is_known(shared, &path)?;
        let (meter, label) = meter_of(&parameters, scope)?;
        let stats = parameters.get("stat").unwrap_or("mean").split(',').map(str::parse);
        let stats = stats.collect::<Result<Vec<Stat>, _>>().map_err(|fault| bad(format!("stat: {fault}")))?;
        if stats.len() > STATS_MAX {
            return Err(bad(format!("stat: {} at once: ask for up to {STATS_MAX}", stats.len())));
        }
        let now = shared.clock().now();
        let time = "a time before now such as -10m, seconds since 1970, or now";
        let span = "a span of time such as 5s";
        Ok(Self {
            from: parameters
                .parsed("from", time, |text| read_time(text, now))?
                .unwrap_or(now - Duration::from_secs(600)),
            to: parameters.parsed("to", time, |text| read_time(text, now))?.unwrap_or(now),
            step: parameters.parsed("step", span, read_span)?,
            of: parameters.parsed("of", span, read_span)?,
            is_csv: parameters
                .parsed("format", "json or csv", |text| match text {
                    "csv" => Some(true),
                    "json" => Some(false),
                    _ => None,
                })?
                .unwrap_or(false),
            path,
            meter,
            label,
            stats,
        })
    }

    fn answer(&self, archives: &Archives) -> Result<Body, Problem> {
        let answers = self
            .stats
            .iter()
            .map(|stat| {
                let Self { meter, label, from, to, step, of, .. } = *self;
                archives.query(&self.path, &Query { meter, label, from, to, step, stat: *stat, of })
            })
            .collect::<Result<Vec<_>, _>>()
            .map_err(|fault| bad(fault.to_string()))?;
        Ok(if self.is_csv {
            ("text/csv; charset=utf-8", self.csv(&answers))
        } else {
            ("application/json", format!("{}\n", self.json(&answers)))
        })
    }

    fn json(&self, answers: &[Answer]) -> Json {
        let Some(first) = answers.first() else { return Json::Null };
        let points: Vec<Json> = (0..first.points.len())
            .map(|index| {
                let point = &first.points[index];
                let mut row = Map::new();
                row.insert("at".to_owned(), seconds(point.from).into());
                row.insert("measured_s".to_owned(), point.measured.as_secs_f64().into());
                for (stat, answer) in self.stats.iter().zip(answers) {
                    row.insert(stat.to_string(), answer.points[index].value.map_or(Json::Null, number));
                }
                Json::Object(row)
            })
            .collect();
        json!({
            "scope": self.path,
            "meter": self.meter.name(),
            "label": self.label.map(|label| self.meter.labels()[label]),
            "kind": kind(self.meter),
            "unit": self.meter.unit().name(),
            "from": first.points.first().map(|point| seconds(point.from)),
            "to": first.points.last().map(|point| seconds(point.to)),
            "resolution_s": first.resolution.as_secs_f64(),
            "step_s": first.step.as_secs_f64(),
            "of_s": answers.iter().find_map(|answer| answer.of).map(|of| of.as_secs_f64()),
            "points": points,
        })
    }

    fn csv(&self, answers: &[Answer]) -> String {
        let mut text = String::from("at,measured_s");
        for stat in &self.stats {
            let _ = write!(text, ",{stat}");
        }
        text.push('\n');
        let points = answers.first().map_or(0, |answer| answer.points.len());
        for index in 0..points {
            let point = &answers[0].points[index];
            let _ = write!(text, "{},{}", seconds(point.from), point.measured.as_secs_f64());
            for answer in answers {
                text.push(',');
                if let Some(value) = answer.points[index].value {
                    let _ = write!(text, "{value}");
                }
            }
            text.push('\n');
        }
        text
    }
}

/// The path of the subject asked for, which may be named in one way only.
fn path_of(parameters: &Parameters) -> Result<String, Problem> {
    let named: Vec<(&str, &str)> = ["scope", "application", "class", "server"]
        .into_iter()
        .filter_map(|name| Some((name, parameters.get(name)?)))
        .collect();
    match named.as_slice() {
        [] => Ok(String::new()),
        [("server", text)] => match text.split_once('/') {
            Some((application, server)) => Ok(format!("{application}/servers/{server}")),
            None => Err(bad(format!("server: {text:?} is no server: write APPLICATION/NAME"))),
        },
        [("class", text)] if !text.contains('/') => {
            Err(bad(format!("class: {text:?} is no class: write APPLICATION/CLASS")))
        }
        [(_, text)] => Ok((*text).to_owned()),
        [(one, _), (other, _), ..] => Err(bad(format!("{one} and {other}: name one subject, in one way"))),
    }
}

fn is_known(shared: &Shared, path: &str) -> Result<(), Problem> {
    let served = shared.served(&HostSample::default());
    if served.iter().any(|served| served.path == path) || shared.measured().get(path).is_some() {
        return Ok(());
    }
    let scope = Archives::scope_of(path);
    let mut known: Vec<String> = served
        .iter()
        .filter(|served| Some(served.subject.scope()) == scope)
        .map(|served| served.path.clone())
        .collect();
    known.dedup();
    let more = known.len().saturating_sub(10);
    known.truncate(10);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let kind = scope.map_or("subject", Scope::name);
    Err(Problem::new(
        StatusCode::NOT_FOUND,
        format!("there is no {kind} {path:?}, but {}{more}", known.join(", ")),
    ))
}

/// `goodput`, `refused` or, of one label, `refused.queue_full`.
fn meter_of(parameters: &Parameters, scope: Scope) -> Result<(Meter, Option<usize>), Problem> {
    let names =
        || Meter::ALL.iter().filter(|m| m.scope() == scope).map(|m| m.name()).collect::<Vec<_>>().join(", ");
    let Some(text) = parameters.get("meter") else {
        return Err(bad(format!("meter is missing: {} has {}", scope.one(), names())));
    };
    let (name, label) = text.split_once('.').map_or((text, None), |(name, label)| (name, Some(label)));
    let Some(meter) = Meter::find_within(scope, name) else {
        let parts =
            if scope.parts().len() > 1 { ", and what its parts have together (docs/meters.md)" } else { "" };
        return Err(bad(format!("meter: {} has no {name:?}, but {}{parts}", scope.one(), names())));
    };
    let Some(label) = label else { return Ok((meter, None)) };
    match meter.labels().iter().position(|known| *known == label) {
        Some(label) => Ok((meter, Some(label))),
        None if meter.labels().is_empty() => Err(bad(format!("meter: {name} is not split"))),
        None => Err(bad(format!("meter: {name} has no {label:?}, but {}", meter.labels().join(", ")))),
    }
}

/// `now`, `-10m`, seconds since 1970.
fn read_time(text: &str, now: Timestamp) -> Option<Timestamp> {
    if text == "now" {
        return Some(now);
    }
    if let Some(span) = text.strip_prefix('-') {
        return read_span(span).map(|span| now - span);
    }
    let seconds: f64 = text.parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok().map(|since| Timestamp::EPOCH + since)
}

/// A span as knobs are written, and `10m` for minutes.
pub(crate) fn read_span(text: &str) -> Option<Duration> {
    const ANY: Kind = Kind::Span { min: Duration::ZERO, max: Duration::MAX };
    let minutes = text.strip_suffix('m').map(|number| format!("{number}min"));
    match ANY.parse(minutes.as_deref().unwrap_or(text)) {
        Ok(Value::Span(span)) if !span.is_zero() => Some(span),
        _ => None,
    }
}

/// A number, or null where there is none.
pub(crate) fn number(value: f64) -> Json {
    serde_json::Number::from_f64(value).map_or(Json::Null, Json::Number)
}

const fn kind(meter: Meter) -> &'static str {
    match meter.kind() {
        MeterKind::Count => "count",
        MeterKind::Level => "level",
        MeterKind::Distribution => "distribution",
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use super::*;
    use crate::fuzz::{Slip, gateway, slipped};

    /// What is understood is of somebody there is, in bounds, and has an answer that is one.
    #[test]
    fn a_question_with_slips_is_read_or_refused() {
        static GATEWAY: LazyLock<Arc<Shared>> = LazyLock::new(gateway);
        let texts = [
            "meter=goodput&application=shop&stat=mean,rate&from=-10m&to=now&step=5s&of=10s",
            "meter=refused.queue_full&class=shop/search&format=csv&from=1795262400&to=1795262700.5",
            "meter=response_time&scope=shop/default&stat=p0,p99.9,p100,max,count&format=json",
            "meter=connections_refused&stat=sum,min,max&from=-7d&step=1h",
        ];
        bolero::check!().with_iterations(5_000).with_type::<(usize, Vec<Slip>)>().for_each(
            |(choice, slips)| {
                let Ok(question) = Question::read(&GATEWAY, Some(&slipped(&texts, *choice, slips))) else {
                    return;
                };
                assert!(is_known(&GATEWAY, &question.path).is_ok());
                assert!((1..=STATS_MAX).contains(&question.stats.len()));
                assert!(question.label.is_none_or(|label| label < question.meter.labels().len()));
                for stat in &question.stats {
                    assert_eq!(stat.to_string().parse::<Stat>().unwrap().to_string(), stat.to_string());
                }
                match question.answer(&GATEWAY.measured()) {
                    Ok((_, body)) if question.is_csv => {
                        let columns = 2 + question.stats.len();
                        assert!(body.lines().all(|line| line.split(',').count() == columns), "{body}");
                    }
                    Ok((_, body)) => {
                        assert!(serde_json::from_str::<Json>(&body).unwrap()["points"].is_array())
                    }
                    Err(problem) => assert_eq!(problem.status(), StatusCode::BAD_REQUEST),
                }
            },
        );
    }

    #[test]
    fn a_span_or_time_that_is_read_reads_back() {
        let now = Timestamp::from_nanos(1_795_262_400_000_000_000);
        bolero::check!().with_type::<(u32, u8, String)>().for_each(|(number, unit, text)| {
            let unit = ["ms", "s", "m", "min", "h", "d", "us", ""][usize::from(unit % 8)];
            for text in [format!("{number}{unit}"), format!("{number}.{number}{unit}"), text.clone()] {
                if let Some(span) = read_span(&text) {
                    assert_eq!(read_span(&Value::Span(span).to_string()), Some(span), "{text}");
                    assert_eq!(read_time(&format!("-{text}"), now), Some(now - span));
                }
                let _ = read_time(&text, now);
            }
        });
    }
}
