//! The kinds of the group `apiregistration.k8s.io`.

mod apiservice;

use std::sync::Arc;

use holdfast_resource::Strategy;

use crate::config::Config;

/// The strategy of a kind of the group that has one.
pub(crate) fn strategy(resource: &str, _config: &Config) -> Option<Arc<dyn Strategy>> {
    match resource {
        "apiservices" => Some(Arc::new(apiservice::ApiService)),
        _ => None,
    }
}
