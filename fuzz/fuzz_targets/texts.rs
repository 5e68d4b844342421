#![no_main]

use std::time::Duration;

use holdfast_gotext::duration;
use holdfast_gotext::quantity::{self, Quantity};
use holdfast_gotext::time::{Precision, Timestamp};
use holdfast_resource::jsonpath::JsonPath;

// Amounts, durations and times are read from their own text as the same.
libfuzzer_sys::fuzz_target!(|text: &str| {
    if let Ok(amount) = Quantity::parse(text) {
        let own = quantity::text_of(text).expect("what can be read has a text");
        assert_eq!(Quantity::parse(&own).ok(), Some(amount), "{own}");
        assert_eq!(quantity::text_of(&own).ok().as_deref(), Some(own.as_str()));
    }
    if let Ok(nanoseconds) = duration::parse(text)
        && let Ok(nanoseconds) = u64::try_from(nanoseconds)
    {
        let own = duration::text(Duration::from_nanos(nanoseconds));
        assert_eq!(duration::parse(&own).ok(), i64::try_from(nanoseconds).ok(), "{own}");
    }
    for precision in [Precision::Seconds, Precision::Micros] {
        if let Ok(time) = Timestamp::parse(text, precision) {
            let own = time.text(precision);
            assert_eq!(Timestamp::parse(&own, precision).ok(), Some(time), "{own}");
        }
    }
    let _ = JsonPath::parse(text);
});
