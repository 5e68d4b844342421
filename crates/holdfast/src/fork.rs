//! Forks: further servers in this process, each with the state of an existing one.

use std::future::ready;
use std::sync::Arc;

use anyhow::{Result, ensure};
use futures_util::future::BoxFuture;
use holdfast_schema::TableTypes;
use holdfast_server::operations::testing::{ForkAddress, ForkState, RunningFork, StartFork};
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;

use crate::certificates::Certificates;
use crate::flags::Serve;
use crate::kubeconfig::Administrator;
use crate::serve::{Beginning, Serving, Started, start_fork};
use crate::signing::TokenSigner;

/// Server from which forks start. They have its flags and credentials, keep their objects in memory, and use free ports.
#[derive(Clone)]
pub(crate) struct ForkOrigin {
    flags: Serve,
    certificates: Certificates,
    token_signer: TokenSigner,
    types: Arc<TableTypes>,
}

impl ForkOrigin {
    /// Creates the origin for a server with these flags and credentials.
    pub(crate) fn new(
        flags: &Serve,
        certificates: &Certificates,
        token_signer: TokenSigner,
        types: Arc<TableTypes>,
    ) -> Self {
        let mut flags = flags.clone();
        flags.secure_port = 0;
        flags.in_memory = true;
        flags.storage.encryption.encryption_provider_config = None;
        flags.audit.keep_nothing();
        flags.testing.adapt_to_fork();
        Self {
            flags,
            certificates: certificates.without_kubeconfig(),
            token_signer,
            types,
        }
    }

    /// Returns the flags of the forks.
    pub(crate) fn flags(&self) -> &Serve {
        &self.flags
    }

    /// Starts a fork.
    ///
    /// # Errors
    /// If other servers share the store of this one, or the fork does not start.
    pub(crate) async fn start(&self, state: ForkState) -> Result<Started> {
        ensure!(
            self.flags.storage.etcd_servers.is_empty(),
            "only a server with an embedded store can be forked"
        );
        let beginning = Beginning {
            state,
            certificates: self.certificates.clone(),
            token_signer: self.token_signer.clone(),
            types: Arc::clone(&self.types),
        };
        start_fork(&self.flags, beginning).await
    }
}

impl StartFork for ForkOrigin {
    fn start(&self, state: ForkState) -> BoxFuture<'static, Result<Box<dyn RunningFork>, String>> {
        let (origin, runtime) = (self.clone(), Handle::current());
        // The future of a start cannot move between threads.
        let started = spawn_blocking(move || runtime.block_on(origin.run(state)));
        Box::pin(async move {
            let outcome = started.await.map_err(|error| error.to_string())?;
            outcome.map_err(|error| format!("{error:#}"))
        })
    }
}

impl ForkOrigin {
    async fn run(self, state: ForkState) -> Result<Box<dyn RunningFork>> {
        ensure!(
            self.certificates.administrator.is_some(),
            "the server has no administrator whose credentials the fork could use"
        );
        let started = Self::start(&self, state).await?;
        let administrator = started
            .certificates
            .administrator
            .as_ref()
            .ok_or_else(|| anyhow::anyhow!("the fork has no administrator"))?;
        let address = address(administrator, &started.url);
        let serving = started.begin(&self.flags)?;
        Ok(Box::new(Fork { serving, address }))
    }
}

/// A running fork.
struct Fork {
    serving: Serving,
    address: ForkAddress,
}

impl RunningFork for Fork {
    fn address(&self) -> ForkAddress {
        self.address.clone()
    }

    fn stop(self: Box<Self>) -> BoxFuture<'static, Result<(), String>> {
        Box::pin(async move {
            let outcome = self.serving.stop(ready(())).await;
            outcome.map_err(|error| format!("{error:#}"))
        })
    }
}

fn address(administrator: &Administrator, url: &str) -> ForkAddress {
    ForkAddress {
        url: url.to_owned(),
        certificate_authority: String::from_utf8_lossy(&administrator.authority).into_owned(),
        kubeconfig: administrator.kubeconfig(url),
    }
}
