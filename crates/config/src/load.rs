//! Loading: the configuration file in, validated settings or all its faults out.

use std::{
    io::{self, Read},
    path::Path,
};

use crate::{
    faults::{Fault, Faults},
    files::open_file,
    read::{Reading, read},
    settings::Settings,
};

/// Size of the largest configuration file that is read, bytes.
pub const FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// Loads a configuration file. Relative paths in it are relative to its directory.
///
/// # Errors
///
/// Every fault at once, with key path, line and mend; a file that the configuration names and that
/// cannot be read is one too.
pub fn load(path: &Path) -> Result<Settings, Faults> {
    let origin = path.display().to_string();
    let text = text_of(path).map_err(|fault| Faults::one(&origin, fault))?;
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut reading = read(&text, absolute.parent().unwrap_or(Path::new("/")));
    find_files(&mut reading);
    reading.into_settings(&origin)
}

/// Reads the text of a configuration; relative paths in it are relative to `base_directory`.
/// `origin` is the name under which faults are shown.
///
/// Touches no file: whether the files that the configuration names are there, [`load()`] asks.
///
/// # Errors
///
/// Every fault at once, with key path, line and mend.
pub fn parse(text: &str, base_directory: &Path, origin: &str) -> Result<Settings, Faults> {
    read(text, base_directory).into_settings(origin)
}

fn text_of(path: &Path) -> Result<String, Fault> {
    let fault = |what: String, mend: &str| Fault::of("", what, mend);
    let unreadable = |error: io::Error| {
        fault(format!("cannot be read ({error})"), "name a configuration file that can be read")
    };
    let mut bytes = Vec::new();
    let file = open_file(path).map_err(unreadable)?;
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if u64::try_from(bytes.len()).is_ok_and(|length| length > FILE_BYTES_MAX) {
        return Err(fault(
            format!("is larger than {} MiB", FILE_BYTES_MAX / 1024 / 1024),
            "name a configuration file",
        ));
    }
    String::from_utf8(bytes).map_err(|error| {
        let line =
            error.as_bytes().iter().take(error.utf8_error().valid_up_to()).filter(|b| **b == b'\n').count();
        fault(format!("is not UTF-8 in line {}", line + 1), "save it as UTF-8")
    })
}

/// Reports files that the configuration names and that cannot be opened.
fn find_files(reading: &mut Reading) {
    for named in &reading.files {
        let problem = match open_file(&named.path).and_then(|file| file.metadata()) {
            Ok(metadata) if metadata.is_dir() => "is a directory".to_owned(),
            Ok(_) => continue,
            Err(error) => error.to_string(),
        };
        reading.faults.add(Fault {
            place: Some(named.place),
            key: named.key.clone(),
            what: format!("{} cannot be read ({problem})", named.path.display()),
            mend: "write the path of a file that Tidegate may read".to_owned(),
        });
    }
}
