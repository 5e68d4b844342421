//! Apply and update of objects together with their managers.
//!
//! See <https://kubernetes.io/docs/reference/using-api/server-side-apply/> and KEP-555.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdfast_value::{SmolStr, Value};

use crate::conflict::Conflicts;
use crate::managers::{Managers, VersionedSet};
use crate::typed::{Comparison, Duplicates, Emptied, Typed, ValidationErrors};
use crate::{Filter, Schema, Set, TypeRef};

/// Converts objects between the API versions of their kind.
///
/// ```
/// use holdfast_merge::{ConvertError, Converter, Typed};
///
/// /// Kind with one version.
/// struct OnlyV1;
///
/// impl Converter for OnlyV1 {
///     fn convert(&self, object: &Typed, version: &str) -> Result<Typed, ConvertError> {
///         match version {
///             "v1" => Ok(object.clone()),
///             _ => Err(ConvertError::MissingVersion(version.into())),
///         }
///     }
/// }
///
/// let object = Typed::deduced(holdfast_value::Value::empty_map());
/// assert!(OnlyV1.convert(&object, "v1").is_ok());
/// assert!(OnlyV1.convert(&object, "v2").is_err());
/// ```
pub trait Converter {
    /// Converts the object to another version, possibly to its own.
    ///
    /// # Errors
    /// Returns [`ConvertError::MissingVersion`] if the version does not exist (any more): managers that use it are
    /// dropped.
    fn convert(&self, object: &Typed, version: &str) -> Result<Typed, ConvertError>;
}

/// Error of a conversion.
///
/// ```
/// use holdfast_merge::ConvertError;
///
/// let error = ConvertError::MissingVersion("v2".into());
/// assert_eq!(error.to_string(), "Unknown version: v2");
/// let failed = ConvertError::Failed("the webhook does not answer".into());
/// assert_eq!(failed.to_string(), "the webhook does not answer");
/// ```
#[derive(Debug, thiserror::Error)]
pub enum ConvertError {
    /// The version does not exist.
    #[error("Unknown version: {0}")]
    MissingVersion(SmolStr),
    /// The conversion itself failed.
    #[error(transparent)]
    Failed(#[from] Box<dyn std::error::Error + Send + Sync>),
}

/// Converter for kinds whose versions all have the same schema.
///
/// ```
/// use holdfast_merge::{Converter, IdentityConverter, Typed};
///
/// let object = Typed::deduced(holdfast_value::Value::empty_map());
/// assert_eq!(IdentityConverter.convert(&object, "v2")?.value(), object.value());
/// # Ok::<(), holdfast_merge::ConvertError>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct IdentityConverter;

impl Converter for IdentityConverter {
    fn convert(&self, object: &Typed, version: &str) -> Result<Typed, ConvertError> {
        match version.is_empty() {
            true => Err(ConvertError::Failed("cannot convert to an empty version".into())),
            false => Ok(object.clone()),
        }
    }
}

/// Merges writes into objects and tracks their managers. Create one with [`UpdaterBuilder`].
///
/// ```
/// use holdfast_merge::{IdentityConverter, Managers, Typed, UpdaterBuilder};
/// use holdfast_value::{Limits, json};
///
/// let object = |text: &str| Typed::deduced(json::parse(text.as_bytes(), &Limits::REQUEST).unwrap());
/// let updater = UpdaterBuilder::new(IdentityConverter).build();
///
/// // An update without apply: the manager owns the fields that it changed.
/// let (_, managers) =
///     updater.update(&object(r#"{"a":1,"b":2}"#), &object(r#"{"a":1,"b":3}"#), "v1", Managers::new(), "editor")?;
/// assert_eq!(managers.get("editor").unwrap().set.to_fields_v1(), r#"{"f:b":{}}"#);
/// # Ok::<(), holdfast_merge::ApplyError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Updater<C> {
    converter: C,
    ignored_fields: Option<BTreeMap<SmolStr, Set>>,
    ignore_filter: Option<BTreeMap<SmolStr, Filter>>,
    return_input_on_noop: bool,
    emptied: Emptied,
}

