//! Watches: the changes of a collection as a stream of JSON documents, one a line
//! (<https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes>).
//!
//! A watcher holds its place in the store's event history and nothing more: no queue, no copy. What an event looks like in
//! one form is encoded once and shared by all who watch in it.

mod events;
mod stream;

pub(crate) use events::WatchEncoder;
pub(crate) use events::error as error_frame;
pub(crate) use stream::{Bookmarks, WatchStream, too_old};
