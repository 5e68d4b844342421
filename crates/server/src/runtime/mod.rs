//! Shared runtime services: the time of day, new identifiers, background tasks, long work, shutdown, drain, files,
//! the build.

pub mod background;
mod boxed;
pub mod drain;
pub mod faults;
pub mod files;
mod identifiers;
pub mod long_work;
pub mod shutdown;
pub mod testing_clock;
pub mod timeline;
pub(crate) mod trace_scope;
pub mod version;
pub mod watch_gate;
pub(crate) mod webhook_time;

pub(crate) use boxed::boxed;
pub use identifiers::{Clock, Identifiers, RandomIdentifiers, SystemClock};
