//! The field manager of a kind: what each write does to `managedFields`, and what an apply does to the object.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use holdfast_gotext::time::{Precision, Timestamp as GoTime};
use holdfast_merge::{ApplyError as MergeError, Conflicts as MergeConflicts};
use holdfast_merge::{
    Duplicates, Filter, Managers, Path, Schema, Set, TypeRef, Typed, Updater, UpdaterBuilder, VersionedSet,
};
use holdfast_value::{SmolStr, Value};

use crate::cap::cap_updates;
use crate::entry::{Entry, Operation, Source};
use crate::error::{ApplyError, Conflict, Conflicts};
use crate::last_applied;
use crate::managed::{self, Managed, Record, Unread};
use crate::timestamp::Timestamp;
use crate::versions::{VersionConverter, Versions};

/// The manager of what stood in an object before its first apply, where no manager was recorded.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// The manager of a write that does not name one.
const UNKNOWN: &str = "unknown";

/// Under this name the merge engine sees an update; no identifier of an entry is like it.
const CURRENT: &str = "current-operation";

/// What each write of one kind, through one version and one address, does to `metadata.managedFields`, as kube-apiserver
/// keeps it. See <https://kubernetes.io/docs/reference/using-api/server-side-apply/>.
///
/// All objects are in the version of the address, with defaults filled in, as a client would see them. Made with
/// [`FieldManager::builder`]; shared by all requests.
pub struct FieldManager {
    api_version: SmolStr,
    kind: SmolStr,
    subresource: SmolStr,
    versions: Arc<dyn Versions>,
    updater: Updater<VersionConverter>,
    empty: Value,
    empty_list_resets: bool,
    unowned: Set,
}

/// Settings of a [`FieldManager`].
pub struct FieldManagerBuilder {
    api_version: SmolStr,
    kind: SmolStr,
    subresource: SmolStr,
    versions: Arc<dyn Versions>,
    filters: BTreeMap<SmolStr, Filter>,
    empty: Option<Value>,
    empty_list_resets: bool,
}

/// What an apply leads to.
#[derive(Clone, Debug)]
pub struct Applied {
    /// The merged object, not yet defaulted, with its new `managedFields`.
    pub object: Value,
    /// Whether it differs from the live object in anything at all.
    pub changed: bool,
    /// Whether it is the live object but for what metadata says of managers.
    pub is_live: bool,
}

impl FieldManagerBuilder {
    /// The subresource of the address, such as `status`. Without it, or where it is empty, writes are to the object itself.
    pub fn subresource(mut self, name: impl Into<SmolStr>) -> Self {
        self.subresource = name.into();
        self
    }

    /// The fields that a write to this address leaves as they are, for each `apiVersion`: they are never owned by it.
    pub fn reset_fields(self, fields: impl IntoIterator<Item = (SmolStr, Set)>) -> Self {
        self.filters(fields.into_iter().map(|(version, set)| (version, Filter::exclude(set))))
    }

    /// For each `apiVersion`, what a write to this address may own; without a filter everything.
    pub fn filters(mut self, filters: impl IntoIterator<Item = (SmolStr, Filter)>) -> Self {
        self.filters.extend(filters);
        self
    }

    /// What an object of this kind holds that says nothing: for built-in kinds the structs, lists and numbers that are always
    /// written out. These have no owner. Without it, an empty object is `apiVersion` and `kind`, as with custom resources.
    pub fn empty_object(mut self, empty: Value) -> Self {
        self.empty = Some(empty);
        self
    }

    /// Whether an update that sends an empty list of entries resets them, as it does but for custom resources: the reference
    /// cannot distinguish an empty list from none in those.
    pub fn empty_list_resets(mut self, yes: bool) -> Self {
        self.empty_list_resets = yes;
        self
    }

    /// The field manager.
    pub fn build(self) -> FieldManager {
        let mut empty = self.empty.unwrap_or_else(Value::empty_map);
        empty.set_at(&["apiVersion"], Value::String(self.api_version.clone()));
        empty.set_at(&["kind"], Value::String(self.kind.clone()));
        let converter = VersionConverter(Arc::clone(&self.versions));
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
        }
    }
}

/// What identifies an object and what only the server sets: without an owner.
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
    let below_metadata = FIELDS.iter().map(|field| Path::of_fields(["metadata", field]));
    let top = ["apiVersion", "kind", "metadata"]
        .iter()
        .map(|field| Path::of_fields([*field]));
    top.chain(below_metadata).collect()
}

impl FieldManager {
    /// The settings of a field manager for the address of `kind` in `api_version` (such as `apps/v1`). For an address that
    /// takes another kind, such as `scale`, these are that kind's.
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

