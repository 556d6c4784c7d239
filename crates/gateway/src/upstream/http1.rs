//! One HTTP/1 connection to a server, driven by whichever request uses it.

use std::{
    future::Future,
    io,
    pin::{Pin, pin},
    rc::{Rc, Weak},
    task::{Context, Poll, Waker, ready},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use http::{Method, Response, StatusCode};
use http_body::{Body, Frame};
use tidegate_control::{Timestamp, meters::UpstreamError};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf},
    time::{Instant, Sleep},
};

use super::{
    buffers, encode,
    error::Failure,
    io::UpstreamIo,
    patience::{Patience, Turn},
    plan::Plan,
    proxy_header::Ends,
    response::{self, Framing},
};
use crate::{
    body::{BodyError, Outbound, RequestBody},
    facts::ConnectionFacts,
    http1::{Decoded, Decoder, Malformed, OtherLength, Outgoing, Room},
};

/// Bytes that there is room for at each reading, and at most: a large body is read in large pieces.
const READ_MIN: usize = 8 * 1024;
const READ_MAX: usize = 128 * 1024;

/// A connection that is idle or serves one exchange.
///
/// The grammar is httparse's, what a head means is said in [`response`], and bodies are framed by [`Outgoing`] and
/// [`Decoder`]. All is done by the task of the exchange that has the connection: a request costs no channel, no
/// spawn and no waking from one task to another, what is sent stays with who sends it, so that it can be sent
/// again, and dropping the exchange closes the connection.
pub(super) struct Http1 {
    io: UpstreamIo,
    /// Read and not taken yet.
    input: BytesMut,
    /// Whether its room is that which connections take turns in.
    is_borrowed: bool,
    /// Bytes of it that are no whole head.
    looked_at: usize,
    outgoing: Outgoing,
    /// What is still to be sent of the request's body.
    upload: Upload,
    decoder: Decoder,
    /// Whether we let the connection end with the present exchange.
    is_last: bool,
    /// Whether the server lets the connection last beyond the present response.
    is_lasting: bool,
    /// Whether the server has stopped sending, or listening.
    has_ended: bool,
    is_broken: bool,
    /// Whether anything of the present exchange went out, and came back.
    has_sent: bool,
    has_received: bool,
    answers_head: bool,
    /// Room for the fields of the next response.
    room: Room,
    /// Room for the next reading: as much as the last message would have wanted.
    ahead: usize,
    /// Armed for whatever the exchange waits for; kept from one exchange to the next because
    /// moving a deadline back costs a fraction of arming a new timer.
    timer: Pin<Box<Sleep>>,
    pub(super) plan: Rc<Plan>,
    pub(super) ends: Option<Ends>,
    /// The client's connection whose requests alone go on this one, since who speaks on it is known to the server by
    /// that.
    pub(super) owner: Option<Weak<()>>,
    pub(super) idle_since: Timestamp,
    /// Whether it has served an exchange before.
    pub(super) is_used: bool,
}

/// A request's body on its way out.
struct Upload {
    body: RequestBody,
    /// Pieces taken so far.
    pieces: u64,
    waits_for_client: bool,
}

/// An exchange that got no response head on this connection.
pub(super) struct Unanswered {
    pub(super) failure: Failure,
    /// The request, if it can be had back.
    pub(super) request: Option<Outbound>,
    /// Whether the connection took no more requests, nothing of this one included.
    pub(super) has_moved: bool,
    /// Whether the server takes it over HTTP/1.1 only, and may be asked by that.
    pub(super) wants_http1: bool,
    /// Whether anything of the request may have reached the server.
    pub(super) has_reached: bool,
    /// Whether nothing at all came back: only then may the connection just have been stale.
    pub(super) is_silent: bool,
    /// What went wrong in the request's body on the client's side.
    pub(super) client: Option<BodyError>,
}

/// Why an exchange breaks off, and on which side.
pub(super) enum Broken {
    Client(BodyError),
    Server(Failure),
}

impl Http1 {
    /// Begins to speak HTTP/1 over a new connection.
    pub(super) fn start(io: UpstreamIo, plan: Rc<Plan>, ends: Option<Ends>) -> Box<Self> {
        Box::new(Self {
            io,
            input: BytesMut::new(),
            is_borrowed: false,
            looked_at: 0,
            outgoing: Outgoing::default(),
            upload: Upload { body: RequestBody::Empty, pieces: 0, waits_for_client: false },
            decoder: Decoder::Ended,
            is_last: false,
            is_lasting: true,
            has_ended: false,
            is_broken: false,
            has_sent: false,
            has_received: false,
            answers_head: false,
            room: Room::default(),
            ahead: READ_MIN,
            timer: Box::pin(tokio::time::sleep_until(Instant::now())),
            plan,
            ends,
            owner: None,
            idle_since: Timestamp::EPOCH,
            is_used: false,
        })
    }

