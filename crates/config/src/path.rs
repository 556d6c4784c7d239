//! Paths of knobs, and settings read and changed by them.

use std::fmt;

use tidegate_control::knobs::{self, Knob, Scope, Value, Values};

use crate::{
    faults::closest,
    read::no_such,
    settings::{Class, ClassWaitingRoom, Settings},
};

/// The path of a knob: `connections.max`, `shop/in_flight.limit`, `shop/checkout/priority`,
/// `shop/servers/10.0.0.2:8000/weight`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KnobPath {
    /// Whose knob it is.
    pub target: Target,
    /// Which of its knobs.
    pub knob: Knob,
}

/// What a knob belongs to, by name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    /// The gateway as a whole.
    Host,
    /// An application.
    Application(String),
    /// A class of an application.
    Class {
        /// The application.
        application: String,
        /// The class.
        class: String,
    },
    /// A server of an application.
    Server {
        /// The application.
        application: String,
        /// The server.
        server: String,
    },
}

/// Why a knob cannot be read or changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KnobFault {
    /// The path has not the shape of one.
    #[error(
        "{path}: is no path of a knob: write KNOB, APPLICATION/KNOB, APPLICATION/CLASS/KNOB or APPLICATION/servers/SERVER/KNOB"
    )]
    Malformed {
        /// The path as given.
        path: String,
    },
    /// No row has that name in that scope.
    #[error("{path}: there is no such knob: {mend}")]
    NoSuchKnob {
        /// The path as given.
        path: String,
        /// Whose knob it would be.
        scope: Scope,
        /// What to write instead.
        mend: String,
    },
    /// The application, class or server does not exist.
    #[error("{path}: {what}: {mend}")]
    NoSuchTarget {
        /// The path.
        path: KnobPath,
        /// What it would be.
        scope: Scope,
        /// What does not exist.
        what: String,
        /// What to write instead.
        mend: String,
    },
    /// The row does not allow the value.
    #[error("{path}: {fault}")]
    Value {
        /// The path.
        path: KnobPath,
        /// What is wrong, and what is allowed.
        fault: knobs::Fault,
    },
    /// The value contradicts that of another knob.
    #[error("{path}: {what}: {mend}")]
    Disagrees {
        /// The path.
        path: KnobPath,
        /// The other knob of the pair, of the same, whose value might as well be changed; `None` if only this one can be.
        other: Option<Knob>,
        /// What it contradicts.
        what: String,
        /// What to do about it.
        mend: String,
    },
}

impl KnobPath {
    /// Reads a path.
    ///
    /// # Errors
    ///
    /// [`KnobFault`] if it has not the shape of a path, or no such knob exists in its scope.
    pub fn parse(text: &str) -> Result<Self, KnobFault> {
        let parts: Vec<&str> = text.split('/').collect();
        let (target, name) = match *parts.as_slice() {
            [name] => (Target::Host, name),
            [application, name] => (Target::Application(application.to_owned()), name),
            [application, class, name] if class != "servers" => {
                (Target::Class { application: application.to_owned(), class: class.to_owned() }, name)
            }
            [application, "servers", server, name] => {
                (Target::Server { application: application.to_owned(), server: server.to_owned() }, name)
            }
            _ => return Err(KnobFault::Malformed { path: text.to_owned() }),
        };
        if parts.iter().any(|part| part.is_empty()) {
            return Err(KnobFault::Malformed { path: text.to_owned() });
        }
        let scope = target.scope();
        match Knob::find(scope, name) {
            Some(knob) => Ok(Self { target, knob }),
            None => Err(KnobFault::NoSuchKnob { path: text.to_owned(), scope, mend: mend_knob(scope, name) }),
        }
    }

    /// Whose knob it is.
    #[must_use]
    pub const fn scope(&self) -> Scope {
        self.target.scope()
    }

    /// Reads a value for this knob as people write it, such as `35/s`.
    ///
    /// # Errors
    ///
    /// [`KnobFault::Value`] with what the row allows.
    pub fn read(&self, text: &str) -> Result<Value, KnobFault> {
        self.knob.parse(text).map_err(|fault| KnobFault::Value { path: self.clone(), fault })
    }
}

impl KnobFault {
    /// Whether a change of this knob is at fault; of two that contradict one another each is.
    fn is_of(&self, changed: &KnobPath) -> bool {
        match self {
            Self::NoSuchTarget { path, .. } | Self::Value { path, .. } => path == changed,
            Self::Disagrees { path, other, .. } => {
                path.target == changed.target && (path.knob == changed.knob || *other == Some(changed.knob))
            }
            // What was read has a path.
            Self::Malformed { .. } | Self::NoSuchKnob { .. } => false,
        }
    }
}

