//! `/api/v1/applications/{application}/servers`: servers listed, added, drained and removed while running.

use http::{Method, StatusCode};
use serde_json::{Map, Value as Json, json};
use tidegate_config::{KnobPath, Server, ServerUrl, Settings, Target, is_address_name};
use tidegate_control::knobs::{Knob, Scope, Value, Values};
use tidegate_runtime::{Application, PublishError, Shared, servers::Unresolved};

use crate::{
    access::Caller,
    body::{any_object, needed},
    events::seconds,
    knobs::Knobs,
    parameters::{application_of, bad},
    problem::Problem,
    record::{Action, Done, Reasons, Record, Recorded},
};

/// Answers requests for the servers of applications, and records what they change.
pub(crate) struct Servers<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) knobs: &'a Knobs,
    pub(crate) record: &'a Record,
    pub(crate) caller: &'a Caller,
}

impl Servers<'_> {
    /// A request for the servers of `application`, or for one of them.
    pub(crate) async fn handle(
        &self,
        method: &Method,
        (application, server): (&str, Option<&str>),
        query: Option<&str>,
        body: &[u8],
    ) -> Result<Json, Problem> {
        let snapshot = self.shared.snapshot();
        let settings = &application_of(&snapshot, application)?.settings;
        let change = match (method, server) {
            (&Method::GET, None) => return Ok(list(self.shared, application)),
            (&Method::POST, None) => {
                let mut asked = any_object(body)?;
                let reasons = Reasons::read(&mut asked, self.caller)?;
                let server = parse_new(asked, settings.upstream.tls.is_some())?;
                self.add(application, server, &reasons).await?
            }
            (&Method::PATCH, Some(name)) => {
                if !settings.servers.iter().any(|server| server.name == name) {
                    return Err(no_server(name));
                }
                let mut asked = any_object(body)?;
                let reasons = Reasons::read(&mut asked, self.caller)?;
                let changes = parse_knobs(application, name, &asked)?;
                self.knobs.change_server(changes, reasons).await?["id"].take()
            }
            (&Method::DELETE, Some(name)) => {
                let reasons = Reasons::of_query(query, self.caller)?;
                self.remove(application, name, &reasons).await?
            }
            _ => {
                return Err(Problem::new(
                    StatusCode::METHOD_NOT_ALLOWED,
                    "GET and POST for the servers of an application; PATCH and DELETE for one of them",
                ));
            }
        };
        let mut answer = list(self.shared, application);
        answer["change"] = change;
        Ok(answer)
    }

    async fn add(&self, application: &str, server: Server, reasons: &Reasons) -> Result<Json, Problem> {
        let (name, address) = (server.name.clone(), server.address.to_string());
        let values = Some(server.values.clone());
        self.act(application, (&name, values), reasons, |servers| {
            if servers.iter().any(|other| other.name == name) {
                let detail =
                    format!("a server named {name:?} is there already: PATCH it, or give another name");
                return Err(Problem::new(StatusCode::CONFLICT, detail));
            }
            servers.push(server);
            Ok(["none".to_owned(), address])
        })
        .await
    }

    async fn remove(&self, application: &str, name: &str, reasons: &Reasons) -> Result<Json, Problem> {
        self.act(application, (name, None), reasons, |servers| {
            let position = servers.iter().position(|server| server.name == name);
            let server = servers.remove(position.ok_or_else(|| no_server(name))?);
            Ok([server.address.to_string(), "none".to_owned()])
        })
        .await
    }

    /// Edits the servers of an application, publishes the result and records it; nothing changes on a problem. The one it is
    /// about begins with these values, if it is there then.
    async fn act(
        &self,
        application: &str,
        (name, values): (&str, Option<Values>),
        reasons: &Reasons,
        change: impl FnOnce(&mut Vec<Server>) -> Result<[String; 2], Problem>,
    ) -> Result<Json, Problem> {
        let path = format!("{application}/servers/{name}");
        let done = || {
            let from_to = edit(self.shared, application, change)?;
            // One of its name that comes later begins as it is configured.
            let forgotten = self.shared.begin_server(application, name, values);
            let at = (self.shared.version(), self.shared.clock().now());
            let mut done = Done::action(Action::Server, &path, from_to, reasons, at);
            done.change.overrides = forgotten.iter().map(|path| (path.to_string(), None)).collect();
            Ok(done)
        };
        let Recorded { id, .. } = self.record.write(done).await?;
        Ok(id.into())
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
                "keep_alive": server.keeps_connections,
                "response_time_ms": server.response_time.map(|time| time.as_secs_f64() * 1e3),
            })
        })
        .collect();
    json!({ "servers": servers, "unresolved": unresolved(&snapshot.applications[position]) })
}

/// Servers whose names have no address yet.
pub(crate) fn unresolved(application: &Application) -> Vec<Json> {
    let row = |server: Unresolved| {
        let (error, tried_at) = server.failed.map(|(why, at)| (why, seconds(at))).unzip();
        json!({ "name": server.name, "address": server.address, "error": error, "tried_at": tried_at })
    };
    application.state.servers().unresolved().into_iter().map(row).collect()
}

