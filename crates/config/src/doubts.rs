//! What a configuration may say, and hardly anybody means: told by `tidegate check` and in the log, and in force all the same.

use std::net::{IpAddr, SocketAddr};

use tidegate_control::knobs::{
    Algorithm, ChoiceSet, Knob, Mode, RoomCarry, RoomMethod, RoomRole, Value, keys,
};

use crate::{Address, Application, Class, Fault, KnobPath, LogTarget, Settings, Target};

/// Of a slot so little is left for everybody that the room promises nothing of it.
const NOTHING: f64 = 1e-9;

impl Settings {
    /// What is hardly meant, each with its key and its mend.
    #[must_use]
    pub fn doubts(&self) -> Vec<Fault> {
        let mut doubts: Vec<Fault> = self.applications.iter().filter_map(shares_leave_nothing).collect();
        doubts.extend(
            self.applications.iter().filter_map(|application| room_without_capacity(self, application)),
        );
        doubts.extend(
            self.applications.iter().filter_map(|application| sessions_without_capacity(self, application)),
        );
        doubts.extend(self.applications.iter().filter_map(sessions_before_room));
        doubts.extend(self.applications.iter().flat_map(leads_without_bound));
        doubts.extend(nothing_leads_there(self));
        doubts.extend(anybody_is_believed(self));
        doubts.extend(room_without_state(self));
        doubts.extend(
            self.applications.iter().flat_map(|application| room_without_the_other(self, application)),
        );
        doubts.extend(generator_without_admin(self));
        doubts.extend(ports_taken_twice(self));
        doubts.extend(access_log_out_of_place(self));
        doubts.extend(state_in_a_file(self));
        doubts
    }
}

/// Applications without hosts of their own that neither a listener nor a route names.
fn nothing_leads_there(settings: &Settings) -> impl Iterator<Item = Fault> {
    let is_named = |name: &String| {
        settings.listeners.iter().any(|listener| listener.application.as_ref() == Some(name))
            || settings.routes.iter().any(|route| route.verdict == *name)
    };
    let applications = settings.applications.iter();
    applications.filter(move |known| known.hosts.as_deref() == Some(&[]) && !is_named(&known.name)).map(
        |known| Fault {
            place: None,
            key: format!("application.{}.hosts", known.name),
            what: "is empty, and no listener or route names the application: no request can reach it"
                .to_owned(),
            mend: format!("write a host, or a [[route]] with application = \"{}\"", known.name),
        },
    )
}

/// Applications whose servers may show any certificate.
fn anybody_is_believed(settings: &Settings) -> impl Iterator<Item = Fault> {
    let insecure = |known: &&Application| known.upstream.tls.as_ref().is_some_and(|tls| tls.insecure);
    settings.applications.iter().filter(insecure).map(|known| Fault {
        place: None,
        key: format!("application.{}.upstream.tls.insecure", known.name),
        what: "TLS to the servers is INSECURE: any certificate is accepted, so that anyone between here and them can read and \
               change everything"
            .to_owned(),
        mend: "write upstream.tls.ca instead".to_owned(),
    })
}

/// Ports that two listeners want, or a listener and the admin interface: one of an address, the other of all. Only with
/// sockets from systemd may both be open.
fn ports_taken_twice(settings: &Settings) -> Vec<Fault> {
    let listeners = settings.listeners.iter().enumerate().filter_map(|(position, listener)| {
        let Address::Tcp(address) = &listener.address else { return None };
        Some((format!("listener[{position}].address"), *address))
    });
    let admin = settings.admin.map(|address| ("admin".to_owned(), address));
    let mut seen: Vec<(String, SocketAddr)> = Vec::new();
    let mut doubts = Vec::new();
    for (key, address) in listeners.chain(admin) {
        if let Some((other, taken)) = seen.iter().find(|(_, taken)| share_a_port(*taken, address)) {
            doubts.push(Fault {
                place: None,
                key: key.clone(),
                what: format!("{address} is taken by {other}, which is {taken}: both cannot be opened"),
                mend: "give one of them another port, or leave it out".to_owned(),
            });
        }
        seen.push((key, address));
    }
    doubts
}

