//! What the fuzz targets of this crate have in common: texts with slips in them, and a gateway that reads them.

use std::{path::Path, sync::Arc};

use tidegate_runtime::{Recorder, Shared};

/// An octet that is put in, or in place of another.
pub(crate) type Slip = (u16, u8, bool);

/// One of the texts, with up to four slips in it.
pub(crate) fn slipped(texts: &[&str], choice: usize, slips: &[Slip]) -> String {
    let mut text = texts[choice % texts.len()].as_bytes().to_vec();
    for (at, octet, is_new) in slips.iter().take(choice / texts.len() % 5) {
        let at = usize::from(*at) % text.len();
        match is_new {
            true => text.insert(at, *octet),
            false => text[at] = *octet,
        }
    }
    String::from_utf8_lossy(&text).into_owned()
}

/// A gateway before `shop`, which has the class `search` and gives the times of its waiting room; measured for a moment.
pub(crate) fn gateway() -> Arc<Shared> {
    let text = "[[listener]]\naddress = \"127.0.0.1:0\"\n[application.shop]\nservers = [\"http://127.0.0.1:1\"]\n\
                waiting_room.method = \"fifo\"\nwaiting_room.role = \"generate\"\n[application.shop.class.search]\n";
    let settings = tidegate_config::parse(text, Path::new("/"), "test").unwrap();
    let shared = Shared::new(settings).unwrap();
    Recorder::new(&shared).tick(&shared, |_, _, _| {});
    shared
}
