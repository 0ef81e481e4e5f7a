//! The edge, judged from outside: raw bytes in, and a shop that writes down what reached it. What other
//! people's tools say of it: `scripts/conformance`.

mod admitted;
mod answered;
mod answers;
mod browser;
mod bypass;
mod certificates;
mod crowds;
mod events;
mod floods;
mod forward_auth;
mod frames;
mod framing;
mod framing2;
mod gate;
mod handover;
mod landing;
mod leaving;
mod limits;
mod names;
mod neighbours;
pub(crate) mod origin;
mod passes;
mod places;

mod proxied;
mod redirects;
mod returning;
mod room_page;
mod rpc;
mod rpc_shop;
mod secure;
mod shopping;
mod slow;
mod sockets;
mod staying;
mod streaming;
mod tls;
mod wire;
mod without_hyper;

use std::sync::Arc;
use std::time::{Duration, Instant};

use stanchion::lab::rig::{ConfigFile, Installation, Layout, SalePlan};

use crate::fixture::Ground;
use origin::Origin;
use wire::{ask, status};

/// One gateway in front of the recording shop; its sale's lobby is open, and no core is there
/// unless asked for.
struct Edge {
    installation: Installation,
    shop: Origin,
    plan: SalePlan,
}

impl Edge {
    /// Starts it with some settings turned.
    fn start(topic: &str, turn: impl FnOnce(&mut ConfigFile, &Origin)) -> Self {
        let ground = Ground::new(topic);
        let plan = ground.sale_opening_in(600_000, 10);
        Self::on(&ground, plan, 0, turn)
    }

    fn on(
        ground: &Ground,
        plan: SalePlan,
        cores: usize,
        turn: impl FnOnce(&mut ConfigFile, &Origin),
    ) -> Self {
        Self::of(ground, &[plan], cores, turn)
    }

    /// One with several sales; the first is its plan.
    fn of(
        ground: &Ground,
        plans: &[SalePlan],
        cores: usize,
        turn: impl FnOnce(&mut ConfigFile, &Origin),
    ) -> Self {
        let (shop, plan) = (Origin::start(), plans[0].clone());
        let mut config = ConfigFile::new(&shop.url(), plans).unwrap();
        turn(&mut config, &shop);
        let installation = ground.install(Layout { gateways: 1, cores }, config);
        Self { installation, shop, plan }
    }

    /// `http://ADDR` of the gateway.
    fn url(&self) -> String {
        self.installation.gateways[0].url("public").unwrap()
    }

    /// Waits until the core has given the room to this gateway.
    fn await_lobby(&self) {
        let since = Instant::now();
        let path = format!("GET /_stanchion/{}/draw", self.plan.id);
        loop {
            let draw = ask(&self.url(), &path, &[]);
            if !draw.contains("\"commitment\":\"\"") && status(&draw) == 200 {
                return;
            }
            assert!(since.elapsed() < Duration::from_secs(20), "the room was never loaded: {draw}");
            std::thread::sleep(Duration::from_millis(25));
        }
    }

    /// Waits until the sale is open.
    fn await_open(&self) {
        let since = Instant::now();
        let path = format!("GET /_stanchion/{}/status", self.plan.id);
        loop {
            let told = ask(&self.url(), &path, &[]);
            if told.contains("\"phase\":\"open\"") && told.contains("\"paused\":false") {
                return;
            }
            assert!(since.elapsed() < Duration::from_secs(20), "the sale never opened: {told}");
            std::thread::sleep(Duration::from_millis(25));
        }
    }

    /// The gateway's open files.
    fn descriptors(&self) -> usize {
        let folder = format!("/proc/{}/fd", self.installation.gateways[0].pid());
        std::fs::read_dir(folder).unwrap().count()
    }

    /// Waits until the gateway has closed what it had opened, give or take what it does anyway.
    fn await_descriptors(&self, base: usize) {
        let since = Instant::now();
        while self.descriptors() > base + 4 {
            let open = self.descriptors();
            assert!(since.elapsed() < Duration::from_secs(30), "{open} open, {base} before");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// The gateway's resident memory, in KiB.
    fn memory_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!(
            "/proc/{}/status",
            self.installation.gateways[0].pid()
        ));
        let status = status.unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }
}

/// An edge with a core whose lobby stays open, believing what this machine's proxies say.
fn lobby() -> Arc<Edge> {
    static LOBBY: std::sync::OnceLock<Arc<Edge>> = std::sync::OnceLock::new();
    let start = || {
        let ground = Ground::new("lobby");
        let plan = ground.sale_opening_in(3_600_000, 10);
        let edge = Edge::on(&ground, plan, 1, |config, _| {
            no_limits(config);
            config.set("public.trusted_proxies", vec!["127.0.0.1/32"]).unwrap();
            config.set("public.cors_origins", vec!["https://shop.test"]).unwrap();
            config.set("sale.0.never_gate", vec!["POST /checkout/notify"]).unwrap();
        });
        edge.await_lobby();
        Arc::new(edge)
    };
    Arc::clone(LOBBY.get_or_init(start))
}

/// An edge with a core whose sale opens soon, and lets many in.
fn open_edge(topic: &str, opens_in_ms: u64) -> Edge {
    let ground = Ground::new(topic);
    let mut plan = ground.sale_opening_in(opens_in_ms, 10);
    plan.rate = "500/s".into();
    Edge::on(&ground, plan, 1, |config, _| no_limits(config))
}

/// Limits out of the way, for journeys about something else.
fn no_limits(config: &mut ConfigFile) {
    for limit in ["per_ip", "per_account", "per_admission", "poll"] {
        config.set(&format!("limits.{limit}.rate"), "10000/s").unwrap();
        config.set(&format!("limits.{limit}.burst"), 10_000).unwrap();
    }
}

/// The edge that those share who only send bytes and look at what arrives.
fn shared() -> Arc<Edge> {
    static SHARED: std::sync::OnceLock<Arc<Edge>> = std::sync::OnceLock::new();
    let start = || {
        Arc::new(Edge::start("edge", |config, _| {
            no_limits(config);
            config.set("shop.response_timeout", "2s").unwrap();
            config.set("sale.0.never_gate", vec!["POST /checkout/notify"]).unwrap();
        }))
    };
    Arc::clone(SHARED.get_or_init(start))
}
