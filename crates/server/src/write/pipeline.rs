//! One run of a write over one snapshot, from the object that is there to the one that is to be stored.

use std::sync::Arc;
use std::time::SystemTime;

use holdfast_authorization::{AccessTarget, Attributes, ResourceTarget};
use holdfast_resource::metadata::{validate_metadata, validate_metadata_update};
use holdfast_resource::{
    FieldError, FieldPath, GroupKind, GroupVersion, KindType, Operation, Refusal, Resource, Verb, WriteContext,
};
use holdfast_value::{SmolStr, Value};

use super::change::{Change, Next};
use super::outcome::{Call, Outcome};
use super::webhooks::{Asked, Given};
use super::{Target, deletion, metadata, scale, tracking};
use crate::http::ApiError;
use crate::identity::authorization;
use crate::objects::lookup::SnapshotLookup;
use crate::objects::{self, Entry, Snapshot};
use crate::representation::conversion;
use crate::runtime::long_work;
use crate::write::Context;

/// What is to be done to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// The object is there as it should be.
    Keep,
    /// The object is to be stored.
    Put,
    /// The object is to be removed; the update took away what it waited for.
    Remove,
}

/// What a run came to.
pub(super) struct Prepared {
    /// What is to be done.
    pub(super) action: Action,
    /// The object in its storage version.
    pub(super) object: Value,
    /// The entry that the run started from.
    pub(super) live: Option<Arc<Entry>>,
    /// Who wants to hear of the outcome.
    pub(super) outcome: Outcome,
    /// What the client is to be warned of.
    pub(super) warnings: Vec<String>,
}

/// What was sent to an address that shows an object in other words: a Scale.
pub(super) struct Sent<'a> {
    pub(super) object: &'a Value,
    pub(super) old: &'a Value,
}

/// One run of a write.
pub(crate) struct Pipeline<'a> {
    pub(super) context: &'a Context,
    pub(super) target: &'a Target,
    pub(super) snapshot: &'a Snapshot,
    pub(super) lookup: SnapshotLookup<'a>,
}

impl<'a> Pipeline<'a> {
    /// A run of a write to `target` over `snapshot`.
    pub(super) fn new(context: &'a Context, target: &'a Target, snapshot: &'a Snapshot) -> Self {
        Self {
            context,
            target,
            snapshot,
            lookup: SnapshotLookup {
                registry: &target.registry,
                snapshot,
                trees: &context.trees,
                failing: context.store.is_failing(),
            },
        }
    }

    /// The time of the write.
    pub(super) fn now(&self) -> SystemTime {
        self.target.now
    }

    /// The type of what the address takes.
    ///
    /// # Errors
    /// 500 where there is none.
    pub(super) fn kind_type(&self) -> Result<Arc<dyn KindType>, ApiError> {
        let Target {
            body_version,
            body_kind,
            ..
        } = self.target;
        let types = self.context.field_managers.types();
        let kind_type = types.of_body(&self.target.shown.resource, body_version, body_kind);
        kind_type.ok_or_else(|| ApiError::internal(format!("{body_kind} in {body_version} has no type")))
    }

    /// The run of a POST: `object` is decoded, typed and has its defaults.
    pub(super) async fn create(&self, mut object: Value) -> Result<Prepared, ApiError> {
        if self.resource().capabilities.keeps_reset_fields_at_creation {
            let mut tracked = object.clone();
            metadata::reset_fields(&mut tracked, None, &self.target.reset_fields);
            tracking::update(self, None, &mut tracked).await;
            metadata::take(&mut object, &tracked, &["metadata", "managedFields"]);
        } else {
            tracking::update(self, None, &mut object).await;
        }
        self.finish_create(object, false).await
    }

    /// The run of a PUT or a PATCH.
    pub(super) async fn update(&self, change: &Change) -> Result<Prepared, ApiError> {
        let target = self.target;
        let key = self.key(&target.name);
        let Some(entry) = self.snapshot.get(key.as_bytes()) else {
            return self.update_of_nothing(change, &key).await;
        };
        long_work::begins(entry.bytes().len()).await;
        let stored = objects::tree_or_refusal(entry)?;
        if let Some(fields) = &target.scale {
            return scale::update(self, change, fields, entry, &stored).await;
        }
        self.check_uid(change, &key, Some(&stored))?;
        let live = target.shown.tree(&self.context.representation, entry).await?;
        let next = change.next(self, &live).await?;
        let told = next.warnings.clone();
        let outcome = self.update_to(change, next, entry, &stored, &live).await;
        // What was left out of the object is told even where the rest is refused.
        outcome.map_err(|error| error.with_warnings(told))
    }

