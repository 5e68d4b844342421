//! Reads: lists, page by page, and watches.

mod continue_token;
pub(crate) mod items;
pub(crate) mod list;
pub(crate) mod watch;
