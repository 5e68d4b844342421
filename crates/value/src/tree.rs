//! Nodes of an object tree. The types contain each other, so they form one module.

mod list;
mod map;
mod source;
mod tags;
mod value;

pub use list::List;
pub use map::{Entry, Map};
pub use source::Source;
pub use value::Value;
