//! Settings: one TOML file, validated whole before anything is bound.
