//! `/api/v1/knobs`: every knob with its value, changed while running, and the record of changes.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use http::StatusCode;
use serde_json::{Map, Value as Json, json};
use tidegate_config::KnobPath;
use tidegate_control::{
    Timestamp,
    knobs::{Kind, Knob, Value},
};
use tidegate_runtime::{ChangeError, KnobChange, Origin, Override, Shared};
use tidegate_store::{Change, ChangeRecord};

use crate::{
    access::Caller,
    body::{flag, needed, object},
    events::{Kind as EventKind, seconds},
    parameters::{Parameters, bad},
    problem::Problem,
    record::{Done, Reasons, Record, Recorded},
    recording::State,
};

/// Most knobs changed at once.
const CHANGES_MAX: usize = 1000;

/// Changes knobs, one change after the other, and records each.
#[derive(Clone, Debug)]
pub(crate) struct Knobs {
    shared: Arc<Shared>,
    state: Arc<State>,
    record: Arc<Record>,
}

/// What a change asks for.
#[derive(Debug)]
struct Asked {
    changes: Vec<Wanted>,
    reasons: Reasons,
    dry_run: bool,
}

/// What is asked of a knob.
#[derive(Debug)]
struct Wanted {
    path: KnobPath,
    /// `None` takes back what was changed.
    value: Option<Value>,
    kept: Kept,
}

/// What becomes of the value that is kept of a knob for the processes to come.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kept {
    /// It is the new one.
    Replaced,
    /// It is this one, over which the new one stands until the process ends.
    Beneath(Value),
    /// None is kept any more.
    Forgotten,
    /// It stays, or there is none.
    AsItIs,
}

impl Knobs {
    pub(crate) const fn new(shared: Arc<Shared>, state: Arc<State>, record: Arc<Record>) -> Self {
        Self { shared, state, record }
    }

    /// `GET`: every knob whose path begins with `path`, with `below=false` those of that gateway, application, class or server
    /// alone; with `changed=true` those changed since the start, also of what is configured no more.
    pub(crate) fn list(&self, query: Option<&str>) -> Result<Json, Problem> {
        let parameters = Parameters::read(query, &["path", "below", "changed"])?;
        let prefix = parameters.get("path").unwrap_or_default();
        let flag = |name| parameters.parsed(name, "true or false", |text| text.parse::<bool>().ok());
        let (below, only_changed) = (flag("below")?.unwrap_or(true), flag("changed")?.unwrap_or(false));
        let (snapshot, overrides) = (self.shared.snapshot(), self.shared.overrides());
        let mut listed: Vec<_> = snapshot.settings.knobs().map(|(path, value)| (path, Some(value))).collect();
        if only_changed {
            listed.retain(|(path, _)| overrides.contains_key(path));
            let is_gone = |path: &&KnobPath| snapshot.settings.get(path).is_err();
            listed.extend(overrides.keys().filter(is_gone).map(|path| (path.clone(), None)));
        }
        let mut knobs = Vec::new();
        for (path, value) in listed {
            let text = path.to_string();
            if !(if below { is_below(&text, prefix) } else { place_of(&text) == prefix }) {
                continue;
            }
            let mut knob = row(&path, &text, value, self.shared.unchanged(&path));
            if let Some(Override { value: to, origin }) = overrides.get(&path) {
                let Origin { who, why, at, lasting } = origin;
                knob.insert(
                    "changed".to_owned(),
                    json!({
                        "who": who, "why": why, "at": seconds(*at), "lasting": lasting,
                        "value": to.to_string(), "in_force": value == Some(*to),
                    }),
                );
            }
            knobs.push(Json::Object(knob));
        }
        if knobs.is_empty() && !prefix.is_empty() && !only_changed {
            // An exact path says by itself what is wrong with it.
            let detail = match KnobPath::parse(prefix).and_then(|path| snapshot.settings.get(&path)) {
                Err(fault) if prefix.contains('.') => fault.to_string(),
                Err(fault) => format!("{fault}; no application, class or server is called so either"),
                Ok(_) if below => format!("no knob's path begins with {prefix:?}"),
                Ok(_) => format!("{prefix:?} is a knob, and none is below it: leave below=false away"),
            };
            return Err(Problem::new(StatusCode::NOT_FOUND, detail));
        }
        Ok(json!({ "version": snapshot.version, "knobs": knobs }))
    }

