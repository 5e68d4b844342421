//! Connections through proxies (`--egress-selector-config-file`).

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result, anyhow};
use holdfast_egress::{DialObserver, Dialer, EgressConfiguration, EgressSelector, Network};
use holdfast_server::metrics::EgressMetrics;
use holdfast_store::{DialEtcd, EtcdStream, EtcdStreamFuture};

use crate::files;
use crate::flags::Serve;

/// Maximum size of the configuration in bytes.
const MAX_CONFIGURATION_BYTES: u64 = 1 << 20;

/// The proxies of the networks, with the counters of their connections.
#[derive(Clone)]
pub(crate) struct Egress {
    /// The proxies.
    pub(crate) selector: EgressSelector,
    /// Counters of connections.
    pub(crate) metrics: EgressMetrics,
}

impl Egress {
    /// Reads the file of the flags. Returns `None` if none is given.
    ///
    /// # Errors
    /// If the file cannot be used, with its name, the place and the reason.
    pub(crate) fn load(flags: &Serve) -> Result<Option<Self>> {
        let file = flags.egress_selector_config_file.as_deref();
        let Some(file) = file.filter(|file| !file.as_os_str().is_empty()) else {
            return Ok(None);
        };
        let metrics = EgressMetrics::new().context("cannot set up metrics")?;
        let observer: Arc<dyn DialObserver> = Arc::new(metrics.clone());
        let read = read(file, &observer);
        let selector = read.with_context(|| format!("--egress-selector-config-file {}", file.display()))?;
        Ok(Some(Self { selector, metrics }))
    }
}

fn read(file: &Path, observer: &Arc<dyn DialObserver>) -> Result<EgressSelector> {
    let failed = "failed to read egress selector config";
    files::check_size(file, MAX_CONFIGURATION_BYTES).context(failed)?;
    let text = std::fs::read(file).context(failed)?;
    let configuration = EgressConfiguration::decode(&text).map_err(|error| anyhow!("{failed}: {error}"))?;
    let invalid = |error| anyhow!("failed to validate egress selector configuration: {error}");
    configuration.validate().map_err(invalid)?;
    let unusable = |error| anyhow!("failed to setup egress selector: {error}");
    EgressSelector::new(&configuration, observer).map_err(unusable)
}

/// Dialer of connections to etcd through a proxy.
#[derive(Debug)]
pub(crate) struct EtcdDialer(Dialer);

impl EtcdDialer {
    /// Returns the dialer of etcd's network, if it has a proxy.
    pub(crate) fn for_egress(egress: Option<&Egress>) -> Option<Arc<dyn DialEtcd>> {
        let dialer = egress?.selector.dialer(Network::Etcd)?;
        Some(Arc::new(Self(dialer.clone())))
    }
}

impl DialEtcd for EtcdDialer {
    fn dial(&self, address: String) -> EtcdStreamFuture {
        let dialer = self.0.clone();
        Box::pin(async move {
            let dialed = dialer.dial(&address).await.map_err(std::io::Error::other)?;
            Ok(Box::new(dialed) as EtcdStream)
        })
    }
}
