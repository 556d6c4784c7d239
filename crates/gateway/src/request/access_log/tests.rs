//! Lines whatever a client sends, files moved away, and disks that are full.

use std::{fs, net::IpAddr, path::Path};

use http::{HeaderValue, Method, Uri, Version};
use rustix::fs::{CWD, Mode, mkfifoat};
use tidegate_control::{ClassId, Timestamp};

use super::*;

fn entry(user_agent: &[u8]) -> Entry {
    Entry {
        // 2024-02-29 12:34:56.789 UTC.
        at: Timestamp::from_nanos(1_709_210_096_789_000_000),
        client: Some(IpAddr::from([192, 0, 2, 7])),
        connection: 3,
        method: Some(Method::GET),
        target: Some(Uri::from_static("/a\"c\"?b=d")),
        version: Version::HTTP_11,
        host: Some(HeaderValue::from_static("shop.example")),
        user_agent: HeaderValue::from_bytes(user_agent).ok(),
        referer: None,
        request_id: Some(HeaderValue::from_static("id-1")),
        tls: None,
        application: None,
        class: ClassId(0),
        server: None,
        status: 503,
        reason: Some("queue_full"),
        detail: None,
        would_refuse: Some("ingress_rate"),
        bytes_in: 0,
        bytes_out: 12,
        waiting: Duration::from_micros(1500),
        gathering: Duration::ZERO,
        connect: None,
        first_byte: None,
        service: None,
        total: Duration::from_millis(2),
    }
}

#[test]
fn the_combined_format_is_apache_s() {
    let mut line = Vec::new();
    entry(b"x\"y\\z\xc3\xa9").write_combined(&mut line);
    assert_eq!(
        String::from_utf8(line).unwrap(),
        "192.0.2.7 - - [29/Feb/2024:12:34:56 +0000] \"GET /a\\\"c\\\"?b=d HTTP/1.1\" 503 12 \"-\" \
         \"x\\\"y\\\\z\\xc3\\xa9\"\n"
    );
}

#[test]
fn times_stand_behind_the_combined_format() {
    let write = |entry: Entry| {
        let (mut timed, mut plain) = (Vec::new(), Vec::new());
        entry.write_combined_with_times(&mut timed);
        entry.write_combined(&mut plain);
        let (timed, plain) = (String::from_utf8(timed).unwrap(), String::from_utf8(plain).unwrap());
        timed.strip_prefix(plain.trim_end()).expect("behind it").to_owned()
    };
    assert_eq!(write(entry(b"")), " rt=0.002000 uct=\"-\" uht=\"-\" urt=\"-\"\n");
    let ms = |ms| Some(Duration::from_millis(ms));
    let served = Entry { connect: ms(3), first_byte: ms(20), service: ms(1021), ..entry(b"") };
    assert_eq!(write(served), " rt=0.002000 uct=\"0.003000\" uht=\"0.020000\" urt=\"1.021000\"\n");
}

#[test]
fn a_token_of_the_waiting_room_is_in_no_line() {
    let page = HeaderValue::from_static("https://shop.example/a?tidegate_turn=SECRET&b=c");
    let target = Some(Uri::from_static("/.well-known/tidegate/turn?class=x&tidegate_turn=SECRET"));
    let entry = Entry { target, referer: Some(page), ..entry(b"") };
    for write in [Entry::write_json, Entry::write_combined, Entry::write_combined_with_times] {
        let mut line = Vec::new();
        write(&entry, &mut line);
        let line = String::from_utf8(line).unwrap();
        assert!(!line.contains("SECRET"), "{line}");
        assert!(line.contains("/turn?class=x") && line.contains("https://shop.example/a?b=c\""), "{line}");
    }
}

