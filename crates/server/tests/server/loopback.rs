//! Tests of the loopback client.

use std::sync::Arc;

use crate::support::{CONFIG_MAPS, Server, config_map};
use holdfast_server::http::negotiation::PatchType;
use holdfast_server::operations::loopback::{Client, path_of};
use holdfast_value::{Value, json};

fn client(server: &Server) -> Client {
    Client::new(Arc::clone(&server.service), "test-controller")
}

fn parsed(text: &str) -> Value {
    json::parse(text.as_bytes(), &holdfast_value::Limits::REQUEST).unwrap()
}

#[tokio::test]
async fn writes_go_the_way_of_all_requests() {
    let server = Server::start().await;
    let client = client(&server);
    let path = format!("{CONFIG_MAPS}/a");
    let made = client
        .create(CONFIG_MAPS, &parsed(&config_map("a", "1")))
        .await
        .unwrap();
    assert_eq!(
        made.at(&["metadata", "managedFields"]).unwrap().as_list().unwrap()[0].str_at(&["manager"]),
        Some("kube-controller-manager")
    );
    let label = parsed(r#"{"metadata":{"labels":{"a":"b"}}}"#);
    client.patch(&path, PatchType::Merge, &label).await.unwrap();
    let outdated = client.update(&path, &made).await.unwrap_err();
    assert!(outdated.is_conflict(), "{outdated}");
    let config_maps = client.resource("", "configmaps").unwrap();
    assert_eq!(path_of(&config_maps, "default", "a").unwrap(), path);
    let object = client.get(&config_maps, "default", "a").unwrap();
    assert_eq!((object.name(), object.namespace(&config_maps)), ("a", "default"));
    client.delete(&path, &Value::empty_map()).await.unwrap();
    let gone = client.delete(&path, &Value::empty_map()).await.unwrap_err();
    assert!(gone.is_not_found());
    assert_eq!(gone.message, "configmaps \"a\" not found");
}

#[tokio::test]
async fn watch_of_everything_shows_each_change_with_old_object() {
    let server = Server::start().await;
    let client = client(&server);
    server.post(CONFIG_MAPS, &config_map("early", "1")).await;
    let config_maps = client.resource("", "configmaps").unwrap();
    let (objects, mut changes) = client.watch_everything().unwrap();
    assert!(objects.iter().any(|object| object.name() == "early"));
    server.post(CONFIG_MAPS, &config_map("late", "1")).await;
    server
        .put(&format!("{CONFIG_MAPS}/late"), &config_map("late", "2"))
        .await;
    server.delete(&format!("{CONFIG_MAPS}/late")).await;

    let made = changes.next().await.unwrap();
    assert!(made.previous().is_none() && !made.is_removal());
    assert!(made.current().is_of(&config_maps));
    let changed = changes.next().await.unwrap();
    assert_eq!(changed.previous().unwrap().tree(), made.current().tree());
    let removed = changes.next().await.unwrap();
    assert!(removed.is_removal());
    assert_eq!(client.resource_of(&removed.current()).unwrap().plural, "configmaps");
    assert!(changes.try_next().unwrap().is_none());
}
