//! Tests of the operator against a server in the same process: no binary, no port, no files.

use std::time::Duration;

use anyhow::{Context as _, Result};
use example_operator::{MANAGER, Website, install, run};
use holdfast::Server;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::runtime::wait::{await_condition, conditions};
use kube::{Client, ResourceExt as _};
use serde_json::json;
use tokio::task::JoinHandle;

/// Time limit of everything that the operator does.
const WAIT_TIMEOUT: Duration = Duration::from_secs(30);

struct Environment {
    server: Server,
    client: Client,
    operator: JoinHandle<()>,
}

impl Environment {
    async fn start() -> Result<Self> {
        let server = Server::builder().in_memory().start().await?;
        let client = Client::new(server.connection(), "default");
        install(&client).await?;
        let operator = tokio::spawn(run(client.clone()));
        Ok(Self {
            server,
            client,
            operator,
        })
    }

    async fn end(self) -> Result<()> {
        self.operator.abort();
        Ok(self.server.shutdown().await?)
    }

    fn websites(&self) -> Api<Website> {
        Api::default_namespaced(self.client.clone())
    }

    fn deployments(&self) -> Api<Deployment> {
        Api::default_namespaced(self.client.clone())
    }

    fn config_maps(&self) -> Api<ConfigMap> {
        Api::default_namespaced(self.client.clone())
    }

    /// Creates a Website, and waits until its status describes it.
    async fn create(&self, page: &str) -> Result<Website> {
        let website: Website = serde_json::from_value(json!({
            "apiVersion": "example.com/v1",
            "kind": "Website",
            "metadata": {"name": "shop"},
            "spec": {"page": page, "replicas": 2},
        }))?;
        self.websites().create(&PostParams::default(), &website).await?;
        self.settled().await
    }

    async fn settled(&self) -> Result<Website> {
        let is_observed = |website: Option<&Website>| {
            website.is_some_and(|website| {
                let observed = website.status.as_ref().and_then(|status| status.observed_generation);
                observed == website.metadata.generation
            })
        };
        let waiting = await_condition(self.websites(), "shop", is_observed);
        tokio::time::timeout(WAIT_TIMEOUT, waiting)
            .await??
            .context("the website is gone")
    }
}

#[tokio::test]
async fn website_gets_a_page_and_a_deployment() -> Result<()> {
    let environment = Environment::start().await?;
    environment.create("Hello").await?;
    let page = environment.config_maps().get("shop").await?;
    assert_eq!(page.data.context("data")?["index.html"], "Hello");
    let deployment = environment.deployments().get("shop").await?;
    assert_eq!(deployment.spec.as_ref().and_then(|spec| spec.replicas), Some(2));
    let managers = deployment
        .managed_fields()
        .iter()
        .filter_map(|entry| entry.manager.as_deref());
    assert_eq!(managers.collect::<Vec<_>>(), [MANAGER]);
    environment.end().await
}

#[tokio::test]
async fn changed_deployment_is_reconciled() -> Result<()> {
    let environment = Environment::start().await?;
    environment.create("Hello").await?;
    let deployments = environment.deployments();
    let patch = Patch::Merge(json!({"spec": {"replicas": 7}}));
    deployments.patch("shop", &PatchParams::default(), &patch).await?;
    let is_restored = |object: Option<&Deployment>| object.and_then(|object| object.spec.as_ref()?.replicas) == Some(2);
    tokio::time::timeout(WAIT_TIMEOUT, await_condition(deployments, "shop", is_restored)).await??;
    environment.end().await
}

#[tokio::test]
async fn deleted_website_is_deleted_with_its_objects() -> Result<()> {
    let environment = Environment::start().await?;
    environment.create("Hello").await?;
    let uid = environment.deployments().get("shop").await?.uid().context("uid")?;
    environment.websites().delete("shop", &DeleteParams::default()).await?;
    let is_gone = await_condition(environment.deployments(), "shop", conditions::is_deleted(&uid));
    tokio::time::timeout(WAIT_TIMEOUT, is_gone).await??;
    environment.end().await
}

#[tokio::test]
async fn website_with_too_many_replicas_is_rejected() -> Result<()> {
    let environment = Environment::start().await?;
    environment.create("Hello").await?;
    let patch = Patch::Merge(json!({"spec": {"replicas": 11}}));
    let rejected = environment
        .websites()
        .patch("shop", &PatchParams::default(), &patch)
        .await;
    let error = rejected.err().context("the patch succeeded")?;
    assert!(error.to_string().contains("spec.replicas"), "{error}");
    environment.end().await
}