impl Target {
    /// Which scope it is an instance of.
    #[must_use]
    pub const fn scope(&self) -> Scope {
        match self {
            Self::Host => Scope::Host,
            Self::Application(_) => Scope::Application,
            Self::Class { .. } => Scope::Class,
            Self::Server { .. } => Scope::Server,
        }
    }
}

impl Settings {
    /// The value of a knob.
    ///
    /// # Errors
    ///
    /// [`KnobFault::NoSuchTarget`].
    pub fn get(&self, path: &KnobPath) -> Result<Value, KnobFault> {
        Ok(self.values(self.locate(path)?).value(path.knob))
    }

    /// Changes a knob.
    ///
    /// # Errors
    ///
    /// [`KnobFault`] if what it belongs to does not exist, its row does not allow the value, or
    /// the value contradicts another knob; nothing changes.
    pub fn set(&mut self, path: &KnobPath, value: Value) -> Result<(), KnobFault> {
        self.set_all(&[(path.clone(), value)]).map_err(|mut faults| faults.swap_remove(0))
    }

    /// Changes several knobs, or none. What must agree is judged after all have been changed.
    ///
    /// # Errors
    ///
    /// Every [`KnobFault`], at least one; nothing changes.
    pub fn set_all(&mut self, changes: &[(KnobPath, Value)]) -> Result<(), Vec<KnobFault>> {
        let mut faults = Vec::new();
        // What stood there, to be put back: rules and servers are not copied for a knob.
        let mut before = Vec::with_capacity(changes.len());
        for (path, value) in changes {
            match self.locate(path) {
                Ok(location) => {
                    let values = self.values_mut(location);
                    before.push((path, location, values.value(path.knob)));
                    if let Err(fault) = values.set(path.knob, *value) {
                        faults.push(KnobFault::Value { path: path.clone(), fault });
                    }
                }
                Err(fault) => faults.push(fault),
            }
        }
        if faults.is_empty() {
            for (path, at, _) in &before {
                let fault = contradiction(path, self.values(*at))
                    .or_else(|| self.is_of_group(path, *at))
                    .or_else(|| self.is_one_share_too_many(path, *at));
                // Of a pair both may be among what is set.
                faults.extend(fault.filter(|fault| !faults.contains(fault)));
            }
        }
        if !faults.is_empty() {
            for (path, location, value) in before.into_iter().rev() {
                let back = self.values_mut(location).set(path.knob, value);
                debug_assert!(back.is_ok(), "it stood there");
            }
            return Err(faults);
        }
        Ok(())
    }

    /// Changes those of several knobs that fit, and tells what keeps the others out. All are tried as one, since values
    /// may agree only together; then without what is at fault, which are both of two that contradict one another.
    pub fn set_fitting(&mut self, mut changes: Vec<(KnobPath, Value)>) -> Vec<KnobFault> {
        let mut left_out = Vec::new();
        while let Err(faults) = self.set_all(&changes) {
            let before = changes.len();
            changes.retain(|(path, _)| !faults.iter().any(|fault| fault.is_of(path)));
            left_out.extend(faults);
            debug_assert!(changes.len() < before, "a fault is one of what was to be set");
            if changes.len() == before {
                break;
            }
        }
        left_out
    }

