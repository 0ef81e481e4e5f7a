//! The difference between the settings of a node and those of its file, key by key.

use toml::Value;

use super::change::Change;
use crate::config::document::child;
use crate::config::keys::{Effect, effect};
use crate::config::settings::{Sale, Settings};

/// One key that is not the same in both.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// Its path in the new file, as `sale[0].rate`; in the old one for what is gone.
    pub key: String,
    /// What becomes of it now: `Refused` only while its sale is on.
    pub effect: Effect,
    /// As the file writes it; `None` if it was not there.
    pub old: Option<String>,
    /// As the file writes it; `None` if it is gone.
    pub new: Option<String>,
}

impl Difference {
    /// What the table says of the key, whether its sale is on or not.
    pub fn listed(&self) -> Effect {
        effect(&self.key)
    }
}

/// The difference between a node's settings and its file.
#[derive(Debug, Clone, PartialEq)]
pub struct Diff {
    /// Every key that differs, hot ones included.
    pub differences: Vec<Difference>,
    /// Of hot keys that are published through control records, a sale each.
    pub changes: Vec<Change>,
    /// Whether hot keys differ that are this node's own.
    pub node: bool,
    /// The node's settings from now on: hot keys as in the file, the rest as before.
    pub settings: Settings,
}

impl Diff {
    /// The keys with this effect.
    pub fn keys(&self, effect: Effect) -> Vec<String> {
        let keys = self.differences.iter().filter(|difference| difference.effect == effect);
        keys.map(|difference| difference.key.clone()).collect()
    }

    /// Whether nothing differs.
    pub fn is_empty(&self) -> bool {
        self.differences.is_empty()
    }
}

/// Compares settings at an instant, which decides whether a sale is on.
pub fn diff(old: &Settings, new: &Settings, now: jiff::Timestamp) -> Diff {
    let (Ok(mut running), Ok(file)) = (Value::try_from(old), Value::try_from(new)) else {
        // Settings are made of tables, lists and scalars: they can always be written.
        return Diff { differences: vec![], changes: vec![], node: false, settings: old.clone() };
    };
    let mut walk = Walk { found: vec![] };
    walk.compare(Some(&running), Some(&file), "", "");
    let mut differences = vec![];
    let mut node = false;
    for mut found in walk.found {
        let effect = found.difference.effect;
        if matches!(effect, Effect::Hot | Effect::UntilDraw) {
            node |= !found.old_path.starts_with("sale[");
            set(&mut running, &found.old_path, found.value);
        } else if effect == Effect::Refused && !is_on(old, &found.old_path, now) {
            found.difference.effect = Effect::Restart;
        }
        differences.push(found.difference);
    }
    let settings: Settings = running.try_into().unwrap_or_else(|_| old.clone());
    let pairs = old.sales.iter().zip(&settings.sales);
    let changes = pairs.filter_map(|(old, new)| Change::between(old, new)).collect();
    Diff { differences, changes, node, settings }
}

/// Whether the sale that a path is in is between its lobby and its close.
fn is_on(settings: &Settings, path: &str, now: jiff::Timestamp) -> bool {
    let index = path.strip_prefix("sale[").and_then(|rest| rest.split(']').next());
    let sale = index.and_then(|index| settings.sales.get(index.parse::<usize>().ok()?));
    sale.is_some_and(|sale: &Sale| sale.lobby_opens <= now && now < sale.closes)
}

struct Found {
    difference: Difference,
    /// Where it is in the running settings.
    old_path: String,
    value: Option<Value>,
}

struct Walk {
    found: Vec<Found>,
}

impl Walk {
    fn compare(&mut self, old: Option<&Value>, new: Option<&Value>, old_at: &str, new_at: &str) {
        match (old, new) {
            (Some(Value::Table(old)), Some(Value::Table(new))) => {
                let mut keys: Vec<_> = old.keys().chain(new.keys()).collect();
                keys.sort_unstable();
                keys.dedup();
                for key in keys {
                    let (old, new) = (old.get(key), new.get(key));
                    self.compare(old, new, &child(old_at, key), &child(new_at, key));
                }
            }
            (Some(Value::Array(olds)), Some(Value::Array(news))) => {
                let at = [old_at, new_at];
                match name_of(new_at) {
                    Some(name) => self.named(olds, news, name, at),
                    None if olds.len() == news.len() && news.iter().all(Value::is_table) => {
                        for (index, (old, new)) in olds.iter().zip(news).enumerate() {
                            let at = at.map(|at| format!("{at}[{index}]"));
                            self.compare(Some(old), Some(new), &at[0], &at[1]);
                        }
                    }
                    None if olds == news => {}
                    None => self.note(old, new, at),
                }
            }
            _ if old == new => {}
            _ => self.note(old, new, [old_at, new_at]),
        }
    }

    /// Sales by their id and SKUs by their name: another order of them is no difference.
    fn named(&mut self, olds: &[Value], news: &[Value], name: &str, [old_at, new_at]: [&str; 2]) {
        let same = |one: &Value, other: &Value| one.get(name) == other.get(name);
        for (at, old) in olds.iter().enumerate() {
            let there = news.iter().position(|new| same(old, new));
            let new_path = format!("{new_at}[{}]", there.unwrap_or(at));
            let new = there.and_then(|there| news.get(there));
            self.compare(Some(old), new, &format!("{old_at}[{at}]"), &new_path);
        }
        for (at, new) in news.iter().enumerate() {
            if !olds.iter().any(|old| same(old, new)) {
                self.note(None, Some(new), [old_at, &format!("{new_at}[{at}]")]);
            }
        }
    }

    fn note(&mut self, old: Option<&Value>, new: Option<&Value>, [old_at, new_at]: [&str; 2]) {
        let effect = effect(new_at);
        let shown = |value: Option<&Value>| value.map(shown);
        let (key, old, shown_new) = (new_at.to_owned(), shown(old), shown(new));
        let difference = Difference { key, effect, old, new: shown_new };
        let (old_path, value) = (old_at.to_owned(), new.cloned());
        self.found.push(Found { difference, old_path, value });
    }
}

/// The key that tells the elements of a list of tables apart.
fn name_of(path: &str) -> Option<&'static str> {
    match path {
        "sale" => Some("id"),
        path if path.ends_with("].sku") => Some("sku"),
        _ => None,
    }
}

/// A value in one line, tables by their name only.
fn shown(value: &Value) -> String {
    match value {
        Value::Table(table) => {
            let name = table.get("id").or_else(|| table.get("sku"));
            name.map_or_else(|| "{ … }".to_owned(), ToString::to_string)
        }
        Value::Array(items) if items.iter().any(Value::is_table) => {
            format!("[{}]", items.iter().map(shown).collect::<Vec<_>>().join(", "))
        }
        value => value.to_string(),
    }
}

/// Puts a value at a path of tables and lists, or removes what is there.
fn set(root: &mut Value, path: &str, value: Option<Value>) {
    let (parent, last) = path.rsplit_once('.').unwrap_or(("", path));
    let mut steps = parent.split(['.', '[']).filter(|step| !step.is_empty());
    let table = steps.try_fold(root, |at, step| {
        let index = step.strip_suffix(']').and_then(|index| index.parse::<usize>().ok());
        match index {
            Some(index) => at.get_mut(index),
            None => at.get_mut(step),
        }
    });
    let Some(table) = table.and_then(Value::as_table_mut) else { return };
    match value {
        Some(value) => table.insert(last.to_owned(), value),
        None => table.remove(last),
    };
}
