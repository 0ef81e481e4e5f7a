//! Parse the command line, run it, map failure to an exit code.

fn main() {}
