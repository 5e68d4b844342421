//! Reinvocation of policies and webhooks that change an object: when one of them changes it, earlier ones that request
//! reinvocation are called again
//! (<https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/#reinvocation-policy>).

use std::collections::HashSet;
use std::hash::Hash;

use holdfast_value::Value;

/// Rounds of a write; `K` identifies a policy or a webhook.
#[derive(Debug)]
pub struct Reinvocation<K> {
    second: bool,
    /// Keys that were invoked and request reinvocation.
    invoked: Vec<K>,
    /// Keys that are invoked again.
    again: HashSet<K>,
    output: Option<Value>,
}

impl<K> Default for Reinvocation<K> {
    fn default() -> Self {
        Self {
            second: false,
            invoked: Vec::new(),
            again: HashSet::new(),
            output: None,
        }
    }
}

impl<K: Eq + Hash> Reinvocation<K> {
    /// Begins a round with this object.
    pub fn begin(&mut self, object: Option<&Value>) {
        if self.second && self.output.as_ref() != object {
            // Another plugin changed it meanwhile.
            self.again.extend(self.invoked.drain(..));
        }
    }

    /// Returns true if this round invokes `key`.
    pub fn is_due(&self, key: &K) -> bool {
        !self.second || self.again.contains(key)
    }

    /// Records that `key` was invoked, whether it changed the object, and whether it requests reinvocation.
    pub fn invoked(&mut self, key: K, changed: bool, wishes: bool) {
        if changed {
            self.again.extend(self.invoked.drain(..));
        }
        if wishes {
            self.invoked.push(key);
        }
    }

    /// Records that a patch was applied, even one without effect: all that request reinvocation are invoked again,
    /// including the last one.
    pub fn patched(&mut self) {
        self.again.extend(self.invoked.drain(..));
    }

    /// Returns true if a round has ended.
    pub fn has_begun(&self) -> bool {
        self.second
    }

    /// Returns true if another round is needed for this object.
    pub fn has_more(&self, object: Option<&Value>) -> bool {
        !self.again.is_empty() || !self.invoked.is_empty() && self.output.as_ref() != object
    }

    /// Ends a round with this object.
    pub fn end(&mut self, object: Option<&Value>) {
        self.output = object.cloned();
        self.second = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn object_changed_later_reinvokes_earlier_hooks() {
        let object = |text: &str| Value::from(text);
        let mut rounds = Reinvocation::default();
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
    fn last_patch_reinvokes_its_own_hook() {
        let mut rounds = Reinvocation::default();
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
        let mut rounds = Reinvocation::default();
        rounds.begin(Some(&object("a")));
        rounds.invoked("one", false, true);
        rounds.invoked("two", false, false);
        rounds.end(Some(&object("a")));
        rounds.begin(Some(&object("c")));
        assert!(rounds.is_due(&"one"));
        assert!(!rounds.is_due(&"two"));
    }
}