    /// Every knob with its value, scope by scope within each application.
    pub fn knobs(&self) -> impl Iterator<Item = (KnobPath, Value)> + '_ {
        let host = std::iter::once((Target::Host, &self.host));
        let applications = self.applications.iter().flat_map(|application| {
            let name = &application.name;
            let classes = application.classes.iter().map(move |class| {
                let target = Target::Class { application: name.clone(), class: class.name.clone() };
                (target, &class.values)
            });
            let servers = application.servers.iter().map(move |server| {
                let target = Target::Server { application: name.clone(), server: server.name.clone() };
                (target, &server.values)
            });
            let own = (Target::Application(name.clone()), &application.values);
            std::iter::once(own).chain(classes).chain(servers)
        });
        host.chain(applications).flat_map(|(target, values)| {
            values.iter().map(move |(knob, value)| (KnobPath { target: target.clone(), knob }, value))
        })
    }

    /// Where the instance a path names stands.
    fn locate(&self, path: &KnobPath) -> Result<Location, KnobFault> {
        let application = |name: &str| {
            find(path, Scope::Application, name, self.applications.iter().map(|known| known.name.as_str()))
        };
        Ok(match &path.target {
            Target::Host => Location::Host,
            Target::Application(name) => Location::Application(application(name)?),
            Target::Class { application: name, class } => {
                let at = application(name)?;
                let names = self.applications[at].classes.iter().map(|known| known.name.as_str());
                Location::Class(at, find(path, Scope::Class, class, names)?)
            }
            Target::Server { application: name, server } => {
                let at = application(name)?;
                let names = self.applications[at].servers.iter().map(|known| known.name.as_str());
                Location::Server(at, find(path, Scope::Server, server, names)?)
            }
        })
    }

    /// How a class says what its group in the waiting room says.
    fn is_of_group(&self, path: &KnobPath, location: Location) -> Option<KnobFault> {
        let Location::Class(at, class) = location else { return None };
        let application = &self.applications[at];
        let class = &application.classes[class];
        let group = class.waiting_room.group.as_ref()?;
        let is_other =
            ClassWaitingRoom::OF_GROUP.contains(&path.knob) && class.values.value(path.knob) != Value::None;
        let target = Target::Class { application: application.name.clone(), class: group.clone() };
        is_other.then(|| KnobFault::Disagrees {
            path: path.clone(),
            other: None,
            what: format!("is that of its waiting_room.group \"{group}\""),
            mend: format!("set {}", KnobPath { target, knob: path.knob }),
        })
    }

    /// The waiting room keeps so many shares, and no more.
    fn is_one_share_too_many(&self, path: &KnobPath, location: Location) -> Option<KnobFault> {
        let Location::Class(at, class) = location else { return None };
        let classes = &self.applications[at].classes;
        let has_share = |class: &&Class| {
            class.waiting_room.group.is_none() && class.values.value(Knob::ROOM_SHARE) != Value::None
        };
        let is_one = path.knob == Knob::ROOM_SHARE && has_share(&&classes[class]);
        let shares = classes.iter().filter(has_share).count();
        (is_one && shares > ClassWaitingRoom::SHARES_MAX).then(|| KnobFault::Disagrees {
            path: path.clone(),
            other: None,
            what: ClassWaitingRoom::too_many_shares(),
            mend: ClassWaitingRoom::FEWER_SHARES.to_owned(),
        })
    }

    fn values(&self, location: Location) -> &Values {
        match location {
            Location::Host => &self.host,
            Location::Application(at) => &self.applications[at].values,
            Location::Class(at, class) => &self.applications[at].classes[class].values,
            Location::Server(at, server) => &self.applications[at].servers[server].values,
        }
    }

    fn values_mut(&mut self, location: Location) -> &mut Values {
        match location {
            Location::Host => &mut self.host,
            Location::Application(at) => &mut self.applications[at].values,
            Location::Class(at, class) => &mut self.applications[at].classes[class].values,
            Location::Server(at, server) => &mut self.applications[at].servers[server].values,
        }
    }
}

/// An instance of a scope by its positions in [`Settings`], which [`Settings::locate`] has checked.
#[derive(Clone, Copy)]
enum Location {
    Host,
    Application(usize),
    Class(usize, usize),
    Server(usize, usize),
}

/// Position of `name` among `known`.
fn find<'n>(
    path: &KnobPath,
    scope: Scope,
    name: &str,
    known: impl Iterator<Item = &'n str> + Clone,
) -> Result<usize, KnobFault> {
    known.clone().position(|known| known == name).ok_or_else(|| {
        let (what, mend) = no_such(scope.name(), name, known);
        KnobFault::NoSuchTarget { path: path.clone(), scope, what, mend }
    })
}

/// What to write instead of a knob that a scope does not have.
fn mend_knob(scope: Scope, name: &str) -> String {
    if let Some(knob) = Knob::ALL.iter().find(|knob| knob.name() == name) {
        return format!("it belongs to {}", shape(knob.scope()));
    }
    match closest(name, Knob::ALL.iter().filter(|k| k.scope() == scope).map(|k| k.name())) {
        Some(near) => format!("did you mean {near}?"),
        None => "docs/knobs.md lists them all".to_owned(),
    }
}

/// The shape of a scope's paths.
pub(crate) const fn shape(scope: Scope) -> &'static str {
    match scope {
        Scope::Host => "KNOB",
        Scope::Application => "APPLICATION/KNOB",
        Scope::Class => "APPLICATION/CLASS/KNOB",
        Scope::Server => "APPLICATION/servers/SERVER/KNOB",
    }
}

