//! Our two cookies: their names, reading and setting them, and hiding them from the shop.

use bytes::BytesMut;
use hyper::HeaderMap;
use hyper::header::{self, HeaderValue};

use crate::domain::id::SaleId;

/// Cookies of one name that are looked at; an attacker may toss in more.
const SAME_NAME_MAX: usize = 4;
/// What a `Set-Cookie` line takes beside its value.
const ATTRIBUTES_BYTES: usize = 192;

/// Which of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// The place in line.
    Ticket,
    /// The right to check out.
    Pass,
}

/// A cookie's name: `__Host-` binds it to the host and to https, so where the visitor sees plain
/// http it must go without.
fn name(kind: Kind, sale: &SaleId, https: bool) -> String {
    let prefix = if https { "__Host-" } else { "" };
    let kind = match kind {
        Kind::Ticket => "ticket",
        Kind::Pass => "pass",
    };
    format!("{prefix}stanchion-{kind}-{sale}")
}

/// The names of a sale's cookies.
pub(super) struct Names {
    plain: [String; 2],
    secure: [String; 2],
}

impl Names {
    /// Of a sale.
    pub(super) fn of(sale: &SaleId) -> Self {
        let both = |https| [Kind::Ticket, Kind::Pass].map(|kind| name(kind, sale, https));
        Self { plain: both(false), secure: both(true) }
    }

    /// Those of tickets and of passes, as the visitor sees the host.
    fn both(&self, https: bool) -> &[String; 2] {
        if https { &self.secure } else { &self.plain }
    }

    fn of_kind(&self, kind: Kind, https: bool) -> &str {
        let [ticket, pass] = self.both(https);
        match kind {
            Kind::Ticket => ticket,
            Kind::Pass => pass,
        }
    }
}

/// The values of a sale's two cookies.
#[derive(Default)]
pub(super) struct Found<'a> {
    /// Of tickets.
    pub(super) tickets: Vec<&'a str>,
    /// Of passes.
    pub(super) passes: Vec<&'a str>,
}

impl<'a> Found<'a> {
    /// Looks for both in one go.
    pub(super) fn among(headers: &'a HeaderMap, names: &Names, https: bool) -> Self {
        Self::of(pairs(headers), names, https)
    }

    /// The same in one Cookie header.
    pub(super) fn in_line(line: &'a [u8], names: &Names, https: bool) -> Self {
        Self::of(pairs_of(line), names, https)
    }

    fn of(pairs: impl Iterator<Item = &'a [u8]>, names: &Names, https: bool) -> Self {
        let [ticket, pass] = names.both(https);
        let mut found = Self::default();
        for pair in pairs {
            let (values, value) = if let Some(value) = value_of(pair, ticket) {
                (&mut found.tickets, value)
            } else if let Some(value) = value_of(pair, pass) {
                (&mut found.passes, value)
            } else {
                continue;
            };
            if values.len() < SAME_NAME_MAX {
                values.push(value);
            }
        }
        found
    }
}

/// The pairs of the Cookie header, as sent.
fn pairs(headers: &HeaderMap) -> impl Iterator<Item = &[u8]> {
    headers.get_all(header::COOKIE).iter().flat_map(|line| pairs_of(line.as_bytes()))
}

fn pairs_of(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    let ends = memchr::memchr_iter(b';', line).chain([line.len()]);
    let mut from = 0;
    ends.map(move |end| {
        let pair = line.get(from..end).unwrap_or_default();
        from = end + 1;
        pair.trim_ascii()
    })
}

fn value_of<'a>(pair: &'a [u8], name: &str) -> Option<&'a str> {
    let value = pair.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
    std::str::from_utf8(value).ok()
}

/// The values of all cookies of that name.
pub(super) fn values<'a>(
    headers: &'a HeaderMap,
    name: &'a str,
) -> impl Iterator<Item = &'a str> + use<'a> {
    pairs(headers).filter_map(move |pair| value_of(pair, name)).take(SAME_NAME_MAX)
}

/// A `Set-Cookie` line. Without `seconds` it lasts for the browser's session; the token inside has
/// its own end in any case.
pub(super) fn set(
    kind: Kind,
    names: &Names,
    https: bool,
    value: &str,
    seconds: Option<u64>,
) -> Option<HeaderValue> {
    let mut line = BytesMut::with_capacity(value.len() + ATTRIBUTES_BYTES);
    let mut digits = itoa::Buffer::new();
    let age = seconds.map_or(["", ""], |seconds| ["; Max-Age=", digits.format(seconds)]);
    let secure = if https { "; Secure" } else { "" };
    let parts = [names.of_kind(kind, https), "=", value, "; HttpOnly; SameSite=Lax", secure];
    for part in parts.into_iter().chain(["; Path=/"]).chain(age) {
        line.extend_from_slice(part.as_bytes());
    }
    HeaderValue::from_maybe_shared(line.freeze()).ok()
}

/// A `Set-Cookie` line that ends a cookie.
pub(super) fn end(kind: Kind, names: &Names, https: bool) -> Option<HeaderValue> {
    set(kind, names, https, "", Some(0))
}

