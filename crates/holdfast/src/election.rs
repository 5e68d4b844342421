//! kube-controller-manager's flags for leader election. They matter if several servers share one etcd.

use std::time::Duration;

use anyhow::{Result, anyhow};
use clap::{ArgAction, Args};
use holdfast_controllers::Election;
use holdfast_gotext::duration;
use holdfast_server::runtime::{Identifiers as _, RandomIdentifiers};
use smol_str::SmolStr;

/// Flags about leader election.
#[derive(Clone, Debug, Args)]
pub(crate) struct ElectionFlags {
    /// Elect one of the servers that share an etcd to run the controllers. If false, every server runs them
    #[arg(long, value_name = "BOOL", default_value_t = true, action = ArgAction::Set,
          num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    leader_elect: bool,

    /// Time that non-leader candidates wait after they observe a lease renewal before they try to acquire the lease
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = duration::parse_from_zero)]
    leader_elect_lease_duration: Duration,

    /// Time in which a leader must renew its lease before it stops its controllers
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration::parse_from_zero)]
    leader_elect_renew_deadline: Duration,

    /// Time between attempts to acquire or renew the lease
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = duration::parse_from_zero)]
    leader_elect_retry_period: Duration,

    /// Name of the lease. With the name that a kube-controller-manager uses, these controllers never run at the same
    /// time as its own
    #[arg(long, value_name = "NAME", default_value = "holdfast-controller-manager")]
    leader_elect_resource_name: SmolStr,

    /// Namespace of the lease
    #[arg(long, value_name = "NAMESPACE", default_value = "kube-system")]
    leader_elect_resource_namespace: SmolStr,
}

impl ElectionFlags {
    /// Returns the settings of leader election for a server on this host; `None` without `--leader-elect`.
    pub(crate) fn election(&self, host: &str) -> Result<Option<Election>> {
        if !self.leader_elect {
            return Ok(None);
        }
        let election = Election {
            name: self.leader_elect_resource_name.clone(),
            namespace: self.leader_elect_resource_namespace.clone(),
            identity: format!("{host}_{}", RandomIdentifiers::default().uid()).into(),
            lease: self.leader_elect_lease_duration,
            renewal: self.leader_elect_renew_deadline,
            retry: self.leader_elect_retry_period,
        };
        election.check().map_err(|error| anyhow!(error))?;
        Ok(Some(election))
    }
}
