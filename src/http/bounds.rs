//! What one client may take of a listener: time, bytes, counts.

use std::time::Duration;

use super::guard::Sizes;
use super::patience::Pace;

/// Bounds of one connection.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// For the PROXY header.
    pub proxy_header: Duration,
    /// For the TLS handshake.
    pub handshake: Duration,
    /// From there to the first whole request head.
    pub first_request: Duration,
    /// For each later head of HTTP/1.1; hyper's one knob is also how long an idle connection is
    /// kept.
    pub head: Duration,
    /// The same for a trusted proxy, whose connections many visitors share.
    pub head_trusted: Duration,
    /// How long an HTTP/2 connection that asks for nothing is kept, at least.
    pub idle: Duration,
    /// Readers that fall behind it are gone or hostile.
    pub read: Pace,
    /// Of a request's head.
    pub sizes: Sizes,
    /// Requests at once on one HTTP/2 connection.
    pub streams: u32,
    /// Then a connection is ended softly, give or take a tenth.
    pub age: Duration,
    /// Requests after which it is, too.
    pub requests: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            proxy_header: Duration::from_secs(3),
            handshake: Duration::from_secs(10),
            first_request: Duration::from_secs(10),
            head: Duration::from_secs(15),
            head_trusted: Duration::from_secs(75),
            idle: Duration::from_secs(75),
            read: Pace { idle_max: Duration::from_mins(1), bytes_per_second: 240 },
            sizes: Sizes::default(),
            streams: 100,
            age: Duration::from_hours(1),
            requests: 10_000,
        }
    }
}
