//! All metrics of the server, with or without values.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use prometheus::core::{Collector, Desc};
use prometheus::proto::{MetricFamily, MetricType};

use super::stability::{Numbers, help_text, stability};

/// Description of a metric.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Family {
    /// Name.
    pub name: String,
    /// Type, as the text format names it.
    pub kind: &'static str,
    /// Stability level as in the reference: `ALPHA`, `BETA` or `STABLE`.
    pub stability: &'static str,
    /// Labels, in alphabetical order.
    pub labels: Vec<String>,
    /// Help text.
    pub help: String,
}

/// The registry of metrics. It includes those that have no value yet, which are not exposed.
#[derive(Default)]
pub(crate) struct Families {
    registry: prometheus::Registry,
    collectors: Mutex<Vec<Arc<dyn Collector>>>,
    numbers: Arc<Numbers>,
    disabled: OnceLock<BTreeSet<String>>,
}

/// A collector that the registry and the list of all collectors share.
struct Shared(Arc<dyn Collector>);

impl Collector for Shared {
    fn desc(&self) -> Vec<&Desc> {
        self.0.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        self.0.collect()
    }
}

impl Families {
    /// Registers a metric, or a collector of several.
    pub(super) fn register(&self, metrics: impl Collector + 'static) -> prometheus::Result<()> {
        let metrics: Arc<dyn Collector> = Arc::new(metrics);
        for desc in metrics.desc() {
            self.numbers.add(&desc.fq_name);
        }
        self.collectors.lock().push(Arc::clone(&metrics));
        self.registry.register(Box::new(Shared(metrics)))
    }

    /// Returns the number of metrics of each stability level.
    pub(super) fn numbers(&self) -> Arc<Numbers> {
        Arc::clone(&self.numbers)
    }

    /// Returns all metrics that have values. Their help texts begin with the stability level.
    pub(super) fn gather(&self) -> Vec<MetricFamily> {
        let mut gathered = self.registry.gather();
        for family in &mut gathered {
            family.set_help(help_text(family.name(), family.help()));
        }
        gathered
    }

    /// Leaves out the metrics with these names from now on. Only the first call has an effect.
    pub(super) fn disable(&self, names: BTreeSet<String>) {
        self.numbers.disable(names.len() as u64);
        let _ = self.disabled.set(names);
    }

    /// Returns `text`, in the text format, without the disabled metrics.
    pub(super) fn without_disabled(&self, text: String) -> String {
        let Some(disabled) = self.disabled.get() else {
            return text;
        };
        let mut kept = String::with_capacity(text.len());
        let mut is_kept = true;
        for line in text.split_inclusive('\n') {
            // Each metric begins with its help.
            if let Some((name, _)) = line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' ')) {
                is_kept = !disabled.contains(name);
            }
            if is_kept {
                kept.push_str(line);
            }
        }
        kept
    }

    /// Returns all metrics.
    pub(super) fn known(&self) -> Vec<Family> {
        let collectors = self.collectors.lock();
        collectors
            .iter()
            .flat_map(|metrics| describe(metrics.as_ref()))
            .collect()
    }
}

/// Returns the descriptions of the metrics of one collector.
fn describe(metrics: &dyn Collector) -> Vec<Family> {
    let collected = metrics.collect();
    let kind = |name: &str| {
        let family = collected.iter().find(|family| family.name() == name);
        family.map_or("untyped", |family| match family.get_field_type() {
            MetricType::COUNTER => "counter",
            MetricType::GAUGE => "gauge",
            MetricType::HISTOGRAM => "histogram",
            MetricType::SUMMARY => "summary",
            MetricType::UNTYPED => "untyped",
        })
    };
    let described = metrics.desc().into_iter().map(|desc| {
        let mut labels = desc.variable_labels.clone();
        labels.sort_unstable();
        Family {
            name: desc.fq_name.clone(),
            kind: kind(&desc.fq_name),
            stability: stability(&desc.fq_name),
            labels,
            help: desc.help.clone(),
        }
    });
    described.collect()
}
