//! Number of times that the validation of each kind checks metadata, in addition to the checks for all kinds.

use holdfast_schema::{CreationChecks, MetadataChecks, RepeatedChecks, UpdateOrder};

/// Checks of most kinds: those of the core group, of the whole object and against the old one; for the status only the
/// latter.
pub const COMMON_CHECKS: MetadataChecks = of_core(1, 1);

/// Returns the checks of the core group, with the number of checks of the whole metadata and of the change by an
/// update.
pub const fn of_core(whole: u8, update: u8) -> MetadataChecks {
    MetadataChecks {
        object: RepeatedChecks { whole, update },
        subresource: RepeatedChecks { whole: 0, update: 1 },
        finalizer_names: true,
        at_creation: CreationChecks::First,
        generated_names: true,
        update_order: UpdateOrder::ChangeFirst,
    }
}

/// Returns `checks` with this time for the checks of a new object.
pub const fn at_creation(checks: MetadataChecks, at_creation: CreationChecks) -> MetadataChecks {
    MetadataChecks { at_creation, ..checks }
}

/// Returns the checks of apimachinery, which do not validate the names of finalizers.
pub const fn of_apimachinery(whole: u8, update: u8) -> MetadataChecks {
    MetadataChecks {
        finalizer_names: false,
        ..of_core(whole, update)
    }
}

/// Returns `checks` with these numbers for an update of the status.
pub const fn with_status(checks: MetadataChecks, whole: u8, update: u8) -> MetadataChecks {
    MetadataChecks {
        subresource: RepeatedChecks { whole, update },
        ..checks
    }
}

/// Returns `checks` with this order of the errors of an update.
pub const fn in_order(update_order: UpdateOrder, checks: MetadataChecks) -> MetadataChecks {
    MetadataChecks { update_order, ..checks }
}

/// Returns `checks` without the kind's rule for `generateName` (`ValidateObjectMetaWithOpts`).
pub const fn generating_any_name(checks: MetadataChecks) -> MetadataChecks {
    MetadataChecks {
        generated_names: false,
        ..checks
    }
}
