//! Protects claims and volumes while they are in use
//! (<https://kubernetes.io/docs/concepts/storage/persistent-volumes/#storage-object-in-use-protection>): a deleted
//! claim is removed when no Pod with a node uses it, a deleted volume when it is not bound. Admission adds the
//! finalizers that protect them (`StorageObjectInUseProtection`).

use std::sync::Arc;

use holdfast_resource::Resource;
use holdfast_server::operations::loopback::{Change, Changes, Client, Lost, Object, Objects, path_of};
use holdfast_value::{SmolStr, Value};

use crate::queue::Queue;
use crate::reconcile::{self, Reconcile, Work};
use crate::rejection::unless_gone;

/// The name of the controller of claims.
pub(crate) const CLAIMS: &str = "persistentvolumeclaim-protection-controller";
/// The name of the controller of volumes.
pub(crate) const VOLUMES: &str = "persistentvolume-protection-controller";

/// Protected resource of one of the two controllers.
struct Rule {
    plural: &'static str,
    finalizer: &'static str,
    /// Name of the queue in metrics.
    queue: &'static str,
    is_used: fn(&Value, &[Value]) -> bool,
}

const CLAIM: Rule = Rule {
    plural: "persistentvolumeclaims",
    finalizer: "kubernetes.io/pvc-protection",
    queue: "pvcprotection",
    is_used: |claim, pods| pods.iter().any(|pod| uses(pod, claim)),
};

const VOLUME: Rule = Rule {
    plural: "persistentvolumes",
    finalizer: "kubernetes.io/pv-protection",
    queue: "pvprotection",
    is_used: |volume, _| volume.str_at(&["status", "phase"]) == Some("Bound"),
};

/// Runs the controller of claims until the server ends.
pub(crate) async fn run_claims(client: Client) {
    let pods = client.resource("", "pods");
    run(client, CLAIM, pods).await;
}

/// Runs the controller of volumes until the server ends.
pub(crate) async fn run_volumes(client: Client) {
    run(client, VOLUME, None).await;
}

async fn run(client: Client, rule: Rule, pods: Option<Arc<Resource>>) {
    let Some(resource) = client.resource("", rule.plural) else {
        return;
    };
    let controller = Protection {
        client: client.clone(),
        rule,
        resource,
        pods,
    };
    reconcile::run(client, controller).await;
}

struct Protection {
    client: Client,
    rule: Rule,
    resource: Arc<Resource>,
    /// Pods that may use the protected objects.
    pods: Option<Arc<Resource>>,
}

impl Protection {
    fn push(&self, object: &Object, queue: &mut Queue<(SmolStr, SmolStr)>) {
        queue.push((object.namespace(&self.resource).into(), object.name().into()));
    }
}

impl Reconcile for Protection {
    /// Namespace and name.
    type Item = (SmolStr, SmolStr);
    type Outcome = ();

    const NAME: &'static str = "storage-protection";
    const PARALLEL: usize = 4;

