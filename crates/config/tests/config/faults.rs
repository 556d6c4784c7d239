//! Bad files: each with the exact lines that are reported.

use std::path::Path;

fn faults(text: &str) -> String {
    match tidegate_config::parse(text, Path::new("/etc/tidegate"), "t.toml") {
        Ok(settings) => panic!("no fault was found in\n{text}\n{settings:?}"),
        Err(faults) => faults.to_string(),
    }
}

#[test]
fn an_empty_file_lacks_listener_and_application() {
    assert_eq!(
        faults(""),
        "t.toml:1:1: application: is missing: write [application.NAME] with servers = [\"http://127.0.0.1:8000\"]\n\
         t.toml:1:1: listener: is missing: write [[listener]] with address = \"[::]:8080\""
    );
}
