//! Metrics of the server, for Prometheus (<https://kubernetes.io/docs/reference/instrumentation/metrics/>).
//!
//! The names and labels are those of kube-apiserver, which dashboards and alerts rely on. Every request is counted: one
//! lookup in a table finds its counters, and counting adds to numbers.

mod admission;
mod aggregation;
mod audit;
mod authentication;
mod authorization;
mod conditions;
mod conversions;
mod egress;
mod etcd;
mod external_signer;
mod fairness;
mod families;
mod features;
mod identities;
mod kinds;
mod lists;
mod manifests;
mod policies;
mod process;
mod queues;
mod requests;
mod rules;
mod stability;
mod stored;
mod watches;
mod webhooks;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use holdfast_admission::timings::Timings;
use holdfast_resource::Registry;
use holdfast_resource::conversion::WebhookFailureKind;
use holdfast_resource::counters::CounterFamily;
use holdfast_structural::RuleTimings;
use http::{HeaderValue, StatusCode, header};
use prometheus::core::Collector;
use prometheus::{IntCounter, IntGaugeVec, Opts, TextEncoder};

use crate::http::ApiError;
use crate::http::response::{self, Response};
use crate::objects::Store;
use crate::runtime::version::{Build, VersionInfo};
use crate::wire::fairness::Fairness;
use crate::wire::in_flight::InFlight;

use aggregation::Aggregation;
pub use audit::AuditCounters;
pub use authentication::AuthenticationMetrics;
pub use authorization::AuthorizationMetrics;
pub(crate) use conditions::ConditionLabels;
use conditions::Conditions;
use conversions::Conversions;
pub use egress::EgressMetrics;
pub use etcd::EtcdCalls;
pub use external_signer::SignerMetrics;
use families::Families;
pub use families::Family;
pub(crate) use identities::Identities;
use lists::Lists;
pub(crate) use lists::Tally;
pub use manifests::ManifestMetrics;
use policies::Policies;
pub use queues::QueueMetrics;
use queues::Queues;
pub(crate) use requests::{Recording, Requests};
use watches::Watches;
pub(crate) use watches::{ListedWatch, ShardedWatch};
pub(crate) use webhooks::WebhookLabels;
use webhooks::Webhooks;

/// Content type of the text format, as Prometheus requests it and the reference names it.
const CONTENT_TYPE: HeaderValue =
    HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8; escaping=underscores");

/// The metrics of the server.
pub struct Metrics {
    families: Families,
    audit: AuditCounters,
    requests: Requests,
    deprecated: IntGaugeVec,
    in_flight: IntGaugeVec,
    handshake_errors: IntCounter,
    identities: Identities,
    conditions: Conditions,
    conversions: Conversions,
    lists: Lists,
    policies: Policies,
    webhooks: Webhooks,
    queues: Queues,
    watches: Watches,
    aggregation: Aggregation,
}

impl Metrics {
    /// Creates counters that start at zero.
    ///
    /// # Errors
    /// If two metrics have the same name, which is a bug of this code.
    pub fn new() -> prometheus::Result<Self> {
        let families = Families::default();
        let metrics = Self {
            audit: AuditCounters::new(&families)?,
            requests: Requests::new(&families)?,
            conditions: Conditions::new(&families)?,
            conversions: Conversions::new(&families)?,
            lists: Lists::new(&families)?,
            webhooks: Webhooks::new(&families)?,
            queues: Queues::new(&families)?,
            watches: Watches::new(&families)?,
            aggregation: Aggregation::new(&families)?,
            deprecated: registered(
                &families,
                IntGaugeVec::new(
                    Opts::new(
                        "apiserver_requested_deprecated_apis",
                        "Deprecated APIs that have been requested, with the release that removes them",
                    ),
                    &["group", "removed_release", "resource", "subresource", "version"],
                )?,
            )?,
            in_flight: registered(
                &families,
                IntGaugeVec::new(
                    Opts::new(
                        "apiserver_current_inflight_requests",
                        "Requests in progress, without long-running requests such as watches",
                    ),
                    &["request_kind"],
                )?,
            )?,
            handshake_errors: registered(
                &families,
                IntCounter::new(
                    "apiserver_tls_handshake_errors_total",
                    "Connections whose TLS handshake failed",
                )?,
            )?,
            identities: Identities::new(&families)?,
            policies: Policies::new(&families)?,
            families,
        };
        metrics.families.register(process::Process::new()?)?;
        let numbers = metrics.families.numbers();
        for family in fairness::families() {
            numbers.add(&family.name);
        }
        metrics.families.register(stability::Registered::new(numbers)?)?;
        Ok(metrics)
    }

