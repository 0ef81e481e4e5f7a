//! `stanchion sale`: steers a sale that runs, by way of the operators' API of any node.

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use http::{Method, Uri};
use serde_json::{Value, json};

use super::node::Operator;
use super::{USAGE, runtime, say, say_wrong};
use crate::config::span::Span;
use crate::domain::rate::Rate;
use crate::ops::Asker;

/// What can be done with a sale.
#[derive(Subcommand)]
pub(super) enum Command {
    /// Say how the sales run.
    #[command(
        after_help = "Example:\n  stanchion sale status\n  stanchion sale status --sale spring-drop --json"
    )]
    Status(Which),
    /// Hold the line: nobody is admitted; whoever is admitted already may go on.
    #[command(after_help = "Example:\n  stanchion sale pause --sale spring-drop")]
    Pause(Which),
    /// Let the line go on.
    #[command(after_help = "Example:\n  stanchion sale resume --sale spring-drop")]
    Resume(Which),
    /// Pause and void every admission, on every node within a second; places are kept.
    #[command(after_help = "Example:\n  stanchion sale stop --sale spring-drop --yes")]
    Stop(Sure),
    /// Set how many are admitted.
    #[command(
        after_help = "Example:\n  stanchion sale rate 200/s --sale spring-drop\n  stanchion sale rate 600/min --burst 5"
    )]
    Rate {
        /// As 200/s, 600/min or 0.2/s.
        #[arg(value_name = "RATE", value_parser = Rate::parse)]
        rate: Rate,
        /// How many may be admitted at once after an idle moment.
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
        burst: Option<u32>,
        #[command(flatten)]
        which: Which,
    },
    /// Move the opening; refused once the draw has begun. The close moves along.
    #[command(
        after_help = "Example:\n  stanchion sale delay --to 2027-03-01T12:30:00Z --sale spring-drop"
    )]
    Delay {
        /// The new opening, RFC 3339.
        #[arg(long, value_name = "TIME")]
        to: jiff::Timestamp,
        /// The new close; else as long after the opening as before.
        #[arg(long, value_name = "TIME")]
        closes: Option<jiff::Timestamp>,
        #[command(flatten)]
        which: Which,
    },
    /// End a sale now. Holds run to their own end.
    #[command(after_help = "Example:\n  stanchion sale close --sale spring-drop --yes")]
    Close(Sure),
    /// Void all places and run the sale once more, with another draw; before its opening or after
    /// its close. Stock stays as it is.
    #[command(
        after_help = "Example:\n  stanchion sale reset --sale spring-drop --opens 2027-03-08T12:00:00Z --lobby-opens 2027-03-08T11:30:00Z --closes 2027-03-08T14:00:00Z --yes"
    )]
    Reset {
        /// When joining begins, if it changes.
        #[arg(long, value_name = "TIME")]
        lobby_opens: Option<jiff::Timestamp>,
        /// When the draw is, if it changes.
        #[arg(long, value_name = "TIME")]
        opens: Option<jiff::Timestamp>,
        /// When it is over, if it changes.
        #[arg(long, value_name = "TIME")]
        closes: Option<jiff::Timestamp>,
        #[command(flatten)]
        sure: Sure,
    },
    /// Let everybody to the shop for a while, never past the stock; 0s ends it.
    #[command(after_help = "Example:\n  stanchion sale bypass --for 10m --sale spring-drop")]
    Bypass {
        /// How long, at most 24h.
        #[arg(long = "for", value_name = "SPAN", value_parser = Span::parse)]
        length: Span,
        #[command(flatten)]
        which: Which,
    },
}

/// Which sale, and where.
#[derive(Args)]
pub(super) struct Which {
    /// The sale; may be left out if there is only one.
    #[arg(long, value_name = "SALE")]
    sale: Option<String>,
    /// The ops listener of any node.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:9090")]
    ops: Uri,
    #[command(flatten)]
    operator: Operator,
}

/// The same, for what cannot be undone.
#[derive(Args)]
pub(super) struct Sure {
    /// Do it; asked for when you sit at a terminal.
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    which: Which,
}

/// Runs one of them.
pub(super) fn run(command: Command) -> anyhow::Result<ExitCode> {
    let post = |action| (Method::POST, action, json!({}));
    let (which, (method, action, body)) = match command {
        Command::Status(which) => return status(&which),
        Command::Delay { to, closes, which } => return delay(&which, to, closes),
        Command::Pause(which) => (which, post("pause")),
        Command::Resume(which) => (which, post("resume")),
        Command::Stop(sure) if !sure.is_sure("void every admission") => return Ok(USAGE.into()),
        Command::Stop(sure) => (sure.which, post("stop")),
        Command::Close(sure) if !sure.is_sure("end the sale") => return Ok(USAGE.into()),
        Command::Close(sure) => (sure.which, post("close")),
        Command::Reset { sure, .. } if !sure.is_sure("void every place") => {
            return Ok(USAGE.into());
        }
        Command::Reset { lobby_opens, opens, closes, sure } => {
            let times = json!({ "lobby_opens": lobby_opens, "opens": opens, "closes": closes });
            (sure.which, (Method::POST, "reset", times))
        }
        Command::Rate { rate, burst, which } => {
            (which, (Method::PUT, "rate", json!({ "rate": rate, "burst": burst })))
        }
        Command::Bypass { length, which } => {
            (which, (Method::POST, "bypass", json!({ "for": length })))
        }
    };
    which.command(|_| Ok((method, action, body)))
}

