//! Limits: who is counted as one, and how much one may do.

use std::net::{IpAddr, Ipv6Addr};

use super::rate::Rate;

/// A quota: `rate` on average, `burst` at once.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quota {
    /// Refill.
    pub rate: Rate,
    /// Size; at least 1.
    pub burst: u32,
}

/// What an address counts as: an IPv4 address itself (mapped ones unwrapped by bits), an IPv6
/// address by its /64, which one household changes at will.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AddressKey(IpAddr);

impl AddressKey {
    /// The key that an address is counted under.
    pub fn of(address: IpAddr) -> Self {
        Self(Self::network(address))
    }

    /// The first address of what counts as one.
    pub fn network(address: IpAddr) -> IpAddr {
        match address.to_canonical() {
            IpAddr::V4(v4) => IpAddr::V4(v4),
            IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from(u128::from(v6) >> 64 << 64)),
        }
    }
}

impl std::fmt::Display for AddressKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(address: &str) -> AddressKey {
        AddressKey::of(address.parse().unwrap())
    }

    #[test]
    fn wr_44_an_address_that_rotates_inside_its_64_counts_as_one() {
        assert_eq!(key("2001:db8:1:2::1"), key("2001:db8:1:2:ffff::9"));
        assert_ne!(key("2001:db8:1:2::1"), key("2001:db8:1:3::1"));
    }

    #[test]
    fn a_mapped_address_counts_as_the_one_it_stands_for() {
        assert_eq!(key("::ffff:102:304"), key("1.2.3.4"));
        assert_ne!(key("1.2.3.4"), key("1.2.3.5"));
    }
}
