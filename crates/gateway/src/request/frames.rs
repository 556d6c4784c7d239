//! Frames of a body in order, the first of which takes no memory of its own: most bodies are one frame.
//!
//! Short pieces that have to wait are brought together. Each is a part of the room it was read into, and would keep all of
//! it: somebody who sends a byte at a time would have thousands of bytes kept for each.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use http_body::Frame;

/// A piece as short as this is copied: a longer one keeps at most a few times as much as it is long.
const SHORT_MAX: usize = 4 * 1024;
/// What short pieces are brought together to.
const GATHERED: usize = 16 * 1024;

/// A queue of frames.
#[derive(Debug, Default)]
pub(super) struct Frames {
    first: Option<Frame<Bytes>>,
    /// Empty whenever `first` is.
    rest: VecDeque<Frame<Bytes>>,
    /// Short pieces, behind all the others; empty whenever `first` is.
    short: BytesMut,
}

impl Frames {
    pub(super) fn push(&mut self, frame: Frame<Bytes>) {
        if self.first.is_none() {
            self.first = Some(frame);
            return;
        }
        match frame.data_ref() {
            Some(data) if data.len() <= SHORT_MAX => {
                self.short.extend_from_slice(data);
                if self.short.len() >= GATHERED {
                    self.close_short();
                }
            }
            _ => {
                self.close_short();
                self.rest.push_back(frame);
            }
        }
    }

    pub(super) fn pop(&mut self) -> Option<Frame<Bytes>> {
        if self.rest.is_empty() {
            self.close_short();
        }
        std::mem::replace(&mut self.first, self.rest.pop_front())
    }

    /// The next frame, of data at most so many bytes: the rest of a longer one stays the next.
    pub(super) fn pop_piece(&mut self, most: usize) -> Option<Frame<Bytes>> {
        match self.first.as_mut().and_then(Frame::data_mut) {
            Some(data) if data.len() > most => Some(Frame::data(data.split_to(most))),
            _ => self.pop(),
        }
    }

    /// What was brought together becomes a frame.
    fn close_short(&mut self) {
        if !self.short.is_empty() {
            self.rest.push_back(Frame::data(std::mem::take(&mut self.short).freeze()));
        }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// Whether there is one frame at most.
    pub(super) fn is_single(&self) -> bool {
        self.rest.is_empty() && self.short.is_empty()
    }

    pub(super) fn has_trailers(&self) -> bool {
        self.frames().any(Frame::is_trailers)
    }

    /// Bytes of data.
    pub(super) fn bytes(&self) -> u64 {
        self.frames().map(length).sum::<u64>() + self.short.len() as u64
    }

    fn frames(&self) -> impl Iterator<Item = &Frame<Bytes>> {
        self.first.iter().chain(&self.rest)
    }
}

/// Bytes of a frame that count; trailers are bounded by the codec.
pub(super) fn length(frame: &Frame<Bytes>) -> u64 {
    frame.data_ref().map_or(0, |data| data.len() as u64)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use http::HeaderMap;

    use super::*;

    #[test]
    fn bytes_come_out_as_they_went_in() {
        let mut frames = Frames::default();
        let (mut put, mut taken) = (Vec::new(), Vec::new());
        for (turn, takes) in [0, 0, 0, 2, 1, 3, 0, 1, 1, 2, 0, 0, 0, 9].into_iter().enumerate() {
            for len in [1, SHORT_MAX + turn, 2, GATHERED / 5, SHORT_MAX] {
                let piece = vec![u8::try_from(put.len() % 251).unwrap(); len];
                put.extend_from_slice(&piece);
                frames.push(Frame::data(piece.into()));
            }
            for _ in 0..takes {
                let Some(frame) = frames.pop() else { break };
                taken.extend_from_slice(&frame.into_data().unwrap());
            }
            assert_eq!(frames.bytes(), (put.len() - taken.len()) as u64);
            assert_eq!(frames.is_empty(), put.len() == taken.len());
        }
        while let Some(frame) = frames.pop() {
            taken.extend_from_slice(&frame.into_data().unwrap());
        }
        assert!(put == taken && frames.is_empty() && frames.is_single());
    }

    #[test]
    fn a_long_frame_goes_in_pieces() {
        let mut frames = Frames::default();
        frames.push(Frame::data(Bytes::from_static(b"abcde")));
        frames.push(Frame::trailers(HeaderMap::new()));
        for (piece, left) in [("ab", 3), ("cd", 1), ("e", 0)] {
            assert_eq!(frames.pop_piece(2).unwrap().into_data().unwrap(), piece);
            assert_eq!(frames.bytes(), left);
        }
        assert!(frames.pop_piece(2).unwrap().is_trailers() && frames.pop_piece(2).is_none());
    }

    #[test]
    fn trailers_stay_behind_what_was_before_them() {
        let mut frames = Frames::default();
        for piece in ["a", "b", "c"] {
            frames.push(Frame::data(piece.into()));
        }
        assert!(!frames.has_trailers() && !frames.is_single());
        frames.push(Frame::trailers(HeaderMap::new()));
        assert!(frames.has_trailers());
        assert_eq!(frames.pop().unwrap().into_data().unwrap(), "a");
        assert_eq!(frames.pop().unwrap().into_data().unwrap(), "bc");
        assert!(frames.is_single() && frames.pop().unwrap().is_trailers() && frames.pop().is_none());
    }

    /// A byte, which keeps the room it was read into.
    struct Room(Arc<Vec<u8>>);

    impl AsRef<[u8]> for Room {
        fn as_ref(&self) -> &[u8] {
            &self.0[..1]
        }
    }

    #[test]
    fn short_pieces_do_not_keep_the_room_they_were_read_into() {
        let (mut frames, room) = (Frames::default(), Arc::new(vec![0; 4096]));
        for _ in 0..1000 {
            frames.push(Frame::data(Bytes::from_owner(Room(Arc::clone(&room)))));
        }
        assert_eq!((frames.bytes(), Arc::strong_count(&room)), (1000, 2));
    }
}
