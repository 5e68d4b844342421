//! kube-controller-manager's flags for the controllers that run here.

use std::time::Duration;

use clap::Args;
use holdfast_gotext::duration;

/// Flags about controllers.
#[derive(Debug, Args)]
pub(crate) struct ControllerFlags {
    /// Period of the full recalculation of quota usage; 0 disables it
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = duration::parse_from_zero)]
    pub(crate) resource_quota_sync_period: Duration,
}
