//! Reads: lists, page by page, and watches.

mod context;
mod continue_token;
pub(crate) mod items;
pub(crate) mod list;
pub(crate) mod list_answer;
mod list_body;
pub(crate) mod watch;

pub use context::Context;