/// Builder of an [`Updater`].
///
/// ```
/// use holdfast_merge::{IdentityConverter, Managers, Set, Typed, UpdaterBuilder};
/// use holdfast_value::{Limits, Value, json};
///
/// let status = Set::from_fields_v1(br#"{"f:status":{}}"#)?;
/// let updater = UpdaterBuilder::new(IdentityConverter).ignored_fields([("v1".into(), status)]).build();
///
/// let config = Typed::deduced(json::parse(br#"{"spec":1,"status":2}"#, &Limits::REQUEST)?);
/// let applied = updater.apply(&Typed::deduced(Value::Null), &config, "v1", Managers::new(), "alice", false)?;
/// assert_eq!(applied.managers.get("alice").unwrap().set.to_fields_v1(), r#"{"f:spec":{}}"#);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct UpdaterBuilder<C>(Updater<C>);

/// Result of an apply.
///
/// ```
/// use holdfast_merge::{IdentityConverter, Managers, Typed, UpdaterBuilder};
/// use holdfast_value::{Limits, json};
///
/// let object = Typed::deduced(json::parse(br#"{"a":1}"#, &Limits::REQUEST)?);
/// let updater = UpdaterBuilder::new(IdentityConverter).build();
/// let applied = updater.apply(&object, &object, "v1", Managers::new(), "alice", false)?;
/// // The object stays the same, but it has a manager now.
/// assert!(applied.object.is_none());
/// assert_eq!(applied.managers.len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Applied {
    /// Merged object in the version of the apply; `None` if it equals the existing object.
    pub object: Option<Typed>,
    /// Managers after the apply. They may differ from those before even if the object is unchanged.
    pub managers: Managers,
}

/// Error of an apply or update, which then changes nothing.
///
/// ```
/// use holdfast_merge::{ApplyError, IdentityConverter, Managers, Typed, UpdaterBuilder};
/// use holdfast_value::{Limits, Value, json};
///
/// let config = |text: &str| Typed::deduced(json::parse(text.as_bytes(), &Limits::REQUEST).unwrap());
/// let updater = UpdaterBuilder::new(IdentityConverter).build();
/// let first = updater.apply(&Typed::deduced(Value::Null), &config(r#"{"a":1}"#), "v1", Managers::new(), "alice", false)?;
/// let existing = first.object.unwrap();
/// match updater.apply(&existing, &config(r#"{"a":2}"#), "v1", first.managers, "bob", false) {
///     Err(ApplyError::Conflicts(conflicts)) => assert_eq!(conflicts.iter().next().unwrap().manager, "alice"),
///     other => panic!("{other:?}"),
/// }
/// # Ok::<(), ApplyError>(())
/// ```
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// Other managers own fields that the apply would change.
    #[error(transparent)]
    Conflicts(#[from] Conflicts),
    /// Ignored fields are configured both as sets and as filters.
    #[error("IgnoreFilter and IgnoreFilter may not both be set")]
    BothIgnored,
    /// A step failed because an object does not fit its type.
    #[error("failed to {step}: {source}")]
    Invalid {
        /// Name of the step.
        step: &'static str,
        /// Validation errors of the object.
        source: ValidationErrors,
    },
    /// The existing object cannot be converted to the version of one of its managers.
    #[error(transparent)]
    Live(ConvertError),
    /// The managers' sets do not fit the types of the existing object.
    #[error(transparent)]
    Sets(ValidationErrors),
    /// A conversion failed.
    #[error("failed to {step}: {source}")]
    Convert {
        /// Step that needed the conversion.
        step: &'static str,
        /// Error of the conversion.
        source: ConvertError,
    },
}

/// Changes of an object in one version.
struct Changes {
    comparison: Comparison,
    /// Paths with a new or changed value, computed once for all managers.
    written: Option<Set>,
}

impl Changes {
    fn new(comparison: Comparison) -> Self {
        Self {
            comparison,
            written: None,
        }
    }

    fn written(&mut self) -> &Set {
        let Comparison { modified, added, .. } = &self.comparison;
        self.written.get_or_insert_with(|| modified.union(added))
    }
}

impl<C: Converter> UpdaterBuilder<C> {
    /// Creates a builder that ignores no fields and reports no-ops.
    pub fn new(converter: C) -> Self {
        Self(Updater {
            converter,
            ignored_fields: None,
            ignore_filter: None,
            return_input_on_noop: false,
            emptied: Emptied::Null,
        })
    }

