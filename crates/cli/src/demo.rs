//! `tidegate demo`: an auction site, a load beyond its capacity, and the gateway between them.
//!
//! First the load goes to the site directly, then the same load goes through the gateway. All three
//! run in this process, on loopback.

use std::{
    fmt::Write as _,
    io::IsTerminal,
    net::SocketAddr,
    num::NonZeroUsize,
    sync::{Arc, Mutex, PoisonError, mpsc},
    time::{Duration, Instant},
};

use clap::Args;
use serde_json::{Value as Json, json};
use tidegate_auction::{Auction, Interaction, Options, Running as Site, Values};
use tidegate_config::{ProtectOptions, Settings};
use tidegate_load::{Arrivals, ClassPlan, Live, LiveCounts, Plan, Report, run_blocking_with};
use tokio::signal::unix::{SignalKind, signal};

use crate::{
    failure::Failure,
    output::say,
    process::{Process, runtime},
};

/// Processor time added to each page: with one worker, the site does a little under a hundred a second.
const PAGE_COST: Duration = Duration::from_millis(10);
/// How long a visitor waits for a page.
const PATIENCE: Duration = Duration::from_secs(2);
const CALIBRATION: Duration = Duration::from_secs(3);

/// The pages visitors ask for, and how many of twenty for each.
const PAGES: &[(Interaction, u32)] = &[
    (Interaction::Browse, 3),
    (Interaction::SearchItemsInCategory, 7),
    (Interaction::ViewItem, 7),
    (Interaction::ViewBidHistory, 3),
];

#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// End by itself after so many seconds of load, half of them without the gateway; without it
    /// the load through the gateway goes on until Ctrl-C.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(4..=86_400))]
    seconds: Option<u64>,
    /// Print the figures as one JSON object at the end, and nothing else.
    #[arg(long, requires = "seconds")]
    json: bool,
    /// Load as a multiple of the site's capacity.
    #[arg(long, default_value_t = 3.0, value_name = "FACTOR", value_parser = factor)]
    load: f64,
    /// Where the gateway listens.
    #[arg(long, default_value = "127.0.0.1:8080", value_name = "ADDRESS")]
    listen: SocketAddr,
    /// Where the page, metrics and the API answer.
    #[arg(long, default_value = "127.0.0.1:9900", value_name = "ADDRESS")]
    admin: String,
}

fn factor(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(factor) if (0.1..=100.0).contains(&factor) => Ok(factor),
        _ => Err("give a number from 0.1 to 100".to_owned()),
    }
}

/// Runs the demo, until it is over or SIGINT or SIGTERM comes.
pub(crate) fn run(demo: &Demo) -> Result<(), Failure> {
    let interrupt = Interrupt::listen()?;
    let mut table = Table::new(!demo.json);
    table.say("Generating an auction site of 33,000 items …");
    let site = start_site()?;
    // A site of its own: what the first still owes to visitors who have left would fall to the next phase.
    let protected_site = start_site()?;
    // Before anything is measured, so that an address that cannot be taken is said at once.
    let options = ProtectOptions {
        listen: demo.listen.to_string(),
        admin: demo.admin.clone(),
        ..ProtectOptions::new(format!("http://{}", protected_site.address()))
    };
    let process = Process::start(Settings::protect(&options).map_err(Failure::input)?, runtime()?)?;
    let gateway =
        process.urls().into_iter().next().ok_or_else(|| Failure::work("the gateway has no address"))?;
    let Some(capacity) = calibrate(&site, &interrupt)? else { return Ok(()) };
    let offered = capacity * demo.load;
    table.say(&format!(
        "The site does {capacity:.0} pages a second. {offered:.0} visitors a second come now, each waits {} s.",
        PATIENCE.as_secs()
    ));

    let half = demo.seconds.map(|seconds| Duration::from_secs(seconds) / 2);
    table.head("without the gateway");
    let direct = load(
        &format!("http://{}", site.address()),
        offered,
        half.unwrap_or(Duration::from_secs(15)),
        &mut table,
        &interrupt,
    )?;
    if interrupt.has_come() {
        return Ok(());
    }
    site.stop();

    table.head("with the gateway");
    if let Some(admin) = process.admin() {
        table.say(&format!("See it on http://{admin}/"));
    }
    let span = half.unwrap_or(Duration::from_secs(86_400));
    let protected = load(&gateway, offered, span, &mut table, &interrupt)?;
    process.stop();
    protected_site.stop();

    let figures = json!({
        "capacity_per_s": capacity,
        "offered_per_s": offered,
        "without": figures(&direct, capacity),
        "with": figures(&protected, capacity),
    });
    if demo.json {
        // Of a half that was cut short they would not be what was asked for.
        if !interrupt.has_come() {
            say(figures)?;
        }
    } else {
        table.close(&direct, &protected, capacity);
    }
    Ok(())
}

