//! Times as objects hold them.

use std::time::SystemTime;

use holdfast_gotext::time::{Precision, Timestamp};
use holdfast_value::Value;

/// A time in whole seconds, as fields of type Time hold it.
pub(crate) fn time_text(time: SystemTime) -> Value {
    Timestamp::from(time).text(Precision::Seconds).into()
}
