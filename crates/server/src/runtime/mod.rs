//! What every task of the server needs: the time of day, new identifiers, tasks in the background, long work, the end, the build.

pub mod background;
mod identifiers;
pub mod long_work;
pub mod shutdown;
pub mod version;

pub use identifiers::{Clock, Identifiers, RandomIdentifiers, SystemClock};
