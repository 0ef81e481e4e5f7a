//! The waiting room: the rules of `domain` above, Redis below.

pub mod keys;
pub mod token;
