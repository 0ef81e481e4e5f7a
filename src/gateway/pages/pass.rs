//! The page where staff type a pass.

use askama::Template;
use bytes::Bytes;

use super::words::{ENGLISH, Words};
use crate::gateway::assets;

#[derive(Template)]
#[template(path = "pass.html", whitespace = "minimize")]
struct PassPage<'a> {
    t: &'a Words,
    name: &'static str,
    next: &'a str,
    key: &'a str,
    css: &'static str,
    icon: &'static str,
}

/// The form; `key` makes a double click one use.
pub fn pass_form(next: &str, key: &str) -> Result<Bytes, askama::Error> {
    let page = PassPage {
        t: &ENGLISH,
        name: "Staff entrance",
        next,
        key,
        css: assets::url("queue.css").unwrap_or_default(),
        icon: assets::url("mark.svg").unwrap_or_default(),
    };
    page.render().map(Bytes::from)
}
