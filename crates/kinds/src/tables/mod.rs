//! Generated tables of the built-in kinds and their readers. `cargo xtask generate` writes the tables.

/// A group, a version, and the table of its types.
macro_rules! more {
    ($group:literal, $package:literal, $version:literal) => {
        (
            $group,
            $version,
            include_str!(concat!("more/", $package, ".", $version, ".txt")),
        )
    };
}

mod columns;
mod resources;

use holdfast_resource::schema::{TextError, TypeTable};

use crate::apis::Apis;
use crate::config::Config;

pub use columns::Columns;
pub(crate) use resources::resources;
pub use resources::{ResourceTableError, all_group_versions, group_versions};

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
    Ok(TypeTable::parse(include_str!("types.txt"))?.with_go_types(GO_TYPES))
}

/// Go types of fields.
const GO_TYPES: &str = include_str!("go_types.txt");

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
        false => Ok(TypeTable::parse(&joined(include_str!("types.txt"), more))?.with_go_types(GO_TYPES)),
    }
}

/// Returns the types that a server with these settings writes: those of its APIs, without the fields of disabled gates.
pub(crate) fn written_types(config: &Config) -> Result<TypeTable, TextError> {
    let types = types_of(&config.apis)?;
    Ok(types.disable(|gate| !config.features.has_named(gate))?)
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
    let older = include_str!("older_types.txt");
    TypeTable::parse(&joined(
        include_str!("types.txt"),
        [older].into_iter().chain(more.map(|(.., text)| *text)),
    ))
}

/// Returns older versions of kinds that share a type with a served version: version, kind and the version with the
/// type.
pub fn older_kinds() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    let lines = include_str!("older_kinds.txt").lines();
    lines.filter(|line| !line.starts_with('#')).flat_map(|line| {
        let mut words = line.split(' ');
        let (like, older) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        words.map(move |kind| (older, kind, like))
    })
}

/// Returns the kinds that the reference knows and does not serve, each as `apiVersion` and kind.
pub(crate) fn unserved() -> impl Iterator<Item = (&'static str, &'static str)> {
    let lines = include_str!("unserved.txt")
        .lines()
        .filter(|line| !line.starts_with('#'));
    lines.flat_map(|line| {
        let (api_version, kinds) = line.split_once(' ').unwrap_or((line, ""));
        kinds.split(' ').map(move |kind| (api_version, kind))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdfast_resource::schema::{ListType, Omission, join_marks};
    use holdfast_value::json;

    #[test]
    fn types_have_the_marks_that_are_kept_for_them() {
        let types = include_str!("types.txt");
        let joined = join_marks(types, include_str!("marks.txt")).unwrap();
        let differ = types
            .lines()
            .zip(joined.lines())
            .find(|(there, regenerated)| there != regenerated);
        assert_eq!(differ, None, "cargo xtask generate --marks");
        let more: String = MORE.iter().map(|(.., text)| format!("{text}\n")).collect();
        let joined = join_marks(&more, include_str!("more_marks.txt")).unwrap();
        let differ = more
            .lines()
            .zip(joined.lines())
            .find(|(there, regenerated)| there != regenerated);
        assert_eq!(differ, None, "cargo xtask generate --marks");
    }

    #[test]
    fn every_file_of_more_types_is_in_the_list() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/tables/more");
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
        let of = |name: &str| types.get(types.id(name).unwrap());
        let spec = of("io.k8s.api.apps.v1.DeploymentSpec");
        assert!(spec.field("replicas").unwrap().pointer);
        assert!(!spec.field("minReadySeconds").unwrap().pointer);
        assert_eq!(spec.field("template").unwrap().omission, Omission::Never);
        let ports = of("io.k8s.api.core.v1.Container").field("ports").unwrap();
        assert_eq!(ports.list_type, Some(ListType::Map));
        assert_eq!(ports.keys[1].default, Some("TCP".into()));
        let volume = of("io.k8s.api.core.v1.Volume").field("emptyDir").unwrap();
        assert_eq!(volume.proto.numbers(), [2, 2]);
    }

    #[test]
    fn kinds_that_are_not_served_have_no_type() {
        use holdfast_resource::{GroupVersion, GroupVersionKind};

        let types = types().unwrap();
        for (api_version, kind) in unserved() {
            let of = GroupVersionKind {
                group_version: GroupVersion::parse(api_version).unwrap(),
                kind: kind.into(),
            };
            assert!(!kind.is_empty() && types.id_of_kind(&of).is_none(), "{of:?}");
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
}
