//! Watches: the changes of a collection as a stream of JSON documents, one per line
//! (<https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes>).
//!
//! A watcher only holds its position in the store's event history: no queue, no copy. An event is encoded once in each
//! form and shared by all watches of that form.

mod events;
mod stream;

pub(crate) use events::WatchEncoder;
pub(crate) use events::error as error_frame;
pub(crate) use stream::{Bookmarks, WatchStream, too_old};
