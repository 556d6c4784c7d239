//! Answers what a control law asks of meters from the archives.

use super::{HostError, Measure};
use crate::{
    Timestamp,
    archive::{Archives, Query},
    knobs::Scope,
    meters::Meter,
};

/// Names in an application of what is measured by itself.
#[derive(Clone, Debug, Default)]
pub struct Parts {
    /// Its classes.
    pub classes: Vec<String>,
    /// Its servers; `None` where they are not known, and nothing is measured of any.
    pub servers: Option<Vec<String>>,
}

/// How many names a message shows.
const NAMES_SHOWN: usize = 10;

/// Answers [`super::Host::measure`]. `parts` names what an application consists of, `None` if there is no such application.
///
/// A meter of classes or servers asked of an application, or any asked of the gateway, is that of all of them as
/// one, see [`Archives::query`].
///
/// # Errors
///
/// [`HostError`] if there is no such scope or meter, or the meter has no such statistic.
pub fn measure(
    archives: &Archives,
    parts: impl Fn(&str) -> Option<Parts>,
    now: Timestamp,
    measure: &Measure<'_>,
) -> Result<Option<f64>, HostError> {
    let path = measure.scope;
    let scope = Archives::scope_of(path).ok_or_else(|| no_such_scope(path))?;
    if scope != Scope::Host {
        let (application, part) = path.split_once('/').unwrap_or((path, ""));
        let Parts { classes, servers } = parts(application).ok_or_else(|| {
            HostError::Meter(format!("{path}: there is no application \"{}\"", application.escape_debug()))
        })?;
        let known = if scope == Scope::Server { servers } else { Some(classes) };
        let name = part.strip_prefix("servers/").unwrap_or(part);
        if scope != Scope::Application
            && let Some(known) = known.filter(|known| known.iter().all(|known| known != name))
        {
            return Err(no_such_part(path, scope, name, &known));
        }
    }
    let (meter, label) = find(scope, measure.meter)?;
    let query = Query {
        meter,
        label,
        from: now - measure.window,
        to: now,
        step: None,
        stat: measure.stat,
        of: measure.of,
    };
    let answer = archives.query(path, &query).map_err(|fault| HostError::Meter(fault.to_string()))?;
    Ok(answer.points.first().and_then(|point| point.value))
}

/// The meter of that name, and the label that follows it after a dot.
fn find(scope: Scope, asked: &str) -> Result<(Meter, Option<usize>), HostError> {
    let (name, label) = asked.split_once('.').map_or((asked, None), |(name, label)| (name, Some(label)));
    let meter = Meter::find_within(scope, name).ok_or_else(|| {
        HostError::Meter(format!("\"{asked}\" is no meter of {}: docs/meters.md lists them all", scope.one()))
    })?;
    let Some(label) = label else { return Ok((meter, None)) };
    let labels = meter.labels();
    let position = labels.iter().position(|known| *known == label).ok_or_else(|| {
        let parts = if labels.is_empty() {
            "it is not split".to_owned()
        } else {
            format!("it has {}", labels.join(", "))
        };
        HostError::Meter(format!("{name} has no part \"{label}\": {parts}"))
    })?;
    Ok((meter, Some(position)))
}

