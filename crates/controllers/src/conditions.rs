//! Conditions in the status of an object.

use holdfast_value::Value;

/// A condition without its transition time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Condition<'a> {
    pub(crate) of: &'static str,
    pub(crate) holds: bool,
    pub(crate) reason: &'a str,
    pub(crate) message: &'a str,
}

/// Returns the condition of type `of`.
pub(crate) fn find<'v>(object: &'v Value, of: &str) -> Option<&'v Value> {
    let conditions = object.at(&["status", "conditions"])?.as_list()?;
    conditions
        .iter()
        .find(|condition| condition.str_at(&["type"]) == Some(of))
}

/// Returns true if the object has a condition of type `of` that is true.
pub(crate) fn holds(object: &Value, of: &str) -> bool {
    find(object, of).and_then(|condition| condition.str_at(&["status"])) == Some("True")
}

/// Status of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    True,
    False,
    Unknown,
}

impl Status {
    fn name(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

/// Removes the condition of type `of`. Returns true if the object had it.
pub(crate) fn remove(object: &mut Value, of: &str) -> bool {
    let mut conditions: Vec<Value> = object
        .at(&["status", "conditions"])
        .and_then(Value::as_list)
        .map(|list| list.to_vec())
        .unwrap_or_default();
    let count = conditions.len();
    conditions.retain(|condition| condition.str_at(&["type"]) != Some(of));
    let is_changed = conditions.len() < count;
    if is_changed {
        object.set_at(&["status", "conditions"], conditions.into());
    }
    is_changed
}

/// Sets a condition in the status. Returns true if that changed it. The transition time is updated only if the
/// condition changes between true and false.
pub(crate) fn set(object: &mut Value, condition: Condition<'_>, now: &str) -> bool {
    let status = if condition.holds { Status::True } else { Status::False };
    set_status(
        object,
        condition.of,
        status,
        Cause {
            reason: condition.reason,
            message: condition.message,
        },
        now,
    )
}

/// Reason and message of a condition.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cause<'a> {
    pub(crate) reason: &'a str,
    pub(crate) message: &'a str,
}

/// Sets the condition of type `of`. Returns true if that changed it. The transition time is updated only if the status
/// changes.
#[expect(clippy::indexing_slicing, reason = "the index was found in this very list")]
pub(crate) fn set_status(object: &mut Value, of: &str, status: Status, cause: Cause<'_>, now: &str) -> bool {
    let status = status.name();
    let mut made = Value::empty_map();
    made.set_at(&["type"], of.into());
    made.set_at(&["status"], status.into());
    made.set_at(&["reason"], cause.reason.into());
    made.set_at(&["message"], cause.message.into());
    let before = find(object, of);
    let since = before
        .filter(|before| before.str_at(&["status"]) == Some(status))
        .and_then(|before| before.str_at(&["lastTransitionTime"]))
        .unwrap_or(now);
    made.set_at(&["lastTransitionTime"], since.into());
    if before == Some(&made) {
        return false;
    }
    let mut conditions: Vec<Value> = object
        .at(&["status", "conditions"])
        .and_then(Value::as_list)
        .map(|list| list.to_vec())
        .unwrap_or_default();
    let place = conditions.iter().position(|other| other.str_at(&["type"]) == Some(of));
    match place {
        Some(at) => conditions[at] = made,
        None => conditions.push(made),
    }
    object.set_at(&["status", "conditions"], conditions.into());
    true
}

/// Sets the observed generation of a condition.
pub(crate) fn observe(object: &mut Value, of: &str, generation: Value) {
    let conditions = object.at_mut(&["status", "conditions"]).and_then(Value::as_list_mut);
    let Some(conditions) = conditions else { return };
    let mut conditions = conditions.make_mut().iter_mut();
    if let Some(condition) = conditions.find(|condition| condition.str_at(&["type"]) == Some(of)) {
        condition.set_at(&["observedGeneration"], generation);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_condition_is_that_of_its_last_transition() {
        let mut object = Value::empty_map();
        let condition = |holds, reason| Condition {
            of: "Ready",
            holds,
            reason,
            message: "",
        };
        let time = |object: &Value| {
            find(object, "Ready")?
                .str_at(&["lastTransitionTime"])
                .map(str::to_owned)
        };
        assert!(set(&mut object, condition(true, "A"), "1"));
        assert!(!set(&mut object, condition(true, "A"), "2"));
        assert!(set(&mut object, condition(true, "B"), "3"));
        assert_eq!(time(&object).as_deref(), Some("1"));
        assert!(set(&mut object, condition(false, "B"), "4"));
        assert_eq!(time(&object).as_deref(), Some("4"));
        assert!(!holds(&object, "Ready"));
    }

    #[test]
    fn a_condition_names_a_generation() {
        let mut object = Value::empty_map();
        let condition = Condition {
            of: "Ready",
            holds: true,
            reason: "A",
            message: "",
        };
        set(&mut object, condition, "1");
        observe(&mut object, "Other", Value::Int(1));
        assert_eq!(
            find(&object, "Ready").and_then(|ready| ready.get("observedGeneration")),
            None
        );
        observe(&mut object, "Ready", Value::Int(2));
        let observed = find(&object, "Ready").and_then(|ready| ready.get("observedGeneration"));
        assert_eq!(observed, Some(&Value::Int(2)));
    }
}