    /// `PATCH`: several changes as one, or none.
    pub(crate) async fn change(&self, body: &[u8], caller: &Caller) -> Result<Json, Problem> {
        let asked = Asked::read(body, caller, &self.shared)?;
        self.make(asked).await
    }

    /// `POST …/revert`: takes a recorded change back.
    pub(crate) async fn revert(&self, body: &[u8], caller: &Caller) -> Result<Json, Problem> {
        let mut object = object(body, &["id", "who", "why", "dry_run"])?;
        let given = object.remove("id");
        let Some(id) = given.as_ref().and_then(Json::as_i64) else {
            let mend = "the number of a change, as /api/v1/knobs/changes shows it";
            return Err(needed("id", given.as_ref(), mend));
        };
        let (record, what) = self.record.of_knobs(id).await?;
        let changes = reversed(&record, &what, &self.shared)?;
        let mut reasons = Reasons::read(&mut object, caller)?;
        if reasons.why.is_empty() {
            reasons.why = format!("revert of change {id}");
        }
        let dry_run = flag(&mut object, "dry_run")?;
        self.make(Asked { changes, reasons, dry_run }).await
    }

    /// Knobs of one server, which end with the process unless they are taken back before.
    pub(crate) async fn change_server(
        &self,
        changes: Vec<(KnobPath, Option<Value>)>,
        reasons: Reasons,
    ) -> Result<Json, Problem> {
        let changes = changes.into_iter().map(|(path, value)| Wanted::new(path, value, false)).collect();
        self.make(Asked { changes, reasons, dry_run: false }).await
    }

    async fn make(&self, asked: Asked) -> Result<Json, Problem> {
        let lasting = asked.changes.iter().any(|wanted| wanted.kept == Kept::Replaced);
        if lasting && !asked.dry_run && self.state.status().is_none() {
            return Err(Problem::new(
                StatusCode::CONFLICT,
                "a lasting change needs a state_directory in the configuration: leave \"lasting\" away, or write it there",
            ));
        }
        let Asked { changes, reasons: Reasons { who, why }, dry_run } = asked;
        let origin = Origin { who, why, at: self.shared.clock().now(), lasting };
        let changed = |wanted: &Wanted| {
            let lasting = wanted.kept == Kept::Replaced;
            let changed = |value| Override { value, origin: Origin { lasting, ..origin.clone() } };
            (wanted.path.clone(), wanted.value.map(changed))
        };
        let rows = changes.iter().filter(|wanted| wanted.kept != Kept::AsItIs).map(|wanted| {
            let value = match wanted.kept {
                Kept::Replaced => wanted.value,
                Kept::Beneath(value) => Some(value),
                Kept::Forgotten | Kept::AsItIs => None,
            };
            (wanted.path.to_string(), value.map(|value| value.to_string()))
        });
        let brings_back = changes.iter().any(|wanted| matches!(wanted.kept, Kept::Beneath(_)));
        let (rows, changes): (Vec<_>, Vec<_>) = (rows.collect(), changes.iter().map(changed).collect());
        if dry_run {
            let done = self.shared.change_knobs(&changes, true).map_err(problem)?;
            let changes = described(&done, &self.shared.overrides(), &changes, &self.record);
            return Ok(json!({ "dry_run": true, "version": self.shared.version(), "changes": changes }));
        }
        let before = self.shared.overrides();
        let lasted = |path: &KnobPath| before.get(path).is_some_and(|changed| changed.origin.lasting);
        let forgets = changes.iter().any(|(path, value)| value.is_none() && lasted(path));
        let put = || self.put_in_force(&changes, &origin, rows);
        let Recorded { id, version, what, unwritten } = self.record.write(put).await.map_err(problem)?;
        let but = match unwritten {
            Some(error) if lasting => {
                self.shared.does_not_last(&origin);
                format!("will end with this process: {error}")
            }
            Some(error) if brings_back => {
                format!("the next process begins with what it takes back: {error}")
            }
            Some(error) if forgets => format!(
                "what it takes back comes again with the next process unless the disk can be written before: {error}"
            ),
            _ => return Ok(json!({ "id": id, "version": version, "changes": what })),
        };
        let detail = format!("the change is in force, but {but}");
        Err(Problem::new(StatusCode::INTERNAL_SERVER_ERROR, detail))
    }

