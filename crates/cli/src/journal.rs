//! systemd's journal where it reads standard error: a line begins with its priority (sd-daemon(3)), by which `journalctl -p`
//! finds it.

use std::{env, fmt, fs, os::unix::fs::MetadataExt, sync::LazyLock};

/// How urgent a line is, by syslog's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Priority {
    Error = 3,
    Warning = 4,
    Information = 6,
    Debug = 7,
}

/// Whether the journal reads standard error.
pub(crate) fn reads() -> bool {
    static READS: LazyLock<bool> = LazyLock::new(|| {
        // Set also for what is started by a service with an error output of its own; then it is another file.
        let told = env::var("JOURNAL_STREAM").unwrap_or_default();
        fs::metadata("/proc/self/fd/2").is_ok_and(|file| told == format!("{}:{}", file.dev(), file.ino()))
    });
    *READS
}

/// What is said on standard error, each line of it with its priority where the journal reads it.
pub(crate) fn lines(priority: Priority, text: impl fmt::Display) -> String {
    let text = text.to_string();
    match reads() {
        true => text.lines().map(|line| format!("{priority}{line}")).collect::<Vec<_>>().join("\n"),
        false => text,
    }
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{}>", *self as u8)
    }
}
