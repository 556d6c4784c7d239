//! `tidegate token`: a token by which programs of partners pass a waiting room by.

use clap::Args;
use serde_json::json;

use crate::{
    client::{Asked, encode},
    failure::Failure,
    output::say,
};

#[derive(Debug, Args)]
pub(crate) struct Make {
    /// For whose requests it is: an application and one of its classes, such as shop/partners; the default class if
    /// none is named.
    #[arg(value_name = "APPLICATION[/CLASS]")]
    whose: String,
    /// How long it is valid, 31 days at most, such as 12h or 30d.
    #[arg(long = "for", value_name = "SPAN", default_value = "30d")]
    valid_for: String,
    /// Why, for the gateway's log.
    #[arg(long, default_value = "", value_name = "TEXT")]
    why: String,
    /// Print what the gateway answers, as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    asked: Asked,
}

/// Prints a token: one line, to be sent in the field Tidegate-Bypass.
pub(crate) fn make(make: &Make) -> Result<(), Failure> {
    let (application, class) = match make.whose.split_once('/') {
        Some((application, class)) => (application, Some(class)),
        None => (make.whose.as_str(), None),
    };
    let who = std::env::var("USER").unwrap_or_else(|_| "command line".to_owned());
    let body = json!({ "class": class, "valid_for": make.valid_for, "who": who, "why": make.why });
    let path = format!("/api/v1/applications/{}/waiting-room/bypass", encode(application));
    let answer = make.asked.send("POST", &path, &body, "token")?;
    match (make.json, answer["token"].as_str()) {
        (false, Some(token)) => say(token),
        _ => say(answer),
    }
    .map(drop)
}
