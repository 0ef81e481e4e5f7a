//! What a merchant should know about a sale that is not wrong.

use super::rules::Findings;
use super::settings::{Sale, SaleSku};
use super::span::Span;

/// A checkout takes people this long.
const CHECKOUT: Span = Span::seconds(60);
/// Phones in pockets need this long to be heard from.
const CLAIM: Span = Span::seconds(30);

/// Warns.
pub(super) fn advise(sale: &Sale, key: &str, findings: &mut Findings<'_, '_>) {
    for (at, item) in sale.skus.iter().enumerate() {
        findings.should(false, &format!("{key}.sku[{at}].units"), frozen(item, sale.hold));
    }
    let rate = sale.rate.get();
    let seconds = f64::from(sale.max_active) / rate;
    findings.should(
        sale.max_active == 0 || seconds * 1000.0 >= CHECKOUT.ms_f64(),
        &format!("{key}.max_active"),
        format!(
            "holds the line back: at {} only checkouts of up to {seconds:.1} s keep within {} open \
             admissions, and people take about a minute; 0 = no cap",
            sale.rate, sale.max_active
        ),
    );
    findings.should(
        sale.claim_window >= CLAIM,
        &format!("{key}.claim_window"),
        format!("is short: who does not look for {} misses the turn", sale.claim_window),
    );
    sells_out(sale, rate, key, findings);
}

/// What shoppers who never pay can do at worst: units × hold.
fn frozen(item: &SaleSku, hold: Span) -> String {
    let minutes = (u128::from(item.units) * u128::from(hold.ms())).div_ceil(60_000);
    let units = item.units;
    format!(
        "shoppers who never pay can keep all {units} from the others for {hold} at a time \
         ({minutes} unit-minutes); a shorter hold frees them sooner"
    )
}

/// Whether enough people are let in before the close to buy everything.
fn sells_out(sale: &Sale, rate: f64, key: &str, findings: &mut Findings<'_, '_>) {
    let caps = sale.skus.iter().map(|item| u64::from(item.units_per_buyer));
    let open = sale.closes.duration_since(sale.opens).as_secs_f64();
    if caps.clone().any(|cap| cap == 0) || open <= 0.0 {
        return;
    }
    let (units, each) = (sale.skus.iter().map(|item| item.units).sum::<u64>(), caps.sum::<u64>());
    let admitted = open * rate + f64::from(sale.burst);
    #[expect(clippy::cast_precision_loss, reason = "a warning needs no last digit")]
    let buys = admitted * each as f64;
    #[expect(clippy::cast_precision_loss, reason = "a warning needs no last digit")]
    let enough = buys >= units as f64;
    findings.should(
        enough,
        &format!("{key}.rate"),
        format!(
            "is too low to sell everything: at most {admitted:.0} are let in before the close, and \
             {each} for each of them are fewer than {units} units"
        ),
    );
}

#[cfg(test)]
mod tests {
    use crate::config::load::read;

    const EXAMPLE: &str = include_str!("../../config/sale.example.toml");

    /// The keys that are warned of, at an instant.
    fn warned(text: &str, now: &str) -> Vec<String> {
        let (_, warnings) = read(text, now.parse().unwrap()).unwrap();
        let keys = warnings.into_iter().map(|warning| warning.key.replace("sale[0].", ""));
        keys.filter(|key| !key.starts_with("sku[0]")).collect()
    }

    #[test]
    fn wr_20_a_sale_that_will_not_open_as_planned_is_never_silent() {
        for (now, key) in [
            ("2026-12-01T12:00:00Z", None),
            ("2027-03-01T12:00:01Z", Some("opens")),
            ("2027-03-01T14:00:01Z", Some("closes")),
        ] {
            let wanted: Vec<_> = key.into_iter().collect();
            assert_eq!(warned(EXAMPLE, now), wanted, "at {now}");
        }
        let no_lobby = EXAMPLE.replace("11:30:00Z", "12:00:00Z");
        assert_eq!(warned(&no_lobby, "2026-12-01T12:00:00Z"), ["lobby_opens"]);
    }

    #[test]
    fn rs_62_skus_that_might_be_taken_for_one_another_are_told() {
        for (other, told) in [("sku-flash-01", true), ("SKU-FLASH 01", false)] {
            let text = format!("{EXAMPLE}\n[[sale.sku]]\nsku = \"{other}\"\nunits = 5\n");
            let warned = warned(&text, "2026-12-01T12:00:00Z");
            assert_eq!(warned.contains(&"sku[1].sku".to_owned()), told, "{other}: {warned:?}");
        }
    }

    #[test]
    fn settings_that_hold_each_other_back_are_told() {
        for (from, to, key) in [
            ("max_active = 0", "max_active = 2000", "max_active"),
            ("claim_window = \"120s\"", "claim_window = \"5s\"", "claim_window"),
            ("rate = \"200/s\"", "rate = \"1/min\"", "rate"),
            ("retention = \"90d\"", "retention = \"1h\"", "retention"),
        ] {
            let text = EXAMPLE.replace(from, to);
            assert_eq!(warned(&text, "2026-12-01T12:00:00Z"), [key], "{to}");
        }
    }
}