    /// Sends a request, now, and waits for the response's head. The body behind it comes by
    /// [`Http1::poll_frame`], once [`Http1::expect`] has been told of the head. Interim responses are given to
    /// `interim` meanwhile. `is_last`: the connection serves no further exchange, and says so. `own_host` is asked for where the
    /// request names no host.
    pub(super) async fn send(
        &mut self,
        request: Outbound,
        now: Instant,
        is_last: bool,
        own_host: Option<&str>,
        interim: &dyn Fn(Response<()>),
    ) -> Result<Response<()>, Unanswered> {
        if self.is_used && !self.is_open() {
            let failure = Failure::new(UpstreamError::Reset, "the idle connection was closed");
            let request = Some(request);
            return Err(Unanswered {
                failure,
                request,
                has_moved: false,
                wants_http1: false,
                has_reached: false,
                is_silent: true,
                client: None,
            });
        }
        let Outbound { mut head, body } = request;
        encode::begin(&mut self.outgoing, &head, &body, is_last, own_host);
        self.is_last = is_last;
        // What is in memory can be sent again; what streams by is gone.
        let streams = matches!(body, RequestBody::Stream(_));
        let again = match &body {
            RequestBody::Whole(bytes) => RequestBody::Whole(bytes.clone()),
            RequestBody::Empty | RequestBody::Stream(_) => RequestBody::Empty,
        };
        let body = if streams { body } else { RequestBody::Empty };
        self.upload = Upload { body, pieces: 0, waits_for_client: false };
        (self.has_sent, self.has_received, self.looked_at) = (false, false, 0);
        self.answers_head = head.method == Method::HEAD;
        let mut patience = Patience::new(self.plan.response_timeout, now);
        let answered = std::future::poll_fn(|context| {
            if let Poll::Ready(Err(broken)) = self.poll_upload(context) {
                return Poll::Ready(Err(broken));
            }
            // The server may answer before it has read everything.
            if let Poll::Ready(head) = self.poll_head(interim, context) {
                return Poll::Ready(head.map(Some).map_err(Broken::Server));
            }
            ready!(patience.poll(self.upload.turn(streams), self.timer.as_mut(), context));
            Poll::Ready(Ok(None))
        })
        .await;
        let (failure, client, is_late) = match answered {
            // The rest of the request would be taken for the new protocol, without what is on its way already.
            Ok(Some(response)) if is_switched(response.status()) && self.is_sending() => {
                let early = "101 before the end of the request".to_owned();
                (Failure::new(UpstreamError::Garbage, early), None, false)
            }
            Ok(Some(response)) => {
                self.is_used = true;
                self.room.refill(std::mem::take(&mut head.headers));
                return Ok(response);
            }
            Ok(None) => {
                let late = format!("no response within {:?}", self.plan.response_timeout);
                (Failure::new(UpstreamError::ResponseTimeout, late), None, true)
            }
            Err(Broken::Server(failure)) => (failure, None, false),
            Err(Broken::Client(error)) => {
                (Failure::new(UpstreamError::Reset, "the request's body failed"), Some(error), false)
            }
        };
        let body = match std::mem::replace(&mut self.upload.body, RequestBody::Empty) {
            untouched @ RequestBody::Stream(_) if self.upload.pieces == 0 => untouched,
            _ => again,
        };
        let is_whole = !streams || matches!(body, RequestBody::Stream(_));
        Err(Unanswered {
            failure,
            request: is_whole.then_some(Outbound { head, body }),
            has_moved: false,
            wants_http1: false,
            has_reached: self.has_sent || is_late,
            is_silent: !self.has_received && !is_late,
            client,
        })
    }

    /// The body that comes next is the one behind a head of this status, whose fields say so much.
    pub(super) fn expect(&mut self, status: StatusCode, framing: Framing) {
        self.decoder = framing.decoder(self.answers_head, status);
        self.is_lasting = self.decoder != Decoder::ToEnd && !framing.closes;
        self.ahead = match self.decoder {
            Decoder::Ended => READ_MIN,
            decoder => decoder.wanted(READ_MIN, READ_MAX),
        };
    }

