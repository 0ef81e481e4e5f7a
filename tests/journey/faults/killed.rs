//! A core killed by SIGKILL: between gate and ledger, and between commit and answer.

use std::time::{Duration, Instant};

use http::Method;
use serde_json::{Value, json};
use stanchion::domain::admission::Admission;
use stanchion::domain::id::{SaleId, Sku};
use stanchion::domain::ticket::{Cohort, Ticket};
use stanchion::lab::client::{Answer, Client, request};
use stanchion::lab::fault_proxy::{FaultProxy, Moment};
use stanchion::lab::rig::{ConfigFile, Installation, SalePlan};
use stanchion::room::keys::Keys;
use stanchion::store::redis::connect;
use stanchion::store::redis::gate::Gate;
use stanchion::store::redis::room::RoomStore;

use super::{PATIENCE, link_to};
use crate::fixture::{Ground, client, executable, now_ms};

const UNITS: i64 = 20;
/// How long an order may be under way before its units are given up, and a good deal more.
const UNDER_WAY_MAX: Duration = Duration::from_mins(1);

/// One core process with a link of its own to Postgres, and the gate beside it.
struct House {
    installation: Installation,
    link: FaultProxy,
    gate: Gate,
    sale: SaleId,
    sku: Sku,
    admission: String,
    client: Client,
    /// Straight to the database.
    ledger: tokio_postgres::Client,
}

