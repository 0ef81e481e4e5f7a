//! `stanchion pass`: staff passes, by way of the operators' API of any node.

use std::fmt::Write as _;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use http::{Method, Uri};
use serde_json::{Value, json};

use super::node::Operator;
use super::{runtime, say};
use crate::domain::id::SaleId;
use crate::domain::pass::USES_MAX;

/// What can be done with passes.
#[derive(Subcommand)]
pub(super) enum Command {
    /// Make a pass and print it, this once. Its bearer goes past the line as often as it says, by
    /// the page /_stanchion/pass or the header Stanchion-Pass.
    #[command(
        after_help = "Example:\n  stanchion pass new --sale spring-drop --uses 5 --expires 2h"
    )]
    New {
        /// The sale it is for.
        #[arg(long, value_name = "SALE", value_parser = SaleId::parse)]
        sale: SaleId,
        /// How often it may be used.
        #[arg(
            long, value_name = "N", default_value_t = 1,
            value_parser = clap::value_parser!(u32).range(1..=i64::from(USES_MAX))
        )]
        uses: u32,
        /// How long it lasts, or until when: 2h, or 2027-03-01T14:00:00Z.
        #[arg(long, value_name = "SPAN|TIME", default_value = "2h")]
        expires: String,
        #[command(flatten)]
        at: At,
    },
    /// List the passes, the newest first, and how often each was used.
    #[command(after_help = "Example:\n  stanchion pass list --sale spring-drop --json")]
    List {
        /// Of this sale only.
        #[arg(long, value_name = "SALE", value_parser = SaleId::parse)]
        sale: Option<SaleId>,
        #[command(flatten)]
        at: At,
    },
    /// Revoke a pass: no further use of it counts. Who is in already stays in.
    #[command(
        after_help = "Example:\n  stanchion pass revoke 0190d5a0-0000-7000-8000-000000000000"
    )]
    Revoke {
        /// Its id, as `pass new` and `pass list` tell it.
        #[arg(value_name = "ID")]
        id: uuid::Uuid,
        #[command(flatten)]
        at: At,
    },
}

/// Which node is asked.
#[derive(Args)]
pub(super) struct At {
    /// The ops listener of any node.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:9090")]
    ops: Uri,
    #[command(flatten)]
    operator: Operator,
}

impl At {
    fn call(&self, method: Method, path: &str, body: Option<&Value>) -> anyhow::Result<Value> {
        let asker = self.operator.asker(self.ops.clone())?;
        runtime()?.block_on(asker.call(method, path, body))
    }

    fn tell(&self, answer: &Value, text: &str) -> anyhow::Result<ExitCode> {
        if self.operator.json {
            say(&format!("{}\n", serde_json::to_string_pretty(answer)?));
        } else {
            say(text);
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Runs one of them.
pub(super) fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::New { sale, uses, expires, at } => {
            let body = json!({ "sale": sale, "uses": uses, "expires": expires });
            let made = at.call(Method::POST, "/v1/passes", Some(&body))?;
            let text = format!(
                "{}\n{} uses until {}; revoke it by: stanchion pass revoke {}\n",
                said(&made, "pass"),
                made["uses"],
                said(&made, "expires_at"),
                said(&made, "id"),
            );
            at.tell(&made, &text)
        }
        Command::List { sale, at } => {
            let query = sale.map(|sale| format!("?sale={sale}")).unwrap_or_default();
            let listed = at.call(Method::GET, &format!("/v1/passes{query}"), None)?;
            at.tell(&listed, &table(&listed))
        }
        Command::Revoke { id, at } => {
            let gone = at.call(Method::DELETE, &format!("/v1/passes/{id}"), None)?;
            let (spent, uses) = (&gone["used"], &gone["uses"]);
            at.tell(&gone, &format!("revoked; it was used {spent} of {uses} times\n"))
        }
    }
}

fn said<'a>(of: &'a Value, name: &str) -> &'a str {
    of[name].as_str().unwrap_or_default()
}

fn table(listed: &Value) -> String {
    let mut text = String::new();
    for pass in listed["passes"].as_array().into_iter().flatten() {
        let used = format!("{} of {}", pass["used"], pass["uses"]);
        let _infallible = writeln!(
            text,
            "{}  {:<20} {:<8} {used:<14} until {}",
            said(pass, "id"),
            said(pass, "sale"),
            said(pass, "status"),
            said(pass, "expires_at"),
        );
    }
    if text.is_empty() { "no passes\n".to_owned() } else { text }
}
