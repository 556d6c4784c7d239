//! Questions that take long are answered on threads of their own, a few at once, so that the admin interface's thread
//! answers everybody else meanwhile.

use std::sync::Arc;

use http::StatusCode;
use tokio::sync::Semaphore;

use crate::problem::Problem;

/// Room for some questions at once; further ones wait. The processors are for the workers.
#[derive(Clone, Debug)]
pub(crate) struct Questions {
    room: Arc<Semaphore>,
}

impl Questions {
    /// Room for `at_once` questions.
    pub(crate) fn new(at_once: usize) -> Self {
        Self { room: Arc::new(Semaphore::new(at_once)) }
    }

    /// Runs `answer` off this thread once there is room. It runs to its end, and takes its room, also if nobody waits
    /// for it any more.
    pub(crate) async fn answer<A: Send + 'static>(
        &self,
        answer: impl FnOnce() -> A + Send + 'static,
    ) -> Result<A, Problem> {
        let failed = || {
            let detail = "the question was not answered, which is a fault of the gateway: its log says more";
            Problem::new(StatusCode::INTERNAL_SERVER_ERROR, detail)
        };
        let place = Arc::clone(&self.room).acquire_owned().await.map_err(|_| failed())?;
        let answered = tokio::task::spawn_blocking(move || {
            let answer = answer();
            drop(place);
            answer
        });
        answered.await.map_err(|_| failed())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use tidegate_config::{ProtectOptions, Settings};
    use tidegate_runtime::{Recorder, Shared};

    use super::*;

    #[tokio::test]
    async fn this_thread_goes_on_and_questions_beyond_the_room_wait() {
        let questions = Questions::new(1);
        let (began, begins) = tokio::sync::oneshot::channel();
        let (end, ends) = mpsc::channel::<()>();
        let long = tokio::spawn({
            let questions = questions.clone();
            async move {
                let long = questions.answer(move || {
                    began.send(()).unwrap();
                    ends.recv().unwrap();
                    "long"
                });
                long.await.unwrap()
            }
        });
        // It is being answered, on another thread: this one would wait for itself.
        begins.await.unwrap();
        let mut next = std::pin::pin!(questions.answer(|| "next"));
        tokio::select! {
            biased;
            _ = &mut next => panic!("beyond the room"),
            () = std::future::ready(()) => {}
        }
        assert_eq!(questions.room.available_permits(), 0);
        end.send(()).unwrap();
        assert_eq!(long.await.unwrap(), "long");
        assert_eq!(next.await.unwrap(), "next");
    }

    #[tokio::test]
    async fn readings_are_recorded_while_a_question_is_answered() {
        let settings = Settings::protect(&ProtectOptions::new("http://127.0.0.1:1")).unwrap();
        let shared = Shared::new(settings).unwrap();
        let (began, begins) = tokio::sync::oneshot::channel();
        let (end, ends) = mpsc::channel::<()>();
        let asked = tokio::spawn({
            let (questions, shared) = (Questions::new(1), Arc::clone(&shared));
            async move {
                let asked = questions.answer(move || {
                    let archives = shared.measured();
                    began.send(()).unwrap();
                    ends.recv().unwrap();
                    archives.iter().count()
                });
                asked.await.unwrap()
            }
        });
        begins.await.unwrap();
        // Waits for ever if the question holds the archives.
        Recorder::new(&shared).tick(&shared, |_, _, _| {});
        assert!(shared.measured().get("").is_some(), "the host's reading");
        end.send(()).unwrap();
        assert_eq!(asked.await.unwrap(), 0, "what was measured when it was asked");
    }

    #[tokio::test]
    async fn who_leaves_keeps_no_room_and_a_panic_is_an_answer() {
        let questions = Questions::new(1);
        drop(questions.answer(|| ()));
        let problem = questions.answer(|| panic!("as a fault would")).await.map(|()| "").unwrap_err();
        assert_eq!(problem.status(), StatusCode::INTERNAL_SERVER_ERROR);
        assert_eq!(questions.answer(|| "after it").await.unwrap(), "after it");
    }
}