    /// The run of an update whose outcome before anyone else has a say is known.
    async fn update_to(
        &self,
        change: &Change,
        next: Next,
        entry: &Arc<Entry>,
        stored: &Value,
        live: &Value,
    ) -> Result<Prepared, ApiError> {
        let Next { mut object, warnings } = next;
        self.target.check_deadline()?;
        self.check_place(&mut object)?;
        metadata::reset_fields(&mut object, Some(live), &self.target.reset_fields);
        if !change.tracks() {
            tracking::update(self, Some(live), &mut object).await;
        }
        if self.checks_as_sent() {
            return self.finish_update(object, entry, live, None, warnings).await;
        }
        let object = self.to_storage_version(object).await?;
        self.finish_update(object, entry, stored, None, warnings).await
    }

    /// Whether objects are checked in the version of the request, and stored in the storage version after that.
    pub(super) fn checks_as_sent(&self) -> bool {
        self.resource().conventions.checked_as_sent
    }

    /// A checked object in its storage version.
    async fn to_be_stored(&self, object: Value) -> Result<Value, ApiError> {
        if self.checks_as_sent() {
            return self.to_storage_version(object).await;
        }
        Ok(object)
    }

    /// What updates have in common once the object is complete and its managers are known.
    pub(super) async fn finish_update(
        &self,
        mut object: Value,
        entry: &Arc<Entry>,
        stored: &Value,
        sent: Option<Sent<'_>>,
        warnings: Vec<String>,
    ) -> Result<Prepared, ApiError> {
        self.target.check_deadline()?;
        let name = SmolStr::new(metadata::name(stored));
        let call = self.call(Operation::Update, &name);
        call.warn_all(warnings);
        let settled = self.settle_update(&call, &mut object, stored, sent).await;
        settled.map_err(|error| call.refused(error))?;
        let completes = deletion::completes(self.resource(), &object, stored);
        let object = self.to_be_stored(object).await?;
        let unchanged = if self.checks_as_sent() {
            object == objects::tree(entry)
        } else {
            object == *stored
        };
        let action = if completes {
            Action::Remove
        } else if unchanged {
            Action::Keep
        } else {
            Action::Put
        };
        Ok(Prepared {
            action,
            object,
            live: Some(Arc::clone(entry)),
            warnings: call.warnings(),
            outcome: call.outcome(),
        })
    }

    /// Admission, preparation and validation of an object that takes the place of `stored`.
    async fn settle_update(
        &self,
        call: &Call<'_>,
        object: &mut Value,
        stored: &Value,
        sent: Option<Sent<'_>>,
    ) -> Result<(), ApiError> {
        let (resource, target, name) = (self.resource(), self.target, call.name);
        let (strategy, admission) = (&resource.strategy, &self.context.admission);
        let refuse = |refusal| self.refusal(refusal, name);
        let asked = self.asked("UPDATE", name);
        match &sent {
            // Those outside were asked about what was sent.
            Some(_) => admission
                .mutate(call, resource, Some(object), Some(stored))
                .map_err(refuse)?,
            None => {
                let mutated = self.mutate(call, &asked, Some(object), Some(stored), Some(&refuse));
                if mutated.await? {
                    metadata::reset_fields(object, Some(stored), &target.reset_fields);
                    check_namespace(object, &target.namespace)?;
                }
            }
        }
        target.check_deadline()?;
        call.warn_all(metadata::drop_repeated_owners(object, true));
        let bears_self_link = object.at(&["metadata", "selfLink"]).is_some();
        self.check_version(object, stored)?;
        metadata::keep(object, stored);
        // The reference compares before it drops the selfLink, so that one makes the write count as a change.
        if !bears_self_link {
            tracking::keep_times(object, stored);
        }
        strategy.prepare_for_update(call, object, stored).map_err(refuse)?;
        // A write to the Scale is one to the object itself, in other words.
        let address = if target.scale.is_some() {
            ""
        } else {
            target.subresource.as_str()
        };
        metadata::next_generation(object, stored, &resource.rules, address);
        self.refuse_unidentified(name, object)?;
        let checks = &resource.rules.metadata_checks;
        let mut errors = validate_metadata_update(checks, address, object, stored);
        errors.extend(strategy.validate_update(call, object, stored));
        self.refuse_invalid(name, errors)?;
        admission
            .validate(call, resource, Some(object), Some(stored))
            .map_err(refuse)?;
        let (new, old) = sent.as_ref().map_or((&*object, stored), |sent| (sent.object, sent.old));
        self.validate_outside(call, &asked, Some(new), Some(old)).await?;
        call.warn_all(strategy.warnings(call, object, Some(stored)));
        Ok(())
    }

