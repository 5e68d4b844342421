//! Field manager of a kind: the effect of each write on `managedFields`, and of an apply on the object.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use holdfast_gotext::time::{Precision, Timestamp as GoTime};
use holdfast_merge::{
    Applied as Merged, ApplyError as MergeError, Conflict as MergeConflict, Conflicts as MergeConflicts, RepeatedItems,
};
use holdfast_merge::{
    Duplicates, Filter, Managers, Path, Schema, Set, TypeRef, Typed, Updater, UpdaterBuilder, VersionedSet,
};
use holdfast_value::{SmolStr, Value};

use crate::cap::cap_updates;
use crate::conflict_views::Views;
use crate::duplicates;
use crate::entry::{Entry, Operation, Source};
use crate::error::{ApplyError, Conflict, ConflictDetails, Conflicts};
use crate::last_applied;
use crate::managed::{self, Managed, Record, Unread};
use crate::options::ApplyOptions;
use crate::timestamp::Timestamp;
use crate::unset::{self, Fixed};
use crate::versions::{VersionConverter, Versions};

/// Manager of the fields that an object has before its first apply if no manager was recorded.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// Manager of a write that does not name one.
const UNKNOWN: &str = "unknown";

/// Name of an update within the merge engine; no identifier of an entry equals it.
const CURRENT: &str = "current-operation";

/// Tracker of `metadata.managedFields` for the writes of one kind through one version and one resource or subresource,
/// with kube-apiserver's rules. See <https://kubernetes.io/docs/reference/using-api/server-side-apply/>.
///
/// All objects are in the version of the request with defaults filled in, as a client would see them. Created with
/// [`FieldManager::builder`] and shared by all requests.
///
/// ```
/// use std::sync::Arc;
/// use std::time::SystemTime;
///
/// use holdfast_merge::{SchemaBuilder, DEDUCED};
/// use holdfast_ownership::{FieldManager, OneVersion};
/// use holdfast_value::{Limits, json};
///
/// let mut builder = SchemaBuilder::new();
/// builder.define_deduced();
/// let schema = Arc::new(builder.build());
/// let any = schema.named(DEDUCED).unwrap();
/// let manager = FieldManager::builder("v1", "Thing", Arc::new(OneVersion::new("v1", schema, any))).build();
/// let object = |text: &str| json::parse(text.as_bytes(), &Limits::REQUEST).unwrap();
///
/// // Alice creates the object by an apply and owns its field.
/// let config = object(r#"{"apiVersion":"v1","kind":"Thing","size":1}"#);
/// let existing = manager.apply(None, &config, "alice", false, SystemTime::now()).unwrap().object;
///
/// // Bob wants another value: a conflict, unless he forces it.
/// let config = object(r#"{"apiVersion":"v1","kind":"Thing","size":2}"#);
/// let conflict = manager.apply(Some(&existing), &config, "bob", false, SystemTime::now()).unwrap_err();
/// assert!(conflict.to_string().contains(r#"conflict with "alice""#));
/// let applied = manager.apply(Some(&existing), &config, "bob", true, SystemTime::now()).unwrap();
/// assert_eq!(applied.object.at(&["size"]).and_then(|size| size.as_i64()), Some(2));
/// ```
pub struct FieldManager {
    api_version: SmolStr,
    kind: SmolStr,
    subresource: SmolStr,
    versions: Arc<dyn Versions>,
    updater: Updater<VersionConverter>,
    empty: Value,
    empty_list_resets: bool,
    unowned: Set,
    /// Filter of the fields that a write in this version may own.
    filter: Option<Filter>,
}

