//! The key files: their names, their form, and how they are written so that nobody reads half of
//! one.

use std::collections::BTreeMap;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::KeysError;

/// What a key file begins or ends with to say from when on its key signs; without it, at once.
const NOT_BEFORE: &str = "not-before:";
/// A key file is far smaller; anything larger is none.
const FILE_BYTES_MAX: u64 = 16 * 1024;
/// More key files than this are somebody's mistake.
const FILES_MAX: usize = 1_000;

/// The two kinds of keys that are rotated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Admission,
    Tickets,
}

impl Kind {
    pub(super) const ALL: [Self; 2] = [Self::Admission, Self::Tickets];

    pub(super) fn prefix(self) -> &'static str {
        match self {
            Self::Admission => "admission-",
            Self::Tickets => "tickets-",
        }
    }

    pub(super) fn suffix(self) -> &'static str {
        match self {
            Self::Admission => ".pem",
            Self::Tickets => ".key",
        }
    }

    pub(super) fn pattern(self) -> &'static str {
        match self {
            Self::Admission => "admission-*.pem",
            Self::Tickets => "tickets-*.key",
        }
    }

    /// The name after the last one in use.
    pub(super) fn next_name(self, last: Option<&str>) -> String {
        let digits = last.and_then(|name| {
            name.strip_prefix(self.prefix())?.strip_suffix(self.suffix())?.parse::<u32>().ok()
        });
        format!("{}{:04}{}", self.prefix(), digits.unwrap_or(0) + 1, self.suffix())
    }
}

/// The key files of a folder as they were at one moment.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Folder {
    pub(super) dir: PathBuf,
    files: BTreeMap<String, String>,
}

impl Folder {
    /// Reads every `.pem` and `.key` file.
    pub(super) fn read(dir: &Path) -> Result<Self, KeysError> {
        let mut files = BTreeMap::new();
        for entry in std::fs::read_dir(dir).map_err(|e| at(dir, e))? {
            let path = entry.map_err(|e| at(dir, e))?.path();
            let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
            let extension = path.extension().and_then(|extension| extension.to_str());
            if name.starts_with('.') || !matches!(extension, Some("pem" | "key")) {
                continue;
            }
            let size = path.metadata().map_err(|e| at(&path, e))?.len();
            if size > FILE_BYTES_MAX || files.len() >= FILES_MAX {
                return Err(KeysError::Unusable(path, "is no key file of ours; take it away"));
            }
            let text = std::fs::read_to_string(&path).map_err(|e| at(&path, e))?;
            files.insert(name.to_owned(), text);
        }
        Ok(Self { dir: dir.to_owned(), files })
    }

    /// A file's text.
    pub(super) fn text(&self, name: &'static str) -> Result<&str, KeysError> {
        let text = self.files.get(name).map(String::as_str);
        text.ok_or_else(|| KeysError::Missing(self.dir.clone(), name))
    }

    /// Names and texts of a kind, in order.
    pub(super) fn of(&self, kind: Kind) -> impl Iterator<Item = (&str, &str)> {
        let fits =
            move |name: &str| name.starts_with(kind.prefix()) && name.ends_with(kind.suffix());
        let files = self.files.iter().map(|(name, text)| (name.as_str(), text.as_str()));
        files.filter(move |(name, _)| fits(name))
    }

    /// Equal for equal folders.
    pub(super) fn digest(&self) -> [u8; 32] {
        let mut hash = Sha256::new();
        for (name, text) in &self.files {
            hash.update(format!("{name}\0{}\0", text.len()));
            hash.update(text);
        }
        hash.finalize().into()
    }
}

fn at(path: &Path, source: std::io::Error) -> KeysError {
    KeysError::Io { path: path.to_owned(), source }
}

/// From when on a key signs, Unix milliseconds; 0 = at once.
pub(super) fn not_before_ms(path: &Path, text: &str) -> Result<u64, KeysError> {
    let Some(line) = text.lines().find_map(|line| line.trim().strip_prefix(NOT_BEFORE)) else {
        return Ok(0);
    };
    let at: jiff::Timestamp = line
        .trim()
        .parse()
        .map_err(|_| KeysError::Unusable(path.to_owned(), "not-before must be an RFC 3339 time"))?;
    Ok(u64::try_from(at.as_millisecond()).unwrap_or(0))
}

/// The line that says from when on a key signs.
pub(super) fn not_before_line(at_ms: u64) -> String {
    format!("{NOT_BEFORE} {}\n", crate::domain::status::rfc3339(at_ms))
}

/// 32 bytes as 64 hex digits, in the first line.
pub(super) fn secret(path: &Path, text: &str) -> Result<[u8; 32], KeysError> {
    let mut key = [0; 32];
    let first = text.trim_start().lines().next().unwrap_or_default();
    hex::decode_to_slice(first.trim(), &mut key)
        .map_err(|_| KeysError::Unusable(path.to_owned(), "must hold 64 hex digits"))?;
    Ok(key)
}

/// Makes the folder, for its owner only.
pub(super) fn make_folder(dir: &Path) -> Result<(), KeysError> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(|e| at(dir, e))
}

/// Writes a new file whole, for its owner only: it appears under its name when it is on the disk.
pub(super) fn write_new(dir: &Path, name: &str, text: &str) -> Result<(), KeysError> {
    let (path, unfinished) = (dir.join(name), dir.join(format!(".{name}.new")));
    let write = || {
        let mut options = std::fs::OpenOptions::new();
        let mut file =
            options.write(true).create(true).truncate(true).mode(0o600).open(&unfinished)?;
        // Made by root, they are for whoever owns the folder.
        let (owner, ours) = (std::fs::metadata(dir)?, file.metadata()?);
        if owner.uid() != ours.uid() && ours.uid() == 0 {
            std::os::unix::fs::fchown(&file, Some(owner.uid()), Some(owner.gid()))?;
        }
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        // A link, not a renaming: it never replaces a key that is there.
        std::fs::hard_link(&unfinished, &path)?;
        std::fs::remove_file(&unfinished)?;
        std::fs::File::open(dir)?.sync_all()
    };
    write().map_err(|e| at(&path, e))
}

/// Takes a file away.
pub(super) fn remove(dir: &Path, name: &str) -> Result<(), KeysError> {
    let path = dir.join(name);
    std::fs::remove_file(&path).map_err(|e| at(&path, e))
}
