//! What of an application does not act: controls that only watch or are off, by the names of their knobs.

use serde_json::Value as Json;

use super::table::{BETWEEN, each, word};

/// Controls with a mode of their own, `NAME.mode`, where `tls_sessions` stands for `tls.sessions`.
const CONTROLS: [&str; 7] =
    ["client", "ingress", "queue", "in_flight", "egress", "long_streams", "tls_sessions"];

/// The controls in that mode, such as `in_flight · ingress (class search) · queue (30 of 60 classes)`; `None`: there
/// is none.
pub(super) fn controls_in(application: &Json, mode: &str) -> Option<String> {
    let all: Vec<String> =
        CONTROLS.iter().filter_map(|control| places_in(application, control, mode)).collect();
    (!all.is_empty()).then(|| all.join(BETWEEN))
}

/// A control with where it is in that mode, if that is not everywhere where it is set.
fn places_in(application: &Json, control: &str, mode: &str) -> Option<String> {
    // What an application says of queues is for classes that say nothing.
    let own = Some(&application["modes"][control]).filter(|mode| control != "queue" && mode.is_string());
    let of_classes = || {
        let modes = each(&application["classes"]).map(|class| (class, &class["modes"][control]));
        modes.filter(|(_, mode)| mode.is_string())
    };
    let is_own = own.is_some_and(|own| own == mode);
    let classes: Vec<&Json> = of_classes().filter(|(_, its)| *its == mode).map(|(class, _)| class).collect();
    let set = usize::from(own.is_some()) + of_classes().count();
    let here = usize::from(is_own) + classes.len();
    if here == 0 {
        return None;
    }
    if here == set {
        return Some(control.to_owned());
    }
    let of_all = is_own.then(|| "of all together".to_owned());
    let of_some = match classes[..] {
        [] => None,
        [class] => Some(format!("class {}", word(&class["name"]))),
        _ => Some(format!("{} of {} classes", classes.len(), each(&application["classes"]).count())),
    };
    let places: Vec<String> = of_all.into_iter().chain(of_some).collect();
    Some(format!("{control} ({})", places.join(", ")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_set_and_does_not_act_is_named_with_where() {
        let class = |name: &str, ingress: Option<&str>, queue: &str| json!({ "name": name, "modes": { "ingress": ingress, "queue": queue, "in_flight": null, "egress": null } });
        let mut application = json!({
            "modes": { "client": null, "ingress": "enforce", "queue": "off", "in_flight": "watch", "egress": null },
            "classes": [class("a", Some("watch"), "watch"), class("b\u{1b}", None, "watch"), class("c", None, "enforce")],
        });
        let told = |application: &Json| ["watch", "off"].map(|mode| controls_in(application, mode));
        let watch = "ingress (class a) · queue (2 of 3 classes) · in_flight";
        assert_eq!(told(&application), [Some(watch.to_owned()), None], "no class goes by the queue's");
        application["modes"]["ingress"] = "watch".into();
        application["classes"][1]["modes"] = json!({ "ingress": "off", "queue": "off" });
        let [watch, off] = told(&application).map(Option::unwrap);
        assert_eq!(watch, "ingress (of all together, class a) · queue (class a) · in_flight");
        assert_eq!(off, "ingress (class b?) · queue (class b?)", "no orders to the terminal");
        assert_eq!(told(&json!({ "name": "shop" })), [None, None], "of a gateway that does not tell");
    }
}
