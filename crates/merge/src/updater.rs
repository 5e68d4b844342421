//! Apply and update: how objects and their managers change together.
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
pub trait Converter {
    /// The object in another version. It may be asked for the version that the object is in.
    ///
    /// # Errors
    /// [`ConvertError::MissingVersion`] if there is no such version (any more): managers that speak it are dropped.
    fn convert(&self, object: &Typed, version: &str) -> Result<Typed, ConvertError>;
}

/// Why an object cannot be converted.
#[derive(Debug, thiserror::Error)]
pub enum ConvertError {
    /// There is no such version.
    #[error("Unknown version: {0}")]
    MissingVersion(SmolStr),
    /// The conversion itself failed.
    #[error(transparent)]
    Failed(#[from] Box<dyn std::error::Error + Send + Sync>),
}

/// The converter where all versions of an object look the same.
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

/// Merges writes into objects and keeps their managers. Make one with [`UpdaterBuilder`].
#[derive(Clone, Debug)]
pub struct Updater<C> {
    converter: C,
    ignored_fields: Option<BTreeMap<SmolStr, Set>>,
    ignore_filter: Option<BTreeMap<SmolStr, Filter>>,
    return_input_on_noop: bool,
    emptied: Emptied,
}

/// Settings of an [`Updater`].
#[derive(Clone, Debug)]
pub struct UpdaterBuilder<C>(Updater<C>);

/// What an apply leads to.
#[derive(Clone, Debug)]
pub struct Applied {
    /// The merged object in the version of the apply; `None` where it equals the live one.
    pub object: Option<Typed>,
    /// The managers. They may differ from those before even where the object does not.
    pub managers: Managers,
}

/// Why an apply or update failed. Nothing changes then.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// Other managers own what the apply would change.
    #[error(transparent)]
    Conflicts(#[from] Conflicts),
    /// Fields to ignore are given both as sets and as filters.
    #[error("IgnoreFilter and IgnoreFilter may not both be set")]
    BothIgnored,
    /// A step could not be done on an object that does not fit its type.
    #[error("failed to {step}: {source}")]
    Invalid {
        /// The step.
        step: &'static str,
        /// What is wrong with the object.
        source: ValidationErrors,
    },
    /// The live object has no place in the version in which one of its managers was recorded.
    #[error(transparent)]
    Live(ConvertError),
    /// The sets of the managers do not fit the types of the live object.
    #[error(transparent)]
    Sets(ValidationErrors),
    /// An object could not be converted.
    #[error("failed to {step}: {source}")]
    Convert {
        /// What it was converted for.
        step: &'static str,
        /// What went wrong.
        source: ConvertError,
    },
}

/// What changed, in the terms of one version.
struct Changes {
    comparison: Comparison,
    /// What has another value now, or is new: made once, however many managers may own some of it.
    written: Option<Set>,
}

impl Changes {
    fn of(comparison: Comparison) -> Self {
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
    /// An updater that ignores no fields and reports no-ops.
    pub fn new(converter: C) -> Self {
        Self(Updater {
            converter,
            ignored_fields: None,
            ignore_filter: None,
            return_input_on_noop: false,
            emptied: Emptied::Null,
        })
    }

    /// Neither owns nor compares these paths and what is below them, version by version.
    pub fn ignored_fields(mut self, fields: impl IntoIterator<Item = (SmolStr, Set)>) -> Self {
        self.0.ignored_fields = Some(fields.into_iter().collect());
        self
    }

    /// Owns and compares only what a filter keeps, version by version; a version without a filter keeps everything.
    pub fn ignore_filter(mut self, filters: impl IntoIterator<Item = (SmolStr, Filter)>) -> Self {
        self.0.ignore_filter = Some(filters.into_iter().collect());
        self
    }

    /// Gives the object back from an apply that changes nothing, too.
    pub fn return_input_on_noop(mut self, yes: bool) -> Self {
        self.0.return_input_on_noop = yes;
        self
    }

    /// Leaves an empty container, instead of null, where an apply removes all that a container holds but not the container.
    pub fn keep_emptied(mut self, yes: bool) -> Self {
        self.0.emptied = if yes { Emptied::Kept } else { Emptied::Null };
        self
    }

    /// The updater.
    pub fn build(self) -> Updater<C> {
        self.0
    }
}

impl<C: Converter> Updater<C> {
    /// Merges what `manager` wants into the live object, which is in the same version, and removes what it wanted before
    /// and no one wants now.
    ///
    /// # Errors
    /// [`ApplyError::Conflicts`] if it would change what others own and is not forced; others if the objects do not fit
    /// their types or cannot be converted.
    pub fn apply(
        &self,
        live: &Typed,
        config: &Typed,
        version: &str,
        managers: Managers,
        manager: &str,
        force: bool,
    ) -> Result<Applied, ApplyError> {
        let mut managers = self.reconcile(live, managers)?;
        let merged = live.merge(config).map_err(invalid("merge config"))?;
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
        // Where the manager still wants all that it wanted last there is nothing to remove. Not so where parts of what it
        // wants are ignored: an item may go with an ignored field of its own.
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
        self.applied(live, object, version, managers, manager, force)
    }

