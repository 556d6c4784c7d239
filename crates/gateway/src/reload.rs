//! Files that are taken up again when they change: the configuration, certificates.
//!
//! Directories are watched, not files: editors, certbot and Kubernetes put a new file or symbolic
//! link in the place of the old one. What counts is content: nothing is reported that reads as it
//! did before.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use aws_lc_rs::digest;
use notify::{Event, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::mpsc;

use crate::exhaustion::is_ours;

/// Quiet time after which a change counts as complete.
const SETTLE: Duration = Duration::from_millis(100);
/// Longest wait for it: something else in the directory may never be quiet, such as a log.
const SETTLE_MAX: Duration = Duration::from_secs(1);
/// Links followed on the way to a file, as many as the system does (path_resolution(7)).
const LINKS_MAX: usize = 40;
/// How often files are looked at though nothing was heard: some file systems say nothing.
const LOOK_EVERY: Duration = Duration::from_secs(60);

/// Files under watch.
#[derive(Debug)]
pub struct FileWatch {
    files: Vec<Watched>,
    directories: BTreeSet<PathBuf>,
    /// Directories that cannot be watched, as was said.
    unwatched: BTreeSet<PathBuf>,
    /// `None` where the system offers none: then files are looked at now and then.
    watcher: Option<RecommendedWatcher>,
    heard: mpsc::Receiver<()>,
    /// Something was heard and the files have not been looked at since.
    is_heard: bool,
    tell: mpsc::Sender<()>,
}

#[derive(Debug)]
struct Watched {
    path: PathBuf,
    /// A digest of its content; `None` while it cannot be read, and for what is no file: a pipe can be read once
    /// and that is not for us.
    content: Option<[u8; 32]>,
}

impl Watched {
    fn new(path: PathBuf) -> Self {
        Self { content: content(&path).unwrap_or_default(), path }
    }

    /// Whether it reads otherwise than at the last look. What cannot be told for want of open files or memory is told at a later one.
    fn look(&mut self) -> bool {
        content(&self.path).is_ok_and(|present| std::mem::replace(&mut self.content, present) != present)
    }
}

impl FileWatch {
    /// Watches `files` from now on.
    #[must_use]
    pub fn new(files: impl IntoIterator<Item = PathBuf>) -> Self {
        // One notice is enough, however much happens.
        let (tell, heard) = mpsc::channel(1);
        let notice = tell.clone();
        let watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
            // Who only reads changes nothing, as we do when we look.
            if !event.is_ok_and(|event| event.kind.is_access()) {
                let _ = notice.try_send(());
            }
        });
        let watcher = watcher.inspect_err(
            |error| tracing::warn!(%error, "files cannot be watched and are looked at every minute"),
        );
        let mut watch = Self {
            files: Vec::new(),
            directories: BTreeSet::new(),
            unwatched: BTreeSet::new(),
            watcher: watcher.ok(),
            heard,
            is_heard: false,
            tell,
        };
        watch.set(files);
        watch
    }

    /// Watches other files instead. A file watched before is compared with what it was then.
    pub fn set(&mut self, files: impl IntoIterator<Item = PathBuf>) {
        let mut before = std::mem::take(&mut self.files);
        for path in files {
            if self.files.iter().any(|watched| watched.path == path) {
                continue;
            }
            let known = before.iter().position(|watched| watched.path == path);
            self.files.push(match known {
                Some(position) => before.swap_remove(position),
                None => Watched::new(path),
            });
        }
        self.watch_directories();
        // What changed before the directories were watched is not missed.
        let _ = self.tell.try_send(());
    }

    /// Waits until files have changed, and gives them. Safe to drop and call again.
    pub async fn changed(&mut self) -> Vec<PathBuf> {
        loop {
            if !self.is_heard {
                // Noted, since this may be dropped while what was heard settles.
                self.is_heard = tokio::time::timeout(LOOK_EVERY, self.heard.recv()).await.is_ok();
            }
            if self.is_heard {
                let settled =
                    async { while tokio::time::timeout(SETTLE, self.heard.recv()).await.is_ok() {} };
                let _ = tokio::time::timeout(SETTLE_MAX, settled).await;
            }
            self.is_heard = false;
            // A link may lead elsewhere now. Before the files are looked at, so that nothing falls in between.
            self.watch_directories();
            let changed: Vec<PathBuf> = self
                .files
                .iter_mut()
                .filter_map(|watched| watched.look().then(|| watched.path.clone()))
                .collect();
            if !changed.is_empty() {
                return changed;
            }
        }
    }

    /// Watches the directories of the files and of all links on the way to them. Also those watched before: one that was
    /// removed and made again is another, and to watch it twice does no harm.
    fn watch_directories(&mut self) {
        let Some(watcher) = &mut self.watcher else { return };
        let mut wanted = BTreeSet::new();
        for watched in &self.files {
            add_directories(&watched.path, &mut wanted, &mut { LINKS_MAX });
        }
        for gone in self.directories.difference(&wanted) {
            // A directory that was removed is not watched any more.
            let _ = watcher.unwatch(gone);
        }
        let said = std::mem::take(&mut self.unwatched);
        self.directories.clear();
        for directory in wanted {
            match watcher.watch(&directory, RecursiveMode::NonRecursive) {
                Ok(()) => {
                    self.directories.insert(directory);
                }
                Err(error) => {
                    // Such as that of Debian's keys, which its group may enter and not read.
                    if !said.contains(&directory) {
                        tracing::warn!(
                            directory = %directory.display(), %error, "not watched: its files are looked at every minute"
                        );
                    }
                    self.unwatched.insert(directory);
                }
            }
        }
    }
}

