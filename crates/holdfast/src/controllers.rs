//! What the flags of kube-controller-manager say of the controllers that run here.

use std::time::Duration;

use clap::Args;
use holdfast_gotext::duration;

/// Flags about controllers.
#[derive(Debug, Args)]
pub(crate) struct ControllerFlags {
    /// How often the use of all quotas is counted again; 0 for never
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = duration::parse_from_zero)]
    pub(crate) resource_quota_sync_period: Duration,
}
