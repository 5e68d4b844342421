//! Parts of objects that need no second validation.
//!
//! The validation of some parts depends only on their own content: the template of the Pods of a workload is valid or
//! invalid whatever the rest of the object. If a write leaves such a part unchanged, and this process found it valid
//! when it stored the object, it is still valid. There are no facts about objects that another server stored, or that
//! this one stored before its last start: their parts are validated.

use std::sync::atomic::{AtomicU8, Ordering};

use holdfast_value::Value;

use crate::field::Field;

/// Facts that this process found about an object when it stored the object. They are kept only in memory, next to the
/// object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoredFacts {
    has_form_of_type: bool,
    /// Facts about its parts, two bits for each part.
    parts: u8,
}

impl StoredFacts {
    /// No facts: another process stored the object, or the object is not stored yet.
    pub const UNPROVEN: Self = Self {
        has_form_of_type: false,
        parts: 0,
    };

    /// Returns these facts about an object that has the form of its type and its defaults.
    #[must_use]
    pub const fn in_form_of_type(self) -> Self {
        Self {
            has_form_of_type: true,
            ..self
        }
    }

    /// Returns true if the object has the form of its type and its defaults.
    pub const fn has_form_of_type(self) -> bool {
        self.has_form_of_type
    }
}

/// Fact about a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fact {
    /// The part is valid.
    Right,
    /// The part needs no warning.
    Harmless,
}

/// Parts of an object that is being written, and the known facts about them.
#[derive(Debug, Default)]
pub struct Parts<'a> {
    places: &'a [&'static [&'static str]],
    before: Option<(&'a Value, StoredFacts)>,
    found: AtomicU8,
}

impl<'a> Parts<'a> {
    /// Maximum number of parts of an object.
    pub const MAX_PARTS: usize = u8::BITS as usize / 2;

    /// Returns the parts at `places`; there are no facts about those beyond [`Parts::MAX_PARTS`].
    pub fn at(places: &'a [&'static [&'static str]]) -> Self {
        Self {
            places,
            ..Self::default()
        }
    }

    /// Returns the same parts for an object that replaces `old`, with the facts about `old`.
    #[must_use]
    pub fn in_place_of(mut self, old: &'a Value, facts: StoredFacts) -> Self {
        self.before = Some((old, facts));
        self
    }

    /// Returns true if `fact` is recorded for `part`: it was found when the existing object, which holds the same value,
    /// was stored.
    pub fn knows(&self, fact: Fact, part: &Field<'_, '_>) -> bool {
        let Some(at) = self.place_of(part) else { return false };
        let known = self
            .before
            .is_some_and(|(old, facts)| facts.parts & bit(at, fact) != 0 && self.value_in(old, at) == part.value());
        if known {
            self.keep(bit(at, fact));
        }
        known
    }

    /// Records a fact that was found of `part`.
    pub fn found(&self, fact: Fact, part: &Field<'_, '_>) {
        if let Some(at) = self.place_of(part) {
            self.keep(bit(at, fact));
        }
    }

    /// Returns all facts about the parts of `object`, which is about to be stored: those found now, and those known of
    /// unchanged parts that were not checked.
    pub fn of_stored(&self, object: &Value) -> StoredFacts {
        let mut parts = self.found.load(Ordering::Relaxed);
        let of_parts = |parts| StoredFacts {
            parts,
            ..StoredFacts::UNPROVEN
        };
        let Some((old, facts)) = self.before else {
            return of_parts(parts);
        };
        for at in 0..self.places.len().min(Self::MAX_PARTS) {
            let of_part = facts.parts & (bit(at, Fact::Right) | bit(at, Fact::Harmless));
            if of_part & !parts != 0 && self.value_in(old, at) == self.value_in(object, at) {
                parts |= of_part;
            }
        }
        of_parts(parts)
    }

    fn keep(&self, bits: u8) {
        self.found.fetch_or(bits, Ordering::Relaxed);
    }

    fn place_of(&self, part: &Field<'_, '_>) -> Option<usize> {
        let mut places = self.places.iter().take(Self::MAX_PARTS);
        places.position(|place| part.stands_at(place))
    }

    fn value_in<'v>(&self, object: &'v Value, at: usize) -> Option<&'v Value> {
        object.at(self.places.get(at)?).filter(|value| !value.is_null())
    }
}

fn bit(at: usize, fact: Fact) -> u8 {
    1 << (2 * at + fact as usize)
}

#[cfg(test)]
mod tests {
    use holdfast_value::{Limits, json};

    use super::*;

    const PLACES: &[&[&str]] = &[&["a"], &["b", "c"]];

    fn object(text: &str) -> Value {
        json::parse(text.as_bytes(), &Limits::TRUSTED).unwrap()
    }

    /// Returns the facts about an object once `fact` was found of `b.c`.
    fn known(object: &Value, fact: Fact) -> StoredFacts {
        let parts = Parts::at(PLACES);
        let root = Field::root(object);
        parts.found(fact, &root.child("b").child("c"));
        parts.found(fact, &root.child("b"));
        parts.of_stored(object)
    }

    #[test]
    fn fact_of_unchanged_part_is_kept() {
        let old = object(r#"{"a":1,"b":{"c":{"d":1}}}"#);
        let known = known(&old, Fact::Right);
        let knows = |new: &Value, fact| {
            let root = Field::root(new);
            let b = root.child("b");
            let parts = Parts::at(PLACES).in_place_of(&old, known);
            assert!(!parts.knows(fact, &root.child("a")), "nothing was found of it");
            parts.knows(fact, &b.child("c"))
        };
        let same = object(r#"{"a":2,"b":{"c":{"d":1},"e":1}}"#);
        assert!(knows(&same, Fact::Right) && !knows(&same, Fact::Harmless));
        assert!(!knows(&object(r#"{"a":1,"b":{"c":{"d":2}}}"#), Fact::Right));
        assert!(!knows(&object(r#"{"a":1}"#), Fact::Right));
    }

    #[test]
    fn value_reported_at_part_path_is_not_the_part() {
        let old = object(r#"{"a":1}"#);
        let parts = Parts::at(PLACES);
        parts.found(Fact::Right, &Field::placed(old.get("a"), "a"));
        assert_eq!(parts.of_stored(&old), StoredFacts::default());
    }

    #[test]
    fn fact_of_unchecked_unchanged_part_is_kept() {
        let old = object(r#"{"a":1,"b":{"c":2}}"#);
        let known = known(&old, Fact::Harmless);
        let after = |text| Parts::at(PLACES).in_place_of(&old, known).of_stored(&object(text));
        assert_eq!(after(r#"{"a":2,"b":{"c":2}}"#), known);
        assert_eq!(after(r#"{"a":1,"b":{"c":3}}"#), StoredFacts::default());
        assert_eq!(after(r#"{"a":1}"#), StoredFacts::default());
    }
}
