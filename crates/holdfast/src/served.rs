//! Feature gates and served APIs, from kube-apiserver's flags.

use anyhow::Result;
use clap::Args;
use holdfast_kind_tables::apis::Apis;
use holdfast_kind_tables::features::FeatureGates;

/// Flags for feature gates and served APIs.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ServedFlags {
    /// Feature gates to enable and disable, as Name=true,Name=false: the gates of kube-apiserver 1.36, and AllAlpha and
    /// AllBeta for all of a stage
    #[arg(long, value_name = "GATES")]
    pub(crate) feature_gates: Vec<String>,

    /// Built-in APIs to enable and disable, as KEY=true,KEY=false: api/all, api/ga, api/beta and api/alpha for all
    /// versions of a stage, group/version for one version, group/version/resource for one of its resources
    #[arg(long, value_name = "APIS")]
    pub(crate) runtime_config: Vec<String>,
}

impl ServedFlags {
    /// Returns the feature gates that the flags set. Logs those that need not be set.
    pub(crate) fn gates(&self) -> Result<FeatureGates> {
        let gates = FeatureGates::set(&self.feature_gates)?;
        for warning in gates.warnings() {
            tracing::warn!("{warning}");
        }
        Ok(gates)
    }

    /// Returns the built-in APIs that the flags enable.
    pub(crate) fn apis(&self) -> Result<Apis> {
        Ok(Apis::set(&self.runtime_config)?)
    }
}