impl Sure {
    fn is_sure(&self, to: &str) -> bool {
        let is_sure = self.yes || !std::io::stdin().is_terminal();
        if !is_sure {
            say_wrong(&format!("stanchion: this would {to}; say --yes to do it"));
        }
        is_sure
    }
}

type Wanted = (Method, &'static str, Value);

impl Which {
    /// Sends a command, which may depend on how the sale runs now, and says what is in force then.
    fn command(
        &self,
        wanted: impl FnOnce(&Value) -> anyhow::Result<Wanted>,
    ) -> anyhow::Result<ExitCode> {
        let asker = self.operator.asker(self.ops.clone())?;
        let record = runtime()?.block_on(async {
            let Some(sale) = self.one(&asker).await? else { return Ok(None) };
            let (method, action, body) = wanted(&sale)?;
            let id = sale["id"].as_str().unwrap_or_default();
            let path = format!("/v1/sales/{id}/{action}");
            asker.call(method, &path, Some(&body)).await.map(Some)
        })?;
        let Some(record) = record else { return Ok(USAGE.into()) };
        if self.operator.json {
            say(&format!("{record}\n"));
        } else {
            let times = (text(&record, "opens"), text(&record, "closes"));
            let (sale, in_force) = (text(&record, "sale"), in_force(&record));
            say(&format!("{sale}: {in_force}; opens {}, closes {}\n", times.0, times.1));
        }
        Ok(ExitCode::SUCCESS)
    }

    /// The sale that is meant; without a name, the only one.
    async fn one(&self, asker: &Asker) -> anyhow::Result<Option<Value>> {
        let mut sales = self.sales(asker).await?;
        if let [_] = sales.as_slice() {
            return Ok(sales.pop());
        }
        let ids: Vec<_> = sales.iter().map(|sale| text(sale, "id").to_owned()).collect();
        say_wrong(&format!("stanchion: --sale: name one of {}", ids.join(", ")));
        Ok(None)
    }

    async fn sales(&self, asker: &Asker) -> anyhow::Result<Vec<Value>> {
        let all = asker.call(Method::GET, "/v1/sales", None).await?;
        let all = all["sales"].as_array().cloned().unwrap_or_default();
        let Some(wanted) = &self.sale else { return Ok(all) };
        let found: Vec<_> = all.into_iter().filter(|sale| sale["id"] == **wanted).collect();
        anyhow::ensure!(!found.is_empty(), "--sale: {wanted} is not in that node's settings");
        Ok(found)
    }
}

fn status(which: &Which) -> anyhow::Result<ExitCode> {
    let asker = which.operator.asker(which.ops.clone())?;
    let sales = runtime()?.block_on(which.sales(&asker))?;
    if which.operator.json {
        say(&format!("{}\n", json!({ "sales": sales })));
        return Ok(ExitCode::SUCCESS);
    }
    let tables: String = sales.iter().map(table).collect();
    say(&tables);
    Ok(ExitCode::SUCCESS)
}

fn delay(
    which: &Which,
    to: jiff::Timestamp,
    closes: Option<jiff::Timestamp>,
) -> anyhow::Result<ExitCode> {
    which.command(|sale| {
        let ms = |name: &str| sale["control"][name].as_i64().unwrap_or(0);
        let length = ms("closes_ms").saturating_sub(ms("opens_ms"));
        let along = to.as_millisecond().saturating_add(length);
        let closes = closes.map_or_else(|| jiff::Timestamp::from_millisecond(along), Ok)?;
        Ok((Method::PUT, "times", json!({ "opens": to, "closes": closes })))
    })
}

/// A sale for people.
fn table(sale: &Value) -> String {
    let (line, control) = (&sale["line"], &sale["control"]);
    let moves = match (text(sale, "phase"), sale["paused"] == true) {
        ("open", true) => "open, paused".to_owned(),
        (phase, _) => phase.to_owned(),
    };
    let stock = match &sale["stock"] {
        Value::Null => "not known just now".to_owned(),
        stock => format!(
            "{} available, {} held, {} confirmed",
            stock["available"], stock["held"], stock["confirmed"]
        ),
    };
    let rows = [
        ("rate", in_force(control)),
        (
            "line",
            format!(
                "{} joined, {} waiting, {} of them near the front and present",
                line["joined"], line["waiting"], line["present"]
            ),
        ),
        (
            "called",
            format!(
                "{} called, {} admitted, {} missed; {} with an open admission, {} undecided",
                line["called"],
                line["admitted"],
                line["missed"],
                line["open_admissions"],
                line["undecided"]
            ),
        ),
        ("stock", stock),
        (
            "times",
            format!(
                "lobby {}, opens {}, closes {}",
                text(control, "lobby_opens"),
                text(control, "opens"),
                text(control, "closes")
            ),
        ),
        ("changed", format!("by {}", text(control, "author"))),
    ];
    let rows: Vec<_> = rows.iter().map(|(name, value)| format!("  {name:<8} {value}\n")).collect();
    let mut said = format!("{}: {moves}\n{}", text(sale, "id"), rows.concat());
    if sale["stop_reaches"] == false {
        said.push_str("  neither Redis nor a core answers that node: a stop cannot reach it\n");
    }
    said
}

/// A record in one line.
fn in_force(record: &Value) -> String {
    let paused = if record["paused"] == true { "paused, " } else { "" };
    let bypass = match record["bypass_until"].as_str() {
        Some(until) => format!(", bypass until {until}"),
        None => String::new(),
    };
    format!(
        "{paused}{} with burst {} (version {}, run {}, epoch {}){bypass}",
        text(record, "rate"),
        record["burst"],
        record["version"],
        record["run"],
        record["epoch"]
    )
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or("?")
}
