//! Calls to a plugin: gRPC over a Unix socket.

use std::time::Duration;

use super::proto::{DecryptRequest, DecryptResponse, EncryptRequest, EncryptResponse, StatusRequest, StatusResponse};

/// Client of one plugin.
#[derive(Clone)]
pub(super) struct Client {
    plugin: holdfast_grpc::Client,
    timeout: Duration,
}

impl Client {
    /// Creates a client that connects with its first call.
    pub(super) fn new(socket: &str, timeout: Duration) -> Self {
        Self {
            plugin: holdfast_grpc::Client::on_socket(socket),
            timeout,
        }
    }

    pub(super) async fn status(&self) -> Result<StatusResponse, String> {
        self.call("/v2.KeyManagementService/Status", StatusRequest {}).await
    }

    pub(super) async fn encrypt(&self, request: EncryptRequest) -> Result<EncryptResponse, String> {
        self.call("/v2.KeyManagementService/Encrypt", request).await
    }

    pub(super) async fn decrypt(&self, request: DecryptRequest) -> Result<DecryptResponse, String> {
        self.call("/v2.KeyManagementService/Decrypt", request).await
    }

    async fn call<Q, A>(&self, path: &'static str, request: Q) -> Result<A, String>
    where
        Q: prost::Message + Send + Sync + 'static,
        A: prost::Message + Default + Send + Sync + 'static,
    {
        let outcome = self.plugin.call(path, request, self.timeout).await;
        outcome.map_err(|error| error.to_string())
    }
}
