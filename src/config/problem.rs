//! What is wrong with a settings file, where, and what to do about it.

use std::fmt;
use std::path::{Path, PathBuf};

/// One problem, or one thing to know, about a settings file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// From 1; 0 if it is about the file as a whole.
    pub line: usize,
    /// From 1, in characters; 0 if it is about the file as a whole.
    pub column: usize,
    /// Dotted path as `sale[0].rate`, "" if there is none.
    pub key: String,
    /// What is wrong and its cure.
    pub message: String,
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
        let problem = Problem { line: 0, column: 0, key: String::new(), message: message.into() };
        Self::new(file, vec![problem])
    }

    /// In the order of their lines.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }
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
