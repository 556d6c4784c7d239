//! Running a scenario.

use std::time::Duration;

use tidegate_control::Timestamp;

use crate::{Front, RunResult, Scenario, ServerView, engine::World};

/// Divides the host's processors among its applications, again and again.
pub trait ProcessorManager {
    /// Time from one division to the next.
    fn interval(&self) -> Duration;

    /// The processors each application may use from now on, by number, in the order of the scenario's
    /// applications. What it sees is since its last look.
    fn assign(&mut self, now: Timestamp, applications: &[ServerView]) -> Vec<Vec<u16>>;
}

/// Runs a scenario of one application behind a front.
///
/// # Panics
///
/// If the scenario has a fault ([`Scenario::check`] tells) or not exactly one application.
///
/// ```
/// use std::time::Duration;
/// use tidegate_sim::{
///     Application, Arrivals, Behaviour, Clients, Direct, Draw, Population, Scenario, Server, run,
/// };
/// use tidegate_control::ClassId;
///
/// // One worker of 8 ms a request at 100 requests a second: always in time.
/// let mut shop = Application::default();
/// shop.classes[0].work = Draw::Constant(0.008);
/// shop.server = Server { threads: Some(1), ..Server::default() };
/// shop.clients = vec![Clients {
///     name: "visitors".to_owned(),
///     population: Population::Open {
///         arrivals: Arrivals::Constant { per_s: 100.0 },
///         mix: vec![(ClassId(0), 1.0)],
///         clients: 10,
///     },
///     behaviour: Behaviour::default(),
/// }];
/// let scenario = Scenario { duration: Duration::from_secs(10), applications: vec![shop], ..Scenario::default() };
/// let result = run(&scenario, &mut Direct);
/// assert_eq!(result.classes[0].response.mean(), Some(Duration::from_millis(8)));
/// assert_eq!(result.classes[0].good, 999); // the thousandth is sent at the very end
/// ```
#[must_use]
pub fn run(scenario: &Scenario, front: &mut dyn Front) -> RunResult {
    assert_eq!(scenario.applications.len(), 1, "a scenario of several applications is run with run_all");
    run_all(scenario, vec![front], None).remove(0)
}

/// Runs a scenario of several applications on one host, each behind a front of its own, with processors that
/// stay as they are or that a manager divides.
///
/// # Panics
///
/// If the scenario has a fault ([`Scenario::check`] tells), or applications and fronts differ in number.
#[must_use]
pub fn run_all<'f>(
    scenario: &Scenario,
    fronts: Vec<&'f mut dyn Front>,
    manager: Option<&'f mut dyn ProcessorManager>,
) -> Vec<RunResult> {
    if let Err(fault) = scenario.check() {
        panic!("the scenario cannot be run: {fault}");
    }
    World::new(scenario, fronts, manager).run()
}
