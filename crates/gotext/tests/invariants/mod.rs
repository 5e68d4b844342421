//! Invariants that hold for any text, shared by the tests and the fuzz target.

use std::time::Duration;

use holdfast_gotext::duration;
use holdfast_gotext::quantity::{Quantity, text_of};
use holdfast_gotext::time::{Precision, Timestamp};

/// Checks that quantities, durations and times survive a round trip through their text.
pub(crate) fn text(text: &str) {
    if let Ok(amount) = Quantity::parse(text) {
        let own_text = text_of(text);
        assert!(own_text.is_ok(), "{text}: {own_text:?}");
        let own = own_text.unwrap_or_default();
        // The largest amounts lose their suffix, as in the reference.
        assert!(
            Quantity::parse(&own) == Ok(amount) || amount.units() == i64::MAX,
            "{text}: {own}"
        );
        assert_eq!(text_of(&own).as_ref(), Ok(&own), "{text}");
    }
    if let Ok(nanoseconds) = duration::parse(text)
        && let Ok(magnitude) = u64::try_from(nanoseconds)
    {
        let own = duration::text(Duration::from_nanos(magnitude));
        assert_eq!(duration::parse(&own).ok(), Some(nanoseconds), "{text}: {own}");
    }
    for precision in [Precision::Seconds, Precision::Micros] {
        // A zone may move a time out of the range of years that can be parsed.
        if let Ok(time) = Timestamp::parse(text, precision)
            && Timestamp::WRITABLE.contains(&time.seconds)
        {
            let own = time.text(precision);
            assert_eq!(Timestamp::parse(&own, precision).ok(), Some(time), "{text}: {own}");
        }
    }
}