/// How the value at `path` contradicts another; said of the lower of the two.
fn contradiction(path: &KnobPath, values: &Values) -> Option<KnobFault> {
    let (low, high) = values.disagreements().find(|(low, high)| path.knob == *low || path.knob == *high)?;
    let (what, mend) = values.disagreement(low, high);
    let path = KnobPath { target: path.target.clone(), knob: low };
    Some(KnobFault::Disagrees { path, other: Some(high), what, mend })
}

impl fmt::Display for KnobPath {
    /// As [`KnobPath::parse`] reads it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.target {
            Target::Host => {}
            Target::Application(application) => write!(f, "{application}/")?,
            Target::Class { application, class } => write!(f, "{application}/{class}/")?,
            Target::Server { application, server } => write!(f, "{application}/servers/{server}/")?,
        }
        f.write_str(self.knob.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ProtectOptions;

    fn settings() -> Settings {
        Settings::protect(&ProtectOptions::new("http://127.0.0.1:8000")).unwrap()
    }

    fn path(text: &str) -> KnobPath {
        KnobPath::parse(text).unwrap()
    }

    #[test]
    fn every_knob_of_settings_has_a_path_that_reads_and_writes_it() {
        let mut settings = settings();
        let all: Vec<_> = settings.knobs().collect();
        assert_eq!(all.len(), Knob::ALL.len(), "one host, one application, one class, one server");
        for (path, value) in all {
            assert_eq!(KnobPath::parse(&path.to_string()), Ok(path.clone()));
            assert_eq!(settings.get(&path), Ok(value));
            assert_eq!(settings.set(&path, value), Ok(()));
        }
        assert_eq!(settings, self::settings());
    }

    #[test]
    fn bad_paths_say_what_and_the_mend() {
        for (text, fault) in [
            (
                "app/in_flight.limt",
                "app/in_flight.limt: there is no such knob: did you mean in_flight.limit?",
            ),
            ("priority", "priority: there is no such knob: it belongs to APPLICATION/CLASS/KNOB"),
            ("app/queue.max", "app/queue.max: there is no such knob: it belongs to APPLICATION/CLASS/KNOB"),
            ("app/wibble", "app/wibble: there is no such knob: docs/knobs.md lists them all"),
            (
                "app/servers/weight",
                "app/servers/weight: is no path of a knob: write KNOB, APPLICATION/KNOB, APPLICATION/CLASS/KNOB or APPLICATION/servers/SERVER/KNOB",
            ),
            (
                "/in_flight.limit",
                "/in_flight.limit: is no path of a knob: write KNOB, APPLICATION/KNOB, APPLICATION/CLASS/KNOB or APPLICATION/servers/SERVER/KNOB",
            ),
        ] {
            assert_eq!(KnobPath::parse(text).map_err(|fault| fault.to_string()), Err(fault.to_owned()));
        }
        let settings = settings();
        for (text, fault) in [
            (
                "shop/in_flight.limit",
                "shop/in_flight.limit: there is no application \"shop\": there is \"app\"",
            ),
            (
                "app/defualt/priority",
                "app/defualt/priority: there is no class \"defualt\": did you mean \"default\"?",
            ),
            (
                "app/servers/x/weight",
                "app/servers/x/weight: there is no server \"x\": there is \"127.0.0.1:8000\"",
            ),
        ] {
            assert_eq!(settings.get(&path(text)).map_err(|fault| fault.to_string()), Err(fault.to_owned()));
        }
    }

    #[test]
    fn a_bad_change_changes_nothing() {
        let mut settings = settings();
        let before = settings.clone();
        let limit = path("app/in_flight.limit");
        for fault in [settings.set(&limit, Value::Count(0)), limit.read("0").map(drop)] {
            assert_eq!(
                fault.unwrap_err().to_string(),
                "app/in_flight.limit: 0 is not allowed here: expected a whole number from 1 to 1000000"
            );
        }
        let faults = settings
            .set_all(&[
                (path("app/in_flight.limit"), Value::Count(7)),
                (path("app/in_flight.min"), Value::Count(2000)),
            ])
            .unwrap_err();
        assert_eq!(faults.len(), 1);
        assert_eq!(
            faults[0].to_string(),
            "app/in_flight.min: 2000 is more than in_flight.max, which is 1000: lower in_flight.min or raise in_flight.max"
        );
        let faults = settings
            .set_all(&[
                (path("app/capacity.floor"), Value::Rate(50.0)),
                (path("app/capacity.ceiling"), Value::Rate(20.0)),
            ])
            .unwrap_err();
        assert_eq!(faults.len(), 1);
        assert_eq!(
            faults[0].to_string(),
            "app/capacity.floor: 50/s is more than capacity.ceiling, which is 20/s: lower capacity.floor or raise capacity.ceiling"
        );
        assert_eq!(settings, before);
    }

    #[test]
    fn doors_of_a_group_are_those_of_the_class_that_has_them() {
        let mut settings = settings();
        let mut boxes = settings.applications[0].classes[0].clone();
        boxes.name = "boxes".to_owned();
        boxes.waiting_room.group = Some("default".to_owned());
        settings.applications[0].classes.push(boxes);
        let before = settings.clone();
        let (own, of_group) =
            (path("app/boxes/waiting_room.method"), path("app/default/waiting_room.method"));
        assert_eq!(
            settings.set(&own, Value::Choice("closed")).unwrap_err().to_string(),
            "app/boxes/waiting_room.method: is that of its waiting_room.group \"default\": set app/default/waiting_room.method"
        );
        assert_eq!(settings, before);
        assert_eq!(settings.set(&own, Value::None), Ok(()));
        assert_eq!(settings.set(&of_group, Value::Choice("closed")), Ok(()));
        assert_eq!(settings.set(&path("app/boxes/waiting_room.queues"), Value::Flag(false)), Ok(()));
    }

    #[test]
    fn a_share_that_the_room_would_not_keep_is_a_fault() {
        let written = |shares: usize| -> String {
            let class = |n| format!("[application.app.class.c{n}]\nwaiting_room.share = 0.1\n");
            let classes: String = (1..=shares).map(class).collect();
            // One that is of the group of another has none of its own.
            format!(
                "[[listener]]\naddress = \"127.0.0.1:8000\"\n[application.app]\nservers = \"http://127.0.0.1:1\"\n{classes}\
                 [application.app.class.more]\nwaiting_room.group = \"c1\"\n[application.app.class.free]\n"
            )
        };
        let read = |shares| crate::parse(&written(shares), std::path::Path::new("/"), "test");
        let mut settings = read(8).unwrap_or_else(|faults| panic!("{faults}"));
        let said = "is kept for more than 8 classes of the application";
        let faults = read(9).expect_err("nine").to_string();
        assert!(faults.contains("c9") && faults.contains(said) && !faults.contains("c8"), "{faults}");
        let before = settings.clone();
        let (free, c8) = (path("app/free/waiting_room.share"), path("app/c8/waiting_room.share"));
        let fault = settings.set(&free, Value::Ratio(0.1)).expect_err("a ninth").to_string();
        assert!(fault.contains("app/free/waiting_room.share") && fault.contains(said), "{fault}");
        assert_eq!(settings, before);
        assert_eq!(settings.set(&c8, Value::Ratio(0.2)), Ok(()), "one of the eight");
        assert_eq!(settings.set_all(&[(c8, Value::None), (free, Value::Ratio(0.1))]), Ok(()));
    }

    #[test]
    fn changes_that_agree_only_together_are_made_together() {
        let mut settings = settings();
        let (min, max) = (path("app/in_flight.min"), path("app/in_flight.max"));
        let changes = [(min.clone(), Value::Count(2000)), (max, Value::Count(3000))];
        assert_eq!(settings.set_all(&changes), Ok(()));
        assert_eq!(settings.get(&min), Ok(Value::Count(2000)));
    }

    #[test]
    fn of_several_those_that_fit_are_set_and_pairs_go_together() {
        let all = [
            ("app/in_flight.min", Value::Count(2000)),
            ("app/in_flight.max", Value::Count(3000)),
            ("app/capacity.floor", Value::Rate(50.0)),
            ("app/capacity.ceiling", Value::Rate(20.0)),
            ("app/gone/weight", Value::Count(3)),
            ("app/default/weight", Value::Count(7)),
        ];
        let (mut settings, mut wanted) = (settings(), settings());
        let faults = settings.set_fitting(all.iter().map(|(text, value)| (path(text), *value)).collect());
        let faults: Vec<_> = faults.iter().map(ToString::to_string).collect();
        assert_eq!(faults.len(), 2, "{faults:?}");
        assert!(faults[0].starts_with("app/gone/weight: there is no class"), "{faults:?}");
        assert!(faults[1].starts_with("app/capacity.floor: 50/s is more than"), "{faults:?}");
        let fitting = [0, 1, 5].map(|at| (path(all[at].0), all[at].1));
        assert_eq!(wanted.set_all(&fitting), Ok(()));
        assert_eq!(settings, wanted);
    }
}
