//! Back from the payment provider: a page of another site and a chain of redirects, in a real browser.

use super::open_edge;
use super::origin::{Origin, header};
use crate::fixture::chromium::document;

#[tokio::test]
async fn ed_49_a_browser_stays_admitted_along_a_redirect_chain_from_another_site() {
    let edge = open_edge("returning", 500);
    edge.await_open();
    // Another host is another site; both are of this machine.
    let (provider, shop) = (Origin::start(), edge.url().replace("127.0.0.1", "localhost"));
    let back = format!("{shop}/moved?to=/checkout/done");
    let pay = format!("{shop}/checkout/moved?to={}/provider?to={back}", provider.url());
    assert!(provider.url().contains("127.0.0.1") && shop.contains("localhost"));
    let folder = tempfile::tempdir().unwrap();

    let shown = document(folder.path(), &pay).await;

    assert!(shown.contains("ok"), "{shown}");
    assert!(!provider.heads("GET /provider").is_empty(), "it was at the provider's");
    let visitor = |path: &str| {
        let head = edge.shop.heads(path).pop().unwrap();
        header(&head, "stanchion-visitor").map(str::to_owned)
    };
    let (left, came) = (visitor("GET /checkout/moved"), visitor("GET /checkout/done"));
    assert!(left.is_some() && left == came, "{left:?} left, {came:?} came back");
}
