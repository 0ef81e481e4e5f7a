//! The part of the page that changes.

use askama::Template;

use super::Dash;
use super::trail::{Entry, Told};
use super::view::{FileNote, NodeRow, SaleCard, node_rows};

#[derive(Template)]
#[template(path = "ops/live.html", whitespace = "minimize")]
struct Live {
    sales: Vec<SaleCard>,
    file: FileNote,
    nodes: Vec<NodeRow>,
    /// Name, whether it answers, and what is wrong if not.
    rests: Vec<(&'static str, bool, String)>,
    trail: Vec<Entry>,
    trail_note: &'static str,
}

#[derive(Template)]
#[template(path = "ops/page.html", whitespace = "minimize")]
struct Page<'a> {
    node: &'a str,
    live: &'a str,
}

/// The whole page around its changing part, which is rendered and escaped already.
pub(super) fn page(node: &str, live: &str) -> Result<String, askama::Error> {
    Page { node, live }.render()
}

impl Dash {
    /// The sales as they are now.
    pub(super) fn cards(&self) -> Vec<SaleCard> {
        self.parts.pulse.beats().map(|(room, beat)| SaleCard::of(room, &beat)).collect()
    }

    /// The changing part as it is now.
    pub(super) async fn live(&self) -> Result<String, askama::Error> {
        let health = self.parts.health.report().await;
        let dependencies = health.dependencies.iter();
        let rests = dependencies.map(|(name, state)| (*name, state.ok, state.detail.clone()));
        let (trail, trail_note) = match self.trail.told(&self.parts.ops).await {
            Told::Entries(entries) if entries.is_empty() => (entries, "Nobody has yet."),
            Told::Entries(entries) => (entries, ""),
            Told::Nothing => (vec![], "No core tells at the moment."),
        };
        Live {
            sales: self.cards(),
            file: FileNote::of(&self.parts.reload.get()),
            nodes: node_rows(&self.parts.roster.nodes()),
            rests: rests.collect(),
            trail,
            trail_note,
        }
        .render()
    }
}
