//! Knobs changed while running: a layer over what is configured, kept when the configuration is read again.

use std::{collections::BTreeMap, sync::PoisonError};

use tidegate_config::{KnobFault, KnobPath, Settings, Target};
use tidegate_control::{
    Timestamp,
    knobs::{Value, Values},
};

use crate::{PublishError, Shared, shared::Files};

/// What is configured, and what was changed since.
#[derive(Debug)]
pub(crate) struct Layers {
    pub(crate) configured: Settings,
    /// Configurations read so far.
    pub(crate) configurations: u64,
    overrides: BTreeMap<KnobPath, Override>,
    /// Servers that were added since, by application and name, with the values that they were added with.
    added: BTreeMap<(String, String), Values>,
}

/// A value that stands in place of the configured one.
#[derive(Clone, Debug, PartialEq)]
pub struct Override {
    /// The value.
    pub value: Value,
    /// Where it came from.
    pub origin: Origin,
}

/// Who changed a knob, when, why, and for how long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Who: a name.
    pub who: String,
    /// Why, in their words.
    pub why: String,
    /// When.
    pub at: Timestamp,
    /// Whether it outlasts the process.
    pub lasting: bool,
}

/// A knob's change.
#[derive(Clone, Debug, PartialEq)]
pub struct KnobChange {
    /// Which knob.
    pub path: KnobPath,
    /// Its value before.
    pub from: Value,
    /// Its value after.
    pub to: Value,
    /// Whether the value after is the configured one, taken back.
    pub is_cleared: bool,
}

/// Why knobs were not changed: none was.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChangeError {
    /// Paths or values that cannot be.
    #[error("{}", lines(.0))]
    Knobs(Vec<KnobFault>),
    /// The result could not be put in force.
    #[error(transparent)]
    Publish(#[from] PublishError),
}

