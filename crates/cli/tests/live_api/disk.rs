//! A state directory on a disk that is full, or cannot be written: said, measured on in memory, and made up for.

use std::{fs, io::Write as _, path::Path, process::Command, time::Duration};

use crate::{
    Front, path,
    stream::Stream,
    support::{admin::api, client::Client},
};

/// A small file system of its own, until dropped.
struct Disk {
    directory: tempfile::TempDir,
}

impl Disk {
    /// `None` where this user may mount nothing.
    fn mount(megabytes: u32) -> Option<Self> {
        let directory = tempfile::tempdir().expect("a directory for the test");
        let size = format!("size={megabytes}m");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &size, "tmpfs", path(directory.path())])
            .output()
            .is_ok_and(|output| output.status.success());
        if !mounted {
            println!("skipped: no file system can be mounted here, which takes root and CAP_SYS_ADMIN");
        }
        mounted.then_some(Self { directory })
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn remount(&self, how: &str) {
        let options = format!("remount,{how}");
        let status = Command::new("mount").args(["-o", &options, path(self.path())]).status();
        assert!(status.is_ok_and(|status| status.success()), "mount -o {options}");
    }

    /// Fills it to the last byte; the file is to be removed.
    fn fill(&self) {
        let mut file = fs::File::create(self.path().join("filling")).expect("a file");
        while file.write_all(&[0; 4096]).is_ok() {}
        while file.write_all(&[0]).is_ok() {}
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Lazily: what a failed test has left open does not hold it.
        let _ = Command::new("umount").args(["-l", path(self.path())]).status();
    }
}

/// Arrivals the archives know of.
fn arrived(front: &Front) -> f64 {
    let measured = front.ask("/api/v1/measurements?meter=arrived&class=app/default&stat=sum");
    measured["points"][0]["sum"].as_f64().unwrap_or(0.0)
}

