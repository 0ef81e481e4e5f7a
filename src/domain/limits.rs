//! Limits: who is counted as one, and how much one may do.

use std::net::{IpAddr, Ipv6Addr};

use super::id::AccountId;
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

/// Those past the line whom nobody knows share so many quotas, if they come from one address.
pub const PASSERS: u8 = 64;

/// What a request is about, for the quotas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deed {
    /// It looks: a poll, a page. Apart from the next, so that polling as told leaves room for it.
    Look,
    /// It acts: a join, a claim, an order, anything at the shop under an admission.
    Act,
}

/// Who a request counts against: one of these, the narrowest that is known of its visitor. So
/// nobody who holds a place or an account is ever refused for what others do at his address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Subject<'a> {
    /// Deeds of one visitor, by `sub`.
    Admission(&'a str),
    /// Looks of one visitor, by `sub`.
    Poll(&'a str),
    /// Deeds of those past the line whom nobody knows: some of an address', by their names. A name
    /// can be had for the asking, and so would be a quota of its own.
    Passer(AddressKey, u8),
    /// An account without a place.
    Account(&'a AccountId),
    /// Somebody unknown.
    Address(AddressKey),
    /// Whoever tries a recovery code, known or not.
    Recovery(AddressKey),
}

impl<'a> Subject<'a> {
    /// `holder` is the `sub` of a verified ticket or admission: what is not verified is no subject,
    /// or made-up tokens would be as many quotas.
    pub fn narrowest(
        deed: Deed,
        holder: Option<&'a str>,
        account: Option<&'a AccountId>,
        address: IpAddr,
    ) -> Self {
        match (holder, deed, account) {
            (Some(sub), Deed::Look, _) => Self::Poll(sub),
            (Some(sub), Deed::Act, _) => Self::Admission(sub),
            (None, _, Some(account)) => Self::Account(account),
            (None, _, None) => Self::Address(AddressKey::of(address)),
        }
    }

    /// Somebody past the line whom nobody knows.
    pub fn passer(name: &str, address: IpAddr) -> Self {
        let mixed = name.bytes().fold(0_u8, |mixed, byte| mixed.rotate_left(3) ^ byte);
        Self::Passer(AddressKey::of(address), mixed % PASSERS)
    }

    /// Whether nothing but an address is known.
    pub fn is_stranger(&self) -> bool {
        matches!(self, Self::Address(_) | Self::Recovery(_) | Self::Passer(..))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_narrowest_that_is_known_is_counted_and_an_address_only_of_a_stranger() {
        let ann = AccountId::parse("ann").unwrap();
        let at = "10.0.0.1".parse().unwrap();
        let of = |deed, holder, account| Subject::narrowest(deed, holder, account, at);
        assert_eq!(of(Deed::Look, Some("s"), Some(&ann)), Subject::Poll("s"));
        assert_eq!(of(Deed::Act, Some("s"), Some(&ann)), Subject::Admission("s"));
        assert_eq!(of(Deed::Act, None, Some(&ann)), Subject::Account(&ann));
        assert!(of(Deed::Look, None, None).is_stranger());
        assert!(!of(Deed::Act, None, Some(&ann)).is_stranger());
    }

    #[test]
    fn names_that_anybody_can_have_share_a_bounded_number_of_quotas() {
        let at = "10.0.0.1".parse().unwrap();
        let names = (0..5_000_u128).map(|n| format!("{:032x}", n.wrapping_mul(u128::MAX / 7)));
        let all: std::collections::HashSet<_> =
            names.map(|name| Subject::passer(&name, at)).collect();
        assert!((16..=usize::from(PASSERS)).contains(&all.len()), "{}", all.len());
        assert!(all.iter().all(Subject::is_stranger));
    }

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
