//! Who comes, when, and how they behave.

use std::net::Ipv4Addr;
use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;

/// Everything that a crowd needs to know.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Where the gateways are, `http://HOST:PORT`; shoppers go round them.
    pub gateways: Vec<String>,
    /// The sale's id.
    pub sale: String,
    /// What to buy; nothing = the first SKU that the sale tells of.
    pub sku: Option<String>,
    /// Units that each shopper asks for.
    pub qty: u32,
    /// How many shoppers.
    pub shoppers: usize,
    /// How they behave.
    pub mix: Mix,
    /// How to watch the stock meanwhile; without it fewer promises can be checked.
    pub core: Option<CoreAccess>,
    /// The core's ops listener, `http://HOST:PORT`, for the count of takes.
    pub core_ops: Option<String>,
    /// The most sockets of the whole crowd.
    pub sockets_max: usize,
    /// Decides who does what.
    pub seed: u64,
    /// Whoever is not done this long after the start gives up.
    pub patience: Duration,
    /// Whether accounts were asked for, so that a sale that knows none is not good enough.
    pub accounts_asked: bool,
    /// Whether and when Redis loses everything.
    pub flush: Option<Flush>,
    /// Whether the sale is steered in its middle.
    pub controls: Option<Controls>,
}

/// Redis loses everything once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flush {
    /// How long after the opening.
    pub after: Duration,
    /// The installation's Redis; its database is emptied.
    pub redis_url: String,
}

/// One rate change, one pause and one stop in mid-sale.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Controls {
    /// An ops listener with the operators' key.
    pub ops: CoreAccess,
}

/// How to ask the core.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CoreAccess {
    /// `http://HOST:PORT`.
    pub url: String,
    /// The bearer key that opens reads, and with the ops key also sweeps.
    pub key: String,
}

/// Shares of all shoppers, 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mix {
    /// Join and never return.
    pub no_shows: f64,
    /// Let a hold lapse instead of paying.
    pub abandon: f64,
    /// Send their reservation twice at once.
    pub double_click: f64,
    /// Join after the opening.
    pub late: f64,
    /// Are signed in at the shop; every third of them on two devices.
    pub accounts: f64,
}

impl Default for Mix {
    fn default() -> Self {
        Self { no_shows: 0.3, abandon: 0.15, double_click: 0.1, late: 0.05, accounts: 0.3 }
    }
}

/// What somebody does in line that must not cost the place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Detour {
    /// Loads the queue page again.
    Reload,
    /// Closes the tab and comes back from another network.
    NewTab,
    /// Restarts the browser: other sockets, the same cookies.
    Restart,
    /// Loses all cookies and signs in again.
    LostCookies,
}

/// Gives somebody one of the traits below.
type Trait = fn(&mut Role);

/// What one shopper does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "they are independent of each other")]
pub struct Role {
    /// Joins and never returns.
    pub no_show: bool,
    /// Lets a hold lapse.
    pub abandons: bool,
    /// Sends the reservation twice at once.
    pub double_clicks: bool,
    /// Joins after the opening.
    pub late: bool,
    /// Is signed in at the shop.
    pub signed_in: bool,
    /// Is signed in on a second device too, at the same time.
    pub two_devices: bool,
    /// What it does in line.
    pub detour: Option<Detour>,
    /// Does so late: once the sale is open, or after the flush if there is one.
    pub detours_late: bool,
}

impl Role {
    /// The same, but nobody vouches for an account.
    pub(super) fn become_stranger(&mut self) {
        (self.signed_in, self.two_devices) = (false, false);
        if self.detour == Some(Detour::LostCookies) {
            self.detour = Some(Detour::Reload);
        }
    }
}

impl Plan {
    /// One role each. The shares are met exactly, but for rounding.
    pub(super) fn roles(&self, rng: &mut StdRng) -> Vec<Role> {
        let mut roles = vec![Role::default(); self.shoppers];
        let mix = self.mix;
        let kinds: [(f64, Trait); 5] = [
            (mix.no_shows, |role| role.no_show = true),
            (mix.abandon, |role| role.abandons = true),
            (mix.double_click, |role| role.double_clicks = true),
            (mix.late, |role| role.late = true),
            (mix.accounts, |role| role.signed_in = true),
        ];
        let mut order: Vec<usize> = (0..roles.len()).collect();
        for (share, set) in kinds {
            order.shuffle(rng);
            for &index in order.iter().take(count(share, self.shoppers)) {
                set(&mut roles[index]);
            }
        }
        detours(&mut roles, &mut order, rng);
        roles
    }

    /// How many try protected paths without an admission: one in a hundred, at least one.
    pub(super) fn trespassers(&self) -> usize {
        count(0.01, self.shoppers).clamp(1, 50)
    }
}