    /// Merges `config` into the live object (`None` where there is none yet) on behalf of `manager`. Values of others are
    /// overwritten if `force` is set; else they conflict.
    ///
    /// # Errors
    /// See [`ApplyError`]. Nothing has changed then.
    pub fn apply(
        &self,
        live: Option<&Value>,
        config: &Value,
        manager: &str,
        force: bool,
        now: SystemTime,
    ) -> Result<Applied, ApplyError> {
        self.check_kind(config)?;
        let created = live.is_none();
        let live = live.unwrap_or(&self.empty);
        let entry = self.entry(manager, Operation::Apply);
        let identifier = entry.identifier();
        let (mut managed, own) = Managed::decode_others(live, &identifier)?;
        let unreadable_time = match config.at(&["metadata", "managedFields"]).and_then(Value::as_list) {
            Some(entries) => refuse_managed_fields(entries)?,
            None => None,
        };
        let now = Timestamp::of(now);
        let bare = without_managed_fields(live);
        if managed.0.is_empty() && own.is_none() && !created {
            managed = self.own_existing(&bare, managed, &now)?;
        }
        let live_typed = self.trusted(bare)?;
        let (config_typed, fields) = self.configuration(config.clone()).map_err(|message| {
            ApplyError::Failed(format!(
                "failed to create typed patch object ({}): {message}",
                self.describe(config)
            ))
        })?;

        // Where nothing is to be given up, what the applier owned need not be known.
        let fields = fields.filter(|fields| self.keeps_all(fields, own.as_ref()));
        let own_time = own.as_ref().and_then(|own| own.entry.time.clone());
        if let (None, Some(own)) = (&fields, own) {
            managed.0.insert(identifier.clone(), own.read(Source::Stored)?);
        }
        let merge = |force| {
            let (managers, version, manager) = (managers_of(&managed), &self.api_version, identifier.as_str());
            match fields {
                Some(_) => (self.updater).apply_unpruned(&live_typed, &config_typed, version, managers, manager, force),
                None => (self.updater).apply(&live_typed, &config_typed, version, managers, manager, force),
            }
        };
        let mut merged = merge(force);
        if let Err(MergeError::Conflicts(conflicts)) = &merged {
            let left = match manager {
                last_applied::MANAGER => self.not_inherited(conflicts, &live_typed),
                _ => conflicts.clone(),
            };
            if !left.is_empty() {
                return Err(ApplyError::Conflicts(named(left, &managed)));
            }
            merged = merge(true);
        }
        let merged = merged.map_err(|error| ApplyError::Failed(error.to_string()))?;
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
        let mut object = merged.object.unwrap_or(live_typed).into_value();
        if manager == last_applied::MANAGER {
            last_applied::update_annotation(&mut object, config);
        }
        managed.encode_into(&mut object);
        let changed = !unmerged || object != *live;
        Ok(Applied {
            object: if changed { object } else { live.clone() },
            changed,
            is_live: unmerged,
        })
    }

    /// Has a manager of its own own the fields of an object that no manager owned before its first apply.
    fn own_existing(&self, bare: &Value, managed: Managed, now: &Timestamp) -> Result<Managed, ApplyError> {
        let existing = self.pair(self.empty.clone(), bare.clone());
        existing
            .map_err(|message| {
                let object = self.describe(bare);
                format!("failed to convert new object ({object}) to smd typed: {message}")
            })
            .and_then(|(empty, bare)| self.track(&empty, &bare, managed, BEFORE_FIRST_APPLY, now))
            .map_err(|message| ApplyError::Failed(format!("failed to create manager for existing fields: {message}")))
    }

    /// Records in `new` who changed what when it took the place of the live object (`None` where it is new itself) by a write
    /// that is no apply. `managedFields` sent with `new` count, unless they cannot be read or come through a subresource.
    /// Never fails: where ownership cannot be computed, because `new` does not fit its type, nothing has an owner any more.
    pub fn update(&self, live: Option<&Value>, new: Value, manager: &str, now: SystemTime) -> Value {
        self.update_where(live.unwrap_or(&self.empty), new, manager, now, |live, new| {
            self.pair(live, new)
        })
    }

    /// As [`FieldManager::update`], where `live` is known to fit its type, so that what `new` shares with it does.
    pub fn update_valid(&self, live: &Value, new: Value, manager: &str, now: SystemTime) -> Value {
        self.update_where(live, new, manager, now, |live, new| {
            let live = self.trusted(live).map_err(|error| error.to_string())?;
            debug_assert!(live.validate(Duplicates::Allowed).is_ok());
            let new = Typed::changed(new, &live).map_err(|errors| errors.to_string())?;
            Ok((live, new))
        })
    }

    fn update_where(
        &self,
        live: &Value,
        mut new: Value,
        manager: &str,
        now: SystemTime,
        typed: impl FnOnce(Value, Value) -> Result<(Typed, Typed), String>,
    ) -> Value {
        let managed = self.managed_before_update(live, &new);
        managed::remove_from(&mut new);
        let created = live.str_at(&["metadata", "uid"]).unwrap_or_default().is_empty();
        if managed.0.is_empty() && !created {
            return new;
        }
        let now = Timestamp::of(now);
        let live = without_managed_fields(live);
        let first = match managed.0.is_empty() {
            true => self.first(&live, &new, manager, &now),
            false => None,
        };
        let tracked = || {
            let (live, new) = typed(live, new.clone())?;
            self.track(&live, &new, managed, manager, &now)
        };
        if let Ok(managed) = first.map_or_else(tracked, Ok) {
            managed.encode_into(&mut new);
        }
        new
    }