/// Builder of a [`FieldManager`].
///
/// ```
/// use std::{sync::Arc, time::SystemTime};
/// use holdfast_merge::{DEDUCED, SchemaBuilder, Set};
/// use holdfast_ownership::{FieldManager, OneVersion};
/// use holdfast_value::{Limits, json};
///
/// let schema = Arc::new(SchemaBuilder::new().define_deduced().build());
/// let any = schema.named(DEDUCED).unwrap();
/// // Writes to the object itself do not own its status.
/// let status = Set::from_fields_v1(br#"{"f:status":{}}"#)?;
/// let manager = FieldManager::builder("v1", "Thing", Arc::new(OneVersion::new("v1", schema, any)))
///     .reset_fields([("v1".into(), status)])
///     .build();
/// let config = json::parse(br#"{"apiVersion":"v1","kind":"Thing","size":1,"status":2}"#, &Limits::REQUEST)?;
/// let object = manager.apply(None, &config, "alice", false, SystemTime::now())?.object;
/// assert!(object.to_string().contains(r#""fieldsV1":{"f:size":{}}"#));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct FieldManagerBuilder {
    api_version: SmolStr,
    kind: SmolStr,
    subresource: SmolStr,
    versions: Arc<dyn Versions>,
    filters: BTreeMap<SmolStr, Filter>,
    empty: Option<Value>,
    empty_list_resets: bool,
}

/// Result of an apply.
///
/// ```
/// use std::{sync::Arc, time::SystemTime};
/// use holdfast_merge::{DEDUCED, SchemaBuilder};
/// use holdfast_ownership::{FieldManager, OneVersion};
/// use holdfast_value::{Limits, json};
///
/// let schema = Arc::new(SchemaBuilder::new().define_deduced().build());
/// let any = schema.named(DEDUCED).unwrap();
/// let manager = FieldManager::builder("v1", "Thing", Arc::new(OneVersion::new("v1", schema, any))).build();
/// let config = json::parse(br#"{"apiVersion":"v1","kind":"Thing","size":1}"#, &Limits::REQUEST)?;
/// let first = manager.apply(None, &config, "alice", false, SystemTime::now())?;
/// assert!(first.changed && !first.is_existing);
/// // The second manager changes only the managed fields.
/// let second = manager.apply(Some(&first.object), &config, "bob", false, SystemTime::now())?;
/// assert!(second.changed && second.is_existing);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Applied {
    /// Merged object, not yet defaulted, with its new `managedFields`.
    pub object: Value,
    /// True if it differs from the existing object in any way.
    pub changed: bool,
    /// True if it differs from the existing object at most in `managedFields`.
    pub is_existing: bool,
}

impl FieldManagerBuilder {
    /// Sets the subresource of the writes, such as `status`. Without it, or if it is empty, writes are to the object
    /// itself.
    pub fn subresource(mut self, name: impl Into<SmolStr>) -> Self {
        self.subresource = name.into();
        self
    }

    /// Sets the fields that a write resets to their stored values, for each `apiVersion`: the write never owns them.
    pub fn reset_fields(self, fields: impl IntoIterator<Item = (SmolStr, Set)>) -> Self {
        self.filters(fields.into_iter().map(|(version, set)| (version, Filter::exclude(set))))
    }

    /// Sets a filter of the fields that a write may own, for each `apiVersion`. Without a filter it may own all fields.
    pub fn filters(mut self, filters: impl IntoIterator<Item = (SmolStr, Filter)>) -> Self {
        self.filters.extend(filters);
        self
    }

    /// Sets the empty object of this kind: for built-in kinds with the structs, lists and numbers that are always
    /// written. These fields have no owner. By default, as for custom resources, an empty object has only `apiVersion`
    /// and `kind`.
    pub fn empty_object(mut self, empty: Value) -> Self {
        self.empty = Some(empty);
        self
    }

    /// Sets if an update with an empty list of entries resets them. The reference does so except for custom resources,
    /// in which it cannot distinguish an empty list from none.
    pub fn empty_list_resets(mut self, yes: bool) -> Self {
        self.empty_list_resets = yes;
        self
    }

