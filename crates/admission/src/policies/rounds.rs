//! Rounds in which an object is changed: when one who changes objects changes it, those before that wish so see it again
//! (<https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/#reinvocation-policy>).

use std::collections::HashSet;
use std::hash::Hash;

use holdfast_value::Value;

/// What is known of the rounds; `K` names who changes objects.
#[derive(Debug)]
pub struct Rounds<K> {
    second: bool,
    /// Those that had a go and wish to have another.
    invoked: Vec<K>,
    /// Those that have another.
    again: HashSet<K>,
    output: Option<Value>,
}

impl<K> Default for Rounds<K> {
    fn default() -> Self {
        Self {
            second: false,
            invoked: Vec::new(),
            again: HashSet::new(),
            output: None,
        }
    }
}

impl<K: Eq + Hash> Rounds<K> {
    /// A round begins with the object as it is.
    pub fn begin(&mut self, object: Option<&Value>) {
        if self.second && self.output.as_ref() != object {
            // Others changed it meanwhile.
            self.again.extend(self.invoked.drain(..));
        }
    }

    /// Whether it is the turn of `key` in this round.
    pub fn is_due(&self, key: &K) -> bool {
        !self.second || self.again.contains(key)
    }

    /// `key` had its go: whether it changed the object, and whether it wishes to see it again if others do.
    pub fn invoked(&mut self, key: K, changed: bool, wishes: bool) {
        if changed {
            self.again.extend(self.invoked.drain(..));
        }
        if wishes {
            self.invoked.push(key);
        }
    }

    /// Something was patched in this round, be it as it was before: those that wish so, the last among them, see it again.
    pub fn patched(&mut self) {
        self.again.extend(self.invoked.drain(..));
    }

    /// Whether any round took place.
    pub fn took_place(&self) -> bool {
        self.second
    }

    /// Whether anybody has more to do now that the object is as it is.
    pub fn has_more(&self, object: Option<&Value>) -> bool {
        !self.again.is_empty() || !self.invoked.is_empty() && self.output.as_ref() != object
    }

    /// A round ends with the object as it is.
    pub fn end(&mut self, object: Option<&Value>) {
        self.output = object.cloned();
        self.second = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_wishes_sees_an_object_again_that_changed_later() {
        let object = |text: &str| Value::from(text);
        let mut rounds = Rounds::default();
        rounds.begin(Some(&object("a")));
        for (key, changed, wishes) in [("first", true, true), ("second", false, false), ("third", true, true)] {
            assert!(rounds.is_due(&key));
            rounds.invoked(key, changed, wishes);
        }
        rounds.end(Some(&object("b")));
        rounds.begin(Some(&object("b")));
        assert!(rounds.is_due(&"first"));
        assert!(!rounds.is_due(&"second"));
        assert!(!rounds.is_due(&"third"));
    }

    #[test]
    fn who_patches_last_sees_the_object_again_too() {
        let mut rounds = Rounds::default();
        rounds.begin(None);
        rounds.invoked("one", true, true);
        rounds.patched();
        rounds.end(None);
        rounds.begin(None);
        assert!(rounds.is_due(&"one"));
    }

    #[test]
    fn a_change_between_the_rounds_counts_for_all_that_wish() {
        let object = |text: &str| Value::from(text);
        let mut rounds = Rounds::default();
        rounds.begin(Some(&object("a")));
        rounds.invoked("one", false, true);
        rounds.invoked("two", false, false);
        rounds.end(Some(&object("a")));
        rounds.begin(Some(&object("c")));
        assert!(rounds.is_due(&"one"));
        assert!(!rounds.is_due(&"two"));
    }
}