fn lines(faults: &[KnobFault]) -> String {
    faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

impl Layers {
    pub(crate) const fn new(configured: Settings) -> Self {
        Self { configured, configurations: 1, overrides: BTreeMap::new(), added: BTreeMap::new() }
    }

    /// Newly configured settings are in force, without servers that were added.
    pub(crate) fn renew(&mut self, configured: Settings) {
        self.configured = configured;
        self.configurations += 1;
        self.added.clear();
    }

    /// The value that a knob has if it is not changed.
    fn unchanged(&self, path: &KnobPath) -> Value {
        let added = match &path.target {
            Target::Server { application, server } => self.added.get(&(application.clone(), server.clone())),
            _ => None,
        };
        match added {
            Some(values) => values.value(path.knob),
            None => self.configured.get(path).unwrap_or_else(|_| path.knob.default()),
        }
    }

    /// Newly configured settings with the changed values over them, as one; those that fit no more are left out.
    pub(crate) fn over(&self, mut configured: Settings) -> Settings {
        let values = self.overrides.iter().map(|(path, changed)| (path.clone(), changed.value)).collect();
        for fault in configured.set_fitting(values) {
            tracing::warn!(%fault, "a changed knob does not fit the configuration, which stands");
        }
        configured
    }
}

impl Shared {
    /// Changes several knobs as one, or none: every request sees all of the values or none of them.
    /// `None` takes back what was changed: the configured value stands again. What is changed stays
    /// so when the configuration is read again. Each has an origin of its own, as what is given back is by whoever had set
    /// it. `dry_run`: says what would change and changes nothing.
    ///
    /// # Errors
    ///
    /// [`ChangeError`]; nothing changes.
    pub fn change_knobs(
        &self,
        changes: &[(KnobPath, Option<Override>)],
        dry_run: bool,
    ) -> Result<Vec<KnobChange>, ChangeError> {
        let mut known = self.applications.lock().unwrap_or_else(PoisonError::into_inner);
        let mut layers = self.layers.lock().unwrap_or_else(PoisonError::into_inner);
        let mut settings = Settings::clone(&self.snapshot().settings);
        let (mut done, mut values, mut faults) = (Vec::with_capacity(changes.len()), Vec::new(), Vec::new());
        for (path, changed) in changes {
            let to = changed.as_ref().map_or_else(|| layers.unchanged(path), |changed| changed.value);
            let taken_back = layers.overrides.get(path).filter(|_| changed.is_none());
            let from = match (settings.get(path), taken_back) {
                (Ok(from), _) => {
                    values.push((path.clone(), to));
                    from
                }
                // Of what is configured no more it is in force nowhere.
                (Err(_), Some(waiting)) => waiting.value,
                (Err(fault), None) => {
                    faults.push(fault);
                    continue;
                }
            };
            done.push(KnobChange { path: path.clone(), from, to, is_cleared: changed.is_none() });
        }
        if let Err(more) = settings.set_all(&values) {
            faults.extend(more);
        }
        if !faults.is_empty() {
            return Err(ChangeError::Knobs(faults));
        }
        if dry_run {
            return Ok(done);
        }
        self.put_in_force(settings, &mut known, Files::AsRead)?;
        for (path, changed) in changes {
            match changed {
                Some(changed) => drop(layers.overrides.insert(path.clone(), changed.clone())),
                None => drop(layers.overrides.remove(path)),
            }
        }
        Ok(done)
    }

    /// Gives back a knob whose change is not in force, since what it belongs to is configured no more or it does not fit:
    /// to a change that was `beneath` it, which waits in its place unless it fits, else to what is configured.
    ///
    /// # Errors
    ///
    /// [`ChangeError`]; what is in force stands until the configuration is read again.
    pub fn give_back_waiting(
        &self,
        path: &KnobPath,
        beneath: Option<Override>,
    ) -> Result<KnobChange, ChangeError> {
        let mut known = self.applications.lock().unwrap_or_else(PoisonError::into_inner);
        let mut layers = self.layers.lock().unwrap_or_else(PoisonError::into_inner);
        let unchanged = layers.unchanged(path);
        let (to, is_cleared) = (beneath.as_ref().map_or(unchanged, |theirs| theirs.value), beneath.is_none());
        let waited = match beneath {
            None => layers.overrides.remove(path),
            Some(theirs) => {
                let waited = layers.overrides.insert(path.clone(), theirs);
                let present = Settings::clone(&self.snapshot().settings);
                self.put_in_force(layers.over(present), &mut known, Files::AsRead)?;
                waited
            }
        };
        let from = waited.map_or(unchanged, |waited| waited.value);
        Ok(KnobChange { path: path.clone(), from, to, is_cleared })
    }

    /// Takes up what was changed in a process before this one, as one, over what is in force; what does not fit is
    /// said, and tried again when the configuration is read again.
    ///
    /// # Errors
    ///
    /// [`PublishError`]; what is in force stands until the configuration is read again.
    pub fn restore_overrides(
        &self,
        lasting: impl IntoIterator<Item = (KnobPath, Override)>,
    ) -> Result<(), PublishError> {
        let mut known = self.applications.lock().unwrap_or_else(PoisonError::into_inner);
        let mut layers = self.layers.lock().unwrap_or_else(PoisonError::into_inner);
        layers.overrides.extend(lasting);
        // With servers that were added.
        let present = Settings::clone(&self.snapshot().settings);
        self.put_in_force(layers.over(present), &mut known, Files::AsRead)
    }

    /// What was changed so could not be kept: it ends with the process.
    pub fn does_not_last(&self, origin: &Origin) {
        let mut layers = self.layers.lock().unwrap_or_else(PoisonError::into_inner);
        for changed in layers.overrides.values_mut().filter(|changed| changed.origin == *origin) {
            changed.origin.lasting = false;
        }
    }

    /// A server begins with these values, or is no more (`None`): what was changed of one of its name is forgotten. Says which
    /// knobs those were.
    pub fn begin_server(&self, application: &str, server: &str, values: Option<Values>) -> Vec<KnobPath> {
        let of_it = |path: &KnobPath| match &path.target {
            Target::Server { application: of, server: name } => of == application && name == server,
            _ => false,
        };
        let mut layers = self.layers.lock().unwrap_or_else(PoisonError::into_inner);
        let gone = layers.overrides.keys().filter(|path| of_it(path)).cloned().collect();
        layers.overrides.retain(|path, _| !of_it(path));
        let key = (application.to_owned(), server.to_owned());
        match values {
            Some(values) => drop(layers.added.insert(key, values)),
            None => drop(layers.added.remove(&key)),
        }
        gone
    }

    /// The value that a knob has if it is not changed: as it is configured, of a server that was added as it was added with.
    #[must_use]
    pub fn unchanged(&self, path: &KnobPath) -> Value {
        self.layers.lock().unwrap_or_else(PoisonError::into_inner).unchanged(path)
    }

    /// What is configured, without the knobs changed since.
    #[must_use]
    pub fn configured(&self) -> Settings {
        self.layers.lock().unwrap_or_else(PoisonError::into_inner).configured.clone()
    }

    /// How many configurations have been in force, the first one included.
    #[must_use]
    pub fn configurations(&self) -> u64 {
        self.layers.lock().unwrap_or_else(PoisonError::into_inner).configurations
    }

    /// The knobs changed since, with what they were changed to.
    #[must_use]
    pub fn overrides(&self) -> BTreeMap<KnobPath, Override> {
        self.layers.lock().unwrap_or_else(PoisonError::into_inner).overrides.clone()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tidegate_config::ProtectOptions;
    use tidegate_control::knobs::Scope;

    use super::*;

    fn origin() -> Origin {
        Origin { who: "test".to_owned(), why: String::new(), at: Timestamp::EPOCH, lasting: false }
    }

    fn to(value: Value) -> Option<Override> {
        Some(Override { value, origin: origin() })
    }

    fn path(text: &str) -> KnobPath {
        KnobPath::parse(text).unwrap()
    }

    fn shared() -> std::sync::Arc<Shared> {
        Shared::new(Settings::protect(&ProtectOptions::new("http://127.0.0.1:1")).unwrap()).unwrap()
    }

    #[test]
    fn several_change_as_one_or_none_does() {
        let shared = shared();
        let (limit, min, max) =
            (path("app/in_flight.limit"), path("app/in_flight.min"), path("app/in_flight.max"));
        let version = shared.version();
        let changes = [(limit.clone(), to(Value::Count(70))), (max.clone(), to(Value::Count(0)))];
        assert!(matches!(shared.change_knobs(&changes, false), Err(ChangeError::Knobs(f)) if f.len() == 1));
        assert_eq!(shared.version(), version);

        let changes =
            [(min, to(Value::Count(50))), (max, to(Value::Count(90))), (limit.clone(), to(Value::Count(70)))];
        let dry = shared.change_knobs(&changes, true).unwrap();
        assert_eq!((dry.len(), shared.version()), (3, version));
        assert_eq!(shared.change_knobs(&changes, false).unwrap(), dry);
        assert_eq!(shared.version(), version + 1, "one version for all");
        assert_eq!(shared.snapshot().settings.get(&limit), Ok(Value::Count(70)));
    }

    #[test]
    fn a_knob_costs_no_rule_and_no_other_application() {
        let text = "[[listener]]\naddress = \"127.0.0.1:0\"\n[application.one]\nhosts = \"one.example\"\n\
                    [[application.one.rule]]\npath = \"/a/**\"\npriority = 6\n\
                    [application.two]\nservers = [\"http://127.0.0.1:1\"]\n";
        let configured = tidegate_config::parse(text, std::path::Path::new("/"), "test").unwrap();
        let shared = Shared::new(configured.clone()).unwrap();
        let before = shared.snapshot();
        let same = |one: &Arc<crate::Application>, other: &Arc<crate::Application>| Arc::ptr_eq(one, other);
        let servers = before.applications[1].state.servers().version();
        let change = |path: &str, value| {
            shared.change_knobs(&[(self::path(path), to(value))], false).unwrap();
            shared.snapshot()
        };
        let after = change("two/default/weight", Value::Count(7));
        assert!(same(&before.applications[0], &after.applications[0]), "nothing of it has changed");
        assert!(!same(&before.applications[1], &after.applications[1]));
        assert!(Arc::ptr_eq(&before.applications[1].classifier, &after.applications[1].classifier));
        assert_eq!(after.applications[1].state.servers().version(), servers, "no core looks at them anew");
        let after = change("connections.max", Value::Count(7));
        assert!(same(&before.applications[0], &after.applications[0]));
        // A rule that changes is compiled, with what stands beside it.
        let mut other = configured;
        other.applications[0].rules[0].verdict.priority = Some(1);
        shared.publish(other).unwrap();
        let after = shared.snapshot();
        assert!(!Arc::ptr_eq(&before.applications[0].classifier, &after.applications[0].classifier));
        assert!(Arc::ptr_eq(&before.applications[0].rewriter, &after.applications[0].rewriter));
    }

    /// A version is one `Arc`, published by one store; the version's number beside it only tells a core to
    /// look. So a core may be a version late, but never sees a half of one, nor an older one after a newer.
    #[test]
    fn cores_see_all_of_a_change_or_nothing() {
        use std::sync::atomic::{AtomicBool, Ordering};

        let shared = shared();
        let (limit, min) = (path("app/in_flight.limit"), path("app/in_flight.min"));
        let over = AtomicBool::new(false);
        let set = |n: u64| {
            let changes = [(min.clone(), to(Value::Count(n))), (limit.clone(), to(Value::Count(n + 100)))];
            shared.change_knobs(&changes, false).unwrap();
        };
        set(1);
        std::thread::scope(|threads| {
            for index in 0..3 {
                let (shared, over, limit, min) = (&shared, &over, &limit, &min);
                threads.spawn(move || {
                    let core = crate::Core::new(index, Arc::clone(shared));
                    let (mut version, mut seen) = (0, 0_u32);
                    loop {
                        let last = over.load(Ordering::Acquire);
                        let view = core.view();
                        assert!(view.snapshot.version >= version, "time runs forward");
                        seen += u32::from(view.snapshot.version > version);
                        version = view.snapshot.version;
                        let read = |settings: &Settings| match (settings.get(min), settings.get(limit)) {
                            (Ok(Value::Count(min)), Ok(Value::Count(limit))) => (min, limit),
                            other => panic!("{other:?}"),
                        };
                        let (min, limit) = read(&view.snapshot.settings);
                        assert_eq!(min + 100, limit, "both or none");
                        if last {
                            assert_eq!(version, shared.version(), "the last one is seen at the next look");
                            return assert!(seen > 0);
                        }
                    }
                });
            }
            (0..500).for_each(|n| set(1 + n % 90));
            over.store(true, Ordering::Release);
        });
    }

    #[test]
    fn what_was_changed_outlives_a_reload_until_it_is_taken_back() {
        let shared = shared();
        let (priority, weight) = (path("app/default/priority"), path("app/default/weight"));
        shared
            .change_knobs(
                &[(priority.clone(), to(Value::Count(6))), (weight.clone(), to(Value::Count(9)))],
                false,
            )
            .unwrap();
        let mut configured = shared.configured();
        assert_eq!(configured.get(&priority), Ok(Value::Count(3)));
        configured.set(&priority, Value::Count(1)).unwrap();
        shared.publish(configured.clone()).unwrap();
        assert_eq!(shared.snapshot().settings.get(&priority), Ok(Value::Count(6)));
        assert_eq!(shared.configured(), configured);

        let back = shared.change_knobs(&[(priority.clone(), None)], false).unwrap();
        assert_eq!(
            back,
            [KnobChange {
                path: priority.clone(),
                from: Value::Count(6),
                to: Value::Count(1),
                is_cleared: true
            }]
        );
        assert_eq!(shared.overrides().into_keys().collect::<Vec<_>>(), [weight]);
    }

    #[test]
    fn a_server_that_was_added_goes_back_to_what_it_was_added_with() {
        let shared = shared();
        let weight = path("app/servers/two/weight");
        let add = |value: u64| {
            let mut values = Values::defaults(Scope::Server);
            values.set(weight.knob, Value::Count(value)).unwrap();
            shared
                .edit(|settings| {
                    let address = settings.applications[0].servers[0].address.clone();
                    let server =
                        tidegate_config::Server { name: "two".to_owned(), address, values: values.clone() };
                    settings.applications[0].servers.retain(|server| server.name != "two");
                    settings.applications[0].servers.push(server);
                })
                .unwrap();
            shared.begin_server("app", "two", Some(values))
        };
        assert_eq!(add(3), []);
        assert_eq!(shared.unchanged(&weight), Value::Count(3));
        shared.change_knobs(&[(weight.clone(), to(Value::Count(7)))], false).unwrap();
        let back = shared.change_knobs(&[(weight.clone(), None)], false).unwrap();
        assert_eq!((back[0].from, back[0].to), (Value::Count(7), Value::Count(3)));
        assert_eq!(shared.snapshot().settings.get(&weight), Ok(Value::Count(3)));
        // Another of its name is another one.
        shared.change_knobs(&[(weight.clone(), to(Value::Count(7)))], false).unwrap();
        assert_eq!(add(5), std::slice::from_ref(&weight));
        assert_eq!((shared.unchanged(&weight), shared.overrides().len()), (Value::Count(5), 0));
        shared.publish(shared.configured()).unwrap();
        assert_eq!(shared.unchanged(&weight), weight.knob.default(), "it is no more");
    }

    #[test]
    fn what_fits_together_is_restored_and_read_again_together() {
        let range = |floor: f64, ceiling: f64| {
            [("app/capacity.floor", floor), ("app/capacity.ceiling", ceiling)]
                .map(|(text, per_s)| (path(text), Value::Rate(per_s)))
        };
        let values =
            |shared: &Shared| range(0.0, 0.0).map(|(path, _)| shared.snapshot().settings.get(&path).unwrap());
        let shared = shared();
        let mut configured = shared.configured();
        configured.set_all(&range(100.0, 200.0)).unwrap();
        shared.publish(configured.clone()).unwrap();
        // Below what is configured, then above it: one at a time, the first of either would not fit.
        for (floor, ceiling) in [(10.0, 50.0), (300.0, 500.0)] {
            let lasting =
                range(floor, ceiling).map(|(path, value)| (path, Override { value, origin: origin() }));
            shared.restore_overrides(lasting).unwrap();
            assert_eq!(values(&shared), [floor, ceiling].map(Value::Rate));
            shared.publish(configured.clone()).unwrap();
            assert_eq!(values(&shared), [floor, ceiling].map(Value::Rate));
        }
    }

    #[test]
    fn what_waits_for_its_class_can_be_taken_back_and_nothing_else_can_be_changed_of_it() {
        let shared = shared();
        let gone = path("app/gone/weight");
        let lasting = Override { value: Value::Count(9), origin: origin() };
        shared.restore_overrides([(gone.clone(), lasting.clone())]).unwrap();
        assert_eq!(shared.overrides().get(&gone), Some(&lasting), "it waits");
        assert!(shared.change_knobs(&[(gone.clone(), to(Value::Count(8)))], false).is_err());
        let back = shared.change_knobs(&[(gone.clone(), None)], false).unwrap();
        assert_eq!((back[0].from, back[0].is_cleared), (Value::Count(9), true));
        assert!(shared.overrides().is_empty());
        assert!(shared.change_knobs(&[(gone, None)], false).is_err(), "there is nothing to take back");
    }
}
