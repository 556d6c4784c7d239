//! `tidegate events`: what happens to a running gateway, a line each.

use clap::Args;
use serde_json::Value as Json;

use crate::{
    client::{Asked, encode},
    failure::Failure,
    output::say,
};

#[derive(Debug, Args)]
pub(crate) struct Follow {
    /// Only events of these kinds, with commas: knobs, action, controller, server, capacity, refusals, waiting_room, …
    #[arg(long, value_name = "KINDS")]
    kinds: Option<String>,
    /// Begin with what the gateway remembers; without it, with what happens from now on.
    #[arg(long)]
    all: bool,
    /// End after so many events.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Print each event as a JSON object.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    asked: Asked,
}

/// Prints events until the gateway ends.
pub(crate) fn follow(follow: &Follow) -> Result<(), Failure> {
    let mut query = Vec::new();
    if follow.all {
        query.push("after=0".to_owned());
    }
    query.extend(follow.kinds.as_deref().map(|kinds| format!("kinds={}", encode(kinds))));
    let mut left = follow.count.unwrap_or(u64::MAX);
    let mut name = String::new();
    for line in follow.asked.lines(&format!("/api/v1/events?{}", query.join("&")))? {
        let line = line.map_err(|error| {
            Failure::work(format!("{}: the events ended ({error})", follow.asked.address()))
        })?;
        if let Some(event) = line.strip_prefix("event: ") {
            event.clone_into(&mut name);
        } else if let Some(data) = line.strip_prefix("data: ") {
            let mut data: Json = serde_json::from_str(data).map_err(Failure::work)?;
            let text = if follow.json {
                data["event"] = name.as_str().into();
                data.to_string()
            } else {
                in_words(&name, &data)
            };
            if !say(text)? {
                return Ok(());
            }
            // The gateway goes on, and so would what reads it.
            if matches!(name.as_str(), "slow" | "withdrawn") {
                return Err(Failure::work(format!("{}: the events ended", follow.asked.address())));
            }
            left -= 1;
            if left == 0 {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// `12:34:56 server shop 10.0.0.2:8000 paused`: the time in UTC, then what matters.
fn in_words(name: &str, data: &Json) -> String {
    let text = |field: &str| data[field].as_str().unwrap_or_default().to_owned();
    let told = match name {
        "knobs" | "action" => {
            let changes = data["changes"].as_array().into_iter().flatten().map(|change| {
                let field = |name: &str| change[name].as_str().unwrap_or_default();
                let what = change["what"].as_str().map_or_else(String::new, |what| format!("{what} "));
                format!("{what}{}: {} -> {}", field("path"), field("from"), field("to"))
            });
            let why = match text("why") {
                why if why.is_empty() => String::new(),
                why => format!(" ({why})"),
            };
            format!("{}{why}: {}", text("who"), changes.collect::<Vec<_>>().join(", "))
        }
        "controller" => format!("{} {} {}", text("name"), text("what"), text("text")),
        "server" => format!("{} {} {}", text("application"), text("server"), text("what")),
        "capacity" => {
            let of =
                |field: &str| data[field].as_f64().map_or("none".to_owned(), |per_s| format!("{per_s:.1}/s"));
            format!("{} {}: {} -> {}", text("application"), text("cause"), of("before"), of("after"))
        }
        "refusals" => {
            let verb = if data["began"] == true { "begin" } else { "have ended" };
            // Nobody is refused by what only watches.
            let what = if data["would"] == true { "would-be refusals" } else { "refusals" };
            format!("{}/{}: {what} by {} {verb}", text("application"), text("class"), text("reason"))
        }
        "configuration" if data["fault"].is_string() => format!("not taken up: {}", text("fault")),
        "configuration" => format!("version {} in force", data["version"]),
        "recording" if data["kept"] == true => "is kept on disk".to_owned(),
        "recording" => format!("in memory only: {}", text("why")),
        "ending" => "the gateway drains and ends".to_owned(),
        _ => text("text"),
    };
    match data["at"].as_f64() {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a time since 1970")]
        Some(at) => {
            let second = at.max(0.0) as u64 % 86_400;
            format!("{:02}:{:02}:{:02}Z {name} {told}", second / 3600, second / 60 % 60, second % 60)
        }
        None => format!("{name} {told}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::in_words;

    #[test]
    fn events_are_told_in_words() {
        let knobs = json!({ "at": 3_723.9, "who": "ada", "why": "sale",
            "changes": [{ "path": "shop/mode", "from": "watch", "to": "enforce" }] });
        assert_eq!(in_words("knobs", &knobs), "01:02:03Z knobs ada (sale): shop/mode: watch -> enforce");
        let action = json!({ "who": "bob", "why": "",
            "changes": [{ "what": "server", "path": "shop/servers/two", "from": "none", "to": "10.0.0.2:80" }] });
        assert_eq!(in_words("action", &action), "action bob: server shop/servers/two: none -> 10.0.0.2:80");
        let refusals = json!({ "at": 0.0, "application": "shop", "class": "home", "reason": "queue_full", "began": true });
        assert_eq!(
            in_words("refusals", &refusals),
            "00:00:00Z refusals shop/home: refusals by queue_full begin"
        );
        let watched = json!({ "application": "shop", "class": "home", "reason": "codel", "began": false, "would": true });
        assert_eq!(
            in_words("refusals", &watched),
            "refusals shop/home: would-be refusals by codel have ended"
        );
        let faulty = json!({ "version": 3, "fault": "tidegate.toml: a key too much" });
        assert_eq!(
            in_words("configuration", &faulty),
            "configuration not taken up: tidegate.toml: a key too much"
        );
        let capacity = json!({ "application": "shop", "cause": "found", "before": null, "after": 12.34 });
        assert_eq!(in_words("capacity", &capacity), "capacity shop found: none -> 12.3/s");
    }
}