    /// The run of an update where no object is: creation, where the change or the kind allows it.
    async fn update_of_nothing(&self, change: &Change, key: &str) -> Result<Prepared, ApiError> {
        let target = self.target;
        if target.scale.is_some() || !change.may_create(self.resource(), &target.subresource) {
            self.check_uid(change, key, None)?;
            return Err(ApiError::not_found(&self.resource().group_resource(), &target.name));
        }
        let Next { mut object, warnings } = change.first(self).await?;
        self.check_place(&mut object)?;
        let uid = SmolStr::new(metadata::uid(&object));
        if !uid.is_empty() && change.tracks() {
            let why =
                format!("uid mismatch: the provided object specified uid {uid}, and no existing object was found");
            return Err(ApiError::conflict(&self.resource().group_resource(), &target.name, why));
        }
        self.check_uid(change, key, None)?;
        version_number(&object)?;
        // A dry run answers with what was sent.
        if !target.dry_run {
            object.remove_at(&["metadata", "resourceVersion"]);
        }
        metadata::wipe(&mut object);
        metadata::set_namespace(&mut object, &target.namespace);
        if !change.tracks() {
            tracking::update(self, None, &mut object).await;
        }
        let mut prepared = self.finish_create(object, true).await?;
        prepared.warnings.splice(0..0, warnings);
        Ok(prepared)
    }

    /// Refuses to create where the user may only change.
    fn check_may_create(&self, name: &str) -> Result<(), ApiError> {
        let target = self.target;
        let attributes = Attributes {
            verb: Verb::Create.name(),
            target: AccessTarget::Resource(ResourceTarget {
                group: &self.resource().group,
                version: target.body_version.rsplit('/').next().unwrap_or_default(),
                resource: &self.resource().plural,
                subresource: "",
                namespace: &target.namespace,
                name,
            }),
        };
        authorization::authorize(self.context.authorizer.as_ref(), &target.user, &attributes)
    }

    /// What creations have in common once the object is complete and its managers are known. `by_update` says that the
    /// request is one to change the object, so that nobody has asked yet whether its user may create.
    async fn finish_create(&self, object: Value, by_update: bool) -> Result<Prepared, ApiError> {
        let mut object = if self.checks_as_sent() {
            object
        } else {
            self.to_storage_version(object).await?
        };
        let wanted = SmolStr::new(metadata::wanted_name(&object));
        let call = self.call(Operation::Create, &wanted);
        let admitted = self.admit_new(&call, &mut object).await;
        admitted.map_err(|error| call.refused(error))?;
        let name = SmolStr::new(metadata::name(&object));
        let call = call.renamed(self.call(Operation::Create, &name));
        let settled = self.settle_new(&call, &mut object, by_update).await;
        settled.map_err(|error| call.refused(error))?;
        Ok(Prepared {
            action: Action::Put,
            object: self.to_be_stored(object).await?,
            live: None,
            warnings: call.warnings(),
            outcome: call.outcome(),
        })
    }

    /// Mutating admission of a new object, and then its identity: those who change it see no name that is yet to be made up.
    async fn admit_new(&self, call: &Call<'_>, object: &mut Value) -> Result<(), ApiError> {
        let target = self.target;
        let name = SmolStr::new(metadata::name(object));
        let asked = self.asked("CREATE", &name);
        let refuse = |refusal| self.refusal(refusal, call.name);
        let mutated = self.mutate(call, &asked, Some(object), None, Some(&refuse));
        if mutated.await? {
            if !self.resource().capabilities.keeps_reset_fields_at_creation {
                metadata::reset_fields(object, None, &target.reset_at_creation());
            }
            check_namespace(object, &target.namespace)?;
        }
        call.warn_all(metadata::drop_repeated_owners(object, true));
        let identifiers = self.context.identifiers.as_ref();
        metadata::fill_in(object, &target.namespace, identifiers, self.now());
        Ok(())
    }

    /// Preparation, validation and validating admission of a new object.
    async fn settle_new(&self, call: &Call<'_>, object: &mut Value, by_update: bool) -> Result<(), ApiError> {
        self.target.check_deadline()?;
        let (resource, name) = (self.resource(), call.name);
        let refuse = |refusal| self.refusal(refusal, name);
        metadata::first_generation(object, &resource.rules);
        if let Some(status) = &resource.rules.initial_status {
            object.set_at(&["status"], status.clone());
        }
        resource.strategy.prepare_for_create(call, object).map_err(refuse)?;
        self.refuse_unidentified(name, object)?;
        let mut errors = validate_metadata(resource, object);
        errors.extend(resource.strategy.validate(call, object));
        self.refuse_invalid(name, errors)?;
        if by_update {
            self.check_may_create(name)?;
        }
        let asked = self.asked("CREATE", name);
        self.validate(call, &asked, Some(object), None, &refuse).await?;
        call.warn_all(resource.strategy.warnings(call, object, None));
        Ok(())
    }

