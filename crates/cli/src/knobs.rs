//! `tidegate get` and `tidegate set`: the knobs of a running gateway.

use clap::Args;
use serde_json::{Map, Value as Json, json};

use crate::{
    client::{Asked, encode},
    failure::Failure,
    output::say,
};

#[derive(Debug, Args)]
pub(crate) struct Get {
    /// Knobs whose path is this or begins with it, such as shop/checkout or shop/waiting_room; all if it is left away.
    #[arg(default_value = "")]
    path: String,
    /// Only knobs that were changed since the start, or whose change lasts.
    #[arg(long)]
    changed: bool,
    /// Print what the gateway answers, as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    asked: Asked,
}

#[derive(Debug, Args)]
pub(crate) struct Set {
    /// Changes, all at once or none: PATH=VALUE, such as shop/checkout/ingress.rate=35/s; PATH= takes a
    /// change back, so that what is configured holds again.
    #[arg(required = true, value_name = "PATH=VALUE")]
    changes: Vec<String>,
    /// Why, for the record of changes.
    #[arg(long, default_value = "", value_name = "TEXT")]
    why: String,
    /// Keep the change when the gateway ends; it needs a state_directory.
    #[arg(long)]
    lasting: bool,
    /// Say what would change, and change nothing.
    #[arg(long)]
    dry_run: bool,
    /// Print what the gateway answers, as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    asked: Asked,
}

/// Shows knobs.
pub(crate) fn get(get: &Get) -> Result<(), Failure> {
    let changed = if get.changed { "&changed=true" } else { "" };
    let answer = get.asked.get(&format!("/api/v1/knobs?path={}{changed}", encode(&get.path)), "knobs")?;
    if get.json {
        return say(answer).map(drop);
    }
    for knob in answer["knobs"].as_array().into_iter().flatten() {
        let field = |name: &str| knob[name].as_str().unwrap_or_default().to_owned();
        let drift = if knob["drift"] == true {
            format!("  (configured: {})", field("configured"))
        } else {
            String::new()
        };
        // It does not fit what is configured, or what it belongs to is configured no more.
        let waiting = match (&knob["changed"]["in_force"], knob["changed"]["value"].as_str()) {
            (Json::Bool(false), Some(value)) => format!("  (changed to {value}, which is not in force)"),
            _ => String::new(),
        };
        if !say(format_args!("{} = {}{drift}{waiting}", field("path"), field("value")))? {
            break;
        }
    }
    Ok(())
}

/// Changes knobs.
pub(crate) fn set(set: &Set) -> Result<(), Failure> {
    let mut changes = Map::new();
    for change in &set.changes {
        let Some((path, value)) = change.split_once('=') else {
            return Err(Failure::input(format!(
                "{change}: is no change: write PATH=VALUE, or PATH= to take one back"
            )));
        };
        let value = if value.is_empty() { Json::Null } else { Json::from(value) };
        if changes.insert(path.to_owned(), value).is_some() {
            return Err(Failure::input(format!("{path}: is given twice")));
        }
    }
    let who = std::env::var("USER").unwrap_or_else(|_| "command line".to_owned());
    let body = json!({
        "changes": changes, "who": who, "why": set.why, "lasting": set.lasting, "dry_run": set.dry_run
    });
    let answer = set.asked.send("PATCH", "/api/v1/knobs", &body, "changes")?;
    if set.json {
        return say(answer).map(drop);
    }
    for change in answer["changes"].as_array().into_iter().flatten() {
        let field = |name: &str| change[name].as_str().unwrap_or_default().to_owned();
        if !say(format_args!("{}: {} -> {}", field("path"), field("from"), field("to")))? {
            break;
        }
    }
    Ok(())
}
