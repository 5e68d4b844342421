//! Rejected writes that are not failures, because others write at the same time.

use holdfast_server::operations::loopback::{Client, RequestError};
use holdfast_value::Value;

/// Maps the outcome of a write: a missing object is not a failure.
///
/// # Errors
/// All other errors.
pub(crate) fn unless_gone(written: Result<Value, RequestError>) -> Result<(), RequestError> {
    match written {
        Err(error) if !error.is_not_found() => Err(error),
        _ => Ok(()),
    }
}

/// Maps the outcome of a write: it is not a failure if another server or client was faster.
///
/// # Errors
/// All other errors.
pub(crate) fn unless_overtaken(written: Result<Value, RequestError>) -> Result<(), RequestError> {
    match written {
        Err(error) if !error.is_conflict() => unless_gone(Err(error)),
        _ => Ok(()),
    }
}

/// Deletes an object if it is still as it was `seen`. An object that has changed since is kept, which is not a failure.
///
/// # Errors
/// All other errors.
pub(crate) async fn delete_unchanged(client: &Client, path: &str, seen: &Value) -> Result<(), RequestError> {
    let mut options = Value::empty_map();
    if let Some(version) = seen.at(&["metadata", "resourceVersion"]) {
        options.set_at(&["preconditions", "resourceVersion"], version.clone());
    }
    unless_overtaken(client.delete(path, &options).await)
}