fn share_a_port(one: SocketAddr, other: SocketAddr) -> bool {
    let covers = |all: IpAddr, one: IpAddr| all.is_unspecified() && (all.is_ipv6() || one.is_ipv4());
    let (a, b) = (one.ip(), other.ip());
    one.port() == other.port() && one.port() != 0 && (a == b || covers(a, b) || covers(b, a))
}

/// A start fails by it; a check may run where the directory is yet to be made.
fn access_log_out_of_place(settings: &Settings) -> Option<Fault> {
    let LogTarget::File(file) = &settings.access_log.as_ref()?.target else { return None };
    let (what, mend) = match file.parent() {
        _ if file.is_dir() => (format!("{} is a directory", file.display()), "name a file in it"),
        Some(directory) if !directory.is_dir() => (
            format!("{} is no directory", directory.display()),
            "make it, and let Tidegate's user write there",
        ),
        _ => return None,
    };
    Some(Fault { place: None, key: "access_log.target".to_owned(), what, mend: mend.to_owned() })
}

/// Everything is in memory only then.
fn state_in_a_file(settings: &Settings) -> Option<Fault> {
    let file = settings.state_directory.as_ref().filter(|path| path.exists() && !path.is_dir())?;
    Some(Fault {
        place: None,
        key: "state_directory".to_owned(),
        what: format!("{} is no directory", file.display()),
        mend: "name one, which Tidegate makes where there is none".to_owned(),
    })
}

/// What nobody says of the servers, and nothing finds, the room takes for room without end. What times are given by elsewhere is
/// told there.
fn room_without_capacity(settings: &Settings, application: &Application) -> Option<Fault> {
    let values = &application.values;
    let of_classes = application.classes.iter().filter_map(|class| class.values.get(keys::CLASS_ROOM_METHOD));
    let mut methods = of_classes.map(|method| method.0.of_room()).chain([values.get(keys::ROOM_METHOD).0]);
    let counts =
        methods.any(|method| matches!(method, RoomMethod::Fifo | RoomMethod::Random | RoomMethod::Event));
    if !has_room(application) || values.get(keys::ROOM_ROLE).0 == RoomRole::Generate || !counts {
        return None;
    }
    without_capacity(settings, application, Knob::ROOM_METHOD, "nobody is held")
}

/// New TLS sessions are then let in without end.
fn sessions_without_capacity(settings: &Settings, application: &Application) -> Option<Fault> {
    if application.values.get(keys::TLS_SESSIONS_MODE).0 == Mode::Off {
        return None;
    }
    without_capacity(settings, application, Knob::TLS_SESSIONS_MODE, "every new session is let in")
}

/// That `knob` goes by a capacity that nobody tells and nothing finds, and what follows.
fn without_capacity(
    settings: &Settings,
    application: &Application,
    knob: Knob,
    what_follows: &str,
) -> Option<Fault> {
    let values = &application.values;
    let algorithm = values.get(keys::IN_FLIGHT_ALGORITHM).0;
    let is_found = matches!(algorithm, Algorithm::KneeTrack | Algorithm::PowerRatio);
    let (floor, ceiling) = (values.get(keys::CAPACITY_FLOOR), values.get(keys::CAPACITY_CEILING));
    let is_given = values.get(keys::CAPACITY_GIVEN).is_some() || floor.is_some() && floor == ceiling;
    // A script may tell it.
    if is_found || is_given || !settings.controllers.is_empty() {
        return None;
    }
    let target = Target::Application(application.name.clone());
    Some(Fault {
        place: None,
        key: KnobPath { target, knob }.to_string(),
        what: format!(
            "no capacity is known: in_flight.algorithm \"{}\" finds none, and none is given, so that {what_follows}",
            algorithm.name()
        ),
        mend: "write capacity.given, or in_flight.algorithm = \"knee_track\", which finds it; leave it so if a program tells it \
               by the API"
            .to_owned(),
    })
}

/// Who is refused before his handshake is given no time to come.
fn sessions_before_room(application: &Application) -> Option<Fault> {
    let is_refused = application.values.get(keys::TLS_SESSIONS_MODE).0 == Mode::Enforce;
    let target = Target::Application(application.name.clone());
    (is_refused && has_room(application)).then(|| Fault {
        place: None,
        key: KnobPath { target, knob: Knob::TLS_SESSIONS_MODE }.to_string(),
        what: "new sessions beyond the capacity are refused before the waiting room can give their visitors a time".to_owned(),
        mend: "leave it \"off\": the waiting room itself lets in no more than there is room for".to_owned(),
    })
}

