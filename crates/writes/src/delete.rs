//! The run of a DELETE.

use holdfast_resource::{Operation, convert};

use crate::attributes::{Attributes, Options};
use crate::deletion::{self, Deletion};
use crate::error::Error;
use crate::options::DeleteOptions;
use crate::stage::Stage;
use crate::staged::{Staged, StoredObject, Write};

impl Stage<'_> {
    /// Runs a DELETE of the existing object.
    ///
    /// # Errors
    /// If the deletion is rejected.
    pub async fn delete(&self, options: &DeleteOptions, stored: &StoredObject) -> Result<Staged, Error> {
        self.check_can_be_shown(stored).await?;
        let existing = self.in_current_form(stored);
        let name = &self.target.name;
        // Admission does not get the names of the objects of a collection.
        let reported_name = if self.target.request.of_collection { "" } else { name };
        let call = self.call(Operation::Delete, reported_name);
        let attributes = Attributes::new("DELETE", reported_name, Options::Delete(options));
        let refuse = |rejection| self.rejection(rejection, name);
        let admitted = async {
            deletion::check_preconditions(self.resource(), options, &existing)?;
            self.mutate(&call, &attributes, None, Some(&existing), Some(&refuse))
                .await?;
            self.validate(&call, &attributes, None, Some(&existing), &refuse).await
        };
        admitted.await.map_err(|error| call.refused(error))?;
        let (write, object) = match deletion::begin(&call, self.resource(), options, &existing) {
            Deletion::Wait => (Write::Unchanged, existing),
            Deletion::Mark(marked) => (Write::Put, marked),
            Deletion::Remove(last) => (Write::Delete, last.unwrap_or(existing)),
        };
        Ok(Staged {
            write,
            object,
            raw_form: stored.raw_form,
            facts: Default::default(),
            warnings: call.warnings(),
            after: call.after_commit(),
        })
    }

    /// Rejects the deletion of an object that cannot be converted to the requested version because its webhook fails.
    /// For a collection this is checked before any of its objects is deleted.
    async fn check_can_be_shown(&self, stored: &StoredObject) -> Result<(), Error> {
        let (resource, version) = (self.resource(), &self.target.api_version);
        if self.target.request.of_collection || convert::webhook(resource, &stored.object, version).is_none() {
            return Ok(());
        }
        self.requested(stored).await.map(drop)
    }
}
