//! A control group, by the files in its directory.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use super::{Counter, Times, tree::Seen};
use crate::{error::Error, list::List};

const CPUSET: &str = "cpuset.cpus";
/// The hierarchy of v1 that has `cpuset.cpus`, and that which counts processor time.
const HIERARCHIES: (&str, &str) = ("/sys/fs/cgroup/cpuset", "/sys/fs/cgroup/cpuacct");

/// A group's directory.
#[derive(Debug)]
pub(crate) struct Cgroup {
    path: PathBuf,
    ran: Counter,
    seen: Seen,
}

impl Cgroup {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, ran: Counter::default(), seen: Seen::default() }
    }

    pub(crate) fn times(&mut self) -> Result<Times, Error> {
        if !self.path.is_dir() {
            self.ran.forget();
            return Err(Error::Absent {
                what: format!("there is no control group {}", self.path.display()),
                mend: "start the application, or write the cgroup of one that runs",
            });
        }
        let members = members(&self.path)?;
        let ran = match total(&self.path) {
            Some(total) => self.ran.risen(total),
            None => self.seen.ran(&members),
        };
        Ok(Times { ran, waited: self.seen.waited(&members) })
    }

    pub(crate) fn confine(&self, processors: &List) -> Result<(), Error> {
        self.write(&processors.to_string())
    }

    pub(crate) fn release(&self) -> Result<(), Error> {
        if is_v2(&self.path) {
            // Empty is what the group above has.
            return self.write("");
        }
        let above = self.path.parent().unwrap_or(&self.path).join(CPUSET);
        let all = fs::read_to_string(&above)
            .map_err(|source| Error::file(above, source, "name a group of the hierarchy cpuset"))?;
        self.write(all.trim())
    }

    fn write(&self, processors: &str) -> Result<(), Error> {
        const MEND_V2: &str = "have the groups above it hand the controller down: write \"+cpuset\" into their cgroup.subtree_control; where systemd owns it, name the unit instead";
        const MEND_V1: &str = "name a group of the hierarchy cpuset that this user may change, whose cpuset.mems is written, and below which none has processors of its own";
        let file = self.path.join(CPUSET);
        // Only what is there: without its controller the group has no such file, and none can be made.
        let mut options = fs::OpenOptions::new();
        let written = options.write(true).truncate(true).open(&file).and_then(|mut file| {
            // A line, since an empty write says nothing.
            io::Write::write_all(&mut file, format!("{processors}\n").as_bytes())
        });
        let mend = if is_v2(&self.path) { MEND_V2 } else { MEND_V1 };
        written.map_err(|source| Error::file(file, source, mend))
    }
}

/// The processes in a group and in those below it.
pub(super) fn members(group: &Path) -> Result<Vec<i32>, Error> {
    let mut found = Vec::new();
    let mut groups = vec![group.to_owned()];
    while let Some(group) = groups.pop() {
        let file = group.join("cgroup.procs");
        let text = fs::read_to_string(&file)
            .map_err(|source| Error::file(file, source, "name the directory of a control group"))?;
        found.extend(text.lines().filter_map(|line| line.parse::<i32>().ok()));
        let below = fs::read_dir(&group).into_iter().flatten().flatten();
        groups.extend(below.map(|entry| entry.path()).filter(|path| path.is_dir()));
    }
    Ok(found)
}

/// The group's processor time, where the kernel counts it.
pub(super) fn total(group: &Path) -> Option<Duration> {
    let read = |path: PathBuf| fs::read_to_string(path).ok();
    if let Some(stat) = read(group.join("cpu.stat")) {
        let usage = stat.lines().find_map(|line| line.strip_prefix("usage_usec "));
        if let Some(usage) = usage.and_then(|usage| usage.trim().parse().ok()) {
            return Some(Duration::from_micros(usage));
        }
    }
    let elsewhere =
        || read(Path::new(HIERARCHIES.1).join(group.strip_prefix(HIERARCHIES.0).ok()?).join("cpuacct.usage"));
    let usage = read(group.join("cpuacct.usage")).or_else(elsewhere)?;
    usage.trim().parse().ok().map(Duration::from_nanos)
}

fn is_v2(group: &Path) -> bool {
    group.join("cgroup.controllers").exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The files of a group of v2 with the controller.
    fn group() -> tempfile::TempDir {
        let group = tempfile::tempdir().expect("a directory");
        for (file, text) in [
            ("cgroup.controllers", "cpuset cpu\n"),
            ("cgroup.procs", ""),
            (CPUSET, "\n"),
            ("cpu.stat", "usage_usec 2000000\nuser_usec 1500000\n"),
        ] {
            fs::write(group.path().join(file), text).expect("is written");
        }
        group
    }

    #[test]
    fn time_is_what_the_group_has_used_since() {
        let directory = group();
        let mut group = Cgroup::new(directory.path().to_owned());
        assert_eq!(group.times().expect("is read").ran, Duration::ZERO);
        fs::write(directory.path().join("cpu.stat"), "usage_usec 3500000\n").expect("is written");
        assert_eq!(group.times().expect("is read").ran, Duration::from_millis(1500));
        // A group made anew counts from 0.
        fs::write(directory.path().join("cpu.stat"), "usage_usec 10\n").expect("is written");
        assert_eq!(group.times().expect("is read").ran, Duration::ZERO);
    }

    #[test]
    fn processors_are_written_and_taken_back() {
        let directory = group();
        let group = Cgroup::new(directory.path().to_owned());
        let written = || fs::read_to_string(directory.path().join(CPUSET)).expect("is read");
        group.confine(&List::new([0, 1, 3])).expect("is written");
        assert_eq!(written(), "0-1,3\n");
        group.release().expect("is written");
        assert_eq!(written(), "\n");
    }

    #[test]
    fn a_group_without_the_controller_is_told_and_gets_no_file() {
        let directory = group();
        let file = directory.path().join(CPUSET);
        fs::remove_file(&file).expect("is removed");
        let said = Cgroup::new(directory.path().to_owned()).confine(&List::new([0])).expect_err("no file");
        assert!(said.to_string().contains("+cpuset"), "{said}");
        assert!(!file.exists());
        let mut gone = Cgroup::new(directory.path().join("gone"));
        assert!(matches!(gone.times(), Err(Error::Absent { .. })));
    }
}
