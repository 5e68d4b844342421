//! The run of a PUT or a PATCH.

use holdfast_schema::Origin;
use holdfast_value::Value;

use crate::change::{Change, Updated};
use crate::error::Error;
use crate::stage::Stage;
use crate::staged::{Existing, Staged, StoredObject};
use crate::{metadata, scale_update, tracking};

impl Stage<'_> {
    /// Runs a PUT or a PATCH of the existing object, or of an object that does not exist.
    ///
    /// # Errors
    /// If the change is rejected.
    pub async fn update(&self, change: &Change, stored: Option<&StoredObject>) -> Result<Staged, Error> {
        let target = self.target;
        let key = target.key(&target.name);
        let Some(stored) = stored else {
            return self.update_of_nothing(change, &key).await;
        };
        self.check_uid(change, &key, Some(&stored.object))?;
        if let Some(fields) = &target.body.scale {
            return scale_update::update(self, change, fields, stored).await;
        }
        let existing = Existing {
            object: &self.requested(stored).await?,
            provenance: stored.provenance,
        };
        let updated = change.updated(self, existing).await?;
        let warnings = updated.warnings.clone();
        let outcome = self.update_to(change, updated, stored, existing).await;
        // Dropped fields are reported even if the rest is rejected.
        outcome.map_err(|error| error.with_warnings(warnings))
    }

    /// Runs an update whose object before admission is `updated`.
    async fn update_to(
        &self,
        change: &Change,
        mut updated: Updated<'_>,
        stored: &StoredObject,
        existing: Existing<'_>,
    ) -> Result<Staged, Error> {
        let object = &mut updated.object;
        self.target.check_deadline()?;
        self.check_place(object)?;
        // If versions are converted, reset fields may become annotations, which belong to the writer.
        let mut sent = (!change.tracks() && self.resource().capabilities.converts.is_some()).then(|| object.clone());
        metadata::reset_fields(object, Some(existing.object), &self.target.body.reset_fields);
        if let Some(sent) = &mut sent {
            tracking::update(self, Some(existing), sent).await;
            metadata::take(object, sent, &["metadata", "managedFields"]);
        } else if !change.tracks() {
            tracking::update(self, Some(existing), object).await;
        }
        let keeps_fields = updated.provenance().origin() == Origin::Managers;
        updated.object = match keeps_fields && !self.checks_as_sent() {
            true => tracking::with_managers_of(&stored.object, &updated.object),
            false => self.to_be_checked(updated.object).await?,
        };
        self.finish_update(updated, stored, existing.object, None).await
    }

    /// Checks the uid in the body of a PUT. It is a precondition that the reference's store checks, with its own error
    /// message.
    ///
    /// upstream: k8s.io/apiserver/pkg/storage#Preconditions.Check
    pub(crate) fn check_uid(&self, change: &Change, key: &str, stored: Option<&Value>) -> Result<(), Error> {
        let Some(wanted) = change.required_uid() else {
            return Ok(());
        };
        let uid = stored.map(metadata::uid).unwrap_or_default();
        if wanted == uid {
            return Ok(());
        }
        // In the reference, a dry run does not reach the layer that adds the prefix to keys.
        let key = match self.target.request.dry_run {
            true => key.strip_prefix("/registry").unwrap_or(key),
            false => key,
        };
        let why = format!(
            "StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {wanted}, UID in object meta: {uid}"
        );
        Err(Error::conflict(
            &self.resource().group_resource(),
            &self.target.name,
            why,
        ))
    }
}
