//! `POST /api/v1/applications/{application}/waiting-room/bypass`: tokens by which programs of partners pass the room by.

use std::time::Duration;

use http::StatusCode;
use serde_json::{Value as Json, json};
use tidegate_control::{
    ClassId,
    knobs::{Kind, Value},
    waiting_room::{BYPASS_MAX, Bypass},
};
use tidegate_runtime::{Application, Shared};

use crate::{
    access::Caller,
    body::{needed, object, text},
    events::seconds,
    parameters::{application_of, bad},
    problem::Problem,
    record::{Action, Done, Reasons, Record},
};

/// How long a token may be valid.
const VALID_FOR: Kind = Kind::Span { min: Duration::from_secs(1), max: BYPASS_MAX };
const CLASS_MAX: usize = 64;

/// `{"class"?: "partners", "valid_for": "30d", "who"?, "why"?}`. The token is told once and kept nowhere.
pub(crate) async fn make(
    shared: &Shared,
    record: &Record,
    application: &str,
    body: &[u8],
    caller: &Caller,
) -> Result<Json, Problem> {
    let snapshot = shared.snapshot();
    let found = application_of(&snapshot, application)?;
    let Asked { class, valid_for, reasons } = Asked::read(found, body, caller)?;
    let number = getrandom::u64().map_err(|error| {
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, format!("no random number: {error}"))
    })?;
    let issued = shared.clock().now();
    let bypass = Bypass { class, issued, until: issued + valid_for, number };
    let class = found.classes.get(class.index()).map_or("", |class| class.name.as_str());
    let token = found.signer.bypass(&bypass).to_string();
    let done = || {
        // What is recorded tells tokens apart, and lets nobody in.
        let to = format!("token {number:016x} for {}", Value::Span(valid_for));
        let path = format!("{application}/{class}");
        let from_to = ["none".to_owned(), to];
        Ok::<_, Problem>(Done::action(
            Action::RoomBypass,
            &path,
            from_to,
            &reasons,
            (shared.version(), issued),
        ))
    };
    let recorded = record.write(done).await?;
    Ok(json!({
        "token": token,
        "field": "Tidegate-Bypass",
        "application": application,
        "class": class,
        "until": seconds(bypass.until),
        "change": recorded.id,
    }))
}

/// What is asked for.
struct Asked {
    class: ClassId,
    valid_for: Duration,
    reasons: Reasons,
}

impl Asked {
    fn read(application: &Application, body: &[u8], caller: &Caller) -> Result<Self, Problem> {
        let mut asked = object(body, &["class", "valid_for", "who", "why"])?;
        let class = match text(&mut asked, "class", CLASS_MAX)? {
            None => 0,
            Some(name) => {
                application.classes.iter().position(|class| class.name == name).ok_or_else(|| {
                    let names: Vec<&str> =
                        application.classes.iter().map(|class| class.name.as_str()).collect();
                    bad(format!("class: there is no {name:?}: there is {}", names.join(", ")))
                })?
            }
        };
        let valid_for = match asked.remove("valid_for") {
            Some(Json::String(text)) => match VALID_FOR.parse(&text) {
                Ok(Value::Span(span)) if VALID_FOR.admits(Value::Span(span)) => span,
                _ => return Err(bad(format!("valid_for: {text:?}: expected {}", VALID_FOR.expected()))),
            },
            other => return Err(needed("valid_for", other.as_ref(), &VALID_FOR.expected())),
        };
        let reasons = Reasons::read(&mut asked, caller)?;
        Ok(Self { class: ClassId(u16::try_from(class).unwrap_or(u16::MAX)), valid_for, reasons })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, LazyLock};

    use super::*;
    use crate::fuzz::{Slip, gateway, slipped};

    #[test]
    fn what_is_asked_for_with_slips_is_read_or_refused() {
        static GATEWAY: LazyLock<Arc<Shared>> = LazyLock::new(gateway);
        let texts =
            [r#"{"class":"search","valid_for":"30d","who":"ann"}"#, r#"{"valid_for":"1s","why":"a test"}"#];
        bolero::check!().with_iterations(5_000).with_type::<(usize, Vec<Slip>)>().for_each(
            |(choice, slips)| {
                let application = &GATEWAY.snapshot().applications[0];
                let text = slipped(&texts, *choice, slips);
                let Ok(asked) = Asked::read(application, text.as_bytes(), &Caller::anyone()) else { return };
                assert!(asked.class.index() < application.classes.len(), "{text}");
                assert!((Duration::from_secs(1)..=BYPASS_MAX).contains(&asked.valid_for), "{text}");
            },
        );
    }
}
