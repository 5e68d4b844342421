//! Quotas through the whole server: usage is stored together with the object that consumes it.

use crate::support::{CONFIG_MAPS, MERGE, Server, config_map};
use futures_util::future::join_all;
use serde_json::json;

const QUOTAS: &str = "/api/v1/namespaces/default/resourcequotas";

/// Starts a server with an unused quota of `places` ConfigMaps.
async fn server_with_room(places: usize) -> Server {
    let server = Server::start().await;
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}});
    assert_eq!(server.post(QUOTAS, &quota.to_string()).await.code, 201);
    let status = json!({"status": {"hard": {"configmaps": places.to_string()}, "used": {"configmaps": "0"}}});
    let path = format!("{QUOTAS}/q/status");
    assert_eq!(server.patch(&path, MERGE, &status.to_string()).await.code, 200);
    server
}

async fn used(server: &Server) -> serde_json::Value {
    server
        .get(&format!("{QUOTAS}/q"))
        .await
        .at("/status/used/configmaps")
        .clone()
}

#[tokio::test]
async fn writes_that_run_for_the_last_places_never_share_one() {
    let server = server_with_room(5).await;
    let makes = (0..30).map(|at| {
        let (server, object) = (&server, config_map(&format!("m{at}"), "1"));
        async move { server.post(CONFIG_MAPS, &object).await.code }
    });
    let codes = join_all(makes).await;
    let count = |wanted| codes.iter().filter(|code| **code == wanted).count();
    assert_eq!((count(201), count(403)), (5, 25), "{codes:?}");
    assert_eq!(used(&server).await, "5");
    let refused = server.post(CONFIG_MAPS, &config_map("late", "1")).await;
    assert_eq!(
        refused.message(),
        "configmaps \"late\" is forbidden: exceeded quota: q, requested: configmaps=1, used: configmaps=5, limited: \
         configmaps=5"
    );
}

#[tokio::test]
async fn writes_that_create_no_object_use_no_quota() {
    let server = server_with_room(5).await;
    assert_eq!(server.post(CONFIG_MAPS, &config_map("a", "1")).await.code, 201);
    assert_eq!(server.post(CONFIG_MAPS, &config_map("a", "1")).await.code, 409);
    let dry = format!("{CONFIG_MAPS}?dryRun=All");
    assert_eq!(server.post(&dry, &config_map("b", "1")).await.code, 201);
    let change = format!("{CONFIG_MAPS}/a");
    assert_eq!(server.patch(&change, MERGE, r#"{"data": {"k": "w"}}"#).await.code, 200);
    assert_eq!(used(&server).await, "1");
}

#[tokio::test]
async fn a_rejection_comes_with_the_warnings_of_the_kind() {
    let server = Server::start().await;
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}});
    assert_eq!(server.post(QUOTAS, &quota.to_string()).await.code, 201);
    let status = json!({"status": {"hard": {"count/serviceaccounts": "0"}, "used": {"count/serviceaccounts": "0"}}});
    let path = format!("{QUOTAS}/q/status");
    assert_eq!(server.patch(&path, MERGE, &status.to_string()).await.code, 200);
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    let annotations = json!({"kubernetes.io/enforce-mountable-secrets": "true"});
    for (metadata, code) in [
        (json!({"name": "a", "annotations": annotations}), 403),
        (
            json!({"name": "a", "annotations": annotations, "resourceVersion": "5"}),
            403,
        ),
    ] {
        let refused = server.post(accounts, &json!({"metadata": metadata}).to_string()).await;
        assert_eq!(refused.code, code, "{}", refused.message());
        let warning = refused.headers["warning"].to_str().unwrap();
        assert!(warning.contains("deprecated in v1.32+"), "{warning}");
    }
    let none = json!({"status": {"hard": {"count/serviceaccounts": "5"}}});
    assert_eq!(server.patch(&path, MERGE, &none.to_string()).await.code, 200);
    let versioned = json!({"metadata": {"name": "a", "annotations": annotations, "resourceVersion": "5"}});
    let refused = server.post(accounts, &versioned.to_string()).await;
    assert_eq!(
        (refused.code, refused.headers.contains_key("warning")),
        (500, true),
        "{}",
        refused.message()
    );
}
