//! Health, metrics and the operators' interface.
