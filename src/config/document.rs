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
    /// Dotted path → where it stands.
    places: BTreeMap<String, Place>,
}

/// Bytes of a key and of its value.
struct Place {
    /// The key, or the element of an array.
    key: Range<usize>,
    /// The value, unless it is a table.
    value: Option<Range<usize>>,
}

impl<'a> Document<'a> {
    /// Parses the text and says every syntax error in it.
    pub(super) fn parse(text: &'a str) -> (Self, Vec<Problem>) {
        let (root, errors) = DeTable::parse_recoverable(text);
        let mut document = Self { text, root: Value::Boolean(false), places: BTreeMap::new() };
        document.root = document.table(root.get_ref(), "");
        let problems = errors.iter().map(|error| {
            let span = error.span().unwrap_or(0..0);
            document.problem_at(&span, "", format!("is not TOML: {}", error.message()))
        });
        let problems = problems.collect();
        (document, problems)
    }

    /// A problem of the value of that key, at the table for a key that is missing from it.
    pub(super) fn problem(&self, path: &str, message: impl Into<String>) -> Problem {
        let value = self.places.get(path).and_then(|place| place.value.as_ref());
        match value {
            Some(value) => self.problem_at(value, path, message),
            None => self.problem_of_key(path, message),
        }
    }

    /// A problem of the key itself.
    pub(super) fn problem_of_key(&self, path: &str, message: impl Into<String>) -> Problem {
        let mut known = path;
        loop {
            if let Some(place) = self.places.get(known) {
                return self.problem_at(&place.key, path, message);
            }
            match known.rfind(['.', '[']) {
                Some(end) => known = &known[..end],
                None => return self.problem_at(&(0..0), path, message),
            }
        }
    }

    /// The text that is the value of a key, if it is one.
    pub(super) fn text_of(&self, path: &str) -> Option<&str> {
        let value = path.split(['.', '[']).try_fold(&self.root, |value, step| {
            match step.strip_suffix(']').map(str::parse::<usize>) {
                Some(Ok(at)) => value.get(at),
                _ => value.get(step),
            }
        });
        value?.as_str()
    }

    fn problem_at(&self, span: &Range<usize>, key: &str, message: impl Into<String>) -> Problem {
        let before = self.text.get(..span.start).unwrap_or(self.text);
        let line = before.matches('\n').count() + 1;
        let start = before.rfind('\n').map_or(0, |end| end + 1);
        let column = before[start..].chars().count() + 1;
        let source = self.text[start..].lines().next().unwrap_or_default().to_owned();
        // What goes on in the next line is marked to the end of this one.
        let marked = self.text.get(span.clone()).and_then(|text| text.lines().next());
        let width = marked.map_or(1, |text| text.chars().count()).max(1);
        Problem { line, column, key: key.to_owned(), message: message.into(), width, source }
    }

    fn table(&mut self, table: &DeTable<'_>, path: &str) -> Value {
        let mut out = toml::Table::new();
        for (key, value) in table {
            let name = key.get_ref().as_ref();
            let path = child(path, name);
            let place = Place { key: key.span(), value: marked(value) };
            self.places.insert(path.clone(), place);
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
                    let place = Place { key: item.span(), value: marked(item) };
                    self.places.insert(path.clone(), place);
                    self.value(item.get_ref(), &path)
                });
                Value::Array(items.collect())
            }
        }
    }
}

/// Where a value stands; a table's own place is that of its key.
fn marked(value: &toml::Spanned<DeValue<'_>>) -> Option<Range<usize>> {
    let scalar = !matches!(value.get_ref(), DeValue::Table(_));
    let list = matches!(value.get_ref(), DeValue::Array(items)
        if items.iter().any(|item| matches!(item.get_ref(), DeValue::Table(_))));
    (scalar && !list).then(|| value.span())
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
        assert_eq!(at("sale[0].rate"), (6, 10));
        assert_eq!(document.problem_of_key("sale[0].rate", "").column, 3);
        assert_eq!(document.problem("shop.origins", "").width, 2);
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