    pub(super) fn asked<'b>(&'b self, operation: &'static str, name: &'b str) -> Asked<'b> {
        let kind = if operation == "CREATE" {
            "CreateOptions"
        } else {
            "UpdateOptions"
        };
        Asked::new(operation, name, Given::Write(&self.target.options, kind))
    }

    /// The key of the object of that name.
    pub(super) fn key(&self, name: &str) -> String {
        let storage = self.resource().storage.as_ref();
        storage
            .map(|storage| storage.key(&self.target.namespace, name))
            .unwrap_or_default()
    }

    /// The resource that is written.
    pub(super) fn resource(&self) -> &'a Resource {
        &self.target.shown.resource
    }

    /// What the steps of this run may know.
    pub(super) fn call<'b>(&'b self, operation: Operation, name: &'b str) -> Call<'b> {
        Call::new(WriteContext {
            operation,
            subresource: Some(self.target.subresource.as_str()).filter(|name| !name.is_empty()),
            namespace: &self.target.namespace,
            name,
            user: &self.target.user,
            access: self.context.access(),
            dry_run: self.target.dry_run,
            now: self.now(),
            types: self.context.types(),
            lookup: &self.lookup,
            outcome: Default::default(),
            beside: Default::default(),
        })
    }

    /// What the client is told of a refusal.
    pub(crate) fn refusal(&self, refusal: Refusal, name: &str) -> ApiError {
        let resource = self.resource();
        ApiError::refusal(refusal, &resource.group_resource(), &resource.stored_kind(), name)
    }

    /// What the client is told of a refusal by a kind that is answered and not stored; where an object is invalid it names
    /// the kind `named` rather than that of the object.
    pub(crate) fn refusal_of_answer(&self, refusal: Refusal, named: Option<&'static str>) -> ApiError {
        let (resource, body) = (self.resource(), &self.target.body_kind);
        let group = GroupVersion::parse(&self.target.body_version).map(|version| version.group);
        let kind = GroupKind {
            group: group.unwrap_or_default(),
            kind: named.map_or_else(|| body.clone(), SmolStr::new_static),
        };
        ApiError::refusal(refusal, &resource.group_resource(), &kind, &self.target.name)
    }

    /// Refuses an object of another kind than the definition names, in the name of that kind, before all other errors.
    /// Built-in kinds are of their kind once they are read.
    fn refuse_unidentified(&self, name: &str, object: &Value) -> Result<(), ApiError> {
        let resource = self.resource();
        let found = object.str_at(&["kind"]).unwrap_or_default();
        if !resource.conventions.states_identity || found == resource.kind {
            return Ok(());
        }
        let why = format!("must be {}", resource.kind);
        let errors = [FieldError::invalid(&FieldPath::new("kind"), found, why)];
        let kind = GroupKind {
            kind: object.str_at(&["kind"]).map(SmolStr::new).unwrap_or_default(),
            ..self.resource().stored_kind()
        };
        Err(ApiError::invalid(&kind, name, &errors))
    }

    fn refuse_invalid(&self, name: &str, errors: Vec<FieldError>) -> Result<(), ApiError> {
        if errors.is_empty() {
            return Ok(());
        }
        Err(ApiError::invalid(&self.resource().stored_kind(), name, &errors))
    }

    /// An object of the version of the request, in its storage version.
    pub(super) async fn to_storage_version(&self, object: Value) -> Result<Value, ApiError> {
        let shown = &self.target.shown;
        let (Some(storage), false) = (&shown.resource.storage, shown.stored_as_shown()) else {
            return Ok(object);
        };
        conversion::convert_written(
            &self.context.representation,
            &shown.resource,
            object,
            &storage.api_version,
        )
        .await
    }

    /// A stored object in the form that its version has now. It stays in that version, be it the storage version or one of
    /// old, so that this asks nobody.
    pub(super) fn stored(&self, entry: &Entry) -> Value {
        let tree = objects::tree(entry);
        if !self.resource().conventions.form_changes {
            return tree;
        }
        let own = tree.str_at(&["apiVersion"]).unwrap_or_default();
        let formed = self.resource().convert(tree.clone(), own);
        formed.unwrap_or(tree)
    }

    /// Name and namespace must be those of the address; a namespace that is left out is filled in.
    pub(super) fn check_place(&self, object: &mut Value) -> Result<(), ApiError> {
        check_place(object, &self.target.name, &self.target.namespace)
    }

    /// A uid in the body of a PUT is a precondition that the store checks in the reference, and tells in its words.
    fn check_uid(&self, change: &Change, key: &str, stored: Option<&Value>) -> Result<(), ApiError> {
        let Some(wanted) = change.required_uid() else {
            return Ok(());
        };
        let uid = stored.map(metadata::uid).unwrap_or_default();
        if wanted == uid {
            return Ok(());
        }
        // A dry run of the reference does not come down to where keys get their prefix.
        let key = match self.target.dry_run {
            true => key.strip_prefix("/registry").unwrap_or(key),
            false => key,
        };
        let why = format!(
            "StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {wanted}, UID in object meta: {uid}"
        );
        Err(ApiError::conflict(
            &self.resource().group_resource(),
            &self.target.name,
            why,
        ))
    }

    /// The resource version in the object must be that of the object in place; left out it is filled in, where the kind
    /// allows that.
    fn check_version(&self, object: &mut Value, stored: &Value) -> Result<(), ApiError> {
        let resource = self.resource();
        let current = stored.str_at(&["metadata", "resourceVersion"]).unwrap_or_default();
        let wanted = object.str_at(&["metadata", "resourceVersion"]).unwrap_or_default();
        if wanted == current {
            return Ok(());
        }
        let group_resource = resource.group_resource();
        match version_number(object)? {
            0 if resource.rules.unconditional_update || self.target.scale.is_some() => {
                metadata::take(object, stored, &["metadata", "resourceVersion"]);
                Ok(())
            }
            0 => {
                // The reference names the resource here where other validation errors name the kind.
                let named = GroupKind {
                    group: group_resource.group.clone(),
                    kind: group_resource.resource.clone(),
                };
                let field = FieldPath::new("metadata.resourceVersion");
                let error = FieldError::invalid(&field, 0, "must be specified for an update");
                Err(ApiError::invalid(&named, metadata::name(stored), &[error]))
            }
            _ => Err(ApiError::modified(&group_resource, metadata::name(stored))),
        }
    }
}

