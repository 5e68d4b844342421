use std::fmt;

use smol_str::{SmolStr, format_smolstr};

/// An API group and version, such as `apps/v1`; the group of the core resources is empty and omitted (`v1`).
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupVersion {
    /// The group; empty for the core group.
    pub group: SmolStr,
    /// The version within the group.
    pub version: SmolStr,
}

impl GroupVersion {
    /// Returns the pair of `group` and `version`.
    pub fn new(group: impl Into<SmolStr>, version: impl Into<SmolStr>) -> Self {
        Self {
            group: group.into(),
            version: version.into(),
        }
    }

    /// Reads the text of an `apiVersion` field. `None` if it has more than one slash or no version.
    pub fn parse(api_version: &str) -> Option<Self> {
        match api_version.split_once('/') {
            None if api_version.is_empty() => None,
            None => Some(Self::new("", api_version)),
            Some((_, version)) if version.is_empty() || version.contains('/') => None,
            Some((group, version)) => Some(Self::new(group, version)),
        }
    }

    /// Returns the value of an `apiVersion` field.
    pub fn api_version(&self) -> SmolStr {
        if self.group.is_empty() {
            self.version.clone()
        } else {
            format_smolstr!("{}/{}", self.group, self.version)
        }
    }
}

impl fmt::Display for GroupVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.api_version())
    }
}

/// A kind in a group and version.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupVersionKind {
    /// The group and version.
    pub group_version: GroupVersion,
    /// The kind, such as `Deployment`.
    pub kind: SmolStr,
}

/// A kind in a group, in any version; displayed as `Deployment.apps`, or `Pod` for the core group.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupKind {
    /// The group; empty for the core group.
    pub group: SmolStr,
    /// The kind, such as `Deployment`.
    pub kind: SmolStr,
}

impl fmt::Display for GroupKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_dotted(f, &self.kind, &self.group)
    }
}

/// A resource in a group, in any version; displayed as `deployments.apps`, or `pods` for the core group.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupResource {
    /// The group; empty for the core group.
    pub group: SmolStr,
    /// The plural name, such as `deployments`.
    pub resource: SmolStr,
}

impl fmt::Display for GroupResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_dotted(f, &self.resource, &self.group)
    }
}

fn write_dotted(f: &mut fmt::Formatter<'_>, name: &str, group: &str) -> fmt::Result {
    f.write_str(name)?;
    if group.is_empty() {
        Ok(())
    } else {
        write!(f, ".{group}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn api_version_leaves_out_the_core_group() {
        for (text, group, version) in [("v1", "", "v1"), ("apps/v1", "apps", "v1")] {
            let parsed = GroupVersion::parse(text).unwrap();
            assert_eq!((parsed.group.as_str(), parsed.version.as_str()), (group, version));
            assert_eq!(parsed.to_string(), text);
        }
    }

    #[test]
    fn api_version_with_two_slashes_or_no_version_is_refused() {
        for text in ["", "apps/", "a/b/c"] {
            assert_eq!(GroupVersion::parse(text), None, "{text}");
        }
    }
}
