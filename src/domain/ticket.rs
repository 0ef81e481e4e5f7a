//! ticket