fn start_site() -> Result<Site, Failure> {
    Auction::start(Options { workers: NonZeroUsize::MIN, page_cost: PAGE_COST, ..Options::default() })
        .map_err(Failure::work)
}

/// Pages a second; `None` if it was interrupted.
fn calibrate(site: &Site, interrupt: &Interrupt) -> Result<Option<f64>, Failure> {
    let plan = calibration(&format!("http://{}", site.address()));
    let live = Arc::new(Live::new(&plan));
    interrupt.stops(&live);
    let report = run_blocking_with(&plan, &live).map_err(Failure::work)?;
    if interrupt.has_come() {
        return Ok(None);
    }
    if report.total.goodput_per_s < 1.0 {
        return Err(Failure::work(
            "the demo site answered less than one page a second: is the machine busy?",
        ));
    }
    Ok(Some(report.total.goodput_per_s))
}

/// Each visitor asks anew once he is answered, and the site answers them in turn: so the pages, which do not cost
/// the same, come in the shares they have in the load.
fn calibration(url: &str) -> Plan {
    let plan = Plan::new(url).duration(CALIBRATION).warmup(CALIBRATION / 6);
    PAGES.iter().fold(plan, |plan, (page, visitors)| {
        let arrivals = Arrivals::closed(usize::try_from(*visitors).unwrap_or(usize::MAX));
        plan.class(ClassPlan::new(page.spec().name, arrivals).path(target(*page)))
    })
}

/// So many visitors a second.
fn rush(url: &str, offered: f64, span: Duration) -> Plan {
    // Who waits when the load ends would have the site to himself, and count beyond its capacity.
    let plan = Plan::new(url).duration(span + PATIENCE).cooldown(PATIENCE);
    let all: u32 = PAGES.iter().map(|(_, visitors)| visitors).sum();
    PAGES.iter().fold(plan, |plan, (page, visitors)| {
        let rate = offered * f64::from(*visitors) / f64::from(all);
        plan.class(ClassPlan::poisson(page.spec().name, rate).path(target(*page)).timeout(PATIENCE))
    })
}

fn load(
    url: &str,
    offered: f64,
    span: Duration,
    table: &mut Table,
    interrupt: &Interrupt,
) -> Result<Report, Failure> {
    let plan = rush(url, offered, span);
    let live = Arc::new(Live::new(&plan));
    interrupt.stops(&live);
    let (done, ended) = mpsc::channel();
    let runner = {
        let live = Arc::clone(&live);
        std::thread::spawn(move || {
            let report = run_blocking_with(&plan, &live);
            // The table may have ended with an error of its own; then nobody listens.
            let _ = done.send(());
            report
        })
    };
    let mut before = sum(&live.read());
    let mut second = 0;
    let began = Instant::now();
    loop {
        second += 1;
        let until = Duration::from_secs(second).saturating_sub(began.elapsed());
        if !matches!(ended.recv_timeout(until), Err(mpsc::RecvTimeoutError::Timeout)) {
            break;
        }
        let now = sum(&live.read());
        table.row(second, &before, &now);
        before = now;
    }
    match runner.join() {
        Ok(report) => report.map_err(Failure::work),
        Err(_) => Err(Failure::work("the load generator panicked")),
    }
}

/// The path of a page, with its blanks filled.
fn target(page: Interaction) -> String {
    let values = Values { item: 17, user: 17, category: 3, region: 3, page: 0, unique: 0 };
    page.spec().fill(&values).target
}

fn sum(classes: &[LiveCounts]) -> LiveCounts {
    classes.iter().fold(LiveCounts::default(), |mut total, class| {
        total.offered += class.offered;
        total.good += class.good;
        total.refused += class.refused;
        total.timeouts += class.timeouts;
        total.failed += class.failed;
        total.good_latency_us += class.good_latency_us;
        total
    })
}

fn figures(report: &Report, capacity: f64) -> Json {
    let total = &report.total;
    json!({
        "offered": total.offered,
        "good": total.good,
        "refused": total.refused,
        "timed_out": total.timed_out(),
        "failed": total.errored(),
        "goodput_per_s": goodput_per_s(report),
        "goodput_share_of_capacity": goodput_per_s(report) / capacity,
        "good_latency_ms": { "p50": total.good_latency_ms.p50, "p95": total.good_latency_ms.p95, "p99": total.good_latency_ms.p99 },
        "generator_was_bottleneck": report.generator.bottleneck,
    })
}

/// Good answers a second that came while visitors were measured: those to the last of them come later, and would make it
/// more than the site does.
fn goodput_per_s(report: &Report) -> f64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "`as` saturates; whole seconds"
    )]
    let seconds = report.measured_s as usize;
    report.goodput_per_s(0..seconds)
}