    /// Builds the field manager.
    pub fn build(self) -> FieldManager {
        let mut empty = self.empty.unwrap_or_else(Value::empty_map);
        empty.set_at(&["apiVersion"], Value::String(self.api_version.clone()));
        empty.set_at(&["kind"], Value::String(self.kind.clone()));
        let converter = VersionConverter(Arc::clone(&self.versions));
        let filter = self.filters.get(&self.api_version).cloned();
        FieldManager {
            api_version: self.api_version,
            kind: self.kind,
            subresource: self.subresource,
            versions: self.versions,
            updater: UpdaterBuilder::new(converter)
                .ignore_filter(self.filters)
                .keep_emptied(true)
                .build(),
            empty,
            empty_list_resets: self.empty_list_resets,
            unowned: unowned_metadata(),
            filter,
        }
    }
}

/// Returns the fields without an owner: those that identify an object and those that only the server sets.
fn unowned_metadata() -> Set {
    const FIELDS: [&str; 9] = [
        "name",
        "namespace",
        "creationTimestamp",
        "selfLink",
        "uid",
        "clusterName",
        "generation",
        "managedFields",
        "resourceVersion",
    ];
    let below_metadata = FIELDS.iter().map(|field| Path::from_fields(["metadata", field]));
    let top = ["apiVersion", "kind", "metadata"]
        .iter()
        .map(|field| Path::from_fields([*field]));
    top.chain(below_metadata).collect()
}

impl FieldManager {
    /// Creates a builder for writes of `kind` in `api_version` (such as `apps/v1`). For a subresource of another kind,
    /// such as `scale`, these are that kind's.
    pub fn builder(
        api_version: impl Into<SmolStr>,
        kind: impl Into<SmolStr>,
        versions: Arc<dyn Versions>,
    ) -> FieldManagerBuilder {
        FieldManagerBuilder {
            api_version: api_version.into(),
            kind: kind.into(),
            subresource: SmolStr::default(),
            versions,
            filters: BTreeMap::new(),
            empty: None,
            empty_list_resets: true,
        }
    }

    /// Merges `config` into the existing object (`None` if it does not exist yet) on behalf of `manager`. Fields of
    /// other managers are overwritten if `force` is set, otherwise they conflict.
    ///
    /// # Errors
    /// Returns an [`ApplyError`]; then nothing has changed.
    pub fn apply(
        &self,
        existing: Option<&Value>,
        config: &Value,
        manager: &str,
        force: bool,
        now: SystemTime,
    ) -> Result<Applied, ApplyError> {
        self.apply_with(existing, config, manager, &ApplyOptions::from_force(force), now)
    }