impl House {
    async fn start(ground: &Ground) -> Self {
        let mut plan: SalePlan = ground.sale_opening_in(0, u64::try_from(UNITS).unwrap());
        plan.skus[0].2 = 0;
        plan.hold = "10m".into();
        let link = link_to(&ground.database_url).await;
        let mut config =
            ConfigFile::new("http://127.0.0.1:9", std::slice::from_ref(&plan)).unwrap();
        // Only when asked for, so that the counters are this journey's.
        config.set("core.sweep_every", "1h").unwrap();
        config.set("core.reconcile_every", "1h").unwrap();
        let urls = (link.url(&ground.database_url), ground.redis_url.clone());
        let installation = tokio::task::block_in_place(|| {
            Installation::start_cores(executable(), &ground.folder, urls, 1, config).unwrap()
        });
        let keys = Keys::load(&installation.folder().join("keys")).unwrap();
        let sale = SaleId::parse(&plan.id).unwrap();
        let (sub, cohort) = ("ann".to_owned(), Cohort::Entry(1));
        let ticket =
            Ticket { sale: sale.clone(), run: 1, sub, cohort, account: None, issued_at: 1 };
        let admission = Admission::at_slot(&ticket, 1, 1, now_ms(), 600_000, "j".into());
        let direct = tokio_postgres::connect(&ground.database_url, tokio_postgres::NoTls);
        let (ledger, connection) = direct.await.unwrap();
        tokio::spawn(connection);
        // The first load of a room empties its gates: that comes before the first order.
        let redis = connect(&ground.redis_url).unwrap();
        let room = RoomStore::new(redis.clone(), &sale);
        let since = Instant::now();
        while !matches!(room.look().await, Ok((_, Some(_)))) {
            assert!(since.elapsed() < PATIENCE, "the room was never loaded");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Self {
            link,
            gate: Gate::new(redis),
            sku: Sku::parse(&plan.skus[0].0).unwrap(),
            sale,
            admission: keys.mint_admission(&admission),
            client: client(),
            ledger,
            installation,
        }
    }

    async fn ask(
        &self,
        method: Method,
        path: &str,
        key: &str,
        body: Value,
    ) -> anyhow::Result<Answer> {
        let url = format!("{}{path}", self.installation.cores[0].url("core")?);
        let bearer = format!("Bearer {}", self.installation.secrets.ops_key);
        let headers = [
            ("authorization", bearer.as_str()),
            ("stanchion-admission", self.admission.as_str()),
            ("idempotency-key", key),
        ];
        self.client.send(request(method, &url, &headers, body.to_string().into())?).await
    }

    async fn reserve(&self, key: &str, qty: u32) -> anyhow::Result<Answer> {
        let body = json!({"lines": [{"sku": self.sku.as_str(), "qty": qty}]});
        self.ask(Method::POST, "/v1/reservations", key, body).await
    }

    async fn gate_count(&self) -> Option<i64> {
        let counter = self.gate.counter(&self.sale, &self.sku).await.unwrap();
        counter.map(|counter| counter.count)
    }

    async fn row(&self, key: &str) -> Option<(String, std::time::SystemTime)> {
        let sql = "SELECT id::text, expires_at FROM reservation WHERE order_key = $1";
        let row = self.ledger.query_opt(sql, &[&key]).await.unwrap();
        row.map(|row| (row.get(0), row.get(1)))
    }

    /// SIGKILL; what was on the link is lost; a new process in its place.
    fn kill_and_restart(&mut self) {
        tokio::task::block_in_place(|| {
            self.installation.cores[0].kill().unwrap();
            self.link.cut();
            self.link.thaw();
            self.installation.replace_core(0).unwrap();
        });
    }

    /// When no order is under way any more, gate and ledger are equal, and the audit finds nothing.
    async fn sound(&self, available: i64) {
        let since = Instant::now();
        loop {
            let done = self.ask(Method::POST, "/v1/reconcile", "-", json!({})).await.unwrap();
            let done: Value = done.json().unwrap();
            assert_eq!(done["rows"], json!([]), "{done}");
            let sku = &done["skus"][0];
            assert_eq!(sku["ledger"], json!(available), "{sku}");
            if sku["gate"] == json!(available) && sku["action"] == json!("none") {
                return;
            }
            assert!(since.elapsed() < UNDER_WAY_MAX, "gate and ledger stay apart: {sku}");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rs_20_a_core_killed_between_gate_and_ledger_blocks_no_key_and_loses_no_unit() {
    let ground = Ground::new("killgate");
    let mut house = House::start(&ground).await;
    assert_eq!(house.reserve("first", 1).await.unwrap().status, 201);
    assert_eq!(house.gate_count().await, Some(UNITS - 1));

    house.link.freeze();
    let since = Instant::now();
    {
        let orders = futures_util::future::join(house.reserve("k1", 2), house.reserve("lost", 1));
        let set_aside = async {
            while house.gate_count().await != Some(UNITS - 4) {
                assert!(since.elapsed() < PATIENCE, "the gate never gave the units");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::select! {
            answered = orders => panic!("{answered:?}"),
            () = set_aside => {}
        }
    }
    house.kill_and_restart();
    assert_eq!(house.row("k1").await, None, "the ledger never heard of it");

    let retried = house.reserve("k1", 2).await.unwrap();
    assert_eq!(retried.status, 201, "{}", retried.text());
    assert_eq!(house.gate_count().await, Some(UNITS - 4), "the gate gave its units once");
    // Nobody comes back for the other one: its unit is found.
    house.sound(UNITS - 3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rs_21_a_core_killed_between_commit_and_answer_answers_the_same_hold_later() {
    let ground = Ground::new("killanswer");
    let mut house = House::start(&ground).await;
    assert_eq!(house.reserve("first", 1).await.unwrap().status, 201);

    house.link.trap(b"k-unanswered", Moment::Unanswered, 1);
    let since = Instant::now();
    let (id, ends) = {
        let order = house.reserve("k-unanswered", 2);
        let committed = async {
            loop {
                if let Some(row) = house.row("k-unanswered").await {
                    return row;
                }
                assert!(since.elapsed() < PATIENCE, "it was never committed");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::select! {
            answered = order => panic!("{answered:?}"),
            row = committed => row,
        }
    };
    house.kill_and_restart();

    let retried = house.reserve("k-unanswered", 2).await.unwrap();
    assert_eq!(retried.status, 200, "{}", retried.text());
    assert_eq!(retried.header("idempotent-replayed"), "true");
    let body: Value = retried.json().unwrap();
    assert_eq!(body["id"], id);
    let told: jiff::Timestamp = body["expires_at"].as_str().unwrap().parse().unwrap();
    assert_eq!(told, jiff::Timestamp::try_from(ends).unwrap(), "the first expiry");
    assert_eq!(house.gate_count().await, Some(UNITS - 3));
    house.sound(UNITS - 3).await;
}
