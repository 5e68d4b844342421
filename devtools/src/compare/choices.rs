//! Choices drawn in advance: their result is a function of only them, so that shrinking them shrinks it.

/// Drawn numbers, used one after another. After their end, each further choice is the first one.
pub(super) struct Choices<'a>(std::slice::Iter<'a, u32>);

impl<'a> Choices<'a> {
    pub(super) fn new(drawn: &'a [u32]) -> Self {
        Self(drawn.iter())
    }

    /// Returns a number below `end`; 0 if `end` is 0.
    pub(super) fn below(&mut self, end: usize) -> usize {
        let drawn = self.0.next().copied().unwrap_or_default();
        (drawn as usize).checked_rem(end).unwrap_or_default()
    }

    /// Returns one of these.
    pub(super) fn one_of<'b, T>(&mut self, choices: &'b [T]) -> Option<&'b T> {
        choices.get(self.below(choices.len()))
    }
}
