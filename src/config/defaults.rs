//! What a key is when the file does not say.

use super::settings::{
    Account, AccountSource, ClientLimits, Core, Keys, Limits, Listener, Ops, Public, QuotaSettings,
    Redis, RedisMode, Shop,
};
use super::span::Span;
use crate::domain::rate::Rate;

/// An address on loopback, or on every interface for the public listener.
fn addr(host: [u8; 4], port: u16) -> std::net::SocketAddr {
    (host, port).into()
}

const LOOPBACK: [u8; 4] = [127, 0, 0, 1];

impl Default for Public {
    fn default() -> Self {
        Self {
            listeners: vec![Listener {
                addr: addr([0, 0, 0, 0], 8080),
                tls: false,
                proxy_protocol: false,
            }],
            hostnames: vec!["localhost".into()],
            trusted_proxies: vec![],
            cdns: vec![],
            cors_origins: vec![],
            certificates: vec![],
            redirect_https: false,
            drain_timeout: Span::seconds(30),
            stream_drain_timeout: Span::seconds(60),
            hsts: Span::seconds(0),
        }
    }
}

impl Default for Shop {
    fn default() -> Self {
        Self {
            origins: vec!["http://127.0.0.1:3000".into()],
            connect_timeout: Span::seconds(3),
            response_timeout: Span::seconds(60),
            body_idle_timeout: Span::seconds(60),
            stream_idle_timeout: Span::seconds(600),
            max_requests: 1024,
            pool_idle: Span::seconds(4),
            secret_env: String::new(),
            http2: false,
        }
    }
}

impl Default for Core {
    fn default() -> Self {
        Self {
            listen: addr(LOOPBACK, 7070),
            url: "http://127.0.0.1:7070".into(),
            key_env: "STANCHION_CORE_KEY".into(),
            database_url_env: "DATABASE_URL".into(),
            sweep_every: Span::seconds(30),
            reconcile_every: Span::seconds(60),
            accept_lost_commits: false,
            webhooks: vec![],
        }
    }
}

impl Default for Redis {
    fn default() -> Self {
        Self { mode: RedisMode::Single, urls_env: "REDIS_URL".into(), master: String::new() }
    }
}

impl Default for Ops {
    fn default() -> Self {
        Self { listen: addr(LOOPBACK, 9090), key_env: "STANCHION_OPS_KEY".into() }
    }
}

impl Default for Keys {
    fn default() -> Self {
        Self { dir: "keys".into() }
    }
}

impl Default for Account {
    fn default() -> Self {
        Self {
            source: AccountSource::None,
            login_url: "/login".into(),
            forward_auth: None,
            jwt: None,
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        let quota = |per_second, burst| QuotaSettings { rate: Rate::whole(per_second), burst };
        Self {
            max_connections: 10_000,
            max_connections_per_ip: 4_096,
            max_handshakes_per_ip: 64,
            max_spare_per_ip: 1_024,
            max_requests_per_ip: 512,
            max_requests_per_admission: 100,
            max_joins_waiting: 8_192,
            client: ClientLimits::default(),
            per_ip: quota(20, 60),
            per_account: quota(5, 20),
            per_admission: quota(10, 40),
            poll: quota(1, 5),
        }
    }
}

impl Default for ClientLimits {
    fn default() -> Self {
        Self {
            proxy_header_timeout: Span::seconds(3),
            handshake_timeout: Span::seconds(10),
            first_request_timeout: Span::seconds(10),
            head_timeout: Span::seconds(15),
            trusted_head_timeout: Span::seconds(75),
            h2_idle_timeout: Span::seconds(75),
            body_idle_timeout: Span::seconds(30),
            write_timeout: Span::seconds(60),
            min_rate: 240,
            max_target_bytes: 8 * 1024,
            max_head_bytes: 64 * 1024,
            max_fields: 100,
            max_fields_and_crumbs: 200,
            max_body_bytes: 64 * 1024 * 1024,
            max_streams: 100,
            max_requests: 10_000,
            max_age: Span::seconds(3_600),
            max_upgraded: 4_096,
        }
    }
}
