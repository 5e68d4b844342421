//! Kinds of the API group `flowcontrol.apiserver.k8s.io`
//! (<https://kubernetes.io/docs/concepts/cluster-administration/flow-control/>).

mod flowschema;
mod initial;
mod prioritylevelconfiguration;

use std::collections::HashSet;

use holdfast_kind_tables::Kind;
use holdfast_kind_tables::metadata_checks::{of_core, with_status};
use holdfast_resource::{InitialObjects, Strategy, WriteContext};
use holdfast_schema::{Field, FieldError};
use holdfast_value::Value;

use self::flowschema::SchemaRules;
use self::prioritylevelconfiguration::LevelRules;
use crate::config::Config;
use crate::kind::kind;
use crate::validation::Errors;

/// Returns the kind of the group with this plural resource name, with its capabilities.
pub(crate) fn kind_of(plural: &str, _config: &Config) -> Option<Kind> {
    Some(match plural {
        "flowschemas" => kind(FlowControl {
            initial_objects: initial::schemas,
            check: |context, object, name| context.check(object, &SchemaRules { name }),
            forbidden_annotation: None,
            untyped_condition: "must not be empty",
        })
        .initial_objects()
        .empty_status()
        .metadata_checks(with_status(of_core(1, 0), 0, 0))
        .done(),
        "prioritylevelconfigurations" => kind(FlowControl {
            initial_objects: initial::levels,
            check: |context, object, name| context.check(object, &LevelRules { name }),
            forbidden_annotation: Some("flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares"),
            untyped_condition: "",
        })
        .initial_objects()
        .empty_status()
        .metadata_checks(with_status(of_core(1, 0), 0, 0))
        .done(),
        _ => return None,
    })
}

/// Strategy that the kinds of the group share.
struct FlowControl {
    initial_objects: fn() -> Vec<Value>,
    /// Function that validates the spec of an object with the given name.
    check: fn(&WriteContext<'_>, &Value, &str) -> Errors,
    /// Annotation that only conversion may set.
    forbidden_annotation: Option<&'static str>,
    /// Error message for a condition without a type.
    untyped_condition: &'static str,
}

impl Strategy for FlowControl {
    /// upstream: pkg/registry/flowcontrol/flowschema#flowSchemaStrategy.Validate
    /// upstream: pkg/registry/flowcontrol/prioritylevelconfiguration#priorityLevelConfigurationStrategy.Validate
    fn validate(&self, context: &WriteContext<'_>, object: &Value) -> Vec<FieldError> {
        let root = Field::root(object);
        let name = object.str_at(&["metadata", "name"]).unwrap_or_default();
        let mut errors = Errors::new();
        let (metadata, spec) = (root.child("metadata"), root.child("spec"));
        let annotations = metadata.child("annotations");
        if let Some(forbidden) = self
            .forbidden_annotation
            .filter(|name| annotations.entry(name).is_set())
        {
            errors.push(annotations.forbidden(format!("annotation '{forbidden}' is forbidden")));
        }
        errors.extend((self.check)(context, object, name));
        if initial::differs_from_fixed(object) {
            errors.push(spec.invalid(format!("spec of '{name}' must equal the fixed value")));
        }
        self.validate_conditions(&root, &mut errors);
        errors
    }

    /// upstream: pkg/registry/flowcontrol/flowschema#flowSchemaStrategy.ValidateUpdate
    /// upstream: pkg/registry/flowcontrol/prioritylevelconfiguration#priorityLevelConfigurationStrategy.ValidateUpdate
    fn validate_update(&self, context: &WriteContext<'_>, object: &Value, _old: &Value) -> Vec<FieldError> {
        if context.subresource == Some("status") {
            let mut errors = Errors::new();
            self.validate_conditions(&Field::root(object), &mut errors);
            return errors;
        }
        self.validate(context, object)
    }
}

impl InitialObjects for FlowControl {
    fn initial_objects(&self) -> Vec<Value> {
        (self.initial_objects)()
    }

    fn reconcile(&self, stored: &Value, initial: &Value) -> Option<Value> {
        initial::reconcile(stored, initial)
    }

    fn is_obsolete(&self, stored: &Value) -> bool {
        initial::updates_itself(stored) == Some(true) && !initial::has((self.initial_objects)(), stored)
    }

    fn field_manager(&self) -> Option<&'static str> {
        Some("api-priority-and-fairness-config-producer-v1")
    }
}

impl FlowControl {
    /// Reports conditions without a type, and duplicate types.
    ///
    /// upstream: pkg/apis/flowcontrol/validation#ValidateFlowSchemaStatus
    /// upstream: pkg/apis/flowcontrol/validation#ValidatePriorityLevelConfigurationStatus
    fn validate_conditions(&self, object: &Field<'_, '_>, errors: &mut Errors) {
        let status = object.child("status");
        let mut types = HashSet::new();
        for condition in status.child("conditions").items() {
            let type_field = condition.child("type");
            if !types.insert(type_field.text()) {
                errors.push(FieldError::duplicate(&type_field.path(), type_field.text()));
            }
            if type_field.text().is_empty() {
                errors.push(type_field.required(self.untyped_condition));
            }
        }
    }
}

/// Name of the FlowSchema and priority level of requests that are never queued.
const EXEMPT: &str = "exempt";
