//! Tables of the types of the built-in kinds.

/// A group, a version, and the table of its types.
macro_rules! more {
    ($group:literal, $package:literal, $version:literal) => {
        (
            $group,
            $version,
            include_str!(concat!(env!("OUT_DIR"), "/more/", $package, ".", $version, ".txt")),
        )
    };
}

use holdfast_resource::version_order;
use holdfast_schema::RuleNames;
use holdfast_schema::types::{TextError, TypeTable};
use smol_str::SmolStr;

use crate::apis::Apis;
use crate::features::Features;
use crate::resources::ResourceTableError;

/// Error in the generated tables.
#[derive(Debug, thiserror::Error)]
pub enum TablesError {
    /// Error in the table of types.
    #[error("type table, {0}")]
    Types(#[from] TextError),
    /// Error in the table of resources.
    #[error(transparent)]
    Resources(#[from] ResourceTableError),
}

/// Returns the table of all built-in types.
pub fn types() -> Result<TypeTable, TextError> {
    read(TYPES)
}

fn read(text: &str) -> Result<TypeTable, TextError> {
    Ok(TypeTable::parse_with_rules(text, &RULES)?.with_go_types(GO_TYPES))
}

/// Types of the served versions, with their validation tags.
const TYPES: &str = include_str!(concat!(env!("OUT_DIR"), "/types.txt"));

/// The rules in code that validation tags name.
const RULES: RuleNames = include!(concat!(env!("OUT_DIR"), "/rules.rs"));

/// Go types of fields.
const GO_TYPES: &str = include_str!(concat!(env!("OUT_DIR"), "/go_types.txt"));

/// Types of versions that are disabled by default: the group, the version and the table.
const MORE: [(&str, &str, &str); 14] = [
    more!("admissionregistration.k8s.io", "admissionregistration", "v1alpha1"),
    more!("admissionregistration.k8s.io", "admissionregistration", "v1beta1"),
    more!("certificates.k8s.io", "certificates", "v1alpha1"),
    more!("certificates.k8s.io", "certificates", "v1beta1"),
    more!("coordination.k8s.io", "coordination", "v1alpha2"),
    more!("coordination.k8s.io", "coordination", "v1beta1"),
    more!("internal.apiserver.k8s.io", "apiserverinternal", "v1alpha1"),
    more!("networking.k8s.io", "networking", "v1beta1"),
    more!("resource.k8s.io", "resource", "v1alpha3"),
    more!("resource.k8s.io", "resource", "v1beta1"),
    more!("resource.k8s.io", "resource", "v1beta2"),
    more!("scheduling.k8s.io", "scheduling", "v1alpha2"),
    more!("storage.k8s.io", "storage", "v1beta1"),
    more!("storagemigration.k8s.io", "storagemigration", "v1beta1"),
];

/// Returns the types of `apis`: those of [`types`], plus all versions of each group that serves more than its defaults.
pub fn types_of(apis: &Apis) -> Result<TypeTable, TextError> {
    let more: Vec<&str> = MORE
        .iter()
        .filter(|(group, ..)| apis.has_more(group))
        .map(|(.., text)| *text)
        .collect();
    match more.is_empty() {
        true => types(),
        false => read(&joined(TYPES, more)),
    }
}

/// Returns the types that a server of these APIs writes: those of [`types_of`] without the fields of disabled features.
pub fn written_types(apis: &Apis, features: Features) -> Result<TypeTable, TextError> {
    Ok(types_of(apis)?.disable(|gate| !features.has_named(gate))?)
}

fn joined(first: &str, more: impl IntoIterator<Item = &'static str>) -> String {
    let mut text = first.to_owned();
    for part in more {
        text.extend(["\n", part]);
    }
    text
}

/// Returns the types of objects in etcd: those of `apis`, and older types that differ from them.
pub fn types_at_rest(apis: &Apis) -> Result<TypeTable, TextError> {
    // Objects stored in these versions use the names of later versions, so they need no conversion.
    let is_older = |group: &str, version: &str| (group, version) == ("resource.k8s.io", "v1beta1");
    let more = MORE
        .iter()
        .filter(|(group, version, _)| apis.has_more(group) && !is_older(group, version));
    let older = include_str!(concat!(env!("OUT_DIR"), "/older_types.txt"));
    let more = more.map(|(.., text)| *text);
    let text = joined(TYPES, [older].into_iter().chain(more));
    TypeTable::parse_with_rules(&text, &RULES)
}

/// Returns older versions of kinds that share a type with a served version: version, kind and the version with the
/// type.
pub fn older_kinds() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    let lines = include_str!(concat!(env!("OUT_DIR"), "/older_kinds.txt")).lines();
    lines.flat_map(|line| {
        let mut words = line.split(' ');
        let (like, older) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        words.map(move |kind| (older, kind, like))
    })
}

/// Returns the kinds that the reference knows and does not serve, each as `apiVersion` and kind.
pub fn unserved() -> impl Iterator<Item = (&'static str, &'static str)> {
    let lines = include_str!(concat!(env!("OUT_DIR"), "/unserved.txt")).lines();
    lines.flat_map(|line| {
        let (api_version, kinds) = line.split_once(' ').unwrap_or((line, ""));
        kinds.split(' ').map(move |kind| (api_version, kind))
    })
}

/// Returns the versions in which objects of a built-in kind can be decoded, the preferred one first: those that are
/// `served`, and the others that the reference knows. All are values of `apiVersion`.
pub fn decodable_versions(group: &str, kind: &str, served: &[&str]) -> Vec<SmolStr> {
    let is_of_group = |api_version: &str| api_version.split_once('/').map_or("", |(group, _)| group) == group;
    let others = unserved().filter(|(api_version, known)| *known == kind && is_of_group(api_version));
    let mut versions: Vec<SmolStr> = served.iter().map(|version| SmolStr::new(*version)).collect();
    for (api_version, _) in others {
        if !versions.iter().any(|version| version == api_version) {
            versions.push(api_version.into());
        }
    }
    let version = |api_version: &SmolStr| SmolStr::new(api_version.rsplit('/').next().unwrap_or_default());
    versions.sort_by(|one, other| version_order::compare(&version(one), &version(other)));
    versions
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdfast_schema::types::{ListType, Omission};
    use holdfast_value::json;

    #[test]
    fn every_file_of_more_types_is_in_the_list() {
        let folder = concat!(env!("OUT_DIR"), "/more");
        let mut files = 0;
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let text = std::fs::read_to_string(&path).unwrap();
            assert!(MORE.iter().any(|(.., listed)| *listed == text), "{}", path.display());
            files += 1;
        }
        assert_eq!(files, MORE.len());
    }

