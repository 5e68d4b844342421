//! Provenance of the tree of an object: its origin, and what is proven about it.
//!
//! Each origin has a constructor, and each step of a write that may skip work has a query. Layers pass the provenance
//! on and no flags of their own, so that a proof never outlives its reason.

use holdfast_value::Value;

use crate::field::Field;
use crate::field_error::FieldError;
use crate::parts::StoredFacts;
use crate::types::EmptyField;

/// Origin of the tree of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The body of a POST or PUT.
    Body,
    /// Another tree, which the reference converts to a struct without JSON in between.
    Tree,
    /// The store.
    Store,
    /// A JSON patch or merge patch, which the reference runs on the JSON of an object.
    JsonPatch,
    /// A strategic merge patch.
    StrategicPatch,
    /// An apply that merged its configuration into an object, or created one.
    Apply,
    /// An apply that changed only the managers of the existing object.
    Managers,
    /// The existing object, which an apply left as it is.
    Existing,
}

/// Origin of the tree of an object, and what is proven about it.
///
/// ```
/// use holdfast_schema::{Provenance, StoredFacts};
/// use holdfast_value::Value;
///
/// let existing = Value::empty_map();
/// let stored = Provenance::from_store(StoredFacts::default().in_form_of_type()).in_requested_form();
/// // Values that the patched object shares with the existing one need no check of their form.
/// assert!(Provenance::json_patch().changing(&existing, stored).base().is_some());
/// let other_version = Provenance::from_store(StoredFacts::default().in_form_of_type());
/// assert!(Provenance::json_patch().changing(&existing, other_version).base().is_none());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Provenance<'a> {
    origin: Origin,
    in_requested_form: bool,
    as_created: bool,
    in_form_of_type: bool,
    facts: StoredFacts,
    text: Option<&'a [u8]>,
    base: Option<&'a Value>,
    empties: &'a [EmptyField],
}

impl<'a> Provenance<'a> {
    const fn new(origin: Origin) -> Self {
        Self {
            origin,
            in_requested_form: false,
            as_created: false,
            in_form_of_type: false,
            facts: StoredFacts::UNPROVEN,
            text: None,
            base: None,
            empties: &[],
        }
    }

    /// Creates the provenance of a body in this JSON. Findings about it are in the order of the text.
    pub const fn from_json(text: &'a [u8]) -> Self {
        Self {
            text: Some(text),
            ..Self::new(Origin::Body)
        }
    }

    /// Creates the provenance of a body in YAML or CBOR, or of JSON whose text is no longer known.
    pub const fn from_body() -> Self {
        Self::new(Origin::Body)
    }

    /// Creates the provenance of a body in protobuf, whose decoder returns the form of the type.
    pub const fn from_message() -> Self {
        Self {
            in_form_of_type: true,
            ..Self::new(Origin::Body)
        }
    }

    /// Creates the provenance of a tree that the reference converts to a struct without JSON in between.
    pub const fn from_tree() -> Self {
        Self::new(Origin::Tree)
    }

    /// Creates the provenance of a stored object, with the facts that this process found when it stored the object.
    pub const fn from_store(facts: StoredFacts) -> Self {
        Self {
            facts,
            ..Self::new(Origin::Store)
        }
    }

    /// Creates the provenance of the result of a JSON patch or merge patch.
    pub const fn json_patch() -> Self {
        Self::new(Origin::JsonPatch)
    }

    /// Creates the provenance of the result of a strategic merge patch.
    pub const fn strategic_patch() -> Self {
        Self::new(Origin::StrategicPatch)
    }

    /// Creates the provenance of the result of an apply.
    pub const fn apply() -> Self {
        Self::new(Origin::Apply)
    }

    /// Creates the provenance of the existing object after an apply that changed nothing.
    pub const fn existing() -> Self {
        Self::new(Origin::Existing)
    }

    /// Returns this provenance of a stored object that clients get in this form in the requested version.
    #[must_use]
    pub const fn in_requested_form(self) -> Self {
        Self {
            in_requested_form: true,
            ..self
        }
    }

    /// Returns this provenance of a stored object that was not written since its creation.
    #[must_use]
    pub const fn as_created(self) -> Self {
        Self {
            as_created: true,
            ..self
        }
    }

    /// Returns this provenance of a change of `existing`, whose own provenance is `stored`.
    #[must_use]
    pub fn changing(self, existing: &'a Value, stored: Provenance<'_>) -> Self {
        Self {
            base: stored.has_requested_type().then_some(existing),
            ..self
        }
    }

    /// Returns this provenance of an apply that changed only the managers of the existing object.
    #[must_use]
    pub const fn of_managers(self) -> Self {
        Self {
            origin: Origin::Managers,
            ..self
        }
    }

    /// Returns this provenance of an object from a request that gives these fields as empty.
    #[must_use]
    pub const fn with_empties(self, empties: &'a [EmptyField]) -> Self {
        Self { empties, ..self }
    }

    /// Returns this provenance with a base only if it is of the type of `kind` in `api_version`: a patch may change the
    /// kind.
    #[must_use]
    pub(crate) fn with_base_of(self, api_version: &str, kind: &str) -> Self {
        let is = |base: &Value, name, own| base.str_at(&[name]) == Some(own);
        let base = self.base;
        Self {
            base: base.filter(|base| is(base, "kind", kind) && is(base, "apiVersion", api_version)),
            ..self
        }
    }

