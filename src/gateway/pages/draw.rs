//! The page that recomputes a draw in the reader's browser: what each step shows, and the way by
//! hand for who would rather not believe a page of the shop.

use askama::Template;
use bytes::Bytes;

use super::receipt::Receipt;
use super::render::title_of;
use super::words::{ENGLISH, Words};
use crate::gateway::assets;

/// What the page is made from.
#[derive(Debug, Clone)]
pub struct DrawView {
    /// The sale's id.
    pub sale: String,
    /// Where the reader sees this site: scheme, host and port.
    pub origin: String,
    /// The reader's own, who is in the draw.
    pub receipt: Option<Receipt>,
}

/// One step: its name is what `stanchion draw verify` calls it.
struct Step {
    name: &'static str,
    head: &'static str,
    text: &'static str,
    /// Whether the script shows a value of the proof with it.
    has_value: bool,
}

#[derive(Template)]
#[template(path = "draw.html", whitespace = "minimize")]
struct Page<'a> {
    t: &'a Words,
    name: String,
    sale: &'a str,
    origin: &'a str,
    /// Counted from 0, as the command wants it.
    entry: Option<u64>,
    receipt: Option<String>,
    steps: [Step; 8],
    css: &'static str,
    look: &'static str,
    js: &'static str,
    icon: &'static str,
}

/// Renders the page as UTF-8 HTML.
pub fn draw_page(view: &DrawView) -> Result<Bytes, askama::Error> {
    let t = &ENGLISH;
    let page = Page {
        t,
        name: title_of(&view.sale),
        sale: &view.sale,
        origin: &view.origin,
        entry: view.receipt.as_ref().map(|receipt| receipt.entry),
        receipt: view.receipt.as_ref().map(Receipt::text),
        steps: steps(t),
        css: assets::url("queue.css").unwrap_or_default(),
        look: assets::url("draw.css").unwrap_or_default(),
        js: assets::url("draw.js").unwrap_or_default(),
        icon: assets::url("mark.svg").unwrap_or_default(),
    };
    page.render().map(Bytes::from)
}

/// In the order in which each rests on those before it.
fn steps(t: &Words) -> [Step; 8] {
    let step = |name, (head, text), has_value| Step { name, head, text, has_value };
    [
        step("algorithm", (t.step_algorithm, t.step_algorithm_text), false),
        step("commitment", (t.step_commitment, t.step_commitment_text), true),
        step("receipt", (t.step_receipt, t.step_receipt_text), true),
        step("round", (t.step_round, t.step_round_text), false),
        step("signature", (t.step_signature, t.step_signature_text), true),
        step("beacon", (t.step_beacon, t.step_beacon_text), true),
        step("key", (t.step_key, t.step_key_text), true),
        step("place", (t.step_place, t.step_place_text), true),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_a_line_for_each_step_and_the_way_by_hand_without_a_script() {
        let view = DrawView {
            sale: "spring-drop".into(),
            origin: "https://shop.example".into(),
            receipt: Some(Receipt {
                sale: "spring-drop".into(),
                run: 1,
                entry: 17,
                commitment: "c0".repeat(32),
                round: 0,
                origin: "https://shop.example".into(),
            }),
        };
        let page = String::from_utf8(draw_page(&view).unwrap().to_vec()).unwrap();
        for step in steps(&ENGLISH) {
            assert!(page.contains(&format!("<li data-step=\"{}\">", step.name)), "{}", step.name);
        }
        for part in [
            "<noscript>",
            "curl -s https://shop.example/_stanchion/spring-drop/draw &gt; proof.json",
            "stanchion draw verify proof.json --entry 17",
            "Your number: 18\n",
            "href=\"/_stanchion/spring-drop/receipt\" download",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
        assert!(page.contains(assets::url("draw.js").unwrap()));
        assert!(page.contains(assets::url("draw.css").unwrap()));

        let evil = "\"><script>alert(1)</script>";
        let hostile = DrawView { sale: evil.into(), origin: evil.into(), receipt: None };
        let page = String::from_utf8(draw_page(&hostile).unwrap().to_vec()).unwrap();
        assert_eq!(page.matches("<script").count(), 1, "{page}");
        assert!(!page.contains("--entry"), "who has no entry is told of none");
    }
}
