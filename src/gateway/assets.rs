//! The stylesheet, the script and the mark of our pages, under names made from their content.
//!
//! A name changes with its bytes (`build.rs`), so an answer may be kept for ever by anybody.

use bytes::Bytes;

/// What the caller sets as `Cache-Control` on every asset: its bytes never change.
pub const CACHE_CONTROL: &str = "public, max-age=31536000, immutable";

struct Embedded {
    source: &'static str,
    url: &'static str,
    etag: &'static str,
    content_type: &'static str,
    bytes: &'static [u8],
}

static EMBEDDED: &[Embedded] = &include!(concat!(env!("OUT_DIR"), "/assets.rs"));

const PREFIX: &str = "/_stanchion/assets/";

/// A file to send as it is.
#[derive(Debug, Clone)]
pub struct Asset {
    /// The body.
    pub bytes: Bytes,
    /// The value of `Content-Type`.
    pub content_type: &'static str,
    /// The value of `ETag`, quotes included.
    pub etag: &'static str,
}

/// The asset with this hashed name: the last segment of its path, like `queue.0123456789abcdef.css`.
pub fn find(name: &str) -> Option<Asset> {
    let embedded = EMBEDDED.iter().find(|e| e.url.strip_prefix(PREFIX) == Some(name))?;
    Some(Asset {
        bytes: Bytes::from_static(embedded.bytes),
        content_type: embedded.content_type,
        etag: embedded.etag,
    })
}

/// Our file for a hashed name that another version has given it.
pub fn of_another_version(name: &str) -> Option<Asset> {
    let (rest, extension) = name.rsplit_once('.')?;
    let (stem, hash) = rest.rsplit_once('.')?;
    let is_hash = hash.len() == 16 && hash.bytes().all(|digit| digit.is_ascii_hexdigit());
    if is_hash { named(&format!("{stem}.{extension}")) } else { None }
}

/// A file that the shop's own pages link to by its plain name, like `hold.js`.
pub fn named(source: &str) -> Option<Asset> {
    find(url(source)?.strip_prefix(PREFIX)?)
}

/// The path to link to for a file of `static/`, like `/_stanchion/assets/queue.0123456789abcdef.css`.
pub fn url(source: &str) -> Option<&'static str> {
    EMBEDDED.iter().find(|e| e.source == source).map(|e| e.url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_static_file_is_found_by_the_name_it_is_linked_by() {
        for entry in std::fs::read_dir("static").unwrap() {
            let source = entry.unwrap().file_name().into_string().unwrap();
            if source == "parts" {
                continue;
            }
            let path = url(&source).unwrap();
            let asset = find(path.strip_prefix(PREFIX).unwrap()).unwrap();
            assert!(!asset.bytes.is_empty(), "{source}");
            assert!(path.contains(asset.etag.trim_matches('"')), "{source}");
        }
    }

    #[test]
    fn a_name_of_another_version_finds_the_file_of_this_one() {
        let found = of_another_version("queue.0123456789abcdef.js").unwrap();
        assert_eq!(found.bytes, named("queue.js").unwrap().bytes);
        for name in
            ["queue.js", "queue.0123.js", "queue.0123456789abcdeg.js", "old.0123456789abcdef.js"]
        {
            assert!(of_another_version(name).is_none(), "{name}");
        }
    }

    #[test]
    fn a_name_without_its_hash_or_with_another_is_not_found() {
        for name in ["", "queue.css", "queue.0000000000000000.css", "../queue.css"] {
            assert!(find(name).is_none(), "{name}");
        }
        assert!(url("nothing.css").is_none());
    }
}