    /// Counts the objects of `store` when metrics are scraped.
    ///
    /// # Errors
    /// If two metrics have the same name, as for [`Metrics::new`].
    pub fn count_objects(&self, store: Arc<Store>, resources: Arc<ArcSwap<Registry>>) -> prometheus::Result<()> {
        if let Some(size) = stored::SizeOnDisk::new(&store)? {
            self.families.register(size)?;
        }
        self.families.register(stored::StoredObjects::new(store, resources)?)
    }

    /// Exposes the durations of admission in `timings`.
    ///
    /// # Errors
    /// If two metrics have the same name, as for [`Metrics::new`].
    pub fn time_admission(&self, timings: Arc<Timings>) -> prometheus::Result<()> {
        self.families.register(admission::Admission::new(Some(timings))?)
    }

    /// Exposes the durations of the rules of custom resources in `timings`.
    ///
    /// # Errors
    /// If two metrics have the same name, as for [`Metrics::new`].
    pub fn time_rules(&self, timings: Arc<RuleTimings>) -> prometheus::Result<()> {
        self.families.register(rules::Rules::new(timings)?)
    }

    /// Exposes counters that kinds and admission plugins keep.
    ///
    /// # Errors
    /// If two metrics have the same name, as for [`Metrics::new`].
    pub fn count_kinds(&self, families: Vec<Arc<CounterFamily>>) -> prometheus::Result<()> {
        self.families.register(kinds::KindCounters::new(families)?)
    }

    /// Exposes the counters of `calls`.
    ///
    /// # Errors
    /// If two metrics have the same name, as for [`Metrics::new`].
    pub fn count_etcd(&self, calls: EtcdCalls) -> prometheus::Result<()> {
        calls.register(&self.families)
    }

    /// Returns the counters of audit events.
    pub fn audit(&self) -> &AuditCounters {
        &self.audit
    }

    /// Returns the counters of requests.
    pub(crate) fn requests(&self) -> &Requests {
        &self.requests
    }

    /// Returns the counters of admission policies.
    pub(crate) fn policies(&self) -> &Policies {
        &self.policies
    }

    /// Returns the counters of match conditions.
    pub(crate) fn conditions(&self) -> &Conditions {
        &self.conditions
    }

    /// Returns the counters of lists.
    pub(crate) fn lists(&self) -> &Lists {
        &self.lists
    }

    /// Returns the counters of watches.
    pub(crate) fn watches(&self) -> &Watches {
        &self.watches
    }

    /// Returns the counters of webhooks.
    pub(crate) fn webhooks(&self) -> &Webhooks {
        &self.webhooks
    }

    /// Returns the metrics of the queue of a controller.
    ///
    /// # Errors
    /// If two metrics have the same name, as for [`Metrics::new`].
    pub fn queue(&self, name: &str) -> prometheus::Result<QueueMetrics> {
        self.queues.queue(name)
    }

    /// Returns the counters of aggregated servers.
    pub(crate) fn aggregation(&self) -> &Aggregation {
        &self.aggregation
    }

