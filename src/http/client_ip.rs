//! Who is asking: the socket's address, unless a trusted proxy says otherwise.

use std::net::{IpAddr, SocketAddr};

use hyper::HeaderMap;
use hyper::header::{FORWARDED, HeaderName};

use super::hop::elements;
use super::trusted::{Trusted, Word};

/// Hops looked at before the walk stops.
const HOPS_MAX: usize = 32;

/// `X-Forwarded-For`
pub const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
/// `X-Forwarded-Proto`
pub const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
/// `X-Forwarded-Host`
pub const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");

/// What is known of the asking side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Client {
    /// The address that limits go by.
    pub ip: IpAddr,
    /// `ip`, then the trusted hops between it and us, the socket's peer last.
    pub chain: Vec<IpAddr>,
    /// Whether the visitor sees https.
    pub https: bool,
}

impl Client {
    /// Walks from the socket's peer to the left as long as the hops are trusted. `tls` says
    /// whether the connection itself is encrypted.
    pub fn find(peer: SocketAddr, tls: bool, headers: &HeaderMap, trusted: &Trusted) -> Self {
        let mut ip = peer.ip().to_canonical();
        let mut chain = vec![ip];
        let mut word = trusted.word(ip);
        if word == Word::None {
            return Self { ip, chain, https: tls };
        }
        let mut hops = claimed_hops(headers).into_iter();
        loop {
            let (named, is_last) = match &word {
                Word::None => break,
                Word::List => (hops.next().flatten(), false),
                Word::Single(header) => (only_address(headers, header), true),
            };
            // What stands left of a hop that cannot be read is nobody's word.
            let Some(address) = named else { break };
            ip = address;
            chain.push(address);
            if is_last {
                break;
            }
            word = trusted.word(address);
        }
        chain.reverse();
        let https = claimed_https(headers).unwrap_or(tls);
        Self { ip, chain, https }
    }
}

/// The address in a header that must be there once.
fn only_address(headers: &HeaderMap, name: &HeaderName) -> Option<IpAddr> {
    let mut lines = headers.get_all(name).iter();
    match (lines.next(), lines.next()) {
        (Some(line), None) => parse_hop(line.to_str().ok()?),
        (None | Some(_), _) => None,
    }
}

/// The hops that the headers name, nearest first; `None` stands for one that cannot be read.
fn claimed_hops(headers: &HeaderMap) -> Vec<Option<IpAddr>> {
    let mut hops: Vec<Option<IpAddr>> = if headers.contains_key(X_FORWARDED_FOR) {
        raw_elements(headers, &X_FORWARDED_FOR).map(|hop| hop.and_then(parse_hop)).collect()
    } else {
        raw_elements(headers, &FORWARDED)
            .map(|hop| hop.and_then(|element| parameter(element, "for")).and_then(parse_hop))
            .collect()
    };
    hops.reverse();
    hops.truncate(HOPS_MAX);
    hops
}

/// Like [`elements`], but what is empty or unreadable keeps its place.
fn raw_elements<'a>(
    headers: &'a HeaderMap,
    name: &HeaderName,
) -> impl Iterator<Item = Option<&'a str>> + use<'a> {
    headers.get_all(name).iter().flat_map(|line| {
        let text = line.to_str().ok();
        text.map_or_else(
            || vec![None],
            |text| unquoted(text, ',').map(|e| Some(e.trim())).collect(),
        )
    })
}

/// The parts between separators that stand outside of quotes: a client may have written what is
/// within, as a host does.
fn unquoted(text: &str, separator: char) -> impl Iterator<Item = &str> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    text.split(move |letter| {
        let is_bare = !is_quoted;
        match letter {
            _ if is_escaped => is_escaped = false,
            '\\' if is_quoted => is_escaped = true,
            '"' => is_quoted = !is_quoted,
            _ => {}
        }
        is_bare && letter == separator
    })
}

/// `203.0.113.9`, `203.0.113.9:99`, `2001:db8::1`, `[2001:db8::1]`, `[2001:db8::1]:443`, quoted.
fn parse_hop(raw: &str) -> Option<IpAddr> {
    let text = raw.trim().trim_matches('"');
    let bracketed = || text.strip_prefix('[')?.strip_suffix(']')?.parse::<IpAddr>().ok();
    let address = text
        .parse::<IpAddr>()
        .ok()
        .or_else(|| text.parse::<SocketAddr>().ok().map(|socket| socket.ip()))
        .or_else(bracketed)?;
    Some(address.to_canonical())
}

/// A parameter of one `Forwarded` element; two of the same name are nobody's word.
fn parameter<'a>(element: &'a str, wanted: &str) -> Option<&'a str> {
    let mut found = unquoted(element, ';').filter_map(|pair| {
        let (name, value) = pair.split_once('=')?;
        name.trim().eq_ignore_ascii_case(wanted).then_some(value.trim())
    });
    let value = found.next()?;
    found.next().is_none().then_some(value)
}

