//! Where and of what a report was made.

use std::fs;

/// The commit, version and machine of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// The commit the program was built from.
    pub commit: &'static str,
    /// Version of the program.
    pub version: &'static str,
    /// Operating system and kernel.
    pub kernel: String,
    /// Model of the processor.
    pub processor: String,
    /// Processors this process may use.
    pub processors: usize,
    /// Main memory in MiB; `None` if the system does not say.
    pub memory_mib: Option<u64>,
    /// Whether the program was optimised.
    pub optimised: bool,
}

impl Machine {
    /// This one.
    #[must_use]
    pub fn here() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let field = |text: &str, name: &str| {
            let line = text.lines().find(|line| line.starts_with(name))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        };
        let memory = field(&read("/proc/meminfo"), "MemTotal");
        Self {
            commit: env!("TIDEGATE_COMMIT"),
            version: env!("CARGO_PKG_VERSION"),
            kernel: format!("{} {}", std::env::consts::OS, read("/proc/sys/kernel/osrelease").trim()),
            processor: field(&read("/proc/cpuinfo"), "model name")
                .unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            memory_mib: memory
                .and_then(|memory| memory.split_whitespace().next()?.parse::<u64>().ok())
                .map(|kib| kib / 1024),
            optimised: !cfg!(debug_assertions),
        }
    }
}
