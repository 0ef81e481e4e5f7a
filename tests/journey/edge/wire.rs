//! Raw bytes to the edge, and what comes back until it closes.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// A connection to a gateway at `http://ADDR`.
pub(crate) fn connect(gateway: &str) -> TcpStream {
    let addr = gateway.trim_start_matches("http://");
    let stream = TcpStream::connect(addr).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Sends bytes and reads to the end of the connection.
pub(crate) fn send(gateway: &str, bytes: impl AsRef<[u8]>) -> String {
    let mut stream = connect(gateway);
    // Refused early, the rest cannot be written; the answer is what counts.
    drop(stream.write_all(bytes.as_ref()));
    let mut answer = Vec::new();
    drop(stream.read_to_end(&mut answer));
    String::from_utf8_lossy(&answer).into_owned()
}

/// A request that ends its connection: `line` is `METHOD TARGET`.
pub(crate) fn ask(gateway: &str, line: &str, headers: &[&str]) -> String {
    let mut lines = headers.join("\r\n");
    if !lines.is_empty() {
        lines.push_str("\r\n");
    }
    send(gateway, format!("{line} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{lines}\r\n"))
}

/// The status of a raw answer; 0 if there is none.
pub(crate) fn status(answer: &str) -> u16 {
    answer.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0)
}
