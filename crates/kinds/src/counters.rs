//! Counters of the built-in kinds and plugins, with the names and labels of kube-apiserver.

use std::sync::Arc;

use holdfast_resource::counters::CounterFamily;

/// Counters that the built-in kinds and plugins share.
#[derive(Clone, Debug)]
pub struct Counters {
    /// Evaluations of Pod Security Standards.
    pub pod_security_evaluations: Arc<CounterFamily>,
    /// Requests that are exempt from Pod Security Standards.
    pub pod_security_exemptions: Arc<CounterFamily>,
    /// Errors that prevent the evaluation of Pod Security Standards, or change what is evaluated.
    pub pod_security_errors: Arc<CounterFamily>,
    /// Issued certificates whose request had a duration.
    pub(crate) csr_requested_durations: Arc<CounterFamily>,
    /// Issued certificates with the duration of their request.
    pub(crate) csr_honored_durations: Arc<CounterFamily>,
}

const POD_SECURITY_REQUEST: [&str; 3] = ["request_operation", "resource", "subresource"];

impl Default for Counters {
    fn default() -> Self {
        let counted = CounterFamily::new(
            "pod_security_evaluations_total",
            "Evaluations of Pod Security Standards, without requests that are ignored or exempt",
            &[
                "decision",
                "policy_level",
                "policy_version",
                "mode",
                "request_operation",
                "resource",
                "subresource",
            ],
        );
        let evaluations = ["create", "update"].iter().fold(counted, |family, operation| {
            family.with_zero(&["allow", "privileged", "latest", "enforce", operation, "pod", ""])
        });
        let exemptions = CounterFamily::new(
            "pod_security_exemptions_total",
            "Requests that are exempt from Pod Security Standards",
            &POD_SECURITY_REQUEST,
        );
        let exempt = [
            ["create", "controller"],
            ["create", "pod"],
            ["update", "controller"],
            ["update", "pod"],
        ];
        let exemptions = exempt.iter().fold(exemptions, |family, [operation, resource]| {
            family.with_zero(&[operation, resource, ""])
        });
        let errors = CounterFamily::new(
            "pod_security_errors_total",
            "Errors in the evaluation of Pod Security Standards",
            &["fatal", "request_operation", "resource", "subresource"],
        );
        let requested = CounterFamily::new(
            "apiserver_certificates_registry_csr_requested_duration_total",
            "Issued certificates whose request specified a duration, by signer",
            &["signerName"],
        );
        let honored = CounterFamily::new(
            "apiserver_certificates_registry_csr_honored_duration_total",
            "Issued certificates with the duration that the request specified, by signer",
            &["signerName"],
        );
        Self {
            pod_security_evaluations: Arc::new(evaluations),
            pod_security_exemptions: Arc::new(exemptions),
            pod_security_errors: Arc::new(errors),
            csr_requested_durations: Arc::new(requested),
            csr_honored_durations: Arc::new(honored),
        }
    }
}

impl Counters {
    /// Returns all families, for the metrics of the server.
    pub fn families(&self) -> Vec<Arc<CounterFamily>> {
        let all = [
            &self.pod_security_evaluations,
            &self.pod_security_exemptions,
            &self.pod_security_errors,
            &self.csr_requested_durations,
            &self.csr_honored_durations,
        ];
        all.map(Arc::clone).into()
    }
}
