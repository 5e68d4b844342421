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

/// Sets a condition in the status. Returns true if that changed it. The transition time is updated only if the
/// condition changes between true and false.
#[expect(clippy::indexing_slicing, reason = "the index was found in this very list")]
pub(crate) fn set(object: &mut Value, condition: Condition<'_>, now: &str) -> bool {
    let status = if condition.holds { "True" } else { "False" };
    let mut made = Value::empty_map();
    made.set_at(&["type"], condition.of.into());
    made.set_at(&["status"], status.into());
    made.set_at(&["reason"], condition.reason.into());
    made.set_at(&["message"], condition.message.into());
    let before = find(object, condition.of);
    let since = before
        .filter(|before| before.str_at(&["status"]) == Some(status))
        .and_then(|before| before.str_at(&["lastTransitionTime"]))
        .unwrap_or(now);
    made.set_at(&["lastTransitionTime"], since.into());
    if before == Some(&made) {
        return false;
    }
    let conditions = object.at(&["status", "conditions"]).and_then(Value::as_list);
    let mut conditions: Vec<Value> = conditions.map(|list| list.to_vec()).unwrap_or_default();
    let place = conditions
        .iter()
        .position(|other| other.str_at(&["type"]) == Some(condition.of));
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
