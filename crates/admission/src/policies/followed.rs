//! The current policies of one kind with their bindings.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use holdfast_cel::PatternMemory;
use holdfast_resource::Resource;
use holdfast_schema::Field;
use holdfast_value::{SmolStr, Value};

use super::{Binding, Body, Policy};
use crate::Origin;

/// Informer for policies and bindings; it publishes each new state atomically.
#[derive(Debug)]
pub struct Followed<B> {
    active: ArcSwap<Active<B>>,
    patterns: PatternMemory,
}

/// The bound policies at one time.
#[derive(Debug)]
pub struct Active<B> {
    /// Policies in the order of their names, those from files first.
    hooks: Vec<Hook<B>>,
    /// Indexes of the policies that name a resource, by its plural name.
    by_resource: HashMap<SmolStr, Vec<usize>>,
    /// Indexes of the policies that match all resources.
    of_all: Vec<usize>,
    policies: Named<CompiledPolicy<B>>,
    bindings: Named<Arc<Binding>>,
}

/// Named items, by origin and name.
type Named<T> = BTreeMap<(Origin, SmolStr), T>;

/// A policy with the spec that it was compiled from.
#[derive(Debug)]
struct CompiledPolicy<B> {
    spec: Value,
    policy: Arc<Policy<B>>,
}

impl<B> Clone for CompiledPolicy<B> {
    fn clone(&self) -> Self {
        Self {
            spec: self.spec.clone(),
            policy: Arc::clone(&self.policy),
        }
    }
}

/// A policy and its bindings.
#[derive(Debug)]
pub struct Hook<B> {
    /// Policy.
    pub policy: Arc<Policy<B>>,
    /// Its bindings, at least one, in the order of their names.
    pub bindings: Vec<Arc<Binding>>,
    /// Origin of the policy.
    pub origin: Origin,
}

impl<B> Default for Active<B> {
    fn default() -> Self {
        Self {
            hooks: Vec::new(),
            by_resource: HashMap::new(),
            of_all: Vec::new(),
            policies: BTreeMap::new(),
            bindings: BTreeMap::new(),
        }
    }
}

impl<B> Default for Followed<B> {
    fn default() -> Self {
        Self::new(PatternMemory::default())
    }
}

impl<B> Followed<B> {
    /// Creates an empty set; the regular expressions of policies are compiled into `patterns`.
    pub fn new(patterns: PatternMemory) -> Self {
        Self {
            active: ArcSwap::default(),
            patterns,
        }
    }
}

impl<B: Body> Followed<B> {
    /// Returns the current policies.
    pub fn now(&self) -> Guard<Arc<Active<B>>> {
        self.active.load()
    }

    /// Applies the current state of a policy; `None` if it is deleted. A policy with an unchanged spec is not compiled
    /// again.
    pub fn set_policy(&self, name: &str, policy: Option<&Value>) {
        let spec = policy.map(|policy| policy.get("spec").cloned().unwrap_or_default());
        let before = self.active.load();
        let key = (Origin::Api, SmolStr::new(name));
        if before.policies.get(&key).map(|kept| &kept.spec) == spec.as_ref() {
            return;
        }
        let compiled = spec.map(|spec| self.compile(name, spec));
        self.change(|policies, _| match &compiled {
            Some(kept) => drop(policies.insert(key.clone(), kept.clone())),
            None => drop(policies.remove(&key)),
        });
    }

    /// Applies the current state of a binding; `None` if it is deleted.
    pub fn set_binding(&self, name: &str, binding: Option<&Value>) {
        let key = (Origin::Api, SmolStr::new(name));
        let binding = binding.map(|binding| bound(name, binding));
        self.change(|_, bindings| match &binding {
            Some(binding) => drop(bindings.insert(key.clone(), Arc::clone(binding))),
            None => drop(bindings.remove(&key)),
        });
    }

