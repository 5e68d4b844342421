//! Options of an apply.

use std::collections::HashSet;
use std::fmt::Write as _;

use holdfast_merge::{Path, PathText};

/// Options of an apply that decide about fields of other managers.
///
/// ```
/// use holdfast_ownership::{ApplyOptions, PathText};
///
/// assert!(ApplyOptions::from_force(true).is_plain());
/// let options = ApplyOptions { force_fields: PathText::parse_list(".spec.replicas,.spec.image")?, ..ApplyOptions::default() };
/// assert!(!options.is_plain() && !options.force);
/// # Ok::<(), holdfast_ownership::PathTextError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApplyOptions {
    /// True if the applier becomes the owner of all conflicting fields.
    pub force: bool,
    /// Fields and subtrees of which the applier becomes the owner although they conflict.
    pub force_fields: Vec<PathText>,
    /// Fields and subtrees that the apply removes from the object.
    pub unset: Vec<PathText>,
    /// True if conflicts contain the owners and values of their fields.
    pub conflict_details: bool,
    /// True if the configuration may have several items with the same key in an associative list.
    pub allow_duplicates: bool,
}

impl ApplyOptions {
    /// Creates options that force everything or nothing.
    pub fn from_force(force: bool) -> Self {
        Self {
            force,
            ..Self::default()
        }
    }

    /// True if the options are only those of the reference.
    pub fn is_plain(&self) -> bool {
        self.force_fields.is_empty() && self.unset.is_empty() && !self.conflict_details && !self.allow_duplicates
    }

    /// Returns the fields that the options force.
    pub(crate) fn forced_fields(&self) -> ForcedFields<'_> {
        ForcedFields {
            all: self.force,
            texts: self.force_fields.iter().map(PathText::as_str).collect(),
        }
    }
}

/// Fields that the options of an apply force. A look-up has the same cost for any number of them, because a client may
/// name thousands, and as many may conflict.
pub(crate) struct ForcedFields<'a> {
    all: bool,
    /// Texts of the fields and of the containers around them.
    texts: HashSet<&'a str>,
}

impl ForcedFields<'_> {
    /// True if the applier becomes the owner of `path` although it conflicts.
    pub(crate) fn contain(&self, path: &Path) -> bool {
        if self.all || self.texts.is_empty() {
            return self.all;
        }
        let mut text = String::new();
        path.iter().any(|element| {
            // Writing to a string never fails.
            let _ = write!(text, "{element}");
            self.texts.contains(text.as_str())
        })
    }
}

#[cfg(test)]
mod tests {
    use holdfast_merge::PathElement;

    use super::*;

    #[test]
    fn forced_fields_contain_what_is_below_them() {
        let path = Path::from(vec![
            PathElement::field("labels"),
            PathElement::field("app.io/name"),
            PathElement::key([("port", 80_i64)]),
        ]);
        for (text, expected) in [
            (".other,.labels", true),
            (".labels.app.io/name", true),
            (".labels.app.io/name[port=80]", true),
            (".label,.labels.app,.labels.app.io/name[port=8]", false),
            (".labels.app.io/name[port=80].x", false),
        ] {
            let options = ApplyOptions {
                force_fields: PathText::parse_list(text).unwrap(),
                ..ApplyOptions::default()
            };
            assert_eq!(options.forced_fields().contain(&path), expected, "{text}");
        }
        assert!(ApplyOptions::from_force(true).forced_fields().contain(&path));
        assert!(!ApplyOptions::default().forced_fields().contain(&path));
    }
}