    /// A change by a controller, who waits for no disk: in force and recorded as one of the API is. Nothing of it lasts,
    /// and what lasts beneath it goes on to.
    pub(crate) fn change_by(
        &self,
        changes: &[(KnobPath, Option<Override>)],
        origin: &Origin,
    ) -> Result<(), ChangeError> {
        self.record.write_soon(|| self.put_in_force(changes, origin, Vec::new()))
    }

    /// Gives back what a controller has set and is not in force, to whom it was `beneath`.
    pub(crate) fn give_back_waiting(
        &self,
        path: KnobPath,
        beneath: Option<Override>,
        origin: &Origin,
    ) -> Result<(), ChangeError> {
        self.record.write_soon(|| {
            let before = self.shared.overrides();
            let done = self.shared.give_back_waiting(&path, beneath.clone())?;
            Ok(self.done(&[done], &before, &[(path, beneath)], origin, Vec::new()))
        })
    }

    /// Makes a change, and gives what is to be recorded of it; `rows` are what lasts of it.
    fn put_in_force(
        &self,
        changes: &[(KnobPath, Option<Override>)],
        origin: &Origin,
        rows: Vec<(String, Option<String>)>,
    ) -> Result<Done, ChangeError> {
        let before = self.shared.overrides();
        let done = self.shared.change_knobs(changes, false)?;
        Ok(self.done(&done, &before, changes, origin, rows))
    }

    /// What is to be recorded of a change that was made.
    fn done(
        &self,
        done: &[KnobChange],
        before: &BTreeMap<KnobPath, Override>,
        changes: &[(KnobPath, Option<Override>)],
        origin: &Origin,
        rows: Vec<(String, Option<String>)>,
    ) -> Done {
        let version = self.shared.version();
        let what = described(done, before, changes, &self.record);
        let Origin { who, why, at, lasting } = origin.clone();
        let knobs = Json::from(what.clone()).to_string();
        let change = Change { at, who, why, lasting, knobs, overrides: rows };
        Done { kind: EventKind::Knobs, version, what, change }
    }
}

/// Whether a knob's path is `prefix` or below it: `shop` has `shop/mode`, not `shopping/mode`; `shop/queue` has
/// `shop/queue.max`, not what is in a class `queue.fast`.
fn is_below(path: &str, prefix: &str) -> bool {
    match path.strip_prefix(prefix) {
        Some(rest) => {
            let is_of_its_name = rest.starts_with('.') && !rest.contains('/');
            prefix.is_empty()
                || rest.is_empty()
                || prefix.ends_with('/')
                || rest.starts_with('/')
                || is_of_its_name
        }
        None => false,
    }
}

/// The path of what a knob belongs to; empty of the gateway's.
fn place_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(place, _)| place)
}

/// A knob with its value, if what it belongs to is there, and with the one that it has unchanged.
fn row(path: &KnobPath, text: &str, value: Option<Value>, configured: Value) -> Map<String, Json> {
    let knob: Knob = path.knob;
    let value = value.unwrap_or(configured);
    let Json::Object(mut row) = json!({
        "path": text,
        "value": value.to_string(),
        "configured": configured.to_string(),
        "default": knob.default().to_string(),
        "drift": value != configured,
        "kind": kind_name(knob.kind()),
        "optional": knob.is_optional(),
        "allowed": knob.expected(),
        "doc": knob.doc(),
    }) else {
        return Map::new();
    };
    if let Kind::Choice(names) = knob.kind() {
        let none = knob.is_optional().then_some("none");
        row.insert("choices".to_owned(), none.into_iter().chain(names.iter().copied()).collect());
    }
    if let Some((min, max)) = range(knob.kind()) {
        row.insert("min".to_owned(), min.to_string().into());
        row.insert("max".to_owned(), max.to_string().into());
    }
    row
}

const fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Count { .. } => "count",
        Kind::Rate { .. } => "rate",
        Kind::Span { .. } => "span",
        Kind::Size { .. } => "size",
        Kind::Ratio { .. } => "ratio",
        Kind::Flag => "flag",
        Kind::Choice(_) => "choice",
    }
}

