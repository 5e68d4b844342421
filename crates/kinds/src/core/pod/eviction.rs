//! Evictions: deletions that respect disruption budgets
//! (<https://kubernetes.io/docs/concepts/scheduling-eviction/api-eviction/>).

use std::ops::ControlFlow;

use holdfast_resource::table::condition;
use holdfast_resource::{ActionStep, Rejection, SubresourceAction, WriteContext};
use holdfast_schema::metadata::labels::LabelSelector;
use holdfast_schema::{Field, FieldError, FieldPath, GroupKind, GroupResource};
use holdfast_value::{SmolStr, Value};

use super::super::of_core;
use crate::time::time_text;

/// Action that deletes a Pod if its budget allows it.
pub(crate) struct Eviction;

const BUDGETS: GroupResource = GroupResource {
    group: SmolStr::new_static("policy"),
    resource: SmolStr::new_static("poddisruptionbudgets"),
};
/// Resource that errors about budgets name.
const BUDGET: GroupResource = GroupResource {
    group: SmolStr::new_static("policy"),
    resource: SmolStr::new_static("poddisruptionbudget"),
};
/// Maximum number of evictions that the disruption controller has not observed yet.
const DISRUPTED: usize = 2000;
const RETRY_SECONDS: u32 = 10;
/// Condition of a budget that states if it allows disruptions.
const DISRUPTION_ALLOWED: &str = "DisruptionAllowed";

impl SubresourceAction for Eviction {
    /// upstream: pkg/registry/core/pod/storage#EvictionREST.Create
    fn check(&self, context: &WriteContext<'_>, request: &Value) -> Result<(), Rejection> {
        let name = request.str_at(&["metadata", "name"]).unwrap_or_default();
        if context.name != name {
            return Err(Rejection::BadRequest(
                "name in URL does not match name in Eviction object".to_owned(),
            ));
        }
        options(context, request).map(drop)
    }

    fn plan(&self, context: &WriteContext<'_>, request: &Value) -> Result<Vec<ActionStep>, Rejection> {
        let name = request.str_at(&["metadata", "name"]).unwrap_or_default();
        let options = options(context, request)?;
        check_options(&options, name)?;
        let Some(pod) = context.lookup.get(&of_core("pods"), context.namespace, name) else {
            return Err(Rejection::NotFound {
                resource: of_core("pods"),
                name: name.to_owned(),
            });
        };
        if let Some(fixed) = ignores_budgets(&pod) {
            return Ok(mark_and_delete(context, pod, options, fixed, None));
        }
        let mut steps = Vec::new();
        let (mut fixed, mut conflict) = (false, None);
        if let Some(budget) = budget_of(context, &pod)? {
            if is_spared(&pod, &budget) {
                (fixed, conflict) = (true, Some(still_processed(&budget)));
            } else {
                let disrupted = disrupt(context, name, budget)?;
                if !is_dry(&options) {
                    steps.push(ActionStep::Status {
                        resource: BUDGETS,
                        object: disrupted,
                    });
                }
            }
        }
        steps.extend(mark_and_delete(context, pod, options, fixed, conflict));
        Ok(steps)
    }

    fn other_versions(&self) -> &'static [&'static str] {
        &["policy/v1beta1"]
    }
}

/// Returns the delete options. A dry run may be requested there or in the query.
fn options(context: &WriteContext<'_>, request: &Value) -> Result<Value, Rejection> {
    let sent = request.get("deleteOptions").filter(|options| !options.is_null());
    let mut options = sent.cloned().unwrap_or_else(Value::empty_map);
    let dry = options.at(&["dryRun"]).and_then(Value::as_list);
    let listed: Vec<&str> = dry
        .into_iter()
        .flat_map(|list| list.iter())
        .filter_map(Value::as_str)
        .collect();
    if context.dry_run && !listed.is_empty() && listed != ["All"] {
        return Err(Rejection::Failed(format!(
            "Non-matching dry-run options in request and content: [All] and [{}]",
            listed.join(" ")
        )));
    }
    if context.dry_run && listed.is_empty() {
        options.set_at(&["dryRun"], vec!["All".into()].into());
    }
    Ok(options)
}

