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
        // The largest amounts lose their suffix, as in the reference.
        assert!(Quantity::parse(&own) == Ok(amount) || amount.units() == i64::MAX, "{own}");
        assert_eq!(quantity::text_of(&own).ok().as_deref(), Some(own.as_str()));
    }
    if let Ok(nanoseconds) = duration::parse(text)
        && let Ok(nanoseconds) = u64::try_from(nanoseconds)
    {
        let own = duration::text(Duration::from_nanos(nanoseconds));
        assert_eq!(duration::parse(&own).ok(), i64::try_from(nanoseconds).ok(), "{own}");
    }
    for precision in [Precision::Seconds, Precision::Micros] {
        // A zone may move a time out of the years that can be read.
        if let Ok(time) = Timestamp::parse(text, precision)
            && Timestamp::WRITABLE.contains(&time.seconds)
        {
            let own = time.text(precision);
            assert_eq!(Timestamp::parse(&own, precision).ok(), Some(time), "{own}");
        }
    }
    let _ = JsonPath::parse(text);
});
