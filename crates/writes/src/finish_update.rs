//! Last steps of an update, which writes to an object and to its Scale share.

use holdfast_resource::{Operation, RawForm, Rejection, Resource};
use holdfast_schema::metadata::validate_metadata_update;
use holdfast_schema::{FieldError, FieldPath, GroupKind, Origin, ScaleFields};
use holdfast_value::{SmolStr, Value};

use crate::admission::AdmissionObjects;
use crate::call::Call;
use crate::change::Updated;
use crate::error::Error;
use crate::stage::{Stage, check_namespace, check_place, version_number};
use crate::staged::{Staged, StoredObject, Write};
use crate::{deletion, metadata, scale, tracking};

impl Stage<'_> {
    /// Runs the steps that all updates share once the object is complete and its managers are known. `requested` is the
    /// existing object in the requested version.
    pub(crate) async fn finish_update(
        &self,
        mut change: Updated<'_>,
        stored: &StoredObject,
        requested: &Value,
        scaled: Option<&ScaleFields>,
    ) -> Result<Staged, Error> {
        self.target.check_deadline()?;
        let existing = self.checked_version(stored, requested);
        let (mut updated, warnings) = change.take();
        let provenance = change.provenance();
        let name = SmolStr::new(metadata::name(existing));
        let begun = self.call(Operation::Update, &name).with_provenance(provenance);
        let mut call = begun.in_place_of(existing, stored.provenance);
        let of_object = scaled.is_none() && self.target.subresource.is_empty();
        let raw = self.resource().capabilities.raw.filter(|_| of_object);
        // A write to a subresource leaves raw extensions as they are.
        let raw_form = raw.map_or(stored.raw_form, |raw| match raw.are_in(&updated) {
            true => self.raw_form(provenance.origin(), stored.raw_form),
            false => RawForm::Marshalled,
        });
        let mut rewrites_raw = false;
        if let Some(raw) = raw {
            let is_sent = provenance.origin() == Origin::Body && self.target.body.raw_form.is_some();
            raw.settle_texts(&mut updated, Some(&stored.object).filter(|_| !is_sent), raw_form);
            rewrites_raw = raw_form != stored.raw_form || !raw.have_same_texts(&stored.object, &updated);
            if rewrites_raw {
                call = call.with_raw_rewritten(raw.are_in(existing) && raw.are_in(&updated));
            }
        }
        call.warn_all(warnings);
        let checked = self.check_changed(&call, &mut updated, existing, scaled).await;
        checked.map_err(|error| call.refused(error))?;
        let completes = deletion::completes(self.resource(), &updated, existing);
        if !self.target.request.dry_run {
            // The store drops it; a dry run returns the object that was sent.
            updated.remove_at(&["metadata", "selfLink"]);
        }
        let object = self.to_be_stored(updated).await?;
        let write = if completes {
            Write::Delete
        } else if object == stored.object
            && !rewrites_raw
            && !(stored.provenance.is_as_created() && completed_by_reads(self.resource(), &object))
        {
            Write::Unchanged
        } else {
            Write::Put
        };
        Ok(Staged {
            write,
            facts: self.facts_of_stored(&call, &object),
            object,
            raw_form,
            warnings: call.warnings(),
            after: call.after_commit(),
        })
    }

    /// Returns the form of the raw extensions in an updated object of this origin. `existing` is their form in the
    /// existing object.
    fn raw_form(&self, origin: Origin, existing: RawForm) -> RawForm {
        match origin {
            Origin::Body => self.target.body.raw_form.unwrap_or(existing),
            // The reference marshals them as raw messages.
            Origin::JsonPatch => existing.min(RawForm::Compact),
            // The reference marshals them from a tree.
            Origin::StrategicPatch | Origin::Apply => RawForm::Marshalled,
            Origin::Managers | Origin::Existing | Origin::Store | Origin::Tree => existing,
        }
    }

    /// Runs admission, preparation and validation of an object that replaces `existing`.
    ///
    /// upstream: k8s.io/apiserver/pkg/registry/rest#BeforeUpdate
    async fn check_changed(
        &self,
        call: &Call<'_>,
        updated: &mut Value,
        existing: &Value,
        scaled: Option<&ScaleFields>,
    ) -> Result<(), Error> {
        let (resource, target, name) = (self.resource(), self.target, call.name);
        let plugins = self.environment.plugins();
        let refuse = |rejection| self.rejection(rejection, name);
        let attributes = self.attributes("UPDATE", name);
        match scaled {
            // Policies and webhooks received the Scale that was sent.
            Some(_) => plugins.mutate(call, Some(updated), Some(existing)).map_err(refuse)?,
            None => {
                let mutated = self.mutate(call, &attributes, Some(updated), Some(existing), Some(&refuse));
                if mutated.await? {
                    metadata::reset_fields(updated, Some(existing), &target.body.reset_fields);
                    check_namespace(updated, &target.namespace)?;
                }
            }
        }
        target.check_deadline()?;
        resource
            .strategy
            .authorize_update(call, updated, existing)
            .map_err(refuse)?;
        call.warn_all(metadata::drop_repeated_owners(updated, true));
        self.check_version(updated, existing)?;
        self.prepare_changed(call, updated, existing).map_err(refuse)?;
        self.refuse_unidentified(name, updated)?;
        self.refuse_invalid(name, self.errors_of_changed(call, updated, existing))?;
        // Rejections by the steps after the kind's validation carry the kind's warnings.
        call.warn_all(resource.strategy.warnings(call, updated, Some(existing)));
        let pair = |object, old| AdmissionObjects {
            object: Some(object),
            old: Some(old),
        };
        let stored = pair(&*updated, existing);
        // Validating policies and webhooks receive the Scales of both objects, which contain no managers.
        let scales = scaled.map(|fields| [&*updated, existing].map(|parent| scale::from_parent(parent, fields)));
        let seen = scales
            .as_ref()
            .map_or_else(|| pair(&*updated, existing), |[object, old]| pair(object, old));
        self.validate_seen(call, &attributes, &stored, &seen, &refuse).await
    }

    /// Prepares an object that replaces `existing`: restores the fields that an update can neither change nor omit, runs
    /// the preparation of its kind, and sets the generation.
    ///
    /// upstream: k8s.io/apiserver/pkg/registry/rest#BeforeUpdate
    ///
    /// # Errors
    /// If the kind rejects it.
    pub fn prepare_changed(&self, call: &Call<'_>, updated: &mut Value, existing: &Value) -> Result<(), Rejection> {
        let resource = self.resource();
        let bears_self_link = updated.at(&["metadata", "selfLink"]).is_some();
        metadata::keep(updated, existing);
        // The reference compares before it drops the selfLink, so that one makes the write count as a change.
        if !bears_self_link {
            tracking::keep_times(updated, existing, metadata::comparison(&resource.rules));
        }
        let counts_dropped = resource.capabilities.counts_dropped_fields;
        if counts_dropped {
            metadata::next_generation(updated, existing, &resource.rules, self.address());
        }
        call.drop_disabled(updated, Some(existing));
        resource.strategy.prepare_for_update(call, updated, existing)?;
        if !counts_dropped {
            metadata::next_generation(updated, existing, &resource.rules, self.address());
        }
        if call.raw_rewritten && updated.at(&["metadata", "generation"]) == existing.at(&["metadata", "generation"]) {
            metadata::raise_generation(updated, existing);
        }
        Ok(())
    }

    /// Returns the validation errors of a prepared object that replaces `existing`.
    pub fn errors_of_changed(&self, call: &Call<'_>, updated: &Value, existing: &Value) -> Vec<FieldError> {
        let resource = self.resource();
        let mut errors = validate_metadata_update(&resource.metadata_rules(), self.address(), updated, existing);
        errors.extend(resource.strategy.validate_update(call, updated, existing));
        if call.raw_rewritten {
            refuse_rewritten(resource, updated, &mut errors);
        }
        call.provenance.show_empties(&mut errors);
        errors
    }

    /// Returns the subresource that is written to. A write to the Scale counts as one to the object itself.
    fn address(&self) -> &str {
        match self.target.body.scale {
            Some(_) => "",
            None => &self.target.subresource,
        }
    }

    /// Checks that name and namespace are those of the request path; fills in a missing namespace.
    ///
    /// upstream: k8s.io/apiserver/pkg/endpoints/handlers#checkName
    /// upstream: k8s.io/apiserver/pkg/registry/rest#EnsureObjectNamespaceMatchesRequestNamespace
    pub(crate) fn check_place(&self, updated: &mut Value) -> Result<(), Error> {
        check_place(updated, &self.target.name, &self.target.namespace)
    }

    /// Checks that the resource version in the object is that of the existing object. If it is missing, fills it in,
    /// provided that the kind allows that.
    ///
    /// upstream: k8s.io/apiserver/pkg/registry/generic/registry#Store.Update
    fn check_version(&self, updated: &mut Value, existing: &Value) -> Result<(), Error> {
        let resource = self.resource();
        let current = existing.str_at(&["metadata", "resourceVersion"]).unwrap_or_default();
        let wanted = updated.str_at(&["metadata", "resourceVersion"]).unwrap_or_default();
        if wanted == current {
            return Ok(());
        }
        let group_resource = resource.group_resource();
        match version_number(updated)? {
            0 if resource.rules.unconditional_update || self.target.body.scale.is_some() => {
                metadata::take(updated, existing, &["metadata", "resourceVersion"]);
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
                Err(Error::invalid(&named, metadata::name(existing), vec![error]))
            }
            _ => Err(Error::modified(&group_resource, metadata::name(existing))),
        }
    }
}

/// Returns true if the reference returns more fields of `object`, which was not written since its creation, than it
/// stored: defaults that depend on fields set by the creation. The next write stores them, even if it changes nothing
/// else.
fn completed_by_reads(resource: &Resource, object: &Value) -> bool {
    resource.capabilities.at_rest.kept.is_some_and(|kept| {
        let as_changed = kept(object.clone(), Some(&|| object.clone()));
        kept(object.clone(), None) != as_changed
    })
}

/// Adds a validation error for an immutable raw extension whose bytes differ from before, since that is a different
/// value.
fn refuse_rewritten(resource: &Resource, object: &Value, errors: &mut Vec<FieldError>) {
    let Some(path) = resource.capabilities.raw.and_then(|raw| raw.immutable) else {
        return;
    };
    let steps: Vec<&str> = path.split('.').collect();
    let value = object.at(&steps).cloned().unwrap_or_default();
    let error = FieldError::invalid(&FieldPath::new(path), value, "field is immutable");
    let is_same = |known: &FieldError| known.field == error.field && known.detail == error.detail;
    if !errors.iter().any(is_same) {
        errors.push(error);
    }
}