/// Rejects the option for deleting unreadable objects.
///
/// upstream: pkg/registry/core/pod/storage#EvictionREST.Create
fn check_options(options: &Value, name: &str) -> Result<(), Rejection> {
    const UNSAFE: &str = "ignoreStoreReadErrorWithClusterBreakingPotential";
    if options.get(UNSAFE).and_then(Value::as_bool) != Some(true) {
        return Ok(());
    }
    let field = FieldPath::new("deleteOptions").child(UNSAFE);
    let why = "can not be set for pod eviction, try after removing the option";
    Err(Rejection::InvalidAs {
        kind: GroupKind {
            group: SmolStr::new_static("policy"),
            kind: SmolStr::new_static("Eviction"),
        },
        name: name.to_owned(),
        errors: vec![FieldError::invalid(&field, true, why)],
    })
}

fn is_dry(options: &Value) -> bool {
    options
        .at(&["dryRun"])
        .and_then(Value::as_list)
        .is_some_and(|list| !list.is_empty())
}

/// Returns `Some` if a Pod is deleted regardless of budgets, because nothing is lost; true if it must still be
/// unchanged.
fn ignores_budgets(pod: &Value) -> Option<bool> {
    let ended = pod.at(&["metadata", "deletionTimestamp"]).is_some();
    match pod.str_at(&["status", "phase"]) {
        Some("Succeeded" | "Failed") => Some(false),
        Some("Pending") => Some(!ended),
        _ if ended => Some(false),
        _ => None,
    }
}

/// Sets the reason of the disruption in the status of a Pod, and deletes the Pod.
///
/// upstream: pkg/registry/core/pod/storage#addConditionAndDeletePod
fn mark_and_delete(
    context: &WriteContext<'_>,
    pod: Value,
    options: Value,
    fixed: bool,
    conflict: Option<Rejection>,
) -> Vec<ActionStep> {
    let as_required = ["uid", "resourceVersion"].into_iter().all(|field| {
        let required = options
            .str_at(&["preconditions", field])
            .filter(|required| !required.is_empty());
        required.is_none_or(|required| pod.str_at(&["metadata", field]) == Some(required))
    });
    let marks = as_required && !is_dry(&options);
    let delete = delete(context, &pod, options, fixed, conflict);
    if !marks {
        return vec![delete];
    }
    let mut marked = pod;
    let mut condition = Value::empty_map();
    for (field, text) in [
        ("message", "Eviction API: evicting"),
        ("reason", "EvictionByEvictionAPI"),
        ("status", "True"),
        ("type", "DisruptionTarget"),
    ] {
        condition.set_at(&[field], text.into());
    }
    super::binding::set_condition(context, &mut marked, condition);
    let mark = ActionStep::Replace {
        resource: of_core("pods"),
        object: marked,
    };
    vec![mark, delete]
}

fn delete(
    context: &WriteContext<'_>,
    pod: &Value,
    mut options: Value,
    fixed: bool,
    conflict: Option<Rejection>,
) -> ActionStep {
    let version = ["preconditions", "resourceVersion"];
    let own = options.at(&version).is_some_and(|version| !version.is_null());
    let present = pod.str_at(&["metadata", "resourceVersion"]).unwrap_or_default();
    if fixed && !own {
        options.set_at(&version, present.into());
    }
    ActionStep::Delete {
        resource: of_core("pods"),
        namespace: context.namespace.to_owned(),
        name: context.name.to_owned(),
        options,
        conflict: conflict.filter(|_| !own),
    }
}

/// Returns the budget that selects a Pod, if there is one.
///
/// upstream: pkg/registry/core/pod/storage#EvictionREST.Create
fn budget_of(context: &WriteContext<'_>, pod: &Value) -> Result<Option<Value>, Rejection> {
    let mut found: Vec<Value> = Vec::new();
    let root = Field::root(pod);
    let metadata = root.child("metadata");
    let labels = metadata.child("labels");
    context.lookup.list(&BUDGETS, context.namespace, &mut |budget| {
        let root = Field::root(budget);
        let spec = root.child("spec");
        let selects = LabelSelector::read(&spec.child("selector"))
            .is_some_and(|selector| !selector.is_everything() && selector.matches(&labels));
        if selects {
            found.push(budget.clone());
        }
        ControlFlow::Continue(())
    });
    if found.len() > 1 {
        return Err(Rejection::Failed(
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
                .to_owned(),
        ));
    }
    Ok(found.pop())
}

