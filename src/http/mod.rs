//! Glue over hyper and rustls that knows nothing of sales.
//!
//! A connection comes in by [`listener`] (which reads a PROXY header if one is due, counts
//! [`guests`], and speaks [`tls`]), each request head is judged by [`guard`], and [`proxy`] streams
//! to the shop over [`upstream`].

mod ahead;
pub mod bearer;
mod between;
pub mod body;
pub mod bounds;
pub mod client_ip;
mod connection;
pub mod cores;
mod direct;
mod failure;
mod fetched;
mod framing;
mod gathered;
pub mod guard;
pub mod guests;
mod held;
pub mod hop;
pub mod host;
mod hypered;
pub mod json;
mod kept_timer;
mod life;
mod line;
mod link;
pub mod listener;
mod onward;
mod origin;
pub mod paced;
pub mod patience;
mod pause;
pub mod proxy;
mod proxy_protocol;
pub mod quick;
pub mod received;
mod rest;
mod resumed;
mod shared;
mod sips;
mod stall;
mod streams;
pub mod tls;
pub mod trailers;
pub mod trusted;
mod tunnel;
pub mod under_way;
mod until;
pub mod upstream;
mod websocket;
mod well;
