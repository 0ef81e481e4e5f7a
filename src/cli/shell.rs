//! `stanchion completions` and `stanchion man`: made from the command line itself, when asked.

use std::process::ExitCode;

use anyhow::Context;
use clap::CommandFactory;
use clap_complete::Shell;

use super::{Cli, say};

/// Completions for one shell, on standard output.
pub(super) fn completions(shell: Shell) -> anyhow::Result<ExitCode> {
    let mut script = vec![];
    clap_complete::generate(shell, &mut Cli::command(), "stanchion", &mut script);
    say(&String::from_utf8(script).context("completions that are not text")?);
    Ok(ExitCode::SUCCESS)
}

/// The manual page of the program, or of one of its commands, in roff.
///
/// # Errors
/// If there is no such command.
pub(super) fn man(words: &[String]) -> anyhow::Result<ExitCode> {
    let mut command = Cli::command();
    // Fills in what subcommands inherit.
    command.build();
    let mut name = "stanchion".to_owned();
    for word in words {
        let found = command.find_subcommand(word).cloned();
        command = found.with_context(|| format!("there is no command '{name} {word}'"))?;
        name = format!("{name}-{word}");
    }
    let mut page = vec![];
    clap_mangen::Man::new(command.display_name(&name)).title(name).render(&mut page)?;
    say(&String::from_utf8(page).context("a page that is not text")?);
    Ok(ExitCode::SUCCESS)
}