#[test]
fn json_holds_every_stage() {
    let mut line = Vec::new();
    entry(b"agent \"1\"").write_json(&mut line);
    assert_eq!(
        String::from_utf8(line).unwrap(),
        "{\"time\":\"2024-02-29T12:34:56.789Z\",\"client\":\"192.0.2.7\",\"connection\":3,\"method\":\"GET\",\
         \"target\":\"/a\\\"c\\\"?b=d\",\"protocol\":\"HTTP/1.1\",\"host\":\"shop.example\",\"status\":503,\
         \"reason\":\"queue_full\",\"would_refuse\":\"ingress_rate\",\"bytes_in\":0,\"bytes_out\":12,\"waiting_time\":0.001500,\
         \"total_time\":0.002000,\"request_id\":\"id-1\",\"user_agent\":\"agent \\\"1\\\"\"}\n"
    );
}

#[test]
fn no_client_can_forge_a_line_or_a_field() {
    bolero::check!().for_each(|bytes: &[u8]| {
        let entry = entry(bytes);
        let (mut json, mut combined) = (Vec::new(), Vec::new());
        entry.write_json(&mut json);
        entry.write_combined(&mut combined);
        for line in [&json, &combined] {
            let (last, rest) = line.split_last().expect("never empty");
            assert!(*last == b'\n' && !rest.iter().any(u8::is_ascii_control));
        }
        assert!(std::str::from_utf8(&json).is_ok());
        assert!(combined.is_ascii());
        // Quotes that are not escaped: three quoted fields.
        let mut quotes = 0;
        let mut escaped = false;
        for byte in combined {
            escaped = match byte {
                _ if escaped => false,
                b'\\' => true,
                b'"' => {
                    quotes += 1;
                    false
                }
                _ => false,
            };
        }
        assert_eq!(quotes, 6);
    });
}

fn lines(path: &Path) -> usize {
    fs::read_to_string(path).unwrap().lines().count()
}

fn to_file(path: &Path) -> Settings {
    Settings { target: LogTarget::File(path.to_owned()), format: LogFormat::Json }
}

#[test]
fn a_file_moved_away_is_opened_again() {
    let directory = tempfile::tempdir().unwrap();
    let (path, moved) = (directory.path().join("access.log"), directory.path().join("access.log.1"));
    let log = AccessLog::start(Some(&to_file(&path))).unwrap();
    assert!(log.is_on() && log.write(entry(b"a")));
    log.flush();
    fs::rename(&path, &moved).unwrap();
    assert!(log.write(entry(b"b")));
    log.reopen();
    assert!(log.write(entry(b"c")));
    log.flush();
    assert_eq!((lines(&moved), lines(&path)), (2, 1));
}

#[test]
fn a_full_disk_loses_lines_and_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("access.log");
    let log = AccessLog::start(Some(&to_file(Path::new("/dev/full")))).unwrap();
    assert!(log.write(entry(b"lost")));
    log.flush();
    log.configure(Some(&to_file(&path))).unwrap();
    assert_eq!((log.take_unwritten(), log.take_unwritten()), (1, 0), "the line that was lost is told once");
    assert!(log.write(entry(b"kept")));
    log.flush();
    assert_eq!(lines(&path), 1);
    assert!(log.configure(Some(&to_file(Path::new("/nowhere/at/all")))).is_err());
    assert!(log.write(entry(b"kept too")));
    log.configure(None).unwrap();
    assert!(!log.is_on());
    assert_eq!(lines(&path), 2);
}

#[test]
fn a_line_that_a_full_disk_tore_takes_no_other_with_it() {
    /// A disk that is full after so many bytes.
    struct Disk(Vec<u8>, usize);
    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            match self.1.min(bytes.len()) {
                0 => Err(io::ErrorKind::StorageFull.into()),
                room => {
                    self.0.extend_from_slice(&bytes[..room]);
                    self.1 -= room;
                    Ok(room)
                }
            }
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut disk = Disk(Vec::new(), 7);
    let (written, result) = put(&mut disk, b"first\nsecond\n", false);
    assert_eq!((written, result.unwrap_err().kind()), (7, io::ErrorKind::StorageFull));
    disk.1 = 100;
    let (written, result) = put(&mut disk, b"third\n", true);
    assert_eq!((written, result.is_ok()), (6, true));
    assert_eq!(disk.0, b"first\ns\nthird\n");
}

