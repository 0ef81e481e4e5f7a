//! A Redis that would forget counters when its memory is full: refused at the start, told of later.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use stanchion::config::settings::RedisMode;
use stanchion::lab::rig::{Installation, Layout};
use stanchion::servers::{PrivateCluster, PrivateRedis};
use stanchion::store::redis::{connect, connect_as};

use super::{config, plan};
use crate::fixture::{Ground, client, executable};

fn policy(name: &str) -> redis::Cmd {
    redis::cmd("CONFIG").arg("SET").arg("maxmemory-policy").arg(name).to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn rs_52_a_redis_that_evicts_is_refused_at_the_start_and_told_of_later() {
    let redis = PrivateRedis::start().unwrap();
    let store = connect(&redis.url()).unwrap();
    let ground = Ground::new("evicts");
    let layout = Layout { gateways: 1, cores: 1 };
    let stores = (ground.database_url.clone(), redis.url());
    let config = config(&plan(&ground), "single", "");
    let installation =
        Installation::start(executable(), &ground.folder, stores, layout, config).unwrap();

    store.command::<()>(&policy("allkeys-lru")).await.unwrap();

    let since = Instant::now();
    let metrics = format!("{}/metrics", installation.gateways[0].url("ops").unwrap());
    while !client().get(&metrics, &[]).await.unwrap().text().contains("redis_evicting_servers 1") {
        assert!(since.elapsed() < Duration::from_secs(30), "nobody was told");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    for role in ["core", "gateway"] {
        let mut command = Command::new(executable());
        command.args(["serve", "--role", role, "-c"]).arg(installation.config_file(role, 0));
        command
            .env("STANCHION_CORE_KEY", "core")
            .env("REDIS_URL", redis.url())
            .env("DATABASE_URL", &ground.database_url)
            .stdin(Stdio::null());
        // The ports in the file are those of nobody: each process gets its own.
        let out = tokio::task::block_in_place(|| command.output()).unwrap();
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(!out.status.success(), "{role} started");
        assert!(said.contains("allkeys-lru") && said.contains("noeviction"), "{role}: {said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_cluster_every_primary_is_asked_for_its_policy() {
    let redis = PrivateCluster::start().unwrap();
    let store = connect_as(RedisMode::Cluster, &redis.urls(), "").unwrap();
    assert_eq!(store.evicting().await.unwrap(), Vec::<String>::new());

    let last = redis.primary_of("{winter-drop}").unwrap();
    let one = connect(&format!("redis://127.0.0.1:{last}")).unwrap();
    one.command::<()>(&policy("volatile-ttl")).await.unwrap();

    let complaints = store.evicting().await.unwrap();
    assert_eq!(complaints.len(), 1, "{complaints:?}");
    assert!(complaints[0].contains(&last.to_string()), "{complaints:?}");
}
