//! Postgres: the truth.
