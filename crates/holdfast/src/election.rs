//! Flags for leader election: kube-controller-manager's, which matter if several servers share one etcd, and those of
//! coordinated leader election.

use std::time::Duration;

use anyhow::{Result, anyhow};
use clap::{ArgAction, Args};
use holdfast_controllers::{COORDINATED_LEASE, Election};
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
            identity: identity(host),
            lease: self.leader_elect_lease_duration,
            renewal: self.leader_elect_renew_deadline,
            retry: self.leader_elect_retry_period,
        };
        election.check().map_err(|error| anyhow!(error))?;
        Ok(Some(election))
    }
}

/// Flags about the election of the server that elects the leaders of other components: the gate
/// CoordinatedLeaderElection.
#[derive(Clone, Debug, Args)]
pub(crate) struct CoordinationFlags {
    /// Duration of the lease of the server that elects the leaders of other components
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = duration::parse_from_zero)]
    coordinated_leadership_lease_duration: Duration,

    /// Time in which that server must renew its lease before it stops to elect leaders
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration::parse_from_zero)]
    coordinated_leadership_renew_deadline: Duration,

    /// Time between attempts of servers to acquire or renew that lease
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = duration::parse_from_zero)]
    coordinated_leadership_retry_period: Duration,
}

impl CoordinationFlags {
    /// Returns the errors of the flags.
    ///
    /// upstream: pkg/controlplane/apiserver/options#validateCoordinatedLeadershipFlags
    pub(crate) fn errors(&self) -> Vec<String> {
        let (lease, renewal) = (
            self.coordinated_leadership_lease_duration,
            self.coordinated_leadership_renew_deadline,
        );
        let mut errors = Vec::new();
        if lease <= renewal {
            errors.push(
                "--coordinated-leadership-lease-duration must be greater than --coordinated-leadership-renew-deadline"
                    .to_owned(),
            );
        }
        if renewal <= self.coordinated_leadership_retry_period {
            errors.push(
                "--coordinated-leadership-renew-deadline must be greater than --coordinated-leadership-retry-period"
                    .to_owned(),
            );
        }
        errors
    }

    /// Returns the settings of the election for a server on this host.
    pub(crate) fn election(&self, host: &str) -> Result<Election> {
        let election = Election {
            name: COORDINATED_LEASE.into(),
            namespace: "kube-system".into(),
            identity: identity(host),
            lease: self.coordinated_leadership_lease_duration,
            renewal: self.coordinated_leadership_renew_deadline,
            retry: self.coordinated_leadership_retry_period,
        };
        election.check().map_err(|error| anyhow!(error))?;
        Ok(election)
    }
}

/// Returns a unique identity of a server on this host.
fn identity(host: &str) -> SmolStr {
    format!("{host}_{}", RandomIdentifiers::default().uid()).into()
}
