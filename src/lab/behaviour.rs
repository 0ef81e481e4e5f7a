//! How the crowd behaves, as the command line of both `demo` and `crowd` says it.

use std::path::PathBuf;

use clap::Args;

use super::crowd::Mix;
use crate::config::span::Span;

/// Arguments that `demo` hands on to `crowd`.
#[derive(Args, Debug, Clone)]
pub(super) struct Behaviour {
    /// How many shoppers.
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(super) shoppers: u32,
    /// Units that each shopper asks for.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(super) qty: u32,
    /// Share that joins and never returns.
    #[arg(long, value_name = "SHARE", default_value_t = 0.3, value_parser = share)]
    pub(super) no_shows: f64,
    /// Share that lets a hold lapse instead of paying.
    #[arg(long, value_name = "SHARE", default_value_t = 0.15, value_parser = share)]
    pub(super) abandon: f64,
    /// Share that sends the reservation twice at once.
    #[arg(long, value_name = "SHARE", default_value_t = 0.1, value_parser = share)]
    pub(super) double_click: f64,
    /// Share that joins after the opening.
    #[arg(long, value_name = "SHARE", default_value_t = 0.05, value_parser = share)]
    pub(super) late: f64,
    /// Share that is signed in at the shop, every third of them on two devices [default: 0.3].
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub(super) accounts: Option<f64>,
    /// Empty Redis once, this long after the opening.
    #[arg(long, value_name = "TIME", value_parser = Span::parse)]
    pub(super) flush_redis_at: Option<Span>,
    /// Change the rate, pause and stop the sale once each while it runs.
    #[arg(long)]
    pub(super) try_controls: bool,
    /// Write the report to this file as well.
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
    /// Write the report to this file as a page with a chart.
    #[arg(long, value_name = "FILE")]
    pub(super) html: Option<PathBuf>,
}

impl Behaviour {
    /// The shares.
    pub(super) fn mix(&self) -> Mix {
        Mix {
            no_shows: self.no_shows,
            abandon: self.abandon,
            double_click: self.double_click,
            late: self.late,
            accounts: self.accounts.unwrap_or(Mix::default().accounts),
        }
    }

    /// The same as arguments for another process; the file by its full path.
    pub(super) fn to_args(&self) -> std::io::Result<Vec<String>> {
        let mut args = Vec::new();
        for (name, value) in [
            ("--shoppers", self.shoppers.to_string()),
            ("--qty", self.qty.to_string()),
            ("--no-shows", self.no_shows.to_string()),
            ("--abandon", self.abandon.to_string()),
            ("--double-click", self.double_click.to_string()),
            ("--late", self.late.to_string()),
            ("--accounts", self.mix().accounts.to_string()),
        ] {
            args.extend([name.to_owned(), value]);
        }
        if let Some(at) = self.flush_redis_at {
            args.extend(["--flush-redis-at".to_owned(), String::from(at)]);
        }
        if self.try_controls {
            args.push("--try-controls".to_owned());
        }
        for (name, file) in [("--json", &self.json), ("--html", &self.html)] {
            let Some(file) = file else { continue };
            let full = std::path::absolute(file)?;
            args.extend([name.to_owned(), full.to_string_lossy().into_owned()]);
        }
        Ok(args)
    }
}

fn share(raw: &str) -> Result<f64, String> {
    let share: f64 = raw.parse().map_err(|_| "must be a share such as 0.3".to_owned())?;
    if (0.0..=1.0).contains(&share) { Ok(share) } else { Err("must be from 0 to 1".to_owned()) }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        behaviour: Behaviour,
    }

    #[test]
    fn what_is_handed_on_reads_back_the_same() {
        let line = Line::parse_from([
            "x",
            "--no-shows",
            "0.25",
            "--shoppers",
            "7",
            "--json",
            "out",
            "--flush-redis-at",
            "3s",
            "--try-controls",
        ]);
        let handed_on = line.behaviour.to_args().unwrap();
        let again = Line::parse_from(std::iter::once("x".to_owned()).chain(handed_on)).behaviour;
        assert_eq!(again.mix(), Mix { no_shows: 0.25, ..Mix::default() });
        assert_eq!((again.shoppers, again.accounts, again.try_controls), (7, Some(0.3), true));
        assert_eq!(again.flush_redis_at.map(Span::ms), Some(3_000));
        assert!(again.json.unwrap().is_absolute());
    }

    #[test]
    fn a_share_is_from_nothing_to_all() {
        for bad in ["30", "-0.1", "NaN", "x", "1.01"] {
            assert!(share(bad).is_err(), "{bad}");
        }
    }
}
