//! Times in objects.

use std::time::SystemTime;

use holdfast_gotext::time::{Precision, Timestamp};
use holdfast_value::Value;

/// Returns a time in whole seconds, in the format of fields of type Time.
pub(crate) fn time_text(time: SystemTime) -> Value {
    Timestamp::from(time).text(Precision::Seconds).into()
}
