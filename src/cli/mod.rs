//! The command line: what was asked for, run, and the exit code it deserves.

mod check;
mod csv;
mod draw;
mod init;
mod keys;
mod migrate;
mod node;
mod pass;
mod reservations;
mod sale;
mod serve;
mod shell;
mod stock;

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use clap::{Parser, Subcommand};

use crate::clock::{Clock, SystemClock};
use crate::config::Refused;
use crate::config::load::{self, Loaded};
use crate::config::secret::MissingSecret;

/// A file was read and refused; EX_CONFIG of sysexits.
const REFUSED: u8 = 78;
/// The command line is wrong.
const USAGE: u8 = 2;

/// A waiting room for flash sales, put in front of the shop you already run.
///
/// Shoppers who arrive before the opening get equal odds in a draw that anybody can check; then
/// they are let in at the rate you set, and no unit is ever sold twice.
///
/// Exit codes: 0 good, 1 failed, 2 wrong command line, 78 settings refused.
#[derive(Parser)]
#[command(
    version,
    about,
    after_help = "Example:\n  stanchion demo        watch a sale happen\n  stanchion check config/stanchion.toml\n  stanchion serve -c config/stanchion.toml"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Write a commented settings file for your shop and a sale.
    #[command(
        after_help = "Example:\n  stanchion init shop.toml --shop http://127.0.0.1:3000 --hostname shop.example --sale spring-drop --opens 2027-03-01T12:00:00Z --units 500 --rate 20/s"
    )]
    Init(init::Init),
    /// Run the waiting room and the stock behind it.
    #[command(
        after_help = "Example:\n  stanchion serve -c config/stanchion.toml\n  stanchion serve -c config/stanchion.toml --role gateway"
    )]
    Serve(serve::Serve),
    /// Say everything that is wrong with a settings file, by line, with what to do about it.
    #[command(
        after_help = "Example:\n  stanchion check config/stanchion.toml\n  stanchion check --diff running.toml new.toml"
    )]
    Check(check::Check),
    /// Ask a running node whether it is ready; for containers without curl.
    #[command(after_help = "Example:\n  stanchion healthcheck http://127.0.0.1:9090/readyz")]
    Healthcheck {
        /// The ops listener's address, with /livez or /readyz.
        #[arg(value_name = "URL", default_value = "http://127.0.0.1:9090/readyz")]
        url: http::Uri,
    },
    /// Bring the ledger's schema up to date; every core does so when it starts.
    #[command(after_help = "Example:\n  stanchion migrate -c config/stanchion.toml")]
    Migrate(migrate::Migrate),
    /// Steer a sale while it runs, from any node; every node follows within a second.
    #[command(subcommand)]
    Sale(sale::Command),
    /// Staff passes: counted ways past the line.
    #[command(subcommand)]
    Pass(pass::Command),
    /// The orders of the sales.
    #[command(subcommand)]
    Reservations(reservations::Command),
    /// The stock of the sales.
    #[command(subcommand)]
    Stock(stock::Command),
    /// The keys that tickets and admissions are signed with.
    #[command(subcommand)]
    Keys(keys::Command),
    /// The draw of a sale.
    #[command(subcommand)]
    Draw(draw::Command),
    /// Completions for a shell, to be put where it looks for them.
    #[command(
        after_help = "Example:\n  stanchion completions bash > /etc/bash_completion.d/stanchion"
    )]
    Completions {
        /// The shell.
        #[arg(value_name = "SHELL")]
        shell: clap_complete::Shell,
    },
    /// The manual page of the program, or of a command.
    #[command(after_help = "Example:\n  stanchion man serve | man -l -")]
    Man {
        /// A command, as `keys rotate`; else the program.
        #[arg(value_name = "COMMAND")]
        command: Vec<String>,
    },
    #[cfg(feature = "lab")]
    #[command(flatten)]
    Lab(crate::lab::cli::Command),
}

/// Runs the process' own command line.
pub fn run() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Init(args) => init::run(&args),
        Command::Serve(args) => serve::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Healthcheck { url } => healthcheck(&url),
        Command::Migrate(args) => migrate::run(&args),
        Command::Sale(command) => sale::run(command),
        Command::Pass(command) => pass::run(command),
        Command::Reservations(command) => reservations::run(command),
        Command::Stock(command) => stock::run(command),
        Command::Keys(command) => keys::run(command),
        Command::Draw(command) => draw::run(command),
        Command::Completions { shell } => shell::completions(shell),
        Command::Man { command } => shell::man(&command),
        #[cfg(feature = "lab")]
        Command::Lab(command) => {
            let format = crate::config::settings::LogFormat::Text;
            crate::telemetry::start_logs_from(format, command.logs_from());
            runtime().and_then(|runtime| runtime.block_on(crate::lab::cli::run(command)))
        }
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            if let Some(refused) = error.downcast_ref::<Refused>() {
                say_wrong(&refused.explained());
                return REFUSED.into();
            }
            say_wrong(&format!("stanchion: {error:#}"));
            if error.is::<MissingSecret>() { REFUSED.into() } else { ExitCode::FAILURE }
        }
    }
}

fn healthcheck(url: &http::Uri) -> anyhow::Result<ExitCode> {
    let answer = runtime()?.block_on(crate::ops::ask(url))?;
    say(&answer.text);
    Ok(if answer.good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The settings that were named, or found, read and checked.
fn read(named: Option<&Path>) -> Result<Loaded, Refused> {
    load::load(&load::find(named)?, now())
}

/// By this machine's clock.
fn now() -> jiff::Timestamp {
    let now_ms = i64::try_from(SystemClock.now_ms()).unwrap_or(i64::MAX);
    jiff::Timestamp::from_millisecond(now_ms).unwrap_or_default()
}

fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().context("starting the runtime")
}

/// The one place that writes what a command has found out; a closed pipe ends nothing.
fn say(text: &str) {
    use std::io::Write as _;
    let _closed = std::io::stdout().write_all(text.as_bytes());
}

fn say_wrong(text: &str) {
    use std::io::Write as _;
    let _closed = writeln!(std::io::stderr(), "{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_an_example_in_its_help() {
        use clap::CommandFactory;
        fn look(command: &clap::Command) {
            let group = command.has_subcommands();
            let shown = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let fine = group || command.is_hide_set() || shown.contains("Example");
            assert!(fine, "{} has no example", command.get_name());
            command.get_subcommands().for_each(look);
        }
        let cli = Cli::command();
        cli.clone().debug_assert();
        look(&cli);
    }
}
