//! ComponentStatuses, which went out of use with 1.19: how the parts of a cluster are that the server knows of. Here that
//! is the store alone, by the name that the reference gives its first etcd.

use holdfast_resource::{ComputedObjects, GroupResource, Refusal, WriteContext};
use holdfast_value::{List, SmolStr, Value};

/// What only ComponentStatuses do.
pub(crate) struct ComponentStatus;

const STORE: &str = "etcd-0";

impl ComputedObjects for ComponentStatus {
    fn get(&self, context: &WriteContext<'_>, name: &str) -> Result<Value, Refusal> {
        if name == STORE {
            return Ok(store(context));
        }
        // The reference does not say the plural here.
        Err(Refusal::NotFound {
            resource: GroupResource {
                group: SmolStr::default(),
                resource: SmolStr::new_static("componentstatus"),
            },
            name: name.to_owned(),
        })
    }

    fn list(&self, context: &WriteContext<'_>) -> Result<Vec<Value>, Refusal> {
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
    let mut object = Value::empty_map();
    object.set_at(&["kind"], "ComponentStatus".into());
    object.set_at(&["apiVersion"], "v1".into());
    object.set_at(&["metadata", "name"], STORE.into());
    object.set_at(&["conditions"], Value::List(List::from_iter([condition])));
    object
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
