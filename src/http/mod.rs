//! Glue over hyper and rustls that knows nothing of sales.
