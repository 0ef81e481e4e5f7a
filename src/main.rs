//! Parse the command line, run it, map failure to an exit code.

use std::process::ExitCode;

/// An answer takes a dozen small pieces of memory, and gives them back at once.
#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    if rustls::crypto::aws_lc_rs::default_provider().install_default().is_err() {
        return ExitCode::FAILURE;
    }
    stanchion::cli::run()
}
