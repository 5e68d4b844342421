//! Servers inside the process of a test.
#![allow(clippy::disallowed_methods, reason = "tests measure the time of the system")]
#![allow(clippy::unwrap_used, reason = "what fails here is the test")]

use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use futures_util::TryStreamExt as _;
use holdfast::Server;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config, ResourceExt as _};
use serde_json::json;

fn client(server: &Server) -> Client {
    Client::new(server.connection(), "default")
}

fn config_map(name: &str, value: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}, "data": {"key": value}})).unwrap()
}

async fn names(client: Client) -> BTreeSet<String> {
    let config_maps: Api<ConfigMap> = Api::default_namespaced(client);
    let list = config_maps.list(&ListParams::default()).await.unwrap();
    list.iter().map(ConfigMap::name_any).collect()
}

#[tokio::test]
async fn two_servers_in_one_process_share_no_objects() {
    let (first, second) = tokio::join!(Server::builder().start(), Server::builder().start());
    let servers = [first.unwrap(), second.unwrap()];
    assert_ne!(servers[0].url(), servers[1].url());
    assert_ne!(servers[0].ca(), servers[1].ca());
    for (server, name) in servers.iter().zip(["first", "second"]) {
        let config_maps: Api<ConfigMap> = Api::default_namespaced(client(server));
        let made = config_maps.create(&PostParams::default(), &config_map(name, "1")).await;
        made.unwrap();
    }
    for (server, name) in servers.iter().zip(["first", "second"]) {
        let names = names(client(server)).await;
        assert!(names.contains(name) && names.len() == 1, "{names:?}");
    }
    for server in servers {
        server.shutdown().await.unwrap();
    }
}

#[tokio::test]
async fn kubeconfig_of_server_in_memory_works_over_tls() {
    let server = Server::builder().in_memory().start().await.unwrap();
    let kubeconfig = Kubeconfig::from_yaml(&server.kubeconfig()).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    let over_tls = Client::try_from(config.unwrap()).unwrap();
    let namespaces: Api<Namespace> = Api::all(over_tls);
    assert!(namespaces.get("kube-system").await.is_ok());
    server.shutdown().await.unwrap();
}

#[tokio::test]
async fn rustls_configuration_opens_a_connection_as_administrator() {
    let server = Server::builder().start().await.unwrap();
    let address: SocketAddr = server.url().strip_prefix("https://").unwrap().parse().unwrap();
    let connector = tokio_rustls::TlsConnector::from(std::sync::Arc::new(server.rustls().unwrap()));
    let stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let tls = connector.connect(address.ip().into(), stream).await.unwrap();
    let io = hyper_util::rt::TokioIo::new(tls);
    let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
    tokio::spawn(connection);
    let head = http::Request::get("/api/v1/namespaces/kube-system/secrets").header("host", "localhost");
    let request = head.body(http_body_util::Empty::<bytes::Bytes>::new()).unwrap();
    assert_eq!(sender.send_request(request).await.unwrap().status(), 200);
    drop(sender);
    server.shutdown().await.unwrap();
}

#[tokio::test]
async fn applies_are_watched_and_conflict_between_managers() {
    let server = Server::builder().start().await.unwrap();
    let config_maps: Api<ConfigMap> = Api::default_namespaced(client(&server));
    let mut events = Box::pin(
        config_maps
            .watch(&WatchParams::default().disable_bookmarks(), "0")
            .await
            .unwrap(),
    );
    let settings = |value: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"colour": value}});
    let one = PatchParams::apply("one");
    config_maps
        .patch("settings", &one, &Patch::Apply(settings("blue")))
        .await
        .unwrap();
    let event = events.try_next().await.unwrap().unwrap();
    assert!(
        matches!(&event, WatchEvent::Added(object) if object.name_any() == "settings"),
        "{event:?}"
    );
    let two = PatchParams::apply("two");
    let conflict = config_maps
        .patch("settings", &two, &Patch::Apply(settings("red")))
        .await;
    assert!(
        matches!(&conflict, Err(kube::Error::Api(status)) if status.is_conflict()),
        "{conflict:?}"
    );
    server.shutdown().await.unwrap();
    assert!(
        !matches!(events.try_next().await, Ok(Some(WatchEvent::Added(_)))),
        "the watch has ended"
    );
}

