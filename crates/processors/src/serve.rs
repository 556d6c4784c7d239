//! The manager's side of the socket.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    fs, io,
    os::unix::{
        fs::{FileTypeExt as _, PermissionsExt as _},
        net::UnixStream as StdStream,
    },
    path::{Path, PathBuf},
    rc::Rc,
    time::Duration,
};

use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{UnixListener, UnixStream},
    sync::Semaphore,
    task::JoinHandle,
    time::timeout,
};

use crate::{
    error::Error,
    host::{Holding, Status},
    socket::{PROCESSORS_MAX, QUESTION_BYTES_MAX, Question, Refusal},
};

/// Who asks at once; others wait.
const ASKING_MAX: usize = 64;
/// How long who asks may take for a line.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long nobody is taken where descriptors have run out.
const PAUSE: Duration = Duration::from_millis(100);

/// What the socket and the intervals share.
#[derive(Debug, Default)]
pub(crate) struct Board {
    status: Status,
    /// What was asked for last since the last interval, by application.
    asked: BTreeMap<String, f64>,
}

impl Board {
    pub(crate) fn publish(&mut self, status: Status) {
        self.status = status;
    }

    pub(crate) fn take_asked(&mut self) -> BTreeMap<String, f64> {
        std::mem::take(&mut self.asked)
    }

    fn answer(&mut self, question: &[u8]) -> String {
        let answer = match serde_json::from_slice(question) {
            Ok(Question::Status {}) => serde_json::to_string(&self.status),
            Ok(Question::Assigned { application }) => self.holding(&application),
            Ok(Question::Request { application, processors }) => self.request(application, processors),
            Err(error) => refuse(format!(
                "not a question ({error}); ask {{\"request\":{{\"application\":NAME,\"processors\":N}}}}, {{\"assigned\":{{\"application\":NAME}}}} or {{\"status\":{{}}}}"
            )),
        };
        answer.unwrap_or_default()
    }

    fn request(&mut self, application: String, processors: f64) -> serde_json::Result<String> {
        if !(0.0..=PROCESSORS_MAX).contains(&processors) {
            return refuse(format!(
                "{processors} processors cannot be asked for; ask for 0 to {PROCESSORS_MAX}"
            ));
        }
        let answer = self.holding(&application);
        if self.find(&application).is_some() {
            self.asked.insert(application, processors);
        }
        answer
    }

    fn find(&self, application: &str) -> Option<&Holding> {
        self.status.applications.iter().find(|holding| holding.application == application)
    }

    fn holding(&self, application: &str) -> serde_json::Result<String> {
        match self.find(application) {
            Some(holding) => serde_json::to_string(holding),
            None => {
                let known: Vec<&str> =
                    self.status.applications.iter().map(|holding| holding.application.as_str()).collect();
                refuse(format!(
                    "there is no application \"{}\"; there are {}",
                    application.escape_debug(),
                    known.join(", ")
                ))
            }
        }
    }
}

fn refuse(error: String) -> serde_json::Result<String> {
    serde_json::to_string(&Refusal { error })
}

/// The socket, which goes when this is dropped.
pub(crate) struct Serving {
    path: PathBuf,
    accepting: JoinHandle<()>,
}

impl Serving {
    /// Begins to answer at a path, in the place of a manager that has died.
    pub(crate) fn open(path: PathBuf, board: &Rc<RefCell<Board>>) -> Result<Self, Error> {
        const MEND: &str =
            "write a socket whose directory is there and is ours, and at which no other manager answers";
        let listener = bind(&path).map_err(|source| Error::file(&path, source, MEND))?;
        let accepting = tokio::task::spawn_local(accept(listener, board.clone()));
        Ok(Self { path, accepting })
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.accepting.abort();
        // Nobody else can have taken its place while it answered.
        let _ = fs::remove_file(&self.path);
    }
}

fn bind(path: &Path) -> io::Result<UnixListener> {
    if fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket()) {
        if StdStream::connect(path).is_ok() {
            return Err(io::Error::from(io::ErrorKind::AddrInUse));
        }
        fs::remove_file(path)?;
    }
    let listener = UnixListener::bind(path)?;
    // Whoever may ask is in the group of whom this runs as.
    fs::set_permissions(path, fs::Permissions::from_mode(0o660))?;
    Ok(listener)
}

async fn accept(listener: UnixListener, board: Rc<RefCell<Board>>) {
    let room = std::sync::Arc::new(Semaphore::new(ASKING_MAX));
    loop {
        let Ok(place) = room.clone().acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let board = board.clone();
                tokio::task::spawn_local(async move {
                    // Who leaves or sends no line in time has no answer.
                    let _ = answer(stream, &board).await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!("socket: {error}");
                // Out of descriptors: until others are closed there is nothing to take.
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// Answers line for line.
async fn answer(stream: UnixStream, board: &Rc<RefCell<Board>>) -> io::Result<()> {
    let (reading, mut writing) = stream.into_split();
    let mut reading = BufReader::new(reading);
    loop {
        let mut line = Vec::new();
        let mut bounded = (&mut reading).take(QUESTION_BYTES_MAX as u64);
        timeout(PATIENCE, bounded.read_until(b'\n', &mut line)).await??;
        if line.is_empty() {
            return Ok(());
        }
        let answer = board.borrow_mut().answer(&line) + "\n";
        timeout(PATIENCE, writing.write_all(answer.as_bytes())).await??;
        if !line.ends_with(b"\n") {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn board() -> Board {
        let holding = Holding {
            application: "shop".to_owned(),
            priority: 1.0,
            need: 1.5,
            asked: None,
            given: 1.5,
            processors: "0-1".to_owned(),
            used: 1.2,
            fault: None,
        };
        let status =
            Status { processors: "0-1".to_owned(), spare: String::new(), applications: vec![holding] };
        Board { status, asked: BTreeMap::new() }
    }

    #[test]
    fn what_is_asked_for_last_counts() {
        let mut board = board();
        for processors in [3.0, 2.5] {
            let question = Question::Request { application: "shop".to_owned(), processors };
            let answer = board.answer(serde_json::to_string(&question).expect("JSON").as_bytes());
            let holding: Holding = serde_json::from_str(&answer).expect("a holding");
            assert_eq!((holding.given, holding.processors.as_str()), (1.5, "0-1"));
        }
        assert_eq!(board.take_asked(), BTreeMap::from([("shop".to_owned(), 2.5)]));
        assert!(board.take_asked().is_empty());
    }

    #[test]
    fn what_cannot_be_is_refused_with_its_mend() {
        let mut board = board();
        for (question, said) in [
            ("{\"request\":{\"application\":\"blog\",\"processors\":1}}", "there are shop"),
            ("{\"assigned\":{\"application\":\"blog\"}}", "there are shop"),
            ("{\"request\":{\"application\":\"shop\",\"processors\":-1}}", "ask for 0 to 1024"),
            ("{\"request\":{\"application\":\"shop\",\"processors\":1e9}}", "ask for 0 to 1024"),
            ("{\"request\":{\"application\":\"shop\"}}", "not a question"),
            ("GET / HTTP/1.1\r\n", "not a question"),
        ] {
            let answer = board.answer(question.as_bytes());
            assert!(answer.contains("\"error\"") && answer.contains(said), "{question}: {answer}");
        }
        assert!(board.take_asked().is_empty());
    }

    #[test]
    fn any_bytes_are_answered_with_one_line() {
        bolero::check!().with_type::<Vec<u8>>().for_each(|bytes| {
            let answer = board().answer(bytes);
            assert!(!answer.is_empty() && !answer.contains('\n'));
        });
    }
}