#[test]
fn a_line_torn_by_a_process_before_takes_no_other_with_it_nor_does_it_mark_another_file() {
    let directory = tempfile::tempdir().unwrap();
    let (path, moved) = (directory.path().join("access.log"), directory.path().join("access.log.1"));
    fs::write(&path, "whole\nto").unwrap();
    let mut writer = Writer::default();
    let (answer, answered) = sync_channel(1);
    writer.take(Message::Configure(Some(to_file(&path)), answer));
    answered.recv().unwrap().unwrap();
    let log = |writer: &mut Writer| {
        writer.take(Message::Entry(Box::new(entry(b"a"))));
        writer.write();
    };
    log(&mut writer);
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.starts_with("whole\nto\n{") && text.ends_with("}\n"), "{text}");
    // The disk is full, and what is there is moved away.
    writer.output.as_mut().unwrap().torn = true;
    fs::rename(&path, &moved).unwrap();
    writer.take(Message::Reopen);
    log(&mut writer);
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.starts_with('{') && text.lines().count() == 1, "{text}");
}

#[test]
fn a_file_whose_directory_is_gone_is_opened_when_it_is_back() {
    let directory = tempfile::tempdir().unwrap();
    let (folder, moved) = (directory.path().join("log"), directory.path().join("moved"));
    fs::create_dir(&folder).unwrap();
    let path = folder.join("access.log");
    let mut writer = Writer::default();
    let (answer, answered) = sync_channel(1);
    writer.take(Message::Configure(Some(to_file(&path)), answer));
    answered.recv().unwrap().unwrap();
    let log = |writer: &mut Writer, name: &[u8]| {
        writer.take(Message::Entry(Box::new(entry(name))));
        writer.write();
    };
    log(&mut writer, b"a");
    fs::rename(&folder, &moved).unwrap();
    writer.take(Message::Reopen);
    log(&mut writer, b"b");
    fs::create_dir(&folder).unwrap();
    // As if a second had gone by.
    writer.reopen_at = Some(Instant::now());
    log(&mut writer, b"c");
    assert_eq!((lines(&moved.join("access.log")), lines(&path)), (2, 1));
    assert!(writer.reopen_at.is_none());
}

/// Runs it beside, and fails where it does not end.
fn ends<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (answer, answered) = sync_channel(1);
    thread::spawn(move || answer.send(work()));
    answered.recv_timeout(10 * PATIENCE).expect("it ends")
}

#[test]
fn a_pipe_that_nobody_reads_is_a_fault_and_no_wait() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pipe");
    mkfifoat(CWD, &path, Mode::RUSR | Mode::WUSR).unwrap();
    let settings = to_file(&path);
    let error = ends(move || AccessLog::start(Some(&settings)).unwrap_err());
    assert!(error.to_string().ends_with("/pipe: a pipe that nobody reads, or a socket"), "{error}");
}

#[test]
fn a_reader_that_has_stopped_holds_up_neither_end_nor_reload() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pipe");
    mkfifoat(CWD, &path, Mode::RUSR | Mode::WUSR).unwrap();
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let _reader = OpenOptions::new().read(true).custom_flags(flags).open(&path).unwrap();
    let settings = to_file(&path);
    let log = AccessLog::start(Some(&settings)).unwrap();
    // More than a pipe takes and a batch holds.
    while log.write(entry(b"a")) {}
    let stuck = log.clone();
    ends(move || {
        stuck.reopen();
        stuck.flush();
    });
    let error = ends(move || log.configure(Some(&settings)).unwrap_err());
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
}
