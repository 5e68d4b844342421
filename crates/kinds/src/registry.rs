//! Registry of the built-in resources: the rows of the tables with the code of the kinds.

use std::collections::HashSet;
use std::sync::Arc;

use holdfast_kind_tables::{Kind, ResourceTableError, TablesError, all_group_versions, unserved, written_types};
use holdfast_resource::Registry;
use holdfast_schema::{GroupVersion, KindType, KindTypes, TableTypes};

use crate::config::Config;
use crate::{
    admissionregistration, apiextensions, apiregistration, apps, authentication, authorization, autoscaling, batch,
    certificates, coordination, core, discovery, events, flowcontrol, networking, node, policy, rbac, resource,
    scheduling, storage, storageversion, storageversionmigration,
};

/// Returns all built-in resources, in the order of discovery.
///
/// # Errors
/// If the generated table cannot be read, which the tests of this crate rule out.
pub fn registry(config: &Config) -> Result<Registry, TablesError> {
    Ok(registry_with_types(config, &table_types(config)?)?)
}

/// Returns the types of all built-in resources. Servers with the same APIs and features can share them.
///
/// # Errors
/// If the generated table cannot be read, which the tests of this crate rule out.
pub fn table_types(config: &Config) -> Result<Arc<TableTypes>, TablesError> {
    let table = written_types(&config.apis, config.features)?;
    Ok(TableTypes::new(Arc::new(table)))
}

/// Returns all built-in resources, with types that were already read.
///
/// # Errors
/// If the generated table cannot be read, which the tests of this crate rule out.
pub fn registry_with_types(config: &Config, types: &Arc<TableTypes>) -> Result<Registry, ResourceTableError> {
    let mut registry = Registry::builder();
    let kind_of = |group: &str, plural: &str| kind_of(group, plural, config);
    let resources = holdfast_kind_tables::resources(&kind_of, types, &config.apis, config.features)?;
    let versions = || resources.iter().flat_map(|resource| &resource.versions);
    let listed: HashSet<&GroupVersion> = versions().map(|version| &version.group_version).collect();
    for group_version in all_group_versions() {
        if listed.contains(&group_version) {
            registry = registry.group_version(group_version);
        }
    }
    let served: Vec<Arc<dyn KindType>> = versions().map(|version| Arc::clone(&version.kind_type)).collect();
    for resource in resources {
        registry = registry.resource(Arc::new(resource));
    }
    let table = types.table();
    let unserved = unserved().filter(|(version, kind)| table.id_of_object(version, kind).is_none());
    let types = KindTypes::new(types, served.into_iter()).with_unserved(unserved);
    Ok(registry.types(types).build())
}

type GroupKinds = fn(&str, &Config) -> Option<Kind>;

/// Groups with kinds that have their own behaviour.
const GROUPS: [(&str, GroupKinds); 23] = [
    ("", core::kind_of),
    ("admissionregistration.k8s.io", admissionregistration::kind_of),
    ("apiextensions.k8s.io", apiextensions::kind_of),
    ("apiregistration.k8s.io", apiregistration::kind_of),
    ("apps", apps::kind_of),
    ("authentication.k8s.io", authentication::kind_of),
    ("authorization.k8s.io", authorization::kind_of),
    ("autoscaling", autoscaling::kind_of),
    ("batch", batch::kind_of),
    ("certificates.k8s.io", certificates::kind_of),
    ("coordination.k8s.io", coordination::kind_of),
    ("discovery.k8s.io", discovery::kind_of),
    ("events.k8s.io", events::kind_of),
    ("flowcontrol.apiserver.k8s.io", flowcontrol::kind_of),
    ("internal.apiserver.k8s.io", storageversion::kind_of),
    ("networking.k8s.io", networking::kind_of),
    ("node.k8s.io", node::kind_of),
    ("policy", policy::kind_of),
    ("rbac.authorization.k8s.io", rbac::kind_of),
    ("resource.k8s.io", resource::kind_of),
    ("scheduling.k8s.io", scheduling::kind_of),
    ("storage.k8s.io", storage::kind_of),
    ("storagemigration.k8s.io", storageversionmigration::kind_of),
];

/// Returns the code of a kind by its group and plural name.
pub(crate) fn kind_of(group: &str, plural: &str, config: &Config) -> Option<Kind> {
    let (_, of) = GROUPS.iter().find(|(name, _)| *name == group)?;
    of(plural, config)
}
