//! Discovery: the served resources, in two forms made from the same [`Catalog`].
//!
//! The older form is one document for each group version ([`legacy`]); the newer is one document for all
//! ([`aggregated`]), which clients cache and revalidate by its ETag.

pub mod aggregated;
mod cache;
mod catalog;
pub mod legacy;

use std::collections::HashMap;

use holdfast_resource::{Registry, Resource, Served, Verb};
use smol_str::SmolStr;

pub(crate) use cache::DocumentCache;
pub use catalog::Catalog;

/// Returns the resources of a group version in the order of discovery: by name.
fn sorted<'a>(registry: &'a Registry, group_version: &'a holdfast_schema::GroupVersion) -> Vec<Served> {
    let mut served: Vec<Served> = registry.served_in(group_version).collect();
    served.sort_by(|a, b| a.resource.plural.cmp(&b.resource.plural));
    served
}

/// Returns the names of verbs, in alphabetical order. Custom resources report them in the listed order.
fn verb_names(resource: &Resource, verbs: &[Verb]) -> Vec<&'static str> {
    let mut names: Vec<&'static str> = verbs.iter().map(|verb| verb.name()).collect();
    if resource.conventions.sorted_discovery {
        names.sort_unstable();
    }
    names
}

/// Returns the groups except the core group, each with its versions, in the order of discovery.
#[expect(clippy::indexing_slicing, reason = "the index was found in this very list")]
fn groups(registry: &Registry) -> Vec<(SmolStr, Vec<SmolStr>)> {
    let mut groups: Vec<(SmolStr, Vec<SmolStr>)> = Vec::new();
    let mut places: HashMap<SmolStr, usize> = HashMap::new();
    for group_version in registry.group_versions() {
        if group_version.group.is_empty() {
            continue;
        }
        let version = group_version.version.clone();
        let at = *places.entry(group_version.group.clone()).or_insert_with(|| {
            groups.push((group_version.group.clone(), Vec::new()));
            groups.len() - 1
        });
        groups[at].1.push(version);
    }
    groups
}

/// Returns the subresources of a resource in the order of discovery.
fn subresources(served: &Served) -> Vec<&holdfast_resource::Subresource> {
    let mut subresources: Vec<_> = served.version().subresources.iter().collect();
    if served.resource.conventions.sorted_discovery {
        subresources.sort_by(|a, b| a.name.cmp(&b.name));
    }
    subresources
}
