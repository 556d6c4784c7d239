//! `/api/v1/applications/{application}/servers`: servers listed, added, drained and removed while running.

use http::{Method, StatusCode};
use serde_json::{Value as Json, json};
use tidegate_config::{Server, ServerUrl, Settings};
use tidegate_control::knobs::{Knob, Scope, Values};
use tidegate_runtime::Shared;

use crate::problem::Problem;

/// Answers a request for the servers of `application`, or for one of them.
pub(crate) fn handle(
    shared: &Shared,
    method: &Method,
    application: &str,
    server: Option<&str>,
    body: &[u8],
) -> Result<Json, Problem> {
    let snapshot = shared.snapshot();
    let Some(position) = snapshot.application_named(application) else {
        return Err(Problem::new(StatusCode::NOT_FOUND, format!("no application is named {application:?}")));
    };
    let has_tls = snapshot.applications[position].settings.upstream.tls.is_some();
    match (method, server) {
        (&Method::GET, None) => Ok(list(shared, application)),
        (&Method::POST, None) => {
            let server = parse_new(body, has_tls)?;
            let name = server.name.clone();
            edit(shared, application, |servers| {
                if servers.iter().any(|other| other.name == name) {
                    let detail =
                        format!("a server named {name:?} is there already: PATCH it, or give another name");
                    return Err(Problem::new(StatusCode::CONFLICT, detail));
                }
                servers.push(server);
                Ok(())
            })?;
            Ok(list(shared, application))
        }
        (&Method::PATCH, Some(name)) => {
            let changes = parse_object(body)?;
            edit(shared, application, |servers| {
                let server = find(servers, name)?;
                for (knob, value) in &changes {
                    set(server, knob, value)?;
                }
                Ok(())
            })?;
            Ok(list(shared, application))
        }
        (&Method::DELETE, Some(name)) => {
            edit(shared, application, |servers| {
                find(servers, name)?;
                servers.retain(|server| server.name != name);
                Ok(())
            })?;
            Ok(list(shared, application))
        }
        _ => Err(Problem::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "GET and POST for the servers of an application; PATCH and DELETE for one of them",
        )),
    }
}

fn list(shared: &Shared, application: &str) -> Json {
    let snapshot = shared.snapshot();
    let Some(position) = snapshot.application_named(application) else { return json!([]) };
    let servers: Vec<Json> = snapshot.applications[position]
        .state
        .servers()
        .list()
        .into_iter()
        .map(|server| {
            json!({
                "name": server.name,
                "address": server.endpoint.to_string(),
                "condition": server.condition.name(),
                "member": server.is_member,
                "draining": server.is_draining,
                "in_flight": server.in_flight,
                "weight": server.weight,
                "response_time_ms": server.response_time.map(|time| time.as_secs_f64() * 1e3),
            })
        })
        .collect();
    json!({ "servers": servers })
}

/// `{"url": "http://…", "name"?: "…", "<knob>"?: …}`.
fn parse_new(body: &[u8], has_tls: bool) -> Result<Server, Problem> {
    let mut object = parse_object(body)?;
    let bad = |detail: String| Problem::new(StatusCode::BAD_REQUEST, detail);
    let Some(Json::String(url)) = object.remove("url") else {
        return Err(bad(
            "\"url\" is missing: give the server's address, such as \"http://10.0.0.2:8080\"".to_owned()
        ));
    };
    let url = ServerUrl::parse(&url).map_err(|fault| bad(format!("url: {fault}")))?;
    if let Some(tls) = url.tls
        && tls != has_tls
    {
        let (ours, theirs) = if has_tls { ("https", "http") } else { ("http", "https") };
        let detail =
            format!("url: {theirs} where the application's servers are spoken to by {ours}: write {ours}");
        return Err(bad(detail));
    }
    let mut server = Server {
        name: url.address.default_name(),
        address: url.address,
        values: Values::defaults(Scope::Server),
    };
    match object.remove("name") {
        None => {}
        Some(Json::String(name)) if !name.is_empty() => server.name = name,
        Some(other) => return Err(bad(format!("name: {other} is no name: give a string that is not empty"))),
    }
    for (knob, value) in &object {
        set(&mut server, knob, value)?;
    }
    Ok(server)
}

fn parse_object(body: &[u8]) -> Result<serde_json::Map<String, Json>, Problem> {
    serde_json::from_slice(body).map_err(|error| {
        Problem::new(StatusCode::BAD_REQUEST, format!("the body is no JSON object: {error}"))
    })
}

fn find<'a>(servers: &'a mut [Server], name: &str) -> Result<&'a mut Server, Problem> {
    servers
        .iter_mut()
        .find(|server| server.name == name)
        .ok_or_else(|| Problem::new(StatusCode::NOT_FOUND, format!("no server is named {name:?}")))
}

fn set(server: &mut Server, name: &str, value: &Json) -> Result<(), Problem> {
    let bad = |detail: String| Problem::new(StatusCode::BAD_REQUEST, detail);
    let Some(knob) = Knob::find(Scope::Server, name) else {
        let names: Vec<_> =
            Knob::ALL.iter().filter(|k| k.scope() == Scope::Server).map(|k| k.name()).collect();
        return Err(bad(format!("{name}: servers have no such knob, but {}", names.join(", "))));
    };
    let text = match value {
        Json::String(text) => text.clone(),
        other => other.to_string(),
    };
    let value = knob.parse(&text).map_err(|fault| bad(format!("{name}: {fault}")))?;
    server.values.set(knob, value).map_err(|fault| bad(format!("{name}: {fault}")))
}

/// Edits the servers of an application and publishes the result; nothing changes on a problem.
fn edit(
    shared: &Shared,
    application: &str,
    change: impl FnOnce(&mut Vec<Server>) -> Result<(), Problem>,
) -> Result<(), Problem> {
    let mut outcome = Ok(());
    shared
        .edit(|settings: &mut Settings| {
            if let Some(found) = settings.applications.iter_mut().find(|a| a.name == application) {
                let mut servers = found.servers.clone();
                outcome = change(&mut servers);
                if outcome.is_ok() {
                    found.servers = servers;
                }
            }
        })
        .map_err(|error| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
    outcome
}
