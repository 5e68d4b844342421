//! Flags for connections to kubelets.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, Result, anyhow, ensure};
use clap::Args;
use holdfast_egress::Dialer;
use holdfast_kinds::KubeletAddresses;
use holdfast_server::nodes::NodeConnections;
use holdfast_server::operations::aggregation::ProxyIdentity;
use holdfast_server::operations::service::Service;

use crate::files;
use crate::reload;

/// kube-apiserver's flags for connections to kubelets.
#[derive(Clone, Debug, Args)]
pub(crate) struct KubeletFlags {
    /// Client certificate that this server presents to kubelets (PEM). Reloaded when it changes
    #[arg(long, value_name = "FILE", requires = "kubelet_client_key")]
    pub(crate) kubelet_client_certificate: Option<PathBuf>,

    /// Private key of --kubelet-client-certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "kubelet_client_certificate")]
    pub(crate) kubelet_client_key: Option<PathBuf>,

    /// Certificate authorities of kubelets (PEM). Without it, certificates of kubelets are not verified
    #[arg(long, value_name = "FILE")]
    pub(crate) kubelet_certificate_authority: Option<PathBuf>,

    /// Types of node addresses for connections to kubelets, in order of preference
    #[arg(long, value_name = "TYPES", value_delimiter = ',',
          default_values_t = KubeletAddresses::PREFERRED_TYPES.map(String::from))]
    pub(crate) kubelet_preferred_address_types: Vec<String>,

    /// Port of the kubelet on nodes that report no port. Deprecated
    #[arg(long, value_name = "PORT", default_value_t = KubeletAddresses::PORT)]
    pub(crate) kubelet_port: u16,
}

/// Connections to kubelets that result from the flags.
pub(crate) struct Kubelets {
    /// The connections.
    pub(crate) connections: NodeConnections,
    identity: Option<Arc<ProxyIdentity>>,
}

impl KubeletFlags {
    /// Returns the addresses of kubelets.
    ///
    /// # Errors
    /// If the port is 0.
    pub(crate) fn addresses(&self) -> Result<Arc<KubeletAddresses>> {
        ensure!(self.kubelet_port != 0, "--kubelet-port must be between 1 and 65535");
        Ok(Arc::new(KubeletAddresses {
            preferred_types: self.kubelet_preferred_address_types.clone(),
            port: self.kubelet_port,
        }))
    }

    /// Reads the files. Connections go through `dialer`.
    ///
    /// # Errors
    /// If a file cannot be read or contains no certificate or key.
    pub(crate) fn load(&self, dialer: Option<&Dialer>) -> Result<Kubelets> {
        let identity = match (&self.kubelet_client_certificate, &self.kubelet_client_key) {
            (Some(certificate), Some(key)) => {
                let loaded = ProxyIdentity::load(certificate, key);
                Some(loaded.context("--kubelet-client-certificate and --kubelet-client-key")?)
            }
            _ => None,
        };
        let authorities = self.kubelet_certificate_authority.as_ref().map(|path| {
            let read = files::read_bounded(path);
            read.with_context(|| format!("--kubelet-certificate-authority: cannot read {}", path.display()))
        });
        let authorities = authorities.transpose()?;
        let certificate = identity.as_ref().map(ProxyIdentity::resolver);
        let created = NodeConnections::new(authorities.as_deref(), certificate, dialer);
        let connections = created.map_err(|why| anyhow!("--kubelet-certificate-authority: {why}"))?;
        Ok(Kubelets { connections, identity })
    }

    /// Reads the client certificate again when it changes, for as long as the server serves.
    pub(crate) fn follow(&self, identity: Option<Arc<ProxyIdentity>>, service: &Service) {
        let files = self
            .kubelet_client_certificate
            .clone()
            .zip(self.kubelet_client_key.clone());
        if let Some((identity, (certificate, key))) = identity.zip(files) {
            reload::watch(service, vec![certificate, key], move || identity.reload());
        }
    }
}

impl Kubelets {
    /// Returns the client certificate, which can be reloaded.
    pub(crate) fn identity(&self) -> Option<Arc<ProxyIdentity>> {
        self.identity.clone()
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        flags: KubeletFlags,
    }

    fn flags(arguments: &[&str]) -> KubeletFlags {
        let arguments = [&["holdfast"], arguments].concat();
        Line::try_parse_from(arguments).unwrap().flags
    }

    #[test]
    fn flags_of_kubeadm_choose_addresses() {
        assert_eq!(*flags(&[]).addresses().unwrap(), KubeletAddresses::default());
        let types = "--kubelet-preferred-address-types=InternalIP,ExternalIP,Hostname";
        let addresses = flags(&[types, "--kubelet-port=7"]).addresses().unwrap();
        assert_eq!(addresses.preferred_types, ["InternalIP", "ExternalIP", "Hostname"]);
        assert_eq!(addresses.port, 7);
        assert!(flags(&["--kubelet-port=0"]).addresses().is_err());
    }

    #[test]
    fn unreadable_file_is_reported_with_its_flag() {
        let message = |arguments: &[&str]| format!("{:#}", flags(arguments).load(None).err().unwrap());
        let authorities = message(&["--kubelet-certificate-authority=/nowhere/ca.crt"]);
        assert!(
            authorities.contains("--kubelet-certificate-authority") && authorities.contains("/nowhere/ca.crt"),
            "{authorities}"
        );
        let certificate = message(&[
            "--kubelet-client-certificate=/nowhere/a.crt",
            "--kubelet-client-key=/nowhere/a.key",
        ]);
        assert!(certificate.starts_with("--kubelet-client-certificate"), "{certificate}");
    }
}
