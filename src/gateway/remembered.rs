//! Who is admitted, on a path where nobody has to be: as far as this node remembers.

use hyper::HeaderMap;

use super::Gateway;
use super::asked::Asked;
use super::cookies::Found;
use super::identify::ADMISSION_HEADER;
use super::sale::SaleGate;
use crate::domain::admission::LEEWAY_MS;
use crate::room::keys::Keys;

impl Gateway {
    /// The `sub` of an admission on the request. No signature is checked for it: whoever was at a
    /// protected path of late is remembered, and made-up tokens must not cost more.
    pub(super) fn remembered(&self, asked: &Asked, now_ms: u64) -> Option<String> {
        let (headers, https) = (asked.headers(), asked.client.https);
        self.sales.iter().find_map(|sale| in_sale(sale, &self.keys, (headers, https), now_ms))
    }
}

fn in_sale(
    sale: &SaleGate,
    keys: &Keys,
    (headers, https): (&HeaderMap, bool),
    now_ms: u64,
) -> Option<String> {
    let epoch = sale.run_and_epoch().1;
    let in_header = headers.get(&ADMISSION_HEADER).and_then(|value| value.to_str().ok());
    let passes = Found::among(headers, &sale.cookies, https).passes;
    let known = in_header.into_iter().chain(passes).filter_map(|raw| keys.recall_admission(raw));
    let mut counts = known
        .filter(|known| known.holds(sale.id(), epoch, now_ms, LEEWAY_MS) && !known.is_nameless());
    counts.next().map(|known| known.sub.clone())
}