    /// Excludes paths and everything below them from ownership and comparison, for each version.
    pub fn ignored_fields(mut self, fields: impl IntoIterator<Item = (SmolStr, Set)>) -> Self {
        self.0.ignored_fields = Some(fields.into_iter().collect());
        self
    }

    /// Restricts ownership and comparison to the paths that a filter keeps, for each version. A version without a
    /// filter keeps everything.
    pub fn ignore_filter(mut self, filters: impl IntoIterator<Item = (SmolStr, Filter)>) -> Self {
        self.0.ignore_filter = Some(filters.into_iter().collect());
        self
    }

    /// Returns the object even from an apply that changes nothing.
    pub fn return_input_on_noop(mut self, yes: bool) -> Self {
        self.0.return_input_on_noop = yes;
        self
    }

    /// Leaves an empty container instead of null if an apply removes all content of a container but not the container.
    pub fn keep_emptied(mut self, yes: bool) -> Self {
        self.0.emptied = if yes { Emptied::Kept } else { Emptied::Null };
        self
    }

    /// Builds the updater.
    pub fn build(self) -> Updater<C> {
        self.0
    }
}

impl<C: Converter> Updater<C> {
    /// Merges the configuration of `manager` into the existing object, which has the same version. Removes fields that
    /// the manager configured before and that no manager owns now.
    ///
    /// upstream: sigs.k8s.io/structured-merge-diff/v6/merge#Updater.Apply
    ///
    /// # Errors
    /// Returns [`ApplyError::Conflicts`] if the apply is not forced and would change fields of other managers; other
    /// errors if the objects do not fit their types or cannot be converted.
    pub fn apply(
        &self,
        existing: &Typed,
        config: &Typed,
        version: &str,
        managers: Managers,
        manager: &str,
        force: bool,
    ) -> Result<Applied, ApplyError> {
        let mut managers = self.reconcile(existing, managers)?;
        let merged = existing.merge(config).map_err(invalid("merge config"))?;
        let wanted = config.to_field_set().map_err(invalid("get field set"))?;
        if self.ignored_fields.is_some() && self.ignore_filter.is_some() {
            return Err(ApplyError::BothIgnored);
        }
        let counted = self.without_ignored(&wanted, version);
        let owned = VersionedSet {
            set: counted,
            api_version: version.into(),
            applied: true,
        };
        // If the manager still configures all its previous fields, there is nothing to remove. This does not hold if
        // some of them are ignored, because a list item may disappear together with an ignored field of its own.
        let wants_all = |last: &VersionedSet| {
            last.set.is_empty()
                || last.api_version == version && owned.set.same(&wanted) && last.set.is_subset(&owned.set)
        };
        let dropped = managers.get(manager).is_some_and(|last| !wants_all(last));
        let last = managers.insert(manager, owned);
        let object = match last {
            Some(last) if dropped => self.prune(merged, &managers, manager, &last)?,
            _ => merged,
        };
        self.applied(existing, object, version, managers, manager, force)
    }

    /// Applies like [`Updater::apply`] when nothing is to be removed: `manager` has applied nothing yet, or configures
    /// exactly its previous fields, none of which is ignored. `others` are all other managers; the set of `manager` is
    /// not needed.
    ///
    /// # Errors
    /// Returns the errors of [`Updater::apply`].
    pub fn apply_unpruned(
        &self,
        existing: &Typed,
        config: &Typed,
        version: &str,
        others: Managers,
        manager: &str,
        force: bool,
    ) -> Result<Applied, ApplyError> {
        let others = self.reconcile(existing, others)?;
        let merged = existing.merge(config).map_err(invalid("merge config"))?;
        self.applied(existing, merged, version, others, manager, force)
    }

    /// Validates a configuration and returns it with the fields that an apply of it owns, except the paths of `but`, as
    /// [`Typed::new_applied`] does. The fields are also `None` if some of them may be ignored.
    ///
    /// # Errors
    /// Returns all validation errors of the configuration.
    pub fn configuration(
        &self,
        config: Value,
        schema: Arc<Schema>,
        type_ref: TypeRef,
        version: &str,
        but: &Set,
    ) -> Result<(Typed, Option<Value>), ValidationErrors> {
        let is_whole = |ignored: Option<&Set>| ignored.is_none_or(|ignored| !ignored.level().touches(&config));
        match self.ignored(version).is_some_and(is_whole) {
            true => Typed::new_applied(config, schema, type_ref, but),
            false => Typed::new(config, schema, type_ref, Duplicates::Rejected).map(|typed| (typed, None)),
        }
    }

