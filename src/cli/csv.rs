//! CSV as RFC 4180 has it, that no spreadsheet runs as a formula.

/// One record with its line end.
pub(super) fn row<S: AsRef<str>>(cells: &[S]) -> String {
    let cells: Vec<_> = cells.iter().map(|text| cell(text.as_ref())).collect();
    cells.join(",") + "\r\n"
}

/// A cell. What a spreadsheet would run gets an apostrophe in front, which it takes for "this is
/// text"; a program that reads the file back must know of it.
fn cell(text: &str) -> String {
    let runs = text.starts_with(['=', '+', '-', '@', '\t', '\r', '\n', '＝', '＋', '－', '＠']);
    let text = if runs { format!("'{text}") } else { text.to_owned() };
    let plain = |c: char| !matches!(c, ',' | ';' | '"' | '\r' | '\n' | '\t' | '\'');
    if text.chars().all(plain) && text.trim() == text {
        return text;
    }
    format!("\"{}\"", text.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_with_separators_quotes_or_line_ends_are_quoted() {
        let cells = ["plain", "a,b", "say \"no\"", "two\nlines", " blank", ""];
        let wanted = "plain,\"a,b\",\"say \"\"no\"\"\",\"two\nlines\",\" blank\",\r\n";
        assert_eq!(row(&cells), wanted);
    }

    #[test]
    fn nothing_in_it_is_run_by_a_spreadsheet() {
        for formula in ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "＝1", "=\"a\",B1"] {
            let cell = cell(formula);
            assert!(cell.starts_with("\"'"), "{formula:?} became {cell:?}");
        }
        assert_eq!(cell("a=b"), "a=b");
    }
}
