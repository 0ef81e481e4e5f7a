//! Each promise that the crowd's report checks is broken on purpose: the report must say so, and
//! say nothing else.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use stanchion::lab::crowd::{self, CoreAccess, Mix, Observations, Plan};
use stanchion::lab::report::{Report, Sources, collect, judge};
use stanchion::lab::rig::{ConfigFile, Installation};
use tokio_postgres::NoTls;

use crate::fixture::{Ground, executable, open_shop};

const SHOPPERS: usize = 120;
const RATE: &str = "60/s";

/// A small sale with its shop, and where a crowd and its judges have to look.
struct Scene {
    installation: Installation,
    sale: String,
    sku: String,
    shop: String,
}

impl Scene {
    /// Sets the scene; `tweak` may change the gateway's settings.
    async fn set(topic: &str, units: u64, tweak: impl FnOnce(&mut Installation)) -> Self {
        let ground = Ground::new(topic);
        let mut plan = ground.sale_opening_in(4_000, units);
        (plan.rate, plan.hold) = (RATE.into(), "2s".into());
        let sku = plan.skus[0].0.clone();
        let mut config = ConfigFile::new("http://127.0.0.1:9", &[plan]).unwrap();
        config.set("public.trusted_proxies", vec!["127.0.0.1/32"]).unwrap();
        config.set("core.sweep_every", "1s").unwrap();

        let urls = (ground.database_url.clone(), ground.redis_url.clone());
        let mut installation =
            Installation::start_cores(executable(), &ground.folder, urls, 1, config).unwrap();
        let shop = open_shop(&installation, &ground.sale).await;
        installation.set("shop.origins", vec![shop.clone()]).unwrap();
        tweak(&mut installation);
        installation.add_gateways(1).unwrap();
        Self { installation, sale: ground.sale, sku, shop }
    }

    fn core(&self) -> CoreAccess {
        let url = self.installation.cores[0].url("core").unwrap();
        CoreAccess { url, key: self.installation.secrets.ops_key.clone() }
    }

    fn gateway(&self) -> String {
        self.installation.gateways[0].url("public").unwrap()
    }

    async fn crowd(&self) -> Observations {
        let plan = Plan {
            gateways: vec![self.gateway()],
            sale: self.sale.clone(),
            sku: None,
            qty: 1,
            shoppers: SHOPPERS,
            mix: Mix::default(),
            core: Some(self.core()),
            core_ops: Some(self.installation.cores[0].url("ops").unwrap()),
            sockets_max: 32,
            seed: 1,
            patience: Duration::from_mins(1),
            accounts_asked: false,
            flush: None,
            controls: None,
        };
        crowd::run(plan).await.unwrap()
    }

    async fn report(&self, seen: &Observations) -> Report {
        let core_key = self.installation.secrets.core_key.clone();
        let sources = Sources {
            gateway: self.gateway(),
            sale: self.sale.clone(),
            core: Some(self.core()),
            core_ops: Some(self.installation.cores[0].url("ops").unwrap()),
            database_url: Some(self.installation.database_url.clone()),
            redis_url: Some(self.installation.redis_url.clone()),
            shop: Some(CoreAccess { url: self.shop.clone(), key: core_key }),
        };
        judge(seen, &collect(&sources).await)
    }

    /// What `stanchion crowd` ends with at this sale.
    async fn exit_code_of_a_small_crowd(&self) -> Option<i32> {
        let (all, core) = (&self.installation, &self.installation.cores[0]);
        let mut command = tokio::process::Command::new(executable());
        command
            .args(["crowd", &self.gateway(), "--sale", &self.sale, "--shoppers", "3"])
            .args(["--core", &core.url("core").unwrap(), "--core-ops", &core.url("ops").unwrap()])
            .args(["--shop", &self.shop])
            .env("STANCHION_CORE_KEY", &all.secrets.core_key)
            .env("STANCHION_OPS_KEY", &all.secrets.ops_key)
            .env("DATABASE_URL", &all.database_url)
            .env("REDIS_URL", &all.redis_url)
            .kill_on_drop(true);
        let ended = command.output().await.unwrap();
        let said = String::from_utf8_lossy(&ended.stdout).into_owned();
        assert!(said.contains("never-oversell") && said.contains("of 15 loaded"), "{said}");
        ended.status.code()
    }

    async fn sql(&self, statements: &str) {
        let url = &self.installation.database_url;
        let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
        let connection = tokio::spawn(connection);
        client.batch_execute(statements).await.unwrap();
        drop(client);
        connection.await.unwrap().unwrap();
    }

    async fn redis(&self) -> MultiplexedConnection {
        let client = redis::Client::open(self.installation.redis_url.as_str()).unwrap();
        client.get_multiplexed_async_connection().await.unwrap()
    }

    fn key(&self, name: &str) -> String {
        format!("stanchion:{{{}}}:{name}", self.sale)
    }

    /// Lets a crowd live while `script` runs over and over, every `every_ms`.
    async fn crowd_under(&self, keys: &[String], script: &str, every_ms: u64) -> Observations {
        let mut redis = self.redis().await;
        let script = redis::Script::new(script);
        let meddle = async {
            let mut ticks = tokio::time::interval(Duration::from_millis(every_ms));
            loop {
                ticks.tick().await;
                let mut call = script.prepare_invoke();
                for key in keys {
                    call.key(key);
                }
                let () = call.invoke_async(&mut redis).await.unwrap();
            }
        };
        tokio::select! {
            seen = self.crowd() => seen,
            () = meddle => unreachable!("meddling does not end"),
        }
    }
}

