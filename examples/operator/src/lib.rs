#![forbid(unsafe_code)]
//! An operator for websites: for each [`Website`] it maintains a ConfigMap with the page and a Deployment that serves it.
//!
//! It shows the habits of a good operator:
//! - It applies its own CRD at the start, and its objects with Server-Side Apply. So it changes only fields that it sets, and
//!   does nothing if nothing has changed.
//! - A Website owns its objects, so the garbage collector deletes them. A reconciliation is due when one of them changes.
//! - It reports in the status, with the generation that it has seen.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use futures_util::StreamExt as _;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, Patch, PatchParams};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::wait::{await_condition, conditions};
use kube::runtime::watcher;
use kube::{Client, CustomResource, CustomResourceExt as _, Resource as _, ResourceExt as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// Field manager of the operator.
pub const MANAGER: &str = "website-operator";

/// Time to wait before a failed reconciliation is repeated.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// A website with one page.
#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, PartialEq, JsonSchema)]
#[kube(
    group = "example.com",
    version = "v1",
    kind = "Website",
    namespaced,
    status = "WebsiteStatus",
    printcolumn = r#"{"name": "Ready", "type": "integer", "jsonPath": ".status.readyReplicas"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct WebsiteSpec {
    /// Text of the page.
    #[schemars(length(max = 10_000))]
    pub page: String,
    /// Number of servers.
    #[serde(default = "one")]
    #[schemars(range(min = 0, max = 10))]
    pub replicas: i32,
}

/// Observed state of a website.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebsiteStatus {
    /// Generation of the Website that this status describes.
    pub observed_generation: Option<i64>,
    /// Number of servers that are ready.
    #[serde(default)]
    pub ready_replicas: i32,
}

fn one() -> i32 {
    1
}

/// Applies the CRD, and waits until the server serves it.
///
/// # Errors
/// If the server rejects the CRD, or the connection fails.
pub async fn install(client: &Client) -> Result<()> {
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    let crd = Website::crd();
    let name = crd.name_any();
    crds.patch(&name, &PatchParams::apply(MANAGER).force(), &Patch::Apply(&crd))
        .await?;
    await_condition(crds, &name, conditions::is_crd_established()).await?;
    Ok(())
}

/// Runs the operator until it is dropped.
pub async fn run(client: Client) {
    let websites: Api<Website> = Api::all(client.clone());
    let all = watcher::Config::default;
    let retry = |_: Arc<Website>, _: &kube::Error, _: Arc<Client>| Action::requeue(RETRY_DELAY);
    Controller::new(websites, all())
        .owns(Api::<ConfigMap>::all(client.clone()), all())
        .owns(Api::<Deployment>::all(client.clone()), all())
        .run(reconcile, retry, Arc::new(client))
        .for_each(|_| std::future::ready(()))
        .await;
}

/// Applies the objects of a Website, and reports its status.
async fn reconcile(website: Arc<Website>, client: Arc<Client>) -> Result<Action, kube::Error> {
    let name = website.name_any();
    let namespace = website.namespace().unwrap_or_default();
    let client = client.as_ref().clone();
    // Conflicts must not stop a controller: it owns these fields.
    let parameters = PatchParams::apply(MANAGER).force();
    let metadata = json!({"name": name, "ownerReferences": [website.controller_owner_ref(&())]});
    let labels = json!({"website": name});

    let config_maps: Api<ConfigMap> = Api::namespaced(client.clone(), &namespace);
    let page = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata,
        "data": {"index.html": website.spec.page},
    });
    config_maps.patch(&name, &parameters, &Patch::Apply(page)).await?;

    let deployments: Api<Deployment> = Api::namespaced(client.clone(), &namespace);
    let deployment = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata,
        "spec": {
            "replicas": website.spec.replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "containers": [{
                        "name": "server",
                        "image": "registry.example.com/static-server:1",
                        "volumeMounts": [{"name": "page", "mountPath": "/srv", "readOnly": true}],
                    }],
                    "volumes": [{"name": "page", "configMap": {"name": name}}],
                },
            },
        },
    });
    let stored = deployments.patch(&name, &parameters, &Patch::Apply(deployment)).await?;

    let websites: Api<Website> = Api::namespaced(client, &namespace);
    let status = json!({
        "apiVersion": Website::api_version(&()),
        "kind": Website::kind(&()),
        "status": WebsiteStatus {
            observed_generation: website.metadata.generation,
            ready_replicas: stored.status.and_then(|status| status.ready_replicas).unwrap_or_default(),
        },
    });
    websites.patch_status(&name, &parameters, &Patch::Apply(status)).await?;
    Ok(Action::await_change())
}
