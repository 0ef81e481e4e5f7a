//! HTTP/2 frame by frame, as no honest client would send it.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};

use super::Edge;

pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const RST_STREAM: u8 = 3;
pub(super) const SETTINGS: u8 = 4;
pub(super) const PING: u8 = 6;
pub(super) const GOAWAY: u8 = 7;
pub(super) const WINDOW_UPDATE: u8 = 8;
pub(super) const CONTINUATION: u8 = 9;

pub(super) const END_STREAM: u8 = 1;
pub(super) const END_HEADERS: u8 = 4;

/// Why a stream or a connection was ended.
pub(super) const ENHANCE_YOUR_CALM: u32 = 0xb;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// How long a frame may be waited for.
const PATIENCE: Duration = Duration::from_secs(20);

/// One frame, as it came.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) stream: u32,
    pub(super) payload: Vec<u8>,
}

impl Frame {
    /// The error code of a RST_STREAM or GOAWAY.
    pub(super) fn code(&self) -> u32 {
        let at = if self.kind == GOAWAY { 4 } else { 0 };
        u32::from_be_bytes(self.payload[at..at + 4].try_into().unwrap())
    }

    /// The status, of those that HPACK has a number for; 0 = another.
    pub(super) fn status(&self) -> u16 {
        let known = [(0x88, 200), (0x89, 204), (0x8b, 304), (0x8c, 400), (0x8d, 404), (0x8e, 500)];
        let first = self.payload[0];
        known.into_iter().find(|(code, _)| *code == first).map_or(0, |(_, status)| status)
    }
}

/// A connection.
pub(super) struct H2 {
    stream: StreamOwned<ClientConnection, TcpStream>,
}

impl H2 {
    /// Connects and says hello with these settings.
    pub(super) fn connect(edge: &Edge, client: &ClientConfig, settings: &[(u16, u32)]) -> Self {
        let mut client = client.clone();
        client.alpn_protocols = vec![b"h2".to_vec()];
        let name = ServerName::try_from("localhost").unwrap();
        let session = ClientConnection::new(Arc::new(client), name).unwrap();
        let socket = TcpStream::connect(edge.url().trim_start_matches("https://")).unwrap();
        socket.set_nodelay(true).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.set_write_timeout(Some(PATIENCE)).unwrap();
        let mut connection = Self { stream: StreamOwned::new(session, socket) };
        connection.stream.write_all(PREFACE).unwrap();
        let settings: Vec<u8> = settings
            .iter()
            .flat_map(|(key, value)| [&key.to_be_bytes()[..], &value.to_be_bytes()[..]].concat())
            .collect();
        assert!(connection.send(SETTINGS, 0, 0, &settings));
        connection
    }

    /// Sends a frame; false if the other side has had enough.
    pub(super) fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> bool {
        self.stream.write_all(&frame(kind, flags, stream, payload)).is_ok()
    }

    /// Sends many frames at once.
    pub(super) fn send_all(&mut self, frames: &[u8]) -> bool {
        self.stream.write_all(frames).is_ok()
    }

    /// The next frame; nothing if the connection is over.
    pub(super) fn next(&mut self) -> Option<Frame> {
        let mut head = [0; 9];
        if let Err(error) = self.stream.read_exact(&mut head) {
            let waited = matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
            assert!(!waited, "no frame came");
            return None;
        }
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; usize::try_from(length).unwrap()];
        self.stream.read_exact(&mut payload).ok()?;
        let stream = u32::from_be_bytes(head[5..].try_into().unwrap());
        Some(Frame { kind: head[3], flags: head[4], stream, payload })
    }

    /// The next frame that `wanted` is true of; nothing if the connection ended before.
    pub(super) fn find(&mut self, wanted: impl Fn(&Frame) -> bool) -> Option<Frame> {
        let since = Instant::now();
        while since.elapsed() < PATIENCE {
            let frame = self.next()?;
            if wanted(&frame) {
                return Some(frame);
            }
        }
        panic!("the frame never came");
    }

    /// What became of a request: its HEADERS, its RST_STREAM, or the GOAWAY.
    pub(super) fn outcome(&mut self, stream: u32) -> Option<Frame> {
        self.find(|frame| {
            frame.kind == GOAWAY
                || (frame.stream == stream && matches!(frame.kind, HEADERS | RST_STREAM))
        })
    }
}

/// A frame's bytes.
pub(super) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut bytes = vec![length[1], length[2], length[3], kind, flags];
    bytes.extend_from_slice(&stream.to_be_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

/// The header block of a request, every name and value spelled out.
pub(super) fn block(method: &str, path: &str, lines: &[(&str, &str)]) -> Vec<u8> {
    let pseudo =
        [(":method", method), (":scheme", "https"), (":path", path), (":authority", "localhost")];
    let mut block = Vec::new();
    for (name, value) in pseudo.iter().chain(lines) {
        block.extend(field(name, value));
    }
    block
}

/// One literal header field, never indexed.
pub(super) fn field(name: &str, value: &str) -> Vec<u8> {
    let mut bytes = vec![0x10];
    for text in [name, value] {
        bytes.extend(number(text.len(), 0x7f, 0));
        bytes.extend_from_slice(text.as_bytes());
    }
    bytes
}

/// HPACK's way to write a number behind some bits.
pub(super) fn number(value: usize, most: u8, bits: u8) -> Vec<u8> {
    if value < usize::from(most) {
        return vec![bits | u8::try_from(value).unwrap()];
    }
    let (mut bytes, mut rest) = (vec![bits | most], value - usize::from(most));
    while rest >= 0x80 {
        bytes.push(u8::try_from(rest % 0x80).unwrap() | 0x80);
        rest /= 0x80;
    }
    bytes.push(u8::try_from(rest).unwrap());
    bytes
}