/// There is nothing that a request could be ahead of.
fn leads_without_bound(application: &Application) -> impl Iterator<Item = Fault> {
    let has_lead = |class: &&Class| {
        class.values.get(keys::IN_FLIGHT_LEAD).is_some()
            && class.values.get(keys::CLASS_IN_FLIGHT_MAX).is_none()
    };
    application.classes.iter().filter(has_lead).map(|class| {
        let target = Target::Class { application: application.name.clone(), class: class.name.clone() };
        Fault {
            place: None,
            key: KnobPath { target, knob: Knob::IN_FLIGHT_LEAD }.to_string(),
            what: "the class has no in_flight.max, so that nothing starts ahead of it".to_owned(),
            mend: "write in_flight.max, or leave it out".to_owned(),
        }
    })
}

fn has_room(application: &Application) -> bool {
    let values = &application.values;
    values.get(keys::ROOM_METHOD).0 != RoomMethod::Off && values.get(keys::MODE).0 != Mode::Off
}

/// What a check forgets the generator tells it again.
fn room_without_state(settings: &Settings) -> Option<Fault> {
    let promises = |of: &&Application| has_room(of) && of.values.get(keys::ROOM_ROLE).0 != RoomRole::Check;
    let application = settings.applications.iter().find(promises)?;
    settings.state_directory.is_none().then(|| Fault {
        place: None,
        key: "state_directory".to_owned(),
        what: format!(
            "none is written, and {} has a waiting room: with the process its promises, passes and keys are lost, and who \
             waits begins anew",
            application.name
        ),
        mend: "name a directory in which Tidegate's user may write".to_owned(),
    })
}

/// Of a room in two processes one that does not know the way to the other. Under one host name cookies show it, to who stands before
/// the two.
fn room_without_the_other(settings: &Settings, application: &Application) -> Vec<Fault> {
    let (values, room) = (&application.values, &application.waiting_room);
    if !has_room(application) {
        return Vec::new();
    }
    let fault = |key: &str, what: &str, mend: &str| Fault {
        place: None,
        key: format!("application.{}.waiting_room.{key}", application.name),
        what: what.to_owned(),
        mend: mend.to_owned(),
    };
    let is_behind_another = settings.listeners.iter().any(|listener| !listener.trusted.is_empty());
    let goes_by_cookie = is_behind_another && values.get(keys::ROOM_CARRY).0 == RoomCarry::Cookie;
    let mut doubts = Vec::new();
    match values.get(keys::ROOM_ROLE).0 {
        RoomRole::Generate if room.check_url.is_none() && !goes_by_cookie => doubts.push(fault(
            "check_url",
            "is missing: who comes at his time is led here again and not to the check, for ever",
            "write where the check is reached, such as \"https://shop.example\"; under one host name listener.trusted says who is \
             before the two, and waiting_room.carry is \"cookie\"",
        )),
        RoomRole::Check => {
            if room.report.is_none() {
                doubts.push(fault(
                    "report.to",
                    "is missing: the check has no keys of the one that gives times, and takes none of these for a time",
                    "write the generator's admin interface, such as \"https://queue.example:9900\"",
                ));
            }
            if room.generate_url.is_none() && !goes_by_cookie {
                doubts.push(fault(
                    "generate_url",
                    "is missing: who comes without a time is refused (room_closed) and not led to who gives one",
                    "write where the generator is reached, such as \"https://queue.example\"; under one host name \
                     listener.trusted says who is before the two, and waiting_room.carry is \"cookie\"",
                ));
            }
        }
        RoomRole::Generate | RoomRole::Both => {}
    }
    doubts
}

