//! What the host says of itself: processors, memory, pressure, and the gateway's part of them.

use std::{fs::File, io::Read};

use tidegate_control::meters::Meter;

/// Most that is read of a file. Lines of interest come first in all of them.
const FILE_BYTES_MAX: u64 = 16 * 1024;
/// Nanoseconds of the kernel's clock tick for processes: 1/100 s on every architecture we know.
pub(crate) const TICK_NANOS: u64 = 10_000_000;

/// One reading; what the host does not tell is missing.
#[derive(Clone, Debug, Default)]
pub struct HostSample {
    /// Counts since some start that does not change.
    counts: Vec<(Meter, u64)>,
    /// Levels now.
    levels: Vec<(Meter, u64)>,
}

impl HostSample {
    /// Reads them now: seven small files of /proc, about a tenth of a millisecond.
    #[must_use]
    pub fn read() -> Self {
        let mut sample = Self::default();
        let cpu = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        let nanos = u64::try_from(cpu.tv_sec)
            .ok()
            .zip(u64::try_from(cpu.tv_nsec).ok())
            .map(|(seconds, nanos)| seconds.saturating_mul(1_000_000_000).saturating_add(nanos));
        sample.count_of(Meter::GATEWAY_CPU, nanos);
        sample.count_of(Meter::HOST_CPU, read("/proc/stat").as_deref().and_then(busy_nanos));
        for (meter, file) in [
            (Meter::CPU_PRESSURE, "/proc/pressure/cpu"),
            (Meter::MEMORY_PRESSURE, "/proc/pressure/memory"),
            (Meter::IO_PRESSURE, "/proc/pressure/io"),
        ] {
            sample.count_of(meter, read(file).as_deref().and_then(stalled_nanos));
        }
        for (meter, file, key) in [
            (Meter::GATEWAY_MEMORY, "/proc/self/status", "VmRSS:"),
            (Meter::MEMORY_AVAILABLE, "/proc/meminfo", "MemAvailable:"),
        ] {
            if let Some(bytes) = read(file).as_deref().and_then(|text| kib_of(text, key)) {
                sample.levels.push((meter, bytes));
            }
        }
        sample
    }

    fn count_of(&mut self, meter: Meter, count: Option<u64>) {
        self.counts.extend(count.map(|count| (meter, count)));
    }

    /// The counts the host tells.
    #[must_use]
    pub fn counts(&self) -> &[(Meter, u64)] {
        &self.counts
    }

    /// The levels the host tells.
    #[must_use]
    pub fn levels(&self) -> &[(Meter, u64)] {
        &self.levels
    }
}

pub(crate) fn read(file: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(4096);
    File::open(file).ok()?.take(FILE_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Busy time of all processors from `/proc/stat`: user, nice, system, irq, softirq, steal.
fn busy_nanos(text: &str) -> Option<u64> {
    let fields: Vec<u64> = text
        .lines()
        .next()?
        .strip_prefix("cpu ")?
        .split_whitespace()
        .map_while(|field| field.parse().ok())
        .collect();
    let ticks: u64 = [0, 1, 2, 5, 6, 7].iter().filter_map(|at| fields.get(*at)).sum();
    (fields.len() >= 4).then(|| ticks.saturating_mul(TICK_NANOS))
}

/// `some … total=` of a pressure file, which is in microseconds.
fn stalled_nanos(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("some "))?;
    let total = line.split_whitespace().find_map(|field| field.strip_prefix("total="))?;
    Some(total.parse::<u64>().ok()?.saturating_mul(1000))
}

/// The bytes of a line such as `VmRSS:  1234 kB`.
pub(crate) fn kib_of(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()?.saturating_mul(1024))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_as_the_kernel_writes_them() {
        let stat = "cpu  10 20 30 400 50 6 7 8 0 0\ncpu0 1 2 3 4\nintr 5";
        assert_eq!(busy_nanos(stat), Some((10 + 20 + 30 + 6 + 7 + 8) * TICK_NANOS));
        let pressure = "some avg10=0.12 avg60=0.05 avg300=0.01 total=123456\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=9";
        assert_eq!(stalled_nanos(pressure), Some(123_456_000));
        assert_eq!(kib_of("VmHWM:\t 9 kB\nVmRSS:\t 1234 kB\n", "VmRSS:"), Some(1234 * 1024));
        for broken in ["", "cpu", "cpu  x y z", "some total=x", "VmRSS:"] {
            assert_eq!(
                (busy_nanos(broken), stalled_nanos(broken), kib_of(broken, "VmRSS:")),
                (None, None, None),
                "{broken}"
            );
        }
    }

    #[test]
    fn this_host_tells_of_the_gateway_at_least() {
        let sample = HostSample::read();
        assert!(sample.counts().iter().any(|(meter, nanos)| *meter == Meter::GATEWAY_CPU && *nanos > 0));
        assert!(sample.levels().iter().any(|(meter, bytes)| *meter == Meter::GATEWAY_MEMORY && *bytes > 0));
    }
}
