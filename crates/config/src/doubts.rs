//! What a configuration may say, and hardly anybody means: told by `tidegate check` and in the log, and in force all the same.

use tidegate_control::knobs::{Knob, Value, keys};

use crate::{Application, Class, Fault, KnobPath, Settings, Target};

/// Of a slot so little is left for everybody that the room promises nothing of it.
const NOTHING: f64 = 1e-9;

impl Settings {
    /// What is hardly meant, each with its key and its mend.
    #[must_use]
    pub fn doubts(&self) -> Vec<Fault> {
        self.applications.iter().filter_map(shares_leave_nothing).collect()
    }
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
