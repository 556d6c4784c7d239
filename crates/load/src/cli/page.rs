//! The file of `--report`: there when the run has ended, and whole.

use std::{
    fs::File,
    io::Write as _,
    path::{Path, PathBuf},
};

use super::CommandError;
use crate::{html, report::Report};

/// A page to be written. Until it is, a file of another name stands beside it; dropped unwritten, it
/// leaves nothing.
#[derive(Debug)]
pub(super) struct Page {
    path: PathBuf,
    part: PathBuf,
    file: File,
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
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(".part");
        let part = path.with_file_name(name);
        let file = File::create(&part).map_err(fault)?;
        Ok(Self { path: path.to_owned(), part, file })
    }

    pub(super) fn write(mut self, report: &Report) -> Result<(), CommandError> {
        self.file.write_all(html::page(report).as_bytes())?;
        std::fs::rename(&self.part, &self.path)?;
        Ok(())
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // Written, it has its name and is there no more.
        let _ = std::fs::remove_file(&self.part);
    }
}
