//! Details of conflicts: the existing and the requested object as the managers that own the fields see them.

use std::collections::BTreeMap;

use holdfast_merge::{Conflict as MergeConflict, Converter as _, Typed};
use holdfast_value::SmolStr;

use crate::error::ConflictDetails;
use crate::lookup::value_at;
use crate::managed::Managed;
use crate::versions::VersionConverter;

/// Maximum number of conflicts with details, which bounds the time to find their values.
const MAX_DETAILED_CONFLICTS: usize = 1024;

/// Existing and requested object in the versions of managers.
pub(crate) struct Views<'a> {
    converter: VersionConverter,
    live: &'a Typed,
    requested: &'a Typed,
    by_version: BTreeMap<SmolStr, View>,
    /// Number of conflicts that still get details.
    left: usize,
}

/// Existing and requested object in one version; `None` if they cannot be converted to it.
struct View {
    live: Option<Typed>,
    requested: Option<Typed>,
}

impl<'a> Views<'a> {
    pub(crate) fn new(converter: VersionConverter, live: &'a Typed, requested: &'a Typed) -> Self {
        Self {
            converter,
            live,
            requested,
            by_version: BTreeMap::new(),
            left: MAX_DETAILED_CONFLICTS,
        }
    }

    /// Returns the owner of a conflicting field, and its values. `None` after the maximum number of conflicts.
    pub(crate) fn details(&mut self, conflict: &MergeConflict, managed: &Managed) -> Option<Box<ConflictDetails>> {
        self.left = self.left.checked_sub(1)?;
        let entry = &managed.0.get(&conflict.manager)?.entry;
        let view = self.by_version.entry(entry.api_version.clone()).or_insert_with(|| {
            let converted = |object: &Typed| self.converter.convert(object, &entry.api_version).ok();
            View {
                live: converted(self.live),
                requested: converted(self.requested),
            }
        });
        let value_in = |object: &Option<Typed>| value_at(object.as_ref()?.value(), &conflict.path).cloned();
        Some(Box::new(ConflictDetails {
            manager: entry.manager.clone(),
            operation: entry.operation,
            subresource: entry.subresource.clone(),
            api_version: entry.api_version.clone(),
            time: entry.time.as_ref().map(|time| time.text().clone()),
            stored: value_in(&view.live),
            requested: value_in(&view.requested),
        }))
    }
}
