//! The bounds on client connections, as the knobs of one snapshot say, and the codec of HTTP/2 made to them.

use std::{future::Future, time::Duration};

use hyper::{rt::Executor, server::conn::http2};
use hyper_util::rt::TokioTimer;
use tidegate_control::knobs::{Values, keys};

use super::{pulse::Patience, stream};

/// Bounds, and that codec; one for each snapshot and core.
pub(crate) struct Limits {
    /// The snapshot's version.
    pub(crate) version: u64,
    /// From accept until the TLS handshake is done.
    pub(crate) hello_timeout: Duration,
    /// Full handshakes computed at once; `None`: as many as suit the workers.
    pub(crate) handshakes_max: Option<u64>,
    /// How long clients may keep us waiting.
    pub(crate) patience: Patience,
    /// Size of a request's head, in bytes.
    pub(crate) head_bytes_max: usize,
    /// Header fields of a request.
    pub(crate) headers_max: usize,
    /// From the wish to end until connections are cut.
    pub(crate) drain_timeout: Duration,
    pub(super) http2: http2::Builder<LocalExecutor>,
}

/// Spawns streams on the core that calls.
#[derive(Clone, Copy, Debug)]
pub(super) struct LocalExecutor {
    idle_timeout: Duration,
}

impl<F: Future + 'static> Executor<F> for LocalExecutor {
    fn execute(&self, future: F) {
        tokio::task::spawn_local(stream::run(future, self.idle_timeout));
    }
}

/// Bytes of one HTTP/2 stream's response buffered by the codec.
const HTTP2_SEND_BUFFER: usize = 64 * 1024;
/// What HTTP/2 adds for each field to the bytes in it (RFC 9113, section 6.5.2).
const FIELD_BYTES: u64 = 32;
/// HTTP/2 pings find out clients that vanished without a word.
const PING_EVERY: Duration = Duration::from_secs(30);
const PING_WITHIN: Duration = Duration::from_secs(20);
/// The largest window HTTP/2 knows (RFC 9113, section 6.9.1).
const WINDOW_MAX: u64 = (1 << 31) - 1;

impl Limits {
    /// What `host` says.
    pub(crate) fn new(version: u64, host: &Values) -> Self {
        let small = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
        let size = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        let head_bytes_max = size(host.get(keys::HEAD_BYTES_MAX).0);
        let headers_max = size(host.get(keys::HEADERS_MAX));
        let resets_max = host.get(keys::H2_RESETS_MAX);

        let streams = host.get(keys::H2_STREAMS_MAX);
        let window = host.get(keys::H2_STREAM_WINDOW).0.min(WINDOW_MAX);
        let mut http2 =
            http2::Builder::new(LocalExecutor { idle_timeout: host.get(keys::BODY_IDLE_TIMEOUT) });
        http2
            .timer(TokioTimer::new())
            .max_concurrent_streams(small(streams))
            .initial_stream_window_size(small(window))
            // So that streams that wait cannot starve those that run.
            .initial_connection_window_size(small(window.saturating_mul(streams).min(WINDOW_MAX)))
            // More than is taken, so that what is too large is answered, counted and logged as over HTTP/1; the codec
            // answers by itself what is larger still.
            .max_header_list_size(small(
                2 * host.get(keys::HEAD_BYTES_MAX).0 + headers_max as u64 * FIELD_BYTES,
            ))
            .max_send_buf_size(HTTP2_SEND_BUFFER)
            .max_pending_accept_reset_streams(size(resets_max))
            .max_local_error_reset_streams(size(resets_max))
            .keep_alive_interval(PING_EVERY)
            .keep_alive_timeout(PING_WITHIN);

        Self {
            version,
            hello_timeout: host.get(keys::HELLO_TIMEOUT),
            handshakes_max: host.get(keys::TLS_HANDSHAKES_MAX),
            patience: Patience {
                opening: host.get(keys::HELLO_TIMEOUT),
                park_after: host.get(keys::PARK_AFTER),
                keep_alive: host.get(keys::KEEP_ALIVE_TIMEOUT),
                head: host.get(keys::HEAD_TIMEOUT),
                body_idle: host.get(keys::BODY_IDLE_TIMEOUT),
                resets_max: small(resets_max),
            },
            head_bytes_max,
            headers_max,
            drain_timeout: host.get(keys::DRAIN_TIMEOUT),
            http2,
        }
    }
}
