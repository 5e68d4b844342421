//! Kinds of the API group `apps`.

mod at_rest;
mod controllerrevision;
mod daemonset;
mod deployment;
pub(crate) mod replicaset;
mod statefulset;

use holdfast_kind_tables::Kind;
use holdfast_kind_tables::metadata_checks::of_core;
use holdfast_resource::RowRules;

use crate::config::Config;
use crate::kind::kind;
use crate::workload::TemplateWarnings;

/// Returns the kind of the group with this plural resource name, with its capabilities.
pub(crate) fn kind_of(plural: &str, config: &Config) -> Option<Kind> {
    let config = || config.clone();
    Some(match plural {
        "controllerrevisions" => kind(controllerrevision::ControllerRevision)
            .cells(controllerrevision::CELLS)
            .raw(&[&["data"]], Some("data"))
            .done(),
        "daemonsets" => kind(daemonset::DaemonSet { config: config() })
            .read_by(at_rest::daemonset)
            .rows(RowRules {
                hidden_annotations: &[daemonset::TEMPLATE_GENERATION],
                ..RowRules::default()
            })
            .pod_template(&["spec", "template"], TemplateWarnings::Own)
            .empty_status()
            .metadata_checks(of_core(0, 1))
            .done(),
        "deployments" => kind(deployment::Deployment { config: config() })
            .read_by(at_rest::deployment)
            .pod_template(&["spec", "template"], TemplateWarnings::OfWorkload { names_pods: true })
            .empty_status()
            .metadata_checks(of_core(0, 1))
            .done(),
        "replicasets" => kind(replicaset::ReplicaSet { config: config() })
            .read_by(at_rest::with_selector)
            .pod_template(&["spec", "template"], TemplateWarnings::OfWorkload { names_pods: true })
            .empty_status()
            .metadata_checks(of_core(0, 1))
            .done(),
        "statefulsets" => kind(statefulset::StatefulSet { config: config() })
            .read_by(at_rest::with_selector)
            .pod_template(&["spec", "template"], TemplateWarnings::Own)
            .empty_status()
            .metadata_checks(of_core(0, 1))
            .done(),
        _ => return None,
    })
}