    /// Records a request for a deprecated API: its group, the release that removes it, the resource, the subresource
    /// and the version.
    pub(crate) fn deprecated(&self, labels: [&str; 5]) {
        if let Ok(gauge) = self.deprecated.get_metric_with_label_values(&labels) {
            gauge.set(1);
        }
    }

    /// Counts a failed TLS handshake.
    pub(crate) fn handshake_failed(&self) {
        self.handshake_errors.inc();
    }

    /// Returns the counters of authentication and authorization.
    pub(crate) fn identities(&self) -> &Identities {
        &self.identities
    }

    /// Counts a call of the webhook that converts the objects of a CRD from one version to another.
    pub(crate) fn converted(
        &self,
        crd: &str,
        versions: [&str; 2],
        failure: Option<WebhookFailureKind>,
        elapsed: Duration,
    ) {
        self.conversions.count(crd, versions, failure, elapsed);
    }

    /// Returns the response of `/metrics`: all metrics as text.
    pub(crate) fn respond(&self, in_flight: &InFlight, levels: Option<&Fairness>) -> Result<Response, ApiError> {
        let statistics = levels.map(Fairness::statistics);
        let now = match &statistics {
            Some(statistics) => fairness::executing(statistics),
            None => in_flight.now(),
        };
        for (kind, now) in now {
            if let Ok(gauge) = self.in_flight.get_metric_with_label_values(&[kind]) {
                gauge.set(now);
            }
        }
        self.queues.measure();
        let encoded = TextEncoder::new().encode_to_string(&self.families.gather());
        let mut text = encoded.map_err(|error| ApiError::internal(error.to_string()))?;
        if let Some(statistics) = &statistics {
            fairness::write(statistics, &mut text);
        }
        Ok(page(self.families.without_disabled(text)))
    }

    /// Leaves out the metrics with these names. Only the first call has an effect.
    pub fn disable(&self, names: BTreeSet<String>) {
        self.families.disable(names);
    }

    /// Exposes feature gates: the name, the stage, and true for each that is enabled.
    ///
    /// # Errors
    /// If two metrics have the same name, as for [`Metrics::new`].
    pub fn record_features(
        &self,
        gates: impl Iterator<Item = (&'static str, &'static str, bool)>,
    ) -> prometheus::Result<()> {
        let features = features::EnabledFeatures::new(gates.collect())?;
        self.families.register(features)
    }

    /// Exposes the reloads of admission manifest files by the server whose name has this hash.
    ///
    /// # Errors
    /// If two metrics have the same name, as for [`Metrics::new`].
    pub fn follow_manifests(&self, server: &str) -> prometheus::Result<ManifestMetrics> {
        ManifestMetrics::new(&self.families, server)
    }

    /// Exposes the authentication configuration of the server whose name has this hash, and the issuers of tokens.
    ///
    /// # Errors
    /// If two metrics have the same name, as for [`Metrics::new`].
    pub fn follow_authentication(&self, server: &str) -> prometheus::Result<AuthenticationMetrics> {
        AuthenticationMetrics::new(&self.families, server)
    }

    /// Exposes the authorizers of the server whose name has this hash.
    ///
    /// # Errors
    /// If two metrics have the same name, as for [`Metrics::new`].
    pub fn follow_authorization(&self, server: &str) -> prometheus::Result<AuthorizationMetrics> {
        AuthorizationMetrics::new(&self.families, server)
    }

    /// Exposes the calls of the external signer of tokens.
    ///
    /// # Errors
    /// If two metrics have the same name, as for [`Metrics::new`].
    pub fn count_signatures(&self, signer: &SignerMetrics) -> prometheus::Result<()> {
        signer.register(&self.families)
    }

    /// Exposes the connections through proxies.
    ///
    /// # Errors
    /// If two metrics have the same name, as for [`Metrics::new`].
    pub fn count_dials(&self, egress: &EgressMetrics) -> prometheus::Result<()> {
        egress.register(&self.families)
    }

