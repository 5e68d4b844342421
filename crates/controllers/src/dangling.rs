//! The condition `Dangling` of flow schemas: it shows whether the priority level that they reference exists
//! (<https://kubernetes.io/docs/concepts/cluster-administration/flow-control/>).
//!
//! In the reference this is a part of kube-apiserver, and the condition is applied under the field manager of this
//! name.

use std::sync::Arc;
use std::time::Duration;

use holdfast_resource::Resource;
use holdfast_server::http::negotiation::PatchType;
use holdfast_server::operations::loopback::{Change, Changes, Client, Lost, Object, Objects, path_of};
use holdfast_value::{SmolStr, Value};
use tokio::time::Instant;

use crate::queue::Queue;
use crate::reconcile::{self, Reconcile, Work};
use crate::rejection::unless_gone;

/// The name of this controller, and of its field manager.
pub(crate) const NAME: &str = "api-priority-and-fairness-config-consumer-v1";

const GROUP: &str = "flowcontrol.apiserver.k8s.io";
const DANGLING: &str = "Dangling";
/// Time for which changes are collected: if a client creates a level and its schemas together, each gets one condition,
/// not two.
const GATHERED: Duration = Duration::from_millis(100);
const LEVEL: [&str; 3] = ["spec", "priorityLevelConfiguration", "name"];

/// Runs the controller until the server ends.
pub(crate) async fn run(client: Client) {
    let (schemas, levels) = ("flowschemas", "prioritylevelconfigurations");
    let (Some(schemas), Some(levels)) = (client.resource(GROUP, schemas), client.resource(GROUP, levels)) else {
        return;
    };
    let controller = Dangling {
        client: client.clone(),
        schemas,
        levels,
    };
    reconcile::run(client, controller).await;
}

struct Dangling {
    client: Client,
    schemas: Arc<Resource>,
    levels: Arc<Resource>,
}

impl Reconcile for Dangling {
    type Item = SmolStr;
    type Outcome = ();

    const NAME: &'static str = NAME;
    const QUEUE: &'static str = "priority_and_fairness_config_queue";
    const PARALLEL: usize = 1;

    fn watch(&mut self, client: &Client) -> Result<(Objects, Changes), Lost> {
        // One history has the changes of both resources. A change before the list is processed twice, which is
        // harmless.
        let (_, changes) = client.watch_everything()?;
        Ok((client.list(&self.schemas, ""), changes))
    }

    fn seen(&mut self, schema: &Object, queue: &mut Queue<SmolStr>) {
        queue.push(schema.name().into());
    }

    fn changed(&mut self, change: &Change, queue: &mut Queue<SmolStr>) {
        let object = change.current();
        let at = Instant::now() + GATHERED;
        if object.is_of(&self.schemas) {
            queue.push_at(object.name().into(), at);
        } else if object.is_of(&self.levels) && (change.is_removal() || change.previous().is_none()) {
            for schema in self.client.list(&self.schemas, "").iter() {
                queue.push_at(schema.name().into(), at);
            }
        }
    }

    fn work(&mut self, name: &SmolStr, _queue: &mut Queue<SmolStr>) -> Option<Work<()>> {
        let schema = self.client.get(&self.schemas, "", name)?.tree();
        let level = schema.str_at(&LEVEL).unwrap_or_default();
        let found = self.client.get(&self.levels, "", level).is_some();
        let mut configuration = Value::empty_map();
        configuration.set_at(&["apiVersion"], schema.get("apiVersion")?.clone());
        configuration.set_at(&["kind"], schema.get("kind")?.clone());
        configuration.set_at(&["metadata", "name"], name.clone().into());
        let condition = condition(&schema, level, found, &self.client.now())?;
        configuration.set_at(&["status", "conditions"], vec![condition].into());
        let path = path_of(&self.schemas, "", name)?;
        let client = self.client.clone();
        Some(Box::pin(async move {
            let path = format!("{path}/status?fieldManager={NAME}&force=true");
            unless_gone(client.patch(&path, PatchType::Apply, &configuration).await)
        }))
    }
}

/// Returns the new condition of a schema that references `level`; `None` if it has that already.
fn condition(schema: &Value, level: &str, found: bool, now: &str) -> Option<Value> {
    let (status, reason, what) = if found {
        ("False", "Found", "and it exists")
    } else {
        ("True", "NotFound", "but there is no such object")
    };
    let message = format!("This FlowSchema references the PriorityLevelConfiguration object named {level:?} {what}");
    let wanted = [("status", status), ("reason", reason), ("message", message.as_str())];
    let conditions = schema.at(&["status", "conditions"]).and_then(Value::as_list);
    let mut existing = conditions.into_iter().flat_map(|list| list.iter());
    let present = existing.find(|condition| condition.str_at(&["type"]) == Some(DANGLING));
    if present.is_some_and(|present| {
        wanted
            .iter()
            .all(|(field, text)| present.str_at(&[field]) == Some(text))
    }) {
        return None;
    }
    let mut condition = Value::empty_map();
    condition.set_at(&["type"], DANGLING.into());
    condition.set_at(&["lastTransitionTime"], now.into());
    for (field, text) in wanted {
        condition.set_at(&[field], text.into());
    }
    Some(condition)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "what fails here is the test")]
mod tests {
    use super::*;

    #[test]
    fn a_missing_level_is_reported_once_and_its_return_once() {
        let mut schema = Value::empty_map();
        let missing = condition(&schema, "l", false, "2026-01-02T03:04:05Z").unwrap();
        assert_eq!(
            (missing.str_at(&["status"]), missing.str_at(&["reason"])),
            (Some("True"), Some("NotFound"))
        );
        schema.set_at(&["status", "conditions"], vec![missing].into());
        assert!(condition(&schema, "l", false, "2026-01-02T03:04:06Z").is_none());
        let found = condition(&schema, "l", true, "2026-01-02T03:04:06Z").unwrap();
        assert_eq!(
            (found.str_at(&["status"]), found.str_at(&["reason"])),
            (Some("False"), Some("Found"))
        );
        assert_eq!(found.str_at(&["lastTransitionTime"]), Some("2026-01-02T03:04:06Z"));
    }
}
