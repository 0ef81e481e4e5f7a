//! What is wrong with a settings file, where, and what to do about it.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::Serialize;

/// The most of a line that is shown.
const SHOWN_MAX: usize = 120;

/// One problem, or one thing to know, about a settings file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// From 1; 0 if it is about the file as a whole.
    pub line: usize,
    /// From 1, in characters, where the marks begin; 0 if it is about the file as a whole.
    pub column: usize,
    /// Dotted path as `sale[0].rate`, "" if there is none.
    pub key: String,
    /// What is wrong and its cure.
    pub message: String,
    /// How many characters are marked.
    #[serde(skip)]
    pub(super) width: usize,
    /// The line as it stands in the file.
    #[serde(skip)]
    pub(super) source: String,
}

impl Problem {
    /// The line of the file with the value or key marked below it; "" for the file as a whole.
    pub fn excerpt(&self) -> String {
        if self.line == 0 || self.source.trim().is_empty() {
            return String::new();
        }
        // Far along a long line, its beginning gives way.
        let before = self.column.saturating_sub(1);
        let skipped = (before + self.width.min(20)).saturating_sub(SHOWN_MAX);
        let plain = self.source.chars().map(|c| if c.is_control() { ' ' } else { c });
        let shown: String = plain.skip(skipped).take(SHOWN_MAX).collect();
        let indent = before - skipped.min(before);
        let marks = self.width.clamp(1, shown.chars().count().saturating_sub(indent).max(1));
        let number = self.line.to_string();
        let gutter = " ".repeat(number.len());
        let (space, carets) = (" ".repeat(indent), "^".repeat(marks));
        format!("{gutter} |\n{number} | {}\n{gutter} | {space}{carets}\n", shown.trim_end())
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line > 0 {
            write!(f, "{}: ", self.line)?;
        }
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.message)
    }
}

/// A settings file that was not accepted, with everything that is wrong with it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Refused {
    file: PathBuf,
    problems: Vec<Problem>,
}

impl Refused {
    /// By these problems; there is at least one.
    pub fn new(file: &Path, problems: Vec<Problem>) -> Self {
        Self { file: file.to_owned(), problems }
    }

    /// By one problem of the whole file.
    pub fn whole(file: &Path, message: impl Into<String>) -> Self {
        let (key, message) = (String::new(), message.into());
        let problem = Problem { line: 0, column: 0, key, message, width: 0, source: String::new() };
        Self::new(file, vec![problem])
    }

    /// The file that was refused.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// In the order of their lines.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// For a person: each problem with its line of the file, and how many there are.
    pub fn explained(&self) -> String {
        let file = self.file.display();
        let each = self.problems.iter().map(|problem| explained(&self.file, problem, ""));
        let count = match self.problems.len() {
            1 => "1 problem".to_owned(),
            many => format!("{many} problems"),
        };
        format!("{}{file}: refused, {count}", each.collect::<String>())
    }
}

/// `FILE:LINE: key: message`, then the line with its marks.
pub fn explained(file: &Path, problem: &Problem, what: &str) -> String {
    let gap = if problem.line > 0 { "" } else { " " };
    format!("{}:{gap}{problem}{what}\n{}", file.display(), problem.excerpt())
}

/// One line each: `FILE:LINE: key: message`.
impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, problem) in self.problems.iter().enumerate() {
            let end = if at + 1 == self.problems.len() { "" } else { "\n" };
            let gap = if problem.line > 0 { "" } else { " " };
            write!(f, "{}:{gap}{problem}{end}", self.file.display())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(source: &str, column: usize, width: usize) -> Problem {
        let (key, message, source) = (String::new(), String::new(), source.to_owned());
        Problem { line: 12, column, key, message, width, source }
    }

    #[test]
    fn the_marks_stand_below_what_is_wrong() {
        let excerpt = problem("rate = \"fast\"  # why", 8, 6).excerpt();
        assert_eq!(excerpt, "   |\n12 | rate = \"fast\"  # why\n   |        ^^^^^^\n");
        let tab = problem("\trate = 5", 2, 4).excerpt();
        assert_eq!(tab, "   |\n12 |  rate = 5\n   |  ^^^^\n");
    }

    #[test]
    fn a_mark_far_along_a_long_line_is_still_in_sight() {
        let long = format!("{} bad", "x".repeat(400));
        let excerpt = problem(&long, 402, 3).excerpt();
        let lines: Vec<_> = excerpt.lines().collect();
        assert!(lines[1].ends_with(" bad"), "{excerpt}");
        assert_eq!(lines[1].len(), lines[2].len(), "{excerpt}");
    }
}
