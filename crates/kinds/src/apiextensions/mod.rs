//! Kinds of the API group `apiextensions.k8s.io`.

mod at_rest;
mod custom_resource;
mod customresourcedefinition;
mod define;
mod validation;

use std::sync::Arc;

use holdfast_kind_tables::Kind;
use holdfast_kind_tables::metadata_checks::of_apimachinery;
use holdfast_resource::structural::CompileContext;
use holdfast_resource::{AtRestRules, DeletionRules};

use crate::config::Config;
use crate::kind::kind;

/// Returns the kind of the group with this plural resource name, with its capabilities.
pub(crate) fn kind_of(plural: &str, config: &Config) -> Option<Kind> {
    Some(match plural {
        "customresourcedefinitions" => kind(customresourcedefinition::CustomResourceDefinition {
            compile: CompileContext {
                patterns: config.patterns.clone(),
                timings: Arc::clone(&config.rule_timings),
            },
        })
        .named_by(validation::name_faults)
        .defines()
        // The reference prunes the defaults of schemas after it has counted the generation.
        .counts_dropped_fields()
        .at_rest(AtRestRules {
            kept: Some(at_rest::to_rest),
            read: Some(at_rest::from_rest),
            ..AtRestRules::default()
        })
        .deletion(DeletionRules {
            held: Some(customresourcedefinition::holds_deletion),
            checks_preconditions: true,
            first_marks_alone: true,
            ..DeletionRules::default()
        })
        .metadata_checks(of_apimachinery(0, 1))
        .done(),
        _ => return None,
    })
}
