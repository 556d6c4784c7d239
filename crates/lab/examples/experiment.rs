//! Runs `tidegate lab` without the rest of the program: `cargo run --example experiment -- lab run NAME`.

use std::{path::Path, process::ExitCode};

use clap::{Parser, Subcommand};

#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Lab(tidegate_lab::cli::Arguments),
}

fn main() -> ExitCode {
    let Command::Lab(arguments) = Cli::parse().command;
    tidegate_lab::cli::run(&arguments, Path::new("tidegate"))
}