/// The scheme that the nearest proxy saw.
fn claimed_https(headers: &HeaderMap) -> Option<bool> {
    let proto = elements(headers, &X_FORWARDED_PROTO).last().or_else(|| {
        let nearest = raw_elements(headers, &FORWARDED).last()??;
        parameter(nearest, "proto")
    })?;
    Some(proto.trim_matches('"').eq_ignore_ascii_case("https"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::trusted::Cdn;
    use proptest::prelude::*;

    /// 127.0.0.2 is a proxy of ours, 127.0.0.3 a CDN.
    fn find(peer: &str, lines: &[(&str, &str)]) -> Client {
        let headers = lines
            .iter()
            .map(|(name, value)| (name.parse::<HeaderName>().unwrap(), value.parse().unwrap()))
            .collect();
        let network = |text: &str| vec![text.parse().unwrap()];
        let header = HeaderName::from_static("cf-connecting-ip");
        let cdn = Cdn { networks: network("127.0.0.3/32"), header };
        let trusted = Trusted::new(network("127.0.0.2/32"), vec![cdn]);
        Client::find(SocketAddr::new(peer.parse().unwrap(), 1), false, &headers, &trusted)
    }

    fn ip(raw: &str) -> IpAddr {
        raw.parse().unwrap()
    }

    #[test]
    fn ed_25_a_stranger_says_nothing_about_his_address() {
        let client = find(
            "127.0.0.9",
            &[("x-forwarded-for", "9.9.9.9"), ("forwarded", "for=9.9.9.9;proto=https")],
        );

        assert_eq!(
            client,
            Client { ip: ip("127.0.0.9"), chain: vec![ip("127.0.0.9")], https: false }
        );
    }

    #[test]
    fn ed_72_the_untrusted_left_part_is_dropped() {
        let client = find(
            "127.0.0.2",
            &[("x-forwarded-for", "6.6.6.6, 203.0.113.9"), ("x-forwarded-proto", "https")],
        );

        assert_eq!(client.ip, ip("203.0.113.9"));
        assert_eq!(client.chain, vec![ip("203.0.113.9"), ip("127.0.0.2")]);
        assert!(client.https);
    }

    #[test]
    fn ed_73_odd_members_parse_or_stop_the_walk() {
        for (value, wanted) in [
            ("unknown", "127.0.0.2"),
            ("1.1.1.1, _hid", "127.0.0.2"),
            ("[2001:db8::1]:443", "2001:db8::1"),
            ("1.2.3.4:99", "1.2.3.4"),
            ("1.1.1.1, 1.2.3.4.5", "127.0.0.2"),
            ("1.1.1.1,", "127.0.0.2"),
            ("::ffff:1.2.3.4", "1.2.3.4"),
            ("6.6.6.6, 127.0.0.2", "6.6.6.6"),
        ] {
            assert_eq!(find("127.0.0.2", &[("x-forwarded-for", value)]).ip, ip(wanted), "{value}");
        }
        let two = [("x-forwarded-for", "6.6.6.6"), ("x-forwarded-for", "7.7.7.7")];
        assert_eq!(find("::ffff:127.0.0.2", &two).ip, ip("7.7.7.7"));
        let odd = [("forwarded", "for=\"[2001:db8::7]:1\";proto=https")];
        assert_eq!(find("127.0.0.2", &odd).ip, ip("2001:db8::7"));
        assert_eq!(find("127.0.0.2", &[("forwarded", "for=\"[::1]\";for=2")]).ip, ip("127.0.0.2"));
        let within = [("forwarded", "for=203.0.113.9;host=\"x, for=6.6.6.6;proto=https\"")];
        assert_eq!(find("127.0.0.2", &within).ip, ip("203.0.113.9"), "within quotes");
        assert!(!find("127.0.0.2", &within).https);
        let many = "127.0.0.2,".repeat(500) + "127.0.0.2";
        assert_eq!(find("127.0.0.2", &[("x-forwarded-for", &many)]).ip, ip("127.0.0.2"));
    }

    #[test]
    fn ed_74_a_cdn_names_its_client_in_its_header_and_nowhere_else() {
        let (cf, list) = ("cf-connecting-ip", "x-forwarded-for");
        for (peer, lines, wanted) in [
            ("127.0.0.3", vec![(cf, "1.2.3.4")], "1.2.3.4"),
            ("127.0.0.3", vec![(cf, "1.2.3.4"), (list, "9.9.9.9")], "1.2.3.4"),
            ("127.0.0.3", vec![(cf, "::ffff:1.2.3.4")], "1.2.3.4"),
            ("127.0.0.3", vec![(cf, "127.0.0.2"), (list, "9.9.9.9")], "127.0.0.2"),
            ("127.0.0.3", vec![(list, "9.9.9.9")], "127.0.0.3"),
            ("127.0.0.3", vec![(cf, "1.2.3.4"), (cf, "9.9.9.9")], "127.0.0.3"),
            ("127.0.0.3", vec![(cf, "1.2.3.4, 9.9.9.9")], "127.0.0.3"),
            ("127.0.0.3", vec![(cf, "")], "127.0.0.3"),
            ("127.0.0.3", vec![("true-client-ip", "9.9.9.9")], "127.0.0.3"),
            ("127.0.0.2", vec![(cf, "9.9.9.9")], "127.0.0.2"),
            ("127.0.0.2", vec![(cf, "1.2.3.4"), (list, "9.9.9.9, 127.0.0.3")], "1.2.3.4"),
            ("127.0.0.9", vec![(cf, "9.9.9.9")], "127.0.0.9"),
        ] {
            let client = find(peer, &lines);
            assert_eq!(client.ip, ip(wanted), "{peer} {lines:?}");
            assert_eq!(client.chain.last(), Some(&ip(peer)), "{peer} {lines:?}");
        }
    }

    proptest! {
        #[test]
        fn whatever_a_stranger_writes_his_address_is_his_sockets(value in "[ -~]{0,60}") {
            for name in ["x-forwarded-for", "forwarded", "cf-connecting-ip"] {
                prop_assert_eq!(find("127.0.0.9", &[(name, &value)]).ip, ip("127.0.0.9"));
            }
        }
    }
}
