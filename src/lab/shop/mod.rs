//! The sample shop: an ordinary small shop with its own HTTP server, as a merchant would already
//! run it. It knows the waiting room only by the `Stanchion-*` headers of admitted requests, and
//! the reservation core as any shop's back end does.

mod core_api;
mod journal;
mod pages;
mod routes;
mod sessions;

pub use core_api::CoreApi;
pub use journal::{JOURNAL_MAX, Journal, Visit};
pub use routes::{Shop, serve};