    #[test]
    fn types_know_what_openapi_leaves_out() {
        let types = types().unwrap();
        let named = |name: &str| types.get(types.id(name).unwrap());
        let spec = named("io.k8s.api.apps.v1.DeploymentSpec");
        assert!(spec.field("replicas").unwrap().pointer);
        assert!(!spec.field("minReadySeconds").unwrap().pointer);
        assert_eq!(spec.field("template").unwrap().omission, Omission::Never);
        let ports = named("io.k8s.api.core.v1.Container").field("ports").unwrap();
        assert_eq!(ports.list_type, Some(ListType::Map));
        assert_eq!(ports.keys[1].default, Some("TCP".into()));
        let volume = named("io.k8s.api.core.v1.Volume").field("emptyDir").unwrap();
        assert_eq!(volume.proto.numbers(), [2, 2]);
    }

    #[test]
    fn kinds_that_are_not_served_have_no_type() {
        use holdfast_schema::{GroupVersion, GroupVersionKind};

        let types = types().unwrap();
        for (api_version, kind) in unserved() {
            let name = GroupVersionKind {
                group_version: GroupVersion::parse(api_version).unwrap(),
                kind: kind.into(),
            };
            assert!(!kind.is_empty() && types.id_of_kind(&name).is_none(), "{name:?}");
        }
        assert!(unserved().any(|unserved| unserved == ("extensions/v1beta1", "Deployment")));
    }

    #[test]
    fn an_unset_struct_holds_what_is_never_left_out() {
        let types = types().unwrap();
        let zero = |name: &str| json::to_string(&types.get(types.id(name).unwrap()).zero());
        assert_eq!(
            zero("io.k8s.api.apps.v1.DeploymentSpec"),
            r#"{"selector":null,"strategy":{},"template":{"metadata":{},"spec":{"containers":null}}}"#
        );
        assert_eq!(zero("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"), "{}");
    }

    #[test]
    fn kinds_can_be_read_in_versions_that_are_served_no_more() {
        // Same as kube-apiserver 1.36 reports.
        for (group, kind, served, known) in [
            ("apps", "Deployment", "apps/v1", "apps/v1 apps/v1beta2 apps/v1beta1"),
            ("batch", "Job", "batch/v1", "batch/v1"),
            ("", "Pod", "v1", "v1"),
            (
                "rbac.authorization.k8s.io",
                "Role",
                "rbac.authorization.k8s.io/v1",
                "rbac.authorization.k8s.io/v1 rbac.authorization.k8s.io/v1beta1 rbac.authorization.k8s.io/v1alpha1",
            ),
            (
                "resource.k8s.io",
                "ResourceClaim",
                "resource.k8s.io/v1",
                "resource.k8s.io/v1 resource.k8s.io/v1beta2 resource.k8s.io/v1beta1",
            ),
        ] {
            assert_eq!(decodable_versions(group, kind, &[served]).join(" "), known);
        }
    }
}