    /// Returns the origin.
    pub const fn origin(&self) -> Origin {
        self.origin
    }

    /// Returns the JSON of the object, if its findings are in the order of a text.
    pub const fn text(&self) -> Option<&'a [u8]> {
        self.text
    }

    /// Returns true if the reference converts a tree rather than JSON to its struct. It accepts other values then, and
    /// describes invalid ones in other words.
    pub const fn is_tree(&self) -> bool {
        let of_change = matches!(self.origin, Origin::StrategicPatch | Origin::Apply | Origin::Managers);
        of_change || matches!(self.origin, Origin::Tree)
    }

    /// Returns true if an apply, by a client or a policy, made the object. A `null` that it sets stays.
    pub const fn is_applied(&self) -> bool {
        matches!(self.origin, Origin::Apply | Origin::Managers)
    }

    /// Returns the object from which the tree was changed, if it is proven to have the form of its type and its
    /// defaults. Values that the tree shares with it need no check.
    pub const fn base(&self) -> Option<&'a Value> {
        self.base
    }

    /// Returns true if the decoder of the body returned the object in the form of its type.
    pub const fn is_in_form_of_type(&self) -> bool {
        self.in_form_of_type
    }

    /// Returns the facts that this process found when it stored the object.
    pub const fn facts(&self) -> StoredFacts {
        self.facts
    }

    /// Returns true if clients get the stored tree in the requested version, so that no conversion is needed.
    pub const fn is_in_requested_form(&self) -> bool {
        self.in_requested_form
    }

    /// Returns true if the requested version of a stored object is proven to have the form of its type and its
    /// defaults.
    pub const fn has_requested_type(&self) -> bool {
        self.in_requested_form && self.facts.has_form_of_type()
    }

    /// Returns true if a stored object was not written since its creation.
    pub const fn is_as_created(&self) -> bool {
        self.as_created
    }

    /// Returns true if the request gives a field as empty that the object does not hold.
    pub const fn has_empties(&self) -> bool {
        !self.empties.is_empty()
    }

    /// Returns the fields that the request gives as empty and that the object does not hold.
    pub const fn empties(&self) -> &'a [EmptyField] {
        self.empties
    }

    /// Returns the empty value that the request gives in `field`, if it gives one.
    pub fn empty_at(&self, field: &Field<'_, '_>) -> Option<&'a EmptyField> {
        if self.empties.is_empty() {
            return None;
        }
        let path = field.path();
        self.empties.iter().find(|empty| empty.path == path)
    }

    /// Returns true if the request gives an empty value in the field at `path` or below it.
    pub fn gives_empty_in(&self, path: &str) -> bool {
        let is_below = |empty: &EmptyField| {
            let rest = empty.path.as_str().strip_prefix(path);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        self.empties.iter().any(is_below)
    }

    /// Replaces the reported `null` by the empty value in errors of fields that were given as empty.
    pub fn show_empties(&self, errors: &mut [FieldError]) {
        for error in errors {
            if error.value != Some(Value::Null) {
                continue;
            }
            let sent = self.empties.iter().find(|empty| empty.path == error.field);
            error.value = sent.map(EmptyField::value).or(Some(Value::Null));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field_error::FieldPath;
    use crate::types::EmptyKind;

    #[test]
    fn provenance_is_small() {
        assert!(size_of::<Provenance<'_>>() <= 48, "it is passed by value");
    }

    #[test]
    fn base_needs_proof_of_form_and_of_version() {
        let existing = Value::empty_map();
        let formed = Provenance::from_store(StoredFacts::default().in_form_of_type());
        let unproven = Provenance::from_store(StoredFacts::default());
        for (stored, has_base) in [
            (formed.in_requested_form(), true),
            (formed, false),
            (unproven.in_requested_form(), false),
            (Provenance::from_tree(), false),
        ] {
            let changed = Provenance::apply().changing(&existing, stored);
            assert_eq!(changed.base().is_some(), has_base, "{stored:?}");
        }
    }

    #[test]
    fn base_of_another_kind_is_dropped() {
        let mut existing = Value::empty_map();
        existing.set_at(&["kind"], "Pod".into());
        existing.set_at(&["apiVersion"], "v1".into());
        let stored = Provenance::from_store(StoredFacts::default().in_form_of_type()).in_requested_form();
        let changed = Provenance::json_patch().changing(&existing, stored);
        assert!(changed.with_base_of("v1", "Pod").base().is_some());
        assert!(changed.with_base_of("v1", "Node").base().is_none());
        assert!(changed.with_base_of("v2", "Pod").base().is_none());
    }

    #[test]
    fn errors_show_what_was_given_as_empty() {
        let empties = [EmptyField {
            path: FieldPath::new("spec").child("items").index(2).child("labels"),
            kind: EmptyKind::Map,
        }];
        let provenance = Provenance::from_body().with_empties(&empties);
        assert!(provenance.gives_empty_in("spec.items") && !provenance.gives_empty_in("spec.item"));
        let at = |path: &FieldPath| FieldError::invalid(path, Value::Null, "wrong");
        let mut errors = empties.each_ref().map(|empty| at(&empty.path)).to_vec();
        errors.push(at(&FieldPath::new("spec")));
        provenance.show_empties(&mut errors);
        let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(
            texts,
            [
                "spec.items[2].labels: Invalid value: {}: wrong",
                "spec: Invalid value: null: wrong"
            ]
        );
    }
}
