//! Events: what happens to a gateway, in a bounded ring that any number of readers follow.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use serde_json::{Map, Value as Json};
use tidegate_control::Timestamp;
use tokio::sync::watch;

/// Events kept, so that a reader that was away can catch up.
const EVENTS_MAX: usize = 1024;
/// Bytes of them in all; the latest is kept whatever its length, which is bounded where it arises.
const BYTES_MAX: usize = 4 * 1024 * 1024;

/// What has happened lately. Who publishes never waits, and readers who fall behind are told so.
#[derive(Debug)]
pub(crate) struct Events {
    /// Of this process, so that its numbers are not taken for those of another.
    process: u64,
    ring: Mutex<Ring>,
    latest: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Ring {
    events: VecDeque<Arc<Event>>,
    bytes: usize,
    /// Number of the next event; they begin at 1.
    next: u64,
}

/// Something that happened.
#[derive(Debug)]
pub(crate) struct Event {
    /// Its number, one more than that of the event before it.
    pub(crate) number: u64,
    /// What kind of thing.
    pub(crate) kind: Kind,
    /// The rest, a JSON object in one line.
    pub(crate) data: String,
}

macro_rules! kinds {
    ($($(#[$doc:meta])+ $variant:ident = $name:literal;)+) => {
        /// Kinds of events.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Kind { $($(#[$doc])+ $variant,)+ }

        impl Kind {
            /// Every kind.
            pub(crate) const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// Its name in the stream.
            pub(crate) const fn name(self) -> &'static str { match self { $(Self::$variant => $name,)+ } }
        }
    };
}

kinds! {
    /// Knobs were changed.
    Knobs = "knobs";
    /// Something was done that is no change of knobs: a capacity told, a server added, a key changed.
    Action = "action";
    /// A controller says something, is stopped, begins or ends.
    Controller = "controller";
    /// A server goes out of service or comes back, joins, drains or leaves.
    Server = "server";
    /// The estimate of an application's capacity has moved.
    Capacity = "capacity";
    /// A class begins to be refused for a reason, or is so no more.
    Refusals = "refusals";
    /// The two processes of a waiting room have lost or found each other.
    WaitingRoom = "waiting_room";
    /// A configuration was read and is in force, or has a fault.
    Configuration = "configuration";
    /// Whether what is measured and changed is kept on disk.
    Recording = "recording";
    /// The gateway drains and ends.
    Ending = "ending";
}

impl Events {
    /// None yet, of a process that began at `now`.
    pub(crate) fn new(now: Timestamp) -> Self {
        let ring = Ring { next: 1, ..Ring::default() };
        Self { process: now.as_nanos() / 1_000_000, ring: Mutex::new(ring), latest: watch::Sender::new(0) }
    }

    /// Tells everybody. `data` gets the time as its first member.
    pub(crate) fn publish(&self, at: Timestamp, kind: Kind, data: Json) {
        let mut object = Map::from_iter([("at".to_owned(), seconds(at).into())]);
        if let Json::Object(members) = data {
            object.extend(members);
        }
        let data = Json::Object(object).to_string();
        let number = {
            let mut ring = self.ring();
            let number = ring.next;
            ring.next += 1;
            ring.bytes += data.len();
            ring.events.push_back(Arc::new(Event { number, kind, data }));
            while ring.events.len() > EVENTS_MAX || (ring.bytes > BYTES_MAX && ring.events.len() > 1) {
                let gone = ring.events.pop_front();
                ring.bytes -= gone.map_or(0, |event| event.data.len());
            }
            number
        };
        // Of two that publish at once the later may come first.
        self.latest.send_modify(|latest| *latest = (*latest).max(number));
    }

    /// The name of an event across processes, by which a reader goes on after it.
    pub(crate) fn name(&self, number: u64) -> String {
        format!("{}-{number}", self.process)
    }

    /// A reader of what comes after the event of that name; of what comes from now on without one.
    /// `0` is before everything. The second part says whether something after it is lost.
    pub(crate) fn read_after(self: &Arc<Self>, name: Option<&str>) -> Option<(Reader, bool)> {
        let changed = self.latest.subscribe();
        let ring = self.ring();
        let oldest = ring.next - ring.events.len() as u64;
        let (next, lost) = match name {
            None => (ring.next, false),
            Some("0") => (oldest, false),
            Some(name) => {
                let (process, number) = name.split_once('-')?;
                let (process, number): (u64, u64) = (process.parse().ok()?, number.parse().ok()?);
                let after = number.saturating_add(1);
                match process == self.process && (oldest..=ring.next).contains(&after) {
                    true => (after, false),
                    false => (oldest, true),
                }
            }
        };
        drop(ring);
        Some((Reader { events: Arc::clone(self), changed, next }, lost))
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Someone's place in the ring: it holds nothing back.
#[derive(Debug)]
pub(crate) struct Reader {
    events: Arc<Events>,
    changed: watch::Receiver<u64>,
    next: u64,
}

/// A reader is further behind than the ring reaches.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Behind;

impl Reader {
    /// The next event, as soon as there is one.
    pub(crate) async fn next(&mut self) -> Result<Arc<Event>, Behind> {
        loop {
            self.changed.borrow_and_update();
            if let Some(found) = self.try_next() {
                return found;
            }
            if self.changed.changed().await.is_err() {
                // The events live as long as this reader, which holds them.
                std::future::pending::<()>().await;
            }
        }
    }

    fn try_next(&mut self) -> Option<Result<Arc<Event>, Behind>> {
        let ring = self.events.ring();
        if self.next >= ring.next {
            return None;
        }
        let oldest = ring.next - ring.events.len() as u64;
        let Some(position) = self.next.checked_sub(oldest) else { return Some(Err(Behind)) };
        let event = usize::try_from(position).ok().and_then(|position| ring.events.get(position))?;
        self.next += 1;
        Some(Ok(Arc::clone(event)))
    }
}

/// A time as all of the API writes it: seconds since 1970, to the millisecond.
#[expect(clippy::cast_precision_loss, reason = "milliseconds since 1970 are exact until the year 287,396")]
pub(crate) fn seconds(at: Timestamp) -> f64 {
    (at.as_nanos() / 1_000_000) as f64 / 1e3
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn events() -> Arc<Events> {
        Arc::new(Events::new(Timestamp::from_nanos(7_000_000_000)))
    }

    fn publish(events: &Events, n: u64) {
        events.publish(Timestamp::from_nanos(n * 1_000_000), Kind::Ending, json!({ "n": n }));
    }

    /// What is there to be read now.
    fn all(reader: &mut Reader) -> Result<Vec<u64>, Behind> {
        let mut numbers = Vec::new();
        while let Some(next) = reader.try_next() {
            numbers.push(next?.number);
        }
        Ok(numbers)
    }

    #[test]
    fn a_reader_gets_what_comes_after_the_event_it_names() {
        let events = events();
        (1..=5).for_each(|n| publish(&events, n));
        let read = |name: Option<&str>| {
            let (mut reader, lost) = events.read_after(name)?;
            Some((all(&mut reader), lost))
        };
        assert_eq!(read(None), Some((Ok(vec![]), false)));
        assert_eq!(read(Some("0")), Some((Ok(vec![1, 2, 3, 4, 5]), false)));
        assert_eq!(read(Some(&events.name(3))), Some((Ok(vec![4, 5]), false)));
        assert_eq!(read(Some(&events.name(5))), Some((Ok(vec![]), false)));
        for of_another in ["6999-3", "7000-6", "7000-18446744073709551615"] {
            assert_eq!(read(Some(of_another)), Some((Ok(vec![1, 2, 3, 4, 5]), true)), "{of_another}");
        }
        for no_name in ["", "7", "7000-", "-1", "7000-x", "7000-1-1"] {
            assert_eq!(read(Some(no_name)), None, "{no_name}");
        }
    }

    #[test]
    fn the_ring_is_bounded_in_number_and_bytes_and_says_who_is_behind() {
        let events = events();
        publish(&events, 1);
        let (mut reader, _) = events.read_after(Some("0")).unwrap();
        for n in 2..=EVENTS_MAX as u64 {
            publish(&events, n);
        }
        assert_eq!(all(&mut reader).unwrap().len(), EVENTS_MAX);
        let (mut slow, _) = events.read_after(Some("0")).unwrap();
        publish(&events, 0);
        assert_eq!(all(&mut slow), Err(Behind));
        assert_eq!(all(&mut reader), Ok(vec![EVENTS_MAX as u64 + 1]));
        let long = json!({ "text": "x".repeat(BYTES_MAX / 2 + 1) });
        events.publish(Timestamp::EPOCH, Kind::Ending, long.clone());
        events.publish(Timestamp::EPOCH, Kind::Ending, long);
        assert_eq!(events.ring().events.len(), 1);
        assert!(events.ring().bytes <= BYTES_MAX);
    }

    #[test]
    fn who_waits_is_told() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let events = events();
            let (mut reader, _) = events.read_after(None).unwrap();
            let told = tokio::spawn(async move { reader.next().await.map(|event| event.data.clone()) });
            tokio::task::yield_now().await;
            publish(&events, 1500);
            assert_eq!(told.await.unwrap(), Ok("{\"at\":1.5,\"n\":1500}".to_owned()));
        });
    }
}
