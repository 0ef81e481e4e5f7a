//! `stanchion reservations`: what was ordered, for those who look after it.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::{Args, Subcommand};
use http::{Method, Uri};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize as _;
use serde_json::Value;

use super::csv;
use super::node::Operator;
use super::runtime;
use crate::domain::id::SaleId;
use crate::domain::reservation::{Reservation, Status};
use crate::ops::Asker;

/// The columns, one row for each line of an order.
const COLUMNS: [&str; 10] = [
    "id",
    "sale",
    "buyer",
    "order_key",
    "status",
    "sku",
    "qty",
    "created_at",
    "expires_at",
    "payment_ref",
];

/// What can be done with reservations.
#[derive(Subcommand)]
pub(super) enum Command {
    /// Write out the reservations of a sale, oldest first.
    #[command(
        after_help = "Example:\n  stanchion reservations export --sale spring-drop\n  stanchion reservations export --sale spring-drop --status confirmed --csv sold.csv\n  stanchion reservations export --sale spring-drop --json"
    )]
    Export(Export),
}

/// Which, and in what form.
#[derive(Args)]
pub(super) struct Export {
    /// Of this sale.
    #[arg(long, value_name = "SALE", value_parser = SaleId::parse)]
    sale: SaleId,
    /// Only those that are held, confirmed, expired, released or cancelled.
    #[arg(long, value_name = "STATUS", value_parser = status)]
    status: Option<Status>,
    /// As CSV into a file, which is there when it is whole; `-` for the standard output. A text
    /// that a spreadsheet would take for a formula gets an apostrophe in front.
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    csv: Option<PathBuf>,
    /// The private listener of any core.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:7070")]
    core: Uri,
    #[command(flatten)]
    operator: Operator,
}

/// How a reservation is written.
#[derive(Clone, Copy)]
enum Form {
    /// For eyes.
    Table,
    /// RFC 4180.
    Csv,
    /// One JSON text a line.
    Json,
}

/// Runs one of them.
pub(super) fn run(command: Command) -> anyhow::Result<ExitCode> {
    let Command::Export(export) = command;
    let asker = export.operator.asker(export.core.clone())?;
    let (form, file) = match &export.csv {
        None if export.operator.json => (Form::Json, None),
        None => (Form::Table, None),
        Some(file) if file == Path::new("-") => (Form::Csv, None),
        Some(file) => (Form::Csv, Some(file)),
    };
    let pages = Pages { asker, sale: export.sale, status: export.status };
    let Some(file) = file else {
        let written = runtime()?.block_on(pages.write(form, &mut std::io::stdout().lock()));
        return gone_is_done(written);
    };
    // Half an export must not look like a whole one.
    let mut unfinished = file.clone().into_os_string();
    unfinished.push(".part");
    let shown = file.display();
    let out = File::create(&unfinished).with_context(|| format!("writing {shown}.part"))?;
    let mut out = BufWriter::new(out);
    let written = runtime()?.block_on(pages.write(form, &mut out))?;
    out.flush().with_context(|| format!("writing {shown}"))?;
    std::fs::rename(&unfinished, file).with_context(|| format!("writing {shown}"))?;
    super::say(&format!("{written} reservations in {shown}\n"));
    Ok(ExitCode::SUCCESS)
}

/// A reader that has seen enough is no failure.
fn gone_is_done(written: anyhow::Result<u64>) -> anyhow::Result<ExitCode> {
    match written {
        Ok(_) => Ok(ExitCode::SUCCESS),
        Err(error) => match error.downcast_ref::<std::io::Error>() {
            Some(gone) if gone.kind() == std::io::ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
            _ => Err(error),
        },
    }
}

fn status(raw: &str) -> Result<Status, &'static str> {
    Status::named(raw).ok_or("must be held, confirmed, expired, released or cancelled")
}

/// A search that is read page by page.
struct Pages {
    asker: Asker,
    sale: SaleId,
    status: Option<Status>,
}

impl Pages {
    /// Writes all of it, a page in memory at a time; how many reservations there were.
    async fn write(&self, form: Form, out: &mut impl Write) -> anyhow::Result<u64> {
        match form {
            Form::Table => writeln!(out, "{}", row(&COLUMNS))?,
            Form::Csv => out.write_all(csv::row(&COLUMNS).as_bytes())?,
            Form::Json => {}
        }
        let (mut after, mut written) = (None, 0);
        loop {
            let page = self.asker.call(Method::GET, &self.path(after.as_deref()), None).await?;
            for found in page["reservations"].as_array().context("the core sent no page")? {
                one(form, found, out)?;
                written += 1;
            }
            after = page["next"].as_str().map(str::to_owned);
            if after.is_none() {
                return Ok(written);
            }
        }
    }

    fn path(&self, after: Option<&str>) -> String {
        let given = [
            Some(("sale", self.sale.as_str())),
            self.status.map(|status| ("status", status.as_str())),
            after.map(|after| ("after", after)),
        ];
        let given = given.into_iter().flatten().map(|(name, value)| {
            format!("{name}={}", utf8_percent_encode(value, NON_ALPHANUMERIC))
        });
        format!("/v1/reservations?{}", given.collect::<Vec<_>>().join("&"))
    }
}

fn one(form: Form, found: &Value, out: &mut impl Write) -> anyhow::Result<()> {
    if let Form::Json = form {
        return Ok(writeln!(out, "{found}")?);
    }
    let reservation = Reservation::deserialize(found).context("the core sent no reservation")?;
    for cells in rows(&reservation) {
        match form {
            Form::Csv => out.write_all(csv::row(&cells).as_bytes())?,
            Form::Table | Form::Json => writeln!(out, "{}", row(&cells))?,
        }
    }
    Ok(())
}

/// One row a line; a release that came before its order has none, and one row all the same.
fn rows(reservation: &Reservation) -> Vec<[String; 10]> {
    let lines = reservation.lines.iter().map(|line| (line.sku.to_string(), line.qty.to_string()));
    let mut lines: Vec<_> = lines.collect();
    if lines.is_empty() {
        lines.push((String::new(), "0".to_owned()));
    }
    let cells = |(sku, qty)| {
        [
            reservation.id.to_string(),
            reservation.sale.to_string(),
            reservation.buyer.to_string(),
            reservation.order_key.to_string(),
            reservation.status.as_str().to_owned(),
            sku,
            qty,
            reservation.created_at.to_string(),
            reservation.expires_at.to_string(),
            reservation.payment_ref.clone().unwrap_or_default(),
        ]
    };
    lines.into_iter().map(cells).collect()
}

/// A row for eyes: what does not fit its column pushes the others on.
fn row<S: AsRef<str>>(cells: &[S; 10]) -> String {
    const WIDTHS: [usize; 10] = [36, 16, 20, 20, 9, 16, 4, 30, 30, 0];
    let cells = cells.iter().zip(WIDTHS).map(|(cell, width)| format!("{:<width$}", cell.as_ref()));
    cells.collect::<Vec<_>>().join(" ").trim_end().to_owned()
}
