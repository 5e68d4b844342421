//! The place of a span in a trace, as headers carry it (<https://www.w3.org/TR/trace-context/>).

/// Maximum length of the state that is passed on.
const MAX_STATE_BYTES: usize = 512;

/// Identity of a span in its trace.
///
/// ```
/// use holdfast_traces::TraceContext;
///
/// let header = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
/// let context = TraceContext::parse(header, None).unwrap();
/// assert!(context.is_sampled);
/// assert_eq!(context.traceparent(), header);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceContext {
    /// Identifier of the trace; never 0.
    pub trace_id: u128,
    /// Identifier of the span; never 0.
    pub span_id: u64,
    /// True if the spans of the trace are recorded.
    pub is_sampled: bool,
    /// State of other systems, the header `tracestate`.
    pub state: String,
}

impl TraceContext {
    /// Parses the headers `traceparent` and `tracestate`; `None` if there is no valid parent.
    pub fn parse(parent: &str, state: Option<&str>) -> Option<Self> {
        let mut parts = parent.trim().split('-');
        let version = hex(parts.next()?, 2)?;
        let trace_id = hex(parts.next()?, 32)?;
        let span_id = hex(parts.next()?, 16)?;
        let flags = hex(parts.next()?, 2)?;
        // Later versions may have further parts.
        let is_known = version == 0;
        let is_valid = version != 0xff && (!is_known || (parts.next().is_none() && flags <= 3));
        let state = state.filter(|state| state.len() <= MAX_STATE_BYTES);
        (is_valid && trace_id != 0 && span_id != 0).then(|| Self {
            trace_id,
            span_id: u64::try_from(span_id).unwrap_or_default(),
            is_sampled: flags & 1 == 1,
            state: state.unwrap_or_default().to_owned(),
        })
    }

    /// Returns the header `traceparent`.
    pub fn traceparent(&self) -> String {
        let flags = u8::from(self.is_sampled);
        format!("00-{:032x}-{:016x}-{flags:02x}", self.trace_id, self.span_id)
    }
}

/// Parses a number of exactly `length` lower-case hexadecimal digits.
fn hex(text: &str, length: usize) -> Option<u128> {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if text.len() != length || !text.bytes().all(is_digit) {
        return None;
    }
    u128::from_str_radix(text, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_parent_is_ignored() {
        let trace = "0af7651916cd43dd8448eb211c80319c";
        let zero = "0".repeat(32);
        for header in [
            String::new(),
            format!("00-{trace}"),
            format!("00-{zero}-b7ad6b7169203331-01"),
            format!("00-{trace}-0000000000000000-01"),
            format!("ff-{trace}-b7ad6b7169203331-01"),
            format!("00-{trace}-b7ad6b7169203331-01-x"),
            format!("00-{}-b7ad6b7169203331-01", trace.to_uppercase()),
            format!("00-{trace}-+7ad6b7169203331-01"),
        ] {
            assert_eq!(TraceContext::parse(&header, None), None, "{header}");
        }
        let later = format!("01-{trace}-b7ad6b7169203331-00-more");
        assert!(!TraceContext::parse(&later, None).unwrap().is_sampled);
    }

    #[test]
    fn state_of_other_systems_is_bounded() {
        let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let state = |text: &str| TraceContext::parse(parent, Some(text)).unwrap().state;
        assert_eq!(state("a=1"), "a=1");
        assert_eq!(state(&"a".repeat(513)), "");
    }
}
