//! The file of `--report`: there when the run has ended, and whole. A device or a pipe is written to as it is.

use std::{
    fs::{self, File},
    io::Write as _,
    path::{Path, PathBuf},
};

use super::CommandError;
use crate::{html, report::Report};

/// A page to be written.
#[derive(Debug)]
pub(super) struct Page {
    file: File,
    part: Option<Part>,
}

/// The file of another name that stands beside the page's until that is whole; dropped before, it
/// leaves nothing.
#[derive(Debug)]
struct Part {
    path: PathBuf,
    whole: PathBuf,
}

impl Page {
    /// Makes sure that it can be written: better now than after the run.
    pub(super) fn create(path: &Path) -> Result<Self, CommandError> {
        let fault = |fault: std::io::Error| {
            CommandError::Usage(format!(
                "--report {}: {fault}; name a file that can be written",
                path.display()
            ))
        };
        if path.is_dir() {
            return Err(fault(std::io::ErrorKind::IsADirectory.into()));
        }
        // A file of that name would take the place of the device, which is the whole machine's.
        if fs::metadata(path).is_ok_and(|there| !there.is_file()) {
            let file = File::options().write(true).open(path).map_err(fault)?;
            return Ok(Self { file, part: None });
        }
        // What a link leads to is replaced, not the link.
        let whole = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let mut name = whole.file_name().unwrap_or_default().to_owned();
        name.push(".part");
        let part = Part { path: whole.with_file_name(name), whole };
        let file = File::create(&part.path).map_err(fault)?;
        Ok(Self { file, part: Some(part) })
    }

    pub(super) fn write(mut self, report: &Report) -> Result<(), CommandError> {
        self.file.write_all(html::page(report).as_bytes())?;
        if let Some(part) = &self.part {
            fs::rename(&part.path, &part.whole)?;
        }
        Ok(())
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // Written, it has its name and is there no more.
        let _ = fs::remove_file(&self.path);
    }
}
