//! Feature gates and served APIs, from kube-apiserver's flags.

use anyhow::Result;
use clap::Args;
use holdfast_kinds::apis::Apis;
use holdfast_kinds::features::FeatureGates;

/// Flags about what is served.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ServedFlags {
    /// Features to switch on and off, as Name=true,Name=false: the gates of kube-apiserver 1.36, and AllAlpha and AllBeta for all
    /// of a stage
    #[arg(long, value_name = "GATES")]
    pub(crate) feature_gates: Vec<String>,

    /// Built-in APIs to serve or not, as KEY=true,KEY=false: api/all, api/ga, api/beta and api/alpha for all versions of a stage,
    /// group/version for one, group/version/resource for one resource of it
    #[arg(long, value_name = "APIS")]
    pub(crate) runtime_config: Vec<String>,
}

impl ServedFlags {
    /// The feature gates as the flags set them. The log names those that need not be set.
    pub(crate) fn gates(&self) -> Result<FeatureGates> {
        let gates = FeatureGates::set(&self.feature_gates)?;
        for warning in gates.warnings() {
            tracing::warn!("{warning}");
        }
        Ok(gates)
    }

    /// The built-in APIs that the flags have served.
    pub(crate) fn apis(&self) -> Result<Apis> {
        Ok(Apis::set(&self.runtime_config)?)
    }
}
