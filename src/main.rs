//! Parse the command line, run it, map failure to an exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    if rustls::crypto::aws_lc_rs::default_provider().install_default().is_err() {
        return ExitCode::FAILURE;
    }
    stanchion::cli::run()
}