    /// Merges like [`FieldManager::apply`], with options about the fields of other managers.
    ///
    /// upstream: k8s.io/apimachinery/pkg/util/managedfields/internal#structuredMergeManager.Apply
    ///
    /// # Errors
    /// Returns an [`ApplyError`]; then nothing has changed.
    pub fn apply_with(
        &self,
        existing: Option<&Value>,
        config: &Value,
        manager: &str,
        options: &ApplyOptions,
        now: SystemTime,
    ) -> Result<Applied, ApplyError> {
        self.check_kind(config)?;
        let created = existing.is_none();
        let existing = existing.unwrap_or(&self.empty);
        let entry = self.entry(manager, Operation::Apply);
        let identifier = entry.identifier();
        let (mut managed, own) = Managed::decode_others(existing, &identifier)?;
        let unreadable_time = match config.at(&["metadata", "managedFields"]).and_then(Value::as_list) {
            Some(entries) => reject_managed_fields(entries)?,
            None => None,
        };
        let now = Timestamp::from_time(now);
        let bare = without_managed_fields(existing);
        if managed.0.is_empty() && own.is_none() && !created {
            managed = self.own_existing(&bare, managed, &now)?;
        }
        let existing_typed = self.trusted(bare)?;
        let (config_typed, fields, repeated) = match self.configuration(config.clone()) {
            Ok((typed, fields)) => (typed, fields, Vec::new()),
            Err(message) => {
                let message = format!(
                    "failed to create typed patch object ({}): {message}",
                    self.describe(config)
                );
                self.configuration_with_duplicates(message, config, options, &managed, own.as_ref())?
            }
        };

        // If no field is given up, the previous fields of the applier are not needed.
        let fields = fields.filter(|fields| self.keeps_all(fields, own.as_ref()));
        let own_time = own.as_ref().and_then(|own| own.entry.time.clone());
        if let (None, Some(own)) = (&fields, own) {
            managed.0.insert(identifier.clone(), own.read(Source::Stored)?);
        }
        let merge = |force| {
            let (managers, version, manager) = (managers_of(&managed), &self.api_version, identifier.as_str());
            match fields {
                Some(_) => {
                    (self.updater).apply_unpruned(&existing_typed, &config_typed, version, managers, manager, force)
                }
                None => (self.updater).apply(&existing_typed, &config_typed, version, managers, manager, force),
            }
        };
        let (merged, mut left) = match merge(options.force) {
            Err(MergeError::Conflicts(conflicts)) => {
                let not_inherited = match manager {
                    last_applied::MANAGER => self.not_inherited(&conflicts, &existing_typed),
                    _ => conflicts,
                };
                let forced = options.forced_fields();
                let left: MergeConflicts = (not_inherited.into_iter())
                    .filter(|conflict| !forced.contain(&conflict.path))
                    .collect();
                if !left.is_empty() && options.is_plain() {
                    return Err(ApplyError::Conflicts(named(left, &managed, |_| None)));
                }
                (merge(true), left)
            }
            merged => (merged, MergeConflicts::default()),
        };
        let mut merged = merged.map_err(|error| ApplyError::Failed(error.to_string()))?;
        if !options.unset.is_empty() {
            let unset;
            (merged, unset) = self.unset(merged, &existing_typed, &config_typed, &identifier, options)?;
            left = left.into_iter().chain(unset).collect();
        }
        if !left.is_empty() {
            let requested = merged.object.as_ref().unwrap_or(&existing_typed);
            let mut views = Views::new(VersionConverter(Arc::clone(&self.versions)), &existing_typed, requested);
            let conflicts = match options.conflict_details {
                true => named(left, &managed, |conflict| views.details(conflict, &managed)),
                false => named(left, &managed, |_| None),
            };
            return Err(ApplyError::Conflicts(conflicts));
        }
        if !repeated.is_empty() {
            let unmerged = || existing_typed.value().clone();
            let mut object = merged.object.take().map_or_else(unmerged, Typed::into_value);
            duplicates::add_to(&mut object, &repeated);
            merged.object = (object != *existing_typed.value())
                .then(|| self.trusted(object))
                .transpose()?;
        }
        if let Some(why) = unreadable_time {
            return Err(ApplyError::Failed(format!(
                "failed to convert new object ({}) to proper version: unable to convert unstructured object to {}: {why}",
                self.describe(config),
                group_version_kind(&self.api_version, &self.kind)
            )));
        }
        let time = merged.object.is_some().then_some(now).or(own_time);
        let managed = match fields {
            Some(fields) => after_unpruned(managed, merged.managers, Entry { time, ..entry }, fields),
            None => self.after_apply(managed, merged.managers, Entry { time, ..entry }),
        };
        let unmerged = merged.object.is_none();
        let mut object = merged.object.unwrap_or(existing_typed).into_value();
        if manager == last_applied::MANAGER {
            last_applied::update_annotation(&mut object, config);
        }
        managed.encode_into(&mut object);
        let changed = !unmerged || object != *existing;
        Ok(Applied {
            object: if changed { object } else { existing.clone() },
            changed,
            is_existing: unmerged,
        })
    }

