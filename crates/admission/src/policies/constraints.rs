//! Match constraints of a policy or a binding
//! (<https://kubernetes.io/docs/reference/kubernetes-api/policy-resources/validating-admission-policy-v1/>,
//! `MatchResources`).

use holdfast_resource::selector::LabelSelector;
use holdfast_schema::Field;
use holdfast_value::{SmolStr, Value};

use super::request::Scene;
use crate::webhooks::matching::{self, Invocation, Rule};

/// Writes that match a policy or a binding.
#[derive(Debug, Default)]
pub struct Constraints {
    rules: Vec<NamedRule>,
    excluded: Vec<NamedRule>,
    equivalent: bool,
    namespaces: LabelSelector,
    objects: LabelSelector,
}

/// A rule that may name single objects.
#[derive(Debug)]
struct NamedRule {
    rule: Rule,
    /// Names; empty for all objects.
    names: Vec<SmolStr>,
}

impl NamedRule {
    fn from_field(rule: &Field<'_, '_>) -> Self {
        let names = rule.child("resourceNames");
        Self {
            rule: Rule::from_field(rule),
            names: names.items().map(|name| name.text().into()).collect(),
        }
    }
}

impl Constraints {
    /// Reads `MatchResources`, which were validated.
    pub fn from_field(constraints: &Field<'_, '_>) -> Self {
        let rules = |name: &str| {
            constraints
                .child(name)
                .items()
                .map(|rule| NamedRule::from_field(&rule))
                .collect()
        };
        let selector = |name: &str| {
            let selector = constraints.child(name);
            selector.value().map(LabelSelector::from_object).unwrap_or_default()
        };
        Self {
            rules: rules("resourceRules"),
            excluded: rules("excludeResourceRules"),
            equivalent: constraints.child("matchPolicy").text() != "Exact",
            namespaces: selector("namespaceSelector"),
            objects: selector("objectSelector"),
        }
    }

    /// Returns the plural names of the resources in the rules; `*` for all. Empty if there are no rules, which means
    /// all.
    pub(super) fn resources(&self) -> impl Iterator<Item = &SmolStr> {
        self.rules.iter().flat_map(|rule| rule.rule.resources())
    }

    /// Returns the version of the resource in which the write matches; `None` if it does not match.
    ///
    /// # Errors
    /// If that is unknown because its namespace does not exist.
    pub(super) fn invocation(&self, scene: &Scene<'_>, object: Option<&Value>) -> Result<Option<Invocation>, String> {
        let found = if self.rules.is_empty() {
            Some(scene.invocation())
        } else {
            self.named_in(&self.rules, scene)
        };
        let Some(found) = found else {
            return Ok(None);
        };
        let request = scene.request;
        if self.named_in(&self.excluded, scene).is_some()
            || !matching::selects(&self.objects, object, request.old)
            || !scene.is_in_namespaces(&self.namespaces, object)?
        {
            return Ok(None);
        }
        Ok(Some(found))
    }

    fn named_in(&self, rules: &[NamedRule], scene: &Scene<'_>) -> Option<Invocation> {
        let request = scene.request;
        let named = |rule: &&NamedRule| rule.names.is_empty() || rule.names.iter().any(|name| name == request.name);
        let rules = rules.iter().filter(named).map(|rule| &rule.rule);
        matching::invocation(
            rules,
            self.equivalent,
            &request.attributes(),
            &request.kind,
            request.resource,
            request.registry,
        )
    }
}
