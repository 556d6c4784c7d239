//! `tidegate get` and `tidegate set`: the knobs of a running gateway.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use clap::Args;
use serde_json::{Map, Value as Json, json};

use crate::failure::Failure;

/// How long the gateway may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Longest answer read.
const ANSWER_BYTES_MAX: u64 = 64 * 1024 * 1024;

#[derive(Debug, Args)]
pub(crate) struct Get {
    /// Knobs whose path is this or begins with it, such as shop/checkout; all if it is left away.
    #[arg(default_value = "")]
    path: String,
    /// Only knobs that were changed since the start, or whose change lasts.
    #[arg(long)]
    changed: bool,
    /// Print what the gateway answers, as JSON.
    #[arg(long)]
    json: bool,
    /// Where the gateway's admin interface answers.
    #[arg(long, default_value = "127.0.0.1:9900", value_name = "ADDRESS")]
    admin: SocketAddr,
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
    /// Where the gateway's admin interface answers.
    #[arg(long, default_value = "127.0.0.1:9900", value_name = "ADDRESS")]
    admin: SocketAddr,
}

/// Shows knobs.
pub(crate) fn get(get: &Get) -> Result<(), Failure> {
    let changed = if get.changed { "&changed=true" } else { "" };
    let answer = ask(get.admin, "GET", &format!("/api/v1/knobs?path={}{changed}", encode(&get.path)), "")?;
    if get.json {
        println!("{answer}");
        return Ok(());
    }
    for knob in answer["knobs"].as_array().into_iter().flatten() {
        let field = |name: &str| knob[name].as_str().unwrap_or_default().to_owned();
        let drift = if knob["drift"] == true {
            format!("  (configured: {})", field("configured"))
        } else {
            String::new()
        };
        println!("{} = {}{drift}", field("path"), field("value"));
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
    let answer = ask(set.admin, "PATCH", "/api/v1/knobs", &body.to_string())?;
    if set.json {
        println!("{answer}");
        return Ok(());
    }
    for change in answer["changes"].as_array().into_iter().flatten() {
        let field = |name: &str| change[name].as_str().unwrap_or_default().to_owned();
        println!("{}: {} -> {}", field("path"), field("from"), field("to"));
    }
    Ok(())
}

/// One request to the admin interface; what it refuses is the input's fault.
fn ask(admin: SocketAddr, method: &str, path: &str, body: &str) -> Result<Json, Failure> {
    let exchange = || -> std::io::Result<Vec<u8>> {
        let mut stream = TcpStream::connect_timeout(&admin, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: {admin}\r\ncontent-type: application/json\r\n\
             content-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes())?;
        let mut answer = Vec::new();
        stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer)?;
        Ok(answer)
    };
    let answer = exchange().map_err(|error| {
        Failure::work(format!(
            "no gateway answers on {admin} ({error}): start it, or give its address by --admin"
        ))
    })?;
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.split(' ').nth(1).unwrap_or_default();
    let json: Json = serde_json::from_str(body)
        .map_err(|_| Failure::work(format!("{admin} does not answer as a gateway's admin interface does")))?;
    match status.as_bytes().first() {
        Some(b'2') => Ok(json),
        Some(b'4') => Err(Failure::input(json["detail"].as_str().unwrap_or(body))),
        _ => Err(Failure::work(json["detail"].as_str().unwrap_or(body))),
    }
}

/// Percent-encodes what is not plain in a query.
fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}
