//! Frames of a body in order, the first of which takes no memory of its own: most bodies are one frame.

use std::collections::VecDeque;

use bytes::Bytes;
use http_body::Frame;

/// A queue of frames.
#[derive(Debug, Default)]
pub(super) struct Frames {
    first: Option<Frame<Bytes>>,
    /// Empty whenever `first` is.
    rest: VecDeque<Frame<Bytes>>,
}

impl Frames {
    pub(super) fn push(&mut self, frame: Frame<Bytes>) {
        match self.first {
            None => self.first = Some(frame),
            Some(_) => self.rest.push_back(frame),
        }
    }

    pub(super) fn pop(&mut self) -> Option<Frame<Bytes>> {
        std::mem::replace(&mut self.first, self.rest.pop_front())
    }

    pub(super) fn len(&self) -> usize {
        self.iter().count()
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Frame<Bytes>> {
        self.first.iter().chain(&self.rest)
    }

    /// Bytes of data.
    pub(super) fn bytes(&self) -> u64 {
        self.iter().map(length).sum()
    }
}

/// Bytes of a frame that count; trailers are bounded by the codec.
pub(super) fn length(frame: &Frame<Bytes>) -> u64 {
    frame.data_ref().map_or(0, |data| data.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_out_as_they_went_in() {
        let mut frames = Frames::default();
        let (mut put, mut taken) = (0_u8, 0);
        for takes in [0, 0, 0, 2, 1, 3, 0, 1, 1, 2] {
            frames.push(Frame::data(Bytes::copy_from_slice(&[put])));
            put += 1;
            for _ in 0..takes {
                let Some(frame) = frames.pop() else { break };
                assert_eq!(frame.into_data().unwrap()[..], [taken]);
                taken += 1;
            }
            assert_eq!(frames.len(), usize::from(put - taken));
            assert_eq!((frames.bytes(), frames.is_empty()), (u64::from(put - taken), put == taken));
        }
        assert!(frames.is_empty() && taken == put);
    }
}
