//! Writes the configuration files of an installation.

use std::path::Path;

use anyhow::{Context, Result, bail};
use jiff::Timestamp;
use toml::{Table, Value};

/// What is sold and when, with the settings that tests and the demo turn.
#[derive(Debug, Clone)]
pub struct SalePlan {
    /// The sale's id.
    pub id: String,
    /// When joining starts.
    pub lobby_opens_ms: u64,
    /// When the draw is.
    pub opens_ms: u64,
    /// When it is over.
    pub closes_ms: u64,
    /// As in the file: `"100/s"`.
    pub rate: String,
    /// Admissions that may come at once.
    pub burst: u32,
    /// As in the file: `"8s"`.
    pub hold: String,
    /// SKU, units, units per buyer.
    pub skus: Vec<(String, u64, u64)>,
}

impl SalePlan {
    /// A sale of one SKU that opens `in_ms` after `now_ms`, its lobby open since a minute.
    pub fn opening_in(id: &str, now_ms: u64, in_ms: u64, units: u64) -> Self {
        Self {
            id: id.to_owned(),
            lobby_opens_ms: now_ms.saturating_sub(60_000),
            opens_ms: now_ms + in_ms,
            closes_ms: now_ms + in_ms + 3_600_000,
            rate: "100/s".into(),
            burst: 1,
            hold: "8s".into(),
            skus: vec![(format!("{}-01", id.to_uppercase()), units, 2)],
        }
    }

    fn table(&self) -> Result<Table> {
        let mut sale = Table::new();
        sale.insert("id".into(), self.id.clone().into());
        let times = [
            ("lobby_opens", self.lobby_opens_ms),
            ("opens", self.opens_ms),
            ("closes", self.closes_ms),
        ];
        for (key, at_ms) in times {
            sale.insert(key.into(), rfc3339(at_ms)?.into());
        }
        sale.insert("paths".into(), vec!["/checkout", "/checkout/**"].into());
        sale.insert("rate".into(), self.rate.clone().into());
        sale.insert("burst".into(), i64::from(self.burst).into());
        sale.insert("hold".into(), self.hold.clone().into());
        let skus = self.skus.iter().map(|(sku, units, per_buyer)| {
            let mut table = Table::new();
            table.insert("sku".into(), sku.clone().into());
            table.insert("units".into(), i64::try_from(*units)?.into());
            table.insert("units_per_buyer".into(), i64::try_from(*per_buyer)?.into());
            Ok(Value::Table(table))
        });
        sale.insert("sku".into(), Value::Array(skus.collect::<Result<_>>()?));
        Ok(sale)
    }
}

pub(crate) fn rfc3339(at_ms: u64) -> Result<String> {
    let at = Timestamp::from_millisecond(i64::try_from(at_ms)?).context("a time out of range")?;
    Ok(at.to_string())
}

/// A configuration as a tree; any key can be set before it is written.
#[derive(Debug, Clone)]
pub struct ConfigFile(Value);

impl ConfigFile {
    /// Loopback listeners on free ports, the shop, and these sales; all else at its default.
    pub fn new(shop: &str, sales: &[SalePlan]) -> Result<Self> {
        let mut file = Self(Value::Table(Table::new()));
        file.listen_on_free_ports()?;
        file.set("public.hostnames", vec!["localhost", "127.0.0.1"])?;
        file.set("shop.origins", vec![shop])?;
        let sales = sales.iter().map(|sale| Ok(Value::Table(sale.table()?)));
        file.set("sale", Value::Array(sales.collect::<Result<_>>()?))?;
        Ok(file)
    }

    /// The settings of this text, to be changed and written.
    pub fn parse(text: &str) -> Result<Self> {
        let table: Table = text.parse().context("settings that are not TOML")?;
        Ok(Self(Value::Table(table)))
    }

    /// Loopback listeners on free ports, one public, one core, one ops.
    pub fn listen_on_free_ports(&mut self) -> Result<()> {
        self.set("public.listener", listener(false))?;
        self.set("core.listen", "127.0.0.1:0")?;
        self.set("ops.listen", "127.0.0.1:0")
    }

    /// Sets the key at a dotted path, making tables on the way; array elements by number, as in
    /// `sale.0.rate`.
    pub fn set(&mut self, path: &str, value: impl Into<Value>) -> Result<()> {
        let words: Vec<_> = path.split('.').collect();
        set_in(&mut self.0, &words, value.into()).with_context(|| format!("setting {path}"))
    }

    /// Writes it under another name first, so that nobody reads half of it.
    pub fn write(&self, file: &Path) -> Result<()> {
        let fresh = file.with_extension("fresh");
        std::fs::write(&fresh, toml::to_string(&self.0)?)?;
        std::fs::rename(&fresh, file).with_context(|| format!("writing {}", file.display()))
    }
}

fn set_in(tree: &mut Value, words: &[&str], value: Value) -> Result<()> {
    let Some((word, rest)) = words.split_first() else {
        *tree = value;
        return Ok(());
    };
    match tree {
        Value::Table(table) => {
            let inner = table.entry(*word).or_insert_with(|| Value::Table(Table::new()));
            set_in(inner, rest, value)
        }
        Value::Array(items) => {
            let index: usize = word.parse().with_context(|| format!("{word} is no number"))?;
            set_in(items.get_mut(index).context("no such element")?, rest, value)
        }
        _ => bail!("nothing is below the value before {word}"),
    }
}

/// One listener on a free loopback port.
fn listener(tls: bool) -> Value {
    let mut table = Table::new();
    table.insert("addr".into(), "127.0.0.1:0".into());
    table.insert("tls".into(), tls.into());
    Value::Array(vec![Value::Table(table)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_key_can_be_turned_before_the_file_is_written() {
        let sale = SalePlan::opening_in("drop", 1_800_000_000_000, 5_000, 10);
        let mut config = ConfigFile::new("http://127.0.0.1:3000", &[sale]).unwrap();
        config.set("sale.0.rate", "50/s").unwrap();
        config.set("limits.per_ip.burst", 5).unwrap();
        config.set("sale.0.sku.0.units", 7).unwrap();
        assert!(config.set("sale.1.rate", "1/s").is_err());
        assert!(config.set("sale.0.rate.deeper", 1).is_err());

        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("stanchion.toml");
        config.write(&file).unwrap();

        let read: Table = std::fs::read_to_string(&file).unwrap().parse().unwrap();
        let sale = &read["sale"][0];
        assert_eq!(sale["rate"].as_str(), Some("50/s"));
        assert_eq!(sale["opens"].as_str(), Some("2027-01-15T08:00:05Z"));
        assert_eq!(sale["sku"][0]["units"].as_integer(), Some(7));
        assert_eq!(read["limits"]["per_ip"]["burst"].as_integer(), Some(5));
    }
}
