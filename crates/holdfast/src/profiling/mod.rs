//! Profiles of the process: which functions use its processors.
//!
//! A timer of the system interrupts the process while a profile is made, and a signal handler records the stack. Nothing of
//! it is active otherwise. The profiler is part of builds with the feature `profiling`.

#[cfg(feature = "profiling")]
mod recorder;

use std::sync::Arc;
use std::time::Duration;

use holdfast_server::operations::debugging::{DebuggedProcess, ProfileFuture};
use tokio::sync::Mutex;

use crate::logging::Verbosity;

/// The process that the binary runs in.
pub(crate) struct Process {
    verbosity: Verbosity,
    /// Held while a profile is made.
    turn: Mutex<()>,
}

impl Process {
    /// Creates the process whose log has this verbosity.
    pub(crate) fn new(verbosity: Verbosity) -> Arc<Self> {
        Arc::new(Self {
            verbosity,
            turn: Mutex::default(),
        })
    }

    async fn profile(&self, duration: Duration) -> Result<Vec<u8>, String> {
        let turn = self.turn.try_lock();
        let _turn = turn.map_err(|_| "cpu profiling already in use".to_owned())?;
        record(duration).await
    }
}

#[cfg(feature = "profiling")]
use recorder::record;

#[cfg(not(feature = "profiling"))]
async fn record(_duration: Duration) -> Result<Vec<u8>, String> {
    Err("this build has no profiler; build it with the feature `profiling`".to_owned())
}

impl DebuggedProcess for Process {
    fn profile_cpu(&self, duration: Duration) -> ProfileFuture<'_> {
        Box::pin(self.profile(duration))
    }

    fn set_verbosity(&self, verbosity: u8) -> Result<(), String> {
        self.verbosity.set(verbosity)
    }
}
