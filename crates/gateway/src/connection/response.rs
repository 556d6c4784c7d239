//! A response's body that tells when its exchange is over.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use super::{pulse::Exchange, stream::Turn};
use crate::{body::BodyError, request::ResponseBody};

/// Bytes given to the codec at once: as many as a frame holds (RFC 9113, section 4.2). It asks for more once they have gone out, which
/// shows that the client takes them.
const PIECE_MAX: usize = 16 * 1024;

/// The body of a response, and the exchange it ends by being dropped.
pub(super) struct Guarded {
    body: ResponseBody,
    exchange: Exchange,
}

impl Guarded {
    pub(super) fn new(body: ResponseBody, exchange: Exchange) -> Self {
        Turn::Client.note();
        Self { body, exchange }
    }
}

impl Body for Guarded {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = &mut *self;
        let frame = this.body.poll_piece(context, PIECE_MAX);
        match &frame {
            Poll::Ready(frame) => {
                let data = frame.as_ref().and_then(|frame| frame.as_ref().ok()?.data_ref());
                this.exchange.carry(data.map_or(0, |data| data.len() as u64));
                Turn::Client.note();
            }
            Poll::Pending => Turn::Server.note(),
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
