//! What was found of each application's capacity outlives the process: the next one begins with it in place of a search.

use std::{
    collections::HashMap,
    path::Path,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use serde_json::{Map, Value as Json, json};
use tidegate_control::{
    Timestamp,
    capacity::{COST_CLASSES, Found, FoundClass},
};
use tidegate_runtime::{Application, FoundCapacity, FoundServer, Shared};
use tidegate_store::{capacity_file, read_capacity, write_capacity};

/// The format that this version writes, and the only one so far.
const FORMAT: u64 = 1;
/// Time between two writings of the same file.
const EVERY: Duration = Duration::from_secs(10);

/// Takes over what was found before. To be called before anybody is let in.
pub(crate) fn restore(shared: &Shared, directory: &Path) {
    for application in &shared.snapshot().applications {
        let name = &application.settings.name;
        let read = read_capacity(directory, name).map_err(|error| error.to_string());
        let parsed = read.and_then(|bytes| bytes.map(|bytes| parse(application, &bytes)).transpose());
        match parsed {
            Ok(None) => {}
            Ok(Some(found)) => {
                application.state.restore_capacity(found);
                tracing::info!(application = name, "the capacity found before is taken over");
            }
            Err(fault) => {
                let file = capacity_file(directory, name);
                tracing::error!(application = name, file = %file.display(), %fault, "the search for the capacity begins anew");
            }
        }
    }
}

/// Writes what is found.
#[derive(Debug, Default)]
pub(crate) struct Keeper {
    /// What was written last of each application, and when.
    written: Mutex<HashMap<String, Written>>,
    /// Whether the last writing failed: it is said once.
    failing: AtomicBool,
    stopped: AtomicBool,
}

#[derive(Debug)]
struct Written {
    at: Timestamp,
    found: Option<FoundCapacity>,
}

impl Keeper {
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Writes what has changed in the last ten seconds, or since, if it `is_last`. To be called each second or so.
    pub(crate) fn keep(&self, shared: &Shared, directory: &Path, is_last: bool) {
        if self.stopped.load(Ordering::Relaxed) {
            return;
        }
        let now = shared.clock().now();
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        let mut tried = None;
        for application in &shared.snapshot().applications {
            let name = &application.settings.name;
            let before = written.get(name);
            if before.is_some_and(|before| now.since(before.at) < EVERY) && !is_last {
                continue;
            }
            let found = application.state.found_capacity();
            if before.is_some_and(|before| before.found == found) {
                continue;
            }
            let text = found.as_ref().map(|found| describe(application, found).to_string());
            let done = write_capacity(directory, name, text.as_deref().map(str::as_bytes));
            if done.is_ok() {
                written.insert(name.clone(), Written { at: now, found });
            }
            tried = Some(done.err().or(tried.flatten()));
        }
        let Some(failure) = tried else { return };
        let was_failing = self.failing.swap(failure.is_some(), Ordering::Relaxed);
        match failure {
            Some(error) if !was_failing => {
                tracing::error!(%error, "what is found of the capacity is not kept over a restart");
            }
            None if was_failing => tracing::info!("what is found of the capacity is written again"),
            _ => {}
        }
    }
}

fn describe(application: &Application, kept: &FoundCapacity) -> Json {
    let FoundCapacity { found, servers } = kept;
    let classes: Map<String, Json> = application
        .classes
        .iter()
        .zip(&found.classes)
        .filter_map(|(class, found)| {
            let FoundClass { cost_s, unqueued_s, part } = (*found)?;
            Some((class.name.clone(), json!({ "cost_s": cost_s, "unqueued_s": unqueued_s, "part": part })))
        })
        .collect();
    let servers: Vec<Json> = servers
        .iter()
        .map(|FoundServer { name, address, weight }| json!({ "name": name, "address": address, "weight": weight }))
        .collect();
    json!({
        "format": FORMAT,
        "capacity_per_s": found.per_s(),
        "servers": servers,
        "headroom": found.headroom,
        "dispersion": found.dispersion,
        "classes": classes,
    })
}

/// What a file says of the classes that there still are.
fn parse(application: &Application, bytes: &[u8]) -> Result<FoundCapacity, String> {
    let json: Json = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    match json["format"].as_u64() {
        Some(FORMAT) => {}
        found => {
            let found = found.map_or_else(|| "none".to_owned(), |found| found.to_string());
            return Err(format!("format {found}, known {FORMAT}"));
        }
    }
    let number = |of: &Json, key: &str| of[key].as_f64().ok_or_else(|| format!("{key} is no number"));
    let named = json["classes"].as_object().ok_or("classes is no table")?;
    let mut classes = [None; COST_CLASSES];
    for (class, place) in application.classes.iter().zip(&mut classes) {
        if let Some(of) = named.get(&class.name) {
            let number = |key| number(of, key).map_err(|fault| format!("classes.{}.{fault}", class.name));
            *place = Some(FoundClass {
                cost_s: number("cost_s")?,
                unqueued_s: number("unqueued_s")?,
                part: number("part")?,
            });
        }
    }
    let found =
        Found { headroom: number(&json, "headroom")?, dispersion: number(&json, "dispersion")?, classes };
    if !found.is_sound() {
        return Err("a number is out of its range, or none of its classes is there any more".to_owned());
    }
    Ok(FoundCapacity { found, servers: parse_servers(&json)? })
}

/// The servers that were in service. An earlier version wrote what they weighed together: that is one server of which nothing is known.
fn parse_servers(json: &Json) -> Result<Vec<FoundServer>, String> {
    let weight = |of: &Json, key: &str| {
        of[key].as_u64().filter(|weight| *weight > 0).ok_or_else(|| format!("{key} is no number above 0"))
    };
    let Some(list) = json.get("servers") else {
        let together = weight(json, "servers_weight")?;
        return Ok(vec![FoundServer { name: String::new(), address: String::new(), weight: together }]);
    };
    let list = list.as_array().filter(|list| !list.is_empty()).ok_or("servers is no list of servers")?;
    let parse_one = |of: &Json| {
        let text = |key: &str| of[key].as_str().map(str::to_owned).ok_or_else(|| format!("{key} is no text"));
        Ok(FoundServer { name: text("name")?, address: text("address")?, weight: weight(of, "weight")? })
    };
    let one = |(index, of): (usize, &Json)| {
        parse_one(of).map_err(|fault: String| format!("servers.{index}.{fault}"))
    };
    list.iter().enumerate().map(one).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, LazyLock};

    use super::*;
    use crate::fuzz::{Slip, gateway, slipped};

    /// What is taken for a file can be begun with, and what is written of it is taken for one again.
    #[test]
    fn a_file_with_slips_is_taken_over_or_refused() {
        static GATEWAY: LazyLock<Arc<Shared>> = LazyLock::new(gateway);
        let texts = [
            r#"{"format":1,"servers":[{"name":"one","address":"127.0.0.1:8001","weight":3},{"name":"two","address":"[::1]:8001","weight":1}],"headroom":1.1,"dispersion":0.9,"classes":{"default":{"cost_s":0.01,"unqueued_s":0.1,"part":0.75},"search":{"cost_s":0.02,"unqueued_s":0.2,"part":0.25}}}"#,
            r#"{"format":1,"servers_weight":1,"headroom":1,"dispersion":15,"classes":{"search":{"cost_s":1e-6,"unqueued_s":1e-3,"part":1}}}"#,
        ];
        bolero::check!().with_iterations(5_000).with_type::<(usize, Vec<Slip>)>().for_each(
            |(choice, slips)| {
                let text = slipped(&texts, *choice, slips);
                let application = &GATEWAY.snapshot().applications[0];
                let Ok(kept) = parse(application, text.as_bytes()) else { return };
                assert!(
                    kept.found.is_sound() && kept.servers.iter().all(|server| server.weight > 0),
                    "{text}"
                );
                let again = parse(application, describe(application, &kept).to_string().as_bytes());
                assert_eq!(again.as_ref().map(|again| &again.servers), Ok(&kept.servers), "{text}");
                application.state.restore_capacity(kept.clone());
                assert_eq!(application.state.found_capacity(), Some(kept));
            },
        );
    }
}
