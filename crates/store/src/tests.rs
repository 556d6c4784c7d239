//! The database with whole archives: written, read back, bounded, broken.

use std::time::Duration;

use tidegate_control::{
    Timestamp,
    archive::{Archives, Layout, Query, Reading, Resolution, Stat},
    knobs::Scope,
    meters::Meter,
};

use super::*;

const ROOM: u64 = 64 << 20;

fn layout(resolutions: &[(u64, u64)]) -> Layout {
    let seconds = Duration::from_secs;
    let resolutions: Vec<_> = resolutions
        .iter()
        .map(|(step, keep)| Resolution { step: seconds(*step), keep: seconds(*keep) })
        .collect();
    Layout::new(&resolutions, Layout::POINT_BYTES).unwrap()
}

fn second(n: u64) -> Timestamp {
    Timestamp::EPOCH + Duration::from_secs(n)
}

fn reading(n: u64) -> Reading {
    let mut reading = Reading::new(Scope::Class);
    reading.add(Meter::ARRIVED, n);
    reading.level(Meter::QUEUED, n % 7);
    for wait in 0..n % 50 {
        reading.record(Meter::WAITING_TIME, Duration::from_micros(wait * wait * 100));
    }
    reading
}

/// Records seconds and writes each.
fn run(database: &mut Database, archives: &mut Archives, seconds: std::ops::Range<u64>) {
    for n in seconds {
        let mut batch = Batch::default();
        for path in ["shop/home", "shop/other"] {
            archives.record_and(path, second(n), second(n + 1), &reading(n), |point| {
                batch.add(path, Scope::Class, point);
            });
        }
        if !batch.is_empty() {
            database.append(&batch).unwrap();
        }
    }
}

fn open(directory: &std::path::Path, layout: &Layout) -> (Database, Archives, Loaded) {
    let mut database = Database::open(directory, ROOM).unwrap();
    database.fit(layout).unwrap();
    let mut archives = Archives::new(layout.clone());
    let loaded = database.load(&mut archives).unwrap();
    (database, archives, loaded)
}

fn answer(archives: &Archives, stat: Stat, meter: Meter, to: u64) -> Vec<(Option<f64>, u128)> {
    let query = Query {
        meter,
        label: None,
        from: second(0),
        to: second(to),
        step: Some(Duration::from_secs(60)),
        stat,
        of: None,
    };
    let points = archives.get("shop/home").unwrap().query(&query).unwrap().points;
    points.iter().map(|point| (point.value, point.measured.as_millis())).collect()
}

#[test]
fn what_is_written_is_read_back_after_a_kill() {
    let directory = tempfile::tempdir().unwrap();
    let layout = layout(&[(1, 120), (5, 600), (60, 6000)]);
    let (mut database, mut archives, loaded) = open(directory.path(), &layout);
    assert_eq!(loaded, Loaded::default());
    run(&mut database, &mut archives, 0..1000);
    // Nothing is finished, as when the process is killed; only the open second is lost.
    drop(database);
    let (_, back, loaded) = open(directory.path(), &layout);
    assert_eq!(loaded.broken, 0);
    for (stat, meter) in [
        (Stat::Sum, Meter::ARRIVED),
        (Stat::Max, Meter::ARRIVED),
        (Stat::Quantile(0.9), Meter::WAITING_TIME),
        (Stat::Mean, Meter::QUEUED),
    ] {
        let (before, after) = (answer(&archives, stat, meter, 960), answer(&back, stat, meter, 960));
        assert_eq!(before, after, "{stat} of {}", meter.name());
    }
}

/// As where a server is removed within a second, or a process ends: its points close before the others of the same time.
#[test]
fn points_of_one_time_that_come_apart_are_all_read_back() {
    let directory = tempfile::tempdir().unwrap();
    let layout = layout(&[(1, 120), (5, 600)]);
    let (mut database, mut archives, _) = open(directory.path(), &layout);
    for n in 0..20 {
        for path in ["shop/home", "shop/other"] {
            let mut batch = Batch::default();
            archives.record_and(path, second(n), second(n + 1), &reading(n), |point| {
                batch.add(path, Scope::Class, point);
            });
            database.append(&batch).unwrap();
        }
    }
    let count = |what: &str| -> u32 {
        database
            .connection
            .query_row(&format!("SELECT count(*) FROM points {what}"), (), |row| row.get(0))
            .unwrap()
    };
    let rows = count("");
    assert_eq!(count("WHERE typeof(data) = 'blob'"), rows);
    // As an earlier version left it.
    database.connection.execute("UPDATE points SET data = data || x''", ()).unwrap();
    drop(database);
    let (_, back, loaded) = open(directory.path(), &layout);
    assert_eq!((loaded.points, loaded.broken), (2 * usize::try_from(rows).unwrap(), 0));
    // The last second is still open.
    assert_eq!(answer(&back, Stat::Sum, Meter::ARRIVED, 15), [(Some(171.0), 19_000)]);
}

