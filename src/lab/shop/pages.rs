//! The shop's pages.

use askama::Template;

use super::core_api::{Order, SkuStock};

/// What is on offer, with how much of it is left.
#[derive(Template)]
#[template(path = "shop/product.html")]
pub(super) struct Product<'a> {
    pub(super) account: Option<String>,
    /// Nothing while the core does not answer.
    pub(super) stock: Option<&'a [SkuStock]>,
}

/// Picks a SKU and a quantity; sent to the gateway, which takes the stock.
#[derive(Template)]
#[template(path = "shop/checkout.html")]
pub(super) struct Checkout<'a> {
    pub(super) account: Option<String>,
    pub(super) sale: &'a str,
    pub(super) stock: &'a [SkuStock],
    /// Fresh for every page: a double click sends the same one twice.
    pub(super) order_key: String,
}

/// The pretended payment of a hold.
#[derive(Template)]
#[template(path = "shop/pay.html")]
pub(super) struct Pay {
    pub(super) account: Option<String>,
    /// The hold to pay; nothing when there is none.
    pub(super) order: Option<Order>,
}

/// A sentence and a way on.
#[derive(Template)]
#[template(path = "shop/notice.html")]
pub(super) struct Notice<'a> {
    pub(super) account: Option<String>,
    pub(super) title: &'a str,
    pub(super) text: &'a str,
}

/// Asks for a name.
#[derive(Template)]
#[template(path = "shop/login.html")]
pub(super) struct Login {
    pub(super) account: Option<String>,
    /// Where to go afterwards, a path of this shop.
    pub(super) next: String,
}