const fn range(kind: Kind) -> Option<(Value, Value)> {
    match kind {
        Kind::Count { min, max } => Some((Value::Count(min), Value::Count(max))),
        Kind::Rate { min, max } => Some((Value::Rate(min), Value::Rate(max))),
        Kind::Span { min, max } => Some((Value::Span(min), Value::Span(max))),
        Kind::Size { min, max } => Some((Value::Size(min), Value::Size(max))),
        Kind::Ratio { min, max } => Some((Value::Ratio(min), Value::Ratio(max))),
        Kind::Flag | Kind::Choice(_) => None,
    }
}

/// Changes as they are answered and recorded.
fn described(
    done: &[KnobChange],
    before: &BTreeMap<KnobPath, Override>,
    changes: &[(KnobPath, Option<Override>)],
    record: &Record,
) -> Vec<Json> {
    let lasts = |changed: Option<&Override>| changed.is_some_and(|changed| changed.origin.lasting);
    done.iter()
        .zip(changes)
        .map(|(change, (path, to))| {
            let (former, path) = (before.get(path), path.to_string());
            let beneath = former.filter(|former| !former.origin.lasting).and_then(|_| record.lasting(&path));
            let mut described = json!({
                "path": path, "from": change.from.to_string(), "to": change.to.to_string(),
                // Whether what it was before had been set by a change, too, and to last: a revert makes it so again.
                "was_changed": former.is_some(), "lasted": lasts(former),
                "lasts": lasts(to.as_ref()), "cleared": change.is_cleared,
            });
            if let Some(beneath) = beneath {
                described["beneath"] = beneath.into();
            }
            described
        })
        .collect()
}

/// The changes that take a record back, if nothing of it was changed since.
fn reversed(record: &ChangeRecord, what: &[Json], shared: &Shared) -> Result<Vec<Wanted>, Problem> {
    let (settings, overrides) = (&shared.snapshot().settings, shared.overrides());
    let broken = || {
        Problem::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("the record of change {} is broken", record.id),
        )
    };
    let (mut changes, mut moved) = (Vec::with_capacity(what.len()), Vec::new());
    for change in what {
        let field = |name: &str| change.get(name).and_then(Json::as_str).ok_or_else(broken);
        let path = KnobPath::parse(field("path")?).map_err(|fault| bad(fault.to_string()))?;
        let present = match (settings.get(&path), overrides.get(&path)) {
            (Ok(present), _) => present.to_string(),
            // It is configured no more, and the change waits for it.
            (Err(_), Some(changed)) => changed.value.to_string(),
            (Err(fault), None) => return Err(bad(fault.to_string())),
        };
        let flag = |name: &str| change.get(name).and_then(Json::as_bool);
        let is_cleared = flag("cleared").unwrap_or(false);
        // Of that value it may be by a later change.
        let is_ours = overrides.get(&path).map_or(is_cleared, |changed| changed.origin.at == record.at);
        if present != field("to")? || !is_ours {
            moved.push(format!("{path} has been changed since, to {present}"));
        }
        let from = path.read(field("from")?).map_err(|fault| bad(fault.to_string()))?;
        let value = flag("was_changed").unwrap_or(false).then_some(from);
        // Records of older versions do not tell it of each knob.
        let lasted = flag("lasted").unwrap_or(record.lasting);
        let was_kept = is_cleared || (record.lasting && flag("lasts").unwrap_or(true));
        let mut wanted = Wanted::new(path, value, lasted);
        if was_kept && wanted.kept == Kept::AsItIs {
            wanted.kept = match change.get("beneath").and_then(Json::as_str) {
                Some(beneath) => {
                    Kept::Beneath(wanted.path.read(beneath).map_err(|fault| bad(fault.to_string()))?)
                }
                None => Kept::Forgotten,
            };
        }
        changes.push(wanted);
    }
    match moved.is_empty() {
        true => Ok(changes),
        false => Err(Problem::new(
            StatusCode::CONFLICT,
            format!("{}: set what is to be by itself", moved.join("; ")),
        )),
    }
}

