//! A core and a gateway with one sale, on stores of their own, and tickets of its visitors.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use stanchion::clock::{Clock, SystemClock};
use stanchion::domain::id::SaleId;
use stanchion::domain::ticket::{Cohort, Ticket};
use stanchion::lab::rig::{ConfigFile, Installation, Layout, SalePlan};
use stanchion::room::keys::Keys;
use stanchion::servers::PrivateStores;

/// The one sale.
pub(super) const SALE: &str = "bench";

/// Everything behind the public listener.
pub(super) struct House {
    /// When the sale opens.
    pub(super) opens_ms: u64,
    /// `ADDR:PORT` of the gateway.
    pub(super) public: String,
    pub(super) keys: Keys,
    pub(super) installation: Installation,
    folder: PathBuf,
    // Last, so that the stores go last.
    pub(super) stores: PrivateStores,
}

impl House {
    /// Starts all; the sale opens `in_ms` from now. `change` turns further settings.
    pub(super) fn start(
        in_ms: u64,
        change: impl FnOnce(&mut ConfigFile, &Path) -> Result<()>,
    ) -> Result<Self> {
        let stores = PrivateStores::start()?;
        let urls = (stores.create_database(SALE)?, stores.redis_url());
        let folder = stores.workspace(SALE)?;
        let plan = SalePlan {
            rate: "1000/s".into(),
            skus: vec![("HOT".into(), 1_000_000, 0)],
            ..SalePlan::opening_in(SALE, SystemClock.now_ms(), in_ms, 0)
        };
        let opens_ms = plan.opens_ms;
        let mut settings = ConfigFile::new(&shop()?, &[plan])?;
        // Everybody here comes from one address.
        settings.set("public.trusted_proxies", vec!["127.0.0.1/32"])?;
        settings.set("limits.max_connections", 20_000)?;
        settings.set("limits.client.max_requests", 1_000_000_000)?;
        change(&mut settings, &folder)?;
        let executable = Path::new(env!("CARGO_BIN_EXE_stanchion"));
        let layout = Layout { gateways: 1, cores: 1 };
        let installation = Installation::start(executable, &folder, urls, layout, settings)?;
        let url = installation.gateways[0].url("public")?;
        let public = url.split("://").nth(1).context("an address without a scheme")?.to_owned();
        let keys = Keys::load(&folder.join("keys"))?;
        Ok(Self { opens_ms, public, keys, installation, folder, stores })
    }

    /// The gateway's process.
    pub(super) fn gateway(&self) -> u32 {
        self.installation.gateways[0].pid()
    }

    /// A file of our own.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The ticket of a number, as the join signs it.
    pub(super) fn ticket(&self, cohort: Cohort) -> Result<String> {
        let sale = SaleId::parse(SALE)?;
        let sub = self.keys.subject(&sale, 1, cohort);
        let issued_at = SystemClock.now_ms() / 1000;
        Ok(self.keys.mint_ticket(Ticket { sale, run: 1, sub, cohort, account: None, issued_at }))
    }
}

/// The bytes of a poll with this ticket.
pub(super) fn poll(ticket: &str) -> Vec<u8> {
    format!(
        "GET /_stanchion/{SALE}/status HTTP/1.1\r\nhost: localhost\r\n\
         cookie: stanchion-ticket-{SALE}={ticket}\r\n\r\n"
    )
    .into_bytes()
}

/// A shop that is there, and no more than that.
fn shop() -> Result<String> {
    let door = TcpListener::bind("127.0.0.1:0")?;
    let url = format!("http://{}", door.local_addr()?);
    std::thread::spawn(move || door.incoming().for_each(drop));
    Ok(url)
}

/// So high that it refuses nobody.
pub(super) fn open_quota() -> toml::Table {
    let mut quota = toml::Table::new();
    quota.insert("rate".into(), "1000000/s".into());
    quota.insert("burst".into(), 1_000_000.into());
    quota
}

/// Waits until the time has come.
pub(super) async fn until_ms(at_ms: u64) {
    tokio::time::sleep(Duration::from_millis(at_ms.saturating_sub(SystemClock.now_ms()))).await;
}
