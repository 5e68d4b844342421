//! Condition `NonStructuralSchema` of CRDs whose schemas were stored before schemas had to be structural.

use std::collections::HashMap;
use std::sync::Arc;

use holdfast_resource::{Resource, SchemaViolation};
use holdfast_server::operations::loopback::{Change, Changes, Client, Lost, Object, Objects, RequestError, path_of};
use holdfast_value::{SmolStr, Value};
use tokio::task::spawn_blocking;

use super::crds;
use crate::apiserver::MANAGER;
use crate::conditions::{self, Cause, Status};
use crate::queue::Queue;
use crate::reconcile::{self, Reconcile, Work};
use crate::rejection::unless_overtaken;

const CONDITION: &str = "NonStructuralSchema";

/// Runs the controller until the server ends.
pub(crate) async fn run(client: Client) {
    let Some(crds) = crds(&client) else {
        return;
    };
    let controller = Structure {
        client: client.clone(),
        crds,
        generations: HashMap::new(),
    };
    reconcile::run(client, controller).await;
}

struct Structure {
    client: Client,
    crds: Arc<Resource>,
    /// Generation of each CRD whose condition is up to date. Servers of different versions on one etcd could otherwise
    /// replace each other's messages for ever.
    generations: HashMap<SmolStr, i64>,
}

impl Reconcile for Structure {
    type Item = SmolStr;
    /// Generation of the CRD if its condition is up to date.
    type Outcome = Option<i64>;

    const NAME: &'static str = "non-structural-schema-condition-controller";
    const QUEUE: &'static str = "non_structural_schema_condition_controller";
    const PARALLEL: usize = 1;

    fn watch(&mut self, client: &Client) -> Result<(Objects, Changes), Lost> {
        client.watch(&self.crds)
    }

    fn seen(&mut self, object: &Object, queue: &mut Queue<SmolStr>) {
        queue.push(object.name().into());
    }

    fn changed(&mut self, change: &Change, queue: &mut Queue<SmolStr>) {
        let object = change.current();
        match change.is_removal() {
            true => drop(self.generations.remove(object.name())),
            false => queue.push(object.name().into()),
        }
    }

    fn work(&mut self, name: &SmolStr, _queue: &mut Queue<SmolStr>) -> Option<Work<Option<i64>>> {
        let object = self.client.get(&self.crds, "", name)?;
        let path = path_of(&self.crds, "", name)?;
        let (crds, client) = (Arc::clone(&self.crds), self.client.clone());
        let done = self.generations.get(name).copied();
        Some(Box::pin(async move {
            // A schema may have a megabyte.
            let now = client.now();
            let judge = move || judge(object.tree(), &crds, done, &now);
            let (crd, generation) = match spawn_blocking(judge).await {
                Ok(Some(judged)) => judged,
                _ => return Ok(done),
            };
            let Some(crd) = crd else {
                return Ok(Some(generation));
            };
            let path = format!("{path}/status?fieldManager={MANAGER}");
            match client.update(&path, &crd).await {
                Ok(_) => Ok(Some(generation)),
                // Its next state arrives by the watch.
                Err(error) => unless_overtaken(Err::<Value, RequestError>(error)).map(|()| done),
            }
        }))
    }

    fn finished(&mut self, name: &SmolStr, generation: Option<i64>, _queue: &mut Queue<SmolStr>) {
        if let Some(generation) = generation {
            self.generations.insert(name.clone(), generation);
        }
    }
}

/// Returns the generation of the CRD, with the CRD itself if its condition changes; `None` if the condition of this
/// generation is `done`.
fn judge(mut crd: Value, crds: &Resource, done: Option<i64>, now: &str) -> Option<(Option<Value>, i64)> {
    let generation = crd
        .at(&["metadata", "generation"])
        .and_then(Value::as_i64)
        .unwrap_or_default();
    if done.is_some_and(|done| generation <= done) {
        return None;
    }
    let kind = crds.capabilities.defines.as_ref()?;
    let violation = kind.schema_violation(&crd);
    let changed = reconcile_condition(&mut crd, violation.as_ref(), now);
    Some((changed.then_some(crd), generation))
}

/// Sets or removes the condition. Returns true if that changed the CRD.
fn reconcile_condition(crd: &mut Value, violation: Option<&SchemaViolation>, now: &str) -> bool {
    let (status, reason, message) = match violation {
        None => return conditions::remove(crd, CONDITION),
        Some(SchemaViolation::Violated(message)) => (Status::True, "Violations", message),
        Some(SchemaViolation::Unreadable(message)) => (Status::Unknown, "StructuralError", message),
    };
    conditions::set_status(crd, CONDITION, status, Cause { reason, message }, now)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "what fails here is the test")]
mod tests {
    use super::*;

    #[test]
    fn condition_follows_violation() {
        let mut crd = Value::empty_map();
        let text = |crd: &Value| {
            let condition = conditions::find(crd, CONDITION)?;
            let part = |name: &str| condition.str_at(&[name]).unwrap_or_default().to_owned();
            Some(
                [
                    part("status"),
                    part("reason"),
                    part("message"),
                    part("lastTransitionTime"),
                ]
                .join(" "),
            )
        };
        assert!(!reconcile_condition(&mut crd, None, "1"));
        let violated = SchemaViolation::Violated("a".to_owned());
        assert!(reconcile_condition(&mut crd, Some(&violated), "2"));
        assert_eq!(text(&crd).as_deref(), Some("True Violations a 2"));
        assert!(!reconcile_condition(&mut crd, Some(&violated), "3"));
        let other = SchemaViolation::Violated("b".to_owned());
        assert!(reconcile_condition(&mut crd, Some(&other), "4"));
        assert_eq!(text(&crd).as_deref(), Some("True Violations b 2"));
        let unreadable = SchemaViolation::Unreadable("c".to_owned());
        assert!(reconcile_condition(&mut crd, Some(&unreadable), "5"));
        assert_eq!(text(&crd).as_deref(), Some("Unknown StructuralError c 5"));
        assert!(reconcile_condition(&mut crd, None, "6"));
        assert_eq!(text(&crd), None);
    }
}
