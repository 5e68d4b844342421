//! Refusals of writes that are no failures: others write at the same time.

use holdfast_server::operations::loopback::RequestError;
use holdfast_value::Value;

/// The outcome of a write, which is no failure where the object is gone.
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
