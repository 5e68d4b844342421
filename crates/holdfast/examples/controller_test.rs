//! A controller and its test, in one process with the API server.
//!
//! The controller keeps a `ConfigMap` named `greeting` in each namespace with the label `greet`. The test starts a server
//! in memory, runs the controller, creates a namespace, and waits for the result:
//!
//! ```console
//! cargo run --example controller_test
//! cargo test --example controller_test
//! ```

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use holdfast::Server;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::wait::await_condition;
use kube::runtime::watcher;
use kube::{Client, ResourceExt as _};
use serde_json::json;

/// Field manager of the controller.
const MANAGER: &str = "greeter";

/// Applies the greeting of a namespace.
async fn reconcile(namespace: Arc<Namespace>, client: Arc<Client>) -> Result<Action, kube::Error> {
    let name = namespace.name_any();
    let config_maps: Api<ConfigMap> = Api::namespaced(client.as_ref().clone(), &name);
    let greeting = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "greeting"},
        "data": {"text": format!("Hello, {name}!")},
    });
    let parameters = PatchParams::apply(MANAGER).force();
    config_maps
        .patch("greeting", &parameters, &Patch::Apply(greeting))
        .await?;
    Ok(Action::await_change())
}

/// Runs the controller until it is dropped.
async fn run_controller(client: Client) {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let retry = |_: Arc<Namespace>, _: &kube::Error, _: Arc<Client>| Action::requeue(Duration::from_millis(100));
    Controller::new(namespaces, watcher::Config::default().labels("greet"))
        .run(reconcile, retry, Arc::new(client))
        .for_each(|_| std::future::ready(()))
        .await;
}

/// Creates a namespace, and waits for its greeting, whose fields belong to the controller.
async fn check_greetings(client: Client) -> Result<String, Box<dyn Error>> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let team = serde_json::from_value(json!({"metadata": {"name": "team", "labels": {"greet": ""}}}))?;
    namespaces.create(&PostParams::default(), &team).await?;
    let config_maps: Api<ConfigMap> = Api::namespaced(client, "team");
    let greets = |object: Option<&ConfigMap>| text_of(object).is_some_and(|text| text == "Hello, team!");
    tokio::time::timeout(
        Duration::from_secs(10),
        await_condition(config_maps.clone(), "greeting", greets),
    )
    .await??;
    let greeting = config_maps.get("greeting").await?;
    let managers = greeting
        .managed_fields()
        .iter()
        .filter_map(|entry| entry.manager.as_deref());
    assert_eq!(managers.collect::<Vec<_>>(), [MANAGER]);
    Ok(text_of(Some(&greeting)).unwrap_or_default().to_owned())
}

fn text_of(object: Option<&ConfigMap>) -> Option<&str> {
    object?.data.as_ref()?.get("text").map(String::as_str)
}

async fn run() -> Result<String, Box<dyn Error>> {
    let server = Server::builder().in_memory().start().await?;
    let client = Client::new(server.connection(), "default");
    let controller = tokio::spawn(run_controller(client.clone()));
    let greeting = check_greetings(client).await;
    controller.abort();
    server.shutdown().await?;
    greeting
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    assert_eq!(run().await?, "Hello, team!");
    Ok(())
}

#[cfg(test)]
mod tests {
    #[tokio::test]
    async fn labelled_namespace_gets_a_greeting() -> Result<(), Box<dyn std::error::Error>> {
        assert_eq!(super::run().await?, "Hello, team!");
        Ok(())
    }
}
