//! The lab's part of the command line.

use std::io::Write;
use std::net::SocketAddr;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use tokio::net::TcpListener;
use tracing_subscriber::filter::LevelFilter;

use super::assess::{self, Crowd};
use super::compare::{self, Compare};
use super::demo::{self, Demo};
use super::shop::{Shop, serve};
use super::simulation::{self, Simulate};

/// What runs and measures the system.
#[derive(Subcommand)]
pub enum Command {
    /// Watch a whole flash sale: private stores, a sample shop, the waiting room and a crowd.
    #[command(
        after_help = "Example:\n  stanchion demo\n  stanchion demo --once --shoppers 2000 --units 200 --rate 100/s --open-in 5s --json out.json"
    )]
    Demo(Demo),
    /// Send simulated shoppers to a sale, and check its promises.
    #[command(
        after_help = "Example:\n  stanchion crowd http://127.0.0.1:8080 --sale spring-drop --shoppers 500 --core http://127.0.0.1:7070 --core-ops http://127.0.0.1:9090"
    )]
    Crowd(Box<Crowd>),
    /// Compare ways of taking stock on private stores: who oversells, how fast, what to plan for.
    #[command(
        after_help = "Example:\n  stanchion compare\n  stanchion compare --approach reservation-ttl --approach lanes --seconds 5 --json > out.json"
    )]
    Compare(Compare),
    /// Simulate the pace of a line: absentees, jumps of them, nodes in trouble; prints what of the
    /// rate is used and who is passed.
    #[command(
        after_help = "Example:\n  stanchion simulate\n  stanchion simulate --seed 7 --seeds 1 --json > out.json"
    )]
    Simulate(Simulate),
    /// The sample shop alone.
    #[command(hide = true)]
    DemoShop(DemoShop),
}

impl Command {
    /// What is logged unless `RUST_LOG` says otherwise. The comparison breaks things on purpose.
    pub fn logs_from(&self) -> LevelFilter {
        match self {
            Self::Compare(_) => LevelFilter::ERROR,
            Self::Demo(_) | Self::Crowd(_) | Self::Simulate(_) | Self::DemoShop(_) => {
                LevelFilter::INFO
            }
        }
    }
}

/// Arguments of the sample shop.
#[derive(Args)]
pub struct DemoShop {
    /// Where it listens.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// The core, asked as a merchant's back end would.
    #[arg(long)]
    core_url: String,
    /// The sale that it takes part in.
    #[arg(long)]
    sale: String,
    /// The core's bearer key.
    #[arg(long, env = "STANCHION_CORE_KEY", hide_env_values = true)]
    core_key: String,
}

/// Runs a command of the lab.
pub async fn run(command: Command) -> Result<ExitCode> {
    match command {
        Command::Demo(args) => demo::run(args).await,
        Command::Crowd(args) => assess::run(*args).await,
        Command::Compare(args) => compare::run(args).await,
        Command::Simulate(args) => simulation::run(&args),
        Command::DemoShop(args) => demo_shop(args).await,
    }
}

async fn demo_shop(args: DemoShop) -> Result<ExitCode> {
    let listener = TcpListener::bind(args.listen).await.context("the sample shop's listener")?;
    let address = listener.local_addr()?;
    writeln!(std::io::stdout(), "listening shop={address}\nready")?;
    let stop = async {
        if let Err(error) = tokio::signal::ctrl_c().await {
            tracing::warn!(%error, "Ctrl-C is not heard");
        }
    };
    serve(listener, Shop::new(&args.core_url, &args.core_key, &args.sale), stop).await?;
    Ok(ExitCode::SUCCESS)
}
