//! One shopper's cookies.

use cookie::Cookie;
use http::HeaderMap;
use http::header::SET_COOKIE;

const COOKIES_MAX: usize = 50;

/// Cookies by name, all of one host and path.
#[derive(Debug, Default, Clone)]
pub(super) struct Jar(Vec<(String, String)>);

impl Jar {
    /// Takes over what an answer sets or removes.
    pub(super) fn absorb(&mut self, headers: &HeaderMap) {
        let texts = headers.get_all(SET_COOKIE).iter().filter_map(|value| value.to_str().ok());
        for cookie in texts.filter_map(|text| Cookie::parse(text).ok()) {
            self.0.retain(|(name, _)| name != cookie.name());
            let removed = cookie.max_age().is_some_and(|age| age.whole_seconds() <= 0);
            if !removed && self.0.len() < COOKIES_MAX {
                self.0.push((cookie.name().to_owned(), cookie.value().to_owned()));
            }
        }
    }

    /// A copy without the cookies whose name has this in it.
    pub(super) fn without(&self, part: &str) -> Self {
        Self(self.0.iter().filter(|(name, _)| !name.contains(part)).cloned().collect())
    }

    /// The `Cookie` header, if there is anything in it.
    pub(super) fn header(&self) -> Option<String> {
        let pairs: Vec<_> = self.0.iter().map(|(name, value)| format!("{name}={value}")).collect();
        (!pairs.is_empty()).then(|| pairs.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn a_cookie_is_replaced_and_removed_as_a_browser_would() {
        let mut jar = Jar::default();
        for set in ["a=1; Path=/; HttpOnly", "b=x=y", "a=2", "b=; Max-Age=0"] {
            let mut headers = HeaderMap::new();
            headers.append(SET_COOKIE, HeaderValue::from_static(set));
            jar.absorb(&headers);
        }
        assert_eq!(jar.header().as_deref(), Some("a=2"));
        assert_eq!(jar.without("a").header(), None);
    }
}
