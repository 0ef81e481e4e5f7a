//! A file of stock: `sku` and `units`, a line each. Any bad line spoils it, and all of them are named.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::id::Sku;
use super::near::Lookalikes;

/// The most lines of a file.
pub const ROWS_MAX: usize = 100_000;
/// The most bad lines, and warnings, that are told one by one.
pub const TOLD_MAX: usize = 1_000;
/// Units have at most this many digits, so that the gate counts them exactly.
const DIGITS_MAX: usize = 15;

/// What the units of a file mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// So many more, or fewer.
    Delta,
    /// So many ever loaded, whatever is sold of them.
    Set,
}

impl Mode {
    /// The mode of that word.
    pub fn named(word: &str) -> Option<Self> {
        match word {
            "delta" => Some(Self::Delta),
            "set" => Some(Self::Set),
            _ => None,
        }
    }

    /// Its word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Delta => "delta",
            Self::Set => "set",
        }
    }

    /// A column of units may be called by what it means, and then the mode must be that one.
    fn column(self) -> &'static str {
        match self {
            Self::Delta => "delta",
            Self::Set => "loaded",
        }
    }
}

/// One line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StockRow {
    /// From 1, the header being line 1.
    pub line: usize,
    /// The SKU.
    pub sku: Sku,
    /// By the file's mode.
    pub units: i64,
}

/// What is wrong with a line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BadRow {
    /// From 1.
    pub line: usize,
    /// The column, or `file`.
    pub field: String,
    /// What and how to cure it.
    pub detail: String,
}

impl BadRow {
    /// What is wrong at a line.
    pub fn new(line: usize, field: &str, detail: impl Into<String>) -> Self {
        Self { line, field: field.to_owned(), detail: detail.into() }
    }
}

/// A file that was read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StockFile {
    /// Its lines, one a SKU.
    pub rows: Vec<StockRow>,
    /// SKUs that might be taken for one another.
    pub warnings: Vec<BadRow>,
}

/// Where the columns are.
struct Columns {
    delimiter: u8,
    sku: usize,
    units: usize,
    units_name: String,
}

/// Reads a whole file: UTF-8 with or without a BOM, fields parted by `,`, `;` or tabs and quoted if
/// need be, lines ended by LF or CRLF, the first of them naming the columns.
///
/// # Errors
/// Every bad line, in the file's order.
pub fn read(bytes: &[u8], mode: Mode) -> Result<StockFile, Vec<BadRow>> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let lines = bytes.split(|b| *b == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let mut lines = (1..).zip(lines).filter(|(_, line)| !line.trim_ascii().is_empty());
    let Some((at, header)) = lines.next() else {
        return Err(vec![BadRow::new(1, "file", "is empty; it needs a line `sku,units` and more")]);
    };
    let columns = columns(at, header, mode).map_err(|bad| vec![bad])?;
    let (mut file, mut bad) = (StockFile::default(), vec![]);
    let (mut seen, mut alike) = (HashMap::<Sku, usize>::new(), Lookalikes::default());
    for (line, raw) in lines {
        if file.rows.len() + bad.len() >= ROWS_MAX {
            let detail = format!("has more than {ROWS_MAX} lines; send it in parts");
            return Err(vec![BadRow::new(line, "file", detail)]);
        }
        let row = match row(line, raw, &columns, mode) {
            Ok(row) => row,
            Err(wrong) => {
                bad.push(wrong);
                continue;
            }
        };
        if let Some(first) = seen.insert(row.sku.clone(), line) {
            seen.insert(row.sku.clone(), first);
            let detail = format!("{} is on line {first} already; name it once", row.sku);
            bad.push(BadRow::new(line, "sku", detail));
            continue;
        }
        if let Some(other) = alike.note(&row.sku).filter(|_| file.warnings.len() < TOLD_MAX) {
            let detail = format!("{} might be taken for {other}, which is another SKU", row.sku);
            file.warnings.push(BadRow::new(line, "sku", detail));
        }
        file.rows.push(row);
    }
    if bad.is_empty() && file.rows.is_empty() {
        bad.push(BadRow::new(at, "file", "has no line below the names of its columns"));
    }
    if bad.is_empty() { Ok(file) } else { Err(bad) }
}

