//! Both stores in one folder, under one reaper.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result};

use super::folder::Folder;
use super::{PrivatePostgres, PrivateRedis};

/// A Postgres and a Redis of our own, stopped and removed when dropped or when we die.
pub struct PrivateStores {
    /// The next of Redis' numbered databases to be handed out.
    next_redis: AtomicU32,
    postgres: PrivatePostgres,
    redis: PrivateRedis,
    folder: Arc<Folder>,
}

impl PrivateStores {
    /// Starts both; blocks until they answer (1 to 3 s, most of it `initdb`).
    pub fn start() -> Result<Self> {
        Self::start_with(&[])
    }

    /// The same, Postgres with these settings, as `shared_buffers=1GB`, beside and over ours.
    pub fn start_with(postgres: &[String]) -> Result<Self> {
        let folder = Arc::new(Folder::create()?);
        let redis = PrivateRedis::start_in(&folder)?;
        let postgres = PrivatePostgres::start_in(&folder, postgres)?;
        Ok(Self { postgres, redis, folder, next_redis: AtomicU32::new(1) })
    }

    /// The URL of the database that is always there.
    pub fn database_url(&self) -> String {
        self.postgres.url()
    }

    /// The URL of the Redis.
    pub fn redis_url(&self) -> String {
        self.redis.url()
    }

    /// Makes a database of this name; returns its URL. Blocks.
    pub fn create_database(&self, name: &str) -> Result<String> {
        self.postgres.create_database(name)
    }

    /// The URL of a numbered database of the Redis that nobody was given before.
    pub fn create_redis_database(&self) -> String {
        format!("{}{}", self.redis.url(), self.next_redis.fetch_add(1, Ordering::Relaxed))
    }

    /// A folder of our own beside the stores'. A process that runs in it is killed when the
    /// stores go, so that nothing outlives us.
    pub fn workspace(&self, name: &str) -> Result<PathBuf> {
        let folder = self.folder.path().join("work").join(name);
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("making the folder {}", folder.display()))?;
        Ok(folder)
    }

    /// The Postgres, to be killed and restarted.
    pub fn postgres(&self) -> &PrivatePostgres {
        &self.postgres
    }

    /// The Redis, to be stopped, killed and restarted.
    pub fn redis(&self) -> &PrivateRedis {
        &self.redis
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpStream;
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    use super::*;

    const HOLDER: &str = "STANCHION_TEST_HOLDS_STORES";

    fn port_of(url: &str) -> u16 {
        let authority = url.split('/').nth(2).unwrap();
        authority.rsplit(':').next().unwrap().parse().unwrap()
    }

    fn answers(url: &str) -> bool {
        TcpStream::connect(("127.0.0.1", port_of(url))).is_ok()
    }

    #[test]
    fn databases_are_made_and_a_killed_redis_comes_back_on_its_port() {
        let stores = PrivateStores::start().unwrap();
        let url = stores.create_database("one").unwrap();
        assert!(url.ends_with("/one"));
        assert!(stores.create_database("one").is_err());
        assert!(stores.create_database("no\"quotes").is_err());

        stores.redis().kill().unwrap();
        assert!(!answers(&stores.redis_url()));
        stores.redis().restart().unwrap();
        assert!(answers(&stores.redis_url()));
        stores.postgres().restart().unwrap();
        assert!(stores.create_database("two").is_ok());

        let urls = [stores.database_url(), stores.redis_url()];
        drop(stores);
        assert!(urls.iter().all(|url| !answers(url)));
    }

    /// The other half of the next test: holds stores in a process of its own until killed.
    #[test]
    fn holder() {
        if std::env::var_os(HOLDER).is_none() {
            return;
        }
        let stores = PrivateStores::start().unwrap();
        let urls = format!("holding {} {}\n", stores.database_url(), stores.redis_url());
        std::io::stderr().write_all(urls.as_bytes()).unwrap();
        std::thread::sleep(Duration::from_mins(1));
    }

    #[test]
    fn stores_go_when_their_owner_is_killed() {
        let mut owner = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "servers::pair::tests::holder", "--nocapture"])
            .env(HOLDER, "1")
            .stderr(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let said = BufReader::new(owner.stderr.take().unwrap())
            .lines()
            .map_while(Result::ok)
            .find_map(|line| line.strip_prefix("holding ").map(str::to_owned))
            .unwrap();
        let urls: Vec<_> = said.split(' ').collect();
        assert!(urls.iter().all(|url| answers(url)));

        owner.kill().unwrap();
        owner.wait().unwrap();

        let since = Instant::now();
        while urls.iter().any(|url| answers(url)) {
            assert!(since.elapsed() < Duration::from_secs(10), "the servers outlived their owner");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