/// Checks that `object` is the one that the address names, and fills in the namespace.
///
/// # Errors
/// 400.
pub(crate) fn check_place(object: &mut Value, name: &str, namespace: &str) -> Result<(), ApiError> {
    match metadata::name(object) {
        "" => return Err(nameless(name)),
        other if other != name => {
            return Err(ApiError::bad_request(format!(
                "the name of the object ({other}) does not match the name on the URL ({name})"
            )));
        }
        _ => {}
    }
    check_namespace(object, namespace)
}

/// 400: the object that the address calls `name` has no name.
pub(super) fn nameless(name: &str) -> ApiError {
    ApiError::bad_request(format!(
        "the name of the object ({name} based on URL) was undeterminable: name must be provided"
    ))
}

/// The number that the resource version of `object` is; 0 where it has none.
///
/// # Errors
/// 500 where it is no number.
fn version_number(object: &Value) -> Result<u64, ApiError> {
    let version = object.str_at(&["metadata", "resourceVersion"]).unwrap_or_default();
    if version.is_empty() {
        return Ok(0);
    }
    let (digits, number) = (version.bytes().all(|byte| byte.is_ascii_digit()), version.parse());
    let why = if digits { "value out of range" } else { "invalid syntax" };
    number
        .ok()
        .filter(|_| digits)
        .ok_or_else(|| ApiError::unclassified(format!("strconv.ParseUint: parsing {version:?}: {why}")))
}

/// A new object has no version yet. What is no version does not count.
///
/// # Errors
/// 500.
pub(super) fn check_has_no_version(object: &Value) -> Result<(), ApiError> {
    let version = object.str_at(&["metadata", "resourceVersion"]).unwrap_or_default();
    let is_number = version.bytes().all(|byte| byte.is_ascii_digit());
    let is_version = is_number && version.parse::<u64>().is_ok_and(|version| version != 0);
    if is_version {
        return Err(ApiError::unclassified(
            "resourceVersion should not be set on objects to be created",
        ));
    }
    Ok(())
}

/// Checks that `object` is in the namespace of the address, where it is in any.
///
/// # Errors
/// 400.
pub(crate) fn check_namespace(object: &mut Value, namespace: &str) -> Result<(), ApiError> {
    let found = object.str_at(&["metadata", "namespace"]).unwrap_or_default();
    if !found.is_empty() && !namespace.is_empty() && found != namespace {
        return Err(ApiError::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    metadata::set_namespace(object, namespace);
    Ok(())
}
