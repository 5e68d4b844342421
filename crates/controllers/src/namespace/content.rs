//! Deletes the content of a namespace, and counts the remaining objects.

use holdfast_resource::{Resource, Verb};
use holdfast_server::operations::loopback::{Client, RequestError, path_of};
use holdfast_value::{Value, json};
use memchr::memmem;

use super::conditions::Findings;

/// Deletes all objects in `namespace` that can be deleted, and reports the remaining ones. Pods are deleted first,
/// because they may need the other objects until they have ended
/// (<https://kubernetes.io/docs/concepts/overview/working-with-objects/namespaces/>, KEP-5080).
pub(super) async fn delete(client: &Client, namespace: &str) -> Findings {
    let mut findings = Findings::default();
    let registry = client.registry();
    let (pods, others): (Vec<_>, Vec<_>) = registry
        .resources()
        .filter(|resource| is_content(resource))
        .partition(|resource| resource.group.is_empty() && resource.plural == "pods");
    for resources in [pods, others] {
        for resource in resources {
            if let Err(failure) = delete_all(client, resource, namespace).await {
                findings.failures.push(failure);
            }
            count(client, resource, namespace, &mut findings);
        }
        if findings.left() > 0 {
            break;
        }
    }
    findings
}

/// Returns true if objects of the resource are namespaced and can be deleted.
fn is_content(resource: &Resource) -> bool {
    let deletable = |verb| {
        resource
            .versions
            .first()
            .is_some_and(|version| version.verbs.contains(&verb))
    };
    resource.namespaced() && resource.storage.is_some() && deletable(Verb::Delete)
}

async fn delete_all(client: &Client, resource: &Resource, namespace: &str) -> Result<(), RequestError> {
    let objects = client.list(resource, namespace);
    if objects.is_empty() {
        return Ok(());
    }
    let mut options = Value::empty_map();
    options.set_at(&["kind"], "DeleteOptions".into());
    options.set_at(&["apiVersion"], "v1".into());
    options.set_at(&["propagationPolicy"], "Background".into());
    let collective = |version: &holdfast_resource::ResourceVersion| version.verbs.contains(&Verb::DeleteCollection);
    if resource.versions.first().is_some_and(collective) {
        if let Some(path) = path_of(resource, namespace, "") {
            client.delete(&path, &options).await?;
        }
        return Ok(());
    }
    for object in objects.iter() {
        let Some(path) = path_of(resource, namespace, object.name()) else {
            continue;
        };
        match client.delete(&path, &options).await {
            Err(error) if !error.is_not_found() => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Adds the remaining objects of a resource and the finalizers that protect them.
fn count(client: &Client, resource: &Resource, namespace: &str, findings: &mut Findings) {
    let objects = client.list(resource, namespace);
    if objects.is_empty() {
        return;
    }
    let named = format!("{}.{}", resource.plural, resource.group);
    findings.remaining.insert(named, objects.len());
    for object in objects.iter() {
        // Most remaining objects have a grace period but no finalizers, and need not be parsed.
        if memmem::find(&object.bytes(), b"\"finalizers\":[").is_none() {
            continue;
        }
        let tree = object.tree();
        let finalizers = tree.at(&["metadata", "finalizers"]).and_then(Value::as_list);
        for finalizer in finalizers.into_iter().flat_map(|list| list.iter()) {
            let name = finalizer
                .as_str()
                .map_or_else(|| json::to_string(finalizer), str::to_owned);
            *findings.finalizers.entry(name).or_default() += 1;
        }
    }
}