    /// The next frame of the response's body.
    pub(super) fn poll_frame(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        if let Poll::Ready(Err(broken)) = self.poll_upload(context) {
            return Poll::Ready(Some(Err(broken)));
        }
        Poll::Ready(loop {
            match self.decoder.decode(&mut self.input).map_err(broken_body) {
                Ok(Decoded::Frame(frame)) => break Some(Ok(frame)),
                Ok(Decoded::End) => break None,
                Ok(Decoded::More) => {}
                Err(broken) => break Some(Err(broken)),
            }
            let read = ready!(self.poll_read(self.decoder.wanted(READ_MIN, READ_MAX), context));
            let end = match read {
                Ok(0) => self.decoder.end().map_err(broken_body),
                Ok(_) => Ok(()),
                Err(error) => Err(Broken::Server(Failure::new(UpstreamError::Body, error.to_string()))),
            };
            if let Err(broken) = end {
                break Some(Err(broken));
            }
        })
    }

    /// Whether the response has ended.
    pub(super) fn is_end(&self) -> bool {
        self.decoder == Decoder::Ended
    }

    /// Bytes still to come of the response, where that is known.
    pub(super) const fn left(&self) -> Option<u64> {
        match self.decoder {
            Decoder::Ended => Some(0),
            Decoder::Length(left) => Some(left),
            _ => None,
        }
    }

    /// Pieces of the request's body that have been taken; `None` while its client is waited for.
    pub(super) const fn pieces(&self) -> Option<u64> {
        if self.upload.waits_for_client { None } else { Some(self.upload.pieces) }
    }

    /// Arms the timer.
    pub(super) fn arm(&mut self, timeout: Duration) {
        self.timer.as_mut().reset(Instant::now() + timeout);
    }

    /// Whether the timer has run out.
    pub(super) fn poll_timer(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.timer.as_mut().poll(context)
    }

    /// It serves this client's requests alone from now on, unless it is another's already.
    pub(super) fn own_by(&mut self, client: &ConnectionFacts) {
        self.owner.get_or_insert_with(|| client.presence());
    }

    /// Whether something of the request is still to be sent.
    fn is_sending(&self) -> bool {
        self.outgoing.has_bytes() || self.outgoing.wants_more()
    }

    /// Whether it could serve another exchange: nothing of the last one is left, and it is to last.
    pub(super) fn is_reusable(&self) -> bool {
        let is_quiet = self.is_end() && self.input.is_empty();
        is_quiet
            && !self.is_sending()
            && self.is_lasting
            && !self.is_last
            && !self.has_ended
            && !self.is_broken
    }

    /// Whether an idle connection is still open and silent, as far as is known. Nobody is woken for it.
    pub(super) fn is_open(&mut self) -> bool {
        let mut quiet = Context::from_waker(Waker::noop());
        // Without room of its own: whatever comes now ends it.
        let mut byte = [0];
        let mut byte = ReadBuf::new(&mut byte);
        self.is_reusable() && Pin::new(&mut self.io).poll_read(&mut quiet, &mut byte).is_pending()
    }

    /// Lets others have the room for large pieces, unless something is in it.
    pub(super) fn give_room_back(&mut self) {
        if self.is_borrowed && self.input.is_empty() {
            buffers::give(std::mem::take(&mut self.input));
            self.is_borrowed = false;
        }
    }

    /// Takes the byte stream back after a 101, with what was read beyond the head.
    pub(super) fn into_io(self) -> (UpstreamIo, Bytes) {
        (self.io, self.input.freeze())
    }

    /// Sends what there is of the request. Ready once all of it is sent, or the server does not listen any more.
    ///
    /// A server that answers before it has read the whole request may close at once, and the next write fails while
    /// its answer is still to be read. So once something has gone out, what has really become of the connection the
    /// reading side finds out. A first write that fails is told: nothing has reached the server then.
    fn poll_upload(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        loop {
            while self.outgoing.has_bytes() {
                match ready!(self.outgoing.poll_write(Pin::new(&mut self.io), context)) {
                    Ok(()) => self.has_sent = true,
                    Err(error) => return Poll::Ready(self.unheard(error)),
                }
            }
            if !self.outgoing.wants_more() {
                self.upload.body = RequestBody::Empty;
                return match ready!(Pin::new(&mut self.io).poll_flush(context)) {
                    Ok(()) => Poll::Ready(Ok(())),
                    Err(error) => Poll::Ready(self.unheard(error)),
                };
            }
            let Poll::Ready(frame) = Pin::new(&mut self.upload.body).poll_frame(context) else {
                self.upload.waits_for_client = true;
                // What was written goes out meanwhile.
                return match ready!(Pin::new(&mut self.io).poll_flush(context)) {
                    Ok(()) => Poll::Pending,
                    Err(error) => Poll::Ready(self.unheard(error)),
                };
            };
            self.upload.waits_for_client = false;
            self.upload.pieces += 1;
            let is_last = self.upload.body.is_end_stream();
            let pushed = frame
                .transpose()
                .and_then(|frame| self.outgoing.push(frame, is_last).map_err(|OtherLength| other_length()));
            if let Err(error) = pushed {
                // The message is not to be taken for a whole one.
                self.is_broken = true;
                self.outgoing.abandon();
                return Poll::Ready(Err(Broken::Client(error)));
            }
        }
    }