fn no_such_part(path: &str, scope: Scope, name: &str, known: &[String]) -> HostError {
    let shown: Vec<_> = known.iter().take(NAMES_SHOWN).map(|name| format!("\"{name}\"")).collect();
    let more = match known.len().saturating_sub(NAMES_SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let (kind, name) = (scope.name(), name.escape_debug());
    HostError::Meter(format!("{path}: there is no {kind} \"{name}\", but {}{more}", shown.join(", ")))
}

fn no_such_scope(path: &str) -> HostError {
    HostError::Meter(format!(
        "\"{path}\" is nothing that is measured: write \"\", \"APPLICATION\", \"APPLICATION/CLASS\" or \"APPLICATION/servers/SERVER\""
    ))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::archive::{Layout, Reading, Stat};

    const SECOND: Duration = Duration::from_secs(1);

    /// Class `a` answers 10 and 30 a second by turns of five seconds, `b` 40 and 10, for 20 s.
    fn archives() -> (Archives, Timestamp) {
        let mut archives = Archives::new(Layout::default());
        let mut now = Timestamp::EPOCH + Duration::from_secs(1_700_000_000);
        for second in 0..20 {
            for (path, good, time_ms) in [
                ("shop/a", if second / 5 % 2 == 0 { 10 } else { 30 }, 100),
                ("shop/b", if second / 5 % 2 == 0 { 40 } else { 10 }, 300),
            ] {
                let mut reading = Reading::new(Scope::Class);
                reading.add(Meter::GOOD, good);
                reading.add_labelled(Meter::RESPONSES, 1, good);
                reading.add_labelled(Meter::RESPONSES, 4, 1);
                reading.level(Meter::QUEUED, good);
                for _ in 0..good {
                    reading.record(Meter::RESPONSE_TIME, Duration::from_millis(time_ms));
                }
                archives.record(path, now, now + SECOND, &reading);
            }
            now = now + SECOND;
        }
        (archives, now)
    }

    fn ask(scope: &str, meter: &str, stat: Stat) -> Result<Option<f64>, HostError> {
        let (archives, now) = archives();
        let parts = |application: &str| {
            (application == "shop").then(|| Parts {
                classes: ["a", "b", "idle"].map(str::to_owned).to_vec(),
                servers: Some(vec!["one".to_owned()]),
            })
        };
        let of = Some(Duration::from_secs(5));
        measure(&archives, parts, now, &Measure { scope, meter, window: Duration::from_secs(20), stat, of })
    }

    #[test]
    fn an_application_is_the_sum_of_its_classes_span_by_span() {
        for (scope, meter, stat, expected) in [
            ("shop/a", "goodput", Stat::Max, 30.0),
            ("shop/b", "goodput", Stat::Max, 40.0),
            // 10 + 40, then 30 + 10: never 30 + 40.
            ("shop", "goodput", Stat::Max, 50.0),
            ("shop", "goodput", Stat::Min, 40.0),
            ("shop", "goodput", Stat::Mean, 45.0),
            ("shop", "goodput", Stat::Sum, 900.0),
            ("shop", "responses", Stat::Sum, 940.0),
            ("shop", "responses.5xx", Stat::Sum, 40.0),
            ("shop/a", "responses.5xx", Stat::Rate, 1.0),
            ("shop", "queued", Stat::Mean, 45.0),
            ("shop", "queued", Stat::Max, 50.0),
            ("shop", "response_time", Stat::Count, 900.0),
            ("", "goodput", Stat::Max, 50.0),
            ("", "responses.5xx", Stat::Sum, 40.0),
        ] {
            assert_eq!(ask(scope, meter, stat), Ok(Some(expected)), "{stat} of {meter} of {scope}");
        }
        // 400 answers of 0.1 s and 500 of 0.3 s.
        let mean = ask("shop", "response_time", Stat::Mean).unwrap().unwrap();
        assert!((mean - 190.0 / 900.0).abs() < 0.01, "{mean}");
        // Of means over 5 s: ten of 0.1 s and forty of 0.3 s, then thirty and ten.
        for (stat, expected) in [(Stat::Max, 0.26), (Stat::Min, 0.15)] {
            let mean = ask("shop", "response_time", stat).unwrap().unwrap();
            assert!((mean - expected).abs() < 0.001, "{stat}: {mean}");
        }
        // Four of nine took 0.1 s.
        for (percentile, expected) in [(0.44, 0.1), (0.45, 0.3), (0.99, 0.3)] {
            let time = ask("shop", "response_time", Stat::Quantile(percentile)).unwrap().unwrap();
            assert!((time - expected).abs() <= 0.05 * expected, "{percentile}: {time}");
        }
    }

    #[test]
    fn what_was_not_measured_is_none_and_what_is_not_there_is_an_error() {
        assert_eq!(ask("shop/idle", "goodput", Stat::Mean), Ok(None));
        assert_eq!(ask("shop", "left", Stat::Sum), Ok(Some(0.0)), "measured, and nobody left");
        assert_eq!(ask("shop", "in_flight", Stat::Mean), Ok(None));
        assert_eq!(ask("", "connections_open", Stat::Mean), Ok(None));
        for (scope, meter, stat) in [
            ("park", "goodput", Stat::Mean),
            ("shop/c", "goodput", Stat::Mean),
            ("park/a", "goodput", Stat::Mean),
            ("shop/a/b", "goodput", Stat::Mean),
            ("shop/a", "in_flight", Stat::Mean),
            ("shop", "cost", Stat::Mean),
            ("shop/servers/one", "goodput", Stat::Mean),
            ("shop/a", "goodput.5xx", Stat::Mean),
            ("shop/a", "responses.6xx", Stat::Mean),
            ("shop/a", "goodput", Stat::Quantile(0.5)),
            ("shop", "goodput", Stat::Quantile(0.5)),
        ] {
            assert!(
                matches!(ask(scope, meter, stat), Err(HostError::Meter(_))),
                "{stat} of {meter} of {scope}"
            );
        }
    }

    /// A name that is wrong is told with those there are; nothing is measured of it for ever.
    #[test]
    fn a_scope_that_is_not_there_is_told_with_what_is() {
        for (scope, told) in [
            ("shop/hom", r#"shop/hom: there is no class "hom", but "a", "b", "idle""#),
            ("shop/servers/on", r#"shop/servers/on: there is no server "on", but "one""#),
            ("park", r#"park: there is no application "park""#),
            ("park/a", r#"park/a: there is no application "park""#),
        ] {
            let fault = ask(scope, "in_flight", Stat::Mean).expect_err(scope).to_string();
            assert_eq!(fault, told);
        }
        assert_eq!(ask("shop/servers/one", "in_flight", Stat::Mean), Ok(None));

        let many = Parts { classes: (0..12).map(|n| format!("c{n}")).collect(), servers: None };
        let (archives, now) = archives();
        let asked = |scope| {
            let asked = Measure { scope, meter: "in_flight", window: SECOND, stat: Stat::Mean, of: None };
            measure(&archives, |_| Some(many.clone()), now, &asked)
        };
        assert!(asked("shop/x").expect_err("no class").to_string().ends_with(r#""c9" and 2 more"#));
        assert_eq!(asked("shop/servers/x"), Ok(None), "servers are not known");
    }
}
