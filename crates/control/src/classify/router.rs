//! Routing: which application serves a request, where its host alone does not say.

use super::{RequestFacts, RouteSpec, RuleFault, compile, rules::Rules};

/// Compiled routes: the first whose conditions all hold decides. Conditions and cost are a
/// [`Classifier`](super::Classifier)'s.
///
/// ```
/// use tidegate_control::classify::{PathSpec, RouteSpec, Router};
///
/// let api = RouteSpec {
///     paths: vec![PathSpec::Prefix("/api".into())],
///     verdict: "api".into(),
///     ..RouteSpec::default()
/// };
/// let router = Router::compile(&[api]).unwrap();
/// assert_eq!(router.applications(), ["api"]);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Router {
    rules: Rules,
    /// Positions in `applications`, by the position of the route.
    targets: Box<[usize]>,
    applications: Box<[String]>,
}

impl Router {
    /// Compiles routes.
    ///
    /// # Errors
    ///
    /// Every fault of every route, in order, each with its place and its mend.
    pub fn compile(routes: &[RouteSpec]) -> Result<Self, Vec<RuleFault>> {
        let mut applications: Vec<String> = routes.iter().map(|route| route.verdict.clone()).collect();
        applications.sort_unstable();
        applications.dedup();
        let (rules, targets) =
            compile::rules(routes, |_, application| applications.binary_search(application).ok())?;
        Ok(Self { rules, targets, applications: applications.into() })
    }

    /// The applications that routes lead to, each once.
    #[must_use]
    pub fn applications(&self) -> &[String] {
        &self.applications
    }

    /// Whether there are no routes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.targets.is_empty()
    }

    /// Where the first route that holds leads, as a position in [`Router::applications`]; `None`: none holds.
    #[must_use]
    pub fn route(&self, facts: &impl RequestFacts) -> Option<usize> {
        self.target(self.rules.first(facts))
    }

    /// Whether a request would be led elsewhere than to `found` if its path's dot segments were names, as
    /// [`Classifier::is_two_ways`](super::Classifier::is_two_ways).
    #[must_use]
    pub fn is_two_ways(&self, facts: &impl RequestFacts, found: Option<usize>) -> bool {
        self.rules.first_with_dots(facts).is_some_and(|first| self.target(first) != found)
    }

    fn target(&self, route: Option<usize>) -> Option<usize> {
        self.targets.get(route?).copied()
    }
}
