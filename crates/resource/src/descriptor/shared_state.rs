use parking_lot::{Mutex, MutexGuard};

use super::strategy::WriteRun;

/// State that a kind or an admission plugin keeps between writes: allocated addresses, counters, cached answers.
///
/// A run of a write reads it only through [`SharedState::in_run`], which records the read. The lints of the crates of kinds
/// and plugins reject other locks and atomic values.
#[derive(Debug, Default)]
pub struct SharedState<T>(Mutex<T>);

impl<T> SharedState<T> {
    /// Creates the state.
    pub fn new(state: T) -> Self {
        Self(Mutex::new(state))
    }

    /// Locks the state for a step of `run`. The server does not answer a repetition of this run from memory.
    pub fn in_run(&self, run: &dyn WriteRun) -> MutexGuard<'_, T> {
        run.record_shared_state();
        self.0.lock()
    }

    /// Locks the state for code that is not a step of a run: informers, controllers, and callbacks after the commit.
    pub fn outside_run(&self) -> MutexGuard<'_, T> {
        self.0.lock()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::SystemTime;

    use super::*;

    #[derive(Default)]
    struct Run(AtomicUsize);

    impl WriteRun for Run {
        fn now(&self) -> SystemTime {
            SystemTime::UNIX_EPOCH
        }

        fn record_shared_state(&self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn access_in_run_is_recorded() {
        let (state, run) = (SharedState::new(1), Run::default());
        *state.in_run(&run) += 1;
        assert_eq!((*state.outside_run(), run.0.into_inner()), (2, 1));
    }
}
