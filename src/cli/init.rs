//! `stanchion init`: a commented settings file for one shop and one sale.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Args;
use jiff::{SignedDuration, Timestamp};

use super::{now, say};
use crate::config::Refused;
use crate::config::load;
use crate::config::span::Span;
use crate::domain::rate::Rate;

const TEMPLATE: &str = include_str!("../../config/init.toml");

/// Arguments of `init`.
#[derive(Args)]
pub(super) struct Init {
    /// The file to write.
    #[arg(value_name = "FILE", default_value = "shop.toml")]
    file: PathBuf,
    /// Where your shop runs now.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:3000")]
    shop: String,
    /// The name that shoppers type; may be given several times.
    #[arg(long = "hostname", value_name = "HOST")]
    hostnames: Vec<String>,
    /// The sale's id, as in addresses.
    #[arg(long, value_name = "ID", default_value = "spring-drop")]
    sale: String,
    /// The opening second, as 2027-03-01T12:00:00Z; else this hour tomorrow.
    #[arg(long, value_name = "TIME")]
    opens: Option<Timestamp>,
    /// How long before the opening joining begins.
    #[arg(long, value_name = "DURATION", default_value = "30m", value_parser = Span::parse)]
    lobby: Span,
    /// How long after the opening the sale ends.
    #[arg(long, value_name = "DURATION", default_value = "2h", value_parser = Span::parse)]
    lasts: Span,
    /// A path of the shop that only the admitted reach, with all below it; may be given several
    /// times.
    #[arg(long = "path", value_name = "PATH", default_value = "/checkout")]
    paths: Vec<String>,
    /// How many are let in.
    #[arg(long, value_name = "RATE", default_value = "20/s", value_parser = Rate::parse)]
    rate: Rate,
    /// What is sold.
    #[arg(long, value_name = "SKU", default_value = "SKU-FLASH-01")]
    sku: String,
    /// How many of it.
    #[arg(long, value_name = "N", default_value_t = 500)]
    units: u64,
    /// Write over a file that is there.
    #[arg(long)]
    force: bool,
}

/// Writes the file, unless it would be refused or is there already.
pub(super) fn run(init: &Init) -> anyhow::Result<ExitCode> {
    let now = now();
    let text = init.text(now)?;
    if let Err(problems) = load::read(&text, now) {
        return Err(Refused::new(&init.file, problems).into());
    }
    let shown = init.file.display();
    let mut options = File::options();
    options.write(true).create(true);
    if init.force {
        options.truncate(true)
    } else {
        options.create_new(true)
    };
    let mut file = match options.open(&init.file) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            bail!("{shown} is there already; name another file, or --force to write over it")
        }
        opened => opened.with_context(|| format!("writing {shown}"))?,
    };
    file.write_all(text.as_bytes()).with_context(|| format!("writing {shown}"))?;
    say(&format!(
        "{shown} is written. Look through it, then:\n  stanchion check {shown}\n  stanchion serve -c {shown}\n"
    ));
    Ok(ExitCode::SUCCESS)
}

impl Init {
    fn text(&self, now: Timestamp) -> anyhow::Result<String> {
        let hour = SignedDuration::from_hours(1);
        let tomorrow = || {
            let at = now.checked_add(SignedDuration::from_hours(24))?;
            Timestamp::from_second(at.as_second() / hour.as_secs() * hour.as_secs())
        };
        let opens = self.opens.map_or_else(tomorrow, Ok)?;
        let before = |span: Span| SignedDuration::try_from(span.duration());
        let lobby_opens = opens.checked_sub(before(self.lobby)?).context("--lobby")?;
        let closes = opens.checked_add(before(self.lasts)?).context("--lasts")?;
        let mut hostnames = self.hostnames.clone();
        hostnames.push("localhost".to_owned());
        let paths = self.paths.iter().flat_map(|path| {
            let path = path.trim_end_matches('/');
            [if path.is_empty() { "/" } else { path }.to_owned(), format!("{path}/**")]
        });
        let values = [
            ("<shop_text>", text(&self.shop)),
            ("<hostnames>", list(hostnames)),
            ("<whoami>", text(&format!("{}/whoami", self.shop.trim_end_matches('/')))),
            ("<sale_text>", text(&self.sale)),
            ("<lobby_opens>", text(&lobby_opens.to_string())),
            ("<opens>", text(&opens.to_string())),
            ("<closes>", text(&closes.to_string())),
            ("<paths>", list(paths)),
            ("<rate>", text(&self.rate.to_string())),
            ("<sku>", text(&self.sku)),
            ("<units>", self.units.to_string()),
            // In comments, where a line break would end the comment.
            ("<shop>", one_line(&self.shop)),
            ("<sale>", one_line(&self.sale)),
            ("<file>", one_line(&self.file.display().to_string())),
        ];
        Ok(filled(TEMPLATE, &values))
    }
}

