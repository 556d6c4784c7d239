//! Active health probes: one request over a connection of its own, answered in time or not.

use std::rc::Rc;

use http::{HeaderValue, Request, header};
use tidegate_control::meters::UpstreamError;
use tidegate_runtime::{Clock, servers::Server};
use tokio::time::Instant;

use super::{
    error::Failure,
    plan::Plan,
    pool::{Lease, Pool},
};
use crate::body::{Outbound, RequestBody};

/// Probes a server, and tells it what came of that: whether it answered a GET of the probe path below 400 within the probe
/// timeout.
///
/// # Errors
///
/// The probe could not be made, by no fault of the server: why.
pub(super) async fn run(server: &Server, plan: &Rc<Plan>, clock: Clock) -> Result<(), String> {
    let fault = match tokio::time::timeout(plan.probe_timeout, probe(server, plan, clock)).await {
        Ok(Ok(())) => None,
        Ok(Err(failure)) if failure.kind == UpstreamError::Exhausted => return Err(failure.message),
        Ok(Err(failure)) => Some(failure.message),
        Err(_) => Some(format!("no answer within {:?}", plan.probe_timeout)),
    };
    if let Some(why) = &fault {
        tracing::debug!(server = server.name(), at = %server.endpoint(), "probe failed: {why}");
    }
    server.on_probe(clock.now(), fault.as_deref());
    Ok(())
}

async fn probe(server: &Server, plan: &Rc<Plan>, clock: Clock) -> Result<(), Failure> {
    let bad = |why: String| Failure::new(UpstreamError::Garbage, why);
    let mut request = Outbound::from(Request::new(RequestBody::Empty));
    request.head.uri =
        plan.probe_path.parse().map_err(|error| bad(format!("{}: {error}", plan.probe_path)))?;
    let host = plan.host_at(server);
    let headers = &mut request.head.headers;
    let value = HeaderValue::try_from(&host).map_err(|error| bad(format!("{host}: {error}")))?;
    headers.insert(header::HOST, value);
    headers.insert(header::USER_AGENT, HeaderValue::from_static("tidegate-probe"));
    headers.insert(header::ACCEPT, HeaderValue::from_static("*/*"));
    let lease =
        Pool::connect_apart(server, plan, plan.protocol, None, plan.probe_timeout, clock.now()).await?;
    let now = Instant::now();
    let sent = match lease {
        Lease::Http1(mut http1) => {
            http1.send(request, now, true, None, &|_| {}).await.map(|head| head.status())
        }
        Lease::Http2(stream) => stream.send(request, now).await.map(|head| head.status()),
    };
    let status = sent.map_err(|unanswered| unanswered.failure)?;
    if status.as_u16() < 400 { Ok(()) } else { Err(bad(format!("answered {status}"))) }
}
