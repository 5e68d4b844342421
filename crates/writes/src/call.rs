//! Shared state of the steps of one run, and the hooks that run after the commit.

use std::ops::Deref;

use holdfast_resource::{OutcomeCall, WriteContext};
use holdfast_schema::Provenance;
use holdfast_value::Value;

use crate::error::Error;

/// The context of the steps of one run. When a run breaks off, the after-commit hooks run with `false`.
pub struct Call<'a>(WriteContext<'a>);

impl<'a> Call<'a> {
    /// Creates the context of a new run.
    pub fn new(context: WriteContext<'a>) -> Self {
        Self(context)
    }

    /// Returns the same run for an object of this provenance.
    #[must_use]
    pub fn with_provenance(mut self, provenance: Provenance<'a>) -> Self {
        self.0.provenance = provenance;
        self
    }

    /// Returns the same run for an object that replaces `existing`, which has the provenance `stored`.
    #[must_use]
    pub fn in_place_of(mut self, existing: &'a Value, stored: Provenance<'_>) -> Self {
        self.0.parts = std::mem::take(&mut self.0.parts).in_place_of(existing, stored.facts());
        self
    }

    /// Returns the same run; `rewritten` is true if the bytes of raw extensions differ from before.
    #[must_use]
    pub fn with_raw_rewritten(mut self, rewritten: bool) -> Self {
        self.0.raw_rewritten = rewritten;
        self
    }

    /// Moves the state of this run into `renamed`, after its object was renamed.
    pub fn renamed(self, renamed: Self) -> Self {
        *renamed.outcome.lock() = std::mem::take(&mut *self.outcome.lock());
        renamed.warn_all(self.warnings());
        renamed
    }

    /// Adds warnings for the client.
    pub fn warn_all(&self, warnings: Vec<String>) {
        self.0.beside.lock().warnings.extend(warnings);
    }

    /// Removes and returns the warnings for the client.
    pub fn warnings(&self) -> Vec<String> {
        std::mem::take(&mut self.0.beside.lock().warnings)
    }

    /// Adds the warnings so far to the error of a rejection.
    pub fn refused(&self, error: Error) -> Error {
        error.with_warnings(self.warnings())
    }

    /// Returns the hooks of a successful run. They run when the result of the commit is known.
    pub fn after_commit(self) -> AfterCommit {
        AfterCommit(std::mem::take(&mut *self.0.outcome.lock()))
    }
}

impl<'a> Deref for Call<'a> {
    type Target = WriteContext<'a>;

    fn deref(&self) -> &WriteContext<'a> {
        &self.0
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        drop(AfterCommit(std::mem::take(&mut *self.0.outcome.lock())));
    }
}

/// The hooks that run at the end of a write. When this is dropped, they run with `false`: nothing was stored.
#[derive(Default)]
pub struct AfterCommit(Vec<OutcomeCall>);

impl AfterCommit {
    /// Runs the hooks with `true`: the write was stored.
    pub fn stored(mut self) {
        for call in self.0.drain(..) {
            call(true);
        }
    }
}

impl Drop for AfterCommit {
    fn drop(&mut self) {
        for call in self.0.drain(..) {
            call(false);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU8, Ordering};

    use super::*;

    fn reported(end: impl FnOnce(AfterCommit)) -> u8 {
        let heard = Arc::new(AtomicU8::new(0));
        let listener = Arc::clone(&heard);
        let call: OutcomeCall = Box::new(move |stored| listener.store(1 + u8::from(stored), Ordering::Relaxed));
        end(AfterCommit(vec![call]));
        heard.load(Ordering::Relaxed)
    }

    #[test]
    fn a_write_that_ends_otherwise_was_not_stored() {
        assert_eq!(reported(AfterCommit::stored), 2);
        assert_eq!(reported(drop), 1);
    }
}