impl Wanted {
    const fn new(path: KnobPath, value: Option<Value>, lasting: bool) -> Self {
        let kept = match value {
            None => Kept::Forgotten,
            Some(_) if lasting => Kept::Replaced,
            Some(_) => Kept::AsItIs,
        };
        Self { path, value, kept }
    }
}

impl Asked {
    /// `{"changes": {"PATH": VALUE or null, …}, "who"?, "why"?, "lasting"?, "dry_run"?}`.
    fn read(body: &[u8], caller: &Caller, shared: &Shared) -> Result<Self, Problem> {
        let (settings, overrides) = (&shared.snapshot().settings, shared.overrides());
        let mut object = object(body, &["changes", "who", "why", "lasting", "dry_run"])?;
        let wanted = match object.remove("changes") {
            Some(Json::Object(wanted)) => wanted,
            other => {
                let mend =
                    "an object such as {\"shop/checkout/ingress.rate\": \"35/s\"}; null takes a change back";
                return Err(needed("changes", other.as_ref(), mend));
            }
        };
        if wanted.is_empty() || wanted.len() > CHANGES_MAX {
            return Err(bad(format!("\"changes\" has {} knobs: give 1 to {CHANGES_MAX}", wanted.len())));
        }
        let lasting = flag(&mut object, "lasting")?;
        let (mut changes, mut faults) = (Vec::with_capacity(wanted.len()), Vec::new());
        let mut paths = BTreeSet::new();
        for (text, value) in &wanted {
            let path = match KnobPath::parse(text) {
                Ok(path) => path,
                Err(fault) => {
                    faults.push(fault.to_string());
                    continue;
                }
            };
            if !paths.insert(path.to_string()) {
                faults.push(format!("{text}: is given twice"));
            }
            // Whose knob it is may be unknown besides, and every fault is said; but a change of what is configured no
            // more can be taken back.
            if !(value.is_null() && overrides.contains_key(&path)) {
                faults.extend(settings.get(&path).err().map(|fault| fault.to_string()));
            }
            let value = match value {
                Json::Null => Ok(None),
                Json::String(text) => path.read(text).map(Some),
                other => path.read(&other.to_string()).map(Some),
            };
            match value {
                Ok(value) => changes.push(Wanted::new(path, value, lasting)),
                Err(fault) => faults.push(fault.to_string()),
            }
        }
        if !faults.is_empty() {
            return Err(bad(faults.join("\n")));
        }
        Ok(Self {
            changes,
            reasons: Reasons::read(&mut object, caller)?,
            dry_run: flag(&mut object, "dry_run")?,
        })
    }
}

fn problem(error: ChangeError) -> Problem {
    match error {
        ChangeError::Knobs(_) => bad(error.to_string()),
        _ => Problem::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    }
}

