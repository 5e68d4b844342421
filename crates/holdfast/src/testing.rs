//! Flags of the endpoints for tests.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result, anyhow};
use clap::{ArgAction, Args};
use holdfast_gotext::time::{Precision, Timestamp};
use holdfast_server::operations::testing::Testing;
use holdfast_server::runtime as time_of_day;
use holdfast_server::runtime::Clock as _;
use holdfast_server::runtime::faults::Faults;
use holdfast_server::runtime::testing_clock::Advances;
use holdfast_server::runtime::timeline::Timeline;
use holdfast_store::{Clock, SystemClock};
use holdfast_value::{Limits, yaml};

use crate::files;

/// Flags about the endpoints for tests.
#[derive(Clone, Debug, Args)]
pub(crate) struct TestingFlags {
    /// Serve /testing/: faults of requests, watches and webhooks, checkpoints of the store, and the clock. Only for servers of tests. Requires a loopback
    /// --bind-address
    #[arg(long, value_name = "BOOL", default_value_t = false, action = ArgAction::Set,
          num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    pub(crate) testing_endpoints: bool,

    /// Allow --testing-endpoints with any --bind-address
    #[arg(long, value_name = "BOOL", default_value_t = false, action = ArgAction::Set,
          num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    testing_endpoints_on_any_address: bool,

    /// File with the faults of the start (YAML or JSON), in the form of GET /testing/faults. Requires
    /// --testing-endpoints
    #[arg(long, value_name = "FILE")]
    testing_faults_file: Option<PathBuf>,

    /// Seed of the choices of faults that have a probability and no seed
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    testing_seed: u64,

    /// Directory in which to keep a timeline: one line for each request, with its client, its answer, and the changed fields with
    /// their owners. Only for tests: each write reads its object twice
    #[arg(long, value_name = "DIR")]
    pub(crate) record: Option<PathBuf>,
}

/// Parts of a server that serve tests.
#[derive(Clone, Default)]
pub(crate) struct ForTests {
    /// Endpoints below /testing/, if they are enabled.
    pub(crate) endpoints: Option<Arc<Testing>>,
    /// Timeline of requests, if it is enabled.
    pub(crate) timeline: Option<Arc<Timeline>>,
}

impl TestingFlags {
    /// Returns the problems of the flags for a server that listens on `address`.
    pub(crate) fn errors(&self, address: IpAddr) -> Vec<String> {
        let mut messages = Vec::new();
        if self.testing_endpoints && !self.testing_endpoints_on_any_address && !address.is_loopback() {
            messages.push(format!(
                "--testing-endpoints requires a loopback --bind-address, but it is {address}; \
                 --testing-endpoints-on-any-address allows it"
            ));
        }
        if !self.testing_endpoints && self.testing_faults_file.is_some() {
            messages.push("--testing-faults-file requires --testing-endpoints".to_owned());
        }
        messages
    }

    /// Returns the parts that serve tests, for a server that listens on `port`.
    pub(crate) fn load(&self, port: u16) -> Result<ForTests> {
        let recorded = self
            .record
            .as_deref()
            .map(|directory| record_in(directory, port))
            .transpose()?;
        if !self.testing_endpoints {
            return Ok(ForTests {
                timeline: recorded.map(Arc::new),
                endpoints: None,
            });
        }
        let timeline = Arc::new(recorded.unwrap_or_default());
        let faults = Faults::new(self.testing_seed);
        if let Some(path) = &self.testing_faults_file {
            add_all(&faults, path).with_context(|| format!("--testing-faults-file: {}", path.display()))?;
        }
        let endpoints = Testing {
            faults: Arc::new(faults),
            checkpoints: Arc::default(),
            clock: Arc::default(),
            forks: Arc::default(),
            timeline: Arc::clone(&timeline),
        };
        Ok(ForTests {
            endpoints: Some(Arc::new(endpoints)),
            timeline: Some(timeline),
        })
    }

    /// Adapts the flags for a fork, which begins without faults.
    pub(crate) fn adapt_to_fork(&mut self) {
        self.testing_faults_file = None;
    }

    /// Adapts the flags for a server that writes nothing.
    pub(crate) fn keep_nothing(&mut self) {
        self.record = None;
    }
}

/// Creates the timeline in a directory.
fn record_in(directory: &Path, port: u16) -> Result<Timeline> {
    let now = Timestamp::from(time_of_day::SystemClock.now()).text(Precision::Micros);
    let time: String = now.chars().filter(|letter| letter.is_ascii_alphanumeric()).collect();
    let timeline = Timeline::in_directory(directory, &time, &format!("{}-{port}", std::process::id()));
    timeline.with_context(|| format!("--record: {}", directory.display()))
}

/// Returns the clock of an embedded store.
pub(crate) fn store_clock(testing: Option<&Arc<Testing>>) -> Arc<dyn Clock> {
    match testing {
        Some(testing) => Arc::clone(&testing.clock) as _,
        None => Arc::new(SystemClock),
    }
}

/// Returns the moves of the clock; none without endpoints for tests.
pub(crate) fn advances(testing: Option<&Arc<Testing>>) -> Advances {
    testing.map(|testing| testing.clock.advances()).unwrap_or_default()
}

fn add_all(faults: &Faults, path: &Path) -> Result<()> {
    let tree = yaml::parse(&files::read(path)?, &Limits::default()).map_err(|error| anyhow!("{error}"))?;
    faults.add_all(&tree).map_err(|why| anyhow!(why))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::flags::Arguments;

    fn flags(more: &[&str]) -> TestingFlags {
        let words = ["holdfast"].iter().chain(more);
        Arguments::try_parse_from(words).unwrap().serve.testing
    }

    #[test]
    fn endpoints_need_a_loopback_address() {
        let (near, far) = (IpAddr::from([127, 0, 0, 1]), IpAddr::from([0, 0, 0, 0]));
        assert!(flags(&[]).errors(far).is_empty());
        let on = flags(&["--testing-endpoints"]);
        assert!(on.errors(near).is_empty());
        assert!(on.errors(far)[0].contains("loopback"));
        let anywhere = flags(&["--testing-endpoints", "--testing-endpoints-on-any-address"]);
        assert!(anywhere.errors(far).is_empty());
        assert!(flags(&["--testing-faults-file=f"]).errors(near)[0].contains("requires --testing-endpoints"));
    }

    #[test]
    fn file_of_faults_is_yaml() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("faults.yaml");
        let load = |text: &str| {
            std::fs::write(&path, text).unwrap();
            let flag = format!("--testing-faults-file={}", path.display());
            let loaded = flags(&["--testing-endpoints", &flag]).load(0);
            loaded.map(|testing| testing.endpoints.map_or(0, |testing| testing.faults.list().len()))
        };
        let text = "faults:\n- match: {verbs: [update]}\n  count: 1\n  action:\n    error: {code: 409}\n";
        assert_eq!(load(text).unwrap(), 1);
        let error = load("faults:\n- action: {error: {code: 200}}\n").unwrap_err();
        assert!(format!("{error:#}").contains("faults[0]: code must be"), "{error:#}");
        assert!(load("rules: []").is_err());
    }
}
