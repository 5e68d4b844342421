//! The kinds of the group `flowcontrol.apiserver.k8s.io`
//! (<https://kubernetes.io/docs/concepts/cluster-administration/flow-control/>).

mod flowschema;
mod initial;
mod prioritylevelconfiguration;

use std::collections::HashSet;
use std::sync::Arc;

use holdfast_resource::{Field, FieldError, Strategy};

use crate::config::Config;
use crate::validation::Errors;

/// The strategy of a kind of the group that has one.
pub(crate) fn strategy(resource: &str, _config: &Config) -> Option<Arc<dyn Strategy>> {
    Some(match resource {
        "flowschemas" => Arc::new(flowschema::FlowSchema),
        "prioritylevelconfigurations" => Arc::new(prioritylevelconfiguration::PriorityLevelConfiguration),
        _ => return None,
    })
}

/// The name of the schema and of the level of what is never held up.
const EXEMPT: &str = "exempt";

/// Reports conditions without a type, and types that stand there twice.
fn validate_conditions(object: &Field<'_, '_>, errors: &mut Errors) {
    let status = object.child("status");
    let mut types = HashSet::new();
    for condition in status.child("conditions").items() {
        let sort = condition.child("type");
        if !types.insert(sort.text()) {
            errors.push(FieldError::duplicate(&sort.path(), sort.text()));
        }
        if sort.text().is_empty() {
            errors.push(sort.required("must not be empty"));
        }
    }
}
