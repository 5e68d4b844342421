//! Shared runtime services: the time of day, new identifiers, background tasks, long work, shutdown, the build.

pub mod background;
mod identifiers;
pub mod long_work;
pub mod shutdown;
pub mod version;

pub use identifiers::{Clock, Identifiers, RandomIdentifiers, SystemClock};
