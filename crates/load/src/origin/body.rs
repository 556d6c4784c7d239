//! Reply bodies of the origin: any size from one shared block, sized or chunked, with trailers,
//! at full speed or dripping.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::LazyLock,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Frame, SizeHint};
use tokio::time::{Interval, MissedTickBehavior, interval};

/// The period of the pattern: byte `i` of a body is `i % 251`. Prime, so that a piece lost or
/// twice copied by anything in between (at a power of two, as buffers are) shifts what follows.
const PERIOD: usize = 251;

/// A whole number of periods, near 64 KiB.
const BLOCK: usize = PERIOD * 261;

static PATTERN: LazyLock<Bytes> = LazyLock::new(|| (0..BLOCK).map(|i| (i % PERIOD) as u8).collect());

/// A body of the repeating pattern, or of given bytes.
#[derive(Debug)]
pub(crate) struct OriginBody {
    source: Source,
    remaining: u64,
    sized: bool,
    piece: usize,
    trailers: Option<HeaderMap>,
    pause: Option<Interval>,
}

#[derive(Debug)]
enum Source {
    Pattern { offset: u64 },
    Given(Bytes),
}

impl OriginBody {
    /// These bytes, with their length announced.
    pub(crate) fn given(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        Self {
            remaining: bytes.len() as u64,
            source: Source::Given(bytes),
            sized: true,
            piece: usize::MAX,
            trailers: None,
            pause: None,
        }
    }

    /// So many bytes of the pattern, with their length announced.
    pub(crate) fn pattern(bytes: u64) -> Self {
        Self {
            remaining: bytes,
            source: Source::Pattern { offset: 0 },
            sized: true,
            piece: BLOCK,
            trailers: None,
            pause: None,
        }
    }

    /// Leaves the length unsaid, so that HTTP/1.1 sends chunks of at most `piece` bytes.
    pub(crate) fn in_pieces(mut self, piece: usize) -> Self {
        self.sized = false;
        self.piece = piece.clamp(1, BLOCK);
        self
    }

    /// Ends with these trailers.
    pub(crate) fn with_trailers(mut self, trailers: HeaderMap) -> Self {
        self.trailers = Some(trailers);
        self
    }

    /// Pauses so long before each piece but the first.
    pub(crate) fn dripping(mut self, pause: Duration) -> Self {
        if !pause.is_zero() {
            let mut ticks = interval(pause);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            self.pause = Some(ticks);
        }
        self
    }

    fn next_piece(&mut self) -> Bytes {
        let wanted = usize::try_from(self.remaining).unwrap_or(usize::MAX).min(self.piece);
        let piece = match &mut self.source {
            Source::Given(bytes) => bytes.split_to(wanted.min(bytes.len())),
            Source::Pattern { offset } => {
                let start = usize::try_from(*offset % BLOCK as u64).unwrap_or_default();
                let piece = PATTERN.slice(start..BLOCK.min(start.saturating_add(wanted)));
                *offset += piece.len() as u64;
                piece
            }
        };
        self.remaining -= (piece.len() as u64).min(self.remaining);
        piece
    }
}

impl http_body::Body for OriginBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.remaining > 0 {
            if let Some(pause) = &mut self.pause {
                ready!(pause.poll_tick(cx));
            }
            return Poll::Ready(Some(Ok(Frame::data(self.next_piece()))));
        }
        Poll::Ready(self.trailers.take().map(|trailers| Ok(Frame::trailers(trailers))))
    }

    fn is_end_stream(&self) -> bool {
        self.remaining == 0 && self.trailers.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        if self.sized { SizeHint::with_exact(self.remaining) } else { SizeHint::default() }
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    #[test]
    fn the_pattern_has_no_seam() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let body = OriginBody::pattern(200_000).in_pieces(1000);
        let bytes = runtime.block_on(body.collect()).expect("never fails").to_bytes();
        assert_eq!(bytes.len(), 200_000);
        assert!(bytes.iter().enumerate().all(|(i, &byte)| usize::from(byte) == i % PERIOD));
    }
}