    /// The entries that an update starts from.
    fn managed_before_update(&self, live: &Value, new: &Value) -> Managed {
        let of_live = || Managed::decode(live, Source::Stored).unwrap_or_default();
        if !self.subresource.is_empty() || managed::list_in(new) == managed::list_in(live) {
            return of_live();
        }
        if is_reset(new, self.empty_list_resets) {
            return Managed::default();
        }
        match Managed::decode(new, Source::Request) {
            Ok(managed) if !managed.0.is_empty() => managed,
            _ => of_live(),
        }
    }

    /// The entries once `manager` changed `live` into `new`, where there were none; `None` where sets are to be made, or where `new`
    /// does not fit its type.
    fn first(&self, live: &Value, new: &Value, manager: &str, now: &Timestamp) -> Option<Managed> {
        let (schema, of) = self.merge_type().ok()?;
        let live = Typed::trusted(live.clone(), Arc::clone(&schema), of);
        let new = Typed::unchecked(new.clone(), schema, of);
        let fields = (self.updater).changed_fields_v1(&live, &new, &self.api_version, &self.unowned)?;
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

    /// What the entries are after `manager` changed `live` into `new`, neither of which has a list of them.
    fn track(
        &self,
        live: &Typed,
        new: &Typed,
        mut managed: Managed,
        manager: &str,
        now: &Timestamp,
    ) -> Result<Managed, String> {
        let managers = managers_of(&managed);
        let (_, mut managers) = self
            .updater
            .update(live, new, &self.api_version, managers, CURRENT)
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

    /// Whether an applier that now owns `fields` gives nothing up: it had no fields before, or applied the same ones through the same
    /// version.
    fn keeps_all(&self, fields: &Value, own: Option<&Unread<'_>>) -> bool {
        own.is_none_or(|own| own.entry.api_version == self.api_version && own.value.get("fieldsV1") == Some(fields))
    }

    /// The entries after an apply that left `managers`; `entry` is that of the applier.
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

    /// The conflicts over what client-side apply did not leave to its successor. It leaves the fields of the last applied
    /// configuration that are as it left them.
    fn not_inherited(&self, conflicts: &MergeConflicts, live: &Typed) -> MergeConflicts {
        let inherited = || {
            let config = last_applied::configuration(live.value(), &self.api_version, &self.kind)?;
            let config = self.typed(config, Duplicates::Refused).ok()?;
            let changed = config.compare(live).ok()?;
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

    /// The object in words of messages: `namespace/name; group/version, Kind=kind`.
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

    /// A configuration, and what an apply of it owns in the form of `managedFields`, where that is seen without the sets.
    fn configuration(&self, value: Value) -> Result<(Typed, Option<Value>), String> {
        let configuration = self
            .updater
            .configuration(value, self.merge_type()?, &self.api_version, &self.unowned);
        configuration.map_err(|errors| errors.to_string())
    }

    /// A stored object, and one that takes its place.
    fn pair(&self, live: Value, new: Value) -> Result<(Typed, Typed), String> {
        let new = self.typed(new, Duplicates::Allowed)?;
        let live = self.trusted(live).map_err(|error| error.to_string())?;
        Ok((live, new))
    }

    /// A stored object: it was valid when it was stored.
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

/// Refuses `managedFields` in a configuration. To the reference, those that it cannot read are none. Where a time is why, it
/// fails later, when it converts the new object: returns the message of that failure.
fn refuse_managed_fields(entries: &[Value]) -> Result<Option<String>, ApplyError> {
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

/// The object without its list of entries, which has no part in merging.
fn without_managed_fields(object: &Value) -> Value {
    let mut bare = object.clone();
    managed::remove_from(&mut bare);
    bare
}

/// Whether the list in `object` asks for all entries to go: it has one entry, which says nothing, or where `empty_resets` it
/// is empty.
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

/// The entries as the merge engine sees them.
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

/// Takes over what the merge engine left to the entries.
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

/// The entries after an apply that left `others` and owns `fields`; `managed` are those of the others before it.
fn after_unpruned(mut managed: Managed, others: Managers, entry: Entry, fields: Value) -> Managed {
    take_over(&mut managed, others);
    if fields.as_map().is_some_and(|fields| !fields.is_empty()) {
        managed.0.insert(entry.identifier(), Record::written(entry, fields));
    }
    managed
}

/// The conflicts with their managers as messages name them.
fn named(conflicts: MergeConflicts, managed: &Managed) -> Conflicts {
    let named = conflicts.into_iter().map(|conflict| Conflict {
        manager: match managed.0.get(&conflict.manager) {
            Some(record) => record.entry.display_name(),
            None => conflict.manager.to_string(),
        },
        path: conflict.path.to_string(),
    });
    Conflicts(named.collect())
}

/// A kind in the words of messages: `apps/v1, Kind=Deployment`.
fn group_version_kind(api_version: &str, kind: &str) -> String {
    match api_version.matches('/').count() {
        0 => format!("/{api_version}, Kind={kind}"),
        1 => format!("{api_version}, Kind={kind}"),
        _ => "/, Kind=".to_owned(),
    }
}
