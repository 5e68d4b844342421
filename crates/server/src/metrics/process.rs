//! Resource usage of the process, under the names of Prometheus' own clients. Read from `/proc` at each scrape; without
//! `/proc` there are no such metrics.

use std::time::UNIX_EPOCH;

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{Counter, IntGauge, Opts};
use tokio::runtime::Handle;

use crate::runtime::{Clock as _, SystemClock};

/// Clock ticks of a second: the kernel reports hundredths of a second to user space, whatever its own tick.
const TICKS_A_SECOND: f64 = 100.0;

/// Resource usage of the process.
pub(super) struct Process {
    cpu: Counter,
    gauges: Vec<(Reading, IntGauge)>,
    /// Tasks of the asynchronous runtime, under the name that dashboards request.
    tasks: IntGauge,
}

/// Quantity that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    ResidentMemory,
    VirtualMemory,
    OpenFiles,
    MaxFiles,
    Threads,
    Start,
}

const GAUGES: [(Reading, &str, &str); 6] = [
    (
        Reading::ResidentMemory,
        "process_resident_memory_bytes",
        "Resident memory size in bytes",
    ),
    (
        Reading::VirtualMemory,
        "process_virtual_memory_bytes",
        "Virtual memory size in bytes",
    ),
    (
        Reading::OpenFiles,
        "process_open_fds",
        "Number of open file descriptors",
    ),
    (
        Reading::MaxFiles,
        "process_max_fds",
        "Maximum number of open file descriptors",
    ),
    (Reading::Threads, "process_threads", "Number of threads"),
    (
        Reading::Start,
        "process_start_time_seconds",
        "Start time of the process in seconds since 1970",
    ),
];

impl Process {
    pub(super) fn new() -> prometheus::Result<Self> {
        let gauges = GAUGES
            .into_iter()
            .map(|(reading, name, help)| Ok((reading, IntGauge::with_opts(Opts::new(name, help))?)));
        let process = Self {
            cpu: Counter::new("process_cpu_seconds_total", "User and system CPU time spent in seconds")?,
            gauges: gauges.collect::<prometheus::Result<_>>()?,
            tasks: IntGauge::new(
                "go_goroutines",
                "Number of asynchronous tasks, which correspond to goroutines",
            )?,
        };
        // The counters start with the process.
        let start = process.gauges.iter().find(|(reading, _)| *reading == Reading::Start);
        if let Some((_, gauge)) = start {
            gauge.set(unix_seconds() as i64);
        }
        Ok(process)
    }
}

impl Collector for Process {
    fn desc(&self) -> Vec<&Desc> {
        let gauges = self.gauges.iter().flat_map(|(_, gauge)| gauge.desc());
        let others = [self.cpu.desc(), self.tasks.desc()].into_iter().flatten();
        others.chain(gauges).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        if let Some(seconds) = cpu_seconds() {
            self.cpu.inc_by((seconds - self.cpu.get()).max(0.0));
        }
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let of_status = |name: &str| first_number(status.lines().find_map(|line| line.strip_prefix(name)));
        for (reading, gauge) in &self.gauges {
            let value = match reading {
                Reading::ResidentMemory => of_status("VmRSS:").map(|kilobytes| kilobytes * 1024),
                Reading::VirtualMemory => of_status("VmSize:").map(|kilobytes| kilobytes * 1024),
                Reading::Threads => of_status("Threads:"),
                Reading::OpenFiles => std::fs::read_dir("/proc/self/fd")
                    .ok()
                    .map(|files| files.count() as i64),
                Reading::MaxFiles => max_files(),
                Reading::Start => None,
            };
            if let Some(value) = value {
                gauge.set(value);
            }
        }
        if let Ok(runtime) = Handle::try_current() {
            let tasks = runtime.metrics().num_alive_tasks();
            self.tasks.set(i64::try_from(tasks).unwrap_or(i64::MAX));
        }
        let gauges = self.gauges.iter().flat_map(|(_, gauge)| gauge.collect());
        let others = [self.cpu.collect(), self.tasks.collect()].into_iter().flatten();
        others.chain(gauges).collect()
    }
}

/// Returns the time of the system clock in seconds since 1970, as metrics show times.
pub(super) fn unix_seconds() -> f64 {
    let now = SystemClock.now().duration_since(UNIX_EPOCH);
    now.unwrap_or_default().as_secs_f64()
}

fn first_number(text: Option<&str>) -> Option<i64> {
    text?.split_whitespace().next()?.parse().ok()
}

fn max_files() -> Option<i64> {
    let limits = std::fs::read_to_string("/proc/self/limits").ok()?;
    first_number(limits.lines().find_map(|line| line.strip_prefix("Max open files")))
}

fn cpu_seconds() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // Field 2 is the name in parentheses and may contain spaces; utime and stime are fields 14 and 15.
    let (_, behind_name) = stat.rsplit_once(')')?;
    let fields = behind_name.split_whitespace().skip(11).take(2);
    let ticks: u64 = fields.filter_map(|field| field.parse::<u64>().ok()).sum();
    Some(ticks as f64 / TICKS_A_SECOND)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[tokio::test]
    async fn every_reading_of_a_process_is_there() {
        // The test itself is not a task.
        let _task = tokio::spawn(std::future::pending::<()>());
        let families = Process::new().unwrap().collect();
        assert_eq!(families.len(), 2 + GAUGES.len());
        for family in families
            .iter()
            .filter(|family| family.name() != "process_cpu_seconds_total")
        {
            assert!(
                family.get_metric()[0].get_gauge().get_value() > 0.0,
                "{}",
                family.name()
            );
        }
    }
}
