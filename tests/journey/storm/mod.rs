//! More at once than there is room for, nodes that come and go, and what breaks in the middle of it.

mod broken;
mod doors;
mod joins;
mod nodes;
mod outages;
mod straddle;
mod two_sales;
