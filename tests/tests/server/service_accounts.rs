//! Service accounts from end to end, with the admission plugin and the controllers that belong to it.

use conformance::{Binary, Client, MERGE, Server};
use http::{Method, StatusCode};
use serde_json::{Value, json};

const ALL: [&str; 2] = [
    "--enable-admission-plugins=ServiceAccount",
    "--controllers=*,serviceaccount-controller,root-ca-certificate-publisher-controller",
];

#[tokio::test]
async fn pods_get_a_token_and_what_they_know_the_server_by() {
    let server = Server::start(&Binary::debug().unwrap(), &ALL).unwrap();
    let mut client = Client::new(&server).await;
    client.namespace("team").await;
    let account = "/api/v1/namespaces/team/serviceaccounts/default";
    let authorities = "/api/v1/namespaces/team/configmaps/kube-root-ca.crt";
    client.until(account, |status, _| status == StatusCode::OK).await;
    let published = client.until(authorities, |status, _| status == StatusCode::OK).await;
    let certificate = published["data"]["ca.crt"].as_str().unwrap();
    assert!(certificate.starts_with("-----BEGIN CERTIFICATE-----"), "{certificate}");

    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let made = client.make("/api/v1/namespaces/team/pods", pod.clone()).await;
    assert_eq!(made["spec"]["serviceAccountName"], "default");
    let sources = &made["spec"]["volumes"][0]["projected"]["sources"];
    assert_eq!(
        sources[0]["serviceAccountToken"],
        json!({"expirationSeconds": 3607, "path": "token"})
    );
    assert_eq!(sources[1]["configMap"]["name"], "kube-root-ca.crt");
    assert_eq!(
        made["spec"]["containers"][0]["volumeMounts"][0]["mountPath"],
        "/var/run/secrets/kubernetes.io/serviceaccount"
    );

    let mut other = pod;
    other["metadata"]["name"] = json!("q");
    other["spec"]["serviceAccountName"] = json!("nobody");
    let (status, rejected) = client
        .ask(Method::POST, "/api/v1/namespaces/team/pods", "application/json", other)
        .await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    assert_eq!(
        rejected["message"],
        "pods \"q\" is forbidden: error looking up service account team/nobody: serviceaccount \"nobody\" not found"
    );
}

#[tokio::test]
async fn default_account_and_root_ca_are_restored() {
    let server = Server::start(&Binary::debug().unwrap(), &ALL).unwrap();
    let mut client = Client::new(&server).await;
    let account = "/api/v1/namespaces/default/serviceaccounts/default";
    let first = client.until(account, |status, _| status == StatusCode::OK).await;
    client.delete(account, Value::Null).await;
    let again =
        |status, account: &Value| status == StatusCode::OK && account["metadata"]["uid"] != first["metadata"]["uid"];
    client.until(account, again).await;

    let authorities = "/api/v1/namespaces/default/configmaps/kube-root-ca.crt";
    let published = client.until(authorities, |status, _| status == StatusCode::OK).await;
    let spoilt = json!({"data": {"ca.crt": "other"}});
    let (status, _) = client.ask(Method::PATCH, authorities, MERGE, spoilt).await;
    assert_eq!(status, StatusCode::OK);
    client
        .until(authorities, |_, object| object["data"] == published["data"])
        .await;

    // The objects that would be recreated in a terminating namespace do not delay its deletion.
    client.namespace("gone").await;
    client.delete("/api/v1/namespaces/gone", Value::Null).await;
    client.until_gone("/api/v1/namespaces/gone").await;
}
