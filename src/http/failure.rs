//! Why a service behind us gave no answer, and what clients and operators are told.

use std::io::ErrorKind;

use hyper::StatusCode;

use super::body::BodyError;
use super::paced::{Fault, StoodStill, TooLong};

/// Why there is no response.
#[derive(Debug, thiserror::Error)]
pub enum UpstreamError {
    /// No address of it can be reached.
    #[error("no connection: {0}")]
    Connect(std::io::Error),
    /// No address answered in time.
    #[error("no connection in time")]
    ConnectTimeout,
    /// Connected, but no response head came in time.
    #[error("no response in time")]
    ResponseTimeout,
    /// The connection broke, or what came is not HTTP.
    #[error("the response is broken: {0}")]
    Broken(hyper::Error),
    /// It says its length in ways that cannot both be true, or is coded for us alone.
    #[error("the response says its length in a way that cannot be believed")]
    Framing,
    /// It left HTTP without being asked to.
    #[error("an upgrade that nobody asked for")]
    UnaskedUpgrade,
    /// It was asked to leave HTTP and did something else.
    #[error("no WebSocket, or one that answers another handshake")]
    NoWebSocket,
    /// Too many requests are under way.
    #[error("too many requests under way")]
    Full,
    /// The client's body stood still.
    #[error("the request body stood still")]
    BodySlow,
    /// The client's body is too long.
    #[error("the request body is too long")]
    BodyTooLong,
    /// The client's body broke off.
    #[error("the request body broke off")]
    BodyBroken,
}

impl UpstreamError {
    /// The status for the client.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Connect(_)
            | Self::Broken(_)
            | Self::Framing
            | Self::UnaskedUpgrade
            | Self::NoWebSocket => StatusCode::BAD_GATEWAY,
            Self::ConnectTimeout | Self::ResponseTimeout => StatusCode::GATEWAY_TIMEOUT,
            Self::Full => StatusCode::SERVICE_UNAVAILABLE,
            Self::BodySlow => StatusCode::REQUEST_TIMEOUT,
            Self::BodyTooLong => StatusCode::PAYLOAD_TOO_LARGE,
            Self::BodyBroken => StatusCode::BAD_REQUEST,
        }
    }

    /// What RFC 9209 calls it; nothing for what the client did.
    pub fn proxy_status(&self) -> Option<&'static str> {
        Some(match self {
            Self::Connect(error) if error.kind() == ErrorKind::ConnectionRefused => {
                "stanchion; error=connection_refused"
            }
            Self::Connect(_) => "stanchion; error=destination_unavailable",
            Self::ConnectTimeout => "stanchion; error=connection_timeout",
            Self::ResponseTimeout => "stanchion; error=http_response_timeout",
            Self::Broken(error) if error.is_incomplete_message() => {
                "stanchion; error=http_response_incomplete"
            }
            Self::Broken(error) if error.is_parse() => "stanchion; error=http_protocol_error",
            Self::Framing => "stanchion; error=http_protocol_error",
            Self::Broken(_) => "stanchion; error=connection_terminated",
            Self::UnaskedUpgrade | Self::NoWebSocket => "stanchion; error=http_upgrade_failed",
            Self::Full => "stanchion; error=connection_limit_reached",
            Self::BodySlow | Self::BodyTooLong | Self::BodyBroken => return None,
        })
    }

    /// Whether the client's own body is to blame, so that the rest of it is still to come.
    pub fn is_of_body(&self) -> bool {
        matches!(self, Self::BodySlow | Self::BodyTooLong | Self::BodyBroken)
    }

    pub(super) fn of(error: hyper::Error) -> Self {
        match std::error::Error::source(&error).and_then(of_pace) {
            Some(known) => known,
            None if error.is_user() => Self::BodyBroken,
            None => Self::Broken(error),
        }
    }

    /// Why a client's body could not be read.
    pub(super) fn of_body(error: &BodyError) -> Self {
        of_pace(error.as_ref()).unwrap_or(Self::BodyBroken)
    }
}

impl From<Fault> for UpstreamError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Slow => Self::BodySlow,
            Fault::Long => Self::BodyTooLong,
            Fault::Broken => Self::BodyBroken,
        }
    }
}

/// What a body that was bounded came to, wherever it is among the causes.
fn of_pace(mut cause: &(dyn std::error::Error + 'static)) -> Option<UpstreamError> {
    loop {
        if cause.is::<StoodStill>() {
            return Some(UpstreamError::BodySlow);
        }
        if cause.is::<TooLong>() {
            return Some(UpstreamError::BodyTooLong);
        }
        cause = cause.source()?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_are_told_which_hop_failed_and_how() {
        let refused = UpstreamError::Connect(ErrorKind::ConnectionRefused.into());
        assert_eq!(refused.proxy_status(), Some("stanchion; error=connection_refused"));
        let unknown = UpstreamError::Connect(ErrorKind::Other.into());
        assert_eq!(unknown.proxy_status(), Some("stanchion; error=destination_unavailable"));
        assert_eq!(UpstreamError::BodySlow.proxy_status(), None, "that was the client");
    }

    #[test]
    fn what_a_body_came_to_is_found_among_the_causes() {
        let slow: BodyError = StoodStill(std::time::Duration::ZERO).into();
        assert!(matches!(UpstreamError::of_body(&slow), UpstreamError::BodySlow));
        let long: BodyError = TooLong(1).into();
        assert!(matches!(UpstreamError::of_body(&long), UpstreamError::BodyTooLong));
        assert!(matches!(UpstreamError::of_body(&"cut".into()), UpstreamError::BodyBroken));
    }
}