    /// Removes the fields that the options unset from the result of an apply. Returns also the conflicts with the managers
    /// that own these fields.
    fn unset(
        &self,
        merged: Merged,
        existing: &Typed,
        config: &Typed,
        applier: &str,
        options: &ApplyOptions,
    ) -> Result<(Merged, Vec<MergeConflict>), ApplyError> {
        let object = merged.object.as_ref().unwrap_or(existing);
        let fixed = Fixed {
            unowned: &self.unowned,
            filter: self.filter.as_ref(),
        };
        let paths = unset::paths(&options.unset, config, object, &fixed)?;
        if paths.is_empty() {
            return Ok((merged, Vec::new()));
        }
        let remaining = object.remove_items_keeping_containers(&paths);
        let before = merged.managers;
        // The removal counts as an update, so that managers of every version lose the fields.
        let (_, mut managers) = self
            .updater
            .update(object, &remaining, &self.api_version, before.clone(), CURRENT)
            .map_err(|error| ApplyError::Failed(error.to_string()))?;
        managers.remove(CURRENT);
        let forced = options.forced_fields();
        let mut conflicts = Vec::new();
        for (name, owned) in before.iter().filter(|(name, _)| *name != applier) {
            let kept = managers.get(name).map(|kept| kept.set.clone()).unwrap_or_default();
            let lost = owned.set.difference(&kept);
            let unforced = lost.paths().filter(|path| !forced.contain(path));
            conflicts.extend(unforced.map(|path| MergeConflict {
                manager: name.clone(),
                path,
            }));
        }
        let merged = Merged {
            object: (remaining.value() != existing.value()).then_some(remaining),
            managers,
        };
        Ok((merged, conflicts))
    }

    /// Assigns the fields of an object without managers to a manager of their own before its first apply.
    fn own_existing(&self, bare: &Value, managed: Managed, now: &Timestamp) -> Result<Managed, ApplyError> {
        let pair = self.pair(self.empty.clone(), bare.clone());
        pair.map_err(|message| {
            let object = self.describe(bare);
            format!("failed to convert new object ({object}) to smd typed: {message}")
        })
        .and_then(|(empty, bare)| self.track(&empty, &bare, managed, BEFORE_FIRST_APPLY, now))
        .map_err(|message| ApplyError::Failed(format!("failed to create manager for existing fields: {message}")))
    }

    /// Records in `new` the owners of changed fields after a write other than apply replaced the existing object
    /// (`None` for a create). The `managedFields` of `new` are used unless they cannot be read or the write is to a
    /// subresource. Never fails: if ownership cannot be computed because `new` does not fit its type, all fields lose
    /// their owners.
    pub fn update(&self, existing: Option<&Value>, new: Value, manager: &str, now: SystemTime) -> Value {
        self.update_where(existing.unwrap_or(&self.empty), new, manager, now, |existing, new| {
            self.pair(existing, new)
        })
    }

    /// Records ownership like [`FieldManager::update`] if `existing` is known to fit its type, so that the parts that `new`
    /// shares with it do, too.
    pub fn update_valid(&self, existing: &Value, new: Value, manager: &str, now: SystemTime) -> Value {
        self.update_where(existing, new, manager, now, |existing, new| {
            let existing = self.trusted(existing).map_err(|error| error.to_string())?;
            debug_assert!(existing.validate(Duplicates::Allowed).is_ok());
            let new = Typed::changed(new, &existing).map_err(|errors| errors.to_string())?;
            Ok((existing, new))
        })
    }

    fn update_where(
        &self,
        existing: &Value,
        mut new: Value,
        manager: &str,
        now: SystemTime,
        typed: impl FnOnce(Value, Value) -> Result<(Typed, Typed), String>,
    ) -> Value {
        let managed = self.managed_before_update(existing, &new);
        managed::remove_from(&mut new);
        let created = existing.str_at(&["metadata", "uid"]).unwrap_or_default().is_empty();
        if managed.0.is_empty() && !created {
            return new;
        }
        let now = Timestamp::from_time(now);
        let existing = without_managed_fields(existing);
        let first = match managed.0.is_empty() {
            true => self.first(&existing, &new, manager, &now),
            false => None,
        };
        let tracked = || {
            let (existing, new) = typed(existing, new.clone())?;
            self.track(&existing, &new, managed, manager, &now)
        };
        if let Ok(managed) = first.map_or_else(tracked, Ok) {
            managed.encode_into(&mut new);
        }
        new
    }

    /// Returns the entries before an update.
    fn managed_before_update(&self, existing: &Value, new: &Value) -> Managed {
        let of_existing = || Managed::decode(existing, Source::Stored).unwrap_or_default();
        if !self.subresource.is_empty() || managed::list_in(new) == managed::list_in(existing) {
            return of_existing();
        }
        if is_reset(new, self.empty_list_resets) {
            return Managed::default();
        }
        match Managed::decode(new, Source::Request) {
            Ok(managed) if !managed.0.is_empty() => managed,
            _ => of_existing(),
        }
    }

