//! The run of a creation, by a POST or by an update of an object that does not exist.

use holdfast_authorization::{AccessTarget, Attributes, ResourceTarget};
use holdfast_resource::{Operation, Rejection, Verb};
use holdfast_schema::metadata::validate_metadata;
use holdfast_schema::{CreationChecks, FieldError, Provenance};
use holdfast_value::{SmolStr, Value};

use crate::call::Call;
use crate::change::Change;
use crate::error::{Error, ErrorKind};
use crate::stage::Stage;
use crate::stage::{check_namespace, version_number};
use crate::staged::{Staged, Write};
use crate::{metadata, tracking};

impl Stage<'_> {
    /// Runs a POST: `object` is decoded, typed and has its defaults.
    ///
    /// # Errors
    /// If the object is rejected.
    pub async fn create(&self, mut object: Value) -> Result<Staged, Error> {
        if self.resource().capabilities.keeps_reset_fields_at_creation {
            let mut tracked = object.clone();
            if self.resource().capabilities.converts.is_none() {
                metadata::reset_fields(&mut tracked, None, &self.target.body.reset_fields);
            }
            tracking::update(self, None, &mut tracked).await;
            metadata::take(&mut object, &tracked, &["metadata", "managedFields"]);
        } else {
            tracking::update(self, None, &mut object).await;
        }
        self.finish_create(object, self.target.body.provenance(), false).await
    }

    /// Runs an update of a missing object: a creation, if the change or the kind allows it.
    ///
    /// upstream: k8s.io/apiserver/pkg/endpoints/handlers#patcher.applyPatch
    pub(crate) async fn update_of_nothing(&self, change: &Change, key: &str) -> Result<Staged, Error> {
        let target = self.target;
        if target.body.scale.is_some() || !change.may_create(self.resource(), &target.subresource) {
            return Err(Error::not_found(&self.resource().group_resource(), &target.name));
        }
        let mut updated = change.created(self).await?;
        let object = &mut updated.object;
        self.check_place(object)?;
        let uid = SmolStr::new(metadata::uid(object));
        if !uid.is_empty() && change.tracks() {
            let why =
                format!("uid mismatch: the provided object specified uid {uid}, and no existing object was found");
            return Err(Error::conflict(&self.resource().group_resource(), &target.name, why));
        }
        self.check_uid(change, key, None)?;
        version_number(object)?;
        // A dry run returns the object that was sent.
        if !target.request.dry_run {
            object.remove_at(&["metadata", "resourceVersion"]);
        }
        metadata::set_namespace(object, &target.namespace);
        if !change.tracks() {
            tracking::update(self, None, object).await;
        }
        let (object, warnings) = updated.take();
        match self.finish_create(object, updated.provenance(), true).await {
            Ok(mut staged) => {
                staged.warnings.splice(0..0, warnings);
                Ok(staged)
            }
            Err(error) => Err(error.with_warnings(warnings)),
        }
    }

    /// Runs the steps that all creations share once the object is complete and its managers are known. `by_update` is
    /// true if the request updates an object, so that its user is not yet authorized to create one.
    async fn finish_create(&self, object: Value, provenance: Provenance<'_>, by_update: bool) -> Result<Staged, Error> {
        let mut object = self.to_be_checked(object).await?;
        let wanted = SmolStr::new(metadata::wanted_name(&object));
        let call = self.call(Operation::Create, &wanted).with_provenance(provenance);
        let admitted = self.admit_new(&call, &mut object, by_update).await;
        admitted.map_err(|error| call.refused(error))?;
        let name = SmolStr::new(metadata::name(&object));
        let call = call.renamed(self.call(Operation::Create, &name).with_provenance(provenance));
        let checked = self.check_new(&call, &mut object, by_update).await;
        checked.map_err(|error| call.refused(error))?;
        let raw = self.resource().capabilities.raw.filter(|raw| raw.are_in(&object));
        let raw_form = raw.and(self.target.body.raw_form).unwrap_or_default();
        Ok(Staged {
            write: Write::Put,
            facts: self.facts_of_stored(&call, &object),
            object: self.to_be_stored(object).await?,
            raw_form,
            warnings: call.warnings(),
            after: call.after_commit(),
        })
    }

    /// Runs mutating admission of a new object, and then sets its identity: admission does not see a generated name.
    async fn admit_new(&self, call: &Call<'_>, object: &mut Value, by_update: bool) -> Result<(), Error> {
        let target = self.target;
        let name = SmolStr::new(metadata::name(object));
        let attributes = self.attributes("CREATE", &name);
        let refuse = |rejection| self.rejection(rejection, call.name);
        let mutated = self.mutate(call, &attributes, Some(object), None, Some(&refuse));
        if mutated.await? {
            if !self.resource().capabilities.keeps_reset_fields_at_creation {
                metadata::reset_fields(object, None, &target.reset_at_creation());
            }
            check_namespace(object, &target.namespace)?;
        }
        call.warn_all(metadata::drop_repeated_owners(object, true));
        // The reference keeps the rest of the metadata of an update, even that its object is being deleted.
        if !by_update {
            metadata::wipe(object);
        }
        metadata::fill_in(
            object,
            &target.namespace,
            self.environment.identifiers(),
            self.environment.now(target),
        );
        Ok(())
    }

    /// Runs preparation, validation and validating admission of a new object.
    ///
    /// upstream: k8s.io/apiserver/pkg/registry/rest#BeforeCreate
    async fn check_new(&self, call: &Call<'_>, object: &mut Value, by_update: bool) -> Result<(), Error> {
        self.target.check_deadline()?;
        let name = call.name;
        let refuse = |rejection| self.rejection(rejection, name);
        self.prepare_new(call, object).map_err(refuse)?;
        self.refuse_unidentified(name, object)?;
        // Some kinds set the name of an object without one.
        let named = SmolStr::new(metadata::name(object));
        self.refuse_invalid(&named, self.errors_of_new(call, object))?;
        // Rejections by the steps after the kind's validation carry the kind's warnings.
        call.warn_all(self.resource().strategy.warnings(call, object, None));
        if by_update {
            self.check_may_create(name)?;
        }
        let attributes = self.attributes("CREATE", name);
        self.validate(call, &attributes, Some(object), None, &refuse).await
    }

    /// Prepares a new object: sets the fields that only the server sets, and then runs the preparation of its kind.
    ///
    /// upstream: k8s.io/apiserver/pkg/registry/rest#BeforeCreate
    ///
    /// # Errors
    /// If the kind rejects it.
    pub fn prepare_new(&self, call: &Call<'_>, object: &mut Value) -> Result<(), Rejection> {
        let resource = self.resource();
        metadata::first_generation(object, &resource.rules);
        if let Some(status) = &resource.rules.initial_status {
            object.set_at(&["status"], status.clone());
        }
        call.drop_disabled(object, None);
        resource.strategy.prepare_for_create(call, object)
    }

    /// Returns the validation errors of a new object that is prepared.
    pub fn errors_of_new(&self, call: &Call<'_>, object: &Value) -> Vec<FieldError> {
        let resource = self.resource();
        let of_metadata = || validate_metadata(&resource.metadata_rules(), object);
        let of_kind = || resource.strategy.validate(call, object);
        let mut errors = match resource.rules.metadata_checks.at_creation {
            CreationChecks::First => {
                let mut errors = of_metadata();
                errors.extend(of_kind());
                errors
            }
            CreationChecks::Own => of_kind(),
            CreationChecks::Last => {
                let errors = of_kind();
                if errors.is_empty() { of_metadata() } else { errors }
            }
        };
        call.provenance.show_empties(&mut errors);
        errors
    }

    /// Rejects a creation if the user may only update.
    ///
    /// upstream: k8s.io/apiserver/pkg/endpoints/handlers#withAuthorization
    fn check_may_create(&self, name: &str) -> Result<(), Error> {
        let (target, resource) = (self.target, self.resource());
        let attributes = Attributes {
            verb: Verb::Create.name(),
            target: AccessTarget::Resource(ResourceTarget {
                group: &resource.group,
                version: target.body.api_version.rsplit('/').next().unwrap_or_default(),
                resource: &resource.plural,
                subresource: "",
                namespace: &target.namespace,
                name,
                field_selector: &[],
                label_selector: "",
            }),
        };
        let decision = self
            .environment
            .authorizer()
            .authorize(&target.writer.user, &attributes);
        if decision.allows() {
            return Ok(());
        }
        Err(ErrorKind::Unauthorized {
            verb: Verb::Create.name(),
            user: target.writer.user.name.to_string(),
            resource: resource.group_resource(),
            namespace: target.namespace.clone(),
            name: name.to_owned(),
            reason: decision.reason().to_owned(),
        }
        .into())
    }
}