/// Takes our cookies out of the Cookie header; the others keep their bytes.
pub(super) fn hide(headers: &mut HeaderMap) {
    let others = pairs(headers).filter(|pair| !pair.is_empty() && !is_ours(pair));
    let mut joined = BytesMut::new();
    for pair in others {
        if !joined.is_empty() {
            joined.extend_from_slice(b"; ");
        }
        joined.extend_from_slice(pair);
    }
    match HeaderValue::from_maybe_shared(joined.freeze()) {
        Ok(value) if !value.is_empty() => {
            headers.insert(header::COOKIE, value);
        }
        Ok(_) | Err(_) => {
            headers.remove(header::COOKIE);
        }
    }
}

fn is_ours(pair: &[u8]) -> bool {
    let bare = pair.strip_prefix(b"__Host-").unwrap_or(pair);
    bare.starts_with(b"stanchion-")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sale() -> SaleId {
        SaleId::parse("drop").unwrap()
    }

    fn headers(line: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(header::COOKIE, HeaderValue::from_static(line))])
    }

    #[test]
    fn ed_54_the_shop_sees_every_cookie_but_ours() {
        let mut some =
            headers("a=1; stanchion-ticket-drop=x;b=\"2\"; __Host-stanchion-pass-drop=y; c");
        hide(&mut some);
        assert_eq!(some[header::COOKIE], "a=1; b=\"2\"; c");

        let mut only_ours = headers("stanchion-pass-drop=x");
        hide(&mut only_ours);
        assert!(!only_ours.contains_key(header::COOKIE));
    }

    #[test]
    fn ed_50_all_of_a_name_are_looked_at_but_not_without_end() {
        let two = headers("stanchion-ticket-drop=forged; x=1; stanchion-ticket-drop=good");
        let found: Vec<_> = values(&two, "stanchion-ticket-drop").collect();
        assert_eq!(found, ["forged", "good"]);

        let many = "stanchion-ticket-drop=a;".repeat(100);
        let line = HeaderValue::from_str(&many).unwrap();
        let many = HeaderMap::from_iter([(header::COOKIE, line)]);
        assert_eq!(values(&many, "stanchion-ticket-drop").count(), SAME_NAME_MAX);
    }

    #[test]
    fn wr_42_ours_is_found_among_others_however_they_are_written() {
        for line in [
            "a=1; stanchion-ticket-drop=t; b=2",
            "a=1;stanchion-ticket-drop=t;b=2",
            "stanchion-ticket-drop=t",
            ";; stanchion-ticket-drop=t ;",
            "x=stanchion-ticket-drop=no; stanchion-ticket-drop=t",
            "stanchion-ticket-drop2=no; stanchion-ticket-drop=t; stanchion-ticket-dro=no",
        ] {
            let found = headers(line);
            assert_eq!(
                values(&found, "stanchion-ticket-drop").collect::<Vec<_>>(),
                ["t"],
                "{line}"
            );
        }
        for line in ["", "a=1", "stanchion-ticket-drop", "=", "a=stanchion-ticket-drop=t"] {
            let found = headers(line);
            assert_eq!(values(&found, "stanchion-ticket-drop").count(), 0, "{line}");
        }
        let inside = headers("stanchion-ticket-drop=a=b==");
        assert_eq!(values(&inside, "stanchion-ticket-drop").collect::<Vec<_>>(), ["a=b=="]);
    }

    #[test]
    fn ed_50_both_cookies_of_a_sale_are_found_in_one_go_beside_whatever_else_there_is() {
        let line = "a=1; stanchion-pass-drop=p; b=caf\u{e9};stanchion-ticket-drop=t; \
                    __Host-stanchion-ticket-drop=s; stanchion-pass-drop=q; stanchion-pass-other=o";
        let line = HeaderValue::from_bytes(line.as_bytes()).unwrap();
        let headers = HeaderMap::from_iter([(header::COOKIE, line)]);
        let names = Names::of(&sale());
        let plain = Found::among(&headers, &names, false);
        assert_eq!((plain.tickets, plain.passes), (vec!["t"], vec!["p", "q"]));
        let secure = Found::among(&headers, &names, true);
        assert_eq!((secure.tickets, secure.passes), (vec!["s"], vec![]));

        let line = HeaderValue::from_str(&"stanchion-ticket-drop=a;".repeat(100)).unwrap();
        let many = HeaderMap::from_iter([(header::COOKIE, line)]);
        assert_eq!(Found::among(&many, &names, false).tickets.len(), SAME_NAME_MAX);
    }

    #[test]
    fn over_https_a_cookie_is_bound_to_host_and_scheme() {
        let names = Names::of(&sale());
        let line = set(Kind::Pass, &names, true, "v", None).unwrap();
        let text = line.to_str().unwrap();
        assert!(text.starts_with("__Host-stanchion-pass-drop=v;"), "{text}");
        for part in ["HttpOnly", "SameSite=Lax", "Secure", "Path=/"] {
            assert!(text.contains(part), "{text}");
        }
        assert!(!text.contains("Max-Age"), "{text}");
        let plain = set(Kind::Pass, &names, false, "v", None).unwrap();
        assert!(plain.to_str().unwrap().starts_with("stanchion-pass-drop=v;"));
        assert!(!plain.to_str().unwrap().contains("Secure"));
        let long = set(Kind::Ticket, &names, false, "v", Some(60)).unwrap();
        assert_eq!(long, "stanchion-ticket-drop=v; HttpOnly; SameSite=Lax; Path=/; Max-Age=60");
        assert!(end(Kind::Pass, &names, false).unwrap().to_str().unwrap().ends_with("; Max-Age=0"));
    }
}
