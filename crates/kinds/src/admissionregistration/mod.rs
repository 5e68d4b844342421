//! The kinds of the group `admissionregistration.k8s.io`
//! (<https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/>).

mod client_config;
mod mutating_policy;
mod policy;
mod rules;
mod validating_policy;
mod webhook_configuration;

use std::sync::Arc;

use holdfast_resource::Strategy;

use crate::config::Config;
use crate::webhooks::Sort;
use mutating_policy::{MutatingPolicy, MutatingPolicyBinding};
use validating_policy::{ValidatingPolicy, ValidatingPolicyBinding};
use webhook_configuration::WebhookConfiguration;

/// The strategy of a kind of the group that has one.
pub(crate) fn strategy(resource: &str, config: &Config) -> Option<Arc<dyn Strategy>> {
    let policies = || Arc::clone(&config.policies);
    let configuration = |sort| WebhookConfiguration {
        sort,
        webhooks: Arc::clone(&config.webhooks),
    };
    Some(match resource {
        "mutatingadmissionpolicies" => Arc::new(MutatingPolicy(policies())),
        "mutatingadmissionpolicybindings" => Arc::new(MutatingPolicyBinding(policies())),
        "mutatingwebhookconfigurations" => Arc::new(configuration(Sort::Mutating)),
        "validatingadmissionpolicies" => Arc::new(ValidatingPolicy(policies())),
        "validatingadmissionpolicybindings" => Arc::new(ValidatingPolicyBinding(policies())),
        "validatingwebhookconfigurations" => Arc::new(configuration(Sort::Validating)),
        _ => return None,
    })
}
