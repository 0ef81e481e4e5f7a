//! The public edge: thin, one pipeline from request to response.

pub mod assets;
pub mod pages;
