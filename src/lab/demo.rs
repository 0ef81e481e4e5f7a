//! `stanchion demo`: a whole flash sale on this machine, from nothing to the report.

use std::io::{IsTerminal, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use tokio::signal::unix::{SignalKind, signal};

use super::behaviour::Behaviour;
use super::rig::{ConfigFile, Installation, Node, rfc3339};
use crate::clock::{Clock, SystemClock};
use crate::config::span::Span;
use crate::domain::rate::Rate;
use crate::servers::PrivateStores;

const SETTINGS: &str = include_str!("../../config/demo.toml");
const SALE: &str = "demo";
/// Where a person looks first; another one if it is taken.
const PORT: u16 = 8080;
/// So that whatever concerns every node concerns more than one.
const GATEWAYS: usize = 2;
/// As a shell says "ended by Ctrl-C".
const INTERRUPTED: u8 = 130;

/// Arguments of the demo.
#[derive(Args)]
pub struct Demo {
    /// End with the report, though a person may be watching.
    #[arg(long)]
    once: bool,
    /// Units on sale.
    #[arg(long, default_value_t = 120, value_parser = clap::value_parser!(u32).range(1..))]
    units: u32,
    /// Admissions per second.
    #[arg(long, default_value = "5/s", value_parser = Rate::parse)]
    rate: Rate,
    /// How long the lobby is open.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = Span::parse)]
    open_in: Span,
    #[command(flatten)]
    behaviour: Behaviour,
}

/// Everything that runs, in the order in which it ends.
struct House {
    shop: Node,
    installation: Installation,
    stores: PrivateStores,
}

/// Runs the demo; the exit code is the crowd's.
pub(super) async fn run(args: Demo) -> Result<ExitCode> {
    let executable = std::env::current_exe().context("finding this program")?;
    let house = House::build(&args, &executable)?;
    house.tell(&args)?;

    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut crowd = house.crowd(&args, &executable)?.spawn().context("starting the crowd")?;
    let ended = tokio::select! {
        ended = crowd.wait() => ended.context("waiting for the crowd")?,
        _ = interrupt.recv() => return Ok(INTERRUPTED.into()),
        _ = terminate.recv() => return Ok(INTERRUPTED.into()),
    };
    let code = ended.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
    if !args.once && std::io::stdout().is_terminal() {
        say("\nThe crowd has gone; the shop stays open. Ctrl-C ends everything.\n")?;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    }
    Ok(code.into())
}

impl House {
    /// Stores, then the core, the shop that asks it, and the gateway before the shop.
    fn build(args: &Demo, executable: &Path) -> Result<Self> {
        say("Starting a private Postgres and Redis, a core, two gateways and a shop …\n")?;
        let stores = PrivateStores::start()?;
        let folder = stores.workspace("demo")?;
        let urls = (stores.create_database("demo")?, stores.redis_url());
        let mut installation =
            Installation::start_cores(executable, &folder, urls, 1, settings(args)?)?;
        let shop = open_shop(&installation, executable)?;
        let origin = shop.url("shop")?;
        installation.set("shop.origins", vec![origin.clone()])?;
        installation.set("account.forward_auth.url", format!("{origin}/whoami"))?;
        installation.add_gateways(1)?;
        // Only one can have the port that people know.
        installation.set("public.listener.0.addr", "127.0.0.1:0")?;
        installation.add_gateways(GATEWAYS - 1)?;
        Ok(Self { shop, installation, stores })
    }

    /// What to open and what to do there.
    fn tell(&self, args: &Demo) -> Result<()> {
        let public = self.public()?.replace("127.0.0.1", "localhost");
        let gateway = &self.installation.gateways[0];
        say(&format!(
            "
  the shop, behind the waiting room   {public}/
  the queue page                      {public}/_stanchion/{SALE}
  the operators' page                 {}/
  its key, to pause or stop the sale  {}

  {} units, {} shoppers, {} admissions a second; the sale opens in about {}.
  Open the shop in a browser, press Buy, and queue among them. Ctrl-C ends everything.

",
            gateway.url("ops")?,
            self.installation.secrets.ops_key,
            args.units,
            args.behaviour.shoppers,
            args.rate.get(),
            String::from(args.open_in),
        ))
    }

    fn public(&self) -> Result<String> {
        self.installation.gateways[0].url("public")
    }

    /// The crowd as a process of its own, which may look into everything.
    fn crowd(&self, args: &Demo, executable: &Path) -> Result<tokio::process::Command> {
        let (all, core) = (&self.installation, &self.installation.cores[0]);
        let gateways: Result<Vec<_>> = all.gateways.iter().map(|node| node.url("public")).collect();
        let mut command = tokio::process::Command::new(executable);
        command
            .arg("crowd")
            .args(gateways?)
            .args(["--sale", SALE])
            .args(["--core", &core.url("core")?, "--core-ops", &core.url("ops")?])
            .args(["--shop", &self.shop.url("shop")?])
            .args(args.behaviour.to_args()?)
            .env("STANCHION_CORE_KEY", &all.secrets.core_key)
            .env("STANCHION_OPS_KEY", &all.secrets.ops_key)
            .env("DATABASE_URL", &all.database_url)
            .env("REDIS_URL", &all.redis_url)
            // Where the stores' reaper finds it, should we be killed.
            .current_dir(self.stores.workspace("demo")?)
            .process_group(0)
            .kill_on_drop(true);
        Ok(command)
    }
}

/// The demo's settings with this run's times, units and rate.
fn settings(args: &Demo) -> Result<ConfigFile> {
    let now = SystemClock.now_ms();
    let opens = now + args.open_in.ms();
    let mut settings = ConfigFile::parse(SETTINGS)?;
    settings.listen_on_free_ports()?;
    if !args.once && TcpListener::bind((Ipv4Addr::LOCALHOST, PORT)).is_ok() {
        settings.set("public.listener.0.addr", format!("127.0.0.1:{PORT}"))?;
    }
    settings.set("sale.0.lobby_opens", rfc3339(now.saturating_sub(1_000))?)?;
    settings.set("sale.0.opens", rfc3339(opens)?)?;
    settings.set("sale.0.closes", rfc3339(opens + 3_600_000)?)?;
    settings.set("sale.0.rate", String::from(args.rate))?;
    settings.set("sale.0.sku.0.units", i64::from(args.units))?;
    Ok(settings)
}

fn open_shop(installation: &Installation, executable: &Path) -> Result<Node> {
    let mut command = std::process::Command::new(executable);
    command
        .args(["demo-shop", "--sale", SALE, "--core-url", &installation.cores[0].url("core")?])
        .env("STANCHION_CORE_KEY", &installation.secrets.core_key);
    Node::start(command, &installation.folder().join("shop.log"))
}

fn say(text: &str) -> Result<()> {
    let mut out = std::io::stdout();
    out.write_all(text.as_bytes())?;
    out.flush().context("writing to standard output")
}
