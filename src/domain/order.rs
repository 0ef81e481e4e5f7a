//! Since when a node has seen the order in force: what it and the others could hear of the line is
//! counted from then on. The draw may be made seconds after the opening, for its beacon's sake.

/// An order as a node sees it. `T` says which it is: another draw, or a room that was restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Order<T>(Option<(T, u64)>);

impl<T> Default for Order<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T: PartialEq + Copy> Order<T> {
    /// After a look at `now_ms`, which found this order or none.
    #[must_use]
    pub fn seen(self, now_ms: u64, found: Option<T>) -> Self {
        match (self.0, found) {
            (Some((known, _)), Some(of)) if known == of => self,
            (_, found) => Self(found.map(|of| (of, now_ms))),
        }
    }

    /// When this node first saw it; nothing while there is none.
    pub fn since_ms(&self) -> Option<u64> {
        self.0.as_ref().map(|(_, at_ms)| *at_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_counts_from_the_look_that_found_it_until_there_is_another() {
        let lobby = Order::default().seen(1_000, None);
        assert_eq!(lobby.since_ms(), None);
        let drawn = lobby.seen(4_000, Some("draw"));
        assert_eq!(drawn.seen(9_000, Some("draw")).since_ms(), Some(4_000));
        assert_eq!(drawn.seen(9_000, Some("restored")).since_ms(), Some(9_000));
        assert_eq!(drawn.seen(9_000, None).since_ms(), None);
    }
}
