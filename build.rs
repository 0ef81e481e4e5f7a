//! Gives every file of `static/` a name made from its content and a table to find it by.
//!
//! Indentation, whole-line comments and needless spaces are left out of CSS and JavaScript: the
//! first page load has a budget, the sources keep their comments. For the same reason names that are
//! a script's own become short.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::{env, fs, io};

use sha2::{Digest, Sha256};

/// No space is needed beside these in a script.
const SIGNS: &str = "{}()[],;:=<>?&|+*/!-%";

#[expect(clippy::disallowed_methods, reason = "Cargo speaks to build scripts by variables")]
fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=static");
    println!("cargo::rerun-if-changed=build.rs");
    let out = env::var("OUT_DIR").map_err(io::Error::other)?;
    let out = Path::new(&out);

    let mut names: Vec<String> = fs::read_dir("static")?
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .filter(|name| !matches!(name.as_deref(), Ok("parts")))
        .collect::<io::Result<_>>()?;
    names.sort();

    let mut rows = Vec::new();
    for name in &names {
        let (stem, extension) = name
            .rsplit_once('.')
            .ok_or_else(|| io::Error::other(format!("static/{name}: needs an extension")))?;
        let content_type = content_type(extension)
            .ok_or_else(|| io::Error::other(format!("static/{name}: unknown kind of file")))?;
        let source = fs::read_to_string(Path::new("static").join(name))?;
        let body = match extension {
            // No string and no selector of ours holds these pairs.
            "css" => dense(&trimmed(&source), "{},;:").replace(['\n'], "").replace(";}", "}"),
            "js" => bare_arrows(&dense(&trimmed(&gathered(&shortened(&whole(&source)?))), SIGNS))
                .replace(";\n", ";")
                .replace("{\n", "{")
                .replace(",\n", ",")
                .replace("\n}", "}")
                .replace(";}", "}")
                .replace(",}", "}"),
            _ => source,
        };
        let hash = hash(body.as_bytes());
        fs::write(out.join(name), &body)?;
        rows.push(format!(
            "Embedded {{ source: {name:?}, url: \"/_stanchion/assets/{stem}.{hash}.{extension}\", \
             etag: \"\\\"{hash}\\\"\", content_type: {content_type:?}, \
             bytes: include_bytes!(concat!(env!(\"OUT_DIR\"), \"/{name}\")) }}"
        ));
    }
    fs::write(out.join("assets.rs"), format!("[{}]", rows.join(",\n")))
}

fn content_type(extension: &str) -> Option<&'static str> {
    match extension {
        "css" => Some("text/css; charset=utf-8"),
        "js" => Some("text/javascript; charset=utf-8"),
        "svg" => Some("image/svg+xml"),
        _ => None,
    }
}

/// Sixteen hex digits of SHA-256: names collide only if somebody tries, and they are our files.
fn hash(body: &[u8]) -> String {
    let mut head = [0; 8];
    head.copy_from_slice(&Sha256::digest(body)[..8]);
    format!("{:016x}", u64::from_be_bytes(head))
}

/// With the parts that are kept in files of their own, and without comments.
fn whole(source: &str) -> io::Result<String> {
    let mut out = String::with_capacity(source.len());
    for line in source.lines() {
        let (indent, body) = line.split_at(line.len() - line.trim_start().len());
        if let Some(part) = body.strip_prefix("// include: ") {
            let part = fs::read_to_string(Path::new("static/parts").join(part))?;
            for line in whole(&part)?.lines() {
                out.extend([indent, line, "\n"]);
            }
        } else if !body.starts_with("//") {
            out.extend([line, "\n"]);
        }
    }
    Ok(out)
}

/// Names declared within a block become as short as can be, if they are nothing else anywhere: no
/// property, no key, no word of a string.
fn shortened(source: &str) -> String {
    let pieces = pieces(source);
    let strange = strange(source, &pieces);
    let mut uses: BTreeMap<&str, usize> = source
        .lines()
        .filter_map(declared)
        .filter(|name| !strange.contains(name))
        .map(|name| (name, 0))
        .collect();
    for (piece, _) in &pieces {
        uses.entry(piece).and_modify(|count| *count += 1);
    }
    let mut longest: Vec<_> = uses.into_iter().collect();
    longest.sort_by_key(|(name, count)| Reverse(name.len() * count));
    let letters = || ('a'..='z').chain('A'..='Z').map(String::from);
    let pairs = letters().flat_map(|letter| (0..10).map(move |digit| format!("{letter}{digit}")));
    let taken: BTreeSet<&str> = pieces.iter().map(|(piece, _)| *piece).collect();
    let free = letters().chain(pairs).filter(|name| !taken.contains(name.as_str()));
    let short: BTreeMap<&str, String> =
        longest.into_iter().map(|(name, _)| name).zip(free).collect();
    pieces.iter().map(|(piece, _)| short.get(piece).map_or(*piece, String::as_str)).collect()
}

/// What a line within a block declares, if that is one name.
fn declared(line: &str) -> Option<&str> {
    let body = line.strip_prefix("  ")?.trim_start();
    let rest = ["const ", "let "].iter().find_map(|word| body.strip_prefix(word))?;
    let name = &rest[..rest.find(|letter| !is_word(letter)).unwrap_or(rest.len())];
    (!name.is_empty()).then_some(name)
}