#[test]
fn rows_are_bounded() {
    let directory = tempfile::tempdir().unwrap();
    let layout = layout(&[(1, 100), (10, 300)]);
    let (mut database, mut archives, _) = open(directory.path(), &layout);
    run(&mut database, &mut archives, 0..2000);
    let rows: i64 =
        database.connection.query_row("SELECT count(*) FROM points", (), |row| row.get(0)).unwrap();
    assert!((130..=100 + 30 + 120).contains(&rows), "{rows} rows");
}

#[test]
fn a_full_database_forgets_its_oldest_points() {
    let directory = tempfile::tempdir().unwrap();
    let layout = layout(&[(1, 100_000)]);
    let mut database = Database::open(directory.path(), 64 * 4096).unwrap();
    database.fit(&layout).unwrap();
    let mut archives = Archives::new(layout.clone());
    run(&mut database, &mut archives, 0..5000);
    assert!(database.bytes().unwrap() <= 64 * 4096);
    drop(database);
    let (_, back, _) = open(directory.path(), &layout);
    let sums = answer(&back, Stat::Sum, Meter::ARRIVED, 4980);
    assert_eq!(sums[0].0, None, "the oldest are gone");
    assert!(sums.last().unwrap().0.is_some(), "the latest are there");
}

#[test]
fn a_clock_set_back_forgets_the_future_on_disk_too() {
    let directory = tempfile::tempdir().unwrap();
    let layout = layout(&[(1, 1000), (5, 6000)]);
    let (mut database, mut archives, _) = open(directory.path(), &layout);
    run(&mut database, &mut archives, 0..500);
    run(&mut database, &mut archives, 100..200);
    drop(database);
    let (_, back, loaded) = open(directory.path(), &layout);
    assert_eq!(loaded.broken, 0);
    assert_eq!(
        answer(&archives, Stat::Sum, Meter::ARRIVED, 180),
        answer(&back, Stat::Sum, Meter::ARRIVED, 180)
    );
    assert_eq!(answer(&back, Stat::Sum, Meter::ARRIVED, 480)[7].0, None);
}

#[test]
fn another_finest_step_begins_anew_and_other_resolutions_stay() {
    let directory = tempfile::tempdir().unwrap();
    let before = layout(&[(1, 100), (10, 300), (60, 6000)]);
    let (mut database, mut archives, _) = open(directory.path(), &before);
    run(&mut database, &mut archives, 0..300);
    drop(database);
    let (database, _, loaded) = open(directory.path(), &layout(&[(1, 100), (60, 6000)]));
    assert!(loaded.points > 100 && loaded.broken == 0, "{loaded:?}");
    drop(database);
    let (_, _, loaded) = open(directory.path(), &layout(&[(2, 100), (60, 6000)]));
    assert_eq!(loaded, Loaded::default());
}

#[test]
fn one_process_at_a_time_and_no_older_version() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(directory.path(), ROOM).unwrap();
    assert!(matches!(Database::open(directory.path(), ROOM), Err(Error::Locked { .. })));
    database.connection.pragma_update(None, "user_version", 2).unwrap();
    drop(database);
    assert!(matches!(Database::open(directory.path(), ROOM), Err(Error::Version { found: 2, .. })));
}

#[test]
fn lasting_changes_last_and_the_record_is_kept() {
    let directory = tempfile::tempdir().unwrap();
    let mut database = Database::open(directory.path(), ROOM).unwrap();
    let change = |who: &str, overrides: &[(&str, Option<&str>)]| Change {
        at: second(5),
        who: who.to_owned(),
        why: "because".to_owned(),
        lasting: !overrides.is_empty(),
        knobs: "[]".to_owned(),
        overrides: overrides
            .iter()
            .map(|(path, value)| ((*path).to_owned(), value.map(str::to_owned)))
            .collect(),
    };
    let first =
        database.record(&change("ada", &[("shop/mode", Some("watch")), ("mode.b", Some("x"))])).unwrap();
    database.record(&change("bob", &[("mode.b", None)])).unwrap();
    let last = database.record(&change("eve", &[])).unwrap();
    // Read beside the process that has it.
    let lasting = Database::overrides(directory.path()).unwrap();
    let shown: Vec<_> = lasting.iter().map(|o| (o.path.as_str(), o.value.as_str(), o.who.as_str())).collect();
    assert_eq!(shown, [("shop/mode", "watch", "ada")]);
    let who = |before, limit| {
        let records = database.changes(before, limit).unwrap();
        records.into_iter().map(|record| record.who).collect::<Vec<_>>()
    };
    assert_eq!(who(None, 10), ["eve", "bob", "ada"]);
    assert_eq!(who(Some(last), 1), ["bob"]);
    assert_eq!(who(Some(first), 10), [""; 0]);
    assert_eq!(Database::overrides(&directory.path().join("none")).unwrap(), []);
}

