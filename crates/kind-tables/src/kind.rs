//! Code of a kind, which the reader of the tables joins with the rows.

use std::sync::Arc;

use holdfast_resource::table::NamedCell;
use holdfast_resource::{Capabilities, Generic, Resource, Strategy};
use holdfast_schema::{MetadataChecks, NameRule};

use crate::metadata_checks;

/// Code of a kind: its strategy, its capabilities and what its rows do not contain.
pub struct Kind {
    /// Defaults, preparation, validation and warnings.
    pub strategy: Arc<dyn Strategy>,
    /// Capabilities that only some kinds have.
    pub capabilities: Capabilities,
    /// Warning of every response about the kind.
    pub deprecation: Option<&'static str>,
    /// Cells that columns of its tables name.
    pub cells: &'static [NamedCell],
    /// True if a new object has the zero value of its status, whatever its creator sends.
    pub empty_status: bool,
    /// True if writes to the object also change its status.
    pub writes_status: bool,
    /// Rule for names, if it differs from that of the table.
    pub names: Option<NameRule>,
    /// Number of times that validation checks the metadata.
    pub metadata_checks: MetadataChecks,
}

impl Default for Kind {
    /// Returns a kind that only does what its rows state.
    fn default() -> Self {
        Self {
            strategy: Arc::new(Generic),
            capabilities: Capabilities::default(),
            deprecation: None,
            cells: &[],
            empty_status: false,
            writes_status: false,
            names: None,
            metadata_checks: metadata_checks::COMMON_CHECKS,
        }
    }
}

impl Kind {
    /// Returns the resource of a row with the strategy and the capabilities of the kind.
    pub(crate) fn with_row(&self, mut resource: Resource) -> Resource {
        resource.strategy = Arc::clone(&self.strategy);
        resource.capabilities = self.capabilities.clone();
        resource.rules.metadata_checks = self.metadata_checks;
        resource
    }
}
