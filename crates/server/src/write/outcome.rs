//! What strategies want to hear of the end of a write, told whatever that end is.

use std::ops::Deref;

use holdfast_resource::{OutcomeCall, WriteContext};

use crate::http::ApiError;

/// What the steps of one run may know. A run that breaks off tells those who wait that nothing was stored.
pub(super) struct Call<'a>(WriteContext<'a>);

impl<'a> Call<'a> {
    /// A run that knows this.
    pub(super) fn new(context: WriteContext<'a>) -> Self {
        Self(context)
    }

    /// The same run, once the name of its object is another.
    pub(super) fn renamed(self, renamed: Self) -> Self {
        *renamed.outcome.lock() = std::mem::take(&mut *self.outcome.lock());
        renamed.warn_all(self.warnings());
        renamed
    }

    /// Has the client warned.
    pub(super) fn warn_all(&self, warnings: Vec<String>) {
        self.0.beside.lock().warnings.extend(warnings);
    }

    /// What the client is to be warned of, which is told once.
    pub(super) fn warnings(&self) -> Vec<String> {
        std::mem::take(&mut self.0.beside.lock().warnings)
    }

    /// A refusal with what the client is to be warned of besides.
    pub(super) fn refused(&self, error: ApiError) -> ApiError {
        error.with_warnings(self.warnings())
    }

    /// The end of a run that did not break off: those who wait do so until the write is stored or not.
    pub(super) fn outcome(self) -> Outcome {
        Outcome(std::mem::take(&mut *self.0.outcome.lock()))
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
        drop(Outcome(std::mem::take(&mut *self.0.outcome.lock())));
    }
}

/// Calls that wait for the outcome of a write. What is dropped before the outcome is known did not come about.
#[derive(Default)]
pub(super) struct Outcome(Vec<OutcomeCall>);

impl Outcome {
    /// The write was stored.
    pub(super) fn stored(mut self) {
        for call in self.0.drain(..) {
            call(true);
        }
    }
}

impl Drop for Outcome {
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

    fn told(end: impl FnOnce(Outcome)) -> u8 {
        let heard = Arc::new(AtomicU8::new(0));
        let listener = Arc::clone(&heard);
        let call: OutcomeCall = Box::new(move |stored| listener.store(1 + u8::from(stored), Ordering::Relaxed));
        end(Outcome(vec![call]));
        heard.load(Ordering::Relaxed)
    }

    #[test]
    fn a_write_that_ends_otherwise_was_not_stored() {
        assert_eq!(told(Outcome::stored), 2);
        assert_eq!(told(drop), 1);
    }
}
