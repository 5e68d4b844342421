//! Memory budget of compiled patterns.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Memory for compiled patterns, shared by all clones. Without memory, which is the default, patterns are matched step
/// by step and not compiled.
///
/// ```
/// use holdfast_cel::{Pattern, PatternMemory};
///
/// let memory = PatternMemory::new(1 << 20);
/// let pattern = Pattern::compile("^[a-z]+$", &memory)?;
/// assert!(pattern.is_match("shop"));
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct PatternMemory(Option<Arc<Bounded>>);

#[derive(Debug)]
struct Bounded {
    taken: AtomicUsize,
    most: usize,
}

/// Share of the memory, which is released on drop.
#[derive(Debug)]
pub(super) struct Share {
    of: Arc<Bounded>,
    bytes: usize,
}

impl PatternMemory {
    /// Creates a budget of `most` bytes.
    pub fn new(most: usize) -> Self {
        let taken = AtomicUsize::new(0);
        Self(Some(Arc::new(Bounded { taken, most })))
    }

    /// Returns the bytes that compiled patterns occupy now.
    pub fn taken(&self) -> usize {
        self.0.as_ref().map_or(0, |of| of.taken.load(Ordering::Relaxed))
    }

    /// True if there is a budget.
    pub(super) fn is_some(&self) -> bool {
        self.0.is_some()
    }

    /// Reserves `bytes`; `None` if too little is left.
    pub(super) fn take(&self, bytes: usize) -> Option<Share> {
        let memory = self.0.as_ref()?;
        let more = |taken: usize| taken.checked_add(bytes).filter(|taken| *taken <= memory.most);
        let taken = memory.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        taken.is_ok().then(|| Share {
            of: Arc::clone(memory),
            bytes,
        })
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
    fn memory_clones_share_budget_and_shares_return() {
        let memory = PatternMemory::new(100);
        let copy = memory.clone();
        let first = memory.take(60).unwrap();
        let second = copy.take(40).unwrap();
        assert!(memory.take(1).is_none() && copy.take(usize::MAX).is_none());
        drop(first);
        assert!(copy.take(61).is_none() && copy.take(60).is_some());
        drop(second);
        assert_eq!(copy.taken(), 0);
        assert!(memory.take(100).is_some());
        assert!(PatternMemory::default().take(0).is_none());
    }
}
