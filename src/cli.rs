//! The command line: what was asked for, run, and the exit code it deserves.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::{Args, Parser, Subcommand};

use crate::app::Role;
use crate::clock::{Clock, SystemClock};
use crate::config::Refused;
use crate::config::load::{self, Loaded};
use crate::config::secret::MissingSecret;
use crate::domain::draw::Proof;
use crate::room::keys::Keys;

/// A file was read and refused; EX_CONFIG of sysexits.
const REFUSED: u8 = 78;

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
    /// Run the waiting room and the stock behind it.
    #[command(
        after_help = "Example:\n  stanchion serve -c config/stanchion.toml\n  stanchion serve -c config/stanchion.toml --role gateway"
    )]
    Serve(Serve),
    /// Say everything that is wrong with a settings file, by line, with what to do about it.
    #[command(after_help = "Example:\n  stanchion check config/stanchion.toml")]
    Check(Named),
    /// Ask a running node whether it is ready; for containers without curl.
    #[command(after_help = "Example:\n  stanchion healthcheck http://127.0.0.1:9090/readyz")]
    Healthcheck {
        /// The ops listener's address, with /livez or /readyz.
        #[arg(value_name = "URL", default_value = "http://127.0.0.1:9090/readyz")]
        url: http::Uri,
    },
    /// The keys that tickets and admissions are signed with.
    #[command(subcommand)]
    Keys(KeysCommand),
    /// The draw of a sale.
    #[command(subcommand)]
    Draw(DrawCommand),
    #[cfg(feature = "lab")]
    #[command(flatten)]
    Lab(crate::lab::cli::Command),
}

#[derive(Args)]
struct Serve {
    /// The settings file; else ./config/stanchion.toml, then /etc/stanchion/stanchion.toml.
    #[arg(short, long, value_name = "FILE", env = "STANCHION_CONFIG")]
    config: Option<PathBuf>,
    /// What this process is: the public edge, the owner of stock, or both in one.
    #[arg(long, value_enum, default_value_t = Role::All)]
    role: Role,
}

#[derive(Args)]
struct Named {
    /// The settings file; else ./config/stanchion.toml, then /etc/stanchion/stanchion.toml.
    #[arg(value_name = "FILE", env = "STANCHION_CONFIG")]
    file: Option<PathBuf>,
}

#[derive(Subcommand)]
enum KeysCommand {
    /// Make a folder of fresh keys; copy it to every node. Refuses a folder that has keys.
    #[command(after_help = "Example:\n  stanchion keys new --dir keys")]
    New {
        /// Where to put them: the `keys.dir` of the settings.
        #[arg(long, value_name = "DIR", default_value = "keys")]
        dir: PathBuf,
    },
}

#[derive(Subcommand)]
enum DrawCommand {
    /// Recompute a draw from its published proof; names the step that fails, if one does.
    #[command(
        after_help = "Example:\n  curl -s https://shop.example/_stanchion/spring-drop/draw > proof.json\n  stanchion draw verify proof.json --entry 17"
    )]
    Verify {
        /// The proof, as served at /_stanchion/SALE/draw.
        #[arg(value_name = "PROOF")]
        proof: PathBuf,
        /// Say the position of this entry too.
        #[arg(long, value_name = "ENTRY")]
        entry: Option<u64>,
    },
}

/// Runs the process' own command line.
pub fn run() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Serve(serve) => self::serve(&serve),
        Command::Check(named) => check(named.file.as_deref()),
        Command::Healthcheck { url } => healthcheck(&url),
        Command::Keys(KeysCommand::New { dir }) => new_keys(&dir),
        Command::Draw(DrawCommand::Verify { proof, entry }) => verify(&proof, entry),
        #[cfg(feature = "lab")]
        Command::Lab(command) => {
            crate::telemetry::start_logs(crate::config::settings::LogFormat::Text);
            runtime().and_then(|runtime| runtime.block_on(crate::lab::cli::run(command)))
        }
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            if let Some(refused) = error.downcast_ref::<Refused>() {
                say_wrong(&refused.to_string());
                return REFUSED.into();
            }
            say_wrong(&format!("stanchion: {error:#}"));
            if error.is::<MissingSecret>() { REFUSED.into() } else { ExitCode::FAILURE }
        }
    }
}

fn serve(serve: &Serve) -> anyhow::Result<ExitCode> {
    let loaded = read(serve.config.as_deref())?;
    crate::telemetry::start_logs(loaded.settings.log.format);
    for warning in &loaded.warnings {
        tracing::warn!(file = %loaded.file.display(), "{warning}");
    }
    runtime()?.block_on(crate::app::serve(loaded, serve.role))?;
    Ok(ExitCode::SUCCESS)
}

fn check(file: Option<&Path>) -> anyhow::Result<ExitCode> {
    let loaded = read(file)?;
    let mut said = String::new();
    for warning in &loaded.warnings {
        writeln!(said, "{}:{warning} (warning)", loaded.file.display())?;
    }
    let sales = loaded.settings.sales.iter().map(|sale| {
        let units: u64 = sale.skus.iter().map(|sku| sku.units).sum();
        format!("  {}: opens {}, {} units at {}", sale.id, sale.opens, units, sale.rate)
    });
    writeln!(said, "{}: good", loaded.file.display())?;
    say(&sales.fold(said, |said, sale| said + &sale + "\n"));
    Ok(ExitCode::SUCCESS)
}

fn healthcheck(url: &http::Uri) -> anyhow::Result<ExitCode> {
    let answer = runtime()?.block_on(crate::ops::ask(url))?;
    say(&answer.text);
    Ok(if answer.good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn new_keys(dir: &Path) -> anyhow::Result<ExitCode> {
    Keys::generate(dir).context("making keys")?;
    say(&format!("keys made in {}; the same folder belongs on every node\n", dir.display()));
    Ok(ExitCode::SUCCESS)
}

fn verify(file: &Path, entry: Option<u64>) -> anyhow::Result<ExitCode> {
    let text =
        std::fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
    let proof: Proof = serde_json::from_str(&text)
        .with_context(|| format!("{} is not a draw's proof", file.display()))?;
    let draw = proof.verify()?;
    let n = draw.n();
    say(&format!("the draw of {} follows from the seed committed to; n = {n}\n", proof.sale));
    if let Some(entry) = entry {
        let position = draw
            .position(entry)
            .with_context(|| format!("entry {entry} took no part; entries are 0 to n - 1"))?;
        say(&format!("entry {entry} has position {position}\n"));
    }
    Ok(ExitCode::SUCCESS)
}

/// The settings that were named, or found, read and checked.
fn read(named: Option<&Path>) -> Result<Loaded, Refused> {
    let now_ms = i64::try_from(SystemClock.now_ms()).unwrap_or(i64::MAX);
    let now = jiff::Timestamp::from_millisecond(now_ms).unwrap_or_default();
    load::load(&load::find(named)?, now)
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
