//! What the steps of one run share, and who hears of the end of the write.

use std::ops::Deref;

use holdfast_resource::{OutcomeCall, WriteContext};

use crate::Error;

/// What the steps of one run may know. A run that breaks off tells the after-commit hooks that nothing was stored.
pub struct Call<'a>(WriteContext<'a>);

impl<'a> Call<'a> {
    /// A run that knows this.
    pub fn new(context: WriteContext<'a>) -> Self {
        Self(context)
    }

    /// The same run, once the name of its object is another.
    pub fn renamed(self, renamed: Self) -> Self {
        *renamed.outcome.lock() = std::mem::take(&mut *self.outcome.lock());
        renamed.warn_all(self.warnings());
        renamed
    }

    /// Has the client warned.
    pub fn warn_all(&self, warnings: Vec<String>) {
        self.0.beside.lock().warnings.extend(warnings);
    }

    /// What the client is to be warned of, which is told once.
    pub fn warnings(&self) -> Vec<String> {
        std::mem::take(&mut self.0.beside.lock().warnings)
    }

    /// A refusal with what the client is to be warned of besides.
    pub fn refused(&self, error: Error) -> Error {
        error.with_warnings(self.warnings())
    }

    /// The hooks of a run that did not break off: they are called when the write is stored or not.
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

/// The hooks that are called at the end of a write. Dropped before that, they hear that nothing was stored.
#[derive(Default)]
pub struct AfterCommit(Vec<OutcomeCall>);

impl AfterCommit {
    /// The write was stored.
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

    fn told(end: impl FnOnce(AfterCommit)) -> u8 {
        let heard = Arc::new(AtomicU8::new(0));
        let listener = Arc::clone(&heard);
        let call: OutcomeCall = Box::new(move |stored| listener.store(1 + u8::from(stored), Ordering::Relaxed));
        end(AfterCommit(vec![call]));
        heard.load(Ordering::Relaxed)
    }

    #[test]
    fn a_write_that_ends_otherwise_was_not_stored() {
        assert_eq!(told(AfterCommit::stored), 2);
        assert_eq!(told(drop), 1);
    }
}
