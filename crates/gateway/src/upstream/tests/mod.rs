//! Upstreams against servers played by hand, byte by byte.

mod balancing;
mod bodies;
mod faults;
mod health;
mod http2;
mod http2_uploads;
mod proxy_out;
mod reuse;
mod tls;

use std::{
    cell::{Cell, OnceCell, RefCell},
    collections::{BTreeMap, BTreeSet},
    future::Future,
    io,
    net::{IpAddr, SocketAddr},
    pin::Pin,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::BodyExt;
use hyper::body::{Body, Frame};
use socket2::SockRef;
use tidegate_config::{Application, Listener, ProtectOptions, Server, ServerAddress, Settings};
use tidegate_control::{
    knobs::{Knob, Scope, Value, Values},
    meters::{Meter, UpstreamError},
};
use tidegate_runtime::{
    Core, CoreApplication, Shared, Subject,
    servers::{HostPort, ServerStatus},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    runtime::LocalRuntime,
};

use super::{
    ChooseHint, UpstreamBody, Upstreams,
    balance::Chosen,
    error::SendError,
    resolve::{Answer, Lookup},
};
use crate::{
    body::{BodyError, RequestBody},
    facts::ConnectionFacts,
};

/// A test that has not ended after this long hangs.
const HANGS_AFTER: Duration = Duration::from_secs(20);

fn run(test: impl Future<Output = ()>) {
    let runtime = LocalRuntime::new().expect("a runtime");
    runtime.block_on(async { tokio::time::timeout(HANGS_AFTER, test).await.expect("the test hangs") });
}

/// One core with one application.
struct Bench {
    shared: Arc<Shared>,
    core: Rc<Core>,
    upstreams: Rc<Upstreams>,
    client: ConnectionFacts,
}

impl Bench {
    /// An application with these servers, after `edit`.
    fn new(servers: &[SocketAddr], edit: impl FnOnce(&mut Application)) -> Self {
        Self::with_lookup(
            &servers.iter().map(|a| (a.ip().to_string(), a.port())).collect::<Vec<_>>(),
            edit,
            FakeDns::default(),
        )
    }

    fn with_lookup(servers: &[(String, u16)], edit: impl FnOnce(&mut Application), dns: FakeDns) -> Self {
        let mut settings =
            Settings::protect(&ProtectOptions::new("http://127.0.0.1:1")).expect("valid options");
        let application = &mut settings.applications[0];
        application.servers = servers.iter().map(|(host, port)| server(host, *port)).collect();
        edit(application);
        let listener = Arc::new(settings.listeners[0].clone());
        let shared = Shared::new(settings).expect("settings that can be published");
        let core = Rc::new(Core::new(0, Arc::clone(&shared)));
        let upstreams = Upstreams::with_lookup(Rc::clone(&core), Rc::new(dns));
        let client = client_of(listener, "192.0.2.1:4711");
        Self { shared, core, upstreams, client }
    }

    fn application(&self) -> Rc<CoreApplication> {
        Rc::clone(&self.core.view().applications[0])
    }

    fn try_choose(&self, hint: ChooseHint<'_>) -> Option<Chosen> {
        self.upstreams.choose(&self.application(), hint)
    }

    fn choose(&self) -> Chosen {
        self.try_choose(ChooseHint::default()).expect("a server in service")
    }

    async fn send(&self, request: Request<RequestBody>) -> Result<Response<UpstreamBody>, Box<SendError>> {
        self.send_to(self.choose(), request).await
    }

    async fn send_to(
        &self,
        chosen: Chosen,
        request: Request<RequestBody>,
    ) -> Result<Response<UpstreamBody>, Box<SendError>> {
        let now = self.shared.clock().now();
        self.upstreams.send(chosen, request.into(), &self.client, now, &|_| {}).await
    }

    async fn get(&self, path: &str) -> Result<Response<UpstreamBody>, Box<SendError>> {
        self.send(request(Method::GET, path, RequestBody::Empty)).await
    }

    /// Changes the application's settings while running.
    fn edit(&self, change: impl FnOnce(&mut Application)) {
        self.shared
            .edit(|settings| change(&mut settings.applications[0]))
            .expect("settings that can be published");
    }

    /// The configuration is read again, and says the same.
    fn reload(&self) {
        let settings = Settings::clone(&self.shared.snapshot().settings);
        self.shared.publish(settings).expect("settings that can be published");
    }

    fn servers(&self) -> Vec<ServerStatus> {
        self.application().application.state.servers().list()
    }

    fn in_flight(&self) -> u32 {
        self.servers().iter().map(|server| server.in_flight).sum()
    }

    /// What a meter of the first server has counted.
    fn count(&self, meter: Meter) -> Vec<u64> {
        self.core.flush_meters();
        let application = self.application().application.id;
        let server = Subject::Server(application, tidegate_control::ServerId(0));
        self.shared.totals().read()[&server].counts(meter).to_vec()
    }

    fn errors(&self, kind: UpstreamError) -> u64 {
        self.count(Meter::UPSTREAM_ERRORS)[kind as usize]
    }

    fn connects(&self) -> u64 {
        self.count(Meter::CONNECTS)[0]
    }
}

/// A client's connection by a listener.
fn client_of(listener: Arc<Listener>, client: &str) -> ConnectionFacts {
    ConnectionFacts {
        id: 1,
        listener,
        transport_peer: None,
        client: Some(address(client)),
        local: Some(address("198.51.100.2:443")),
        tls: None,
        trusted: false,
        requests: Cell::new(0),
        forwarding: OnceCell::new(),
        presence: OnceCell::new(),
    }
}

fn server(host: &str, port: u16) -> Server {
    Server {
        name: format!("{host}:{port}"),
        address: ServerAddress::Host { host: host.to_owned(), port },
        values: Values::defaults(Scope::Server),
    }
}

fn set(values: &mut Values, knob: &str, value: Value) {
    let knob = Knob::find(values.scope(), knob).expect("a knob of that name");
    values.set(knob, value).expect("a value in range");
}

fn ms(millis: u64) -> Value {
    Value::Span(Duration::from_millis(millis))
}

fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

fn request(method: Method, path: &str, body: RequestBody) -> Request<RequestBody> {
    Request::builder().method(method).uri(path).header("host", "app.test").body(body).expect("a request")
}

/// The whole body as text, or how it failed.
async fn text(body: UpstreamBody) -> Result<String, BodyError> {
    let bytes = body.collect().await?.to_bytes();
    Ok(String::from_utf8(bytes.to_vec()).expect("text"))
}

/// A request body that arrives as the test sends it.
fn stream() -> (tokio::sync::mpsc::UnboundedSender<Result<Bytes, BodyError>>, RequestBody) {
    let (sender, receiver) = tokio::sync::mpsc::unbounded_channel();
    (sender, RequestBody::Stream(Box::pin(Pieces(receiver))))
}

struct Pieces(tokio::sync::mpsc::UnboundedReceiver<Result<Bytes, BodyError>>);

impl Body for Pieces {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        self.0.poll_recv(context).map(|piece| piece.map(|piece| piece.map(Frame::data)))
    }
}