/// `{"url": "http://…", "name"?: "…", "<knob>"?: …}`.
fn parse_new(mut object: Map<String, Json>, has_tls: bool) -> Result<Server, Problem> {
    let url = match object.remove("url") {
        Some(Json::String(url)) => url,
        other => {
            return Err(needed(
                "url",
                other.as_ref(),
                "the server's address, such as \"http://10.0.0.2:8080\"",
            ));
        }
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
    let name = match object.remove("name") {
        None | Some(Json::Null) => url.address.default_name(),
        Some(Json::String(name)) => name,
        Some(other) => return Err(bad(format!("name: {other} is no text: give one, or leave it away"))),
    };
    if !is_address_name(&name) {
        return Err(bad(format!(
            "name: {name:?} is no name: give up to 64 letters, digits, \"_\", \"-\", \".\", \":\", \"[\" and \"]\""
        )));
    }
    let mut server = Server { name, address: url.address, values: Values::defaults(Scope::Server) };
    for (name, value) in &object {
        let (knob, value) = parse_knob(name, value)?;
        server.values.set(knob, value).map_err(|fault| bad(format!("{name}: {fault}")))?;
    }
    Ok(server)
}

/// `{"<knob>": value, or null to take a change back, …}`.
fn parse_knobs(
    application: &str,
    server: &str,
    object: &Map<String, Json>,
) -> Result<Vec<(KnobPath, Option<Value>)>, Problem> {
    if object.is_empty() {
        return Err(bad("no knob is given: give one such as {\"drain\": true}"));
    }
    let target = Target::Server { application: application.to_owned(), server: server.to_owned() };
    let changes = object.iter().map(|(name, value)| {
        let (knob, value) = match value {
            Json::Null => (find_knob(name)?, None),
            value => parse_knob(name, value).map(|(knob, value)| (knob, Some(value)))?,
        };
        Ok((KnobPath { target: target.clone(), knob }, value))
    });
    changes.collect()
}

fn parse_knob(name: &str, value: &Json) -> Result<(Knob, Value), Problem> {
    let knob = find_knob(name)?;
    let text = match value {
        Json::String(text) => text.clone(),
        other => other.to_string(),
    };
    let value = knob.parse(&text).map_err(|fault| bad(format!("{name}: {fault}")))?;
    Ok((knob, value))
}

fn find_knob(name: &str) -> Result<Knob, Problem> {
    Knob::find(Scope::Server, name).ok_or_else(|| {
        let names: Vec<_> =
            Knob::ALL.iter().filter(|k| k.scope() == Scope::Server).map(|k| k.name()).collect();
        bad(format!("{name}: servers have no such knob, but {}", names.join(", ")))
    })
}

fn no_server(name: &str) -> Problem {
    Problem::new(StatusCode::NOT_FOUND, format!("no server is named {name:?}"))
}

fn edit<T>(
    shared: &Shared,
    application: &str,
    change: impl FnOnce(&mut Vec<Server>) -> Result<T, Problem>,
) -> Result<T, Problem> {
    let mut outcome =
        Err(Problem::new(StatusCode::NOT_FOUND, format!("no application is named {application:?} any more")));
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
        .map_err(|error: PublishError| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuzz::{Slip, slipped};

    /// What is taken for a server has a name and an address that read back, and values that its knobs may have.
    #[test]
    fn a_server_with_slips_is_read_or_refused() {
        let texts = [
            r#"{"url":"http://10.0.0.2:8080","name":"two","weight":3,"in_flight.max":"none"}"#,
            r#"{"url":"https://app.example","drain":true}"#,
            r#"{"url":"unix:/run/app.sock","name":null,"weight":"7"}"#,
            r#"{"url":"http://[::1]:80"}"#,
        ];
        bolero::check!().with_iterations(5_000).with_type::<(usize, Vec<Slip>, bool)>().for_each(
            |(choice, slips, has_tls)| {
                let Ok(object) = any_object(slipped(&texts, *choice, slips).as_bytes()) else { return };
                let Ok(server) = parse_new(object, *has_tls) else { return };
                assert!(is_address_name(&server.name));
                let again = ServerUrl::parse(&server.address.url(*has_tls)).unwrap();
                assert_eq!(again.address, server.address);
                assert!(again.tls.is_none_or(|tls| tls == *has_tls));
                for knob in Knob::ALL.iter().filter(|knob| knob.scope() == Scope::Server) {
                    assert!(knob.check(server.values.value(*knob)).is_ok());
                }
            },
        );
    }

    #[test]
    fn changes_of_a_server_with_slips_are_read_or_refused() {
        let texts = [r#"{"drain":true,"weight":3}"#, r#"{"in_flight.max":null,"weight":"5"}"#, "{}"];
        bolero::check!().with_iterations(5_000).with_type::<(usize, Vec<Slip>)>().for_each(
            |(choice, slips)| {
                let Ok(object) = any_object(slipped(&texts, *choice, slips).as_bytes()) else { return };
                let Ok(changes) = parse_knobs("shop", "one", &object) else { return };
                assert!(!changes.is_empty() && changes.len() == object.len());
                for (path, value) in changes {
                    assert_eq!(KnobPath::parse(&path.to_string()), Ok(path.clone()));
                    assert!(value.is_none_or(|value| path.knob.check(value).is_ok()));
                }
            },
        );
    }
}