    /// Replaces all policies and bindings from files with these.
    pub fn set_files(&self, policies: &[Value], bindings: &[Value]) {
        fn named<T>(objects: &[Value], read: impl Fn(&str, &Value) -> T) -> Vec<((Origin, SmolStr), T)> {
            let entry = |object: &Value| {
                let name = object.str_at(&["metadata", "name"]).unwrap_or_default();
                ((Origin::File, SmolStr::new(name)), read(name, object))
            };
            objects.iter().map(entry).collect()
        }
        let compiled = named(policies, |name, policy| {
            self.compile(name, policy.get("spec").cloned().unwrap_or_default())
        });
        let bound = named(bindings, bound);
        self.change(|policies, bindings| {
            policies.retain(|(origin, _), _| *origin != Origin::File);
            bindings.retain(|(origin, _), _| *origin != Origin::File);
            policies.extend(compiled.iter().cloned());
            bindings.extend(bound.iter().cloned());
        });
    }

    fn compile(&self, name: &str, spec: Value) -> CompiledPolicy<B> {
        CompiledPolicy {
            policy: Arc::new(Policy::new(name, &Field::root(&spec), &self.patterns)),
            spec,
        }
    }

    fn change(&self, change: impl Fn(&mut Named<CompiledPolicy<B>>, &mut Named<Arc<Binding>>)) {
        self.active.rcu(|active| {
            let (mut policies, mut bindings) = (active.policies.clone(), active.bindings.clone());
            change(&mut policies, &mut bindings);
            Active::new(policies, bindings)
        });
    }
}

fn bound(name: &str, binding: &Value) -> Arc<Binding> {
    let nothing = Value::Null;
    let spec = binding.get("spec").unwrap_or(&nothing);
    Arc::new(Binding::from_spec(name, &Field::root(spec)))
}

impl<B> Active<B> {
    fn new(policies: Named<CompiledPolicy<B>>, bindings: Named<Arc<Binding>>) -> Self {
        let mut of_policy: BTreeMap<(Origin, &str), Vec<Arc<Binding>>> = BTreeMap::new();
        for ((origin, _), binding) in &bindings {
            let bound = of_policy.entry((*origin, &binding.policy)).or_default();
            bound.push(Arc::clone(binding));
        }
        let hooks: Vec<Hook<B>> = policies
            .iter()
            .filter_map(|((origin, name), kept)| {
                Some(Hook {
                    bindings: of_policy.remove(&(*origin, name.as_str()))?,
                    policy: Arc::clone(&kept.policy),
                    origin: *origin,
                })
            })
            .collect();
        let (mut by_resource, mut of_all) = (HashMap::<SmolStr, Vec<usize>>::new(), Vec::new());
        for (at, hook) in hooks.iter().enumerate() {
            let named: Vec<&SmolStr> = hook.policy.constraints.resources().collect();
            if named.is_empty() || named.iter().any(|name| *name == "*") {
                of_all.push(at);
                continue;
            }
            for name in named {
                let at_name = by_resource.entry(name.clone()).or_default();
                if at_name.last() != Some(&at) {
                    at_name.push(at);
                }
            }
        }
        Self {
            hooks,
            by_resource,
            of_all,
            policies,
            bindings,
        }
    }

    /// Returns the number of bound policies.
    pub fn len(&self) -> usize {
        self.hooks.len()
    }

    /// Returns true if no policy is bound.
    pub fn is_empty(&self) -> bool {
        self.hooks.is_empty()
    }

    /// Returns the policies in the order of their names.
    pub fn hooks(&self) -> &[Hook<B>] {
        &self.hooks
    }

    /// Returns true if any policy may match writes to resources of that plural name.
    pub fn concerns(&self, plural: &str) -> bool {
        !self.of_all.is_empty() || !self.by_resource.is_empty() && self.by_resource.contains_key(plural)
    }

