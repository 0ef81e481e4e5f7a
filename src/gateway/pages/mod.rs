//! The pages that shoppers look at: one view struct in, one HTML document out.
//!
//! A page works without JavaScript: forms join and claim, `<noscript>` reloads. With it,
//! `static/queue.js` keeps the numbers live and takes the shopper on.

mod filters;
mod pass;
mod problems;
mod render;
#[cfg(test)]
mod tests;
mod view;
mod words;

pub use pass::pass_form;
pub use render::{CONTENT_SECURITY_POLICY, render};
pub use view::{PageState, PageView, ProblemNote};
