//! Somebody who tries the protected doors without an admission.

use bytes::Bytes;
use http::Method;
use tokio::time::{Instant, sleep_until};

use super::observations::Trespass;
use super::wire::{Step, Wire};

/// A forged admission: header, claims and signature of the right shape, signed by nobody.
const FORGED: &str =
    "eyJhbGciOiJub25lIiwidHlwIjoic3RhbmNoaW9uLWFkbWlzc2lvbitqd3QifQ.eyJhdWQiOiJ4In0.";

/// Method, path, headers, body.
type Door<'a> = (Method, &'a str, Vec<(&'a str, &'a str)>, &'a str);

/// Tries each door once. None of these requests may reach the shop or take a unit.
pub(super) async fn trespass(wire: &Wire, at: Instant, until: Instant) -> Vec<Trespass> {
    sleep_until(at.min(until)).await;
    let sale = wire.field().sale.clone();
    let reserve = format!("/_stanchion/{sale}/reservations");
    let line = format!(r#"{{"lines":[{{"sku":"{}","qty":1}}]}}"#, wire.field().sku);
    let pass = format!("stanchion-pass-{sale}={FORGED}");
    let json = ("content-type", "application/json");
    let script = ("sec-fetch-mode", "cors");
    let doors: [Door<'_>; 8] = [
        (Method::GET, "/checkout", vec![script], ""),
        (Method::HEAD, "/checkout", vec![], ""),
        (Method::POST, "/checkout/pay", vec![script], "reservation=x"),
        (Method::GET, "/Checkout/pay", vec![script], ""),
        (Method::GET, "//checkout", vec![script], ""),
        (Method::GET, "/checkout/thanks", vec![script, ("stanchion-visitor", "forged")], ""),
        (Method::GET, "/checkout", vec![script, ("stanchion-admission", FORGED)], ""),
        (Method::POST, &reserve, vec![json, ("idempotency-key", "t"), ("cookie", &pass)], &line),
    ];
    let mut seen = Vec::new();
    for (method, path, headers, body) in doors {
        let request = format!("{method} {path}");
        let body = Bytes::copy_from_slice(body.as_bytes());
        // A door that does not answer has not let anybody in.
        if let Ok(timed) = wire.call(Step::Other, method, path, &headers, body).await {
            seen.push(Trespass {
                request,
                status: timed.answer.status.as_u16(),
                answered_by: timed.answer.header("stanchion-answer").to_owned(),
            });
        }
    }
    seen
}