    /// The same where nothing is to be removed: `manager` has applied nothing yet, or wants all that it wanted last and no more,
    /// of which nothing is ignored. `others` are all managers but this one, whose set is not asked for.
    ///
    /// # Errors
    /// See [`Updater::apply`].
    pub fn apply_unpruned(
        &self,
        live: &Typed,
        config: &Typed,
        version: &str,
        others: Managers,
        manager: &str,
        force: bool,
    ) -> Result<Applied, ApplyError> {
        let others = self.reconcile(live, others)?;
        let merged = live.merge(config).map_err(invalid("merge config"))?;
        self.applied(live, merged, version, others, manager, force)
    }

    /// A configuration of that type with what an apply of it owns, but for the paths of `but`, as [`Typed::new_applied`] has both;
    /// the latter is also `None` where something of it may be ignored.
    ///
    /// # Errors
    /// Everything about the configuration that does not fit its type.
    pub fn configuration(
        &self,
        config: Value,
        (schema, type_ref): (Arc<Schema>, TypeRef),
        version: &str,
        but: &Set,
    ) -> Result<(Typed, Option<Value>), ValidationErrors> {
        let is_whole = |ignored: Option<&Set>| ignored.is_none_or(|ignored| !ignored.level().touches(&config));
        match self.ignored(version).is_some_and(is_whole) {
            true => Typed::new_applied(config, schema, type_ref, but),
            false => Typed::new(config, schema, type_ref, Duplicates::Refused).map(|typed| (typed, None)),
        }
    }

    /// What a manager owns that replaces `live`, of which no manager owns anything, but for the paths of `but`, as
    /// [`Typed::to_changed_fields_v1`] has it.
    pub fn changed_fields_v1(&self, live: &Typed, new: &Typed, version: &str, but: &Set) -> Option<Value> {
        let ignored = self.ignored(version)?.cloned().unwrap_or_default();
        new.to_changed_fields_v1(live, but, &ignored)
    }

    /// The paths that are ignored with all below them; `None` where more is than paths.
    fn ignored(&self, version: &str) -> Option<Option<&Set>> {
        let fields = self.ignored_fields.as_ref().and_then(|ignored| ignored.get(version));
        let filter = self.ignore_filter.as_ref().and_then(|filters| filters.get(version));
        match (fields, filter) {
            (ignored, None) => Some(ignored),
            (None, Some(Filter::Exclude(ignored))) => Some(Some(ignored)),
            _ => None,
        }
    }

    /// Resolves with all other managers what an apply by `manager` makes of the live object.
    fn applied(
        &self,
        live: &Typed,
        object: Typed,
        version: &str,
        mut managers: Managers,
        manager: &str,
        force: bool,
    ) -> Result<Applied, ApplyError> {
        if managers.iter().any(|(name, _)| name != manager) {
            (managers, _) = self.change_owners(live, &object, version, managers, manager, force)?;
        } else {
            // No one else can be in the way or lose anything, so that what changed need not be known.
            managers.retain(|_, owned| !owned.set.is_empty());
        }
        let unchanged = !self.return_input_on_noop && live.value() == object.value();
        Ok(Applied {
            object: (!unchanged).then_some(object),
            managers,
        })
    }

    /// Records that `manager` replaced the live object with a new one, both in the same version. The object stays as it
    /// is; what it changes, the manager comes to own.
    ///
    /// # Errors
    /// If the objects do not fit their types or cannot be converted.
    pub fn update(
        &self,
        live: &Typed,
        new: &Typed,
        version: &str,
        managers: Managers,
        manager: &str,
    ) -> Result<(Typed, Managers), ApplyError> {
        let managers = self.reconcile(live, managers)?;
        let (mut managers, comparison) = self.change_owners(live, new, version, managers, manager, true)?;
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

    /// Fits the managers' sets to the schema of the live object.
    fn reconcile(&self, live: &Typed, managers: Managers) -> Result<Managers, ApplyError> {
        let mut reconciled = Managers::new();
        for (name, mut owned) in managers {
            let converted = match self.converter.convert(live, &owned.api_version) {
                Ok(converted) => converted,
                // Managers of versions that are gone are dropped.
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

    /// Finds what others own of the change from `old` to `new`, and takes it from them if that is allowed. Gives the
    /// managers that are left, and what changed.
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
            Some(Changes::of(self.compared(&comparison, version))),
        );
        let mut conflicts = Managers::new();
        for (name, owned) in &managers {
            if name == manager {
                continue;
            }
            if !by_version.contains_key(&owned.api_version) {
                let converted = self.comparison_at(old, new, &comparison, &owned.api_version)?;
                by_version.insert(owned.api_version.clone(), converted.map(Changes::of));
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

    /// The change in the terms of another version; `None` if there is no such version.
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

    /// A comparison without what is ignored in its version.
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

    /// Removes from a merged object what the manager wanted last and no one wants now. `managers` holds what it wants
    /// now.
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

    /// Adds back what someone owns.
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
        // The version of the pruned object goes first, as conversion might need fields that were pruned.
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

    /// Adds back what is gone though the manager did not want it last: all that disappeared with something else.
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
