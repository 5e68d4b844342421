//! kube-rs against the real binary: the typed and the dynamic API, Server-Side Apply, subresources, the watcher in both
//! of its modes, the reflector, controllers with finalizers and dependents, resources defined by deriving, and
//! admission webhooks; and the scenarios of kube's own tests that need a cluster and no node.

mod derived;
mod objects;
mod runtime;
mod webhooks;

use std::time::Duration;

use conformance::{Binary, Server};
use futures_util::{Stream, StreamExt as _};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config, Error};

/// Time limit of anything that the server or a controller does asynchronously.
const WAIT_TIMEOUT: Duration = Duration::from_secs(60);

/// Starts a server, and a client with the kubeconfig that the server wrote.
async fn start() -> (Server, Client) {
    let server = tokio::task::spawn_blocking(|| Server::start(&Binary::debug().unwrap(), &[]).unwrap())
        .await
        .unwrap();
    let kubeconfig = Kubeconfig::read_from(server.kubeconfig()).unwrap();
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .unwrap();
    config.cluster_url = format!("https://{}", server.address).parse().unwrap();
    (server, Client::try_from(config).unwrap())
}

/// Returns the code and reason of a rejection.
fn rejection<T: std::fmt::Debug>(answer: Result<T, Error>) -> (u16, String) {
    match answer {
        Err(Error::Api(status)) => (status.code, status.reason.clone()),
        other => panic!("not refused by the API: {other:?}"),
    }
}

/// Returns the next item of a stream that does not end, in good time.
async fn next<T>(stream: &mut (impl Stream<Item = T> + Unpin)) -> T {
    tokio::time::timeout(WAIT_TIMEOUT, stream.next())
        .await
        .expect("nothing came in time")
        .expect("the stream ended")
}

/// Repeats a check until it returns true.
async fn until<F: Future<Output = bool>>(what: &str, mut ask: impl FnMut() -> F) {
    let asking = async {
        while !ask().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    assert!(
        tokio::time::timeout(WAIT_TIMEOUT, asking).await.is_ok(),
        "not in time: {what}"
    );
}