#[tokio::test]
async fn controllers_of_the_builder_delete_content_of_namespaces() {
    let server = Server::builder()
        .controllers(["namespace-controller"])
        .start()
        .await
        .unwrap();
    let idle = Server::builder().controllers::<&str>([]).start().await.unwrap();
    let team: Namespace = serde_json::from_value(json!({"metadata": {"name": "team"}})).unwrap();
    for (server, is_deleted) in [(&server, true), (&idle, false)] {
        let namespaces: Api<Namespace> = Api::all(client(server));
        namespaces.create(&PostParams::default(), &team).await.unwrap();
        namespaces.delete("team", &DeleteParams::default()).await.unwrap();
        let end = Instant::now()
            + if is_deleted {
                Duration::from_secs(20)
            } else {
                Duration::from_millis(300)
            };
        while namespaces.get_opt("team").await.unwrap().is_some() && Instant::now() < end {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(namespaces.get_opt("team").await.unwrap().is_none(), is_deleted);
    }
    server.shutdown().await.unwrap();
    idle.shutdown().await.unwrap();
}

#[tokio::test]
async fn admission_plugins_of_the_builder_deny_requests() {
    let server = Server::builder()
        .admission_plugins(["AlwaysPullImages"])
        .start()
        .await
        .unwrap();
    let pods: Api<k8s_openapi::api::core::v1::Pod> = Api::default_namespaced(client(&server));
    let pod = json!({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "a", "image": "a"}]}});
    let made = pods
        .create(&PostParams::default(), &serde_json::from_value(pod).unwrap())
        .await
        .unwrap();
    let policy = made.spec.unwrap().containers[0].image_pull_policy.clone();
    assert_eq!(policy.as_deref(), Some("Always"));
    server.shutdown().await.unwrap();
}

#[tokio::test]
async fn shutdown_releases_port_and_ends_clients() {
    let server = Server::builder().start().await.unwrap();
    let address: SocketAddr = server.url().strip_prefix("https://").unwrap().parse().unwrap();
    let client = client(&server);
    assert!(names(client.clone()).await.is_empty());
    server.shutdown().await.unwrap();
    std::net::TcpListener::bind(address).unwrap();
    let config_maps: Api<ConfigMap> = Api::default_namespaced(client);
    assert!(config_maps.list(&ListParams::default()).await.is_err());
}

#[tokio::test]
async fn dropped_server_stops_serving() {
    let server = Server::builder().start().await.unwrap();
    let client = client(&server);
    let address: SocketAddr = server.url().strip_prefix("https://").unwrap().parse().unwrap();
    drop(server);
    let end = Instant::now() + Duration::from_secs(10);
    while std::net::TcpListener::bind(address).is_err() && Instant::now() < end {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let secrets: Api<Secret> = Api::default_namespaced(client);
    assert!(secrets.list(&ListParams::default()).await.is_err());
}

#[tokio::test]
async fn invalid_settings_are_errors_that_name_the_flag() {
    for (flag, message) in [
        ("--no-such-flag", "no-such-flag"),
        ("--controllers=nothing", "nothing"),
        ("--etcd-servers=http://127.0.0.1:1", "etcd"),
        ("version", "command"),
        ("--help", "Usage"),
    ] {
        let error = Server::builder().args([flag]).start().await.unwrap_err();
        assert!(error.to_string().contains(message), "{flag}: {error}");
    }
}

#[tokio::test]
async fn objects_in_a_data_directory_survive_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    for is_first in [true, false] {
        let builder = Server::builder().data_dir(folder.path()).args(["--unsafe-no-fsync"]);
        let server = builder.start().await.unwrap();
        let config_maps: Api<ConfigMap> = Api::default_namespaced(client(&server));
        if is_first {
            let made = config_maps
                .create(&PostParams::default(), &config_map("kept", "1"))
                .await;
            made.unwrap();
        }
        assert_eq!(config_maps.get("kept").await.unwrap().name_any(), "kept");
        assert_eq!(
            fs::read_to_string(folder.path().join("kubeconfig")).unwrap(),
            server.kubeconfig()
        );
        server.shutdown().await.unwrap();
    }
}

#[tokio::test]
async fn fork_shares_objects_and_outlives_its_server() {
    let server = Server::builder()
        .controllers([""; 0])
        .testing_endpoints(true)
        .start()
        .await
        .unwrap();
    let create = async |server: &Server, name: &str| {
        let config_maps: Api<ConfigMap> = Api::default_namespaced(client(server));
        let made = config_maps.create(&PostParams::default(), &config_map(name, "1")).await;
        made.unwrap()
    };
    let before = create(&server, "before").await;
    let began = Instant::now();
    let fork = server.fork().await.unwrap();
    println!("a fork was ready after {:?}", began.elapsed());
    create(&server, "of-server").await;
    create(&fork, "of-fork").await;
    assert_eq!(
        names(client(&server)).await,
        ["before", "of-server"].map(str::to_owned).into()
    );
    assert_eq!(
        names(client(&fork)).await,
        ["before", "of-fork"].map(str::to_owned).into()
    );
    assert_eq!((server.ca(), server.url() == fork.url()), (fork.ca(), false));
    server.shutdown().await.unwrap();

    let again = fork.fork().await.unwrap();
    fork.shutdown().await.unwrap();
    let config_maps: Api<ConfigMap> = Api::default_namespaced(client(&again));
    assert_eq!(config_maps.get("before").await.unwrap(), before);
    again.shutdown().await.unwrap();
}
