//! Default objects of each namespace: the service account `default`, and the certificate authorities by which pods
//! verify the server.

use std::sync::Arc;

use holdfast_resource::Resource;
use holdfast_schema::metadata::new_object;
use holdfast_server::operations::loopback::{Change, Changes, Client, Lost, Object, Objects, RequestError, path_of};
use holdfast_value::{SmolStr, Value};

use crate::queue::Queue;
use crate::reconcile::{self, Reconcile, Work};

/// An object that each namespace has by default.
#[derive(Clone)]
pub(crate) struct NamespacedDefault {
    /// Plural name of the core resource.
    plural: &'static str,
    name: &'static str,
    /// Object to create if it is missing.
    object: Value,
    /// Field that is reset after a change.
    kept: Option<&'static str>,
    /// Name of the queue in metrics.
    queue: &'static str,
}

/// Returns the account of pods that name none: <https://kubernetes.io/docs/concepts/security/service-accounts/>.
pub(crate) fn service_account() -> NamespacedDefault {
    NamespacedDefault {
        plural: "serviceaccounts",
        name: "default",
        object: new_object("v1", "ServiceAccount", "", "default"),
        kept: None,
        queue: "serviceaccount",
    }
}

/// Returns the ConfigMap with the authorities of the server's certificate, which token volumes provide to pods.
pub(crate) fn root_ca(authorities: &str) -> NamespacedDefault {
    const NAME: &str = "kube-root-ca.crt";
    let mut object = new_object("v1", "ConfigMap", "", NAME);
    object.set_at(
        &["metadata", "annotations", "kubernetes.io/description"],
        "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the \
         internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes \
         clusters."
            .into(),
    );
    object.set_at(&["data", "ca.crt"], authorities.into());
    NamespacedDefault {
        plural: "configmaps",
        name: NAME,
        object,
        kept: Some("data"),
        queue: "root_ca_cert_publisher",
    }
}

/// Runs the controller until the server ends.
pub(crate) async fn run(client: Client, wanted: NamespacedDefault) {
    let (Some(namespaces), Some(resource)) = (client.resource("", "namespaces"), client.resource("", wanted.plural))
    else {
        return;
    };
    let controller = Provider {
        client: client.clone(),
        namespaces,
        resource,
        wanted,
    };
    reconcile::run(client, controller).await;
}

struct Provider {
    client: Client,
    namespaces: Arc<Resource>,
    resource: Arc<Resource>,
    wanted: NamespacedDefault,
}

impl Reconcile for Provider {
    /// Name of a namespace.
    type Item = SmolStr;
    type Outcome = ();

    const NAME: &'static str = "namespaced-default";
    const PARALLEL: usize = 10;

    fn queue(&self) -> &'static str {
        self.wanted.queue
    }

    fn watch(&mut self, client: &Client) -> Result<(Objects, Changes), Lost> {
        let (_, changes) = client.watch_everything()?;
        // Of the existing objects only the namespaces matter. They are read after the watch began, so that no change is
        // missed.
        Ok((client.list(&self.namespaces, ""), changes))
    }

    fn seen(&mut self, namespace: &Object, queue: &mut Queue<SmolStr>) {
        queue.push(namespace.name().into());
    }

    fn changed(&mut self, change: &Change, queue: &mut Queue<SmolStr>) {
        let object = change.current();
        if object.is_of(&self.namespaces) {
            if !change.is_removal() {
                queue.push(object.name().into());
            }
        } else if object.is_of(&self.resource) && object.name() == self.wanted.name {
            queue.push(object.namespace(&self.resource).into());
        }
    }

    fn work(&mut self, name: &SmolStr, _queue: &mut Queue<SmolStr>) -> Option<Work<()>> {
        let namespace = self.client.get(&self.namespaces, "", name)?.tree();
        if namespace.at(&["metadata", "deletionTimestamp"]).is_some() {
            return None;
        }
        let Some(there) = self.client.get(&self.resource, name, self.wanted.name) else {
            let (client, object) = (self.client.clone(), self.wanted.object.clone());
            let path = path_of(&self.resource, name, "")?;
            return Some(Box::pin(
                async move { ignore_moot(client.create(&path, &object).await) },
            ));
        };
        let (mut there, kept) = (there.tree(), self.wanted.kept?);
        let right = self.wanted.object.at(&[kept])?;
        if there.at(&[kept]) == Some(right) {
            return None;
        }
        there.set_at(&[kept], right.clone());
        let (client, path) = (self.client.clone(), path_of(&self.resource, name, self.wanted.name)?);
        Some(Box::pin(async move { ignore_moot(client.update(&path, &there).await) }))
    }
}

/// Ignores two errors that are not failures: another client created the object, or the namespace is terminating. Later
/// changes arrive by the watch.
fn ignore_moot(outcome: Result<Value, RequestError>) -> Result<(), RequestError> {
    match outcome {
        Err(error) if !error.is_not_found() && error.reason != "AlreadyExists" && error.code != 403 => Err(error),
        _ => Ok(()),
    }
}
