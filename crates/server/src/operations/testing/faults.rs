//! `/testing/faults`: the list of faults, and single ones by their IDs.

use http::StatusCode;
use serde::Serialize;

use super::Call;
use crate::http::ApiError;
use crate::http::response::Response;
use crate::runtime::faults::{FaultReport, Faults, Rule};

#[derive(Serialize)]
struct FaultList {
    faults: Vec<FaultReport>,
}

/// Lists, adds or deletes faults.
pub(super) fn collection(faults: &Faults, call: &Call<'_>) -> Result<Response, ApiError> {
    match call.method.as_str() {
        "GET" => call.answer(StatusCode::OK, &FaultList { faults: faults.list() }),
        "POST" => {
            let rule: Rule = call.document()?;
            let added = faults.add(rule).map_err(ApiError::bad_request)?;
            call.answer(StatusCode::CREATED, &added)
        }
        "DELETE" => call.answer(StatusCode::OK, &FaultList { faults: faults.clear() }),
        _ => Err(ApiError::method_not_allowed()),
    }
}

/// Returns or deletes the fault with this ID.
pub(super) fn single(faults: &Faults, id: &str, call: &Call<'_>) -> Result<Response, ApiError> {
    let number = id.parse().map_err(|_| ApiError::unknown_resource())?;
    let found = match call.method.as_str() {
        "GET" => faults.get(number),
        "DELETE" => faults.remove(number),
        _ => return Err(ApiError::method_not_allowed()),
    };
    call.answer(StatusCode::OK, &found.ok_or_else(ApiError::unknown_resource)?)
}