fn is_word(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_'
}

/// Words and single signs, and of each whether it is code and not text.
fn pieces(source: &str) -> Vec<(&str, bool)> {
    let (mut found, mut within, mut rest) = (Vec::new(), Vec::new(), source);
    while let Some(first) = rest.chars().next() {
        let end = match first {
            _ if rest.starts_with("${") => 2,
            letter if is_word(letter) => rest.find(|letter| !is_word(letter)).unwrap_or(rest.len()),
            sign => sign.len_utf8(),
        };
        let (piece, after) = rest.split_at(end);
        found.push((piece, matches!(within.last(), None | Some('}'))));
        match within.last() {
            Some(end) if *end == first => drop(within.pop()),
            Some('`') if piece == "${" => within.push('}'),
            None | Some('}') if matches!(first, '"' | '\'' | '`') => within.push(first),
            _ => {}
        }
        rest = after;
    }
    found
}

/// Words that are somebody else's names, or may be: in text, after a dot, before a colon, within
/// braces that end on their line, alone on a line of a list.
fn strange<'a>(source: &'a str, pieces: &[(&'a str, bool)]) -> BTreeSet<&'a str> {
    let alone = source.lines().filter_map(|line| line.trim().strip_suffix(','));
    let mut found: BTreeSet<&str> = alone.collect();
    let mut open = Vec::new();
    for (at, (piece, is_code)) in pieces.iter().enumerate() {
        let near = |at: Option<usize>| at.and_then(|at| pieces.get(at)).map(|(piece, _)| *piece);
        let is_property =
            near(at.checked_sub(1)) == Some(".") && near(at.checked_sub(2)) != Some(".");
        if !is_code || is_property || near(Some(at + 1)) == Some(":") {
            found.insert(piece);
        }
        match *piece {
            "{" | "${" => open.push(at),
            "}" => {
                let from = open.pop().filter(|from| pieces[*from].0 == "{").unwrap_or(at);
                found.extend(pieces[from..at].iter().map(|(piece, _)| *piece));
            }
            "\n" => open.clear(),
            _ => {}
        }
    }
    found
}

/// Declarations that follow each other as one. What is formatted as ours is says by its indentation
/// where a statement begins and ends.
fn gathered(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    // The kind and the indentation of the statements that the line is in.
    let mut within: Vec<(usize, &str)> = Vec::new();
    for line in source.lines() {
        let body = line.trim_start();
        let indent = line.len() - body.len();
        if body.is_empty() || body.starts_with("//") {
            continue;
        }
        let kind = ["const ", "let "].into_iter().find(|word| body.starts_with(word));
        within.retain(|(at, _)| *at <= indent);
        let begins = !body.starts_with(['}', ')', ']']);
        match (kind, within.last()) {
            (Some(kind), Some((at, last)))
                if *at == indent && *last == kind && out.ends_with(";\n") =>
            {
                out.truncate(out.len() - 2);
                out.push_str(",\n");
                out.push_str(&body[kind.len()..]);
            }
            _ => out.push_str(line),
        }
        out.push('\n');
        if begins {
            within.retain(|(at, _)| *at < indent);
            within.push((indent, kind.unwrap_or_default()));
        }
    }
    out
}

/// Without the brackets around the only parameter of an arrow.
fn bare_arrows(source: &str) -> String {
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let mut out = String::with_capacity(source.len());
    let mut parts = source.split(")=>").peekable();
    while let Some(part) = parts.next() {
        let name = part.rsplit_once('(').filter(|(before, name)| {
            !before.ends_with(is_name) && !name.is_empty() && name.chars().all(is_name)
        });
        match name.filter(|_| parts.peek().is_some()) {
            Some((before, name)) => {
                out.push_str(before);
                out.push_str(name);
                out.push_str("=>");
            }
            None if parts.peek().is_some() => {
                out.push_str(part);
                out.push_str(")=>");
            }
            None => out.push_str(part),
        }
    }
    out
}

/// Without the spaces around these signs. Strings keep theirs; a backslash, a regular expression or
/// one template inside another would mislead this, so our sources have none.
fn dense(source: &str, signs: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut quote = None;
    let mut letters = source.chars().peekable();
    while let Some(letter) = letters.next() {
        match quote {
            Some(end) if letter == end => quote = None,
            None if matches!(letter, '"' | '\'' | '`') => quote = Some(letter),
            None if letter == ' ' => {
                let before = out.chars().next_back().is_some_and(|known| signs.contains(known));
                let after = letters.peek().is_some_and(|next| signs.contains(*next));
                if before || after {
                    continue;
                }
            }
            Some(_) | None => {}
        }
        out.push(letter);
    }
    out
}

/// Neither kind of source has strings that run over a line end, so lines may be trimmed.
fn trimmed(source: &str) -> String {
    let mut body = String::with_capacity(source.len());
    for line in source.lines().map(str::trim) {
        let comment = line.starts_with("//") || (line.starts_with("/*") && line.ends_with("*/"));
        if !line.is_empty() && !comment {
            body.push_str(line);
            body.push('\n');
        }
    }
    body
}