/// A writer, and what tells that it has opened.
fn writer(directory: &std::path::Path) -> (Writer, std::sync::mpsc::Receiver<()>) {
    let (opened, is_open) = std::sync::mpsc::channel();
    let writer = Writer::start(directory, ROOM, layout(&[(1, 60)]), false, move |_| {
        opened.send(()).unwrap();
        Vec::new()
    });
    (writer.unwrap(), is_open)
}

fn lasting(value: &str) -> Change {
    let overrides = vec![("shop/mode".to_owned(), Some(value.to_owned()))];
    Change {
        at: second(5),
        who: "ada".to_owned(),
        why: "because".to_owned(),
        lasting: true,
        knobs: "[]".to_owned(),
        overrides,
    }
}

#[test]
fn a_database_that_is_taken_away_keeps_nothing_and_another_one_takes_its_place() {
    let parent = tempfile::tempdir().unwrap();
    let (directory, moved) = (parent.path().join("state"), parent.path().join("moved"));
    let (writer, is_open) = writer(&directory);
    is_open.recv().unwrap();
    writer.record(lasting("watch")).unwrap();
    let kept = || Database::overrides(&directory).unwrap().into_iter().map(|o| o.value).collect::<Vec<_>>();
    for is_whole in [true, false] {
        match is_whole {
            true => std::fs::remove_dir_all(&directory),
            false => std::fs::remove_file(directory.join("tidegate.sqlite")),
        }
        .unwrap();
        let refused = writer.record(lasting("off")).unwrap_err().to_string();
        assert!(refused.contains("tidegate.sqlite: it was taken away while in use"), "{refused}");
        writer.record(lasting("enforce")).unwrap();
        assert_eq!((kept(), writer.status()), (vec!["enforce".to_owned()], Status::Open));
    }
    // Another one, as from a backup.
    let copy = parent.path().join("copy");
    writer.copy_to(&copy).unwrap();
    std::fs::rename(&directory, &moved).unwrap();
    std::fs::create_dir(&directory).unwrap();
    std::fs::rename(&copy, directory.join("tidegate.sqlite")).unwrap();
    writer.record(lasting("off")).unwrap_err();
    assert_eq!(kept(), ["enforce"]);
    writer.record(lasting("watch")).unwrap();
    assert_eq!(kept(), ["watch"]);
}

#[test]
fn a_damaged_database_is_said_with_its_mend_and_a_new_one_is_made_once_it_is_moved_away() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("tidegate.sqlite");
    std::fs::write(&file, [b'x'; 8192]).unwrap();
    let (writer, is_open) = writer(directory.path());
    // It is answered after the first try.
    let refused = writer.record(lasting("watch")).unwrap_err().to_string();
    for said in [file.to_str().unwrap(), "move it away", "a new one is made"] {
        assert!(refused.contains(said), "{said}: {refused}");
    }
    // What waits for it is shown meanwhile, page by page.
    for why in ["first", "second", "third"] {
        assert!(writer.note(Change { why: why.to_owned(), ..lasting("watch") }));
    }
    let page = |before| {
        let records = writer.changes(before, 2).unwrap();
        records.into_iter().map(|record| (record.id, record.why)).collect::<Vec<_>>()
    };
    assert_eq!(page(None), [(-1, "third".to_owned()), (-2, "second".to_owned())]);
    assert_eq!(page(Some(-2)), [(-3, "first".to_owned())]);
    assert_eq!(page(Some(1)), []);
    std::fs::rename(&file, directory.path().join("damaged")).unwrap();
    is_open.recv().unwrap();
    writer.record(lasting("watch")).unwrap();
    assert_eq!(page(Some(-1)).len(), 2, "older than what waits is all that is recorded");
}