    /// Exposes the build information.
    ///
    /// # Errors
    /// If two metrics have the same name, as for [`Metrics::new`].
    pub fn record_build(&self, build: &Build) -> prometheus::Result<()> {
        let version = VersionInfo::new(build);
        let (names, values) = version.labels();
        let opts = Opts::new("kubernetes_build_info", "Build information; the value is always 1");
        let gauge = registered(&self.families, IntGaugeVec::new(opts, &names)?)?;
        gauge.get_metric_with_label_values(&values)?.set(1);
        Ok(())
    }
}

/// Metrics of `/metrics/slis`.
const HEALTHCHECK: &str = "kubernetes_healthcheck";
const HEALTHCHECK_HELP: &str = "Health checks of the server: 1 if successful";
const HEALTHCHECKS: &str = "kubernetes_healthchecks_total";
const HEALTHCHECKS_HELP: &str = "Runs of health checks, by result";

/// Result of a health check, and the number of runs by an endpoint.
pub(crate) struct ServiceLevel<'a> {
    pub(crate) endpoint: &'a str,
    pub(crate) check: &'a str,
    pub(crate) well: bool,
    pub(crate) failures: u64,
    pub(crate) successes: u64,
}

/// Returns every metric that a server may expose, in the order of their names. `kinds` are the counters of the kinds
/// and plugins.
///
/// # Errors
/// If two metrics have the same name, as for [`Metrics::new`].
pub fn families(kinds: Vec<Arc<CounterFamily>>) -> prometheus::Result<Vec<Family>> {
    let metrics = Metrics::new()?;
    metrics.record_build(&Build::default())?;
    metrics.record_features(std::iter::empty())?;
    metrics.count_etcd(EtcdCalls::new(Arc::default())?)?;
    metrics.families.register(stored::Counts::new()?)?;
    metrics.families.register(admission::Admission::new(None)?)?;
    metrics.time_rules(Arc::default())?;
    metrics.count_kinds(kinds)?;
    metrics.follow_authentication("")?;
    metrics.follow_authorization("")?;
    metrics.count_signatures(&SignerMetrics::new()?)?;
    metrics.count_dials(&EgressMetrics::new()?)?;
    let mut families = metrics.families.known();
    families.extend(fairness::families());
    for (name, kind, labels, help) in [
        (HEALTHCHECK, "gauge", &["name", "type"][..], HEALTHCHECK_HELP),
        (HEALTHCHECKS, "counter", &["name", "status", "type"], HEALTHCHECKS_HELP),
    ] {
        families.push(Family {
            name: name.to_owned(),
            kind,
            stability: stability::stability(name),
            labels: labels.iter().map(|label| (*label).to_owned()).collect(),
            help: help.to_owned(),
        });
    }
    families.sort_unstable();
    Ok(families)
}

/// Returns the response of `/metrics/slis`: the health checks as metrics, by their outcome.
pub(crate) fn service_levels<'a>(checks: impl Iterator<Item = ServiceLevel<'a>>) -> Response {
    let help = stability::help_text(HEALTHCHECK, HEALTHCHECK_HELP);
    let mut text = format!("# HELP {HEALTHCHECK} {help}\n# TYPE {HEALTHCHECK} gauge\n");
    let help = stability::help_text(HEALTHCHECKS, HEALTHCHECKS_HELP);
    let mut runs = format!("# HELP {HEALTHCHECKS} {help}\n# TYPE {HEALTHCHECKS} counter\n");
    for level in checks {
        let ServiceLevel { endpoint, check, .. } = level;
        let well = u8::from(level.well);
        text.push_str(&format!(
            "{HEALTHCHECK}{{name=\"{check}\",type=\"{endpoint}\"}} {well}\n"
        ));
        for (status, number) in [("error", level.failures), ("success", level.successes)] {
            if number > 0 {
                let labels = format!("name=\"{check}\",status=\"{status}\",type=\"{endpoint}\"");
                runs.push_str(&format!("{HEALTHCHECKS}{{{labels}}} {number}\n"));
            }
        }
    }
    page(text + &runs)
}