fn columns(line: usize, header: &[u8], mode: Mode) -> Result<Columns, BadRow> {
    const CURE: &str = "must name the columns, as `sku,units`";
    let most = [b',', b';', b'\t']
        .into_iter()
        .max_by_key(|delimiter| (header.split(|b| b == delimiter).count(), *delimiter == b','));
    let delimiter = most.unwrap_or(b',');
    let names = fields(header, delimiter).map_err(|detail| BadRow::new(line, "file", detail))?;
    let names: Vec<_> = names.iter().map(|name| name.trim().to_lowercase()).collect();
    let one = |wanted: &[&str]| {
        let mut found =
            names.iter().enumerate().filter(|(_, name)| wanted.contains(&name.as_str()));
        match (found.next(), found.next()) {
            (Some((at, _)), None) => Some(at),
            _ => None,
        }
    };
    let sku = one(&["sku"]).ok_or_else(|| BadRow::new(line, "sku", CURE))?;
    let Some(units) = one(&["units", mode.column()]) else {
        let other = if mode == Mode::Delta { Mode::Set } else { Mode::Delta };
        let detail = match one(&[other.column()]) {
            Some(_) => format!(
                "the column `{}` is for mode {}, and this is mode {}",
                other.column(),
                other.as_str(),
                mode.as_str()
            ),
            None => CURE.to_owned(),
        };
        return Err(BadRow::new(line, "units", detail));
    };
    let units_name = names.get(units).cloned().unwrap_or_default();
    Ok(Columns { delimiter, sku, units, units_name })
}

fn row(line: usize, raw: &[u8], columns: &Columns, mode: Mode) -> Result<StockRow, BadRow> {
    let fields =
        fields(raw, columns.delimiter).map_err(|detail| BadRow::new(line, "file", detail))?;
    let field = |at: usize, name: &str| {
        fields.get(at).ok_or_else(|| BadRow::new(line, name, "is missing on this line"))
    };
    let sku = Sku::parse(field(columns.sku, "sku")?)
        .map_err(|e| BadRow::new(line, "sku", e.to_string()))?;
    let name = &columns.units_name;
    let units = units(field(columns.units, name)?.trim(), mode)
        .map_err(|cure| BadRow::new(line, name, cure))?;
    Ok(StockRow { line, sku, units })
}

fn units(raw: &str, mode: Mode) -> Result<i64, String> {
    let (sign, digits) = match (mode, raw.as_bytes()) {
        (Mode::Delta, [b'-', ..]) => (-1, raw.get(1..).unwrap_or_default()),
        (Mode::Delta, [b'+', ..]) => (1, raw.get(1..).unwrap_or_default()),
        _ => (1, raw),
    };
    let plain = !digits.is_empty()
        && digits.len() <= DIGITS_MAX
        && digits.bytes().all(|b| b.is_ascii_digit());
    let number = digits.parse::<i64>().ok().filter(|_| plain).map(|units| sign * units);
    let shown: String = raw.chars().take(30).collect();
    match (number, mode) {
        (Some(0), Mode::Delta) => Err("is 0, which changes nothing; leave the line out".into()),
        (Some(number), _) => Ok(number),
        (None, Mode::Delta) => Err(format!(
            "must be a whole number of at most {DIGITS_MAX} digits, as 50 or -3, not {shown:?}"
        )),
        (None, Mode::Set) => Err(format!(
            "must be a whole number of at most {DIGITS_MAX} digits, as 500, not {shown:?}"
        )),
    }
}

/// The fields of one line. A quote is doubled within quotes, and no field goes over a line's end.
fn fields(line: &[u8], delimiter: u8) -> Result<Vec<String>, &'static str> {
    let text = std::str::from_utf8(line)
        .map_err(|_| "is not UTF-8; save the file as UTF-8 and send it again")?;
    let delimiter = char::from(delimiter);
    let mut found = vec![];
    let mut rest = text;
    loop {
        let (field, after) = match rest.trim_start_matches(' ').strip_prefix('"') {
            Some(inside) => quoted(inside)?,
            None => match rest.split_once(delimiter) {
                Some((field, _)) => (field.to_owned(), rest.get(field.len()..).unwrap_or_default()),
                None => (rest.to_owned(), ""),
            },
        };
        found.push(field);
        match after.trim_start_matches(' ').strip_prefix(delimiter) {
            Some(next) => rest = next,
            None if after.trim_matches(' ').is_empty() => return Ok(found),
            None => return Err("has something behind a closing quote; double a quote within one"),
        }
    }
}