#[test]
fn a_copy_is_a_state_directory() {
    let (directory, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let layout = layout(&[(1, 100)]);
    let (mut database, mut archives, _) = open(directory.path(), &layout);
    run(&mut database, &mut archives, 0..50);
    database.copy_to(&other.path().join("tidegate.sqlite")).unwrap();
    let (_, _, loaded) = open(other.path(), &layout);
    assert_eq!(loaded, Loaded { points: 2 * 49, broken: 0 });
}

/// The figures of docs/measurements.md: a day of seconds of fifty classes.
#[test]
#[ignore = "takes minutes and a gigabyte: cargo test --release -p tidegate-store a_day_of_seconds -- --ignored --nocapture"]
fn a_day_of_seconds_of_fifty_classes() {
    const CLASSES: usize = 50;
    const DAY: u64 = 86_400;
    let directory = tempfile::tempdir().unwrap();
    let layout = layout(&[(1, DAY), (60, 30 * DAY)]);
    let mut database = Database::open(directory.path(), 8 << 30).unwrap();
    database.fit(&layout).unwrap();
    let mut archives = Archives::new(layout.clone());
    let paths: Vec<String> = (0..CLASSES).map(|n| format!("shop/class-{n}")).collect();
    let mut seed = 1_u64;
    let mut random = move || {
        // Xorshift: the values only have to be spread.
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    let began = std::time::Instant::now();
    let mut reading = Reading::new(Scope::Class);
    for n in 0..DAY {
        let mut batch = Batch::default();
        for path in &paths {
            reading.clear();
            let requests = 20 + random() % 20;
            for meter in [Meter::ARRIVED, Meter::STARTED, Meter::GOOD] {
                reading.add(meter, requests);
            }
            reading.add_labelled(Meter::RESPONSES, 1, requests);
            reading.add(Meter::BYTES_OUT, requests * 14_000);
            reading.level(Meter::QUEUED, random() % 5);
            for _ in 0..requests {
                // From 1 ms, each octave half as likely as the one before.
                let service =
                    Duration::from_micros((1000 + random() % 1000) << (random() | 256).trailing_zeros());
                reading.record(Meter::WAITING_TIME, Duration::from_micros(20 + random() % 200));
                reading.record(Meter::SERVICE_TIME, service);
                reading.record(Meter::RESPONSE_TIME, service + Duration::from_micros(300));
            }
            archives.record_and(path, second(n), second(n + 1), &reading, |point| {
                batch.add(path, Scope::Class, point);
            });
        }
        if !batch.is_empty() {
            database.append(&batch).unwrap();
        }
    }
    println!("recorded in {:?}", began.elapsed());
    println!("memory {} MiB, disk {} MiB", archives.bytes() >> 20, database.bytes().unwrap() >> 20);
    for (meter, stat) in [
        (Meter::GOOD, Stat::Max),
        (Meter::GOOD, Stat::Mean),
        (Meter::QUEUED, Stat::Mean),
        (Meter::RESPONSE_TIME, Stat::Quantile(0.99)),
    ] {
        for step in [None, Some(Duration::from_secs(60)), Some(Duration::from_secs(1))] {
            let query = Query { meter, label: None, from: second(0), to: second(DAY), step, stat, of: None };
            let began = std::time::Instant::now();
            let answer = archives.get(&paths[7]).unwrap().query(&query).unwrap();
            println!(
                "{stat} of {} at {:?}, {} points: {:?}",
                meter.name(),
                answer.resolution,
                answer.points.len(),
                began.elapsed()
            );
            assert_eq!(answer.resolution, Duration::from_secs(1));
        }
    }
    drop(database);
    let began = std::time::Instant::now();
    let (_, _, loaded) = open(directory.path(), &layout);
    println!("read back {} points in {:?}", loaded.points, began.elapsed());
}

#[test]
fn what_helps_is_said_of_the_error_that_came() {
    let said =
        |kind: std::io::ErrorKind| Error::Directory { path: "state".into(), source: kind.into() }.to_string();
    assert!(said(std::io::ErrorKind::StorageFull).ends_with(": free some room"));
    for in_the_way in [std::io::ErrorKind::IsADirectory, std::io::ErrorKind::AlreadyExists] {
        assert!(said(in_the_way).ends_with(": move away what is there"));
    }
    assert!(said(std::io::ErrorKind::ReadOnlyFilesystem).contains("StateDirectory="));
    assert!(said(std::io::ErrorKind::PermissionDenied).ends_with("let Tidegate's user write there"));
}

#[test]
fn a_file_that_could_not_be_put_in_place_leaves_nothing_beside_it() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir(directory.path().join("taken")).unwrap();
    crate::files::replace(directory.path(), "taken", b"x", false).unwrap_err();
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
}

#[test]
fn a_database_that_may_not_be_written_says_what_helps() {
    for code in [rusqlite::ffi::SQLITE_READONLY, rusqlite::ffi::SQLITE_CANTOPEN] {
        let source = rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(code), None);
        let said =
            crate::database::describe(std::path::Path::new("/state/tidegate.sqlite"), source).to_string();
        assert!(
            said.starts_with("/state/tidegate.sqlite: ") && said.contains("let Tidegate's user"),
            "{said}"
        );
    }
}
