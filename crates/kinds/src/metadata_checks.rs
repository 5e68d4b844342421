//! How often the validation of each kind looks at metadata, beside the checks for all kinds.

use holdfast_resource::{CreationChecks, MetadataChecks, RepeatedChecks, UpdateOrder};

/// As most kinds do: the core group's checks, as at creation and against the old object; of a status the latter.
pub(crate) const MOST: MetadataChecks = of_core(1, 1);

/// By the checks of the core group: an update of the object looks so often at the whole metadata and at the change.
pub(crate) const fn of_core(whole: u8, update: u8) -> MetadataChecks {
    MetadataChecks {
        object: RepeatedChecks { whole, update },
        subresource: RepeatedChecks { whole: 0, update: 1 },
        finalizer_names: true,
        at_creation: CreationChecks::First,
        generated_names: true,
        update_order: UpdateOrder::ChangeFirst,
    }
}

/// As `checks`, and of a new object at that time.
pub(crate) const fn at_creation(checks: MetadataChecks, at_creation: CreationChecks) -> MetadataChecks {
    MetadataChecks { at_creation, ..checks }
}

/// By the checks of apimachinery, which do not look at the names of finalizers.
pub(crate) const fn of_apimachinery(whole: u8, update: u8) -> MetadataChecks {
    MetadataChecks {
        finalizer_names: false,
        ..of_core(whole, update)
    }
}

/// As `checks`, and so often for an update of the status.
pub(crate) const fn with_status(checks: MetadataChecks, whole: u8, update: u8) -> MetadataChecks {
    MetadataChecks {
        subresource: RepeatedChecks { whole, update },
        ..checks
    }
}

/// As `checks`, where an update of the object reports its faults in this order.
pub(crate) const fn in_order(update_order: UpdateOrder, checks: MetadataChecks) -> MetadataChecks {
    MetadataChecks { update_order, ..checks }
}

/// As `checks`, where no rule of the kind holds for `generateName` (`ValidateObjectMetaWithOpts`).
pub(crate) const fn generating_any_name(checks: MetadataChecks) -> MetadataChecks {
    MetadataChecks {
        generated_names: false,
        ..checks
    }
}
