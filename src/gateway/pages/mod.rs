//! The pages that shoppers look at: one view struct in, one HTML document out.
//!
//! A page works without JavaScript: forms join and claim, `<noscript>` reloads. With it,
//! `static/queue.js` keeps the numbers live and takes the shopper on.

mod draw;
mod filters;
mod kept;
mod pass;
mod problems;
mod receipt;
mod reload;
mod render;
#[cfg(test)]
mod tests;
mod view;
mod words;

pub use draw::{DrawView, draw_page};
pub use kept::{Face, KEY_MARK, Kept, NEXT_MARK, Own};
pub use pass::pass_form;
pub use receipt::Receipt;
pub use reload::SPREAD_SECONDS;
pub use render::{CONTENT_SECURITY_POLICY, render};
pub use view::{PageState, PageView, ProblemNote, Refresh};
