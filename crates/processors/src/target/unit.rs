//! A unit of systemd. Its control group is systemd's to write, so processors are given by its property `AllowedCPUs`.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use super::{Counter, Times, cgroup, tree::Seen};
use crate::{error::Error, list::List};

/// How long systemd may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// A unit by its name.
#[derive(Debug)]
pub(crate) struct Unit {
    name: String,
    /// Where its control group is, once that is known.
    group: Option<PathBuf>,
    ran: Counter,
    seen: Seen,
    /// What it was given last.
    given: Option<List>,
}

impl Unit {
    pub(crate) fn new(name: String) -> Self {
        Self { name, group: None, ran: Counter::default(), seen: Seen::default(), given: None }
    }

    pub(crate) async fn times(&mut self) -> Result<Times, Error> {
        // A unit that was started again may have another group.
        let known = self.group.take().and_then(|group| Some((cgroup::total(&group)?, group)));
        let (total, group) = match known {
            Some(known) => known,
            None => self.find().await?,
        };
        let members = cgroup::members(&group)?;
        self.group = Some(group);
        Ok(Times { ran: self.ran.risen(total), waited: self.seen.waited(&members) })
    }

    /// Its control group, and the processor time of it.
    async fn find(&mut self) -> Result<(Duration, PathBuf), Error> {
        self.ran.forget();
        self.given = None;
        let group = systemctl(&["show", "--property=ControlGroup", "--value", "--", &self.name]).await?;
        let group = group.trim();
        if group.is_empty() {
            return Err(Error::Absent {
                what: format!("the unit {} does not run", self.name),
                mend: "start it, or write the name of one that runs",
            });
        }
        let group = Path::new("/sys/fs/cgroup").join(group.trim_start_matches('/'));
        let total = cgroup::total(&group).ok_or_else(|| Error::Absent {
            what: format!("the unit {} has no processor time in {}", self.name, group.display()),
            mend: "boot with cgroup v2 (systemd.unified_cgroup_hierarchy=1), or write cgroup or pid_file",
        })?;
        Ok((total, group))
    }

    pub(crate) async fn confine(&mut self, processors: &List) -> Result<(), Error> {
        if self.given.as_ref() != Some(processors) {
            self.set(&processors.to_string()).await?;
            self.given = Some(processors.clone());
        }
        Ok(())
    }

    pub(crate) async fn release(&mut self) -> Result<(), Error> {
        self.given = None;
        self.set("").await
    }

    async fn set(&self, processors: &str) -> Result<(), Error> {
        let property = format!("AllowedCPUs={processors}");
        systemctl(&["set-property", "--runtime", "--", &self.name, &property]).await.map(drop)
    }
}

/// Runs systemctl; the answer is what it prints.
async fn systemctl(arguments: &[&str]) -> Result<String, Error> {
    let mut command = Command::new("systemctl");
    command.args(arguments).stdin(Stdio::null());
    let asked = arguments.join(" ");
    let fault = |answer: String| Error::Systemd { asked: asked.clone(), answer };
    let answer = tokio::task::spawn_blocking(move || command.output());
    let output = tokio::time::timeout(PATIENCE, answer)
        .await
        .map_err(|_| fault(format!("no answer within {} s", PATIENCE.as_secs())))?
        .map_err(|error| fault(error.to_string()))?
        .map_err(|error| fault(error.to_string()))?;
    if !output.status.success() {
        return Err(fault(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
