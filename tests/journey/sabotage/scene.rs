//! A small sale, the crowd that comes to it, and the judges of what it saw.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use stanchion::lab::crowd::{self, Controls, CoreAccess, Mix, Observations, Plan};
use stanchion::lab::report::{Report, Sources, collect, judge};
use stanchion::lab::rig::{ConfigFile, Installation};
use tokio_postgres::NoTls;

use crate::fixture::{Ground, executable, open_shop, quiet_shop};

const SHOPPERS: usize = 120;
const RATE: &str = "60/s";

/// A small sale with its shop, and where a crowd and its judges have to look.
pub(super) struct Scene {
    pub(super) installation: Installation,
    pub(super) sale: String,
    pub(super) sku: String,
    shop: String,
}

impl Scene {
    /// Sets the scene; `tweak` may change the gateways' settings, and is told the shop's
    /// address.
    pub(super) async fn set(
        topic: &str,
        units: u64,
        tweak: impl FnOnce(&mut Installation, &str),
    ) -> Self {
        let ground = Ground::new(topic);
        let mut plan = ground.sale_opening_in(4_000, units);
        (plan.rate, plan.hold) = (RATE.into(), "2s".into());
        let sku = plan.skus[0].0.clone();
        let mut config = ConfigFile::new(quiet_shop(), &[plan]).unwrap();
        config.set("public.trusted_proxies", vec!["127.0.0.1/32"]).unwrap();
        config.set("core.sweep_every", "1s").unwrap();

        let urls = (ground.database_url.clone(), ground.redis_url.clone());
        let mut installation =
            Installation::start_cores(executable(), &ground.folder, urls, 1, config).unwrap();
        let shop = open_shop(&installation, &ground.sale).await;
        installation.set("shop.origins", vec![shop.clone()]).unwrap();
        tweak(&mut installation, &shop);
        installation.add_gateways(1).unwrap();
        Self { installation, sale: ground.sale, sku, shop }
    }

    pub(super) fn core(&self) -> CoreAccess {
        let url = self.installation.cores[0].url("core").unwrap();
        CoreAccess { url, key: self.installation.secrets.ops_key.clone() }
    }

    pub(super) fn gateway(&self) -> String {
        self.installation.gateways[0].url("public").unwrap()
    }

    pub(super) async fn crowd(&self) -> Observations {
        crowd::run(self.plan()).await.unwrap()
    }

    /// A crowd while which the sale is steered.
    pub(super) async fn steered_crowd(&self) -> Observations {
        let url = self.installation.cores[0].url("ops").unwrap();
        let ops = CoreAccess { url, key: self.installation.secrets.ops_key.clone() };
        // So many that some still wait when the last step is taken.
        let shoppers = 2 * SHOPPERS;
        let plan = Plan { controls: Some(Controls { ops }), shoppers, ..self.plan() };
        crowd::run(plan).await.unwrap()
    }

    fn plan(&self) -> Plan {
        let gateways = self.installation.gateways.iter();
        Plan {
            gateways: gateways.map(|node| node.url("public").unwrap()).collect(),
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
        }
    }

    pub(super) async fn report(&self, seen: &Observations) -> Report {
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
    pub(super) async fn exit_code_of_a_small_crowd(&self) -> Option<i32> {
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

    pub(super) async fn sql(&self, statements: &str) {
        let url = &self.installation.database_url;
        let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
        let connection = tokio::spawn(connection);
        client.batch_execute(statements).await.unwrap();
        drop(client);
        connection.await.unwrap().unwrap();
    }

    pub(super) async fn redis(&self) -> MultiplexedConnection {
        let client = redis::Client::open(self.installation.redis_url.as_str()).unwrap();
        client.get_multiplexed_async_connection().await.unwrap()
    }

    pub(super) fn key(&self, name: &str) -> String {
        format!("stanchion:{{{}}}:{name}", self.sale)
    }

    /// Lets a crowd live while `script` runs over and over, every `every_ms`.
    pub(super) async fn crowd_under(
        &self,
        keys: &[String],
        script: &str,
        every_ms: u64,
    ) -> Observations {
        self.under(self.crowd(), keys, script, every_ms).await
    }

    /// The same for a crowd of this kind.
    pub(super) async fn under(
        &self,
        crowd: impl Future<Output = Observations>,
        keys: &[String],
        script: &str,
        every_ms: u64,
    ) -> Observations {
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
                // One that a busy machine did not answer in time is made up for by the next.
                match call.invoke_async::<()>(&mut redis).await {
                    Err(error) if !error.is_timeout() => panic!("meddling: {error}"),
                    Ok(()) | Err(_) => {}
                }
            }
        };
        tokio::select! {
            seen = crowd => seen,
            () = meddle => unreachable!("meddling does not end"),
        }
    }
}