fn page(text: String) -> Response {
    let mut response = response::bytes(StatusCode::OK, CONTENT_TYPE, text.into_bytes());
    let headers = response.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// Registers `metric` and returns it.
fn registered<M: Collector + Clone + 'static>(families: &Families, metric: M) -> prometheus::Result<M> {
    families.register(metric.clone())?;
    Ok(metric)
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    async fn text(response: Response) -> String {
        assert_eq!(response.headers()["content-type"], CONTENT_TYPE);
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    #[tokio::test]
    async fn counters_have_the_names_of_the_reference() {
        let metrics = Metrics::new().unwrap();
        metrics.record_build(&Build::default()).unwrap();
        metrics.deprecated(["", "", "endpoints", "", "v1"]);
        metrics.handshake_failed();
        let elapsed = Duration::from_millis(3);
        metrics.converted("as.x.io", ["v1", "v2"], None, elapsed);
        metrics.converted("as.x.io", ["v1", "v2"], Some(WebhookFailureKind::Count), elapsed);
        let in_flight = Arc::new(InFlight::new(2, 1));
        let place = in_flight.enter(&Arc::default(), false, false);
        let text = text(metrics.respond(&in_flight, None).unwrap()).await;
        drop(place);
        for line in [
            "apiserver_requested_deprecated_apis{group=\"\",removed_release=\"\",resource=\"endpoints\",subresource=\"\",version=\"v1\"} 1\n",
            "apiserver_tls_handshake_errors_total 1\n",
            "apiserver_conversion_webhook_request_total{failure_type=\"\",result=\"success\"} 1\n",
            "apiserver_conversion_webhook_duration_seconds_count{failure_type=\"conversion_webhook_partial_response_failure\",result=\"failure\"} 1\n",
            "apiserver_crd_conversion_webhook_duration_seconds_bucket{crd_name=\"as.x.io\",from_version=\"v1\",succeeded=\"true\",to_version=\"v2\",le=\"0.004\"} 1\n",
            "apiserver_current_inflight_requests{request_kind=\"readOnly\"} 1\n",
            "apiserver_current_inflight_requests{request_kind=\"mutating\"} 0\n",
            "# TYPE process_cpu_seconds_total counter\n",
            "git_version=\"v1.36.2+holdfast.",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
    }

    #[tokio::test]
    async fn disabled_metrics_are_left_out_and_counted() {
        let metrics = Metrics::new().unwrap();
        metrics.handshake_failed();
        let disabled = [
            "apiserver_tls_handshake_errors_total",
            "apiserver_current_inflight_requests",
        ];
        metrics.disable(disabled.map(str::to_owned).into());
        let text = text(metrics.respond(&InFlight::new(2, 1), None).unwrap()).await;
        assert!(text.contains("\ndisabled_metrics_total 2\n"), "{text}");
        assert!(text.contains("\nprocess_cpu_seconds_total "), "{text}");
        for name in disabled {
            assert!(!text.contains(name), "{name}: {text}");
        }
    }

    #[tokio::test]
    async fn checks_are_shown_with_their_outcome() {
        let level = |check, well, failures, successes| ServiceLevel {
            endpoint: "readyz",
            check,
            well,
            failures,
            successes,
        };
        let checks = [level("ping", true, 0, 2), level("etcd", false, 0, 0)];
        let text = text(service_levels(checks.into_iter())).await;
        for lines in [
            "kubernetes_healthcheck{name=\"ping\",type=\"readyz\"} 1\nkubernetes_healthcheck{name=\"etcd\",type=\"readyz\"} 0\n",
            "counter\nkubernetes_healthchecks_total{name=\"ping\",status=\"success\",type=\"readyz\"} 2\n",
        ] {
            assert!(text.contains(lines), "{text}");
        }
    }
}
