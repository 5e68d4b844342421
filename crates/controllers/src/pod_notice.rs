//! The Event that explains a new user's first Pod, which stays pending because the server has no nodes.

use std::sync::Arc;

use holdfast_resource::Resource;
use holdfast_server::operations::loopback::{Change, Changes, Client, Lost};

use crate::events::{Recorder, Warning};

/// Name of the task, which is the reporting component of the Event.
pub(crate) const NAME: &str = "holdfast-pod-notice";

/// Reason of the Event.
const REASON: &str = "NoNodes";

/// Message of the Event.
const MESSAGE: &str = "Nothing runs Pods here: the server has no nodes. Connect a kubelet, or simulate nodes with KWOK \
                       (https://kwok.sigs.k8s.io). This Event appears once";

/// Reports the first new Pod for which there are no nodes, and waits for the end of the server.
pub(crate) async fn run(client: Client) {
    let shutdown = client.shutdown();
    let (Some(pods), Some(nodes)) = (client.resource("", "pods"), client.resource("", "nodes")) else {
        return shutdown.closing().await;
    };
    let notice = async {
        while let Ok((_, mut changes)) = client.watch(&pods) {
            if let Ok(pod) = first_without_nodes(&client, &mut changes, &nodes).await {
                let (pod, recorder) = (pod.current().tree(), Recorder::new(client.clone(), NAME));
                let warning = Warning {
                    object: &pod,
                    reason: REASON,
                    message: MESSAGE,
                };
                return recorder.warn(warning).await;
            }
        }
    };
    tokio::select! {
        biased;
        () = shutdown.closing() => return,
        () = notice => {}
    }
    shutdown.closing().await;
}

/// Waits for a new Pod that has no node while there are none.
async fn first_without_nodes(client: &Client, changes: &mut Changes, nodes: &Arc<Resource>) -> Result<Change, Lost> {
    loop {
        let change = changes.next().await?;
        let is_new = change.previous().is_none() && !change.is_removal();
        if is_new
            && client.list(nodes, "").is_empty()
            && change.current().tree().str_at(&["spec", "nodeName"]).is_none()
        {
            return Ok(change);
        }
    }
}