    /// Returns the fields that a manager owns after it replaces `existing`, which has no managers yet, except the paths of
    /// `but`, as [`Typed::to_changed_fields_v1`] does.
    pub fn changed_fields_v1(&self, existing: &Typed, new: &Typed, version: &str, but: &Set) -> Option<Value> {
        let ignored = self.ignored(version)?.cloned().unwrap_or_default();
        new.to_changed_fields_v1(existing, but, &ignored)
    }

    /// Returns the ignored paths, each with everything below it; `None` if the ignored fields cannot be expressed as
    /// paths.
    fn ignored(&self, version: &str) -> Option<Option<&Set>> {
        let fields = self.ignored_fields.as_ref().and_then(|ignored| ignored.get(version));
        let filter = self.ignore_filter.as_ref().and_then(|filters| filters.get(version));
        match (fields, filter) {
            (ignored, None) => Some(ignored),
            (None, Some(Filter::Exclude(ignored))) => Some(Some(ignored)),
            _ => None,
        }
    }

    /// Resolves the result of an apply by `manager` against all other managers.
    fn applied(
        &self,
        existing: &Typed,
        object: Typed,
        version: &str,
        mut managers: Managers,
        manager: &str,
        force: bool,
    ) -> Result<Applied, ApplyError> {
        if managers.iter().any(|(name, _)| name != manager) {
            (managers, _) = self.change_owners(existing, &object, version, managers, manager, force)?;
        } else {
            // Without other managers there are no conflicts and no owners to replace, so the changes need not be
            // computed.
            managers.retain(|_, owned| !owned.set.is_empty());
        }
        let unchanged = !self.return_input_on_noop && existing.value() == object.value();
        Ok(Applied {
            object: (!unchanged).then_some(object),
            managers,
        })
    }

    /// Records that `manager` replaced the existing object with a new one, both in the same version. The object stays
    /// as it is; the manager becomes the owner of the changed fields.
    ///
    /// # Errors
    /// Fails if the objects do not fit their types or cannot be converted.
    pub fn update(
        &self,
        existing: &Typed,
        new: &Typed,
        version: &str,
        managers: Managers,
        manager: &str,
    ) -> Result<(Typed, Managers), ApplyError> {
        let managers = self.reconcile(existing, managers)?;
        let (mut managers, comparison) = self.change_owners(existing, new, version, managers, manager, true)?;
        let before = managers.remove(manager).map(|owned| owned.set).unwrap_or_default();
        let after = before
            .difference(&comparison.removed)
            .union(&comparison.modified)
            .union(&comparison.added);
        let owned = VersionedSet {
            set: self.without_ignored(&after, version),
            api_version: version.into(),
            applied: false,
        };
        if !owned.set.is_empty() {
            managers.insert(manager, owned);
        }
        Ok((new.clone(), managers))
    }

    /// Adapts the managers' sets to the schema of the existing object.
    fn reconcile(&self, existing: &Typed, managers: Managers) -> Result<Managers, ApplyError> {
        let mut reconciled = Managers::new();
        for (name, mut owned) in managers {
            let converted = match self.converter.convert(existing, &owned.api_version) {
                Ok(converted) => converted,
                // Managers of versions that no longer exist are dropped.
                Err(ConvertError::MissingVersion(_)) => continue,
                Err(error) => return Err(ApplyError::Live(error)),
            };
            let changed = converted
                .reconcile_field_set_with_schema(&owned.set)
                .map_err(ApplyError::Sets)?;
            if let Some(set) = changed {
                owned.set = set;
            }
            reconciled.insert(name, owned);
        }
        Ok(reconciled)
    }

