#![forbid(unsafe_code)]
//! Runs the operator with the kubeconfig or the service account of its environment.

use anyhow::Result;
use example_operator::{install, run};
use kube::Client;

#[tokio::main]
async fn main() -> Result<()> {
    let client = Client::try_default().await?;
    install(&client).await?;
    run(client).await;
    Ok(())
}