/// Every second shopper who stays makes a detour, each kind as often as the others, half of them
/// late; every third who is signed in has two devices.
fn detours(roles: &mut [Role], order: &mut [usize], rng: &mut StdRng) {
    order.shuffle(rng);
    let stays = |role: &Role| !role.no_show;
    let (mut strangers, mut signed_in) = (0_usize, 0_usize);
    for &index in order.iter() {
        let role = &mut roles[index];
        let kinds: &[_] = match (role.signed_in, role.late) {
            (false, _) => &[Detour::Reload, Detour::NewTab, Detour::Restart],
            // A join of the last second before a flush lives on by its ticket only.
            (true, true) => &[Detour::Restart, Detour::NewTab],
            (true, false) => &[Detour::LostCookies, Detour::Restart, Detour::NewTab],
        };
        if role.signed_in {
            role.two_devices = signed_in % 3 == 0;
        }
        let turn = if role.signed_in { &mut signed_in } else { &mut strangers };
        if stays(role) && *turn % 2 == 0 {
            let nth = *turn / 2;
            role.detour = Some(kinds[nth % kinds.len()]);
            role.detours_late = nth / kinds.len() % 2 == 1;
        }
        *turn += 1;
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a share of a crowd that fits into memory"
)]
fn count(share: f64, of: usize) -> usize {
    (share.clamp(0.0, 1.0) * of as f64).round() as usize
}

/// An address of one's own, as behind a CDN that says whom it speaks for.
pub(super) fn address(shopper: usize) -> Ipv4Addr {
    let number = u32::try_from(shopper).unwrap_or(u32::MAX) & 0x00ff_ffff;
    Ipv4Addr::from(0x0a00_0000 | number)
}

/// When to arrive, in milliseconds from the start: spread over the lobby, or over the first
/// seconds after the opening for the late.
pub(super) fn arrival_ms(role: Role, opens_in_ms: u64, rng: &mut StdRng) -> u64 {
    if role.late || opens_in_ms < 500 {
        return opens_in_ms + rng.random_range(200..3_000);
    }
    rng.random_range(0..=opens_in_ms * 9 / 10 - 400)
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    fn plan(shoppers: usize) -> Plan {
        Plan {
            gateways: vec!["http://127.0.0.1:1".into()],
            sale: "drop".into(),
            sku: None,
            qty: 1,
            shoppers,
            mix: Mix::default(),
            core: None,
            core_ops: None,
            sockets_max: 8,
            seed: 1,
            patience: Duration::from_mins(1),
            accounts_asked: false,
            flush: None,
            controls: None,
        }
    }

    #[test]
    fn the_mix_is_met_exactly() {
        let roles = plan(2_000).roles(&mut StdRng::seed_from_u64(7));
        let number = |is: fn(&Role) -> bool| roles.iter().filter(|role| is(role)).count();
        assert_eq!(number(|role| role.no_show), 600);
        assert_eq!(number(|role| role.abandons), 300);
        assert_eq!(number(|role| role.double_clicks), 200);
        assert_eq!(number(|role| role.late), 100);
        assert_eq!(number(|role| role.signed_in), 600);
        assert_eq!(number(|role| role.two_devices), 200);
    }

    #[test]
    fn every_detour_is_made_early_and_late_and_only_accounts_lose_their_cookies() {
        for shoppers in [40, 2_000] {
            let roles = plan(shoppers).roles(&mut StdRng::seed_from_u64(7));
            for detour in [Detour::Reload, Detour::NewTab, Detour::Restart, Detour::LostCookies] {
                for late in [false, true] {
                    let made = |r: &&Role| r.detour == Some(detour) && r.detours_late == late;
                    assert!(roles.iter().any(|role| made(&role)), "{detour:?} {late}");
                }
            }
            let lost = roles.iter().filter(|role| role.detour == Some(Detour::LostCookies));
            assert!(lost.clone().all(|role| role.signed_in && !role.no_show));
        }
    }

    #[test]
    fn everybody_but_the_late_arrives_before_the_opening() {
        let mut rng = StdRng::seed_from_u64(7);
        for _ in 0..200 {
            assert!(arrival_ms(Role::default(), 5_000, &mut rng) < 5_000);
            assert!(arrival_ms(Role { late: true, ..Role::default() }, 5_000, &mut rng) > 5_000);
            assert!(arrival_ms(Role::default(), 500, &mut rng) < 500);
        }
    }

    #[test]
    fn every_shopper_has_an_address_of_its_own() {
        assert_eq!(address(1).to_string(), "10.0.0.1");
        assert_eq!(address(70_000).to_string(), "10.1.17.112");
    }
}
