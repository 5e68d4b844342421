//! The kinds of the group `admissionregistration.k8s.io`
//! (<https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/>).

pub(crate) mod client_config;
mod followed_kind;
mod mutating_policy;
mod policy;
mod rules;
mod validating_policy;
mod webhook_configuration;

use std::sync::Arc;

use holdfast_admission::webhooks::Sort;
use holdfast_resource::Strategy;

use crate::config::Config;
use followed_kind::FollowedKind;
use webhook_configuration::WebhookConfiguration;

/// The strategy of a kind of the group that has one.
pub(crate) fn strategy(resource: &str, config: &Config) -> Option<Arc<dyn Strategy>> {
    let policies = Arc::clone(&config.policies);
    let configuration = |sort| WebhookConfiguration {
        sort,
        webhooks: Arc::clone(&config.webhooks),
    };
    Some(match resource {
        "mutatingadmissionpolicies" => Arc::new(FollowedKind {
            policies,
            errors: mutating_policy::policy_errors,
            set: |policies, name, object| policies.mutating.set_policy(name, object),
        }),
        "mutatingadmissionpolicybindings" => Arc::new(FollowedKind {
            policies,
            errors: mutating_policy::binding_errors,
            set: |policies, name, object| policies.mutating.set_binding(name, object),
        }),
        "mutatingwebhookconfigurations" => Arc::new(configuration(Sort::Mutating)),
        "validatingadmissionpolicies" => Arc::new(FollowedKind {
            policies,
            errors: validating_policy::policy_errors,
            set: |policies, name, object| policies.validating.set_policy(name, object),
        }),
        "validatingadmissionpolicybindings" => Arc::new(FollowedKind {
            policies,
            errors: validating_policy::binding_errors,
            set: |policies, name, object| policies.validating.set_binding(name, object),
        }),
        "validatingwebhookconfigurations" => Arc::new(configuration(Sort::Validating)),
        _ => return None,
    })
}
