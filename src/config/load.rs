//! Finds the settings file and reads it: everything that is wrong comes at once.

use std::path::{Path, PathBuf};

use super::document::Document;
use super::problem::{Problem, Refused};
use super::rules::Findings;
use super::settings::Settings;
use super::shape::shape;
use super::validate::validate;

/// Looked for, in this order, when neither `--config` nor `STANCHION_CONFIG` says otherwise.
pub const PLACES: [&str; 2] = ["config/stanchion.toml", "/etc/stanchion/stanchion.toml"];

/// Settings that were accepted.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// From this file.
    pub file: PathBuf,
    /// Checked.
    pub settings: Settings,
    /// To be known, though accepted.
    pub warnings: Vec<Problem>,
}

/// The file to read: the one named, else the first that is there.
pub fn find(named: Option<&Path>) -> Result<PathBuf, Refused> {
    if let Some(named) = named {
        return Ok(named.to_owned());
    }
    let there = PLACES.iter().map(Path::new).find(|place| place.is_file());
    there.map(Path::to_owned).ok_or_else(|| {
        let cure = "is not there, nor is ./config/stanchion.toml; name a file with -c FILE";
        Refused::whole(Path::new(PLACES[1]), cure)
    })
}

/// Reads and checks a file.
pub fn load(file: &Path, now: jiff::Timestamp) -> Result<Loaded, Refused> {
    let bytes = std::fs::read(file)
        .map_err(|error| Refused::whole(file, format!("cannot be read: {error}")))?;
    let text = String::from_utf8(bytes)
        .map_err(|_| Refused::whole(file, "is not UTF-8 text; save it as UTF-8"))?;
    match read(&text, now) {
        Ok((settings, warnings)) => Ok(Loaded { file: file.to_owned(), settings, warnings }),
        Err(problems) => Err(Refused::new(file, problems)),
    }
}

/// Reads and checks a text: settings and warnings, or every problem in the order of lines.
pub fn read(text: &str, now: jiff::Timestamp) -> Result<(Settings, Vec<Problem>), Vec<Problem>> {
    let (document, mut problems) = Document::parse(text);
    let whole = problems.is_empty();
    let shaped = shape(&document);
    let mut findings = Findings::new(&document, &shaped.repaired);
    validate(&shaped.settings, now, &mut findings);
    let (found, mut warnings) = (findings.problems, findings.warnings);
    if whole {
        problems.extend(shaped.problems);
        problems.extend(found);
    } else {
        // What stands on a broken line is missing from the values: nothing is said about that.
        let broken: Vec<usize> = problems.iter().map(|problem| problem.line).collect();
        let sound = |problem: &Problem| {
            !broken.contains(&problem.line) && !problem.message.starts_with("is missing")
        };
        problems.extend(shaped.problems.into_iter().filter(sound));
    }
    problems.sort_by_key(|problem| (problem.line, problem.column));
    warnings.sort_by_key(|problem| (problem.line, problem.column));
    if problems.is_empty() { Ok((shaped.settings, warnings)) } else { Err(problems) }
}
