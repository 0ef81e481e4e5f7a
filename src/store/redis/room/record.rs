//! The control record as a hash of strings.

use std::collections::HashMap;

use super::super::RedisFailure;
use super::{garbled, number};
use crate::domain::rate::Rate;
use crate::domain::sale::Control;

/// Field and value of a whole record.
pub(super) fn fields(control: &Control) -> Vec<(&'static str, String)> {
    vec![
        ("version", control.version.to_string()),
        ("author", control.author.clone()),
        ("run", control.run.to_string()),
        ("epoch", control.epoch.to_string()),
        ("paused", flag(control.paused)),
        ("rate", rate(control.rate)),
        ("burst", control.burst.to_string()),
        ("max_active", control.max_active.to_string()),
        ("claim_window_ms", control.claim_window_ms.to_string()),
        ("lobby_opens_ms", control.lobby_opens_ms.to_string()),
        ("opens_ms", control.opens_ms.to_string()),
        ("closes_ms", control.closes_ms.to_string()),
        ("bypass_until_ms", control.bypass_until_ms.to_string()),
    ]
}

pub(super) fn flag(set: bool) -> String {
    u8::from(set).to_string()
}

/// Per second; the shortest text that reads back as the same number.
pub(super) fn rate(rate: Rate) -> String {
    rate.get().to_string()
}

pub(super) fn parse(raw: &HashMap<String, String>) -> Result<Control, RedisFailure> {
    let field = |name: &str| raw.get(name).ok_or_else(|| garbled(format!("control.{name}")));
    let per_second = number(field("rate")?)?;
    Ok(Control {
        version: number(field("version")?)?,
        author: field("author")?.clone(),
        run: number(field("run")?)?,
        epoch: number(field("epoch")?)?,
        paused: field("paused")? == "1",
        rate: Rate::per_second(per_second).map_err(|_| garbled("control.rate"))?,
        burst: number(field("burst")?)?,
        max_active: number(field("max_active")?)?,
        claim_window_ms: number(field("claim_window_ms")?)?,
        lobby_opens_ms: number(field("lobby_opens_ms")?)?,
        opens_ms: number(field("opens_ms")?)?,
        closes_ms: number(field("closes_ms")?)?,
        bypass_until_ms: number(field("bypass_until_ms")?)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::sale::tests::control;

    #[test]
    fn a_control_record_reads_back_as_it_was_written() {
        let mut control = control();
        control.rate = Rate::per_second(0.1 + 0.2).unwrap();
        control.paused = true;
        let raw = fields(&control).into_iter().map(|(name, value)| (name.to_owned(), value));
        assert_eq!(parse(&raw.collect()).unwrap(), control);
    }
}
