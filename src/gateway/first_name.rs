//! One name for the line. Our cookies are of one host: whoever joins at `www.shop.example` and comes
//! back to `shop.example` would be somebody new.

use hyper::header::{self, HeaderValue};
use hyper::{Response, StatusCode};

use super::asked::Asked;
use super::cookies::Found;
use super::core_client::STANCHION_ADMISSION;
use super::identify::TICKET_HEADER;
use super::pipeline::is_read;
use super::reader::Reader;
use super::respond;
use super::route::{Call, Own, Route};
use super::sale::SaleGate;
use crate::http::body::Body;

/// 307 to the same page by the first of the names that are served here, for a navigation that
/// would show the queue to somebody who has nothing yet: a place stays where it was taken.
pub(super) fn elsewhere(asked: &Asked, route: &Route<'_>, first: &str) -> Option<Response<Body>> {
    let (Route::Gated(sale) | Route::Own(Own::Sale(sale, Call::Page))) = route else { return None };
    let is_navigation = is_read(asked.method()) && asked.reader() == Reader::Person;
    if asked.head.host == first || !is_navigation || has_something(asked, sale) {
        return None;
    }
    let scheme = if asked.client.https { "https" } else { "http" };
    let port = port(&asked.head.authority);
    let location = format!("{scheme}://{first}{port}{}", asked.target());
    let mut response = respond::bare(StatusCode::TEMPORARY_REDIRECT);
    let location = HeaderValue::from_bytes(location.as_bytes()).ok()?;
    response.headers_mut().insert(header::LOCATION, location);
    Some(response)
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
