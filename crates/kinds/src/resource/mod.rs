//! Kinds of the API group `resource.k8s.io`: devices that Pods claim
//! (<https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/>).

mod admin_access;
mod allocation;
mod at_rest;
mod device;
mod deviceclass;
mod devicetaintrule;
mod names;
mod request_policy;
mod requests;
mod resourceclaim;
mod resourceclaimtemplate;
mod resourcepoolstatusrequest;
mod resourceslice;
mod selectors;
mod status_rights;
mod versions;

use holdfast_kind_tables::Kind;
use holdfast_kind_tables::metadata_checks::{COMMON_CHECKS, at_creation, generating_any_name, in_order, of_core};
use holdfast_resource::{CreationChecks, SelectorWords, UpdateOrder};

use crate::config::Config;
use crate::kind::kind;
use crate::quota;

const GROUP: &str = "resource.k8s.io";

/// Returns the kind of the group with this plural resource name, with its capabilities.
pub(crate) fn kind_of(plural: &str, config: &Config) -> Option<Kind> {
    Some(match plural {
        "deviceclasses" => kind(deviceclass::DeviceClass)
            .raw(&[&["spec", "config", "opaque", "parameters"]], None)
            .converts_by(config, GROUP, versions::CLASSES)
            .metadata_checks(generating_any_name(in_order(UpdateOrder::WholeFirst, COMMON_CHECKS)))
            .done(),
        "resourceclaims" => kind(resourceclaim::ResourceClaim {
            features: config.features,
        })
        .cells(resourceclaim::CELLS)
        .raw(&[&["spec", "devices", "config", "opaque", "parameters"]], Some("spec"))
        .raw_in_status(&[
            &["status", "allocation", "devices", "config", "opaque", "parameters"],
            &["status", "devices", "data"],
        ])
        .takes_of_quotas(quota::DeviceClaims)
        .empty_status()
        .read_by(at_rest::claim)
        .converts_by(config, GROUP, versions::CLAIMS)
        .metadata_checks(in_order(
            UpdateOrder::WholeFirst,
            at_creation(COMMON_CHECKS, CreationChecks::Own),
        ))
        .done(),
        "resourceclaimtemplates" => kind(resourceclaimtemplate::ResourceClaimTemplate)
            .raw(
                &[&["spec", "spec", "devices", "config", "opaque", "parameters"]],
                Some("spec"),
            )
            .read_by(at_rest::template)
            .converts_by(config, GROUP, versions::TEMPLATES)
            .metadata_checks(in_order(
                UpdateOrder::ObjectFirst,
                at_creation(COMMON_CHECKS, CreationChecks::Own),
            ))
            .done(),
        "resourceslices" => kind(resourceslice::ResourceSlice)
            .selector_words(SelectorWords::NamesVersion)
            .metadata_checks(of_core(0, 1))
            .converts_by(config, GROUP, versions::SLICES)
            .counts_dropped_fields()
            .done(),
        "devicetaintrules" => kind(devicetaintrule::DeviceTaintRule)
            .empty_status()
            .converts_by(config, GROUP, versions::TAINT_RULES)
            .done(),
        "resourcepoolstatusrequests" => kind(resourcepoolstatusrequest::ResourcePoolStatusRequest)
            .cells(resourcepoolstatusrequest::CELLS)
            .done(),
        _ => return None,
    })
}