    /// The server does not listen any more.
    fn unheard(&mut self, error: io::Error) -> Result<(), Broken> {
        self.is_broken = true;
        self.outgoing.abandon();
        match self.has_sent {
            true => Ok(()),
            false => Err(Broken::Server(Failure::new(UpstreamError::Reset, error.to_string()))),
        }
    }

    /// The head of the final response.
    fn poll_head(
        &mut self,
        interim: &dyn Fn(Response<()>),
        context: &mut Context<'_>,
    ) -> Poll<Result<Response<()>, Failure>> {
        loop {
            // Whatever begins a head shows at once whether it is one; its end is the end of a line, if that is not too far.
            let new = &self.input[self.looked_at..];
            let begins = self.looked_at == 0 && !new.is_empty();
            if begins || new.contains(&b'\n') || self.input.len() >= response::HEAD_MAX {
                self.looked_at = self.input.len();
                match response::parse(&mut self.input, &mut self.room) {
                    Ok(Some(head)) if is_interim(head.status()) => {
                        self.looked_at = 0;
                        interim(head);
                        continue;
                    }
                    Ok(Some(head)) => return Poll::Ready(Ok(head)),
                    Ok(None) => {}
                    Err(fault) => return Poll::Ready(Err(Failure::new(UpstreamError::Garbage, fault))),
                }
            }
            let fault = match ready!(self.poll_read(self.ahead, context)) {
                Ok(0) => "the connection ended before the response".to_owned(),
                Ok(_) => continue,
                Err(error) => error.to_string(),
            };
            return Poll::Ready(Err(Failure::new(UpstreamError::Reset, fault)));
        }
    }

    /// Reads what there is; there is room for at least `wanted` bytes, or for what will not be more.
    fn poll_read(&mut self, wanted: usize, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if self.has_ended {
            return Poll::Ready(Ok(0));
        }
        // Costs nothing as long as nobody else holds what was read before, and there is room in its place.
        let has_room = self.input.capacity() - self.input.len() >= wanted || self.input.try_reclaim(wanted);
        if !has_room {
            // Not `reserve`: where the place grows, it moves what was taken out of it long ago along.
            let (room, is_large) = (self.input.len() + wanted, wanted > READ_MIN);
            let mut larger = if is_large { buffers::take(room) } else { BytesMut::with_capacity(room) };
            larger.extend_from_slice(&self.input);
            let spent = std::mem::replace(&mut self.input, larger);
            if std::mem::replace(&mut self.is_borrowed, is_large) {
                buffers::give(spent);
            }
        }
        let read = pin!(self.io.read_buf(&mut self.input)).poll(context);
        if read.is_pending() {
            self.give_room_back();
        }
        let read = ready!(read);
        match &read {
            Ok(0) | Err(_) => self.has_ended = true,
            Ok(_) => self.has_received = true,
        }
        Poll::Ready(read)
    }
}

impl Upload {
    /// Who is waited for.
    const fn turn(&self, streams: bool) -> Turn {
        match (streams, self.waits_for_client) {
            (false, _) => Turn::Whole,
            (true, true) => Turn::Client,
            (true, false) => Turn::Pieces(self.pieces),
        }
    }
}

/// Whether another response to the same request follows.
fn is_interim(status: StatusCode) -> bool {
    status.is_informational() && !is_switched(status)
}

/// Whether what follows is another protocol.
fn is_switched(status: StatusCode) -> bool {
    status == StatusCode::SWITCHING_PROTOCOLS
}

fn other_length() -> BodyError {
    BodyError::Client("the body is not as long as its Content-Length".into())
}

fn broken_body(malformed: Malformed) -> Broken {
    Broken::Server(Failure::new(UpstreamError::Body, malformed.to_string()))
}