    /// Returns the policies that may match writes to that resource, in their order.
    pub fn concerning<'a>(&'a self, resource: &Resource) -> impl Iterator<Item = &'a Hook<B>> + use<'a, B> {
        let only_files = resource.capabilities.exempt.policies;
        let all = self.naming(&resource.plural);
        all.filter(move |hook| !only_files || hook.origin == Origin::File)
    }

    /// Returns the policies that name resources of that plural name.
    fn naming<'a>(&'a self, plural: &str) -> impl Iterator<Item = &'a Hook<B>> + use<'a, B> {
        let mut named = self
            .by_resource
            .get(plural)
            .map_or(&[][..], Vec::as_slice)
            .iter()
            .copied();
        let mut of_all = self.of_all.iter().copied();
        let (mut next_named, mut next_of_all) = (named.next(), of_all.next());
        std::iter::from_fn(move || {
            // Both are sorted, and no policy is in both.
            let at = match (next_named, next_of_all) {
                (Some(a), Some(b)) if a < b => std::mem::replace(&mut next_named, named.next()),
                (Some(_), None) => std::mem::replace(&mut next_named, named.next()),
                _ => std::mem::replace(&mut next_of_all, of_all.next()),
            };
            self.hooks.get(at?)
        })
    }
}

#[cfg(test)]
mod tests {
    use holdfast_value::{Limits, yaml};

    use super::*;
    use crate::policies::validating::Validations;

    fn parse(text: &str) -> Value {
        yaml::parse(text.as_bytes(), &Limits::TRUSTED).unwrap()
    }

    fn policy(resource: &str, expression: &str) -> Value {
        parse(&format!(
            "{{spec: {{matchConstraints: {{resourceRules: [{{operations: ['*'], apiGroups: ['*'], apiVersions: ['*'], \
             resources: ['{resource}']}}]}}, validations: [{{expression: '{expression}'}}]}}}}"
        ))
    }

    fn binding(policy: &str) -> Value {
        parse(&format!(
            "{{spec: {{policyName: {policy}, validationActions: [Deny]}}}}"
        ))
    }

    fn concerning(followed: &Followed<Validations>, plural: &str) -> Vec<String> {
        let now = followed.now();
        let names: Vec<String> = now.naming(plural).map(|hook| hook.policy.name.to_string()).collect();
        assert_eq!(now.concerns(plural), !names.is_empty());
        names
    }

    #[test]
    fn a_policy_counts_while_it_is_there_and_bound() {
        let followed = Followed::<Validations>::default();
        followed.set_binding("b", Some(&binding("p")));
        assert!(followed.now().is_empty());
        followed.set_policy("p", Some(&policy("pods", "true")));
        assert_eq!(concerning(&followed, "pods"), ["p"]);
        followed.set_binding("b", Some(&binding("other")));
        assert!(followed.now().is_empty());
        followed.set_binding("b", Some(&binding("p")));
        followed.set_binding("b", None);
        assert!(followed.now().is_empty());
        followed.set_binding("b", Some(&binding("p")));
        followed.set_policy("p", None);
        assert!(followed.now().is_empty());
    }

    #[test]
    fn policies_are_found_by_resource_in_name_order() {
        let followed = Followed::<Validations>::default();
        for (name, resource) in [
            ("d", "pods"),
            ("a", "pods"),
            ("c", "*"),
            ("b", "pods/status"),
            ("e", "secrets"),
        ] {
            followed.set_policy(name, Some(&policy(resource, "true")));
            followed.set_binding(name, Some(&binding(name)));
        }
        assert_eq!(concerning(&followed, "pods"), ["a", "b", "c", "d"]);
        assert_eq!(concerning(&followed, "secrets"), ["c", "e"]);
        assert_eq!(concerning(&followed, "nodes"), ["c"]);
        followed.set_policy("c", None);
        assert_eq!(concerning(&followed, "nodes"), Vec::<String>::new());
    }

    #[test]
    fn only_a_changed_spec_is_compiled() {
        let followed = Followed::<Validations>::default();
        followed.set_binding("b", Some(&binding("p")));
        let compiled = || Arc::as_ptr(&followed.now().hooks[0].policy);
        followed.set_policy("p", Some(&policy("pods", "true")));
        let first = compiled();
        let mut with_status = policy("pods", "true");
        with_status.set_at(&["status", "observedGeneration"], Value::Int(1));
        followed.set_policy("p", Some(&with_status));
        followed.set_binding("b", Some(&binding("p")));
        assert_eq!(compiled(), first);
        followed.set_policy("p", Some(&policy("pods", "false")));
        assert_ne!(compiled(), first);
    }
}
