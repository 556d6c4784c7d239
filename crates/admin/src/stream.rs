//! `/api/v1/events`: what happens, as server-sent events, and on request all meters now and then.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::StatusCode;
use http_body::{Body, Frame};
use serde_json::{Value as Json, json};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
    time::{Interval, MissedTickBehavior, interval_at},
};

use crate::{
    access::Guest,
    door::Door,
    events::{Behind, Event, Events, Kind, Reader},
    measurements::read_span,
    parameters::{Parameters, bad},
    problem::Problem,
};

/// Readers at once.
pub(crate) const READERS_MAX: usize = 64;
/// What is on its way to one reader; the rest waits in the ring, or is passed by.
const FRAMES_MAX: usize = 16;
/// A line that says nothing keeps the connection through proxies.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
const METERS_MIN: Duration = Duration::from_secs(1);
const METERS_MAX: Duration = Duration::from_secs(60);

/// What a reader asks for.
#[derive(Debug)]
pub(crate) struct Wanted {
    reader: Reader,
    /// Whether something since the event it names is gone.
    lost: bool,
    kinds: Vec<Kind>,
    meters: Option<Duration>,
}

impl Wanted {
    /// Reads the question; `last` is the header Last-Event-ID.
    pub(crate) fn read(
        events: &Arc<Events>,
        query: Option<&str>,
        last: Option<&str>,
    ) -> Result<Self, Problem> {
        let parameters = Parameters::read(query, &["after", "kinds", "meters"])?;
        let meters = parameters.parsed("meters", "a span of time from 1s to 1min", |text| {
            read_span(text).filter(|span| (METERS_MIN..=METERS_MAX).contains(span))
        })?;
        let kinds = match parameters.get("kinds") {
            None => Kind::ALL.to_vec(),
            Some(names) => names.split(',').map(kind).collect::<Result<_, _>>()?,
        };
        // A browser that connects again says it in the header and repeats the query.
        let after = last.or_else(|| parameters.get("after"));
        let Some((reader, lost)) = events.read_after(after) else {
            return Err(bad(format!(
                "{:?} is no id of an event: give one as it was received, or after=0 for all that is remembered",
                after.unwrap_or_default()
            )));
        };
        Ok(Self { reader, lost, kinds, meters })
    }
}

fn kind(name: &str) -> Result<Kind, Problem> {
    Kind::ALL.iter().copied().find(|kind| kind.name() == name).ok_or_else(|| {
        let names: Vec<_> = Kind::ALL.iter().map(|kind| kind.name()).collect();
        bad(format!("kinds: {name:?} is no kind of event: there is {}", names.join(", ")))
    })
}

/// The body of an answer that goes on until its reader leaves.
#[derive(Debug)]
pub(crate) struct Stream {
    frames: mpsc::Receiver<Bytes>,
    /// Given back when the reader has left.
    _place: OwnedSemaphorePermit,
}

impl Stream {
    /// Begins to write for a reader; `meters` makes the events of that name.
    pub(crate) fn begin<M, F>(
        room: &Arc<Semaphore>,
        events: &Arc<Events>,
        ends: (Door, Guest),
        wanted: Wanted,
        meters: M,
    ) -> Result<Self, Problem>
    where
        M: Fn() -> F + Send + 'static,
        F: Future<Output = Result<Json, Problem>> + Send + 'static,
    {
        let Ok(place) = Arc::clone(room).try_acquire_owned() else {
            return Err(Problem::new(
                StatusCode::SERVICE_UNAVAILABLE,
                format!("{READERS_MAX} read events already, which is all there may be: close one of them"),
            ));
        };
        let (send, frames) = mpsc::channel(FRAMES_MAX);
        tokio::spawn(write(Arc::clone(events), ends, wanted, meters, send));
        Ok(Self { frames, _place: place })
    }
}

impl Body for Stream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.frames.poll_recv(context).map(|frame| frame.map(|bytes| Ok(Frame::data(bytes))))
    }
}

/// Writes until the reader has left, or is so slow that what it has not read yet is gone, until another process goes on, or
/// until the reader is no longer who it was let in as.
async fn write<F: Future<Output = Result<Json, Problem>>>(
    events: Arc<Events>,
    (mut door, mut guest): (Door, Guest),
    wanted: Wanted,
    meters: impl Fn() -> F,
    send: mpsc::Sender<Bytes>,
) -> Option<()> {
    let Wanted { mut reader, lost, kinds, meters: period } = wanted;
    let to = async |text: String| send.send(Bytes::from(text)).await.ok();
    // The reader knows that it is connected before anything happens.
    to(": events of a Tidegate\nretry: 2000\n\n".to_owned()).await?;
    if lost {
        let text = "what happened since the event named is remembered in part only: read /api/v1/overview and /api/v1/knobs/changes";
        to(unnumbered("lost", &json!({ "text": text }))).await?;
    }
    let mut alive = every(KEEP_ALIVE, KEEP_ALIVE);
    let mut metered = every(Duration::ZERO, period.unwrap_or(METERS_MAX));
    loop {
        tokio::select! {
            biased;
            () = send.closed() => return None,
            event = reader.next() => match event {
                Ok(event) if kinds.contains(&event.kind) => to(numbered(&events, &event)).await?,
                Ok(_) => {}
                Err(Behind) => {
                    let text = "read too slowly: events are gone that were not read; connect again with the last id, and read /api/v1/overview";
                    to(unnumbered("slow", &json!({ "text": text }))).await?;
                    return None;
                }
            },
            () = door.is_over() => return None,
            () = guest.is_over() => {
                let text = "the access configured now does not let this reader in as it did: connect again";
                to(unnumbered("withdrawn", &json!({ "text": text }))).await?;
                return None;
            }
            _ = metered.tick(), if period.is_some() => to(unnumbered("meters", &meters().await.ok()?)).await?,
            _ = alive.tick() => to(":\n\n".to_owned()).await?,
        }
    }
}