/// Returns true if a Pod that is not ready may be evicted because enough Pods are healthy, or because the budget's
/// policy allows it.
fn is_spared(pod: &Value, budget: &Value) -> bool {
    let conditions = pod.at(&["status", "conditions"]).and_then(Value::as_list);
    let ready = conditions
        .into_iter()
        .flat_map(|list| list.iter())
        .any(|condition| condition.str_at(&["type"]) == Some("Ready") && condition.str_at(&["status"]) == Some("True"));
    if ready {
        return false;
    }
    let always = budget.str_at(&["spec", "unhealthyPodEvictionPolicy"]) == Some("AlwaysAllow");
    let (healthy, desired) = (count(budget, "currentHealthy"), count(budget, "desiredHealthy"));
    always || desired > 0 && healthy >= desired
}

fn count(budget: &Value, field: &str) -> i64 {
    budget
        .at(&["status", field])
        .and_then(Value::as_i64)
        .unwrap_or_default()
}

fn name_of(budget: &Value) -> &str {
    budget.str_at(&["metadata", "name"]).unwrap_or_default()
}

/// Returns the budget with one allowed disruption less.
///
/// upstream: pkg/registry/core/pod/storage#EvictionREST.checkAndDecrement
fn disrupt(context: &WriteContext<'_>, pod: &str, mut budget: Value) -> Result<Value, Rejection> {
    let generation = budget
        .at(&["metadata", "generation"])
        .and_then(Value::as_i64)
        .unwrap_or_default();
    if count(&budget, "observedGeneration") < generation {
        return Err(still_processed(&budget));
    }
    let forbidden = |why: &str| Rejection::ForbiddenOn {
        resource: BUDGET,
        name: name_of(&budget).to_owned(),
        message: why.to_owned(),
    };
    let allowed = count(&budget, "disruptionsAllowed");
    if allowed < 0 {
        return Err(forbidden("pdb disruptions allowed is negative"));
    }
    let disrupted = budget.at(&["status", "disruptedPods"]).and_then(Value::as_map);
    if disrupted.is_some_and(|pods| pods.len() > DISRUPTED) {
        return Err(forbidden(
            "DisruptedPods map too big - too many evictions not confirmed by PDB controller",
        ));
    }
    if allowed == 0 {
        return Err(too_many(0, none_allowed(&budget)));
    }
    budget.set_at(&["status", "disruptionsAllowed"], Value::Int(allowed - 1));
    if allowed == 1 {
        set_no_more_allowed(context, &mut budget);
    }
    budget.set_at(&["status", "disruptedPods", pod], time_text(context.now()));
    Ok(budget)
}

/// Returns the reason why a budget allows no disruption. If its last sync failed, its numbers mean nothing.
///
/// upstream: pkg/registry/core/pod/storage#EvictionREST.checkAndDecrement
fn none_allowed(budget: &Value) -> String {
    let name = name_of(budget);
    let (desired, healthy) = (count(budget, "desiredHealthy"), count(budget, "currentHealthy"));
    let condition = condition(budget, DISRUPTION_ALLOWED).filter(|found| found.str_at(&["status"]) == Some("False"));
    let text = |field: &str| {
        condition
            .and_then(|condition| condition.str_at(&[field]))
            .unwrap_or_default()
    };
    let (reason, message) = (text("reason"), text("message"));
    let not_allowed = format!("The disruption budget {name} does not allow evicting pods currently");
    if !message.is_empty() && reason == "SyncFailed" {
        format!("{not_allowed} because it failed sync: {message}")
    } else if healthy <= desired {
        format!("The disruption budget {name} needs {desired} healthy pods and has {healthy} currently")
    } else if !message.is_empty() {
        format!("{not_allowed} ({reason}): {message}")
    } else {
        not_allowed
    }
}

