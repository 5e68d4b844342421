//! Refusals of writes that are no failures: others write at the same time.

use holdfast_server::operations::loopback::{Client, RequestError};
use holdfast_value::Value;

/// The outcome of a write; a missing object is no failure.
///
/// # Errors
/// All other refusals.
pub(crate) fn unless_gone(written: Result<Value, RequestError>) -> Result<(), RequestError> {
    match written {
        Err(error) if !error.is_not_found() => Err(error),
        _ => Ok(()),
    }
}

/// The outcome of a write, which is no failure where another server or client was faster.
///
/// # Errors
/// All other refusals.
pub(crate) fn unless_overtaken(written: Result<Value, RequestError>) -> Result<(), RequestError> {
    match written {
        Err(error) if !error.is_conflict() => unless_gone(Err(error)),
        _ => Ok(()),
    }
}

/// Deletes an object as it was `seen`: one that has changed since stays, and that is no failure.
///
/// # Errors
/// All other refusals.
pub(crate) async fn delete_unchanged(client: &Client, path: &str, seen: &Value) -> Result<(), RequestError> {
    let mut options = Value::empty_map();
    if let Some(version) = seen.at(&["metadata", "resourceVersion"]) {
        options.set_at(&["preconditions", "resourceVersion"], version.clone());
    }
    unless_overtaken(client.delete(path, &options).await)
}