/// What stands before the closing quote, and what behind it.
fn quoted(inside: &str) -> Result<(String, &str), &'static str> {
    let (mut field, mut rest) = (String::new(), inside);
    loop {
        let (before, after) =
            rest.split_once('"').ok_or("has a quote that is not closed on its line")?;
        field.push_str(before);
        match after.strip_prefix('"') {
            Some(more) => {
                field.push('"');
                rest = more;
            }
            None => return Ok((field, after)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good(text: &str, mode: Mode) -> Vec<(usize, String, i64)> {
        let file = read(text.as_bytes(), mode).unwrap_or_else(|bad| panic!("{text:?}: {bad:?}"));
        file.rows.into_iter().map(|row| (row.line, row.sku.to_string(), row.units)).collect()
    }

    fn bad(bytes: &[u8], mode: Mode) -> Vec<(usize, String)> {
        let bad = read(bytes, mode).unwrap_err();
        bad.into_iter().map(|bad| (bad.line, bad.field)).collect()
    }

    #[test]
    fn rs_65_a_file_is_read_however_a_spreadsheet_wrote_it() {
        let wanted = [(2, "A-1".to_owned(), 5), (3, "B;2".to_owned(), -3)];
        for text in [
            "sku,units\nA-1,5\nB;2,-3\n",
            "\u{feff}SKU;Units\r\nA-1;+5\r\n\"B;2\";-3",
            "units\tname\tsku\n5\t\t A-1 \n-3\tx\tB;2\n\n",
            "\"sku\",\"delta\"\n\"A-1\",\"5\"\n\"B;2\" , -3\n",
        ] {
            assert_eq!(good(text, Mode::Delta), wanted, "{text:?}");
        }
        let quoted = good("sku,loaded\n\"a \"\"b\"\", c\",0\n", Mode::Set);
        assert_eq!(quoted, [(2, "a \"b\", c".to_owned(), 0)]);
    }

    #[test]
    fn rs_65_every_bad_line_is_named() {
        let text = "sku,units\nA,1\nB,abc\n,3\nD\nA ,2\n\"E,1\nF,0\nG,1e3\nH,\"1,000\"\n\
                    I,1000000000000000\nJ,--1\nK,1.5\n";
        let lines = [3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13];
        let fields = ["units", "sku", "units", "sku", "file"].into_iter().chain(["units"; 6]);
        let wanted: Vec<_> = lines.into_iter().zip(fields.map(str::to_owned)).collect();
        assert_eq!(bad(text.as_bytes(), Mode::Delta), wanted);
        assert_eq!(bad(b"sku,units\nA,1\n\xc9t\xe9,2\n", Mode::Delta), [(3, "file".into())]);
        assert_eq!(bad(b"sku,units\nA,-1\n", Mode::Set), [(2, "units".into())]);
    }

    #[test]
    fn a_file_without_its_columns_or_lines_is_refused_at_once() {
        for (text, line, field) in [
            ("", 1, "file"),
            ("\n\n", 1, "file"),
            ("sku,units\n", 1, "file"),
            ("A,5\n", 1, "sku"),
            ("sku,quantity\nA,5\n", 1, "units"),
            ("sku,sku,units\nA,A,5\n", 1, "sku"),
        ] {
            assert_eq!(bad(text.as_bytes(), Mode::Delta), [(line, field.to_owned())], "{text:?}");
        }
        let other = read(b"sku,loaded\nA,5\n", Mode::Delta).unwrap_err();
        assert!(other[0].detail.contains("for mode set"), "{other:?}");
    }

    #[test]
    fn rs_65_a_hundred_thousand_lines_are_read_and_no_more() {
        let lines = |n: usize| {
            let rows = (0..n).map(|n| format!("SKU-{n},1\n"));
            format!("sku,units\n{}", rows.collect::<String>())
        };
        assert_eq!(good(&lines(ROWS_MAX), Mode::Delta).len(), ROWS_MAX);
        let wanted = [(ROWS_MAX + 2, "file".to_owned())];
        assert_eq!(bad(lines(ROWS_MAX + 1).as_bytes(), Mode::Delta), wanted);
    }

    #[test]
    fn rs_62_skus_that_might_be_taken_for_one_another_are_warned_of() {
        let file = read(b"sku,units\nA-1,1\na-1,1\nB,1\n", Mode::Delta).unwrap();
        assert_eq!(file.rows.len(), 3);
        assert_eq!(file.warnings.iter().map(|warning| warning.line).collect::<Vec<_>>(), [3]);
    }
}
