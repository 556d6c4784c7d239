//! What gateway and admin share: the clock, the locks around `control`, per-core handles, meters.
//!
//! # Architecture invariant
//!
//! Workers never see a lock: they call a [`Gate`] and hold what gives itself back. Nothing is
//! woken, dropped, logged or allocated inside a lock, and `now` is read after taking it. Locks are
//! never nested but in [`Shared::edit`] and its like, which are no hot path.

mod application;
mod capacity;
mod clock;
mod core;
mod gate;
mod host;
mod level;
mod meters;
mod overrides;
mod page_template;
mod pem;
mod processes;
mod recorder;
mod scrape;
pub mod servers;
mod shared;
mod snapshot;
mod spans;
mod spool;
mod subjects;
mod trust;
mod waiting_room;
mod workers;

pub use application::{ApplicationState, Processors};
pub use capacity::{FoundCapacity, FoundServer};
pub use clock::Clock;
pub use core::{Core, CoreApplication, View};
pub use gate::{Ended, Entry, Gate, GateLevels, Held, HeldStream, TlsSessionLevels, Waiting};
pub use host::HostSample;
pub use level::{Inside, Level};
pub use meters::{Cells, CoreMeters, Readings, Subject, Totals};
pub use overrides::{ChangeError, KnobChange, Origin, Override};
pub use page_template::{PageFault, PageTemplate, PageValue};
pub use pem::{PemFault, read_certificates, read_pair};
pub use recorder::Recorder;
pub use scrape::{Reading, Sample, Scrape, histogram, seconds};
pub use shared::{CertificateExpiry, PublishError, Shared};
pub use snapshot::{Application, Snapshot};
pub use spans::{Spans, TraceIds, TracedRequest};
pub use spool::{SpoolBudget, Spooled};
pub use subjects::Served;
pub use trust::{Trust, TrustError};
pub use waiting_room::{RoomSecrets, WaitingRoom};
pub use workers::{WorkerThread, Workers};