    fn queue(&self) -> &'static str {
        self.rule.queue
    }

    fn watch(&mut self, client: &Client) -> Result<(Objects, Changes), Lost> {
        match &self.pods {
            Some(pods) => {
                let changes = client.watch_both(&self.resource, pods)?;
                // They are read after the watch began, so that no change is missed.
                Ok((client.list(&self.resource, ""), changes))
            }
            None => client.watch(&self.resource),
        }
    }

    fn seen(&mut self, object: &Object, queue: &mut Queue<Self::Item>) {
        self.push(object, queue);
    }

    fn changed(&mut self, change: &Change, queue: &mut Queue<Self::Item>) {
        let object = change.current();
        if object.is_of(&self.resource) {
            if !change.is_removal() {
                self.push(&object, queue);
            }
            return;
        }
        let Some(pods) = self.pods.as_ref().filter(|pods| object.is_of(pods)) else {
            return;
        };
        if !names_claims(&object.bytes()) {
            return;
        }
        let pod = object.tree();
        if change.is_removal() || is_shut_down(&pod) {
            let namespace = SmolStr::from(object.namespace(pods));
            for claim in claims(&pod) {
                queue.push((namespace.clone(), claim.name));
            }
        }
    }

    fn work(&mut self, item: &Self::Item, _queue: &mut Queue<Self::Item>) -> Option<Work<()>> {
        let (namespace, name) = item;
        let mut object = self.client.get(&self.resource, namespace, name)?.tree();
        let pods = || -> Vec<Value> {
            let listed = self.pods.as_ref().map(|pods| self.client.list(pods, namespace));
            let pods = listed.iter().flat_map(Objects::iter);
            let users = pods.filter(|pod| names_claims(&pod.bytes()));
            users.map(|pod| pod.tree()).collect()
        };
        let is_used = |object: &Value| (self.rule.is_used)(object, &pods());
        let finalizers = finalizers(&object, self.rule.finalizer, is_used)?;
        object.set_at(&["metadata", "finalizers"], finalizers.into());
        let (client, path) = (self.client.clone(), path_of(&self.resource, namespace, name)?);
        Some(Box::pin(
            async move { unless_gone(client.update(&path, &object).await) },
        ))
    }
}

/// Returns the new finalizers of an object: with the protection if it is not being deleted, without it if it is being
/// deleted and not in use. `None` if nothing changes.
fn finalizers(object: &Value, protection: &str, is_used: impl FnOnce(&Value) -> bool) -> Option<Vec<Value>> {
    let present = object.at(&["metadata", "finalizers"]).and_then(Value::as_list);
    let mut finalizers = present.map(|list| list.to_vec()).unwrap_or_default();
    let before = finalizers.len();
    let is_protection = |finalizer: &Value| finalizer.as_str() == Some(protection);
    if object.at(&["metadata", "deletionTimestamp"]).is_none() {
        if !finalizers.iter().any(is_protection) {
            finalizers.push(protection.into());
        }
    } else if finalizers.iter().any(is_protection) && !is_used(object) {
        finalizers.retain(|finalizer| !is_protection(finalizer));
    }
    (finalizers.len() != before).then_some(finalizers)
}

/// A claim that a Pod names.
struct Claim {
    name: SmolStr,
    /// True if the claim is created for a volume of the Pod; it then counts only if the Pod controls it.
    ephemeral: bool,
}

/// Returns true if a stored Pod may name claims, without parsing it.
fn names_claims(pod: &[u8]) -> bool {
    let has = |name: &[u8]| memchr::memmem::find(pod, name).is_some();
    has(b"\"persistentVolumeClaim\":") || has(b"\"ephemeral\":")
}

/// Returns the claims that the volumes of a Pod name.
fn claims(pod: &Value) -> Vec<Claim> {
    let list = pod.at(&["spec", "volumes"]).and_then(Value::as_list);
    let volumes = list.into_iter().flat_map(|list| list.iter());
    let of_pod = pod.str_at(&["metadata", "name"]).unwrap_or_default();
    let claim = |volume: &Value| {
        if let Some(name) = volume.str_at(&["persistentVolumeClaim", "claimName"]) {
            return Some(Claim {
                name: name.into(),
                ephemeral: false,
            });
        }
        volume.at(&["ephemeral"])?;
        Some(Claim {
            name: format!("{of_pod}-{}", volume.str_at(&["name"])?).into(),
            ephemeral: true,
        })
    };
    volumes.filter_map(claim).collect()
}

/// Returns true if a Pod with a node uses a claim: a Pod without a node does not start once the claim is being deleted.
fn uses(pod: &Value, claim: &Value) -> bool {
    let has_node = pod.str_at(&["spec", "nodeName"]).is_some_and(|node| !node.is_empty());
    let name = claim.str_at(&["metadata", "name"]);
    has_node
        && claims(pod)
            .iter()
            .filter(|named| Some(named.name.as_str()) == name)
            .any(|named| !named.ephemeral || !is_shut_down(pod) && controls(pod, claim))
}

