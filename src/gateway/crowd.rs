//! Who may have how many requests under way at the shop, and how many event streams of ours: an
//! address, or an admitted visitor by himself, so that neither he nor his neighbours pay for each
//! other.

use std::net::IpAddr;
use std::sync::Arc;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;

use crate::config::settings::Limits;
use crate::domain::limits::AddressKey;
use crate::domain::refusal::{Problem, Refusal, spread};
use crate::http::under_way::{Place, UnderWay};
use crate::telemetry::Metrics;

/// Event streams of one visitor: a few devices and tabs.
const STREAMS_PER_VISITOR: usize = 8;
/// When to try again, in milliseconds, up to a fifth more: something under way has ended by then, or
/// nothing soon.
const RETRY_MS: u64 = 800;

/// Whose a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Whose<'a> {
    /// Nobody's who is known.
    Address(AddressKey),
    /// An admitted visitor's.
    Admission(&'a str),
    /// An event stream of somebody who holds a place.
    Stream(&'a str),
    /// An event stream of nobody who is known.
    StrangersStream(AddressKey),
}

impl<'a> Whose<'a> {
    /// An event stream of ours.
    pub(super) fn stream(holder: Option<&'a str>, address: IpAddr) -> Self {
        match holder {
            Some(holder) => Self::Stream(holder),
            None => Self::StrangersStream(AddressKey::of(address)),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Of {
    /// The bound, as the settings name it.
    limit: &'static str,
}

/// What is under way on this node.
pub(super) struct Crowd {
    under_way: Arc<UnderWay>,
    per_address: usize,
    per_admission: usize,
    refused: Family<Of, Counter>,
}

impl Crowd {
    /// Nobody has come yet.
    pub(super) fn new(settings: &Limits, metrics: &Metrics) -> Arc<Self> {
        let refused = Family::<Of, Counter>::default();
        metrics.register(|registry| {
            let help = "Requests refused because too many of the same were under way";
            registry.register("under_way_refusals", help, refused.clone());
        });
        Arc::new(Self {
            under_way: UnderWay::new(),
            per_address: settings.max_requests_per_ip,
            per_admission: settings.max_requests_per_admission,
            refused,
        })
    }

    /// One more on a free path, of its address; where that has no room left, of the admitted visitor
    /// whom it is found to be of.
    pub(super) fn enter_free(
        &self,
        address: IpAddr,
        find: impl FnOnce() -> Option<String>,
    ) -> Result<Place, Refusal> {
        let strangers = Whose::Address(AddressKey::of(address));
        if let Ok(place) = self.under_way.enter(&strangers, self.per_address) {
            return Ok(place);
        }
        match find() {
            Some(sub) => self.enter(Whose::Admission(&sub)),
            None => self.enter(strangers),
        }
    }

    /// One more, or the reason why not.
    pub(super) fn enter(&self, whose: Whose<'_>) -> Result<Place, Refusal> {
        let (limit, most, who) = match whose {
            Whose::Address(_) => ("max_requests_per_ip", self.per_address, "your network"),
            Whose::Admission(_) => {
                ("max_requests_per_admission", self.per_admission, "this visitor")
            }
            Whose::Stream(_) => ("streams", STREAMS_PER_VISITOR, "this place in line"),
            Whose::StrangersStream(_) => ("streams", self.per_address, "your network"),
        };
        self.under_way.enter(&whose, most).map_err(|_| {
            self.refused.get_or_create_owned(&Of { limit }).inc();
            let detail = format!("{most} requests of {who} are under way; try again when one ends");
            let wait_ms = spread(RETRY_MS, rand::random());
            Refusal::new(Problem::RateLimited, detail).retry_after_ms(wait_ms)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_share_the_places_of_their_address_and_the_admitted_have_their_own() {
        let settings =
            Limits { max_requests_per_ip: 1, max_requests_per_admission: 2, ..Limits::default() };
        let crowd = Crowd::new(&settings, &Metrics::new("gateway"));
        let address = |text: &str| Whose::Address(AddressKey::of(text.parse().unwrap()));

        let _one = crowd.enter(address("2001:db8::1")).unwrap();
        let refused = crowd.enter(address("2001:db8::2")).unwrap_err();
        assert_eq!(refused.problem, Problem::RateLimited);
        assert!(refused.retry_after_ms.is_some_and(|ms| (800..=960).contains(&ms)));
        assert!(crowd.enter(address("2001:db8:0:1::1")).is_ok());

        let _two = [crowd.enter(Whose::Admission("ann")), crowd.enter(Whose::Admission("ann"))];
        assert!(crowd.enter(Whose::Admission("ann")).is_err());
        assert!(crowd.enter(Whose::Admission("bob")).is_ok());
        assert!(crowd.enter(Whose::Stream("ann")).is_ok(), "streams are counted apart");
    }
}