    /// Returns the entries after `manager` changed `existing`, which has none, into `new`. `None` if sets are required, or
    /// if `new` does not fit its type.
    fn first(&self, existing: &Value, new: &Value, manager: &str, now: &Timestamp) -> Option<Managed> {
        let (schema, of) = self.merge_type().ok()?;
        let existing = Typed::trusted(existing.clone(), Arc::clone(&schema), of);
        let new = Typed::unchecked(new.clone(), schema, of);
        let fields = (self.updater).changed_fields_v1(&existing, &new, &self.api_version, &self.unowned)?;
        let mut managed = Managed::default();
        if fields.as_map().is_some_and(|fields| !fields.is_empty()) {
            let entry = Entry {
                time: Some(now.clone()),
                ..self.entry(manager, Operation::Update)
            };
            managed.0.insert(entry.identifier(), Record::written(entry, fields));
        }
        Some(managed)
    }

    /// Returns the entries after `manager` changed `existing` into `new`; neither object includes its list of entries.
    fn track(
        &self,
        existing: &Typed,
        new: &Typed,
        mut managed: Managed,
        manager: &str,
        now: &Timestamp,
    ) -> Result<Managed, String> {
        let managers = managers_of(&managed);
        let (_, mut managers) = self
            .updater
            .update(existing, new, &self.api_version, managers, CURRENT)
            .map_err(|error| error.to_string())?;
        let changed = managers
            .remove(CURRENT)
            .map(|owned| owned.set.difference(&self.unowned));
        take_over(&mut managed, managers);
        if let Some(changed) = changed.filter(|changed| !changed.is_empty()) {
            let mut entry = self.entry(manager, Operation::Update);
            entry.time = Some(now.clone());
            let identifier = entry.identifier();
            let previous = managed.0.remove(&identifier);
            let owned = match &previous {
                Some(record) => changed.union(&record.set),
                None => changed,
            };
            managed
                .0
                .insert(identifier, Record::new(entry, owned).in_place_of(previous));
        }
        cap_updates(&mut managed);
        Ok(managed)
    }

    /// True if an applier that now owns `fields` gives nothing up: it had no fields before, or it applied the same
    /// fields in the same version.
    fn keeps_all(&self, fields: &Value, own: Option<&Unread<'_>>) -> bool {
        own.is_none_or(|own| own.entry.api_version == self.api_version && own.value.get("fieldsV1") == Some(fields))
    }

    /// Returns the entries after an apply that resulted in `managers`; `entry` is the applier's.
    fn after_apply(&self, mut managed: Managed, mut managers: Managers, entry: Entry) -> Managed {
        let identifier = entry.identifier();
        let owned = managers
            .remove(&identifier)
            .map(|owned| owned.set.difference(&self.unowned));
        let previous = managed.0.remove(&identifier);
        take_over(&mut managed, managers);
        if let Some(set) = owned.filter(|set| !set.is_empty()) {
            managed
                .0
                .insert(identifier, Record::new(entry, set).in_place_of(previous));
        }
        managed
    }

    /// Returns the conflicts about fields that the applier does not inherit from client-side apply. It inherits the
    /// fields of the last applied configuration that still have the applied values.
    fn not_inherited(&self, conflicts: &MergeConflicts, existing: &Typed) -> MergeConflicts {
        let inherited = || {
            let configuration = last_applied::configuration(existing.value(), &self.api_version, &self.kind)?;
            let config = self.typed(configuration, Duplicates::Rejected).ok()?;
            let changed = config.compare(existing).ok()?;
            let set = config.to_field_set().ok()?.difference(&changed.modified);
            Some(set.difference(&changed.added).difference(&changed.removed))
        };
        let inherited = inherited().unwrap_or_default();
        (conflicts.iter())
            .filter(|conflict| !inherited.has(&conflict.path))
            .cloned()
            .collect()
    }

