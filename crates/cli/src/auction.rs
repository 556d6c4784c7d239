//! `tidegate auction`: the demo's site alone, to set anything before it and load it with sessions.

use std::{io::Write as _, net::SocketAddr, num::NonZeroUsize, path::PathBuf, time::Duration};

use clap::Args;
use tidegate_auction::Options;
use tidegate_load::units::parse_duration;

use crate::failure::Failure;

#[derive(Debug, Args)]
pub(crate) struct Auction {
    /// Where to listen; port 0 takes a free one.
    #[arg(long, default_value = "127.0.0.1:8081", value_name = "ADDRESS")]
    listen: SocketAddr,
    /// Threads that work on requests, each on one at a time; one a core without it.
    #[arg(long, value_name = "N")]
    workers: Option<NonZeroUsize>,
    /// Processor time added to each page that asks the database, such as 10ms: then the site's capacity is
    /// known.
    #[arg(long, value_name = "SPAN", value_parser = parse_duration)]
    page_cost: Option<Duration>,
    /// Where the database is kept; without it, in a temporary folder that is removed at the end.
    #[arg(long, value_name = "FOLDER")]
    directory: Option<PathBuf>,
}

/// Serves until SIGINT or SIGTERM.
pub(crate) fn run(auction: Auction) -> Result<(), Failure> {
    let mut options = Options { listen: auction.listen, directory: auction.directory, ..Options::default() };
    options.workers = auction.workers.unwrap_or(options.workers);
    options.page_cost = auction.page_cost.unwrap_or_default();
    tidegate_auction::run(options, |address| {
        let mut out = std::io::stdout();
        // Who started it may have closed the pipe; the site serves all the same.
        let _ =
            writeln!(out, "an auction site of 33,000 items on http://{address}/").and_then(|()| out.flush());
    })
    .map_err(Failure::work)
}
