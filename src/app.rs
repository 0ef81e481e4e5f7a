//! Composes a role from settings.
