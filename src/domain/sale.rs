//! sale
