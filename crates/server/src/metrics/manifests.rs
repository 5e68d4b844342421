//! Metrics of policies and webhooks that are loaded from files.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use prometheus::{GaugeVec, IntCounterVec, IntGaugeVec, Opts};

use super::process::unix_seconds;
use super::{Families, registered};

/// Counters of reloads of admission manifest files, with hashes of the last contents.
#[derive(Clone)]
pub struct ManifestMetrics {
    /// Hash of the name of this server.
    server: Arc<str>,
    reloads: IntCounterVec,
    times: GaugeVec,
    last: IntGaugeVec,
    /// Hash of the manifests that each plugin read last.
    hashes: Arc<Mutex<BTreeMap<&'static str, String>>>,
}

impl ManifestMetrics {
    pub(super) fn new(registry: &Families, server: &str) -> prometheus::Result<Self> {
        const LABELS: [&str; 3] = ["status", "plugin", "apiserver_id_hash"];
        let options = |name: &str, help: &str| {
            Opts::new(
                format!("apiserver_manifest_admission_config_controller_{name}"),
                help.to_owned(),
            )
        };
        Ok(Self {
            server: server.into(),
            reloads: registered(
                registry,
                IntCounterVec::new(
                    options(
                        "automatic_reloads_total",
                        "Reloads of admission manifests, by outcome and plugin",
                    ),
                    &LABELS,
                )?,
            )?,
            times: registered(
                registry,
                GaugeVec::new(
                    options(
                        "automatic_reload_last_timestamp_seconds",
                        "Time of the last reload of admission manifests, by outcome and plugin",
                    ),
                    &LABELS,
                )?,
            )?,
            last: registered(
                registry,
                IntGaugeVec::new(
                    options("last_config_info", "Hash of the admission manifests in force"),
                    &["plugin", "apiserver_id_hash", "hash"],
                )?,
            )?,
            hashes: Arc::default(),
        })
    }

    /// Counts a reload of the plugin's files that failed because they are invalid.
    pub fn failed(&self, plugin: &str) {
        self.count("failure", plugin);
    }

    /// Counts a successful reload of the plugin's files; `hash` identifies their content.
    pub fn loaded(&self, plugin: &'static str, hash: &str) {
        self.count("success", plugin);
        let before = self.hashes.lock().insert(plugin, hash.to_owned());
        if let Some(before) = before {
            // The series may not exist.
            let _ = self.last.remove_label_values(&[plugin, &self.server, &before]);
        }
        if let Ok(gauge) = self.last.get_metric_with_label_values(&[plugin, &self.server, hash]) {
            gauge.set(1);
        }
    }

    fn count(&self, status: &str, plugin: &str) {
        let labels = [status, plugin, &self.server];
        if let Ok(counter) = self.reloads.get_metric_with_label_values(&labels) {
            counter.inc();
        }
        if let Ok(gauge) = self.times.get_metric_with_label_values(&labels) {
            gauge.set(unix_seconds());
        }
    }
}
