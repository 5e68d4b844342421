//! Kinds of the API group `batch`.

mod cronjob;
mod job;
mod schedule;

use holdfast_kind_tables::Kind;
use holdfast_kind_tables::metadata_checks::{COMMON_CHECKS, in_order, of_core, with_status};
use holdfast_resource::{DeletionRules, SelectorWords, UpdateOrder};

use crate::config::Config;
use crate::kind::kind;
use crate::workload::TemplateWarnings;

/// Returns the kind of the group with this plural resource name, with its capabilities.
pub(crate) fn kind_of(plural: &str, config: &Config) -> Option<Kind> {
    let config = config.clone();
    Some(match plural {
        "cronjobs" => kind(cronjob::CronJob { config })
            .cells(cronjob::CELLS)
            .pod_template(&cronjob::TEMPLATE, TemplateWarnings::Own)
            .empty_status()
            .metadata_checks(with_status(of_core(0, 1), 0, 0))
            .done(),
        "jobs" => kind(job::Job { config })
            .kept_by(job::to_rest)
            .cells(job::CELLS)
            .deletion(DeletionRules {
                warning: Some(job::DELETION_WARNING),
                ..DeletionRules::default()
            })
            .selector_words(SelectorWords::NamesKind)
            .pod_template(&["spec", "template"], TemplateWarnings::Own)
            .empty_status()
            .metadata_checks(in_order(UpdateOrder::ObjectFirst, COMMON_CHECKS))
            .done(),
        _ => return None,
    })
}
