//! Roles and ClusterRoles.

use std::sync::Arc;

use holdfast_authorization::rbac::RuleIndex;
use holdfast_authorization::rbac::rule::rules_of;
use holdfast_kind_tables::features::Features;
use holdfast_resource::{Followed, InitialObjects, Rejection, Scope, Strategy, WriteContext};
use holdfast_schema::metadata::labels::{LabelSelector, validate_label_selector};
use holdfast_schema::{AnyRules, Check, Field, Part, Rules};
use holdfast_value::Value;

use super::{GROUP, bootstrap, escalation, place};
use crate::rules::RoleRule;
use crate::validation::Errors;

/// Strategy of Roles or ClusterRoles.
pub(crate) struct Role {
    pub(crate) scope: Scope,
    pub(crate) policy: Arc<RuleIndex>,
    pub(crate) features: Features,
}

impl Strategy for Role {
    /// upstream: pkg/registry/rbac/role#strategy.PrepareForCreate
    fn prepare_for_create(&self, context: &WriteContext<'_>, object: &mut Value) -> Result<(), Rejection> {
        self.check_escalation(context, "", object, None)
    }

    /// upstream: pkg/registry/rbac/role/policybased#Storage.Update
    /// upstream: pkg/registry/rbac/clusterrole/policybased#Storage.Update
    fn authorize_update(&self, context: &WriteContext<'_>, object: &Value, old: &Value) -> Result<(), Rejection> {
        if escalation::changes_ownership_alone(object, old) {
            return Ok(());
        }
        self.check_escalation(context, context.name, object, Some(old))
    }

    fn rules<'v>(&self) -> &dyn AnyRules<'v> {
        self
    }
}

impl Followed for Role {
    fn observe(&self, old: Option<&Value>, new: Option<&Value>) {
        if let Some(role) = new.or(old) {
            let (namespace, name) = place(role);
            self.policy.set_role(namespace, name, new.map(rules_of));
        }
    }
}

impl InitialObjects for Role {
    fn initial_objects(&self) -> Vec<Value> {
        bootstrap::roles(self.scope == Scope::Cluster, self.features)
    }

    fn reconcile(&self, stored: &Value, initial: &Value) -> Option<Value> {
        bootstrap::reconcile_role(stored, initial)
    }
}

impl Role {
    /// Requires that the user holds all permissions of the role, or may escalate. `name` is that of the request URL.
    ///
    /// upstream: pkg/registry/rbac/role/policybased#Storage.Create
    /// upstream: pkg/registry/rbac/clusterrole/policybased#Storage.Create
    fn check_escalation(
        &self,
        context: &WriteContext<'_>,
        name: &str,
        object: &Value,
        old: Option<&Value>,
    ) -> Result<(), Rejection> {
        let resource = match self.scope {
            Scope::Cluster => "clusterroles",
            Scope::Namespaced => "roles",
        };
        let exempt =
            escalation::may_do_everything(context) || escalation::is_exempt(context, "escalate", GROUP, resource, name);
        if exempt {
            return Ok(());
        }
        escalation::check(context, &rules_of(object))?;
        let gathers = |object: &Value| {
            let selectors = object.at(&["aggregationRule", "clusterRoleSelectors"]);
            selectors.and_then(Value::as_list).is_some_and(|list| !list.is_empty())
        };
        if gathers(object) || old.is_some_and(gathers) {
            // An aggregated role can select any role, and its owner can keep others from changing it back.
            let held = context.access.authorizer.role_rules(context.user, context.namespace);
            if !escalation::covers(&held.rules, &escalation::full_authority()) {
                let why = "must have cluster-admin privileges to use the aggregationRule";
                return Err(Rejection::forbidden(why));
            }
        }
        Ok(())
    }
}

impl<'v> Rules<'v> for Role {
    type Rule = RoleRule;

    /// upstream: pkg/apis/rbac/validation#ValidateClusterRole
    fn rule(&self, rule: RoleRule, part: &Part<'v, '_>, check: &mut Check<'_>) {
        let errors = &mut check.errors;
        match rule {
            RoleRule::Resources => self.validate_rule(part, errors),
            RoleRule::Selectors => {
                for selector in part.child("clusterRoleSelectors").items() {
                    validate_label_selector(&selector, errors);
                    if LabelSelector::read(&selector).is_none() {
                        errors.push(selector.invalid_as(Value::Null, "invalid label selector."));
                    }
                }
            }
        }
    }
}

impl Role {
    /// Validates a rule, except for its verbs.
    ///
    /// upstream: pkg/apis/rbac/validation#ValidatePolicyRule
    fn validate_rule(&self, rule: &Field<'_, '_>, errors: &mut Errors) {
        let urls = rule.child("nonResourceURLs");
        let (groups, resources) = (rule.child("apiGroups"), rule.child("resources"));
        if !urls.is_empty() {
            if self.scope == Scope::Namespaced {
                errors.push(urls.invalid("namespaced rules cannot apply to non-resource URLs"));
            }
            if !groups.is_empty() || !resources.is_empty() || !rule.child("resourceNames").is_empty() {
                errors.push(urls.invalid("rules cannot apply to both regular resources and non-resource URLs"));
            }
            return;
        }
        if groups.is_empty() {
            errors.push(groups.required("resource rules must supply at least one api group"));
        }
        if resources.is_empty() {
            errors.push(resources.required("resource rules must supply at least one resource"));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::harness::Harness;

    fn role(rule: &str) -> String {
        format!("{{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {{name: r}}, rules: [{rule}]}}")
    }

    #[test]
    fn a_rule_says_what_may_be_done_with_what() {
        let harness = Harness::new();
        assert!(
            harness
                .errors(&role("{verbs: [get], apiGroups: ['']  , resources: [pods]}"))
                .is_empty()
        );
        assert_eq!(
            harness.errors(&role("{resources: [pods]}")),
            [
                "rules[0].verbs: Required value: verbs must contain at least one value",
                "rules[0].apiGroups: Required value: resource rules must supply at least one api group",
            ]
        );
        assert_eq!(
            harness.errors(&role("{verbs: [get], nonResourceURLs: [/x]}")),
            [r#"rules[0].nonResourceURLs: Invalid value: ["/x"]: namespaced rules cannot apply to non-resource URLs"#]
        );
    }
}
