//! The waiting room: the rules of `domain` above, Redis below.
