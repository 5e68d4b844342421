//! How much memory compiled patterns take together.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Memory that is handed out in shares up to a bound, in bytes.
#[derive(Debug)]
pub(super) struct Memory {
    taken: AtomicUsize,
    most: usize,
}

/// A share of the memory, which goes back when it is dropped.
#[derive(Debug)]
pub(super) struct Share {
    of: &'static Memory,
    bytes: usize,
}

impl Memory {
    pub(super) const fn new(most: usize) -> Self {
        Self {
            taken: AtomicUsize::new(0),
            most,
        }
    }

    /// A share of `bytes`; `None` where there is too little left.
    pub(super) fn take(&'static self, bytes: usize) -> Option<Share> {
        let more = |taken: usize| taken.checked_add(bytes).filter(|taken| *taken <= self.most);
        let taken = self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        taken.is_ok().then(|| Share { of: self, bytes })
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.of.taken.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_is_bounded_and_goes_back() {
        static MEMORY: Memory = Memory::new(100);
        let first = MEMORY.take(60).unwrap();
        let second = MEMORY.take(40).unwrap();
        assert!(MEMORY.take(1).is_none() && MEMORY.take(usize::MAX).is_none());
        drop(first);
        assert!(MEMORY.take(61).is_none() && MEMORY.take(60).is_some());
        drop(second);
        assert!(MEMORY.take(100).is_some());
    }
}
