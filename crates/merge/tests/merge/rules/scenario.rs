//! Test fixtures: a schema with each kind of type, and an object that managers write to.

use std::sync::{Arc, LazyLock};

use holdfast_merge::{
    ApplyError, Converter, Duplicates, IdentityConverter, Managers, Schema, SchemaBuilder, Set, TypeRef, Typed,
    Updater, UpdaterBuilder,
};
use holdfast_value::{Limits, Value, json, yaml};

/// Types of every kind, in the reference's schema language.
const SCHEMA: &str = "
types:
- name: Thing
  map:
    fields:
    - {name: text, type: {scalar: string}}
    - {name: number, type: {scalar: numeric}}
    - {name: flag, type: {scalar: boolean}}
    - {name: any, type: {scalar: untyped}}
    - {name: labels, type: {map: {elementType: {scalar: string}}}}
    - {name: annotations, type: {map: {elementType: {scalar: string}, elementRelationship: atomic}}}
    - {name: tags, type: {list: {elementType: {scalar: string}, elementRelationship: associative}}}
    - {name: args, type: {list: {elementType: {scalar: string}, elementRelationship: atomic}}}
    - {name: ports, type: {list: {elementType: {namedType: Port}, elementRelationship: associative, keys: [port, protocol]}}}
    - {name: items, type: {list: {elementType: {namedType: Item}, elementRelationship: associative, keys: [name]}}}
    - {name: inner, type: {namedType: Thing}}
    - {name: block, type: {namedType: Thing, elementRelationship: atomic}}
    - {name: free, type: {namedType: __untyped_deduced_}}
- name: Port
  map:
    fields:
    - {name: port, type: {scalar: numeric}}
    - {name: protocol, type: {scalar: string}, default: TCP}
    - {name: title, type: {scalar: string}}
- name: Item
  map:
    fields:
    - {name: name, type: {scalar: string}}
    - {name: value, type: {scalar: numeric}}
    - {name: options, type: {map: {elementType: {scalar: string}}}}
- name: __untyped_atomic_
  scalar: untyped
  list: {elementType: {namedType: __untyped_atomic_}, elementRelationship: atomic}
  map: {elementType: {namedType: __untyped_atomic_}, elementRelationship: atomic}
- name: __untyped_deduced_
  scalar: untyped
  list: {elementType: {namedType: __untyped_atomic_}, elementRelationship: atomic}
  map: {elementType: {namedType: __untyped_deduced_}, elementRelationship: separable}
";

static COMPILED: LazyLock<(Arc<Schema>, TypeRef)> = LazyLock::new(|| {
    let schema = schema(SCHEMA);
    let thing = schema.named("Thing").unwrap();
    (schema, thing)
});

/// Compiles a schema in the reference's language.
pub(crate) fn schema(text: &str) -> Arc<Schema> {
    let document = yaml::parse(text.as_bytes(), &Limits::default()).unwrap();
    Arc::new(SchemaBuilder::read(&document).unwrap().build())
}

/// A value in YAML.
pub(crate) fn value(text: &str) -> Value {
    yaml::parse(text.as_bytes(), &Limits::default()).unwrap()
}

/// Parses a thing in YAML without validation.
pub(crate) fn thing(text: &str) -> Typed {
    let (schema, type_ref) = &*COMPILED;
    Typed::unchecked(value(text), Arc::clone(schema), *type_ref)
}

/// A thing in YAML that is valid.
pub(crate) fn valid(text: &str) -> Typed {
    let (schema, type_ref) = &*COMPILED;
    Typed::new(value(text), Arc::clone(schema), *type_ref, Duplicates::Rejected).unwrap()
}

/// A set in the YAML form of FieldsV1.
pub(crate) fn fields(text: &str) -> Set {
    Set::from_fields_v1_value(&value(text)).unwrap()
}

/// Compares objects by their JSON text.
#[track_caller]
pub(crate) fn assert_value(got: &Typed, expected: &str) {
    assert_eq!(json::to_string(got.value()), json::to_string(&value(expected)));
}

/// An object and its managers, written to step by step.
pub(crate) struct Scenario<C = IdentityConverter> {
    pub(crate) updater: Updater<C>,
    pub(crate) existing: Typed,
    pub(crate) managers: Managers,
    pub(crate) version: &'static str,
}

impl Scenario {
    /// No object and no managers.
    pub(crate) fn new() -> Self {
        Self::with(UpdaterBuilder::new(IdentityConverter))
    }
}

impl<C: Converter> Scenario<C> {
    pub(crate) fn with(updater: UpdaterBuilder<C>) -> Self {
        Self {
            updater: updater.build(),
            existing: thing("null"),
            managers: Managers::new(),
            version: "v1",
        }
    }

    /// Goes on in another version.
    pub(crate) fn at(mut self, version: &'static str) -> Self {
        self.version = version;
        self
    }

    #[track_caller]
    pub(crate) fn apply(self, manager: &str, config: &str) -> Self {
        self.apply_with(manager, config, false)
    }

    #[track_caller]
    pub(crate) fn force(self, manager: &str, config: &str) -> Self {
        self.apply_with(manager, config, true)
    }

    #[track_caller]
    fn apply_with(mut self, manager: &str, config: &str, force: bool) -> Self {
        let managers = std::mem::take(&mut self.managers);
        match self
            .updater
            .apply(&self.existing, &thing(config), self.version, managers, manager, force)
        {
            Ok(applied) => {
                self.existing = applied.object.unwrap_or(self.existing);
                self.managers = applied.managers;
                self
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// Applies a configuration that must fail, and returns the error.
    #[track_caller]
    pub(crate) fn rejected(&self, manager: &str, config: &str) -> ApplyError {
        let managers = self.managers.clone();
        let applied = self
            .updater
            .apply(&self.existing, &thing(config), self.version, managers, manager, false);
        applied.map(|applied| applied.managers).unwrap_err()
    }

    /// Applies a configuration that must not change the object.
    #[track_caller]
    pub(crate) fn unchanged(mut self, manager: &str, config: &str) -> Self {
        let managers = std::mem::take(&mut self.managers);
        let applied = self
            .updater
            .apply(&self.existing, &thing(config), self.version, managers, manager, false)
            .unwrap();
        assert!(applied.object.is_none(), "the apply changed the object");
        self.managers = applied.managers;
        self
    }

    #[track_caller]
    pub(crate) fn update(mut self, manager: &str, new: &str) -> Self {
        let managers = std::mem::take(&mut self.managers);
        (self.existing, self.managers) = self
            .updater
            .update(&self.existing, &thing(new), self.version, managers, manager)
            .unwrap();
        self
    }

    #[track_caller]
    pub(crate) fn object(self, expected: &str) -> Self {
        assert_value(&self.existing, expected);
        self
    }

    #[track_caller]
    pub(crate) fn owns(self, manager: &str, expected: &str) -> Self {
        let owned = self
            .managers
            .get(manager)
            .unwrap_or_else(|| panic!("{manager} owns nothing"));
        assert_eq!(
            owned.set,
            fields(expected),
            "{manager} owns {}",
            owned.set.to_fields_v1()
        );
        self
    }

    #[track_caller]
    pub(crate) fn owns_nothing(self, manager: &str) -> Self {
        assert!(self.managers.get(manager).is_none(), "{manager} owns something");
        self
    }
}