    fn entry(&self, manager: &str, operation: Operation) -> Entry {
        Entry {
            manager: SmolStr::new(if manager.is_empty() { UNKNOWN } else { manager }),
            operation,
            api_version: self.api_version.clone(),
            subresource: self.subresource.clone(),
            time: None,
        }
    }

    fn check_kind(&self, config: &Value) -> Result<(), ApplyError> {
        let kind = config.str_at(&["kind"]).unwrap_or_default();
        let api_version = config.str_at(&["apiVersion"]).unwrap_or_default();
        if kind == self.kind && api_version == self.api_version {
            return Ok(());
        }
        Err(ApplyError::WrongKind(group_version_kind(api_version, kind)))
    }

    /// Describes the object as in messages: `namespace/name; group/version, Kind=kind`.
    fn describe(&self, object: &Value) -> String {
        let metadata = |name| object.str_at(&["metadata", name]).unwrap_or_default();
        format!(
            "{}/{}; {}",
            metadata("namespace"),
            metadata("name"),
            group_version_kind(&self.api_version, &self.kind)
        )
    }

    fn typed(&self, value: Value, duplicates: Duplicates) -> Result<Typed, String> {
        let (schema, merge_type) = self.merge_type()?;
        Typed::new(value, schema, merge_type, duplicates).map_err(|errors| errors.to_string())
    }

    /// Validates a configuration and returns it with the fields that an apply of it owns, in the form of
    /// `managedFields`, if these can be computed without sets.
    fn configuration(&self, value: Value) -> Result<(Typed, Option<Value>), String> {
        let (schema, merge_type) = self.merge_type()?;
        let configuration = self
            .updater
            .configuration(value, schema, merge_type, &self.api_version, &self.unowned);
        configuration.map_err(|errors| errors.to_string())
    }

    /// Returns an invalid configuration with the first of the items of each key, if it is valid then, and the options allow
    /// this.
    ///
    /// # Errors
    /// [`ApplyError::Duplicates`] if the items are the only reason why the configuration is invalid and the options request
    /// details, otherwise [`ApplyError::Failed`].
    fn configuration_with_duplicates(
        &self,
        message: String,
        config: &Value,
        options: &ApplyOptions,
        managed: &Managed,
        own: Option<&Unread<'_>>,
    ) -> Result<(Typed, Option<Value>, Vec<RepeatedItems>), ApplyError> {
        if options.is_plain() {
            return Err(ApplyError::Failed(message));
        }
        let (schema, merge_type) = self.merge_type().map_err(ApplyError::Failed)?;
        let found = Typed::unchecked(config.clone(), schema, merge_type).unique_items();
        let Some((unique, repeated)) = found.filter(|(_, repeated)| !repeated.is_empty()) else {
            return Err(ApplyError::Failed(message));
        };
        let Ok((typed, fields)) = self.configuration(unique.value().clone()) else {
            return Err(ApplyError::Failed(message));
        };
        if options.allow_duplicates {
            return Ok((typed, fields, repeated));
        }
        let mut managed = managed.clone();
        if let Some(own) = own {
            managed
                .0
                .insert(own.entry.identifier(), own.clone().read(Source::Stored)?);
        }
        let error = duplicates::error(message, unique, repeated, &managed);
        Err(ApplyError::Duplicates(Box::new(error)))
    }

    /// Types a stored object and its replacement.
    fn pair(&self, existing: Value, new: Value) -> Result<(Typed, Typed), String> {
        let new = self.typed(new, Duplicates::Allowed)?;
        let existing = self.trusted(existing).map_err(|error| error.to_string())?;
        Ok((existing, new))
    }

    /// Types a stored object, which was valid when it was stored.
    fn trusted(&self, value: Value) -> Result<Typed, ApplyError> {
        let (schema, merge_type) = self.merge_type().map_err(ApplyError::Failed)?;
        Ok(Typed::trusted(value, schema, merge_type))
    }

