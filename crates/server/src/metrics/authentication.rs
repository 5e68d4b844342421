//! Metrics of the authentication configuration and of the issuers of tokens.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use prometheus::{GaugeVec, HistogramOpts, HistogramVec, IntCounterVec, IntGaugeVec, Opts};
use sha2::{Digest as _, Sha256};

use super::process::unix_seconds;
use super::{Families, registered};

/// Buckets of durations in seconds.
const BUCKETS: [f64; 12] = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// Counters of reloads of the authentication configuration, and of the keys and tokens of issuers.
#[derive(Clone)]
pub struct AuthenticationMetrics {
    /// Hash of the name of this server.
    server: Arc<str>,
    reloads: IntCounterVec,
    times: GaugeVec,
    last: IntGaugeVec,
    latency: HistogramVec,
    key_times: GaugeVec,
    last_keys: IntGaugeVec,
    /// Hashes of the last configuration (under the empty name) and of the last keys of each issuer.
    hashes: Arc<Mutex<BTreeMap<String, String>>>,
}

impl AuthenticationMetrics {
    pub(super) fn new(registry: &Families, server: &str) -> prometheus::Result<Self> {
        let config = |name: &str, help: &str| {
            Opts::new(
                format!("apiserver_authentication_config_controller_{name}"),
                help.to_owned(),
            )
        };
        let jwt = |name: &str, help: &str| Opts::new(format!("apiserver_authentication_{name}"), help.to_owned());
        let latency = HistogramOpts::new(
            "apiserver_authentication_jwt_authenticator_latency_seconds",
            "Time to authenticate a token of an issuer that is not cached, by result and issuer",
        );
        let reloads = config(
            "automatic_reloads_total",
            "Reloads of the authentication configuration, by outcome",
        );
        let times = config(
            "automatic_reload_last_timestamp_seconds",
            "Time of the last reload of the authentication configuration, by outcome",
        );
        let last = config("last_config_info", "Hash of the authentication configuration in force");
        let key_times = jwt(
            "jwt_authenticator_jwks_fetch_last_timestamp_seconds",
            "Time of the last fetch of the keys of an issuer, by outcome",
        );
        let last_keys = jwt(
            "jwt_authenticator_jwks_fetch_last_key_set_info",
            "Hash of the last keys of an issuer",
        );
        let status = &["status", "apiserver_id_hash"];
        let result = &["result", "jwt_issuer_hash", "apiserver_id_hash"];
        Ok(Self {
            server: server.into(),
            reloads: registered(registry, IntCounterVec::new(reloads, status)?)?,
            times: registered(registry, GaugeVec::new(times, status)?)?,
            last: registered(registry, IntGaugeVec::new(last, &["apiserver_id_hash", "hash"])?)?,
            latency: registered(
                registry,
                HistogramVec::new(latency.buckets(BUCKETS.to_vec()), &["result", "jwt_issuer_hash"])?,
            )?,
            key_times: registered(registry, GaugeVec::new(key_times, result)?)?,
            last_keys: registered(
                registry,
                IntGaugeVec::new(last_keys, &["jwt_issuer_hash", "apiserver_id_hash", "hash"])?,
            )?,
            hashes: Arc::default(),
        })
    }

    /// Counts a reload that failed.
    pub fn reload_failed(&self) {
        self.count_reload("failure");
    }

    /// Counts a successful reload of a configuration with this text.
    pub fn reloaded(&self, text: &[u8]) {
        self.count_reload("success");
        self.in_force(text);
    }

    /// Records the text of the configuration in force.
    pub fn in_force(&self, text: &[u8]) {
        let hash = hash(text);
        if let Some(before) = self.hashes.lock().insert(String::new(), hash.clone()) {
            // The series may not exist.
            let _ = self.last.remove_label_values(&[&*self.server, &before]);
        }
        if let Ok(gauge) = self.last.get_metric_with_label_values(&[&*self.server, &hash]) {
            gauge.set(1);
        }
    }

