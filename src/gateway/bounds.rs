//! What clients may take, from the settings.

use super::headers::{from_shop, remove_reserved};
use crate::config::Settings;
use crate::config::settings::ClientLimits;
use crate::http::bounds::Bounds;
use crate::http::guard::Sizes;
use crate::http::patience::Pace;
use crate::http::proxy::Allowance;

/// Of a listener.
pub fn of_connections(client: &ClientLimits) -> Bounds {
    let read =
        Pace { idle_max: client.write_timeout.duration(), bytes_per_second: client.min_rate };
    Bounds {
        proxy_header: client.proxy_header_timeout.duration(),
        handshake: client.handshake_timeout.duration(),
        first_request: client.first_request_timeout.duration(),
        head: client.head_timeout.duration(),
        head_trusted: client.trusted_head_timeout.duration(),
        idle: client.h2_idle_timeout.duration(),
        read,
        sizes: sizes(client),
        streams: client.max_streams,
        age: client.max_age.duration(),
        requests: client.max_requests,
    }
}

/// Of a request's head.
pub(super) fn sizes(client: &ClientLimits) -> Sizes {
    Sizes {
        head: client.max_head_bytes,
        target: client.max_target_bytes,
        fields: client.max_fields,
        fields_and_crumbs: client.max_fields_and_crumbs,
    }
}

/// Of the way to the shop.
pub(super) fn of_proxying(settings: &Settings) -> Allowance {
    let client = &settings.limits.client;
    let upload =
        Pace { idle_max: client.body_idle_timeout.duration(), bytes_per_second: client.min_rate };
    Allowance {
        upload,
        upload_bytes: client.max_body_bytes,
        stream_idle: settings.shop.stream_idle_timeout.duration(),
        tunnel_drain: settings.public.stream_drain_timeout.duration(),
        tunnels: client.max_upgraded,
        clean_upload: remove_reserved,
        clean_answer: from_shop,
    }
}
