//! A TOML text as values, with the place of each in the text.

use std::collections::BTreeMap;
use std::ops::Range;

use toml::Value;
use toml::de::{DeTable, DeValue};

use super::problem::Problem;

/// A parsed text; with syntax errors, as much of it as could be read.
pub(super) struct Document<'a> {
    text: &'a str,
    /// Times are strings here, so that `opens` may be written with quotes or without.
    pub(super) root: Value,
    /// Dotted path → bytes of the key, or of the element of an array.
    places: BTreeMap<String, Range<usize>>,
}

impl<'a> Document<'a> {
    /// Parses the text and says every syntax error in it.
    pub(super) fn parse(text: &'a str) -> (Self, Vec<Problem>) {
        let (root, errors) = DeTable::parse_recoverable(text);
        let mut document = Self { text, root: Value::Boolean(false), places: BTreeMap::new() };
        document.root = document.table(root.get_ref(), "");
        let problems = errors.iter().map(|error| {
            let span = error.span().unwrap_or(0..0);
            document.problem_at(span.start, "", format!("is not TOML: {}", error.message()))
        });
        let problems = problems.collect();
        (document, problems)
    }

    /// A problem of that key, at its line or at that of the table it is missing from.
    pub(super) fn problem(&self, path: &str, message: impl Into<String>) -> Problem {
        let mut known = path;
        loop {
            if let Some(place) = self.places.get(known) {
                return self.problem_at(place.start, path, message);
            }
            match known.rfind(['.', '[']) {
                Some(end) => known = &known[..end],
                None => return self.problem_at(0, path, message),
            }
        }
    }

    fn problem_at(&self, byte: usize, key: &str, message: impl Into<String>) -> Problem {
        let before = self.text.get(..byte).unwrap_or(self.text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
        Problem { line, column, key: key.to_owned(), message: message.into() }
    }

    fn table(&mut self, table: &DeTable<'_>, path: &str) -> Value {
        let mut out = toml::Table::new();
        for (key, value) in table {
            let name = key.get_ref().as_ref();
            let path = child(path, name);
            self.places.insert(path.clone(), key.span());
            out.insert(name.to_owned(), self.value(value.get_ref(), &path));
        }
        Value::Table(out)
    }

    fn value(&mut self, value: &DeValue<'_>, path: &str) -> Value {
        match value {
            DeValue::String(text) => Value::String(text.to_string()),
            // Too large for 64 bits: kept as text, so that the type is refused where it stands.
            DeValue::Integer(digits) => i64::from_str_radix(digits.as_str(), digits.radix())
                .map_or_else(|_| Value::String(digits.as_str().to_owned()), Value::Integer),
            DeValue::Float(digits) => digits
                .as_str()
                .parse()
                .map_or_else(|_| Value::String(digits.as_str().to_owned()), Value::Float),
            DeValue::Boolean(yes) => Value::Boolean(*yes),
            DeValue::Datetime(time) => Value::String(time.to_string()),
            DeValue::Table(table) => self.table(table, path),
            DeValue::Array(array) => {
                let items = array.iter().enumerate().map(|(at, item)| {
                    let path = format!("{path}[{at}]");
                    self.places.insert(path.clone(), item.span());
                    self.value(item.get_ref(), &path)
                });
                Value::Array(items.collect())
            }
        }
    }
}

/// The path of a key of the table at `path`.
pub(super) fn child(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_found_at_its_line_and_a_missing_one_at_its_table() {
        let text = "[shop]\norigins = []\n\n[[sale]]\nid = \"a\"\n  rate = 5\n";
        let (document, problems) = Document::parse(text);
        assert_eq!(problems, vec![]);
        let at = |path| {
            let problem = document.problem(path, "");
            (problem.line, problem.column)
        };
        assert_eq!(at("sale[0].rate"), (6, 3));
        assert_eq!(at("sale[0].opens").0, 4);
        assert_eq!(at("core.url"), (1, 1));
    }

    #[test]
    fn every_syntax_error_is_named_and_the_rest_is_still_read() {
        let (document, problems) = Document::parse("a = \nb = 1\nc == 2\nd = 3\n");
        let lines: Vec<_> = problems.iter().map(|problem| problem.line).collect();
        assert!(lines.contains(&1) && lines.contains(&3), "{problems:?}");
        assert_eq!(document.root["d"], Value::Integer(3));
    }
}
