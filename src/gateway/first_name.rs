//! One name for the line. Our cookies are of one host: whoever joins at `www.shop.example` and comes
//! back to `shop.example` would be somebody new.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use hyper::header::{self, HeaderValue};
use hyper::{Response, StatusCode};

use super::answers::{Answers, Known};
use super::asked::Asked;
use super::cookies::Found;
use super::core_client::STANCHION_ADMISSION;
use super::express::looks;
use super::identify::TICKET_HEADER;
use super::pipeline::is_read;
use super::reader::Reader;
use super::respond;
use super::route::{Call, Own, Route};
use super::sale::SaleGate;
use crate::http::body::Body;
use crate::http::host::is_name;

/// For so long whoever was sent to the first name and comes back by another is shown the queue
/// there: something between us writes that name over what was asked for.
const SENT_KEPT: Duration = Duration::from_secs(3);
/// Of those sent lately, so many are remembered in each of two halves.
const SENT_MAX: usize = 4_096;

/// The first of the names that are served here.
pub(super) struct FirstName {
    name: String,
    sent: Answers<u64, ()>,
    hasher: RandomState,
}

impl FirstName {
    pub(super) fn new(name: String) -> Self {
        Self { name, sent: Answers::new(SENT_MAX), hasher: RandomState::new() }
    }

    /// 307 to the same page by the first name, for a navigation that would show the queue to
    /// somebody who has nothing yet: a place stays where it was taken. Whoever asks by an address, or
    /// on the machine itself, is no shopper and stays.
    pub(super) fn elsewhere(&self, asked: &Asked, route: &Route<'_>) -> Option<Response<Body>> {
        let (Route::Gated(sale) | Route::Own(Own::Sale(sale, Call::Page))) = route else {
            return None;
        };
        let is_navigation = is_read(asked.method()) && asked.reader() == Reader::Person;
        let is_first = asked.head.host == self.name || !is_name(&asked.head.host);
        if is_first || !is_navigation || has_something(asked, sale) {
            return None;
        }
        let who = self.hasher.hash_one((&asked.head.host, looks(asked)));
        if matches!(self.sent.known(&who), Known::Answer(())) {
            return None;
        }
        self.sent.put(who, (), SENT_KEPT);
        let scheme = if asked.client.https { "https" } else { "http" };
        let (name, port) = (&self.name, port(&asked.head.authority));
        let location = format!("{scheme}://{name}{port}{}", asked.target());
        let mut response = respond::bare(StatusCode::TEMPORARY_REDIRECT);
        let location = HeaderValue::from_bytes(location.as_bytes()).ok()?;
        response.headers_mut().insert(header::LOCATION, location);
        Some(response)
    }
}

fn has_something(asked: &Asked, sale: &SaleGate) -> bool {
    let headers = asked.headers();
    let found = Found::among(headers, &sale.cookies, asked.client.https);
    !(found.tickets.is_empty() && found.passes.is_empty())
        || headers.contains_key(TICKET_HEADER)
        || headers.contains_key(STANCHION_ADMISSION)
}

/// `:8080`, or nothing.
fn port(authority: &str) -> &str {
    let after = authority.rfind(']').unwrap_or(0);
    authority[after..].find(':').map_or("", |at| &authority[after + at..])
}

#[cfg(test)]
mod tests {
    use super::port;

    #[test]
    fn the_port_stays() {
        for (authority, told) in [
            ("www.shop.test", ""),
            ("www.shop.test:8080", ":8080"),
            ("[::1]", ""),
            ("[::1]:8443", ":8443"),
        ] {
            assert_eq!(port(authority), told, "{authority}");
        }
    }
}
