//! Whose word about a client's address is believed, and where each of them writes it.

use std::net::IpAddr;
use std::sync::Arc;

use arc_swap::ArcSwap;
use hyper::header::HeaderName;
use ipnet::IpNet;

/// A CDN that names its client in a header of one address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cdn {
    /// Where it asks from.
    pub networks: Vec<IpNet>,
    /// Where it writes.
    pub header: HeaderName,
}

/// The proxies whose forwarding headers are believed; clones follow a replacement.
#[derive(Debug, Clone, Default)]
pub struct Trusted(Arc<ArcSwap<Believed>>);

#[derive(Debug, Default)]
struct Believed {
    networks: Vec<IpNet>,
    cdns: Vec<Cdn>,
}

/// How an address may speak of its client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Word {
    /// Not at all.
    None,
    /// In the lists of hops.
    List,
    /// In this header, and nowhere else.
    Single(HeaderName),
}

impl Trusted {
    /// Trusts these and nobody else.
    pub fn new(networks: Vec<IpNet>, cdns: Vec<Cdn>) -> Self {
        Self(Arc::new(ArcSwap::from_pointee(Believed { networks, cdns })))
    }

    /// Trusts these from now on, and no others.
    pub fn replace(&self, networks: Vec<IpNet>, cdns: Vec<Cdn>) {
        self.0.store(Arc::new(Believed { networks, cdns }));
    }

    /// Whether an address is a proxy of ours; IPv4-mapped forms count as IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.word(address) != Word::None
    }

    /// How an address may speak of its client; a CDN's network goes before a proxy's.
    pub(super) fn word(&self, address: IpAddr) -> Word {
        let address = address.to_canonical();
        let within = |networks: &[IpNet]| networks.iter().any(|network| network.contains(&address));
        let believed = self.0.load();
        match believed.cdns.iter().find(|cdn| within(&cdn.networks)) {
            Some(cdn) => Word::Single(cdn.header.clone()),
            None if within(&believed.networks) => Word::List,
            None => Word::None,
        }
    }
}
