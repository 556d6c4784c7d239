//! The one binary: parse, wire, print, exit code.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// An overload-control gateway: keeps a web application at its peak goodput whatever load arrives.
#[derive(Debug, Parser)]
#[command(name = "tidegate", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Load a server and measure what it does, or be the server to be loaded
    Load(Box<tidegate_load::cli::Arguments>),
}

fn main() -> ExitCode {
    match Arguments::parse().command {
        Command::Load(arguments) => tidegate_load::cli::run(*arguments),
    }
}
