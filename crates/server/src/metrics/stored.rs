//! How many objects there are of each resource, counted when somebody asks.

use std::sync::Arc;

use arc_swap::ArcSwap;
use holdfast_resource::Registry;
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{IntGaugeVec, Opts};

use crate::objects::Store;

/// How many objects there are of each resource.
pub(super) struct StoredObjects {
    store: Arc<Store>,
    resources: Arc<ArcSwap<Registry>>,
    /// By resource and group in one text, as releases before 1.34 had it.
    by_name: IntGaugeVec,
    by_group: IntGaugeVec,
}

impl StoredObjects {
    pub(super) fn new(store: Arc<Store>, resources: Arc<ArcSwap<Registry>>) -> prometheus::Result<Self> {
        let help = "Number of stored objects";
        Ok(Self {
            store,
            resources,
            by_name: IntGaugeVec::new(Opts::new("apiserver_storage_objects", help), &["resource"])?,
            by_group: IntGaugeVec::new(Opts::new("apiserver_resource_objects", help), &["group", "resource"])?,
        })
    }
}

impl Collector for StoredObjects {
    fn desc(&self) -> Vec<&Desc> {
        self.by_name.desc().into_iter().chain(self.by_group.desc()).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let snapshot = self.store.snapshot();
        // Resources that are gone are not told of.
        self.by_name.reset();
        self.by_group.reset();
        for resource in self.resources.load().resources() {
            let Some(storage) = &resource.storage else { continue };
            let count = snapshot.count(storage.namespace_prefix("").as_bytes());
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            let name = resource.group_resource().to_string();
            if let Ok(gauge) = self.by_name.get_metric_with_label_values(&[&name]) {
                gauge.set(count);
            }
            let labels = [resource.group.as_str(), resource.plural.as_str()];
            if let Ok(gauge) = self.by_group.get_metric_with_label_values(&labels) {
                gauge.set(count);
            }
        }
        self.by_name
            .collect()
            .into_iter()
            .chain(self.by_group.collect())
            .collect()
    }
}
