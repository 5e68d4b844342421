//! The kinds of the group `admissionregistration.k8s.io`
//! (<https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/>).

mod client_config;
mod webhook_configuration;

use std::sync::Arc;

use holdfast_resource::Strategy;

use crate::config::Config;
use crate::webhooks::Sort;
use webhook_configuration::WebhookConfiguration;

/// The strategy of a kind of the group that has one.
pub(crate) fn strategy(resource: &str, config: &Config) -> Option<Arc<dyn Strategy>> {
    let sort = match resource {
        "mutatingwebhookconfigurations" => Sort::Mutating,
        "validatingwebhookconfigurations" => Sort::Validating,
        _ => return None,
    };
    Some(Arc::new(WebhookConfiguration {
        sort,
        webhooks: Arc::clone(&config.webhooks),
    }))
}
