//! HTTP/2 by single frames, from either end.

use std::{
    io::{self, Read, Write},
    net::TcpStream,
};

pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;
pub(crate) const ACK: u8 = 1;
pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;

/// `GET / HTTP/2` of host `a`, in HPACK: three indexed fields and a literal authority.
pub(crate) const REQUEST: &[u8] = &[0x82, 0x86, 0x84, 0x41, 0x01, b'a'];

/// One end of a connection that writes frames as it likes.
pub(crate) struct Frames<S = TcpStream> {
    pub(crate) stream: S,
}

impl Frames {
    /// The client's end.
    pub(crate) fn new(stream: TcpStream) -> Self {
        let mut frames = Self { stream };
        frames.stream.write_all(PREFACE).unwrap();
        frames.send(SETTINGS, 0, 0, &[]).unwrap();
        frames
    }

    /// The server's end.
    pub(crate) fn serve(mut stream: TcpStream) -> Self {
        let mut preface = [0; PREFACE.len()];
        stream.read_exact(&mut preface).unwrap();
        assert_eq!(preface, PREFACE);
        let mut frames = Self { stream };
        frames.send(SETTINGS, 0, 0, &[]).unwrap();
        frames
    }
}

impl<S: Read + Write> Frames<S> {
    pub(crate) fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> io::Result<()> {
        self.stream.write_all(&frame(kind, flags, stream, payload))
    }

    /// The next frame: kind, flags, stream, payload.
    pub(crate) fn receive(&mut self) -> io::Result<(u8, u8, u32, Vec<u8>)> {
        let mut head = [0; 9];
        self.stream.read_exact(&mut head)?;
        let len = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; usize::try_from(len).unwrap()];
        self.stream.read_exact(&mut payload)?;
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        Ok((head[3], head[4], stream, payload))
    }

    /// Reads until the gateway closes; whether it said GOAWAY.
    pub(crate) fn until_closed(&mut self) -> bool {
        let mut goaway = false;
        loop {
            match self.receive() {
                Ok((kind, ..)) => goaway |= kind == GOAWAY,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => panic!("still open"),
                Err(_) => return goaway,
            }
        }
    }

    /// Waits for a frame of that kind.
    pub(crate) fn until(&mut self, kind: u8) -> (u8, u8, u32, Vec<u8>) {
        loop {
            let frame = self.receive().unwrap();
            if frame.0 == kind {
                return frame;
            }
        }
    }
}

/// A frame's bytes.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let len = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&len[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}
