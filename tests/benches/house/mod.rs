//! A real gateway in front of an origin: one sale whose visitors are let through, one whose lobby
//! is open, plain and TLS listeners.

use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context, Result};
use stanchion::clock::{Clock, SystemClock};
use stanchion::domain::admission::Admission;
use stanchion::domain::id::SaleId;
use stanchion::domain::ticket::{Cohort, Ticket};
use stanchion::lab::client::Client;
use stanchion::lab::rig::{ConfigFile, Installation, Layout, SalePlan};
use stanchion::room::keys::Keys;
use stanchion::servers::PrivateStores;
use toml::{Table, Value};

use crate::yard::{Certificate, Target};

/// The sale that has opened.
const OPEN: &str = "open";
/// The sale that has not.
const LOBBY: &str = "lobby";

/// A gateway and its core.
pub(crate) struct House {
    pub(crate) http: SocketAddr,
    pub(crate) https: SocketAddr,
    pass: String,
    // In this order, so that the stores go last.
    installation: Installation,
    _stores: PrivateStores,
}

impl House {
    /// Starts all; `/checkout/**` is behind the open sale, `/lobby/**` behind the other.
    pub(crate) fn build(
        program: &Path,
        origin: SocketAddr,
        certificate: &Certificate,
    ) -> Result<Self> {
        let stores = PrivateStores::start()?;
        let urls = (stores.create_database("edge")?, stores.redis_url());
        let folder = stores.workspace("edge")?;
        let layout = Layout { gateways: 1, cores: 1 };
        let settings = settings(origin, certificate)?;
        let installation = Installation::start(program, &folder, urls, layout, settings)?;
        let bound = |tls| {
            let mut all = installation.gateways[0].bound().iter();
            let found = all.find(|bound| bound.name == "public" && bound.tls == tls);
            found.map(|bound| bound.addr).context("no such listener")
        };
        let (http, https) = (bound(false)?, bound(true)?);
        let pass = pass(&Keys::load(&folder.join("keys"))?)?;
        Ok(Self { http, https, pass, installation, _stores: stores })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.installation.gateways[0].pid()
    }

    /// A path behind the open sale, asked for with a pass.
    pub(crate) fn admitted(&self, scheme: &str, path: &str) -> Target {
        self.target(scheme, &format!("/checkout{path}")).with("Cookie", &self.cookie(scheme))
    }

    /// The cookie of the pass.
    pub(crate) fn cookie(&self, scheme: &str) -> String {
        let prefix = if scheme == "https" { "__Host-" } else { "" };
        format!("{prefix}stanchion-pass-{OPEN}={}", self.pass)
    }

    /// A path behind the sale whose lobby is open, asked for by somebody without a place.
    pub(crate) fn waiting(&self, scheme: &str, path: &str) -> Target {
        self.target(scheme, &format!("/lobby{path}"))
    }

    /// The bytes of what somebody without a place is told, who accepts this.
    pub(crate) async fn queue_answer(&self, accept: &str) -> Result<Vec<u8>> {
        let client = Client::new(1);
        let url = format!("http://{}/lobby/a", self.http);
        Ok(client.get(&url, &[("accept", accept)]).await?.body.to_vec())
    }

    fn target(&self, scheme: &str, path: &str) -> Target {
        let address = if scheme == "https" { self.https } else { self.http };
        Target::new(format!("{scheme}://{address}{path}"), self.pid())
    }
}

fn settings(origin: SocketAddr, certificate: &Certificate) -> Result<ConfigFile> {
    let now_ms = SystemClock.now_ms();
    let plans = [
        SalePlan::opening_in(OPEN, now_ms, 500, 100),
        SalePlan::opening_in(LOBBY, now_ms, 3_600_000, 100),
    ];
    let mut settings = ConfigFile::new(&format!("http://{origin}"), &plans)?;
    settings.set("sale.1.paths", vec!["/lobby", "/lobby/**"])?;
    let listener = |tls: bool| {
        let mut table = Table::new();
        table.insert("addr".into(), "127.0.0.1:0".into());
        table.insert("tls".into(), tls.into());
        Value::Table(table)
    };
    settings.set("public.listener", Value::Array(vec![listener(false), listener(true)]))?;
    let mut pair = Table::new();
    for (name, file) in [("cert_file", &certificate.cert), ("key_file", &certificate.key)] {
        pair.insert(name.into(), file.to_str().context("a folder's name")?.into());
    }
    settings.set("public.certificates", Value::Array(vec![Value::Table(pair)]))?;
    // One address stands for all clients, one pass for all visitors.
    for most in ["max_requests_per_ip", "max_requests_per_admission"] {
        settings.set(&format!("limits.{most}"), 4096)?;
    }
    settings.set("limits.max_handshakes_per_ip", 4096)?;
    for quota in ["per_ip", "per_admission"] {
        let mut table = Table::new();
        table.insert("rate".into(), "1000000/s".into());
        table.insert("burst".into(), 1_000_000.into());
        settings.set(&format!("limits.{quota}"), table)?;
    }
    Ok(settings)
}

/// An admission to the open sale that lasts as long as any measuring.
fn pass(keys: &Keys) -> Result<String> {
    let ticket = Ticket {
        sale: SaleId::parse(OPEN)?,
        run: 1,
        sub: "shopper".into(),
        cohort: Cohort::Entry(0),
        account: None,
        issued_at: 1,
    };
    let now_ms = SystemClock.now_ms();
    let admission = Admission::at_slot(&ticket, 1, 0, now_ms, 3_600_000, "j0".into());
    Ok(keys.mint_admission(&admission))
}
