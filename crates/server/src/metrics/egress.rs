//! Metrics of connections through proxies.

use holdfast_egress::{DialEvent, DialObserver, Stage, Through};
use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, Opts};

use super::{Families, registered};

/// Upper bounds of the buckets in seconds, as in the reference.
const BUCKETS: [f64; 6] = [0.005, 0.025, 0.1, 0.5, 2.5, 12.5];

/// Counters of connections through proxies. Clones share them.
#[derive(Clone)]
pub struct EgressMetrics {
    starts: IntCounterVec,
    durations: HistogramVec,
    failures: IntCounterVec,
}

impl EgressMetrics {
    /// Creates counters that start at zero.
    ///
    /// # Errors
    /// If a metric is invalid, which is a bug of this code.
    pub fn new() -> prometheus::Result<Self> {
        const LABELS: [&str; 2] = ["protocol", "transport"];
        let opts = |name: &str, help: &str| Opts::new(format!("apiserver_egress_dialer_{name}"), help.to_owned());
        let durations = HistogramOpts::new(
            "apiserver_egress_dialer_dial_duration_seconds",
            "Time to connect through a proxy, by its protocol and transport",
        );
        Ok(Self {
            starts: IntCounterVec::new(
                opts("dial_start_total", "Connections through a proxy that were begun"),
                &LABELS,
            )?,
            durations: HistogramVec::new(durations.buckets(BUCKETS.to_vec()), &LABELS)?,
            failures: IntCounterVec::new(
                opts("dial_failure_count", "Connections through a proxy that failed, by step"),
                &["protocol", "transport", "stage"],
            )?,
        })
    }

    pub(super) fn register(&self, families: &Families) -> prometheus::Result<()> {
        registered(families, self.starts.clone())?;
        registered(families, self.durations.clone())?;
        registered(families, self.failures.clone())?;
        Ok(())
    }
}

impl DialObserver for EgressMetrics {
    fn dialed(&self, through: Through, event: DialEvent) {
        let labels = [through.protocol, through.transport];
        match event {
            DialEvent::Started => {
                if let Ok(counter) = self.starts.get_metric_with_label_values(&labels) {
                    counter.inc();
                }
            }
            DialEvent::Established(duration) => {
                if let Ok(histogram) = self.durations.get_metric_with_label_values(&labels) {
                    histogram.observe(duration.as_secs_f64());
                }
            }
            DialEvent::Failed(stage) => {
                let stage = match stage {
                    Stage::Connect => "connect",
                    Stage::Proxy => "proxy",
                };
                let labels = [through.protocol, through.transport, stage];
                if let Ok(counter) = self.failures.get_metric_with_label_values(&labels) {
                    counter.inc();
                }
            }
        }
    }
}
