//! The configuration with which the gateway runs in an arm.

use std::{fmt::Write as _, net::SocketAddr};

use tidegate_control::knobs::{Kind, Knob, Scope, Value};

use crate::{
    experiment::{Arm, Class, Web},
    simulated::APPLICATION,
};

/// The script of an arm, beside its configuration.
pub(super) const CONTROLLER: &str = "controller.lua";

/// Knobs as the simulator's gateway has them: the classes' own, the arm's settings, and else the defaults.
pub(crate) fn of(web: &Web, arm: &Arm, listen: SocketAddr, origin: &str) -> String {
    let controller = arm.controller.as_ref().map_or_else(String::new, |script| {
        format!("[[controller]]\nname = \"{}\"\nfile = \"{CONTROLLER}\"\n", script.short_name())
    });
    let mut text = format!(
        "admin = \"none\"\n{controller}[[listener]]\naddress = \"{listen}\"\n[application.{APPLICATION}]\n\
         servers = [\"{}\"]\ndefault_class = \"{}\"\n",
        origin.trim_end_matches('/'),
        web.classes[0].name,
    );
    for (of, name, setting) in settings(arm) {
        if of.is_none() {
            text += &line(Scope::Application, name, setting);
        }
    }
    for class in &web.classes {
        let _ = writeln!(text, "[application.{APPLICATION}.class.\"{}\"]", class.name);
        let set = || settings(arm).filter(|(of, ..)| *of == Some(&class.name));
        for (knob, value) in given(class) {
            if !set().any(|(_, name, _)| name == knob.name()) {
                text += &line(Scope::Class, knob.name(), &value.to_string());
            }
        }
        if let Some(group) = &class.group {
            let _ = writeln!(text, "waiting_room.group = \"{group}\"");
        }
        for (_, name, setting) in set() {
            text += &line(Scope::Class, name, setting);
        }
    }
    for class in web.classes.iter().skip(1) {
        let _ = writeln!(
            text,
            "[[application.{APPLICATION}.rule]]\nclass = \"{}\"\npath_prefix = \"{}\"",
            class.name, class.path
        );
    }
    text
}

/// An arm's settings: class (`None`: the application), name and value.
fn settings(arm: &Arm) -> impl Iterator<Item = (Option<&str>, &str, &str)> {
    arm.settings.iter().map(|(path, text)| {
        let (of, name) = path.split_once('/').map_or((None, path.as_str()), |(of, name)| (Some(of), name));
        (of, name, text.as_str())
    })
}

/// What a class's row in the experiment says of it.
fn given(class: &Class) -> [(Knob, Value); 3] {
    [
        (Knob::PRIORITY, Value::Count(u64::from(class.priority))),
        (Knob::WEIGHT, Value::Count(u64::from(class.weight))),
        (Knob::GOODPUT_WITHIN, Value::Span(class.within)),
    ]
}

/// A knob as the configuration has it: quoted where its kind is.
fn line(scope: Scope, name: &str, text: &str) -> String {
    let bare = Knob::find(scope, name)
        .is_some_and(|knob| matches!(knob.kind(), Kind::Count { .. } | Kind::Ratio { .. } | Kind::Flag));
    if bare && text != "none" { format!("{name} = {text}\n") } else { format!("{name} = \"{text}\"\n") }
}

#[cfg(test)]
mod tests {
    use tidegate_config::{KnobPath, parse};

    use super::*;
    use crate::experiment::{Front, Subject, builtin};

    /// Scripts judge response times by `goodput.within`; it is what the simulator goes by.
    #[test]
    fn every_builtin_arm_is_a_gateway_with_the_knobs_of_the_simulated_one() {
        let mut arms = 0;
        for builtin in builtin::ALL {
            let experiment = builtin.experiment().unwrap_or_else(|faults| panic!("{faults}"));
            let (Some(_), Subject::Web(web)) = (&experiment.live, &experiment.subject) else { continue };
            for arm in experiment.arms.iter().filter(|arm| matches!(arm.front, Front::Gateway)) {
                let text = of(web, arm, ([127, 0, 0, 1], 8080).into(), "http://127.0.0.1:9/");
                let folder = tempfile::tempdir().expect("a folder");
                if let Some(script) = &arm.controller {
                    std::fs::write(folder.path().join(CONTROLLER), &script.text).expect("a file");
                }
                let known = parse(&text, folder.path(), "tidegate.toml")
                    .unwrap_or_else(|faults| panic!("{}, {}: {faults}\n{text}", builtin.name, arm.name));
                for class in &web.classes {
                    for (knob, value) in given(class) {
                        let path = format!("{APPLICATION}/{}/{}", class.name, knob.name());
                        let path = KnobPath::parse(&path).expect("a path");
                        assert_eq!(known.get(&path).expect("a value"), value, "{path:?} of {}", arm.name);
                    }
                }
                arms += 1;
            }
        }
        assert!(arms > 5, "{arms} arms");
    }

    #[test]
    fn a_class_is_of_the_group_that_the_file_says() {
        let text = "title = \"t\"\nvary = { load = [1] }\nload = { arrivals = \"poisson\" }\n\
                    [[class]]\nname = \"home\"\nwork = \"10ms\"\n\
                    [[class]]\nname = \"boxes\"\nwork = \"10ms\"\nwaiting_room.group = \"home\"\n\
                    [[arm]]\nname = \"a\"\nfront = \"gateway\"\nsettings = { \"home/waiting_room.share\" = 0.5 }\n";
        let experiment = crate::Experiment::parse("mine", text).unwrap_or_else(|faults| panic!("{faults}"));
        let Subject::Web(web) = &experiment.subject else { panic!("clients and a server") };
        let text = of(web, &experiment.arms[0], ([127, 0, 0, 1], 8080).into(), "http://127.0.0.1:9/");
        let known = parse(&text, std::path::Path::new("."), "tidegate.toml")
            .unwrap_or_else(|faults| panic!("{faults}\n{text}"));
        let group = |at: usize| known.applications[0].classes[at].waiting_room.group.as_deref();
        assert_eq!((group(0), group(1)), (None, Some("home")));
    }
}
