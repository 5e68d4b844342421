//! Times of entries: whole seconds in UTC.

use std::time::SystemTime;

use holdfast_gotext::time::{self, Precision};
use holdfast_value::{SmolStr, Value};

/// Time in whole seconds, like `metav1.Time`, with its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Timestamp {
    /// Seconds since 1970.
    pub(crate) seconds: i64,
    text: SmolStr,
}

impl Timestamp {
    /// Returns the second of `now`.
    pub(crate) fn from_time(now: SystemTime) -> Self {
        Self::new(now.into())
    }

    /// Parses RFC 3339; drops fractions and converts other zones to UTC. `None` if the text is not a time within the
    /// years that can be written.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let time = Self::new(time::Timestamp::parse(text, Precision::Seconds).ok()?);
        (time.text.len() == "0000-00-00T00:00:00Z".len()).then_some(time)
    }

    /// Parses a time that this server wrote: like [`Timestamp::parse`], but keeps the text.
    pub(crate) fn read_stored(text: &SmolStr) -> Option<Self> {
        let seconds = time::Timestamp::parse(text, Precision::Seconds).ok()?.seconds;
        Some(Self {
            seconds,
            text: text.clone(),
        })
    }

    fn new(time: time::Timestamp) -> Self {
        Self {
            seconds: time.seconds,
            text: time.text(Precision::Seconds),
        }
    }

    pub(crate) fn text(&self) -> &SmolStr {
        &self.text
    }

    pub(crate) fn to_value(&self) -> Value {
        Value::String(self.text.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_whole_seconds_in_utc() {
        let time = Timestamp::parse("2026-01-02T03:04:05.678+01:00").unwrap();
        assert_eq!(time.to_value(), Value::from("2026-01-02T02:04:05Z"));
        assert_eq!(Timestamp::parse("2026-01-02"), None);
        assert_eq!(Timestamp::parse("9999-12-31T23:59:59-23:59"), None);
        let now = SystemTime::UNIX_EPOCH + std::time::Duration::from_millis(1_500);
        assert_eq!(
            Timestamp::from_time(now).to_value(),
            Value::from("1970-01-01T00:00:01Z")
        );
    }
}
