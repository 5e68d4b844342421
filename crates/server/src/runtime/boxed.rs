//! Allocation of futures.

use std::pin::Pin;

/// Returns the future that `make` creates, in memory of its own.
///
/// `Box::pin` creates its future before it allocates: the future must be dropped if the allocation panics, so it is kept on
/// the stack and then copied, which costs kilobytes a request. Here the allocation comes first, and the compiler writes the
/// arguments of the future into it.
pub(crate) fn boxed<F>(make: impl FnOnce() -> F) -> Pin<Box<F>> {
    let place = Box::new_uninit();
    Box::into_pin(Box::write(place, make()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn boxed_future_returns_its_output() {
        let text = String::from("a");
        assert_eq!(boxed(|| async move { text + "b" }).await, "ab");
    }
}
