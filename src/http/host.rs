//! The one host that a request asks for.

use std::net::{IpAddr, Ipv6Addr};

use hyper::http::uri::Authority;
use hyper::{Request, Version, header};

use super::guard::HeadFault;

/// The one host of the request: header, absolute target and `:authority` may not disagree.
pub(super) fn only<B>(request: &Request<B>) -> Result<String, HeadFault> {
    let mut lines = request.headers().get_all(header::HOST).iter();
    let header = match (lines.next(), lines.next()) {
        (Some(line), None) => Some(line.to_str().map_err(|_| HeadFault::Host)?),
        (None, _) => None,
        (Some(_), Some(_)) => return Err(HeadFault::Host),
    };
    let target = request.uri().authority().map(Authority::as_str);
    match (header, target) {
        (Some(header), Some(target)) => {
            let scheme = request.uri().scheme_str().unwrap_or("http");
            if same_authority(header, target, scheme) {
                Ok(header.to_owned())
            } else {
                Err(HeadFault::HostsDiffer)
            }
        }
        (Some(header), None) => Ok(header.to_owned()),
        (None, Some(target)) if request.version() == Version::HTTP_2 => Ok(target.to_owned()),
        (None, _) => Err(HeadFault::Host),
    }
}

/// Whether a host is a name of its own, rather than where something listens.
pub fn is_name(host: &str) -> bool {
    let is_address = host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
    !is_address && host != "localhost"
}

fn same_authority(one: &str, other: &str, scheme: &str) -> bool {
    let default = if scheme == "https" { ":443" } else { ":80" };
    let plain = |text: &str| {
        let lower = text.to_ascii_lowercase();
        lower.strip_suffix(default).map(str::to_owned).unwrap_or(lower)
    };
    plain(one) == plain(other)
}

/// Lower-case host without port and trailing dot, if the text is a host at all.
pub(super) fn bare(authority: &str) -> Option<String> {
    let (host, port) = if let Some(rest) = authority.strip_prefix('[') {
        let (address, after) = rest.split_once(']')?;
        address.parse::<Ipv6Addr>().ok()?;
        let port = if after.is_empty() { None } else { Some(after.strip_prefix(':')?) };
        (&authority[..address.len() + 2], port)
    } else {
        let (host, port) = match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        };
        let named = |b: u8| b.is_ascii_alphanumeric() || b"-._".contains(&b);
        if host.is_empty() || !host.bytes().all(named) {
            return None;
        }
        (host, port)
    };
    if let Some(port) = port {
        let digits = port.bytes().all(|b| b.is_ascii_digit());
        if !digits || (!port.is_empty() && port.parse::<u16>().is_err()) {
            return None;
        }
    }
    let bare = host.strip_suffix('.').unwrap_or(host);
    (!bare.is_empty()).then(|| bare.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::guard::tests::{checked, fault};

    #[test]
    fn ed_09_exactly_one_valid_host() {
        assert_eq!(fault("GET", "/", &[]), HeadFault::Host);
        assert_eq!(fault("GET", "/", &[("host", "a"), ("host", "a")]), HeadFault::Host);
        for host in ["a,b", "u@shop.test", "shop.test:99999", "[::1", "a b", "", ":80", "a:b", "."]
        {
            assert_eq!(fault("GET", "/", &[("host", host)]), HeadFault::Host, "{host:?}");
        }
        for (host, wanted) in
            [("SHOP.test.", "shop.test"), ("shop.test:8080", "shop.test"), ("[::1]:80", "[::1]")]
        {
            assert_eq!(checked("GET", "/", &[("host", host)]).unwrap().host, wanted);
        }
    }

    #[test]
    fn ed_10_an_absolute_target_must_name_the_same_host() {
        let host = [("host", "shop.test")];
        assert!(checked("GET", "http://SHOP.test:80/a", &host).is_ok());
        assert_eq!(fault("GET", "http://evil.test/a", &host), HeadFault::HostsDiffer);
        assert_eq!(fault("GET", "http://shop.test/a", &[]), HeadFault::Host);
    }
}
