//! Enabled feature gates, collected on request.

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{IntGaugeVec, Opts};

const NAME: &str = "kubernetes_feature_enabled";
const HELP: &str = "Feature gates, by name and stage: 1 if enabled";
const LABELS: [&str; 2] = ["name", "stage"];

/// The feature gates.
pub(super) struct EnabledFeatures {
    desc: Desc,
    /// Name, stage, and true if it is enabled.
    gates: Vec<(&'static str, &'static str, bool)>,
}

impl EnabledFeatures {
    pub(super) fn new(gates: Vec<(&'static str, &'static str, bool)>) -> prometheus::Result<Self> {
        let labels = LABELS.map(str::to_owned).to_vec();
        let desc = Desc::new(NAME.to_owned(), HELP.to_owned(), labels, Default::default())?;
        Ok(Self { desc, gates })
    }
}

impl Collector for EnabledFeatures {
    fn desc(&self) -> Vec<&Desc> {
        vec![&self.desc]
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let Ok(gauges) = IntGaugeVec::new(Opts::new(NAME, HELP), &LABELS) else {
            return Vec::new();
        };
        for (name, stage, on) in &self.gates {
            if let Ok(gauge) = gauges.get_metric_with_label_values(&[name, stage]) {
                gauge.set(i64::from(*on));
            }
        }
        gauges.collect()
    }
}