fn every(first: Duration, period: Duration) -> Interval {
    let mut interval = interval_at(tokio::time::Instant::now() + first, period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Skip);
    interval
}

fn numbered(events: &Events, event: &Event) -> String {
    format!("id: {}\nevent: {}\ndata: {}\n\n", events.name(event.number), event.kind.name(), event.data)
}

fn unnumbered(name: &str, data: &Json) -> String {
    // A line break in JSON is always escaped, so the data is one line.
    format!("event: {name}\ndata: {data}\n\n")
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use http_body_util::BodyExt;
    use tidegate_config::AdminAccess;
    use tidegate_control::Timestamp;
    use tidegate_runtime::Clock;

    use super::*;
    use crate::{
        access::{Access, Caller, Peer},
        door::Doorkeeper,
        fuzz::{Slip, slipped},
    };

    fn fixture() -> (Arc<Events>, Arc<Semaphore>) {
        (Arc::new(Events::new(Timestamp::EPOCH)), Arc::new(Semaphore::new(1)))
    }

    fn guest() -> Guest {
        let nothing = AdminAccess { hosts: Vec::new(), tokens: Vec::new(), tls: None };
        let access = Arc::new(Access::new(&nothing, Clock::start()).unwrap());
        let peer = Peer { address: std::net::Ipv4Addr::LOCALHOST.into(), certificate: None };
        access.guest(&peer, &http::Request::new(()).into_parts().0, &Caller::anyone())
    }

    async fn frame(stream: &mut Stream) -> Option<String> {
        let frame = stream.frame().await?.unwrap();
        Some(String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap())
    }

    fn begin(
        events: &Arc<Events>,
        room: &Arc<Semaphore>,
        query: &str,
        last: Option<&str>,
    ) -> Result<Stream, Problem> {
        let wanted = Wanted::read(events, Some(query), last)?;
        let ends = (Doorkeeper::new().door(), guest());
        Stream::begin(room, events, ends, wanted, async || Ok(json!({ "n": 1 })))
    }

    #[test]
    fn questions_are_checked() {
        let (events, room) = fixture();
        for (query, said) in [
            ("meters=10ms", "1s to 1min"),
            ("kinds=knobs,weather", "\"weather\" is no kind"),
            ("after=yesterday", "no id of an event"),
            ("since=0", "no parameter"),
        ] {
            let problem = begin(&events, &room, query, None).unwrap_err().to_string();
            assert!(problem.contains(said), "{query}: {problem}");
        }
    }

    #[tokio::test]
    async fn events_meters_and_places_come_and_go() {
        let (events, room) = fixture();
        events.publish(Timestamp::EPOCH, Kind::Ending, json!({}));
        events.publish(Timestamp::EPOCH, Kind::Recording, json!({ "kept": true }));
        let mut stream = begin(&events, &room, "after=0&kinds=recording&meters=1s", None).unwrap();
        assert!(begin(&events, &room, "", None).unwrap_err().to_string().contains("64 read events"));
        assert!(frame(&mut stream).await.unwrap().starts_with(": events"));
        assert_eq!(
            frame(&mut stream).await.unwrap(),
            "id: 0-2\nevent: recording\ndata: {\"at\":0.0,\"kept\":true}\n\n"
        );
        assert_eq!(frame(&mut stream).await.unwrap(), "event: meters\ndata: {\"n\":1}\n\n");
        drop(stream);
        // The header goes before the query, as a browser that comes back sends both.
        let mut stream = begin(&events, &room, "after=0", Some("0-1")).unwrap();
        frame(&mut stream).await.unwrap();
        assert!(frame(&mut stream).await.unwrap().starts_with("id: 0-2\n"));
        drop(stream);
        let mut stream = begin(&events, &room, "", Some("1-1")).unwrap();
        frame(&mut stream).await.unwrap();
        assert!(frame(&mut stream).await.unwrap().starts_with("event: lost\n"));
    }

    #[tokio::test]
    async fn a_slow_reader_is_told_so_and_dropped() {
        let (events, room) = fixture();
        let mut stream = begin(&events, &room, "", None).unwrap();
        for _ in 0..3000 {
            events.publish(Timestamp::EPOCH, Kind::Ending, json!({}));
        }
        let mut last = String::new();
        while let Some(text) = frame(&mut stream).await {
            last = text;
        }
        assert!(last.starts_with("event: slow\n"), "{last}");
    }

    #[test]
    fn any_question_for_events_is_read_or_refused() {
        static EVENTS: LazyLock<Arc<Events>> = LazyLock::new(|| Arc::new(Events::new(Timestamp::EPOCH)));
        EVENTS.publish(Timestamp::EPOCH, Kind::Knobs, Json::Null);
        let texts =
            ["after=0-1&kinds=knobs,server&meters=5s", "after=0", "kinds=capacity&meters=1min", "after=7-9"];
        bolero::check!().with_type::<(usize, Vec<Slip>, Option<String>)>().for_each(
            |(choice, slips, last)| {
                let text = slipped(&texts, *choice, slips);
                let Ok(wanted) = Wanted::read(&EVENTS, Some(&text), last.as_deref()) else { return };
                assert!(!wanted.kinds.is_empty() && wanted.kinds.len() <= Kind::ALL.len().max(text.len()));
                assert!(wanted.meters.is_none_or(|span| (METERS_MIN..=METERS_MAX).contains(&span)));
            },
        );
    }
}
