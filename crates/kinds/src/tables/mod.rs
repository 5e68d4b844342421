//! The generated tables of the built-in kinds, and their readers. `cargo xtask generate` writes them.

mod columns;
mod resources;

use holdfast_resource::schema::{TextError, TypeTable};

pub use columns::Columns;
pub(crate) use resources::resources;
pub use resources::{ResourceTableError, group_versions};

/// Why the generated tables cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum TablesError {
    /// The table of types.
    #[error("type table, {0}")]
    Types(#[from] TextError),
    /// The table of resources.
    #[error(transparent)]
    Resources(#[from] ResourceTableError),
}

/// The table of all built-in types.
pub fn types() -> Result<TypeTable, TextError> {
    TypeTable::parse(include_str!("types.txt"))
}

/// The table of all built-in types and of those older types that differ from them: what lies in etcd is of these.
pub fn types_at_rest() -> Result<TypeTable, TextError> {
    TypeTable::parse(concat!(
        include_str!("types.txt"),
        "\n",
        include_str!("older_types.txt")
    ))
}

/// The kinds of older versions whose objects are of a served type: the version, the kind, and the version that has the type.
pub fn older_kinds() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    let lines = include_str!("older_kinds.txt").lines();
    lines.filter(|line| !line.starts_with('#')).flat_map(|line| {
        let mut words = line.split(' ');
        let (like, older) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        words.map(move |kind| (older, kind, like))
    })
}

/// The kinds that the reference knows and does not serve: the text of an `apiVersion` and a kind.
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
        let differ = types.lines().zip(joined.lines()).find(|(there, given)| there != given);
        assert_eq!(differ, None, "cargo xtask generate --marks");
    }

    #[test]
    fn types_know_what_openapi_does_not_tell() {
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