/// Who gives times for checks that cannot reach him.
fn generator_without_admin(settings: &Settings) -> Option<Fault> {
    let generates = |application: &&Application| {
        has_room(application) && application.values.get(keys::ROOM_ROLE).0 == RoomRole::Generate
    };
    let application = settings.applications.iter().find(generates).filter(|_| settings.admin.is_none())?;
    Some(Fault {
        place: None,
        key: "admin".to_owned(),
        what: format!(
            "is \"none\", and {} only gives times (waiting_room.role = \"generate\"): no check can report here, so that              nothing of the capacity is known, and none has the keys by which times are signed",
            application.name
        ),
        mend: "write the address at which checks reach it, and an [[admin_token]] of role \"check\""
            .to_owned(),
    })
}

/// Shares that take all of each slot, where others queue who have none.
fn shares_leave_nothing(application: &Application) -> Option<Fault> {
    let classes = &application.classes;
    let leader = |class: &Class| class.waiting_room.group.as_ref().unwrap_or(&class.name).clone();
    let share = |class: &Class| match class.values.value(Knob::ROOM_SHARE) {
        Value::Ratio(share) if class.waiting_room.group.is_none() => Some(share),
        _ => None,
    };
    let kept: f64 = classes.iter().filter_map(share).sum();
    if kept < 1.0 - NOTHING {
        return None;
    }
    let has_one = |name: &str| classes.iter().any(|class| class.name == *name && share(class).is_some());
    let without: Vec<String> = classes
        .iter()
        .filter(|class| class.values.get(keys::ROOM_QUEUES) && !has_one(&leader(class)))
        .map(|class| format!("\"{}\"", class.name.escape_debug()))
        .collect();
    let last = classes.iter().rfind(|class| share(class).is_some()).filter(|_| !without.is_empty())?;
    let target = Target::Class { application: application.name.clone(), class: last.name.clone() };
    let classes = if without.len() == 1 { "class" } else { "classes" };
    Some(Fault {
        place: None,
        key: KnobPath { target, knob: Knob::ROOM_SHARE }.to_string(),
        what: format!(
            "the shares of the application add up to {kept:.3}, which leaves nothing of a slot to the {classes} {}: who \
             of them cannot go on at once is refused (horizon_full)",
            without.join(", ")
        ),
        mend: "keep less than 1 together, give them a share or a waiting_room.group as well, or let them pass by \
               waiting_room.queues = false"
            .to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn doubts(classes: &str) -> Vec<Fault> {
        let text = format!(
            "[[listener]]\naddress = \"127.0.0.1:8000\"\n[application.app]\nservers = \"http://127.0.0.1:1\"\n{classes}"
        );
        let read = crate::parse(&text, std::path::Path::new("/"), "test");
        read.unwrap_or_else(|faults| panic!("{faults}")).doubts()
    }

    #[test]
    fn a_port_that_two_want_is_told() {
        let told = |admin: &str, addresses: &[&str]| -> Vec<String> {
            let listener = |address: &&str| format!("[[listener]]\naddress = \"{address}\"\n");
            let listeners: String = addresses.iter().map(listener).collect();
            let text = format!(
                "admin = \"{admin}\"\n{listeners}[application.app]\nservers = \"http://127.0.0.1:1\"\n"
            );
            let read = crate::parse(&text, std::path::Path::new("/"), "test");
            let doubts = read.unwrap_or_else(|faults| panic!("{faults}")).doubts();
            doubts.into_iter().map(|doubt| doubt.key).collect()
        };
        const ADMIN: &str = "127.0.0.1:9900";
        assert!(told(ADMIN, &["[::]:80", "[::]:443", "127.0.0.1:8080", "[::1]:8080"]).is_empty());
        assert!(told(ADMIN, &["0.0.0.0:80", "[::1]:80", "unix:/run/9900"]).is_empty());
        assert!(told("none", &["127.0.0.1:0", "0.0.0.0:0"]).is_empty(), "the kernel chooses them");
        assert_eq!(told(ADMIN, &["[::]:80", "127.0.0.1:80"]), ["listener[1].address"]);
        assert_eq!(told(ADMIN, &["127.0.0.1:80", "0.0.0.0:80"]), ["listener[1].address"]);
        assert_eq!(told(ADMIN, &["0.0.0.0:80", "[::]:80"]), ["listener[1].address"]);
        for taken in [ADMIN, "0.0.0.0:9900", "[::]:9900"] {
            assert_eq!(told(ADMIN, &[taken]), ["admin"], "{taken}");
        }
    }

    #[test]
    fn sessions_that_go_by_no_capacity_or_stand_before_a_room_are_told() {
        const FIXED: &str = "in_flight.algorithm = \"fixed\"\n";
        let told = |mode: &str, knobs: &str| -> Vec<String> {
            let text = format!(
                "state_directory = \"/run/s\"\n[[listener]]\naddress = \"127.0.0.1:8000\"\n[application.app]\n\
                 servers = \"http://127.0.0.1:1\"\ntls.sessions.mode = \"{mode}\"\n{knobs}"
            );
            let read = crate::parse(&text, std::path::Path::new("/"), "test");
            let doubts = read.unwrap_or_else(|faults| panic!("{faults}")).doubts();
            doubts.into_iter().map(|doubt| format!("{}: {}", doubt.key, doubt.what)).collect()
        };
        assert!(told("enforce", "").is_empty());
        assert!(told("enforce", &format!("{FIXED}capacity.given = \"20/s\"\n")).is_empty());
        assert!(told("off", FIXED).is_empty());
        let doubts = told("watch", FIXED);
        assert!(
            doubts.len() == 1
                && doubts[0].starts_with("app/tls.sessions.mode: no capacity is known")
                && doubts[0].ends_with("every new session is let in"),
            "{doubts:?}"
        );
        const ROOM: &str = "waiting_room.method = \"fifo\"\n";
        assert!(told("watch", ROOM).is_empty());
        let doubts = told("enforce", ROOM);
        assert!(doubts.len() == 1 && doubts[0].contains("before the waiting room"), "{doubts:?}");
    }

    #[test]
    fn a_lead_without_a_bound_is_told() {
        let told = |knobs: &str| doubts(&format!("[application.app.class.jobs]\n{knobs}"));
        assert!(told("in_flight.max = 1\nin_flight.lead = \"1ms\"\n").is_empty());
        let doubts = told("in_flight.lead = \"1ms\"\n");
        assert_eq!(doubts.len(), 1, "{doubts:?}");
        assert_eq!(doubts[0].key, "app/jobs/in_flight.lead");
    }

    #[test]
    fn an_application_that_nothing_leads_to_is_told() {
        let told = |more: &str| -> Vec<String> {
            let text = format!(
                "[[listener]]\naddress = \"127.0.0.1:8000\"\n[application.app]\n[application.api]\nhosts = []\n{more}"
            );
            let read = crate::parse(&text, std::path::Path::new("/"), "test");
            let doubts = read.unwrap_or_else(|faults| panic!("{faults}")).doubts();
            doubts.into_iter().map(|doubt| doubt.key).collect()
        };
        assert_eq!(told(""), ["application.api.hosts"]);
        assert_eq!(told("[[route]]\napplication = \"app\"\n"), ["application.api.hosts"]);
        assert!(told("[[route]]\napplication = \"api\"\npath_prefix = \"/api\"\n").is_empty());
        let listener = "[[listener]]\naddress = \"127.0.0.1:8001\"\napplication = \"api\"\n";
        assert!(told(listener).is_empty());
    }

    #[test]
    fn servers_that_may_show_any_certificate_are_told_of() {
        let told = |tls: &str| -> Vec<String> {
            let text = format!(
                "[[listener]]\naddress = \"127.0.0.1:8000\"\n[application.app]\nservers = \"https://127.0.0.1:1\"\n{tls}"
            );
            let read = crate::parse(&text, std::path::Path::new("/"), "test");
            let doubts = read.unwrap_or_else(|faults| panic!("{faults}")).doubts();
            doubts.into_iter().map(|doubt| doubt.key).collect()
        };
        assert_eq!(told("upstream.tls.insecure = true"), ["application.app.upstream.tls.insecure"]);
        for safe in ["", "upstream.tls.insecure = false", "upstream.tls.ca = \"ca.pem\""] {
            assert!(told(safe).is_empty(), "{safe}");
        }
    }

    #[test]
    fn an_access_log_whose_directory_is_not_there_is_told() {
        let target = |target: &str| {
            let text = format!(
                "access_log.target = \"{target}\"\n[[listener]]\naddress = \"127.0.0.1:8000\"\n[application.app]\n"
            );
            let read = crate::parse(&text, std::path::Path::new("/"), "test");
            read.unwrap_or_else(|faults| panic!("{faults}")).doubts()
        };
        let directory = tempfile::tempdir().unwrap();
        let there = directory.path().display();
        assert_eq!(target(&format!("{there}/access.log")), []);
        assert_eq!(target("stdout"), []);
        let told = target(&format!("{there}/nowhere/access.log"));
        assert!(told.len() == 1 && told[0].to_string().contains("nowhere is no directory"), "{told:?}");
        let told = target(&there.to_string());
        assert!(told.len() == 1 && told[0].to_string().contains("is a directory"), "{told:?}");
    }

    #[test]
    fn a_state_directory_that_is_a_file_is_told() {
        let told = |path: &std::path::Path| {
            let text = format!(
                "state_directory = \"{}\"\n[[listener]]\naddress = \"127.0.0.1:8000\"\n[application.app]\n",
                path.display()
            );
            let read = crate::parse(&text, std::path::Path::new("/"), "test");
            read.unwrap_or_else(|faults| panic!("{faults}")).doubts()
        };
        let directory = tempfile::tempdir().unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        assert_eq!([told(directory.path()), told(&directory.path().join("new"))], [[], []]);
        let told = told(file.path());
        assert!(told.len() == 1 && told[0].key == "state_directory", "{told:?}");
    }

    #[test]
    fn a_room_that_holds_nobody_is_told() {
        let told = |top: &str, more: &str| -> Vec<String> {
            let text = format!(
                "state_directory = \"/var/lib/tidegate\"\n{top}\n[[listener]]\naddress = \"127.0.0.1:8000\"\n\
                 [application.app]\nservers = \"http://127.0.0.1:1\"\nin_flight.algorithm = \"fixed\"\n{more}"
            );
            let read = crate::parse(&text, std::path::Path::new("/"), "test");
            let doubts = read.unwrap_or_else(|faults| panic!("{faults}")).doubts();
            doubts.into_iter().map(|doubt| doubt.key).collect()
        };
        let key = ["app/waiting_room.method"];
        for method in ["fifo", "random", "event"] {
            let room = format!("waiting_room.method = \"{method}\"\n");
            assert_eq!(told("", &room), key, "{method}");
            assert_eq!(told("", &format!("{room}capacity.floor = \"9/s\"")), key, "it bounds what is found");
            let class = format!("[application.app.class.sale]\n{room}");
            assert_eq!(told("", &format!("waiting_room.method = \"closed\"\n{class}")), key, "{method}");
            assert!(told("", &class).is_empty(), "there is no room");
            for more in ["capacity.given = \"9/s\"", "mode = \"off\""] {
                assert!(told("", &(room.clone() + more)).is_empty(), "{more}");
            }
            let script = "[[controller]]\nfile = \"law.lua\"";
            assert!(told(script, &room).is_empty(), "it may tell it");
        }
        for method in ["off", "closed", "wait"] {
            assert!(told("", &format!("waiting_room.method = \"{method}\"")).is_empty(), "{method}");
        }
    }

    #[test]
    fn a_room_that_is_forgotten_with_the_process_is_told() {
        let room = "waiting_room.method = \"fifo\"\n";
        let of_check = format!(
            "{room}waiting_room.role = \"check\"\nwaiting_room.report.to = \"http://127.0.0.1:9900\"\n\
             waiting_room.report.token_file = \"token\"\nwaiting_room.generate_url = \"http://127.0.0.1:8081\"\n"
        );
        assert_eq!(doubts(""), []);
        assert_eq!(doubts(&of_check), [], "it hears all of it again");
        let told = doubts(room);
        assert_eq!(told.len(), 1, "{told:?}");
        assert_eq!(told[0].key, "state_directory");
        assert!(told[0].what.contains("app has a waiting room"), "{}", told[0]);
    }

    #[test]
    fn a_room_in_two_processes_that_does_not_know_the_other_is_told() {
        let told = |trusted: &str, room: &str| -> Vec<String> {
            let text = format!(
                "state_directory = \"/var/lib/tidegate\"\n[[listener]]\naddress = \"127.0.0.1:8000\"\n{trusted}\n\
                 [application.app]\nservers = \"http://127.0.0.1:1\"\nwaiting_room.method = \"fifo\"\n{room}"
            );
            let read = crate::parse(&text, std::path::Path::new("/"), "test");
            let doubts = read.unwrap_or_else(|faults| panic!("{faults}")).doubts();
            let start = "application.app.waiting_room.";
            doubts
                .iter()
                .map(|doubt| doubt.key.strip_prefix(start).expect("of the room").to_owned())
                .collect()
        };
        const GENERATE: &str = "waiting_room.role = \"generate\"\n";
        const CHECK: &str = "waiting_room.role = \"check\"\n";
        let front = "trusted = [\"127.0.0.1\"]";
        let with = |role: &str, more: &str| format!("{role}waiting_room.{more}\n");
        assert_eq!(told("", GENERATE), ["check_url"]);
        assert!(told("", &with(GENERATE, "check_url = \"http://shop.example\"")).is_empty());
        assert!(told(front, GENERATE).is_empty(), "under one host name");
        assert_eq!(told(front, &with(GENERATE, "carry = \"query\"")), ["check_url"]);
        assert_eq!(told("", CHECK), ["report.to", "generate_url"]);
        assert_eq!(told(front, CHECK), ["report.to"]);
        let reports = "report.to = \"http://127.0.0.1:9900\"";
        assert!(told(front, &with(CHECK, reports)).is_empty());
        assert_eq!(told("", &with(CHECK, reports)), ["generate_url"]);
        assert_eq!(
            told(front, &with(CHECK, &format!("{reports}\nwaiting_room.carry = \"query\""))),
            ["generate_url"]
        );
        assert!(told("", &format!("mode = \"off\"\n{CHECK}")).is_empty());
        assert!(told("", "waiting_room.role = \"both\"").is_empty());
    }

    #[test]
    fn a_generator_that_no_check_can_reach_is_told() {
        let told = |admin: &str, role: &str| {
            let text = format!(
                "admin = \"{admin}\"\nstate_directory = \"/var/lib/tidegate\"\n[[listener]]\naddress = \"127.0.0.1:8000\"\n\
                 [application.app]\nservers = \"http://127.0.0.1:1\"\nwaiting_room.method = \"fifo\"\n\
                 waiting_room.role = \"{role}\"\nwaiting_room.check_url = \"http://shop.example\"\n"
            );
            let read = crate::parse(&text, std::path::Path::new("/"), "test");
            read.unwrap_or_else(|faults| panic!("{faults}")).doubts()
        };
        assert_eq!(told("127.0.0.1:9900", "generate"), []);
        assert_eq!(told("none", "both"), []);
        let doubts = told("none", "generate");
        assert_eq!(doubts.len(), 1, "{doubts:?}");
        assert_eq!(doubts[0].key, "admin");
        assert!(doubts[0].what.contains("app only gives times"), "{}", doubts[0]);
    }

    #[test]
    fn shares_that_leave_nothing_to_somebody_are_told() {
        let shares = |one: f64, two: f64, more: &str| {
            format!(
                "[application.app.class.one]\nwaiting_room.share = {one}\n[application.app.class.two]\n\
                 waiting_room.share = {two}\n[application.app.class.three]\nwaiting_room.group = \"one\"\n{more}"
            )
        };
        let free = "[application.app.class.default]\nwaiting_room.queues = false\n";
        let of_two = "[application.app.class.default]\nwaiting_room.group = \"two\"\n";
        assert_eq!(doubts(&shares(0.5, 0.499, "")), [], "something is left");
        assert_eq!(doubts(&shares(0.5, 0.5, free)), [], "nobody else queues");
        assert_eq!(doubts(&shares(0.5, 0.5, of_two)), [], "everybody has a part");
        for (one, two) in [(0.5, 0.5), (0.7, 0.3), (0.9, 0.9)] {
            let told = doubts(&shares(one, two, ""));
            assert_eq!(told.len(), 1, "{told:?}");
            assert_eq!(told[0].key, "app/two/waiting_room.share");
            assert!(told[0].what.contains("to the class \"default\":"), "{}", told[0]);
        }
    }
}