/// Whether SIGINT or SIGTERM has come, and the load that it stops.
#[derive(Debug, Default)]
struct Interrupt {
    state: Mutex<(bool, Option<Arc<Live>>)>,
}

impl Interrupt {
    /// From now on the signals end the demo in good order, also where SIGINT was ignored.
    fn listen() -> Result<Arc<Self>, Failure> {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::work)?;
        let (mut interrupt, mut terminate) = {
            let _context = runtime.enter();
            let listen = |kind| signal(kind).map_err(Failure::work);
            (listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?)
        };
        let told = Arc::new(Self::default());
        let telling = Arc::clone(&told);
        std::thread::spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                }
            });
            telling.come();
        });
        Ok(told)
    }

    fn come(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.0 = true;
        if let Some(live) = &state.1 {
            live.stop();
        }
    }

    fn has_come(&self) -> bool {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).0
    }

    /// Has a signal, also one that has come, stop this load.
    fn stops(&self, live: &Arc<Live>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.0 {
            live.stop();
        }
        state.1 = Some(Arc::clone(live));
    }
}

/// What is printed meanwhile; nothing with `--json`.
struct Table {
    shown: bool,
    terminal: bool,
}

impl Table {
    fn new(shown: bool) -> Self {
        Self { shown, terminal: std::io::stdout().is_terminal() }
    }

    fn say(&self, line: &str) {
        if self.shown {
            // A table for the eye only.
            let _ = say(line);
        }
    }

    fn head(&self, phase: &str) {
        self.say(&format!(
            "\n{}",
            if self.terminal { format!("\x1b[1m{phase}\x1b[0m") } else { phase.to_owned() }
        ));
        self.say("second  came  good  refused  gave up  failed  mean wait of the good");
    }

    fn row(&self, second: u64, before: &LiveCounts, now: &LiveCounts) {
        if !self.shown {
            return;
        }
        let good = now.good - before.good;
        let mut line = format!(
            "{second:>6} {:>5} {good:>5} {:>8} {:>8} {:>7}",
            now.offered - before.offered,
            now.refused - before.refused,
            now.timeouts - before.timeouts,
            now.failed - before.failed,
        );
        if good > 0 {
            #[expect(clippy::cast_precision_loss, reason = "shown in whole milliseconds")]
            let mean_ms = (now.good_latency_us - before.good_latency_us) as f64 / good as f64 / 1e3;
            let _ = write!(line, "  {mean_ms:.0} ms");
        }
        self.say(&line);
    }

    fn close(&self, direct: &Report, protected: &Report, capacity: f64) {
        let line = |name: &str, report: &Report| {
            format!(
                "{name:<20} {:>5.1} good/s  {:>4.0} % of capacity  p95 {:>6.0} ms",
                goodput_per_s(report),
                goodput_per_s(report) / capacity * 100.0,
                report.total.good_latency_ms.p95,
            )
        };
        self.say("");
        self.say(&line("without the gateway", direct));
        self.say(&line("with the gateway", protected));
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Write},
        net::TcpListener,
    };

    use super::*;

    #[test]
    fn what_is_answered_after_the_measured_time_is_not_counted_in_it() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            for mut client in listener.incoming().map_while(Result::ok) {
                // Three quarters of the time measured.
                std::thread::spawn(move || {
                    let _ = client.read(&mut [0; 4096]);
                    std::thread::sleep(Duration::from_millis(1500));
                    client.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
                });
            }
        });
        let plan = rush(&url, 20.0, Duration::from_secs(2));
        let report = run_blocking_with(&plan, &Arc::new(Live::new(&plan))).unwrap();
        let (came, served) = (report.total.goodput_per_s, goodput_per_s(&report));
        assert!(served > 0.0 && served < came / 2.0, "{served}/s of {came}/s");
    }

    #[test]
    fn the_capacity_is_found_with_the_pages_of_the_load() {
        let pages = |plan: &Plan| {
            let page = |class: &ClassPlan| (class.path.clone().unwrap(), class.arrivals.to_string());
            plan.classes.iter().map(page).collect::<Vec<_>>()
        };
        let found = pages(&calibration("http://127.0.0.1:1"));
        let load = pages(&rush("http://127.0.0.1:1", 20.0, Duration::from_secs(4)));
        assert_eq!(found.len(), PAGES.len());
        let as_load = found.into_iter().map(|(path, arrivals)| {
            let visitors = arrivals.strip_prefix("closed:").unwrap().to_owned();
            (path, format!("poisson:{visitors}/s"))
        });
        assert_eq!(as_load.collect::<Vec<_>>(), load);
    }
}