/// Adds the directory that holds a file, and those that hold the links by which its path leads there.
fn add_directories(path: &Path, directories: &mut BTreeSet<PathBuf>, links_left: &mut usize) {
    directories.insert(directory(path));
    for part in path.ancestors() {
        if let Ok(target) = fs::read_link(part)
            && let Some(left) = links_left.checked_sub(1)
        {
            *links_left = left;
            directories.insert(directory(part));
            let target = part.parent().unwrap_or(part).join(target);
            add_directories(&target, directories, links_left);
        }
    }
}

/// The directory that holds a file, or would: of one that is not there, the nearest above that is. By one name whatever
/// it is called by: the system watches it once, and would cease to with the first of its names.
fn directory(path: &Path) -> PathBuf {
    let there = path.ancestors().skip(1).find_map(|parent| match parent == Path::new("") {
        true => Path::new(".").canonicalize().ok(),
        false => parent.canonicalize().ok(),
    });
    there.unwrap_or_else(|| PathBuf::from("."))
}

/// A digest of a file's content, as [`Watched::content`]; an error where there are too few open files or too little memory.
fn content(path: &Path) -> io::Result<Option<[u8; 32]>> {
    if !fs::metadata(path).is_ok_and(|metadata| metadata.is_file()) {
        return Ok(None);
    }
    match fs::read(path) {
        Ok(bytes) => {
            let mut content = [0; 32];
            content.copy_from_slice(digest::digest(&digest::SHA256, &bytes).as_ref());
            Ok(Some(content))
        }
        Err(error) if is_ours(&error) => Err(error),
        Err(_) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn run<F: Future>(future: F) -> F::Output {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime
            .block_on(async { tokio::time::timeout(Duration::from_secs(20), future).await.expect("in time") })
    }

    #[test]
    fn a_file_written_replaced_or_removed_has_changed() {
        let directory = tempfile::tempdir().unwrap();
        let (one, other) = (directory.path().join("one"), directory.path().join("other"));
        fs::write(&one, "a").unwrap();
        let mut watch = FileWatch::new([one.clone(), one.clone()]);
        run(async {
            fs::write(&one, "b").unwrap();
            assert_eq!(watch.changed().await, std::slice::from_ref(&one));
            fs::write(&other, "c").unwrap();
            fs::rename(&other, &one).unwrap();
            assert_eq!(watch.changed().await, std::slice::from_ref(&one));
            fs::remove_file(&one).unwrap();
            assert_eq!(watch.changed().await, std::slice::from_ref(&one));
        });
    }

    /// As where a signal comes just then.
    #[test]
    fn a_change_is_not_lost_on_who_stops_waiting_while_it_settles() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        fs::write(&file, "a").unwrap();
        let mut watch = FileWatch::new([file.clone()]);
        run(async {
            fs::write(&file, "b").unwrap();
            assert!(tokio::time::timeout(SETTLE / 2, watch.changed()).await.is_err());
            assert_eq!(watch.changed().await, std::slice::from_ref(&file));
        });
    }

    #[test]
    fn a_directory_that_is_never_quiet_hides_no_change() {
        let directory = tempfile::tempdir().unwrap();
        let (file, log) = (directory.path().join("file"), directory.path().join("log"));
        fs::write(&file, "a").unwrap();
        let mut watch = FileWatch::new([file.clone()]);
        run(async {
            let writing = async {
                let mut ticks = tokio::time::interval(SETTLE / 10);
                for line in 0.. {
                    ticks.tick().await;
                    fs::write(&log, format!("{line}")).unwrap();
                    if line == 10 {
                        fs::write(&file, "b").unwrap();
                    }
                }
            };
            tokio::select! {
                changed = watch.changed() => assert_eq!(changed, std::slice::from_ref(&file)),
                () = writing => {}
            }
        });
    }

    #[test]
    fn the_same_content_again_is_no_change() {
        let directory = tempfile::tempdir().unwrap();
        let (same, marker) = (directory.path().join("same"), directory.path().join("marker"));
        fs::write(&same, "a").unwrap();
        let mut watch = FileWatch::new([same.clone(), marker.clone()]);
        run(async {
            fs::write(&same, "a").unwrap();
            fs::write(&marker, "m").unwrap();
            assert_eq!(watch.changed().await, std::slice::from_ref(&marker));
        });
    }

    /// As Kubernetes does: the file is a link through a link to a directory, and that is swapped.
    #[test]
    fn a_directory_swapped_behind_a_link_is_a_change() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        for (version, text) in [("..1", "a"), ("..2", "b"), ("..3", "c")] {
            fs::create_dir(at(version)).unwrap();
            fs::write(at(version).join("tls.crt"), text).unwrap();
        }
        symlink("..1", at("..data")).unwrap();
        symlink("..data/tls.crt", at("tls.crt")).unwrap();
        let mut watch = FileWatch::new([at("tls.crt")]);
        run(async {
            for version in ["..2", "..3"] {
                symlink(version, at("..data_tmp")).unwrap();
                fs::rename(at("..data_tmp"), at("..data")).unwrap();
                assert_eq!(watch.changed().await, [at("tls.crt")]);
            }
        });
    }

    /// As deployments do: the link is a directory on the way, and stands in none that a file is in.
    #[test]
    fn a_link_on_the_way_that_leads_elsewhere_is_a_change() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        for (release, text) in [("1", "a"), ("2", "b"), ("3", "c")] {
            fs::create_dir_all(at("releases").join(release).join("certs")).unwrap();
            fs::write(at("releases").join(release).join("certs/t.crt"), text).unwrap();
        }
        symlink("releases/1", at("current")).unwrap();
        let file = at("current/certs/t.crt");
        let mut watch = FileWatch::new([file.clone()]);
        run(async {
            for release in ["releases/2", "releases/3"] {
                symlink(release, at("new")).unwrap();
                fs::rename(at("new"), at("current")).unwrap();
                assert_eq!(watch.changed().await, std::slice::from_ref(&file));
            }
        });
    }

    #[test]
    fn a_directory_removed_and_made_again_is_watched_again() {
        let directory = tempfile::tempdir().unwrap();
        let certs = directory.path().join("certs");
        let file = certs.join("t.crt");
        fs::create_dir(&certs).unwrap();
        fs::write(&file, "a").unwrap();
        let mut watch = FileWatch::new([file.clone()]);
        run(async {
            for text in ["b", "c"] {
                fs::remove_dir_all(&certs).unwrap();
                fs::create_dir(&certs).unwrap();
                fs::write(&file, text).unwrap();
                assert_eq!(watch.changed().await, std::slice::from_ref(&file));
                // Also what comes after it.
                fs::write(&file, "later").unwrap();
                assert_eq!(watch.changed().await, std::slice::from_ref(&file));
                // And where there was none for a while.
                fs::remove_dir_all(&certs).unwrap();
                assert_eq!(watch.changed().await, std::slice::from_ref(&file));
                fs::create_dir(&certs).unwrap();
                fs::write(&file, text).unwrap();
                assert_eq!(watch.changed().await, std::slice::from_ref(&file));
            }
        });
    }

    /// As `.` is one of the directory we are in.
    #[test]
    fn a_file_removed_from_a_directory_of_two_names_is_seen_again() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::create_dir(at("real")).unwrap();
        symlink("real", at("name")).unwrap();
        let file = at("name/file");
        fs::write(&file, "a").unwrap();
        let mut watch = FileWatch::new([file.clone()]);
        run(async {
            fs::remove_file(&file).unwrap();
            assert_eq!(watch.changed().await, std::slice::from_ref(&file));
            fs::write(&file, "b").unwrap();
            assert_eq!(watch.changed().await, std::slice::from_ref(&file));
        });
    }

    /// As certbot does: the link itself is replaced.
    #[test]
    fn a_link_that_leads_elsewhere_is_a_change() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::create_dir(at("live")).unwrap();
        fs::create_dir(at("archive")).unwrap();
        for (name, text) in [("archive/1.pem", "a"), ("archive/2.pem", "b")] {
            fs::write(at(name), text).unwrap();
        }
        symlink("../archive/1.pem", at("live/chain.pem")).unwrap();
        let mut watch = FileWatch::new([at("live/chain.pem")]);
        run(async {
            fs::remove_file(at("live/chain.pem")).unwrap();
            symlink("../archive/2.pem", at("live/chain.pem")).unwrap();
            assert_eq!(watch.changed().await, [at("live/chain.pem")]);
            fs::write(at("archive/2.pem"), "c").unwrap();
            assert_eq!(watch.changed().await, [at("live/chain.pem")]);
        });
    }
}
