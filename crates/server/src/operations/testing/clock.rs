//! `/testing/clock`: the time of day of the server, which a test moves forward.

use std::time::Duration;

use holdfast_gotext::duration;
use holdfast_gotext::time::{Precision, Timestamp};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use super::Call;
use crate::http::ApiError;
use crate::http::response::Response;
use crate::runtime::Clock as _;
use crate::runtime::faults::Delay;
use crate::runtime::testing_clock::TestingClock;

/// Body of a request to move the clock.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Advance {
    advance: Delay,
}

#[derive(Serialize)]
struct Report {
    now: SmolStr,
    advanced: String,
}

/// Returns the time, or moves the clock.
pub(super) fn respond(clock: &TestingClock, call: &Call<'_>) -> Result<Response, ApiError> {
    let advanced = match call.method.as_str() {
        "GET" => clock.ahead(),
        "POST" => {
            let Advance { advance: Delay(by) } = call.document()?;
            if by == Duration::ZERO {
                return Err(ApiError::bad_request("advance must be greater than 0"));
            }
            clock.advance(by).map_err(ApiError::bad_request)?
        }
        _ => return Err(ApiError::method_not_allowed()),
    };
    let report = Report {
        now: Timestamp::from(clock.now()).text(Precision::Micros),
        advanced: duration::text(advanced),
    };
    call.answer(StatusCode::OK, &report)
}
