//! reservation