/// Exactly these promises are broken, and the report is not good.
#[track_caller]
fn broken(report: &Report, names: &[&str]) {
    let found: Vec<_> = report
        .promises
        .iter()
        .filter(|(_, verdict)| verdict.holds == Some(false))
        .map(|(name, _)| *name)
        .collect();
    assert_eq!(found, names, "{:#?}", report.promises);
    assert_eq!(report.is_good(), names.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_honest_sale_keeps_every_promise_until_a_row_is_added_by_sql() {
    let scene = Scene::set("rowadded", 15, |_| ()).await;
    let seen = scene.crowd().await;
    let report = scene.report(&seen).await;
    broken(&report, &[]);
    assert_eq!((report.confirmed, report.oversold), (15, Some(0)));

    scene
        .sql(&format!(
            "WITH extra AS (
                INSERT INTO reservation
                    (id, sale, buyer, order_key, body_hash, status, expires_at, created_at)
                VALUES (gen_random_uuid(), '{}', 'nobody', 'k', '', 'confirmed', now(), now())
                RETURNING id)
             INSERT INTO reservation_line (reservation, sku, shard, qty)
             SELECT id, '{}', 0, 1 FROM extra",
            scene.sale, scene.sku
        ))
        .await;

    broken(&scene.report(&seen).await, &["never-oversell", "no-unit-lost"]);
    assert_eq!(scene.exit_code_of_a_small_crowd().await, Some(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_sold_twice_breaks_one_click_one_order_alone() {
    let scene = Scene::set("soldtwice", 500, |_| ()).await;
    let seen = scene.crowd().await;
    broken(&scene.report(&seen).await, &[]);

    scene
        .sql(
            "ALTER TABLE reservation DROP CONSTRAINT reservation_sale_buyer_order_key_key;
             WITH sold AS (SELECT * FROM reservation WHERE status = 'confirmed' LIMIT 1),
             again AS (
                INSERT INTO reservation
                    (id, sale, buyer, order_key, body_hash, status, expires_at, created_at)
                SELECT gen_random_uuid(), sale, buyer, order_key, body_hash, status, expires_at,
                    created_at FROM sold
                RETURNING id),
             line AS (
                INSERT INTO reservation_line (reservation, sku, shard, qty)
                SELECT again.id, l.sku, l.shard, l.qty
                FROM again, sold JOIN reservation_line l ON l.reservation = sold.id
                RETURNING reservation, sku, shard, qty),
             moved AS (
                INSERT INTO movement (at, kind, sku, shard, qty, reservation)
                SELECT clock_timestamp(), kind, sku, shard, qty, reservation
                FROM line, unnest(ARRAY['hold', 'confirm']) kind)
             UPDATE stock s SET available = available - line.qty, version = version + 1
             FROM line WHERE s.sku = line.sku AND s.shard = line.shard",
        )
        .await;

    broken(&scene.report(&seen).await, &["one-click-one-order"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_swapped_positions_break_fair_draw_alone() {
    let scene = Scene::set("swapped", 15, |_| ()).await;
    let mut seen = scene.crowd().await;
    let drawn: Vec<usize> = (0..seen.shoppers.len())
        .filter(|&i| seen.shoppers[i].entry.is_some() && !seen.shoppers[i].positions.is_empty())
        .take(2)
        .collect();
    let first = seen.shoppers[drawn[0]].positions.clone();
    seen.shoppers[drawn[0]].positions = seen.shoppers[drawn[1]].positions.clone();
    seen.shoppers[drawn[1]].positions = first;

    broken(&scene.report(&seen).await, &["fair-draw"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn admissions_past_the_meter_break_exact_rate_alone() {
    let scene = Scene::set("pastmeter", 15, |_| ()).await;

    // Lets the meter run at ten times the rate that is set.
    let too_fast = "local next = redis.call('HGET', KEYS[1], 'next')
        if next and tonumber(next) > 0 then
            local now = redis.call('TIME')
            local at = now[1] * 1000 + now[2] / 1000
            redis.call('HSET', KEYS[1], 'anchors', next .. ',' .. string.format('%.3f', at) .. ',600')
        end";
    let seen = scene.crowd_under(&[scene.key("meter")], too_fast, 300).await;

    broken(&scene.report(&seen).await, &["exact-rate"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ungated_path_breaks_only_the_admitted_alone() {
    let scene = Scene::set("ungated", 15, |installation| {
        installation.set("sale.0.paths", vec!["/checkout/pay"]).unwrap();
    })
    .await;
    let seen = scene.crowd().await;

    broken(&scene.report(&seen).await, &["only-the-admitted"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gate_that_says_try_to_everybody_breaks_ledger_shielded_alone() {
    let scene = Scene::set("opengate", 5, |_| ()).await;

    let wide_open = "if redis.call('HEXISTS', KEYS[1], 'count') == 1 then
            redis.call('HSET', KEYS[1], 'count', 100000)
            redis.call('HDEL', KEYS[1], 'flag')
        end";
    let key = scene.key(&format!("stock:{}", scene.sku));
    let seen = scene.crowd_under(&[key], wide_open, 10).await;

    broken(&scene.report(&seen).await, &["ledger-shielded"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_false_sold_out_breaks_honest_page_alone() {
    let scene = Scene::set("falsenews", 500, |_| ()).await;

    let emptied = "local told = redis.call('GET', KEYS[1])
        if told then
            redis.call('SET', KEYS[1], (told:gsub('\"available\":%d+', '\"available\":0')))
        end";
    let seen = scene.crowd_under(&[scene.key("figures")], emptied, 10).await;

    broken(&scene.report(&seen).await, &["honest-page"]);
}