    fn count_reload(&self, status: &str) {
        let labels = [status, &*self.server];
        if let Ok(counter) = self.reloads.get_metric_with_label_values(&labels) {
            counter.inc();
        }
        if let Ok(gauge) = self.times.get_metric_with_label_values(&labels) {
            gauge.set(unix_seconds());
        }
    }

    /// Records the authentication of a token of `issuer`.
    pub(crate) fn authenticated(&self, issuer: &str, is_success: bool, elapsed: Duration) {
        let result = if is_success { "success" } else { "failure" };
        if let Ok(histogram) = self
            .latency
            .get_metric_with_label_values(&[result, &hash(issuer.as_bytes())])
        {
            histogram.observe(elapsed.as_secs_f64());
        }
    }

    /// Records a successful fetch of the keys of `issuer`.
    pub(crate) fn keys_fetched(&self, issuer: &str, keys: &[u8]) {
        self.count_fetch("success", issuer);
        let (issuer, hash) = (hash(issuer.as_bytes()), hash(keys));
        if let Some(before) = self.hashes.lock().insert(issuer.clone(), hash.clone()) {
            let _ = self.last_keys.remove_label_values(&[&*issuer, &self.server, &before]);
        }
        if let Ok(gauge) = self
            .last_keys
            .get_metric_with_label_values(&[&*issuer, &self.server, &hash])
        {
            gauge.set(1);
        }
    }

    /// Records a failed fetch of the keys of `issuer`.
    pub(crate) fn keys_failed(&self, issuer: &str) {
        self.count_fetch("failure", issuer);
    }

    fn count_fetch(&self, result: &str, issuer: &str) {
        let labels = [result, &hash(issuer.as_bytes()), &*self.server];
        if let Ok(gauge) = self.key_times.get_metric_with_label_values(&labels) {
            gauge.set(unix_seconds());
        }
    }

    /// Removes the metrics of the keys of an issuer that is no longer configured.
    pub(crate) fn forget_keys(&self, issuer: &str) {
        let issuer = hash(issuer.as_bytes());
        for result in ["success", "failure"] {
            let _ = self.key_times.remove_label_values(&[result, &issuer, &self.server]);
        }
        if let Some(before) = self.hashes.lock().remove(&issuer) {
            let _ = self.last_keys.remove_label_values(&[&*issuer, &self.server, &before]);
        }
    }
}

/// Returns the hash of a text as labels show it; empty for an empty text.
pub(super) fn hash(text: &[u8]) -> String {
    if text.is_empty() {
        return String::new();
    }
    let mut shown = String::from("sha256:");
    for byte in Sha256::digest(text) {
        let _ = write!(shown, "{byte:02x}");
    }
    shown
}

#[cfg(test)]
mod tests {
    use prometheus::TextEncoder;

    use super::*;

    #[test]
    fn only_the_last_configuration_and_keys_are_shown() {
        let registry = Families::default();
        let metrics = AuthenticationMetrics::new(&registry, "sha256:me").unwrap();
        metrics.in_force(b"a");
        metrics.reloaded(b"b");
        metrics.reload_failed();
        metrics.keys_fetched("https://a", b"1");
        metrics.keys_fetched("https://a", b"2");
        metrics.authenticated("https://a", true, Duration::from_millis(3));
        let text = || TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
        let lines = |name: &str| text().lines().filter(|line| line.starts_with(name)).count();
        for (name, number) in [
            ("apiserver_authentication_config_controller_automatic_reloads_total{", 2),
            ("apiserver_authentication_config_controller_last_config_info{", 1),
            (
                "apiserver_authentication_jwt_authenticator_jwks_fetch_last_key_set_info{",
                1,
            ),
            ("apiserver_authentication_jwt_authenticator_latency_seconds_count{", 1),
        ] {
            assert_eq!(lines(name), number, "{name}: {}", text());
        }
        metrics.forget_keys("https://a");
        assert_eq!(lines("apiserver_authentication_jwt_authenticator_jwks"), 0);
    }
}
