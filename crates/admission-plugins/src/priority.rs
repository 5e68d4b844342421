use std::ops::ControlFlow;

use holdfast_admission::{AdmissionPlugin, Calls, Interest};
use holdfast_resource::{Operation, Rejection, WriteContext};
use holdfast_schema::Field;
use holdfast_value::Value;

use crate::common::group_resource;
use holdfast_kinds::SYSTEM_CLASSES;
use holdfast_kinds::defaults::{is_zero, set_missing_at};

/// Plugin that sets the priority of Pods from their class:
/// <https://kubernetes.io/docs/concepts/scheduling-eviction/pod-priority-preemption/>.
pub(super) struct Priority {
    /// True if PodGroups have a priority as well.
    pub(super) of_groups: bool,
}

const PODS: &str = "pods";
const CLASSES: &str = "priorityclasses";
const POD_GROUPS: &str = "podgroups";
const GROUP: &str = "scheduling.k8s.io";
const PREEMPT: &str = "PreemptLowerPriority";

/// Values that a class sets on Pods.
struct Class {
    name: String,
    value: i64,
    preemption: String,
}

impl AdmissionPlugin for Priority {
    fn name(&self) -> &'static str {
        "Priority"
    }

    fn calls(&self) -> Calls {
        Calls::both(&[Operation::Create, Operation::Update, Operation::Delete])
    }

    fn interests(&self) -> &[Interest] {
        const {
            &[
                Interest::in_written("", PODS),
                Interest::in_new(GROUP, POD_GROUPS),
                Interest::in_objects(GROUP, CLASSES, Interest::EVERYTHING.operations),
            ]
        }
    }

    /// upstream: plugin/pkg/admission/priority#Plugin.Admit
    fn mutate(
        &self,
        context: &WriteContext<'_>,
        object: Option<&mut Value>,
        old: Option<&Value>,
    ) -> Result<(), Rejection> {
        // The reference rejects this before all other checks of the object, including preconditions.
        let of_system = || SYSTEM_CLASSES.iter().any(|(name, ..)| *name == context.name);
        if context.operation == Operation::Delete && context.resource.plural == CLASSES && of_system() {
            let why = "this is a system priority class and cannot be deleted";
            return Err(Rejection::forbidden(why));
        }
        let pod = match (object, context.resource.plural.as_str()) {
            (Some(pod), PODS) => pod,
            (Some(group), POD_GROUPS) if self.of_groups => return admit_group(context, group),
            _ => return Ok(()),
        };
        match (context.operation, old) {
            (Operation::Create, _) => admit_new(context, pod),
            (Operation::Update, Some(old)) => {
                for part in ["priority", "preemptionPolicy"] {
                    if let Some(before) = old.at(&["spec", part]) {
                        set_missing_at(pod, &["spec"], part, || before.clone());
                    }
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// upstream: plugin/pkg/admission/priority#Plugin.Validate
    fn validate(
        &self,
        context: &WriteContext<'_>,
        object: Option<&Value>,
        _old: Option<&Value>,
    ) -> Result<(), Rejection> {
        if [PODS, POD_GROUPS].contains(&context.resource.plural.as_str()) {
            return Ok(());
        }
        let marked = |class: &Value| Field::root(class).child("globalDefault").is_true();
        let Some(class) = object.filter(|class| marked(class)) else {
            return Ok(());
        };
        match default_class(context) {
            Some(other) if Some(other.name.as_str()) != class.str_at(&["metadata", "name"]) => {
                Err(Rejection::forbidden(format!(
                    "PriorityClass {} is already marked as default. Only one default can exist",
                    other.name
                )))
            }
            _ => Ok(()),
        }
    }
}

/// Returns the class that an object names, or else the default class.
///
/// upstream: plugin/pkg/admission/priority#Plugin.resolvePriorityClass
fn class_of(context: &WriteContext<'_>, object: &Value) -> Result<Class, Rejection> {
    let requested = object.str_at(&["spec", "priorityClassName"]).unwrap_or_default();
    let class = if requested.is_empty() {
        default_class(context)
    } else {
        let found = class_of_name(context, requested);
        Some(found.ok_or_else(|| Rejection::forbidden(format!("no PriorityClass with name {requested} was found")))?)
    };
    Ok(class.unwrap_or(Class {
        name: String::new(),
        value: 0,
        preemption: PREEMPT.to_owned(),
    }))
}

/// Sets the priority of a PodGroup from its class.
///
/// upstream: plugin/pkg/admission/priority#Plugin.admitPodGroup
fn admit_group(context: &WriteContext<'_>, group: &mut Value) -> Result<(), Rejection> {
    let class = class_of(context, group)?;
    let stated = group.at(&["spec", "priority"]).and_then(Value::as_i64);
    if let Some(priority) = stated.filter(|priority| *priority != class.value) {
        return Err(Rejection::forbidden(format!(
            "priority set in the pod group ({priority}) must match the priority computed ({}) based on the priority class set in \
             the spec",
            class.value
        )));
    }
    group.set_at(&["spec", "priority"], class.value.into());
    if !class.name.is_empty() {
        group.set_at(&["spec", "priorityClassName"], class.name.into());
    }
    Ok(())
}

/// upstream: plugin/pkg/admission/priority#Plugin.admitPod
fn admit_new(context: &WriteContext<'_>, pod: &mut Value) -> Result<(), Rejection> {
    let class = class_of(context, pod)?;
    let stated = pod.at(&["spec", "priority"]).and_then(Value::as_i64);
    if let Some(priority) = stated.filter(|priority| *priority != class.value) {
        return Err(Rejection::forbidden(format!(
            "the integer value of priority ({priority}) must not be provided in pod spec; priority admission controller \
             computed {} from the given PriorityClass name",
            class.value
        )));
    }
    let preemption = pod.str_at(&["spec", "preemptionPolicy"]);
    if let Some(policy) = preemption.filter(|policy| *policy != class.preemption) {
        return Err(Rejection::forbidden(format!(
            "the string value of PreemptionPolicy ({policy}) must not be provided in pod spec; priority admission controller \
             computed {} from the given PriorityClass name",
            class.preemption
        )));
    }
    if !class.name.is_empty() {
        pod.set_at(&["spec", "priorityClassName"], class.name.into());
    }
    pod.set_at(&["spec", "priority"], class.value.into());
    pod.set_at(&["spec", "preemptionPolicy"], class.preemption.into());
    Ok(())
}

fn class_of_name(context: &WriteContext<'_>, name: &str) -> Option<Class> {
    if let Some(class) = context.lookup.get(&group_resource(GROUP, "priorityclasses"), "", name) {
        return Some(read_class(&class));
    }
    let (_, value, _) = SYSTEM_CLASSES.iter().find(|(known, ..)| *known == name)?;
    Some(Class {
        name: name.to_owned(),
        value: *value,
        preemption: PREEMPT.to_owned(),
    })
}

/// Returns the default class; among several the one with the lowest value.
///
/// upstream: plugin/pkg/admission/priority#Plugin.getDefaultPriorityClass
fn default_class(context: &WriteContext<'_>) -> Option<Class> {
    let mut found: Option<Class> = None;
    context
        .lookup
        .list(&group_resource(GROUP, "priorityclasses"), "", &mut |class| {
            if Field::root(class).child("globalDefault").is_true() {
                let class = read_class(class);
                if found.as_ref().is_none_or(|before| class.value < before.value) {
                    found = Some(class);
                }
            }
            ControlFlow::Continue(())
        });
    found
}

fn read_class(class: &Value) -> Class {
    let preemption = class.get("preemptionPolicy").filter(|policy| !is_zero(Some(policy)));
    Class {
        name: class.str_at(&["metadata", "name"]).unwrap_or_default().to_owned(),
        value: class.get("value").and_then(Value::as_i64).unwrap_or_default(),
        preemption: preemption.and_then(Value::as_str).unwrap_or(PREEMPT).to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use crate::harness::Harness;

    #[test]
    fn classes_of_the_system_stay() {
        let deletion = |name: &str| {
            let class = format!(
                "{{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {{name: {name}}}, value: 1}}"
            );
            Harness::new().admit_deletion("Priority", &class)
        };
        let why = "this is a system priority class and cannot be deleted".to_owned();
        assert_eq!(deletion("system-node-critical"), Err(why));
        assert_eq!(deletion("other"), Ok(()));
    }
}
