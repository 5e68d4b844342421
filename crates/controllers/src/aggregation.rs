//! Aggregated cluster roles: their rules are those of the roles that they select by label
//! (<https://kubernetes.io/docs/reference/access-authn-authz/rbac/#aggregated-clusterroles>).
//!
//! The controller applies the rules, as the reference does, so that it is their only field manager.

use std::sync::Arc;

use holdfast_resource::Resource;
use holdfast_resource::selector::LabelSelector;
use holdfast_schema::metadata::new_object;
use holdfast_server::http::negotiation::PatchType;
use holdfast_server::operations::loopback::{Change, Changes, Client, Lost, Object, Objects, path_of};
use holdfast_value::{SmolStr, Value};

use crate::queue::Queue;
use crate::reconcile::{self, Reconcile, Work};
use crate::rejection::unless_gone;

/// The name of this controller, and of its field manager.
pub(crate) const NAME: &str = "clusterrole-aggregation-controller";

/// Runs the controller until the server ends.
pub(crate) async fn run(client: Client) {
    let Some(roles) = client.resource("rbac.authorization.k8s.io", "clusterroles") else {
        return;
    };
    let controller = Aggregation {
        client: client.clone(),
        roles,
    };
    reconcile::run(client, controller).await;
}

struct Aggregation {
    client: Client,
    roles: Arc<Resource>,
}

impl Aggregation {
    /// Queues all roles that select others; any change may concern any of them.
    fn push_aggregated(&self, queue: &mut Queue<SmolStr>) {
        for role in self.client.list(&self.roles, "").iter() {
            if is_aggregated(&role) {
                queue.push(role.name().into());
            }
        }
    }
}

fn is_aggregated(role: &Object) -> bool {
    memchr::memmem::find(&role.bytes(), b"\"aggregationRule\":{").is_some()
}

impl Reconcile for Aggregation {
    type Item = SmolStr;
    type Outcome = ();

    const NAME: &'static str = NAME;
    const QUEUE: &'static str = "ClusterRoleAggregator";
    const PARALLEL: usize = 1;

    fn watch(&mut self, client: &Client) -> Result<(Objects, Changes), Lost> {
        client.watch(&self.roles)
    }

    fn seen(&mut self, role: &Object, queue: &mut Queue<SmolStr>) {
        if is_aggregated(role) {
            queue.push(role.name().into());
        }
    }

    fn changed(&mut self, _change: &Change, queue: &mut Queue<SmolStr>) {
        self.push_aggregated(queue);
    }

    fn work(&mut self, name: &SmolStr, _queue: &mut Queue<SmolStr>) -> Option<Work<()>> {
        let role = self.client.get(&self.roles, "", name)?.tree();
        let rules = rules(&role, self.client.list(&self.roles, "").iter().map(|role| role.tree()))?;
        let mut configuration = new_object("rbac.authorization.k8s.io/v1", "ClusterRole", "", name);
        configuration.set_at(&["rules"], rules.into());
        let path = path_of(&self.roles, "", name)?;
        let client = self.client.clone();
        Some(Box::pin(async move {
            let path = format!("{path}?fieldManager={NAME}&force=true");
            unless_gone(client.patch(&path, PatchType::Apply, &configuration).await)
        }))
    }
}

/// Returns the rules of an aggregated role: those of `all` roles that it selects, without duplicates, in the order of
/// names. `None` if it has them already or selects none.
fn rules(role: &Value, all: impl Iterator<Item = Value>) -> Option<Vec<Value>> {
    let selectors: Vec<LabelSelector> = role
        .at(&["aggregationRule", "clusterRoleSelectors"])?
        .as_list()?
        .iter()
        .map(LabelSelector::from_object)
        .collect();
    let name = role.str_at(&["metadata", "name"]);
    let all: Vec<Value> = all
        .filter(|other| other.str_at(&["metadata", "name"]) != name)
        .collect();
    let mut rules: Vec<Value> = Vec::new();
    for selector in &selectors {
        for other in &all {
            let labels = other.at(&["metadata", "labels"]);
            let selected = selector.matches(|key| labels.and_then(|labels| labels.get(key)).and_then(Value::as_str));
            let own = other.at(&["rules"]).and_then(Value::as_list).filter(|_| selected);
            for rule in own.into_iter().flat_map(|list| list.iter()) {
                if !rules.contains(rule) {
                    rules.push(rule.clone());
                }
            }
        }
    }
    let present = role
        .at(&["rules"])
        .and_then(Value::as_list)
        .map(|list| list.to_vec())
        .unwrap_or_default();
    (present != rules).then_some(rules)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "what fails here is the test")]
mod tests {
    use holdfast_value::{Limits, json};

    use super::*;

    fn role(text: &str) -> Value {
        json::parse(text.as_bytes(), &Limits::TRUSTED).unwrap()
    }

    #[test]
    fn an_aggregated_role_has_each_rule_of_the_selected_roles_once() {
        let aggregated = r#"{"metadata":{"name":"all","labels":{"a":"1"}},
            "aggregationRule":{"clusterRoleSelectors":[{"matchLabels":{"a":"1"}},{"matchLabels":{"b":"1"}}]},
            "rules":[{"verbs":["old"]}]}"#;
        let others = [
            r#"{"metadata":{"name":"one","labels":{"a":"1","b":"1"}},"rules":[{"verbs":["get"]},{"verbs":["list"]}]}"#,
            r#"{"metadata":{"name":"two","labels":{"b":"1"}},"rules":[{"verbs":["get"]},{"verbs":["watch"]}]}"#,
            r#"{"metadata":{"name":"not"},"rules":[{"verbs":["delete"]}]}"#,
        ];
        let all = || [aggregated].into_iter().chain(others).map(role);
        let made = rules(&role(aggregated), all()).unwrap();
        let verbs: Vec<String> = made.iter().map(json::to_string).collect();
        assert_eq!(
            verbs,
            [
                r#"{"verbs":["get"]}"#,
                r#"{"verbs":["list"]}"#,
                r#"{"verbs":["watch"]}"#
            ]
        );
        let mut aggregated_role = role(aggregated);
        aggregated_role.set_at(&["rules"], made.into());
        assert!(rules(&aggregated_role, all()).is_none(), "nothing is written twice");
    }
}
