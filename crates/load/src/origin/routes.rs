//! What the origin answers where.

use std::{
    collections::BTreeMap,
    future::Future,
    pin::pin,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use aws_lc_rs::digest::{Context as Digest, SHA256};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body::Body as _;
use hyper::body::Incoming;
use serde::Serialize;

use super::{Inner, Shared, body::OriginBody};

/// The largest body asked for by `/bytes`: 64 GiB.
const BYTES_MAX: u64 = 1 << 36;
/// The longest pause asked for by `/slow` and `/drip`.
const PAUSE_MAX: Duration = Duration::from_secs(600);
/// The highest cost of one request.
pub(super) const COST_MAX: Duration = Duration::from_secs(60);

/// Answers one request. Every reply is whole or a 4xx that names its fault.
pub(super) async fn answer(shared: Shared, request: Request<Incoming>) -> Response<OriginBody> {
    shared.counts.requests.fetch_add(1, Relaxed);
    let uri = request.uri().clone();
    let query = Query(uri.query().unwrap_or_default());
    let path = uri.path();
    let mut parts = path.splitn(3, '/').skip(1);
    let (first, rest) = (parts.next().unwrap_or_default(), parts.next());
    let own_cost = shared.cost_of(path);
    let routed = match first {
        _ if own_cost.is_some() => cost(&shared, own_cost, query, request).await,
        "bytes" => sized(rest, BYTES_MAX).map(|bytes| ok(OriginBody::pattern(bytes))),
        "chunked" => chunked(rest, query),
        "trailers" => Ok(trailers(&request)),
        "slow" => slow(query).await,
        "drip" => drip(query),
        "status" => status(rest),
        "refresh" => refresh(query),
        "redirect" => redirect(query),
        "cookie" => cookie(rest),
        "member" => Ok(member(rest, &request)),
        "echo" => Ok(echo(&shared, request).await),
        "upload" => Ok(upload(&shared, request).await),
        "stats" => Ok(json(&shared.stats())),
        _ => cost(&shared, None, query, request).await,
    };
    routed.unwrap_or_else(|fault| plain(StatusCode::BAD_REQUEST, format!("{path}: {fault}\n")))
}

/// CPU work, where the path, the query or the default asks for any.
async fn cost(
    shared: &Inner,
    of_path: Option<Duration>,
    query: Query<'_>,
    request: Request<Incoming>,
) -> Result<Response<OriginBody>, String> {
    let cost = query.millis("cost_ms", COST_MAX)?.or(of_path).unwrap_or(shared.cost);
    // The body is part of the request: a server reads it before it works.
    drain(shared, request.into_body()).await;
    if !cost.is_zero() {
        let Some(done) = shared.pool.submit(cost) else {
            return Ok(plain(StatusCode::SERVICE_UNAVAILABLE, "the origin's queue is full\n".to_owned()));
        };
        if done.await.is_err() {
            return Ok(plain(StatusCode::SERVICE_UNAVAILABLE, "the origin is closing\n".to_owned()));
        }
    }
    Ok(match query.number("bytes", BYTES_MAX)? {
        Some(bytes) => ok(OriginBody::pattern(bytes)),
        None => ok(OriginBody::given("ok\n")),
    })
}

fn chunked(rest: Option<&str>, query: Query<'_>) -> Result<Response<OriginBody>, String> {
    let bytes = sized(rest, BYTES_MAX)?;
    let piece = query.number("chunk", 65_536)?.unwrap_or(4096);
    Ok(ok(OriginBody::pattern(bytes).in_pieces(usize::try_from(piece).unwrap_or(4096))))
}

fn trailers(request: &Request<Incoming>) -> Response<OriginBody> {
    let mut trailers = HeaderMap::new();
    trailers.insert("x-origin-trailer", HeaderValue::from_static("kept"));
    let mut response = ok(OriginBody::pattern(1024).in_pieces(512).with_trailers(trailers));
    response.headers_mut().insert(header::TRAILER, HeaderValue::from_static("x-origin-trailer"));
    if let Some(te) = request.headers().get(header::TE) {
        response.headers_mut().insert("x-origin-te", te.clone());
    }
    response
}

async fn slow(query: Query<'_>) -> Result<Response<OriginBody>, String> {
    let pause = query.millis("ms", PAUSE_MAX)?.unwrap_or(Duration::from_millis(100));
    tokio::time::sleep(pause).await;
    let bytes = query.number("bytes", BYTES_MAX)?;
    Ok(ok(bytes.map_or_else(|| OriginBody::given("ok\n"), OriginBody::pattern)))
}

fn drip(query: Query<'_>) -> Result<Response<OriginBody>, String> {
    let bytes = query.number("bytes", BYTES_MAX)?.unwrap_or(10);
    let piece = query.number("chunk", 65_536)?.unwrap_or(1);
    let pause = query.millis("ms", PAUSE_MAX)?.unwrap_or(Duration::from_millis(100));
    let piece = usize::try_from(piece).unwrap_or(1);
    Ok(ok(OriginBody::pattern(bytes).in_pieces(piece).dripping(pause)))
}

fn status(rest: Option<&str>) -> Result<Response<OriginBody>, String> {
    let code = sized(rest, 599)?;
    let code = u16::try_from(code).ok().and_then(|code| StatusCode::from_u16(code).ok());
    match code {
        // 1xx is no final response.
        Some(code) if code.as_u16() >= 200 => {
            let empty = code == StatusCode::NO_CONTENT || code == StatusCode::NOT_MODIFIED;
            let text = if empty { String::new() } else { format!("{code}\n") };
            Ok(plain(code, text))
        }
        _ => Err("write /status/ and a code from 200 to 599".to_owned()),
    }
}

/// Tells its client to come back, `again` times more than once.
fn refresh(query: Query<'_>) -> Result<Response<OriginBody>, String> {
    let seconds = query.number("s", 86_400)?.unwrap_or(1);
    let again = query.number("again", 10_000)?.unwrap_or(0);
    let to = query.value("to").unwrap_or("/");
    let code = query.value("status").unwrap_or("200");
    let url = match again {
        0 => to.to_owned(),
        _ => format!("/refresh?s={seconds}&again={}&status={code}&to={to}", again - 1),
    };
    let value = HeaderValue::from_str(&format!("{seconds}; url={url}")).map_err(|fault| fault.to_string())?;
    let mut response = status(Some(code))?;
    response.headers_mut().insert(header::REFRESH, value);
    Ok(response)
}

fn redirect(query: Query<'_>) -> Result<Response<OriginBody>, String> {
    let to = HeaderValue::from_str(query.value("to").unwrap_or("/")).map_err(|fault| fault.to_string())?;
    let mut response = status(query.value("status").or(Some("302")))?;
    response.headers_mut().insert(header::LOCATION, to);
    if let Some(seconds) = query.number("after", 86_400)? {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    Ok(response)
}

/// Sets the cookie of `/cookie/NAME/VALUE`.
fn cookie(rest: Option<&str>) -> Result<Response<OriginBody>, String> {
    let pair = rest.unwrap_or_default().replacen('/', "=", 1);
    let value = HeaderValue::from_str(&format!("{pair}; Path=/")).map_err(|fault| fault.to_string())?;
    let mut response = plain(StatusCode::OK, "ok\n".to_owned());
    response.headers_mut().insert(header::SET_COOKIE, value);
    Ok(response)
}

/// Lets in at `/member/NAME/VALUE` who has that cookie.
fn member(rest: Option<&str>, request: &Request<Incoming>) -> Response<OriginBody> {
    let pair = rest.unwrap_or_default().replacen('/', "=", 1);
    let cookies = request.headers().get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
    let is_member = cookies.flat_map(|line| line.split("; ")).any(|cookie| cookie == pair);
    let code = if is_member { StatusCode::OK } else { StatusCode::FORBIDDEN };
    plain(code, format!("{code}\n"))
}

/// The request as it arrived.
#[derive(Serialize)]
struct Echo {
    method: String,
    uri: String,
    version: String,
    headers: Vec<(String, String)>,
    trailers: BTreeMap<String, String>,
    body_bytes: u64,
    body_sha256: String,
}

async fn echo(shared: &Inner, request: Request<Incoming>) -> Response<OriginBody> {
    let (parts, body) = request.into_parts();
    let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let received = drain(shared, body).await;
    json(&Echo {
        method: parts.method.to_string(),
        uri: parts.uri.to_string(),
        version: format!("{:?}", parts.version),
        headers: parts.headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect(),
        trailers: received.trailers.iter().map(|(name, value)| (name.to_string(), text(value))).collect(),
        body_bytes: received.bytes,
        body_sha256: received.sha256,
    })
}

#[derive(Serialize)]
struct Upload {
    bytes: u64,
    sha256: String,
    complete: bool,
}

async fn upload(shared: &Inner, request: Request<Incoming>) -> Response<OriginBody> {
    if request.method() == Method::GET {
        return plain(StatusCode::METHOD_NOT_ALLOWED, "POST or PUT a body to /upload\n".to_owned());
    }
    let received = drain(shared, request.into_body()).await;
    json(&Upload { bytes: received.bytes, sha256: received.sha256, complete: received.complete })
}

struct Received {
    bytes: u64,
    sha256: String,
    trailers: HeaderMap,
    complete: bool,
}

async fn drain(shared: &Inner, body: Incoming) -> Received {
    let mut digest = Digest::new(&SHA256);
    let mut received =
        Received { bytes: 0, sha256: String::new(), trailers: HeaderMap::new(), complete: true };
    let mut body = pin!(body);
    while let Some(frame) = std::future::poll_fn(|cx| body.as_mut().poll_frame(cx)).await {
        match frame.map(http_body::Frame::into_data) {
            Ok(Ok(data)) => {
                received.bytes += data.len() as u64;
                shared.counts.body_bytes.fetch_add(data.len() as u64, Relaxed);
                digest.update(&data);
            }
            Ok(Err(frame)) => received.trailers.extend(frame.into_trailers().unwrap_or_default()),
            Err(_) => {
                received.complete = false;
                break;
            }
        }
    }
    received.sha256 = digest.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    received
}

fn ok(body: OriginBody) -> Response<OriginBody> {
    let mut response = Response::new(body);
    let kind = HeaderValue::from_static("application/octet-stream");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

fn plain(status: StatusCode, text: String) -> Response<OriginBody> {
    let mut response = Response::new(OriginBody::given(text));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    response
}

fn json(value: &impl Serialize) -> Response<OriginBody> {
    let text = serde_json::to_string(value).unwrap_or_else(|fault| format!("{{\"fault\":\"{fault}\"}}"));
    let mut response = Response::new(OriginBody::given(text));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn sized(rest: Option<&str>, most: u64) -> Result<u64, String> {
    let text = rest.unwrap_or_default();
    match text.parse() {
        Ok(number) if number <= most => Ok(number),
        _ => Err(format!("`{text}` is no number up to {most}")),
    }
}

/// A query string's numbers.
#[derive(Clone, Copy)]
struct Query<'a>(&'a str);

impl Query<'_> {
    fn value(&self, key: &str) -> Option<&str> {
        self.0
            .split('&')
            .filter_map(|pair| pair.split_once('='))
            .find(|(name, _)| *name == key)
            .map(|(_, v)| v)
    }

    fn number(&self, key: &str, most: u64) -> Result<Option<u64>, String> {
        self.value(key)
            .map(|text| sized(Some(text), most).map_err(|fault| format!("{key}: {fault}")))
            .transpose()
    }

    fn millis(&self, key: &str, most: Duration) -> Result<Option<Duration>, String> {
        let Some(text) = self.value(key) else { return Ok(None) };
        text.parse()
            .ok()
            .and_then(|ms: f64| Duration::try_from_secs_f64(ms / 1e3).ok())
            .filter(|span| *span <= most)
            .map(Some)
            .ok_or_else(|| format!("{key}: `{text}` is no number of milliseconds up to {}", most.as_millis()))
    }
}

/// Keeps the service's future nameable for hyper.
pub(super) fn service(
    shared: Shared,
) -> impl hyper::service::Service<
    Request<Incoming>,
    Response = Response<OriginBody>,
    Error = std::convert::Infallible,
    Future: Future + 'static,
> {
    hyper::service::service_fn(move |request| {
        let shared = Arc::clone(&shared);
        async move { Ok(answer(shared, request).await) }
    })
}
