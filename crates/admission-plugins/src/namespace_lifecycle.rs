use holdfast_admission::{AdmissionPlugin, Calls, Interest};
use holdfast_resource::{Operation, Rejection, WriteContext};
use holdfast_value::Value;

use crate::common::group_resource;

/// Plugin that rejects creates in a missing or terminating namespace, and the deletion of system namespaces.
pub(super) struct NamespaceLifecycle;

const UNDELETABLE: [&str; 3] = ["default", "kube-system", "kube-public"];

impl AdmissionPlugin for NamespaceLifecycle {
    fn name(&self) -> &'static str {
        "NamespaceLifecycle"
    }

    fn calls(&self) -> Calls {
        Calls::admitting(&[Operation::Create, Operation::Update, Operation::Delete])
    }

    fn interests(&self) -> &[Interest] {
        const {
            &[
                Interest::in_objects("", "namespaces", &[Operation::Delete]),
                Interest {
                    operations: &[Operation::Create],
                    ..Interest::EVERYTHING
                },
            ]
        }
    }

    /// upstream: k8s.io/apiserver/pkg/admission/plugin/namespace/lifecycle#Lifecycle.Admit
    fn mutate(
        &self,
        context: &WriteContext<'_>,
        _object: Option<&mut Value>,
        _old: Option<&Value>,
    ) -> Result<(), Rejection> {
        let of_namespaces = context.resource.group.is_empty() && context.resource.plural == "namespaces";
        if of_namespaces {
            let deletes = context.operation == Operation::Delete;
            return match deletes && UNDELETABLE.contains(&context.name) {
                true => Err(Rejection::forbidden("this namespace may not be deleted")),
                false => Ok(()),
            };
        }
        let asks_for_access = context.resource.group == "authorization.k8s.io";
        if !context.resource.namespaced() || asks_for_access {
            return Ok(());
        }
        let namespaces = group_resource("", "namespaces");
        let Some(namespace) = context.lookup.get(&namespaces, "", context.namespace) else {
            return Err(Rejection::NotFound {
                resource: namespaces,
                name: context.namespace.to_owned(),
            });
        };
        if namespace.str_at(&["status", "phase"]) != Some("Terminating") {
            return Ok(());
        }
        let name = context.namespace;
        Err(Rejection::Forbidden {
            message: format!("unable to create new content in namespace {name} because it is being terminated"),
            causes: vec![(
                "NamespaceTerminating".to_owned(),
                format!("namespace {name} is being terminated"),
                "metadata.namespace".to_owned(),
            )],
        })
    }
}
