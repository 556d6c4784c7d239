//! `tidegate completions`: what a shell has to know to complete Tidegate's command line.

use clap::{Args, Command, ValueEnum};
use clap_complete::{
    Generator as _,
    shells::{Bash, Fish, Zsh},
};

use crate::{failure::Failure, output::say};

#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// For which shell.
    shell: Shell,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// Prints the script for a shell.
pub(crate) fn print(asked: &Completions, mut tidegate: Command) -> Result<(), Failure> {
    tidegate.set_bin_name("tidegate");
    tidegate.build();
    let mut script = Vec::new();
    match asked.shell {
        Shell::Bash => Bash.generate(&tidegate, &mut script),
        Shell::Zsh => Zsh.generate(&tidegate, &mut script),
        Shell::Fish => Fish.generate(&tidegate, &mut script),
    }
    say(String::from_utf8_lossy(&script).trim_end()).map(drop)
}
