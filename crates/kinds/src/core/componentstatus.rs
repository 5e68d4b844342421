//! ComponentStatuses, deprecated since 1.19: the health of the cluster components that the server knows. Here that is
//! only the store, under the name that the reference gives its first etcd.

use holdfast_kind_tables::Kind;
use holdfast_resource::table::{NamedCell, items};
use holdfast_resource::{ComputedObjects, Rejection, SelectorWords, WriteContext};
use holdfast_schema::GroupResource;
use holdfast_schema::metadata::new_object;
use holdfast_value::{List, SmolStr, Value};

use crate::kind::generic;

/// Rules of ComponentStatuses only.
pub(crate) struct ComponentStatus;

const STORE: &str = "etcd-0";

/// Returns the kind with its capabilities.
pub(super) fn declare() -> Kind {
    generic()
        .computed(ComponentStatus)
        .cells(CELLS)
        .deprecated("v1 ComponentStatus is deprecated in v1.19+")
        .selector_words(SelectorWords::Plain)
        .done()
}

impl ComputedObjects for ComponentStatus {
    fn get(&self, context: &WriteContext<'_>, name: &str) -> Result<Value, Rejection> {
        if name == STORE {
            return Ok(store(context));
        }
        // The reference omits the plural here.
        Err(Rejection::NotFound {
            resource: GroupResource {
                group: SmolStr::default(),
                resource: SmolStr::new_static("componentstatus"),
            },
            name: name.to_owned(),
        })
    }

    fn list(&self, context: &WriteContext<'_>) -> Result<Vec<Value>, Rejection> {
        Ok(vec![store(context)])
    }
}

fn store(context: &WriteContext<'_>) -> Value {
    let mut condition = Value::empty_map();
    condition.set_at(&["type"], "Healthy".into());
    match context.lookup.storage_health() {
        Ok(()) => {
            condition.set_at(&["status"], "True".into());
            condition.set_at(&["message"], "ok".into());
        }
        Err(why) => {
            condition.set_at(&["status"], "False".into());
            condition.set_at(&["error"], why.into());
        }
    }
    let mut object = new_object("v1", "ComponentStatus", "", STORE);
    object.set_at(&["conditions"], Value::List(List::from_iter([condition])));
    object
}

/// Table cells that show more than the value at one path.
pub(super) const CELLS: &[NamedCell] = &[
    ("component-error", |object, _| component_condition(object, "error", "")),
    ("component-message", |object, _| {
        component_condition(object, "message", "")
    }),
    ("component-status", |object, _| {
        match component_condition(object, "status", "Unknown").as_str() {
            Some("True") => "Healthy".into(),
            Some("False") => "Unhealthy".into(),
            _ => "Unknown".into(),
        }
    }),
];

/// Returns a field of the condition that describes the health of a component.
fn component_condition(component: &Value, field: &str, missing: &str) -> Value {
    let mut conditions = items(component, &["conditions"]).iter();
    let healthy = conditions.find(|condition| condition.str_at(&["type"]) == Some("Healthy"));
    let text = healthy.and_then(|condition| condition.str_at(&[field]));
    text.unwrap_or(missing).into()
}

#[cfg(test)]
mod tests {
    use crate::harness::{Harness, at};

    #[test]
    fn the_store_is_the_one_component_that_is_known() {
        let read = |name| {
            let harness = Harness::new();
            harness.read_computed("v1", "ComponentStatus", |kind, context| kind.get(context, name))
        };
        assert_eq!(
            at(&read("etcd-0").unwrap(), "conditions.0"),
            r#"{"message":"ok","status":"True","type":"Healthy"}"#
        );
        assert!(format!("{:?}", read("scheduler").unwrap_err()).contains("NotFound"));
        let list = Harness::new().read_computed("v1", "ComponentStatus", |kind, context| kind.list(context));
        assert_eq!(list.unwrap().len(), 1);
    }
}
