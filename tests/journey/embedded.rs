//! A shop on one machine: `serve` without any store's URL brings its own, and they last.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use stanchion::lab::rig::{ConfigFile, Node, SalePlan};

use crate::fixture::shopper::Shopper;
use crate::fixture::{client, executable, now_ms, quiet_shop, stores};

const PATIENCE: Duration = Duration::from_secs(30);

/// A folder with a settings file, as a merchant has one.
struct Shop {
    folder: PathBuf,
    plan: SalePlan,
}

impl Shop {
    fn new(name: &str) -> Self {
        let folder = stores().workspace(name).unwrap();
        let plan = SalePlan::opening_in(name, now_ms(), 1_000, 5);
        let mut config = ConfigFile::new(quiet_shop(), std::slice::from_ref(&plan)).unwrap();
        config.set("public.trusted_proxies", vec!["127.0.0.1/32"]).unwrap();
        config.set("sale.0.hold", "10m").unwrap();
        config.write(&folder.join("shop.toml")).unwrap();
        Self { folder, plan }
    }

    fn serve(&self) -> Command {
        let mut command = Command::new(executable());
        command.args(["serve", "-c", "shop.toml"]).current_dir(&self.folder);
        for variable in ["DATABASE_URL", "REDIS_URL", "STANCHION_CORE_KEY", "STANCHION_OPS_KEY"] {
            command.env_remove(variable);
        }
        command
    }

    fn start(&self) -> Node {
        Node::start(self.serve(), &self.folder.join("log")).unwrap()
    }

    fn data(&self) -> PathBuf {
        self.folder.join("stanchion-data")
    }

    /// Servers and reaper: whoever lives in the data folder or was told its name.
    fn processes(&self) -> Vec<i32> {
        let data = self.data().canonicalize().unwrap();
        let lives_there = |pid: &i32| {
            let about = PathBuf::from(format!("/proc/{pid}"));
            let told = fs::read(about.join("cmdline")).unwrap_or_default();
            let lives = fs::read_link(about.join("cwd")).is_ok_and(|cwd| cwd.starts_with(&data));
            lives || String::from_utf8_lossy(&told).contains(data.to_str().unwrap())
        };
        let entries = fs::read_dir("/proc").unwrap().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.filter(lives_there).collect()
    }

    fn redis(&self) -> i32 {
        let file = self.data().join("redis/redis.pid");
        fs::read_to_string(file).unwrap().trim().parse().unwrap()
    }

    async fn joined(&self, node: &Node, number: u32) -> Shopper {
        Shopper::join(&client(), &node.url("public").unwrap(), &self.plan.id, number).await
    }
}

fn kill_9(pid: i32) {
    // One that is gone already is as dead as wanted.
    let _gone = kill(Pid::from_raw(pid), Signal::SIGKILL);
}

fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test(flavor = "multi_thread")]
async fn killing_everything_at_once_loses_nothing_that_was_acknowledged() {
    let shop = Shop::new("embedded");
    let mut node = shop.start();
    let buyer = shop.joined(&node, 1).await.admitted().await;
    let sku = &shop.plan.skus[0].0;
    let held = buyer.reserve(sku, 1, "the-key").await;
    assert_eq!(held.status, 201, "{}", held.text());
    let held: Value = held.json().unwrap();
    let waiting = shop.joined(&node, 2).await;
    let place = waiting.status().await["place"].clone();

    let others = shop.processes();
    assert!(others.len() > 3, "Postgres, Redis and the reaper run: {others:?}");
    node.kill().unwrap();
    others.into_iter().for_each(kill_9);
    let node = shop.start();

    let url = node.url("public").unwrap();
    let [mut buyer, mut waiting] = [buyer, waiting];
    buyer.gateway.clone_from(&url);
    waiting.gateway = url;
    let again = waiting.status().await["place"].clone();
    assert_eq!((&again["position"], &again["entry"]), (&place["position"], &place["entry"]));
    let replay = buyer.reserve(sku, 1, "the-key").await;
    assert_eq!(replay.status, 200, "{}", replay.text());
    assert_eq!(replay.json::<Value>().unwrap()["id"], held["id"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_start_on_the_same_folder_is_refused_and_disturbs_nothing() {
    let shop = Shop::new("twice");
    let node = shop.start();

    let second = shop.serve().output().unwrap();

    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert_eq!(second.status.code(), Some(1), "{said}");
    assert!(said.contains("is in use by process") && said.contains("--data"), "{said}");
    assert!(said.contains(&node.pid().to_string()), "{said}");
    shop.joined(&node, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_of_our_own_that_dies_is_started_again_with_its_data() {
    let shop = Shop::new("revived");
    let node = shop.start();
    let first = shop.joined(&node, 1).await;
    let place = first.status().await["place"].clone();
    let before = shop.redis();

    kill_9(before);

    let since = Instant::now();
    while shop.redis() == before {
        assert!(since.elapsed() < PATIENCE, "Redis was not started again");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let again = first.clone().admitted().await.status().await["place"].clone();
    assert_eq!(again["entry"], place["entry"]);
}

#[test]
fn a_stop_leaves_no_server_behind_and_the_folder_closed_to_others() {
    let shop = Shop::new("stopped");
    let mut node = shop.start();
    for (name, open_to) in [("postgres", 0o700), ("redis", 0o700), ("run", 0o700)] {
        assert_eq!(mode(&shop.data().join(name)), open_to, "{name}");
    }
    for name in ["core.key", "ops.key"] {
        assert_eq!(mode(&shop.data().join(name)), 0o600, "{name}");
    }

    assert!(node.stop().unwrap().success());

    assert_eq!(shop.processes(), Vec::<i32>::new());
    let node = shop.start();
    assert!(node.url("public").is_ok());
}

#[test]
fn one_url_without_the_other_is_a_mistake_that_is_named() {
    let shop = Shop::new("half");
    let refused = shop.serve().env("REDIS_URL", "redis://127.0.0.1:9").output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(78), "{said}");
    assert!(said.contains("DATABASE_URL") && said.contains("--data"), "{said}");

    let mut command = shop.serve();
    command.args(["--data", "elsewhere"]).env("REDIS_URL", "redis://127.0.0.1:9");
    let refused = command.env("DATABASE_URL", "postgres://127.0.0.1:9/x").output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("leave --data out"), "{said}");
    assert!(!shop.data().exists() && !shop.folder.join("elsewhere").exists());
}