/// Puts the values in force that outlast the process, as one; what does not fit is left out.
pub(crate) fn restore(shared: &Shared, lasting: Vec<tidegate_store::Override>, now: Timestamp) {
    let mut overrides = Vec::with_capacity(lasting.len());
    for kept in lasting {
        let read = KnobPath::parse(&kept.path).and_then(|path| Ok((path.read(&kept.value)?, path)));
        match read {
            Ok((value, path)) => {
                let origin = Origin { who: kept.who, why: kept.why, at: kept.at.min(now), lasting: true };
                overrides.push((path, Override { value, origin }));
            }
            Err(fault) => tracing::warn!(%fault, "a lasting change cannot be read and is left out"),
        }
    }
    if let Err(error) = shared.restore_overrides(overrides.clone()) {
        tracing::error!(%error, "lasting changes of knobs are not in force");
    }
    let snapshot = shared.snapshot();
    for (path, Override { value, .. }) in overrides {
        if snapshot.settings.get(&path) == Ok(value) {
            tracing::info!(%path, %value, "a lasting change is in force");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use super::*;
    use crate::fuzz::{Slip, gateway, slipped};

    #[test]
    fn a_path_has_what_is_below_it_and_of_its_subject() {
        for (path, prefix) in [
            ("shop/mode", ""),
            ("shop/mode", "shop"),
            ("shop/mode", "shop/mode"),
            ("shop/home/queue.max", "shop/"),
            ("shop/queue.max", "shop/queue"),
            ("shop/home/queue.codel.target", "shop/home/queue.codel"),
        ] {
            assert!(is_below(path, prefix), "{path} is below {prefix:?}");
        }
        for (path, prefix) in [
            ("shopping/mode", "shop"),
            ("shop.example/mode", "shop"),
            ("shop/queue.fast/priority", "shop/queue"),
            ("shop/modes", "shop/mode"),
        ] {
            assert!(!is_below(path, prefix), "{path} is not below {prefix:?}");
        }
    }

    /// What is taken for a change names knobs there are, with values they may have, each once; nothing in it is lost.
    #[test]
    fn a_change_with_slips_is_read_or_refused() {
        static GATEWAY: LazyLock<Arc<Shared>> = LazyLock::new(gateway);
        let texts = [
            r#"{"changes":{"shop/search/ingress.rate":"35/s","shop/mode":"watch"},"why":"a sale","dry_run":true}"#,
            r#"{"changes":{"shop/search/queue.wait.max":null,"shop/search/priority":5},"lasting":true,"who":"ann"}"#,
            r#"{"changes":{"shop/servers/127.0.0.1:1/weight":3,"shop/in_flight.limit":64},"who":null}"#,
        ];
        bolero::check!().with_iterations(5_000).with_type::<(usize, Vec<Slip>)>().for_each(
            |(choice, slips)| {
                let text = slipped(&texts, *choice, slips);
                let Ok(asked) = Asked::read(text.as_bytes(), &Caller::anyone(), &GATEWAY) else { return };
                let settings = &GATEWAY.snapshot().settings;
                let paths: BTreeSet<String> =
                    asked.changes.iter().map(|wanted| wanted.path.to_string()).collect();
                assert!(paths.len() == asked.changes.len() && (1..=CHANGES_MAX).contains(&paths.len()));
                for Wanted { path, value, .. } in &asked.changes {
                    assert!(settings.get(path).is_ok(), "{path}");
                    assert_eq!(KnobPath::parse(&path.to_string()).as_ref(), Ok(path));
                    if let Some(value) = value {
                        assert_eq!(path.read(&value.to_string()), Ok(*value), "{path}");
                    }
                }
                let origin =
                    Origin { who: String::new(), why: String::new(), at: Timestamp::EPOCH, lasting: false };
                let changed = |value| Override { value, origin: origin.clone() };
                let changes: Vec<_> = asked
                    .changes
                    .iter()
                    .map(|wanted| (wanted.path.clone(), wanted.value.map(changed)))
                    .collect();
                if let Ok(done) = GATEWAY.change_knobs(&changes, true) {
                    assert_eq!(done.len(), changes.len());
                }
            },
        );
    }

    /// Lasting changes as the state directory may have them: what can be read is in force or waits, the rest is left out.
    #[test]
    fn stored_changes_with_slips_are_taken_up_or_left_out() {
        let texts = [
            "shop/search/priority 5",
            "shop/mode watch",
            "shop/search/queue.wait.max 250ms",
            "drain.timeout 5s",
        ];
        bolero::check!().with_iterations(300).with_type::<(usize, Vec<Slip>)>().for_each(
            |(choice, slips)| {
                let (shared, text) = (gateway(), slipped(&texts, *choice, slips));
                let (path, value) = text.split_once(' ').unwrap_or((&text, ""));
                let stored = tidegate_store::Override {
                    path: path.to_owned(),
                    value: value.to_owned(),
                    who: "ann".to_owned(),
                    why: String::new(),
                    at: Timestamp::FAR_FUTURE,
                };
                let now = shared.clock().now();
                restore(&shared, vec![stored], now);
                let read = KnobPath::parse(path).and_then(|path| Ok((path.read(value)?, path)));
                let overrides = shared.overrides();
                assert_eq!(overrides.len(), usize::from(read.is_ok()), "{text}");
                if let Ok((value, path)) = read {
                    assert!(overrides[&path].value == value && overrides[&path].origin.at == now);
                    // Of what is not configured it waits.
                    assert!(
                        shared.snapshot().settings.get(&path).is_ok_and(|present| present == value)
                            || shared.configured().get(&path).is_err()
                    );
                }
            },
        );
    }
}
