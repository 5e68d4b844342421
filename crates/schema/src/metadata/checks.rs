//! Rules for the metadata of a resource's objects, as data.

use holdfast_value::Value;

use super::formats::Messages;
use super::name::{NameRule, without_dash};

/// Rules for the metadata of the objects of one resource.
#[derive(Clone, Copy)]
pub struct MetadataRules<'r> {
    /// True if objects are namespaced.
    pub namespaced: bool,
    /// Rule for valid names.
    pub name: NameRule,
    /// Validation of a name, or of the beginning of one, if the rule is [`NameRule::Own`].
    pub own_name: Option<fn(&Value, &str) -> Messages>,
    /// Repetitions of the metadata checks by the kind's own validation.
    pub checks: &'r MetadataChecks,
}

impl MetadataRules<'_> {
    /// Validates the name of an object.
    pub(super) fn name_errors(&self, object: &Value, name: &str) -> Messages {
        match self.name {
            NameRule::Own => self.own_name_errors(object, name),
            rule => rule.check(name),
        }
    }

    /// Validates the beginning of the name of an object.
    pub(super) fn prefix_errors(&self, object: &Value, prefix: &str) -> Messages {
        if !self.checks.generated_names {
            return Messages::default();
        }
        match self.name {
            NameRule::Own => self.own_name_errors(object, &without_dash(prefix)),
            rule => rule.check_prefix(prefix),
        }
    }

    fn own_name_errors(&self, object: &Value, name: &str) -> Messages {
        self.own_name.map(|of| of(object, name)).unwrap_or_default()
    }
}

/// Repetitions, by the validation of a kind, of the metadata checks that already ran for all kinds. Clients see each
/// validation error as often among the causes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetadataChecks {
    /// Checks in an update of the object itself.
    pub object: RepeatedChecks,
    /// Checks in an update of its status or another subresource.
    pub subresource: RepeatedChecks,
    /// True if finalizers without a domain must be standard ones. Some kinds only warn.
    pub finalizer_names: bool,
    /// True if the kind's own name rule also applies to `generateName`.
    pub generated_names: bool,
    /// Order of the errors of an update of the object itself, or of one that checks metadata as a whole.
    pub update_order: UpdateOrder,
    /// Position of the metadata checks of a new object.
    pub at_creation: CreationChecks,
}

/// Order of the validation errors of an update: those of metadata as a whole, those of changed metadata, and all
/// others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UpdateOrder {
    /// Changed metadata, metadata as a whole, all others.
    #[default]
    ChangeFirst,
    /// Metadata as a whole, changed metadata, all others.
    WholeFirst,
    /// The whole object, metadata first, and then its changes, metadata first.
    ObjectFirst,
    /// Changes of the object, metadata first, and then the whole object, metadata first.
    ChangesFirst,
}

/// Position of the metadata checks in the validation of a new object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CreationChecks {
    /// Before all other checks.
    #[default]
    First,
    /// In the kind's own strategy.
    Own,
    /// After all other checks, if the object is valid so far.
    Last,
}

impl MetadataChecks {
    /// Checks of custom objects: `ValidateObjectMetaUpdate` of apimachinery, which only warns of finalizers.
    pub const CUSTOM: Self = Self {
        object: RepeatedChecks { whole: 0, update: 1 },
        subresource: RepeatedChecks { whole: 0, update: 1 },
        finalizer_names: false,
        at_creation: CreationChecks::First,
        generated_names: true,
        update_order: UpdateOrder::ChangeFirst,
    };

    /// Returns the repetitions for a write to `subresource`, which is empty for the object itself.
    pub fn for_subresource(&self, subresource: &str) -> RepeatedChecks {
        if subresource.is_empty() {
            self.object
        } else {
            self.subresource
        }
    }
}

/// Repetitions of the metadata checks by the validation of an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RepeatedChecks {
    /// Checks that also run at creation: `ValidateObjectMeta`.
    pub whole: u8,
    /// Comparison with the old object: `ValidateObjectMetaUpdate`.
    pub update: u8,
}
