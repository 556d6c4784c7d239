//! The signals by which people and their tools end a program in good order.

use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};

/// Waits for SIGINT or SIGTERM, or until the time is up; whether a signal came. From the first call on they do not end the
/// process by themselves.
#[must_use]
pub fn wait_for_signal(span: Option<Duration>) -> bool {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
        return false;
    };
    runtime.block_on(async {
        let (Ok(mut interrupt), Ok(mut terminate)) =
            (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
        else {
            return false;
        };
        let time_up = async {
            match span {
                Some(span) => tokio::time::sleep(span).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = interrupt.recv() => true,
            _ = terminate.recv() => true,
            () = time_up => false,
        }
    })
}