    fn merge_type(&self) -> Result<(Arc<Schema>, TypeRef), String> {
        self.versions.merge_type(&self.api_version).ok_or_else(|| {
            format!(
                "no corresponding type for {}",
                group_version_kind(&self.api_version, &self.kind)
            )
        })
    }
}

/// Rejects `managedFields` in a configuration. The reference treats unreadable entries as none. If a time is the cause,
/// it fails later when it converts the new object: returns the message of that failure.
fn reject_managed_fields(entries: &[Value]) -> Result<Option<String>, ApplyError> {
    const TEXTS: [&str; 6] = [
        "manager",
        "operation",
        "apiVersion",
        "fieldsType",
        "subresource",
        "time",
    ];
    let is_text = |entry: &Value, name| {
        entry
            .get(name)
            .is_none_or(|value| value.is_null() || value.as_str().is_some())
    };
    if !entries
        .iter()
        .all(|entry| entry.as_map().is_some() && TEXTS.iter().all(|name| is_text(entry, name)))
    {
        return Ok(None);
    }
    let mut times = entries.iter().filter_map(|entry| entry.str_at(&["time"]));
    match times.find_map(|time| GoTime::parse(time, Precision::Seconds).err()) {
        Some(error) => Ok(Some(error.to_string())),
        None => Err(ApplyError::ManagedFieldsInConfiguration),
    }
}

/// Returns the object without its list of entries, which is not merged.
fn without_managed_fields(object: &Value) -> Value {
    let mut bare = object.clone();
    managed::remove_from(&mut bare);
    bare
}

/// True if the list in `object` requests the removal of all entries: it has one empty entry, or it is empty and
/// `empty_resets` is set.
fn is_reset(object: &Value, empty_resets: bool) -> bool {
    let Some(list) = managed::list_in(object).and_then(Value::as_list) else {
        return false;
    };
    match &list[..] {
        [] => empty_resets,
        [Value::Map(entry)] => entry
            .iter()
            .all(|(_, value)| value.is_null() || value.as_str() == Some("")),
        _ => false,
    }
}

/// Converts the entries for the merge engine.
fn managers_of(managed: &Managed) -> Managers {
    (managed.0.iter())
        .map(|(identifier, record)| {
            let owned = VersionedSet {
                set: record.set.clone(),
                api_version: record.entry.api_version.clone(),
                applied: record.entry.operation == Operation::Apply,
            };
            (identifier.clone(), owned)
        })
        .collect()
}

/// Applies the merge engine's result to the entries.
fn take_over(managed: &mut Managed, mut managers: Managers) {
    managed
        .0
        .retain(|identifier, record| match managers.remove(identifier) {
            None => false,
            Some(owned) => {
                record.set = owned.set;
                true
            }
        });
}

/// Returns the entries after an apply that resulted in `others` and owns `fields`; `managed` are the entries of the
/// other managers before it.
fn after_unpruned(mut managed: Managed, others: Managers, entry: Entry, fields: Value) -> Managed {
    take_over(&mut managed, others);
    if fields.as_map().is_some_and(|fields| !fields.is_empty()) {
        managed.0.insert(entry.identifier(), Record::written(entry, fields));
    }
    managed
}

/// Converts conflicts to those with the manager names of messages, and with their details.
fn named(
    conflicts: MergeConflicts,
    managed: &Managed,
    mut details: impl FnMut(&MergeConflict) -> Option<Box<ConflictDetails>>,
) -> Conflicts {
    let named = conflicts.into_iter().map(|conflict| Conflict {
        details: details(&conflict),
        manager: match managed.0.get(&conflict.manager) {
            Some(record) => record.entry.display_name(),
            None => conflict.manager.to_string(),
        },
        path: conflict.path.to_string(),
    });
    named.collect()
}

/// Formats a kind as in messages: `apps/v1, Kind=Deployment`.
fn group_version_kind(api_version: &str, kind: &str) -> String {
    match api_version.matches('/').count() {
        0 => format!("/{api_version}, Kind={kind}"),
        1 => format!("{api_version}, Kind={kind}"),
        _ => "/, Kind=".to_owned(),
    }
}
