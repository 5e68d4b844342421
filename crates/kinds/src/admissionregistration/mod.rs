//! Kinds of the API group `admissionregistration.k8s.io`
//! (<https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/>).

pub(crate) mod client_config;
mod followed_kind;
mod json_path;
mod mutating_policy;
pub(crate) mod policy;
mod rules;
mod static_names;
mod validating_policy;
mod webhook_configuration;

use std::sync::Arc;

use holdfast_admission::webhooks::WebhookType;
use holdfast_kind_tables::Kind;
use holdfast_kind_tables::metadata_checks::{of_apimachinery, with_status};

use crate::config::Config;
use crate::kind::kind;
use crate::versions::Versions;
use followed_kind::FollowedKind;
use static_names::StaticNames;
use webhook_configuration::WebhookConfiguration;

/// API versions of mutating policies and their bindings.
const VERSIONS: Versions = Versions::alike(&[
    "admissionregistration.k8s.io/v1",
    "admissionregistration.k8s.io/v1beta1",
    "admissionregistration.k8s.io/v1alpha1",
]);

/// Returns the kind of the group with this plural resource name, with its capabilities.
pub(crate) fn kind_of(plural: &str, config: &Config) -> Option<Kind> {
    let policies = Arc::clone(&config.policies);
    let configuration = |webhook_type| {
        let webhooks = Arc::clone(&config.webhooks);
        kind(WebhookConfiguration {
            webhook_type,
            webhooks,
            static_names: StaticNames::from_config(config),
        })
        .followed()
        .exempt_from_webhooks()
        .but_from_those_of_files()
        .metadata_checks(with_status(of_apimachinery(1, 0), 0, 0))
        .done()
    };
    let policy = |errors, set| {
        let followed = FollowedKind {
            policies,
            errors,
            set,
            static_names: StaticNames::from_config(config),
        };
        kind(followed)
            .followed()
            .exempt_from_policies()
            .exempt_from_webhooks()
            .but_from_those_of_files()
            .cells(policy::CELLS)
            .converts_by(config, "admissionregistration.k8s.io", VERSIONS)
            .metadata_checks(with_status(of_apimachinery(1, 0), 0, 0))
            .done()
    };
    Some(match plural {
        "mutatingadmissionpolicies" => policy(mutating_policy::policy_errors, |policies, name, object| {
            policies.mutating.set_policy(name, object)
        }),
        "mutatingadmissionpolicybindings" => policy(mutating_policy::binding_errors, |policies, name, object| {
            policies.mutating.set_binding(name, object)
        }),
        "mutatingwebhookconfigurations" => configuration(WebhookType::Mutating),
        "validatingadmissionpolicies" => policy(validating_policy::policy_errors, |policies, name, object| {
            policies.validating.set_policy(name, object)
        }),
        "validatingadmissionpolicybindings" => policy(validating_policy::binding_errors, |policies, name, object| {
            policies.validating.set_binding(name, object)
        }),
        "validatingwebhookconfigurations" => configuration(WebhookType::Validating),
        _ => return None,
    })
}