/// Returns true if the kubelet has finished with a Pod, or the Pod was force-deleted.
fn is_shut_down(pod: &Value) -> bool {
    let grace = pod.at(&["metadata", "deletionGracePeriodSeconds"]);
    pod.at(&["metadata", "deletionTimestamp"]).is_some() && grace.and_then(Value::as_i64) == Some(0)
}

/// Returns true if a Pod is the controller of a claim.
fn controls(pod: &Value, claim: &Value) -> bool {
    let uid = pod.str_at(&["metadata", "uid"]);
    let owners = claim.at(&["metadata", "ownerReferences"]).and_then(Value::as_list);
    owners
        .into_iter()
        .flat_map(|owners| owners.iter())
        .any(|owner| owner.str_at(&["uid"]) == uid && owner.at(&["controller"]).and_then(Value::as_bool) == Some(true))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "what fails here is the test")]
mod tests {
    use holdfast_value::{Limits, json};

    use super::*;

    const PROTECTION: &str = "example.com/protection";

    fn object(text: &str) -> Value {
        json::parse(text.as_bytes(), &Limits::TRUSTED).unwrap()
    }

    fn finalizers_of(text: &str, used: bool) -> Option<String> {
        let finalizers = finalizers(&object(text), PROTECTION, |_| used)?;
        Some(json::to_string(&Value::from(finalizers)))
    }

    #[test]
    fn the_protection_is_there_until_what_is_deleted_is_not_used() {
        let both = r#"["other","example.com/protection"]"#;
        let alive = |finalizers: &str| format!(r#"{{"metadata":{{"finalizers":{finalizers}}}}}"#);
        let deleted =
            |finalizers: &str| format!(r#"{{"metadata":{{"deletionTimestamp":"t","finalizers":{finalizers}}}}}"#);
        assert_eq!(finalizers_of(&alive(r#"["other"]"#), false).as_deref(), Some(both));
        assert_eq!(finalizers_of(&alive(both), false), None);
        assert_eq!(finalizers_of(&deleted(both), true), None);
        assert_eq!(finalizers_of(&deleted(both), false).as_deref(), Some(r#"["other"]"#));
        assert_eq!(finalizers_of(&deleted(r#"["other"]"#), false), None);
    }

    #[test]
    fn pod_with_node_uses_named_and_ephemeral_claims() {
        let pod = |node: &str, more: &str| {
            object(&format!(
                r#"{{"metadata":{{"name":"p","uid":"u"{more}}},"spec":{{"nodeName":"{node}","volumes":[
                    {{"name":"a","persistentVolumeClaim":{{"claimName":"named"}}}},{{"name":"b","ephemeral":{{}}}},
                    {{"name":"c","emptyDir":{{}}}}]}}}}"#
            ))
        };
        let claim = |name: &str, owner: &str| {
            object(&format!(
                r#"{{"metadata":{{"name":"{name}","ownerReferences":[{{"uid":"{owner}","controller":true}}]}}}}"#
            ))
        };
        let ended = r#","deletionTimestamp":"t","deletionGracePeriodSeconds":0"#;
        assert!(uses(&pod("n", ""), &claim("named", "x")));
        assert!(uses(&pod("n", ended), &claim("named", "x")));
        assert!(!uses(&pod("", ""), &claim("named", "x")), "without a node");
        assert!(!uses(&pod("n", ""), &claim("other", "x")));
        assert!(uses(&pod("n", ""), &claim("p-b", "u")));
        assert!(!uses(&pod("n", ""), &claim("p-b", "x")), "another's");
        assert!(!uses(&pod("n", ended), &claim("p-b", "u")), "shut down");
    }

    #[test]
    fn a_volume_is_used_while_it_is_bound() {
        let phase = |phase: &str| object(&format!(r#"{{"status":{{"phase":"{phase}"}}}}"#));
        assert!((VOLUME.is_used)(&phase("Bound"), &[]));
        assert!(!(VOLUME.is_used)(&phase("Released"), &[]));
    }
}
