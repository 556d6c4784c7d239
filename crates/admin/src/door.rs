//! Whether the admin address takes connections: from the moment listeners accept, not while a successor starts, and never
//! again once that has taken over. What comes meanwhile waits in the kernel, in a socket that the successor shares.

use tokio::sync::watch;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Shut,
    Open,
    Over,
}

/// Opens and shuts it. Connections that are open are only touched when it is over.
#[derive(Debug)]
pub(crate) struct Doorkeeper(watch::Sender<State>);

/// Looks at it; copies look at the same.
#[derive(Clone, Debug)]
pub(crate) struct Door(watch::Receiver<State>);

impl Doorkeeper {
    /// A door that is shut.
    pub(crate) fn new() -> Self {
        Self(watch::Sender::new(State::Shut))
    }

    pub(crate) fn door(&self) -> Door {
        Door(self.0.subscribe())
    }

    pub(crate) fn open(&self) {
        self.set(State::Open);
    }

    pub(crate) fn shut(&self) {
        self.set(State::Shut);
    }

    /// For good.
    pub(crate) fn end(&self) {
        self.set(State::Over);
    }

    fn set(&self, to: State) {
        self.0.send_if_modified(|state| *state != State::Over && std::mem::replace(state, to) != to);
    }
}

impl Door {
    /// Waits until it is open; whether it will be.
    pub(crate) async fn opens(&mut self) -> bool {
        self.until(|state| state != State::Shut).await == State::Open
    }

    /// Waits until it is not open.
    pub(crate) async fn shuts(&mut self) {
        self.until(|state| state != State::Open).await;
    }

    /// Waits until it is over.
    pub(crate) async fn is_over(&mut self) {
        self.until(|state| state == State::Over).await;
    }

    async fn until(&mut self, reached: impl Fn(State) -> bool) -> State {
        match self.0.wait_for(|state| reached(*state)).await.map(|state| *state) {
            Ok(state) => state,
            // Without its keeper it stays as it is.
            Err(_) => std::future::pending().await,
        }
    }
}