/// The template with each placeholder replaced, in one pass: a value that looks like another
/// placeholder stays as it is.
fn filled(template: &str, values: &[(&str, String)]) -> String {
    let mut filled = String::new();
    let mut rest = template;
    while let Some(at) = rest.find('<') {
        let (before, from) = rest.split_at(at);
        filled.push_str(before);
        let known = values.iter().find(|(name, _)| from.starts_with(name));
        let (text, skip) = known.map_or(("<", 1), |(name, value)| (value.as_str(), name.len()));
        filled.push_str(text);
        rest = &from[skip..];
    }
    filled + rest
}

/// A basic string on one line: its escapes are those of JSON.
fn text(value: &str) -> String {
    serde_json::Value::from(value).to_string()
}

fn list(values: impl IntoIterator<Item = String>) -> String {
    let values: Vec<_> = values.into_iter().map(|value| text(&value)).collect();
    format!("[{}]", values.join(", "))
}

fn one_line(value: &str) -> String {
    value.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        init: Init,
    }

    fn read(args: &[&str]) -> Result<crate::config::Settings, String> {
        let line = Line::parse_from(["init"].iter().chain(args));
        let now = "2026-11-29T12:34:56Z".parse().unwrap();
        let text = line.init.text(now).unwrap();
        let said = |problems: Vec<_>| format!("{problems:?}\n{text}");
        load::read(&text, now).map(|(settings, _)| settings).map_err(said)
    }

    #[test]
    fn what_is_asked_for_is_in_the_file_and_the_file_is_good() {
        let settings = read(&[
            "--shop",
            "http://10.0.0.7:8000",
            "--hostname",
            "shop.example",
            "--sale",
            "drop-7",
            "--opens",
            "2027-03-01T12:00:00Z",
            "--path",
            "/kasse/",
            "--rate",
            "0.5/s",
            "--sku",
            "A \"quoted\" <sale> name",
            "--units",
            "7",
        ])
        .unwrap();
        assert_eq!(settings.shop.origins, ["http://10.0.0.7:8000"]);
        assert_eq!(settings.public.hostnames, ["shop.example", "localhost"]);
        let sale = &settings.sales[0];
        assert_eq!(
            (sale.id.as_str(), sale.opens.to_string().as_str()),
            ("drop-7", "2027-03-01T12:00:00Z")
        );
        assert_eq!(sale.lobby_opens.to_string(), "2027-03-01T11:30:00Z");
        assert_eq!(sale.rate.to_string(), "0.5/s");
        assert_eq!(sale.skus[0].sku.as_str(), "A \"quoted\" <sale> name");
        assert_eq!(sale.skus[0].units, 7);
        let paths = toml::Value::try_from(sale).unwrap()["paths"].clone();
        assert_eq!(paths, toml::Value::from(vec!["/kasse", "/kasse/**"]));
    }

    #[test]
    fn without_a_time_the_sale_opens_at_this_hour_tomorrow() {
        let settings = read(&[]).unwrap();
        assert_eq!(settings.sales[0].opens.to_string(), "2026-11-30T12:00:00Z");
    }

    #[test]
    fn what_the_settings_would_refuse_is_refused_before_it_is_written() {
        let said = read(&["--sale", "Not An Id"]).unwrap_err();
        assert!(said.contains("sale[0].id"), "{said}");
        let said = read(&["--shop", "shop.example\n[ops]"]).unwrap_err();
        assert!(said.contains("shop.origins"), "{said}");
    }

    #[test]
    fn keys_in_comments_are_keys_that_exist() {
        let shown = TEMPLATE.lines().filter_map(|line| line.strip_prefix("# "));
        let is_key = |line: &&str| {
            line.split_once(" = ")
                .is_some_and(|(key, _)| key.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'))
        };
        let keys: Vec<_> = shown.filter(is_key).filter_map(|line| line.split_once(" = ")).collect();
        assert!(keys.len() > 5);
        let all = [
            include_str!("../../config/stanchion.toml"),
            include_str!("../../config/sale.example.toml"),
        ]
        .concat();
        for (key, _) in keys {
            assert!(all.contains(&format!("{key} = ")), "{key}");
        }
    }
}
