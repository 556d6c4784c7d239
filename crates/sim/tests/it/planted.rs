//! The planted faults still fit the code they are planted in; whether the swarm finds them, scripts/planted-faults tells.

use std::{fs, path::Path};

#[test]
fn every_fault_can_be_planted() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut faults = 0;
    let mut misfits = Vec::new();
    for entry in fs::read_dir(root.join("crates/sim/planted")).expect("the faults are there") {
        let path = entry.expect("readable").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        let text = fs::read_to_string(&path).expect("text");
        let fault = (|| {
            let (what, rest) = text.split_once("\nfile: ")?;
            let (file, rest) = rest.split_once("\n--- sound\n")?;
            let (sound, fault) = rest.split_once("\n--- fault\n")?;
            (!what.is_empty() && sound != fault.trim_end_matches('\n')).then_some((file, sound))
        })();
        let Some((file, sound)) = fault else {
            misfits.push(format!("{name}: not what, file, sound, fault"));
            continue;
        };
        let times = fs::read_to_string(root.join(file)).map_or(0, |code| code.matches(sound).count());
        if times != 1 {
            misfits.push(format!("{name}: its sound text is {times} times in {file}"));
        }
        faults += 1;
    }
    assert!(misfits.is_empty(), "{misfits:#?}");
    assert!(faults >= 20, "only {faults} faults");
}
