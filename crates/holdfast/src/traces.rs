//! Traces of requests (`--tracing-config-file`).

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result, anyhow};
use holdfast_controllers::Identity;
use holdfast_egress::Dialer;
use holdfast_grpc::Client;
use holdfast_traces::{Endpoint, Exporter, Resource, Tracer, TracingConfiguration};

use crate::certificates::hostname;
use crate::files;
use crate::flags::Serve;

/// Name of the kind of process in traces.
const SERVICE_NAME: &str = "apiserver";

/// Maximum size of the configuration in bytes.
const MAX_CONFIGURATION_BYTES: u64 = 1 << 20;

/// Source of spans, and the task that exports them.
pub(crate) struct Traces {
    /// Source of spans.
    pub(crate) tracer: Arc<Tracer>,
    exporter: Exporter,
}

impl Traces {
    /// Reads the file of the flags. Returns `None` if none is given.
    ///
    /// # Errors
    /// If the file cannot be used, with its name, the place and the reason.
    pub(crate) fn load(flags: &Serve, dialer: Option<&Dialer>) -> Result<Option<Self>> {
        let file = flags.tracing_config_file.as_deref();
        let Some(file) = file.filter(|file| !file.as_os_str().is_empty()) else {
            return Ok(None);
        };
        let configuration = read(file).with_context(|| format!("--tracing-config-file {}", file.display()))?;
        let resource = Resource {
            service_name: SERVICE_NAME.to_owned(),
            instance: Identity::name_of(&hostname()),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        let named = || format!("--tracing-config-file {}", file.display());
        let failed = |error: String| anyhow!(error);
        let client = client(&configuration, dialer).map_err(failed).with_context(named)?;
        let (tracer, exporter) = Exporter::new(&configuration, resource, client);
        Ok(Some(Self { tracer, exporter }))
    }

    /// Exports spans until the tracer is closed.
    pub(crate) fn export(self) {
        tokio::spawn(self.exporter.run());
    }
}

/// Returns the client of the collector. Only an address is reached through `dialer`.
fn client(configuration: &TracingConfiguration, dialer: Option<&Dialer>) -> Result<Client, String> {
    match (configuration.parse_endpoint()?, dialer.cloned()) {
        (Endpoint::Socket(socket), _) => Ok(Client::on_socket(&socket)),
        (Endpoint::Address(address), None) => Client::for_address(&address),
        (Endpoint::Address(address), Some(dialer)) => {
            let target = address.clone();
            Client::for_address_through(&address, move || {
                let (dialer, target) = (dialer.clone(), target.clone());
                async move { dialer.dial(&target).await.map_err(std::io::Error::other) }
            })
        }
    }
}

fn read(file: &Path) -> Result<TracingConfiguration> {
    let failed = "failed to read tracing config";
    files::check_size(file, MAX_CONFIGURATION_BYTES).context(failed)?;
    let text = std::fs::read(file).with_context(|| format!("{failed}: unable to read tracing configuration"))?;
    TracingConfiguration::decode(&text).map_err(|error| anyhow!("{failed}: {error}"))
}
