//! Logs and the metric registry.