/// Sets the condition that no more disruptions are allowed.
#[expect(clippy::indexing_slicing, reason = "the index was found in this very list")]
fn set_no_more_allowed(context: &WriteContext<'_>, budget: &mut Value) {
    let list = budget.at(&["status", "conditions"]).and_then(Value::as_list);
    let mut conditions: Vec<Value> = list.into_iter().flat_map(|list| list.iter()).cloned().collect();
    let before = conditions
        .iter()
        .position(|condition| condition.str_at(&["type"]) == Some(DISRUPTION_ALLOWED));
    let since = before
        .map(|at| &conditions[at])
        .filter(|condition| condition.str_at(&["status"]) == Some("False"))
        .and_then(|condition| condition.get("lastTransitionTime").cloned());
    let mut condition = Value::empty_map();
    condition.set_at(
        &["lastTransitionTime"],
        since.unwrap_or_else(|| time_text(context.now())),
    );
    condition.set_at(&["message"], "".into());
    condition.set_at(&["observedGeneration"], Value::Int(count(budget, "observedGeneration")));
    condition.set_at(&["reason"], "InsufficientPods".into());
    condition.set_at(&["status"], "False".into());
    condition.set_at(&["type"], DISRUPTION_ALLOWED.into());
    match before {
        Some(at) => conditions[at] = condition,
        None => conditions.push(condition),
    }
    budget.set_at(&["status", "conditions"], conditions.into());
}

/// upstream: pkg/registry/core/pod/storage#createTooManyRequestsError
fn still_processed(budget: &Value) -> Rejection {
    too_many(
        RETRY_SECONDS,
        format!(
            "The disruption budget {} is still being processed by the server.",
            name_of(budget)
        ),
    )
}

fn too_many(retry_after_seconds: u32, cause: String) -> Rejection {
    Rejection::TooManyRequests {
        message: "Cannot evict pod as it would violate the pod's disruption budget.".to_owned(),
        retry_after_seconds,
        causes: vec![("DisruptionBudget".to_owned(), cause)],
    }
}

#[cfg(test)]
mod tests {
    use holdfast_resource::ActionStep;

    use crate::harness::{Harness, at};

