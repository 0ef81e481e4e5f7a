//! Signals, tasks, soft stop, hard stop.
