//! Metrics of the signer of service account tokens outside of this process.

use std::time::Duration;

use prometheus::{Gauge, GaugeVec, HistogramOpts, HistogramVec, IntCounterVec, Opts};

use super::process::unix_seconds;
use super::{Families, registered};

/// Upper bounds of the buckets in seconds, as in the reference.
const BUCKETS: [f64; 14] = [
    0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
];

/// Label value for a call that succeeded.
const OK: &str = "OK";

/// Label value for errors that no call returned.
const OTHER: &str = "unknown-non-grpc";

/// Counters of the calls of a signer. Clones share them.
#[derive(Clone)]
pub struct SignerMetrics {
    key_times: GaugeVec,
    data_times: GaugeVec,
    fetches: IntCounterVec,
    signatures: IntCounterVec,
    durations: HistogramVec,
}

impl SignerMetrics {
    /// Creates counters that start at zero.
    ///
    /// # Errors
    /// If a metric is invalid, which is a bug of this code.
    pub fn new() -> prometheus::Result<Self> {
        let opts = |name: &str, help: &str| Opts::new(format!("apiserver_externaljwt_{name}"), help.to_owned());
        let durations = HistogramOpts::new(
            "apiserver_externaljwt_request_duration_seconds",
            "Durations of calls to the external signer of tokens, by method and code",
        );
        Ok(Self {
            key_times: GaugeVec::new(
                opts(
                    "fetch_keys_success_timestamp",
                    "Time of the last successful fetch of the keys of the external signer",
                ),
                &[],
            )?,
            data_times: GaugeVec::new(
                opts(
                    "fetch_keys_data_timestamp",
                    "Time of the data in the last successful fetch of the keys of the external signer",
                ),
                &[],
            )?,
            fetches: IntCounterVec::new(
                opts(
                    "fetch_keys_request_total",
                    "Fetches of the keys of the external signer, by code",
                ),
                &["code"],
            )?,
            signatures: IntCounterVec::new(
                opts(
                    "sign_request_total",
                    "Tokens that the external signer had to sign, by code",
                ),
                &["code"],
            )?,
            durations: HistogramVec::new(durations.buckets(BUCKETS.to_vec()), &["method", "code"])?,
        })
    }

    pub(super) fn register(&self, families: &Families) -> prometheus::Result<()> {
        registered(families, self.key_times.clone())?;
        registered(families, self.data_times.clone())?;
        registered(families, self.fetches.clone())?;
        registered(families, self.signatures.clone())?;
        registered(families, self.durations.clone())?;
        Ok(())
    }

    /// Records a call of `method`, whose error has the status code `code`.
    pub(crate) fn called(&self, method: &str, code: Option<&str>, elapsed: Duration) {
        let histogram = self
            .durations
            .get_metric_with_label_values(&[method, code.unwrap_or(OK)]);
        if let Ok(histogram) = histogram {
            histogram.observe(elapsed.as_secs_f64());
        }
    }

    /// Counts a token; `code` is that of the failed call, if one failed.
    pub(crate) fn signed(&self, outcome: Result<(), Option<&str>>) {
        count(&self.signatures, outcome);
    }

    /// Counts a fetch of the keys. `outcome` is the time of the data in seconds, or the code of the failed call, if one
    /// failed.
    pub(crate) fn fetched(&self, outcome: Result<f64, Option<&str>>) {
        count(&self.fetches, outcome.map(drop));
        let Ok(data_time) = outcome else { return };
        set(&self.key_times, unix_seconds());
        set(&self.data_times, data_time);
    }
}

fn count(counters: &IntCounterVec, outcome: Result<(), Option<&str>>) {
    let code = match outcome {
        Ok(()) => OK,
        Err(code) => code.unwrap_or(OTHER),
    };
    if let Ok(counter) = counters.get_metric_with_label_values(&[code]) {
        counter.inc();
    }
}

fn set(gauges: &GaugeVec, value: f64) {
    let gauge: prometheus::Result<Gauge> = gauges.get_metric_with_label_values::<&str>(&[]);
    if let Ok(gauge) = gauge {
        gauge.set(value);
    }
}
