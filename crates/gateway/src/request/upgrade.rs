//! A connection after its upgrade: bytes both ways until both sides have finished.

use std::{
    cell::Cell,
    future::Future,
    io,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll},
};

use bytes::Bytes;
use tidegate_control::knobs::keys;
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf},
    sync::Notify,
};

use super::{in_flight::InFlight, record::Record};
use crate::{
    connection::{ClientIo, Upgrade},
    upstream::UpstreamUpgraded,
};

/// Bytes held for each direction.
const BUFFER: usize = 16 * 1024;

/// An upgraded exchange: it counts as a long stream, may be idle for ever while its server is there, and is counted and
/// logged at its end.
pub(super) struct Tunnel {
    pub(super) upstream: UpstreamUpgraded,
    pub(super) stream: InFlight,
    pub(super) record: Box<Record>,
}

impl Upgrade for Tunnel {
    fn run(self: Box<Self>, client: ClientIo, leftover: Bytes) -> Pin<Box<dyn Future<Output = ()>>> {
        Box::pin(self.join(client, leftover))
    }
}

impl Tunnel {
    async fn join(self: Box<Self>, client: ClientIo, leftover: Bytes) {
        let Self { upstream, stream, record } = *self;
        let counts = Rc::new(Counts::default());
        // Counted and logged also when the process ends the connection.
        let _ending = Ending { record: Some(record), counts: Rc::clone(&counts) };
        let mut client = Counted { io: client, counts: Rc::clone(&counts) };
        let UpstreamUpgraded { mut io, leftover: first, chosen: _chosen } = upstream;
        counts.read.set(leftover.len() as u64);
        let joined = async {
            io.write_all(&leftover).await?;
            client.write_all(&first).await?;
            tokio::io::copy_bidirectional_with_sizes(&mut client, &mut io, BUFFER, BUFFER).await
        };
        tokio::select! {
            result = joined => {
                if let Err(error) = result {
                    tracing::debug!(%error, "an upgraded connection broke off");
                }
            }
            () = forsaken(&counts, &stream) => tracing::debug!("an upgraded connection outlived its server"),
        }
    }
}

/// Resolves once the server has said its last and the client has sent nothing since for as long as one may: the server
/// may be gone altogether, which its last word does not tell, and the client may never close.
async fn forsaken(counts: &Counts, stream: &InFlight) {
    counts.server_ended.notified().await;
    loop {
        let read = counts.read.get();
        let longest = stream.service().core.view().snapshot.settings.host.get(keys::BODY_IDLE_TIMEOUT);
        tokio::time::sleep(longest).await;
        if counts.read.get() == read {
            return;
        }
    }
}

/// Bytes from and to the client, and the end of what the server sends.
#[derive(Debug, Default)]
struct Counts {
    read: Cell<u64>,
    written: Cell<u64>,
    server_ended: Notify,
}

struct Ending {
    record: Option<Box<Record>>,
    counts: Rc<Counts>,
}

impl Drop for Ending {
    fn drop(&mut self) {
        if let Some(mut record) = self.record.take() {
            record.add_bytes_in(self.counts.read.get());
            record.add_bytes_out(self.counts.written.get());
            record.finish();
        }
    }
}

/// The client's side, counted.
struct Counted {
    io: ClientIo,
    counts: Rc<Counts>,
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.io).poll_read(context, buffer);
        let read = buffer.filled().len() - before;
        self.counts.read.set(self.counts.read.get() + read as u64);
        polled
    }
}

impl AsyncWrite for Counted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.io).poll_write(context, bytes);
        if let Poll::Ready(Ok(written)) = polled {
            self.counts.written.set(self.counts.written.get() + written as u64);
        }
        polled
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.counts.server_ended.notify_one();
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}
