//! WR-73, a panic in the gate: an exception lets nobody in. A real gateway whose clock breaks in the
//! middle of a request.

use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hyper::Request;
use hyper::body::Incoming;
use secrecy::SecretString;
use stanchion::clock::{Clock, RoomClock, SystemClock};
use stanchion::config;
use stanchion::domain::admission::Admission;
use stanchion::domain::ticket::{Cohort, Ticket};
use stanchion::gateway::{Gateway, GatewayParts};
use stanchion::http::listener::{self, Options, Peer};
use stanchion::http::received::Received;
use stanchion::lab::client::{Answer, Client};
use stanchion::lab::rig::{ConfigFile, SalePlan};
use stanchion::telemetry::Metrics;
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::edge::origin::Origin;
use crate::fixture::{client, now_ms};
use crate::room_ground::RoomGround;

/// The machine's clock, which breaks once when it is told to.
#[derive(Default)]
struct Brittle(AtomicBool);

impl Clock for Brittle {
    fn now_ms(&self) -> u64 {
        assert!(!self.0.swap(false, Ordering::Relaxed), "the clock is broken");
        SystemClock.now_ms()
    }
}

/// A gateway with a shop that writes down what reaches it.
struct Gate {
    ground: RoomGround,
    shop: Origin,
    clock: Arc<Brittle>,
    metrics: Metrics,
    url: String,
    client: Client,
    _until_dropped: DropGuard,
}

impl Gate {
    async fn open() -> Self {
        let ground = RoomGround::new("brittle", 600_000, 10.0).await;
        ground.keep().await;
        let (shop, clock, metrics) =
            (Origin::start(), Arc::new(Brittle::default()), Metrics::new("gateway"));
        let folder = tempfile::tempdir().unwrap();
        let settings = settings(&ground, &shop, folder.path());
        let ending = CancellationToken::new();
        let gateway = Gateway::new(GatewayParts {
            settings: &settings,
            rooms: vec![ground.room().await],
            keys: Arc::clone(&ground.keys),
            clock: RoomClock::new(clock.clone()),
            core_url: "http://127.0.0.1:9".into(),
            core_key: SecretString::from("none"),
            shop_secret: None,
            draining: ending.clone(),
            connections: TaskTracker::new(),
            metrics: &metrics,
        });
        let gateway = Arc::new(gateway.unwrap());
        let socket = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let url = format!("http://{}", socket.local_addr().unwrap());
        let handler = move |request: Request<Incoming>, peer: Peer| {
            let gateway = Arc::clone(&gateway);
            async move { gateway.handle(request.map(Received::from), peer).await }
        };
        let serving = listener::serve(
            socket,
            Options::default(),
            ending.clone(),
            TaskTracker::new(),
            handler,
        );
        tokio::spawn(serving);
        let (client, until_dropped) = (client(), ending.drop_guard());
        Self { ground, shop, clock, metrics, url, client, _until_dropped: until_dropped }
    }

    async fn get(&self, path: &str, headers: &[(&str, &str)]) -> Answer {
        self.client.get(&format!("{}{path}", self.url), headers).await.unwrap()
    }

    /// The same while the clock breaks.
    async fn broken(&self, path: &str, headers: &[(&str, &str)]) -> Answer {
        self.clock.0.store(true, Ordering::Relaxed);
        self.get(path, headers).await
    }

    fn admission(&self) -> String {
        let ticket = Ticket {
            sale: self.ground.sale.clone(),
            run: 1,
            sub: "ann".into(),
            cohort: Cohort::Entry(1),
            account: None,
            issued_at: 1,
        };
        let admission = Admission::at_slot(&ticket, 1, 1, now_ms(), 600_000, "j".into());
        self.ground.keys.mint_admission(&admission)
    }
}

fn settings(ground: &RoomGround, shop: &Origin, folder: &Path) -> config::Settings {
    let plan = SalePlan::opening_in(ground.sale.as_str(), now_ms(), 600_000, 10);
    let file = folder.join("stanchion.toml");
    ConfigFile::new(&shop.url(), &[plan]).unwrap().write(&file).unwrap();
    let now = jiff::Timestamp::from_millisecond(i64::try_from(now_ms()).unwrap()).unwrap();
    config::load::read(&std::fs::read_to_string(&file).unwrap(), now).unwrap().0
}

#[tokio::test(flavor = "multi_thread")]
async fn wr_73_a_panic_in_the_gate_is_a_500_for_that_request_and_lets_nothing_through() {
    let gate = Gate::open().await;
    let page = [("accept", "text/html"), ("sec-fetch-mode", "navigate")];
    let admission = gate.admission();
    let admitted = [("stanchion-admission", admission.as_str())];
    assert_eq!(gate.get("/checkout/before", &admitted).await.status, 200);

    for number in 0..20 {
        let path = format!("/checkout/broken?{number}");
        let told = gate.broken(&path, &admitted).await;
        assert_eq!(told.status, 500, "{}", told.text());
        assert_eq!(told.header("content-type"), "application/problem+json");
        assert_eq!(told.header("stanchion-answer"), "unavailable");
        assert_eq!(told.json::<serde_json::Value>().unwrap()["code"], "internal-error");
        let shown = gate.broken(&path, &page).await;
        assert_eq!(shown.status, 500);
        assert!(shown.text().contains("Something broke at our end"), "{}", shown.text());
        // Everybody else is served as ever, and so is the next request of the same client.
        assert_eq!(gate.get("/checkout/after", &admitted).await.status, 200);
        let queue = gate.get("/checkout/stranger", &page).await;
        assert_eq!((queue.status.as_u16(), queue.header("stanchion-answer")), (200, "queue"));
    }

    assert_eq!(gate.shop.heads("broken"), Vec::<String>::new(), "nothing got through");
    assert_eq!(gate.shop.heads("stranger"), Vec::<String>::new());
    assert_eq!(gate.shop.heads("/checkout/after").len(), 20);
    let counted = "stanchion_answers_total{answer=\"unavailable\",status=\"5xx\"} 40";
    assert!(gate.metrics.text().contains(counted), "{}", gate.metrics.text());
}
