//! kube-controller-manager's flags for the controllers that run here.

use std::time::Duration;

use clap::Args;
use holdfast_gotext::duration;

/// Value of `--controllers` if it is not set and the server has its own store: the default controllers of a cluster, and
/// those that give each namespace a service account and the authority of the server. On an etcd, the latter could belong to
/// another server.
pub(crate) const OF_SMALL_CLUSTER: [&str; 3] = [
    "*",
    "serviceaccount-controller",
    "root-ca-certificate-publisher-controller",
];

/// Flags about controllers.
#[derive(Clone, Debug, Args)]
pub(crate) struct ControllerFlags {
    /// Period of the full recalculation of quota usage; 0 disables it
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = duration::parse_from_zero)]
    pub(crate) resource_quota_sync_period: Duration,
}