    fn pod(phase: &str, ready: bool) -> String {
        format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: a, namespace: default, resourceVersion: '7', labels: {{app: x}}}}, \
             spec: {{containers: [{{name: c, image: i}}]}}, status: {{phase: {phase}, conditions: [{{type: Ready, status: \
             '{}'}}]}}}}",
            if ready { "True" } else { "False" }
        )
    }

    fn budget(name: &str, allowed: i64) -> String {
        format!(
            "{{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {{name: {name}, namespace: default, generation: \
             1}}, spec: {{selector: {{matchLabels: {{app: x}}}}}}, status: {{observedGeneration: 1, disruptionsAllowed: \
             {allowed}, currentHealthy: 1, desiredHealthy: 1, expectedPods: 1}}}}"
        )
    }

    const EVICTION: &str = "{apiVersion: policy/v1, kind: Eviction, metadata: {name: a}}";

    fn evict(harness: Harness, eviction: &str) -> Result<Vec<ActionStep>, String> {
        harness.plan("pods", "eviction", "a", eviction)
    }

    #[test]
    fn a_budget_gives_a_disruption_before_the_pod_goes() {
        let harness = Harness::new().with(&pod("Running", true)).with(&budget("p", 1));
        let steps = evict(harness, EVICTION).unwrap();
        let [
            ActionStep::Status { object, .. },
            ActionStep::Replace { object: marked, .. },
            ActionStep::Delete { name, .. },
        ] = steps.as_slice()
        else {
            panic!("{steps:?}");
        };
        assert_eq!(
            (at(object, "status.disruptionsAllowed").as_str(), name.as_str()),
            ("0", "a")
        );
        assert_ne!(at(object, "status.disruptedPods.a"), "nothing");
        assert_eq!(at(marked, "status.conditions.1.type"), r#""DisruptionTarget""#);
        assert_eq!(at(object, "status.conditions.0.reason"), r#""InsufficientPods""#);
    }

    #[test]
    fn a_dry_run_takes_nothing_of_the_budget() {
        let harness = Harness::new().with(&pod("Running", true)).with(&budget("p", 1));
        let dry = "{apiVersion: policy/v1, kind: Eviction, metadata: {name: a}, deleteOptions: {dryRun: [All]}}";
        assert!(matches!(
            evict(harness, dry).unwrap().as_slice(),
            [ActionStep::Delete { .. }]
        ));
    }

    #[test]
    fn the_option_for_objects_that_cannot_be_read_is_refused() {
        let harness = Harness::new().with(&pod("Running", true));
        let option = "{ignoreStoreReadErrorWithClusterBreakingPotential: true}";
        let eviction =
            format!("{{apiVersion: policy/v1, kind: Eviction, metadata: {{name: a}}, deleteOptions: {option}}}");
        let refused = evict(harness, &eviction).unwrap_err();
        assert!(
            refused.contains("can not be set for pod eviction, try after removing the option"),
            "{refused}"
        );
    }

    #[test]
    fn a_spent_budget_refuses_and_says_why() {
        let harness = Harness::new().with(&pod("Running", true)).with(&budget("p", 0));
        let refused = evict(harness, EVICTION).unwrap_err();
        assert!(
            refused.contains("The disruption budget p needs 1 healthy pods and has 1 currently"),
            "{refused}"
        );
        let two = Harness::new()
            .with(&pod("Running", true))
            .with(&budget("p", 1))
            .with(&budget("q", 1));
        assert!(
            evict(two, EVICTION)
                .unwrap_err()
                .contains("more than one PodDisruptionBudget")
        );
    }

    #[test]
    fn a_budget_says_why_it_allows_no_disruption() {
        let budget = |status: &str| {
            format!(
                "{{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {{name: p, generation: 1}}, spec: {{selector: \
                 {{matchLabels: {{app: x}}}}}}, status: {{observedGeneration: 1, disruptionsAllowed: 0, {status}}}}}"
            )
        };
        let condition = |reason: &str| {
            format!("conditions: [{{type: DisruptionAllowed, status: 'False', reason: {reason}, message: why}}]")
        };
        let more = "currentHealthy: 2, desiredHealthy: 1";
        for (status, expected) in [
            (more.to_owned(), "budget p does not allow evicting pods currently\""),
            (
                format!("{more}, {}", condition("Other")),
                "budget p does not allow evicting pods currently (Other): why",
            ),
            (
                format!("currentHealthy: 1, desiredHealthy: 1, {}", condition("SyncFailed")),
                "budget p does not allow evicting pods currently because it failed sync: why",
            ),
            (
                format!("currentHealthy: 1, desiredHealthy: 1, {}", condition("Other")),
                "budget p needs 1 healthy pods and has 1 currently",
            ),
        ] {
            let harness = Harness::new().with(&pod("Running", true)).with(&budget(&status));
            let refused = evict(harness, EVICTION).unwrap_err();
            assert!(refused.contains(expected), "{refused}");
        }
    }

    #[test]
    fn a_pod_that_is_not_the_required_one_is_not_marked() {
        let harness = Harness::new().with(&pod("Succeeded", false));
        let other =
            "{apiVersion: policy/v1, kind: Eviction, metadata: {name: a}, deleteOptions: {preconditions: {uid: x}}}";
        let steps = evict(harness, other).unwrap();
        assert!(matches!(steps.as_slice(), [ActionStep::Delete { .. }]), "{steps:?}");
    }

    #[test]
    fn inactive_pod_is_evicted_at_once_if_unchanged() {
        for (phase, ready, version) in [
            ("Succeeded", false, "nothing"),
            ("Pending", false, r#""7""#),
            ("Running", false, r#""7""#),
        ] {
            let harness = Harness::new().with(&pod(phase, ready)).with(&budget("p", 0));
            let steps = evict(harness, EVICTION).unwrap();
            let [ActionStep::Replace { .. }, ActionStep::Delete { options, .. }] = steps.as_slice() else {
                panic!("{phase}: {steps:?}");
            };
            assert_eq!(at(options, "preconditions.resourceVersion"), version, "{phase}");
        }
    }
}
