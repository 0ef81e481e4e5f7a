//! The public edge and the shop behind it.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::config::span::Span;

/// `[public]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Public {
    /// Sockets to listen on.
    #[serde(rename = "listener")]
    pub listeners: Vec<Listener>,
    /// What we answer to, port ignored; other Hosts: 421. Restart-only.
    pub hostnames: Vec<String>,
    /// Networks whose `Forwarded`, `X-Forwarded-For` and `-Proto` are believed. Hot.
    pub trusted_proxies: Vec<ipnet::IpNet>,
    /// CDNs that name their client in a header of one address; they are trusted proxies, too.
    #[serde(rename = "cdn")]
    pub cdns: Vec<Cdn>,
    /// Origins whose scripts may read our refusals and statuses. Hot.
    pub cors_origins: Vec<String>,
    /// The certificates of the TLS listeners, chosen by the name that the client asks for.
    pub certificates: Vec<Certificate>,
    /// Plain http listeners answer every request of a shopper with a redirect to https.
    /// Restart-only.
    pub redirect_https: bool,
    /// How long requests may run on after a soft stop. Restart-only.
    pub drain_timeout: Span,
    /// The same for WebSockets and event streams of the shop. Restart-only.
    pub stream_drain_timeout: Span,
    /// `max-age` of Strict-Transport-Security on https answers, in whole seconds; 0s = off.
    /// Restart-only.
    pub hsts: Span,
}

/// `[[public.listener]]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Listener {
    /// Address and port. Restart-only.
    pub addr: SocketAddr,
    /// Whether it speaks TLS. Restart-only.
    #[serde(default)]
    pub tls: bool,
    /// Whether each connection must begin with a PROXY header, taken only from
    /// `public.trusted_proxies`. Restart-only.
    #[serde(default)]
    pub proxy_protocol: bool,
}

/// `[[public.cdn]]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cdn {
    /// Where it asks from. Hot.
    pub networks: Vec<ipnet::IpNet>,
    /// The header in which it names its client, believed from nobody else. Hot.
    pub header: String,
}

/// One certificate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Certificate {
    /// PEM chain, read again when its content changes. Hot.
    pub cert_file: PathBuf,
    /// PEM key, read again when its content changes. Hot.
    pub key_file: PathBuf,
}

/// `[shop]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Shop {
    /// `http://HOST:PORT` of the shop; several: round robin with health checks. Restart-only.
    pub origins: Vec<String>,
    /// To connect. Restart-only.
    pub connect_timeout: Span,
    /// From the request's end to the response's head. Restart-only.
    pub response_timeout: Span,
    /// Between two pieces of a body. Restart-only.
    pub body_idle_timeout: Span,
    /// Without a byte on a WebSocket or an event stream. Restart-only.
    pub stream_idle_timeout: Span,
    /// Requests under way to the shop at once; more are told to come back. Restart-only.
    pub max_requests: usize,
    /// How long an idle connection is kept; below the shop's own keep-alive.
    /// Restart-only.
    pub pool_idle: Span,
    /// Environment variable whose value is sent as `Stanchion-Origin-Key`; "" = none.
    /// Restart-only.
    pub secret_env: String,
    /// HTTP/2 to the shop, without TLS and from the first byte on, for gRPC. Restart-only.
    pub http2: bool,
}
