//! The run of a PUT or a PATCH.

use holdfast_value::Value;

use crate::change::{Change, Next};
use crate::error::Error;
use crate::finish_update::ChangeEffects;
use crate::stage::Stage;
use crate::staged::{Live, Staged};
use crate::{metadata, scale_update, tracking};

impl Stage<'_> {
    /// Runs a PUT or a PATCH of the existing object, or of an object that does not exist.
    ///
    /// # Errors
    /// If the change is rejected.
    pub async fn update(&self, change: &Change, live: Option<&Live>) -> Result<Staged, Error> {
        let target = self.target;
        let key = target.key(&target.name);
        let Some(live) = live else {
            return self.update_of_nothing(change, &key).await;
        };
        self.check_uid(change, &key, Some(&live.stored))?;
        if let Some(fields) = &target.body.scale {
            return scale_update::update(self, change, fields, live).await;
        }
        let shown = self.shown(live).await?;
        let next = change
            .next(self, &shown, live.shown_as_stored && live.known.formed)
            .await?;
        let warnings = next.warnings.clone();
        let outcome = self.update_to(change, next, live, &shown).await;
        // Dropped fields are reported even if the rest is rejected.
        outcome.map_err(|error| error.with_warnings(warnings))
    }

    /// Runs an update whose object before admission is `next`.
    async fn update_to(&self, change: &Change, next: Next, live: &Live, shown: &Value) -> Result<Staged, Error> {
        let Next {
            mut object,
            warnings,
            empties,
            is_live,
            raw_effect,
        } = next;
        self.target.check_deadline()?;
        self.check_place(&mut object)?;
        // If versions are converted, reset fields may become annotations, which belong to the writer.
        let mut sent = (!change.tracks() && self.resource().capabilities.converts.is_some()).then(|| object.clone());
        metadata::reset_fields(&mut object, Some(shown), &self.target.body.reset_fields);
        let formed = live.shown_as_stored && live.known.formed;
        if let Some(sent) = &mut sent {
            tracking::update(self, Some(shown), formed, sent).await;
            metadata::take(&mut object, sent, &["metadata", "managedFields"]);
        } else if !change.tracks() {
            tracking::update(self, Some(shown), formed, &mut object).await;
        }
        let object = match is_live && !self.checks_as_sent() {
            true => tracking::with_managers_of(&live.stored, &object),
            false => self.to_be_checked(object).await?,
        };
        let old = if self.checks_as_sent() { shown } else { &live.stored };
        let effects = ChangeEffects {
            warnings,
            empties: &empties,
            raw_effect,
        };
        self.finish_update(object, live, old, None, effects).await
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