/// Names answered by the test.
#[derive(Clone, Debug, Default)]
struct FakeDns {
    answers: Rc<RefCell<BTreeMap<String, Vec<IpAddr>>>>,
    /// Names that are not answered at all.
    silent: Rc<RefCell<BTreeSet<String>>>,
    asked: Rc<Cell<usize>>,
}

impl FakeDns {
    fn answer(&self, host: &str, addresses: &[&str]) {
        let addresses = addresses.iter().map(|text| text.parse().expect("an address")).collect();
        self.answers.borrow_mut().insert(host.to_owned(), addresses);
    }

    fn fail(&self, host: &str) {
        self.answers.borrow_mut().remove(host);
    }

    fn silence(&self, host: &str) {
        self.silent.borrow_mut().insert(host.to_owned());
    }
}

impl Lookup for FakeDns {
    fn lookup(&self, name: &HostPort) -> Answer {
        self.asked.set(self.asked.get() + 1);
        if self.silent.borrow().contains(&name.host) {
            return Box::pin(std::future::pending());
        }
        let answer = self.answers.borrow().get(&name.host).cloned();
        Box::pin(async move { answer.ok_or_else(|| io::Error::other("no such host")) })
    }
}

/// A server played by hand.
struct Raw {
    listener: TcpListener,
}

/// One of its connections.
struct Peer {
    stream: TcpStream,
    /// Read but not yet looked at.
    buffer: Vec<u8>,
}

impl Raw {
    async fn bind() -> Self {
        Self { listener: TcpListener::bind("127.0.0.1:0").await.expect("a free port") }
    }

    fn address(&self) -> SocketAddr {
        self.listener.local_addr().expect("an address")
    }

    /// Where nobody listens, nor will: of an address that nobody else binds.
    async fn nobody() -> SocketAddr {
        let listener = TcpListener::bind("127.77.0.1:0").await.expect("a free port");
        listener.local_addr().expect("an address")
    }

    async fn accept(&self) -> Peer {
        let (stream, _) = self.listener.accept().await.expect("a connection");
        Peer { stream, buffer: Vec::new() }
    }
}

impl Peer {
    /// Reads up to and including `end`, and returns that.
    async fn read_until(&mut self, end: &[u8]) -> String {
        loop {
            if let Some(at) = self.buffer.windows(end.len()).position(|window| window == end) {
                let rest = self.buffer.split_off(at + end.len());
                let read = std::mem::replace(&mut self.buffer, rest);
                return String::from_utf8_lossy(&read).into_owned();
            }
            assert_ne!(
                self.stream.read_buf(&mut self.buffer).await.expect("more to read"),
                0,
                "closed too early"
            );
        }
    }

    async fn head(&mut self) -> String {
        self.read_until(b"\r\n\r\n").await
    }

    async fn write(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).await.expect("to be taken");
    }

    /// Answers one request without a body.
    async fn answer(&mut self, body: &str) -> String {
        let head = self.head().await;
        self.write(format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len())).await;
        head
    }

    /// Closes with a reset.
    fn reset(self) {
        SockRef::from(&self.stream).set_linger(Some(Duration::ZERO)).expect("an option every socket has");
    }

    /// Resolves when the other side has closed; fails if it sends something instead.
    async fn closed(mut self) {
        match self.stream.read_buf(&mut self.buffer).await {
            Ok(0) | Err(_) => {}
            Ok(_) => panic!("sent {:?}", String::from_utf8_lossy(&self.buffer)),
        }
    }
}
