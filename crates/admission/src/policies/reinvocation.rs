//! Reinvocation in which an object is changed: when one who changes objects changes it, those before that wish so see it again
//! (<https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/#reinvocation-policy>).

use std::collections::HashSet;
use std::hash::Hash;

use holdfast_value::Value;

/// The rounds of a write; `K` names a policy or a webhook.
#[derive(Debug)]
pub struct Reinvocation<K> {
    second: bool,
    /// Those that were invoked and ask for reinvocation.
    invoked: Vec<K>,
    /// Those that are invoked again.
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
            // Others changed it meanwhile.
            self.again.extend(self.invoked.drain(..));
        }
    }

    /// Whether this round invokes `key`.
    pub fn is_due(&self, key: &K) -> bool {
        !self.second || self.again.contains(key)
    }

    /// Notes that `key` was invoked: whether it changed the object, and whether it asks for reinvocation.
    pub fn invoked(&mut self, key: K, changed: bool, wishes: bool) {
        if changed {
            self.again.extend(self.invoked.drain(..));
        }
        if wishes {
            self.invoked.push(key);
        }
    }

    /// Notes that a patch was applied, even one without effect: all that ask for reinvocation are invoked again, the last one too.
    pub fn patched(&mut self) {
        self.again.extend(self.invoked.drain(..));
    }

    /// Whether a round has ended.
    pub fn has_begun(&self) -> bool {
        self.second
    }

    /// Whether another round is needed for this object.
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
    fn who_wishes_sees_an_object_again_that_changed_later() {
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
    fn who_patches_last_sees_the_object_again_too() {
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