    /// Finds the fields of other managers that changed between `old` and `new`. With `force` these managers lose the
    /// fields. Returns the remaining managers and the changes.
    fn change_owners(
        &self,
        old: &Typed,
        new: &Typed,
        version: &str,
        mut managers: Managers,
        manager: &str,
        force: bool,
    ) -> Result<(Managers, Comparison), ApplyError> {
        let comparison = old.compare(new).map_err(invalid("compare objects"))?;
        if self.ignored_fields.is_some() && self.ignore_filter.is_some() {
            return Err(ApplyError::BothIgnored);
        }
        let mut by_version = BTreeMap::new();
        by_version.insert(
            SmolStr::new(version),
            Some(Changes::new(self.compared(&comparison, version))),
        );
        let mut conflicts = Managers::new();
        for (name, owned) in &managers {
            if name == manager {
                continue;
            }
            if !by_version.contains_key(&owned.api_version) {
                let converted = self.comparison_at(old, new, &comparison, &owned.api_version)?;
                by_version.insert(owned.api_version.clone(), converted.map(Changes::new));
            }
            let Some(Some(changes)) = by_version.get_mut(&owned.api_version) else {
                continue;
            };
            let set = owned.set.intersection(changes.written());
            if !set.is_empty() {
                conflicts.insert(name.clone(), VersionedSet { set, ..owned.clone() });
            }
        }
        if !force && !conflicts.is_empty() {
            return Err(ApplyError::Conflicts(Conflicts::from_managers(&conflicts)));
        }
        managers.retain(|name, owned| {
            if name == manager {
                return !owned.set.is_empty();
            }
            let Some(Some(Changes { comparison, .. })) = by_version.get(&owned.api_version) else {
                return false;
            };
            if let Some(taken) = conflicts.get(name) {
                owned.set = owned.set.difference(&taken.set);
            }
            owned.set = owned.set.difference(&comparison.removed);
            !owned.set.is_empty()
        });
        let own = by_version.remove(version).flatten();
        Ok((managers, own.map(|changes| changes.comparison).unwrap_or_default()))
    }

    /// Returns the changes in another version, or `None` if that version does not exist.
    ///
    /// upstream: sigs.k8s.io/structured-merge-diff/v6/merge#Updater.update
    fn comparison_at(
        &self,
        old: &Typed,
        new: &Typed,
        unconverted: &Comparison,
        version: &str,
    ) -> Result<Option<Comparison>, ApplyError> {
        let old_there = match self.converter.convert(old, version) {
            Ok(converted) => converted,
            Err(ConvertError::MissingVersion(_)) => return Ok(None),
            Err(error) => return Err(conversion("convert old object")(error)),
        };
        let new_there = match self.converter.convert(new, version) {
            Ok(converted) => converted,
            Err(ConvertError::MissingVersion(_)) => return Ok(None),
            Err(error) => return Err(conversion("convert new object")(error)),
        };
        if old_there.same(old) && new_there.same(new) {
            return Ok(Some(self.compared(unconverted, version)));
        }
        let comparison = old_there.compare(&new_there).map_err(invalid("compare objects"))?;
        Ok(Some(self.compared(&comparison, version)))
    }

    /// Returns a comparison without the ignored fields of its version.
    fn compared(&self, comparison: &Comparison, version: &str) -> Comparison {
        if let Some(ignored) = self.ignored_fields.as_ref().and_then(|ignored| ignored.get(version)) {
            return comparison.exclude_fields(ignored);
        }
        match self.ignore_filter.as_ref().and_then(|filters| filters.get(version)) {
            Some(filter) => comparison.filter_fields(filter),
            None => comparison.clone(),
        }
    }

    fn without_ignored(&self, set: &Set, version: &str) -> Set {
        if let Some(ignored) = self.ignored_fields.as_ref().and_then(|ignored| ignored.get(version)) {
            return set.recursive_difference(ignored);
        }
        match self.ignore_filter.as_ref().and_then(|filters| filters.get(version)) {
            Some(filter) => filter.apply(set),
            None => set.clone(),
        }
    }

    /// Removes fields from a merged object that the manager applied last time and that no manager owns now. `managers`
    /// already holds the manager's new fields.
    ///
    /// upstream: sigs.k8s.io/structured-merge-diff/v6/merge#Updater.prune
    fn prune(
        &self,
        merged: Typed,
        managers: &Managers,
        manager: &str,
        last: &VersionedSet,
    ) -> Result<Typed, ApplyError> {
        let merged_then = match self.converter.convert(&merged, &last.api_version) {
            Ok(converted) => converted,
            Err(ConvertError::MissingVersion(_)) => return Ok(merged),
            Err(error) => return Err(conversion("convert merged object to last applied version")(error)),
        };
        let last_named = last
            .set
            .ensure_named_fields_are_members(merged_then.schema(), merged_then.type_ref());
        let removed = merged_then.remove_items_leaving(&last_named, self.emptied);
        let kept = self.add_back_owned(&merged_then, removed, managers, &last.api_version)?;
        let pruned = self.add_back_dangling(merged_then, kept, last, &last_named)?;
        let version = managers.get(manager).map_or("", |owned| owned.api_version.as_str());
        self.converter
            .convert(&pruned, version)
            .map_err(conversion("prune fields"))
    }