/// Serves some requests, and waits until the archives know of them.
fn serve(front: &Front, client: &mut Client, requests: usize) {
    let before = arrived(front);
    for _ in 0..requests {
        assert_eq!(client.get("/", "").expect("an answer").status, 200);
    }
    #[expect(clippy::cast_precision_loss, reason = "a small count")]
    let wanted = before + requests as f64;
    for _ in 0..600 {
        if arrived(front) >= wanted {
            return;
        }
        // Archives are polled by whoever asks them; there is no event to await.
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("{} arrivals known of {wanted}", arrived(front));
}

#[test]
fn a_full_disk_is_said_measured_over_and_made_up_for() {
    let Some(disk) = Disk::mount(6) else { return };
    let front = Front::start(&format!("state_directory = {:?}", disk.path()), "", &[]);
    let mut events = Stream::open(front.admin, "after=0&kinds=recording", None);
    events.next_where("recording", |data| data["kept"] == true);
    let mut client = Client::connect(front.listen).expect("connect");
    serve(&front, &mut client, 20);
    front.change(r#"{"changes": {"app/retries.max": 5}, "lasting": true}"#);
    disk.fill();
    let failing = events.next_where("recording", |data| data["kept"] == false);
    let why = failing.data["why"].as_str().unwrap_or_default().to_owned();
    assert!(why.contains("no room") || why.contains("full"), "{why}");
    front.gateway.log.await_line("kept in memory only", 1);
    let told = &front.ask("/api/v1/overview")["gateway"]["recording"];
    assert_eq!((&told["kept"], told["why"].as_str()), (&false.into(), Some(why.as_str())));
    serve(&front, &mut client, 20);
    front.change(r#"{"changes": {"app/in_flight.min": 2}, "who": "ada", "why": "the disk is full"}"#);
    let record = front.ask("/api/v1/knobs/changes");
    assert!(record.to_string().contains("the disk is full"), "remembered: {record}");
    // What was to last does not, and nothing says that it did.
    let lasting = r#"{"changes": {"app/in_flight.max": 77}, "why": "for good", "lasting": true}"#;
    let answer = api(front.admin, "PATCH", "/api/v1/knobs", lasting);
    assert!(
        answer.status == 500 && answer.text().contains("will end with this process"),
        "{}",
        answer.text()
    );
    front.gateway.log.await_line("for good", 1);
    assert!(front.gateway.log.lines_with("for good")[0].contains("lasting=false"));
    let changed = front.ask("/api/v1/knobs?changed=true");
    let changed = changed["knobs"].as_array().expect("knobs");
    let changed = changed.iter().find(|knob| knob["path"] == "app/in_flight.max").expect("the knob");
    assert_eq!(changed["changed"]["lasting"], false, "{changed}");
    let record = front.ask("/api/v1/knobs/changes");
    let told = record["changes"].as_array().expect("changes").iter().find(|one| one["why"] == "for good");
    assert_eq!(told.expect("the change")["changes"][0]["lasts"], false, "{record}");
    // Nor is what lasts forgotten before it can be.
    let back = api(front.admin, "PATCH", "/api/v1/knobs", r#"{"changes": {"app/retries.max": null}}"#);
    assert!(
        back.status == 500 && back.text().contains("comes again with the next process unless"),
        "{}",
        back.text()
    );
    assert_eq!(front.ask("/api/v1/knobs?path=app/retries.max")["knobs"][0]["drift"], false);

    fs::remove_file(disk.path().join("filling")).expect("make room");
    events.next_where("recording", |data| data["kept"] == true);
    serve(&front, &mut client, 20);
    let Front { gateway, .. } = front;
    gateway.stop_sound();
    let database = disk.path().join("tidegate.sqlite");
    assert!(database.exists() && fs::metadata(&database).is_ok_and(|file| file.len() > 0));
    let again = Front::start(&format!("state_directory = {:?}", disk.path()), "", &[]);
    Stream::open(again.admin, "after=0&kinds=recording", None)
        .next_where("recording", |data| data["kept"] == true);
    let all = again.ask("/api/v1/measurements?meter=arrived&class=app/default&stat=sum");
    assert_eq!(all["points"][0]["sum"], 60.0, "what was measured meanwhile was written when it could be");
    let retries = &again.ask("/api/v1/knobs?path=app/retries.max")["knobs"][0];
    assert_eq!(retries["drift"], false, "what was taken back meanwhile is forgotten: {retries}");
    again.gateway.stop_sound();
}

#[test]
fn a_disk_that_cannot_be_written_is_tried_until_it_can() {
    let Some(disk) = Disk::mount(6) else { return };
    // Keys are made at the first start, and have to be kept.
    let first = Front::start(&format!("state_directory = {:?}", disk.path()), "", &[]);
    first.gateway.stop_sound();
    disk.remount("ro");
    let front = Front::start(&format!("state_directory = {:?}", disk.path()), "", &[]);
    let mut events = Stream::open(front.admin, "after=0&kinds=recording", None);
    events.next_where("recording", |data| {
        data["kept"] == false && data["why"] != "the state directory is being read"
    });
    let mut client = Client::connect(front.listen).expect("connect");
    serve(&front, &mut client, 10);
    disk.remount("rw");
    events.next_where("recording", |data| data["kept"] == true);
    serve(&front, &mut client, 10);
    assert_eq!(arrived(&front), 20.0, "nothing is lost when the archives change over");
    front.gateway.stop_sound();
}

/// As where a copy is put in place of a damaged database, or a disk is mounted late.
#[test]
fn what_lasts_is_in_force_as_soon_as_it_can_be_read() {
    let directory = tempfile::tempdir().expect("a directory for the state");
    let (database, copy) = (directory.path().join("tidegate.sqlite"), directory.path().join("copy"));
    let start = || Front::start(&format!("state_directory = {:?}", directory.path()), "", &[]);
    let kept = |front: &Front, kept: bool| {
        Stream::open(front.admin, "after=0&kinds=recording", None).next_where("recording", |data| {
            data["kept"] == kept && data["why"] != "the state directory is being read"
        });
    };
    let first = start();
    kept(&first, true);
    first.change(r#"{"changes": {"app/mode": "watch", "app/retries.max": 5}, "lasting": true}"#);
    first.gateway.stop_sound();
    fs::rename(&database, &copy).expect("keep a copy");
    fs::write(&database, "no database\n".repeat(1000)).expect("damage it");
    let front = start();
    kept(&front, false);
    let value = |path: &str| front.ask(&format!("/api/v1/knobs?path={path}"))["knobs"][0]["value"].clone();
    assert_eq!(value("app/mode"), "enforce");
    front.change(r#"{"changes": {"app/retries.max": 3}}"#);
    let servers = "/api/v1/applications/app/servers";
    let added = api(front.admin, "POST", servers, r#"{"url": "http://127.0.0.1:1", "name": "two"}"#);
    assert_eq!(added.status, 200, "{}", added.text());
    fs::rename(&copy, &database).expect("put it back");
    front.gateway.log.await_line("a lasting change is in force", 1);
    assert_eq!((value("app/mode"), value("app/retries.max")), ("watch".into(), "3".into()));
    assert_eq!(front.ask(servers)["servers"].as_array().map(Vec::len), Some(2), "those that were added stay");
    // Taken back, it is forgotten.
    kept(&front, true);
    front.change(r#"{"changes": {"app/mode": null}}"#);
    front.gateway.stop_sound();
    let last = start();
    let value = |path: &str| last.ask(&format!("/api/v1/knobs?path={path}"))["knobs"][0]["value"].clone();
    assert_eq!((value("app/mode"), value("app/retries.max")), ("enforce".into(), "5".into()));
    last.gateway.stop_sound();
}