    /// Adds owned fields back.
    fn add_back_owned(
        &self,
        merged: &Typed,
        mut pruned: Typed,
        managers: &Managers,
        version: &SmolStr,
    ) -> Result<Typed, ApplyError> {
        let mut owned: BTreeMap<&SmolStr, Vec<Set>> = BTreeMap::new();
        for (_, manager) in managers {
            owned.entry(&manager.api_version).or_default().push(manager.set.clone());
        }
        // The version of the pruned object comes first, because a conversion may need fields that were pruned.
        let mut merged = merged.clone();
        let first = owned.remove_entry(version);
        for (version, sets) in first.into_iter().chain(owned) {
            (merged, pruned) = self.add_back_owned_at(merged, pruned, version, &Set::union_of_all(sets))?;
        }
        Ok(pruned)
    }

    fn add_back_owned_at(
        &self,
        merged: Typed,
        pruned: Typed,
        version: &str,
        owned: &Set,
    ) -> Result<(Typed, Typed), ApplyError> {
        let merged = match self.converter.convert(&merged, version) {
            Ok(converted) => converted,
            Err(ConvertError::MissingVersion(_)) => return Ok((merged, pruned)),
            Err(error) => return Err(conversion("convert merged object")(error)),
        };
        let pruned = match self.converter.convert(&pruned, version) {
            Ok(converted) => converted,
            Err(ConvertError::MissingVersion(_)) => return Ok((merged, pruned)),
            Err(error) => return Err(conversion("convert pruned object")(error)),
        };
        let (schema, type_ref) = (merged.schema(), merged.type_ref());
        let named = |set: &Set| set.ensure_named_fields_are_members(schema, type_ref);
        let merged_set = merged
            .to_field_set()
            .map_err(invalid("create field set from merged object"))?;
        let pruned_set = pruned
            .to_field_set()
            .map_err(invalid("create field set from pruned object"))?;
        let unowned = named(&merged_set).difference(&named(&pruned_set).union(&named(owned)));
        let kept = merged.remove_items_leaving(&unowned, self.emptied);
        Ok((merged, kept))
    }

    /// Adds back fields that were removed though the manager did not apply them last time: those that disappeared
    /// together with another field.
    ///
    /// upstream: sigs.k8s.io/structured-merge-diff/v6/merge#Updater.addBackDanglingItems
    fn add_back_dangling(
        &self,
        merged: Typed,
        pruned: Typed,
        last: &VersionedSet,
        last_named: &Set,
    ) -> Result<Typed, ApplyError> {
        let pruned = match self.converter.convert(&pruned, &last.api_version) {
            Ok(converted) => converted,
            Err(ConvertError::MissingVersion(_)) => return Ok(merged),
            Err(error) => return Err(conversion("convert pruned object to last applied version")(error)),
        };
        let (schema, type_ref) = (merged.schema(), merged.type_ref());
        let named = |set: Set| set.ensure_named_fields_are_members(schema, type_ref);
        let pruned_set = named(
            pruned
                .to_field_set()
                .map_err(invalid("create field set from pruned object"))?,
        );
        let merged_set = named(
            merged
                .to_field_set()
                .map_err(invalid("create field set from merged object"))?,
        );
        let removed = merged_set.difference(&pruned_set).intersection(last_named);
        Ok(merged.remove_items_leaving(&removed, self.emptied))
    }
}

fn invalid(step: &'static str) -> impl FnOnce(ValidationErrors) -> ApplyError {
    move |source| ApplyError::Invalid { step, source }
}

fn conversion(step: &'static str) -> impl FnOnce(ConvertError) -> ApplyError {
    move |source| ApplyError::Convert { step, source }
}
