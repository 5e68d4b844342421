//! Shared test harness of the kinds: YAML in, typed objects out, and validation errors as text.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_types,
    reason = "what fails here is the test"
)]

mod surroundings;

use std::sync::{Arc, LazyLock, Mutex};

use holdfast_authorization::{AlwaysAllow, User};
use holdfast_kind_tables::apis::Apis;
use holdfast_kind_tables::features::{FeatureGates, Features};
use holdfast_kind_tables::written_types;
use holdfast_resource::access::Access;
use holdfast_resource::{ActionStep, ComputedObjects, Operation, Rejection, Resource, Responder, Review, WriteContext};
use holdfast_schema::metadata::new_object;
use holdfast_schema::types::EmptyField;
use holdfast_schema::{FieldError, GroupKind, GroupResource, GroupVersion, GroupVersionKind, TableTypes};
use holdfast_value::{Limits, Value, yaml};
use holdfast_writes::testing::{UID, World};
use holdfast_writes::{Call, Stage, metadata};

use crate::config::Config;
use crate::registry::{registry, registry_with_types};

/// Set of kinds and of objects that they can look up. `holdfast_writes` defines the steps of a write.
pub struct Harness {
    world: World,
    objects: Vec<Value>,
    /// Only permissions of the user, as `verb resource/subresource`; all permissions if `None`.
    rights: Option<Vec<String>>,
    /// Namespace of objects, if it is not the usual one.
    namespace: Option<String>,
    /// Fields that the last parsed text sets to empty values.
    empties: Mutex<Vec<EmptyField>>,
}

impl Harness {
    /// Returns a harness with the defaults of all flags.
    #[expect(clippy::new_without_default, reason = "a test names what it needs")]
    pub fn new() -> Self {
        Self::with_config(&Config::default())
    }

    /// Returns a harness with this value of `--feature-gates`.
    pub fn with_gates(gates: &str) -> Self {
        Self::serving("", gates)
    }

    /// Returns a harness with these values of `--runtime-config` and `--feature-gates`.
    pub fn serving(apis: &str, gates: &str) -> Self {
        Self::with_config(&Config {
            features: FeatureGates::set(&[gates.to_owned()]).unwrap().features(),
            apis: Apis::set(&[apis.to_owned()]).unwrap(),
            ..Config::default()
        })
    }

    fn with_config(config: &Config) -> Self {
        static TYPES: LazyLock<Arc<TableTypes>> = LazyLock::new(|| {
            let types = written_types(&Apis::default(), Features::default());
            TableTypes::new(Arc::new(types.unwrap()))
        });
        let registry = match config.apis == Apis::default() && config.features == Features::default() {
            true => registry_with_types(config, &TYPES).unwrap(),
            false => registry(config).unwrap(),
        };
        Self {
            world: World::new(registry),
            objects: Vec::new(),
            rights: None,
            namespace: None,
            empties: Mutex::default(),
        }
    }

    /// Sets the only permissions of the user, each `verb resource/subresource`.
    pub fn allowing(mut self, rights: &[&str]) -> Self {
        self.rights = Some(rights.iter().map(|&right| right.to_owned()).collect());
        self
    }

    /// Sets the user who writes.
    pub fn written_by(mut self, name: &str, groups: &[&str]) -> Self {
        self.world.user = Arc::new(User {
            name: name.into(),
            groups: groups.iter().map(|&group| group.into()).collect(),
            ..User::default()
        });
        self
    }

    /// Sets the namespace in which objects are written.
    pub fn in_namespace(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.to_owned());
        self
    }

    /// Stores an object.
    pub fn with(mut self, text: &str) -> Self {
        let object = self.read(text);
        self.objects.push(object);
        self
    }

    /// Returns the object before any step of a write: typed, with all defaults, in the version in which it is
    /// written.
    pub fn read(&self, text: &str) -> Value {
        let object = yaml::parse(text.as_bytes(), &Limits::default()).unwrap();
        let kind = kind_of(&object);
        let kind_type = self
            .world
            .registry
            .types()
            .kind(&kind.group_version.api_version(), &kind.kind);
        *self.empties.lock().unwrap() = kind_type.unwrap().decode(&object).unwrap().empties;
        self.typed(&object)
    }

    fn typed(&self, object: &Value) -> Value {
        let kind = kind_of(object);
        let types = self.world.registry.types();
        let kind_type = types.kind(&kind.group_version.api_version(), &kind.kind).unwrap();
        let mut typed = kind_type.decode(object).unwrap().object;
        typed.set_at(&["apiVersion"], kind.group_version.api_version().into());
        typed.set_at(&["kind"], kind.kind.clone().into());
        kind_type.fill_in(typed).unwrap()
    }

    /// Returns the value at `path` of the response to a POST of a review, or the errors.
    pub fn answer(&self, text: &str, path: &str) -> Result<String, Vec<String>> {
        let object = self.read(text);
        let answer = self.call(&object, None, None, |resource, context| {
            answered(review(resource, ""), context, object.clone())
        });
        match answer {
            Ok(answer) => Ok(at(&answer, path)),
            Err(Rejection::Invalid(errors)) => Err(texts(&errors)),
            Err(rejection) => Err(vec![format!("{rejection:?}")]),
        }
    }

    /// Reads computed objects.
    pub fn read_computed<T>(
        &self,
        api_version: &str,
        kind: &str,
        read: impl FnOnce(&dyn ComputedObjects, &WriteContext<'_>) -> T,
    ) -> T {
        let mut object = Value::empty_map();
        object.set_at(&["apiVersion"], api_version.into());
        object.set_at(&["kind"], kind.into());
        self.call(&object, None, None, |resource, context| {
            let Some(Responder::Computed(objects)) = resource.capabilities.responder("") else {
                panic!("{kind} is not computed")
            };
            read(objects.as_ref(), context)
        })
    }

    fn resource(&self, object: &Value) -> &Arc<Resource> {
        self.resource_of(object).unwrap()
    }

    fn resource_of(&self, object: &Value) -> Option<&Arc<Resource>> {
        let kind = kind_of(object);
        let group_kind = GroupKind {
            group: kind.group_version.group,
            kind: kind.kind,
        };
        self.world.registry.kind(&group_kind)
    }

    /// Returns the object that a create of `text` stores.
    pub fn create(&self, text: &str) -> Value {
        let mut object = self.read(text);
        self.prepare(&mut object, None, None).unwrap();
        self.typed(&object)
    }

    /// Returns the errors of a new object as texts.
    pub fn errors(&self, text: &str) -> Vec<String> {
        let mut object = self.read(text);
        match self.prepare(&mut object, None, None) {
            Ok(()) => texts(&self.run(&object, None, None, |stage, call| stage.errors_of_new(call, &object))),
            Err(Rejection::Invalid(errors)) => texts(&errors),
            Err(rejection) => vec![format!("{rejection:?}")],
        }
    }

    /// Returns the errors of an update of the stored object `old` to the object of `text`.
    pub fn update_errors(&self, old: &str, text: &str) -> Vec<String> {
        self.subresource_errors(None, old, text)
    }

    /// Returns the errors of a write to a subresource, like [`Harness::update_errors`].
    pub fn subresource_errors(&self, subresource: Option<&str>, old: &str, text: &str) -> Vec<String> {
        let old = self.create(old);
        let mut object = self.read(text);
        if let Some(uid) = old.at(&["metadata", "uid"]) {
            object.set_at(&["metadata", "uid"], uid.clone());
        }
        match self.prepare(&mut object, Some(&old), subresource) {
            Ok(()) => texts(&self.run(&object, Some(&old), subresource, |stage, call| {
                stage.errors_of_changed(call, &object, &old)
            })),
            Err(Rejection::Invalid(errors)) => texts(&errors),
            Err(rejection) => vec![format!("{rejection:?}")],
        }
    }

    /// Returns the steps that a POST of `body` to a subresource of the object `name` plans, or its error.
    pub fn plan(&self, plural: &str, subresource: &str, name: &str, body: &str) -> Result<Vec<ActionStep>, String> {
        let resource = self.core_resource(plural);
        let body = yaml::parse(body.as_bytes(), &Limits::default()).unwrap();
        let Some(Responder::Action(action)) = resource.capabilities.responder(subresource) else {
            panic!("{subresource} is no action")
        };
        let named = named(resource, name);
        let planned = self.call(&named, None, Some(subresource), |_, context| {
            action.check(context, &body)?;
            action.plan(context, &body)
        });
        planned.map_err(|rejection| format!("{rejection:?}"))
    }

    /// Returns the response to a POST of `body` to a review below the object `name` with its warnings, or its error.
    pub fn subresource_answer(
        &self,
        plural: &str,
        subresource: &str,
        name: &str,
        body: &str,
    ) -> Result<(Value, Vec<String>), String> {
        let resource = self.core_resource(plural);
        let body = self.read(body);
        let named = named(resource, name);
        let answer = self.call(&named, None, Some(subresource), |_, context| {
            let answer = answered(review(resource, subresource), context, body)?;
            Ok((answer, std::mem::take(&mut context.beside.lock().warnings)))
        });
        answer.map_err(|rejection: Rejection| format!("{rejection:?}"))
    }

    /// Returns the result of a request through a subresource of the object `name`, with one option.
    pub fn connect(&self, plural: &str, subresource: &str, name: &str, option: Option<(&str, &str)>) -> String {
        let resource = self.core_resource(plural);
        let mut options = Value::empty_map();
        if let Some((option, value)) = option {
            let number = value.parse().map(Value::Int);
            options.set_at(&[option], number.unwrap_or_else(|_| value.into()));
        }
        let named = named(resource, name);
        let connection = self.call(&named, None, Some(subresource), |resource, context| {
            resource
                .capabilities
                .connecter(subresource)
                .unwrap()
                .connect(context, &options)
        });
        format!("{connection:?}")
    }

    /// Returns the resource of the core group with this plural name.
    pub fn core_resource(&self, plural: &str) -> &Resource {
        let resource = GroupResource {
            group: Default::default(),
            resource: plural.into(),
        };
        self.world.registry.resource(&resource).unwrap()
    }

    /// Returns the errors of an update of `old` to `object`, both used as they are.
    pub fn check_update(&self, subresource: Option<&str>, old: &Value, object: &Value) -> Vec<String> {
        texts(&self.run(object, Some(old), subresource, |stage, call| {
            stage.errors_of_changed(call, object, old)
        }))
    }

    /// Returns the object that an update of `old` stores.
    pub fn update(&self, old: &Value, text: &str) -> Value {
        let mut object = self.read(text);
        self.prepare(&mut object, Some(old), None).unwrap();
        self.typed(&object)
    }

    /// Returns `object` after the preparation of a write to a subresource that replaces `old`.
    pub fn shaped(&self, subresource: Option<&str>, old: &Value, mut object: Value) -> Value {
        self.prepare(&mut object, Some(old), subresource).unwrap();
        object
    }

    /// Returns the warnings of a valid new object.
    pub fn warnings(&self, text: &str) -> Vec<String> {
        let object = self.read(text);
        self.call(&object, None, None, |resource, context| {
            resource.strategy.warnings(context, &object, None)
        })
    }

    /// Returns the warnings of an object that replaces another.
    pub fn update_warnings(&self, old: &str, new: &str) -> Vec<String> {
        let (old, new) = (self.read(old), self.read(new));
        self.call(&new, Some(&old), None, |resource, context| {
            resource.strategy.warnings(context, &new, Some(&old))
        })
    }

    /// Returns the warnings of a write to a subresource that changes nothing.
    pub fn subresource_warnings(&self, subresource: &str, text: &str) -> Vec<String> {
        let object = self.read(text);
        self.call(&object, Some(&object), Some(subresource), |resource, context| {
            resource.strategy.warnings(context, &object, Some(&object))
        })
    }

    fn prepare(&self, object: &mut Value, old: Option<&Value>, subresource: Option<&str>) -> Result<(), Rejection> {
        let shown = object.clone();
        self.run(&shown, old, subresource, |stage, call| match old {
            Some(old) => {
                // The path names the object.
                for field in ["name", "namespace"] {
                    metadata::take(object, old, &["metadata", field]);
                }
                stage.prepare_changed(call, object, old)
            }
            None => {
                object.set_at(&["metadata", "uid"], UID.into());
                metadata::set_namespace(object, call.namespace);
                if metadata::wanted_name(object).is_empty() {
                    object.set_at(&["metadata", "name"], "nameless".into());
                }
                stage.prepare_new(call, object)
            }
        })
    }

    /// Calls `step` with the resource and the context of a write of `object`.
    pub fn call<T>(
        &self,
        object: &Value,
        old: Option<&Value>,
        subresource: Option<&str>,
        step: impl FnOnce(&Resource, &WriteContext<'_>) -> T,
    ) -> T {
        let resource = self.resource(object);
        self.run(object, old, subresource, |_, call| step(resource, call))
    }

    /// Calls `step` with the stage of a write of `object`.
    fn run<T>(
        &self,
        object: &Value,
        old: Option<&Value>,
        subresource: Option<&str>,
        step: impl FnOnce(&Stage<'_>, &Call<'_>) -> T,
    ) -> T {
        let operation = match old {
            Some(_) => Operation::Update,
            None => Operation::Create,
        };
        self.run_as(operation, object, subresource, step)
    }

    /// Calls `step` with the stage of a write by this operation.
    pub fn run_as<T>(
        &self,
        operation: Operation,
        object: &Value,
        subresource: Option<&str>,
        step: impl FnOnce(&Stage<'_>, &Call<'_>) -> T,
    ) -> T {
        let resource = self.resource(object);
        let mut target = self.world.target(resource, object, subresource.unwrap_or_default());
        if let Some(namespace) = &self.namespace {
            target.namespace = namespace.as_str().into();
        }
        target.body.empties.clone_from(&self.empties.lock().unwrap());
        let access = Access {
            authorizer: match &self.rights {
                Some(_) => self,
                None => &AlwaysAllow,
            },
            tokens: &surroundings::TesterToken,
            issuer: &surroundings::TesterToken,
        };
        let environment = self.world.environment(self, access);
        let stage = Stage::new(environment, &target);
        let call = stage.call(operation, &target.name);
        step(&stage, &call)
    }
}

/// Returns the response of a review, with the steps of the server.
fn answered(review: &dyn Review, context: &WriteContext<'_>, mut object: Value) -> Result<Value, Rejection> {
    review.prepare(context, &mut object)?;
    review.review(context, object)
}

/// Returns the review at `subresource`.
fn review<'r>(resource: &'r Resource, subresource: &str) -> &'r dyn Review {
    match resource.capabilities.responder(subresource) {
        Some(Responder::Review(review)) => review.as_ref(),
        _ => panic!("{} has no review at {subresource:?}", resource.plural),
    }
}

/// Returns an object that has only its name.
pub fn named(resource: &Resource, name: &str) -> Value {
    new_object(&resource.versions[0].api_version, &resource.kind, "", name)
}

fn kind_of(object: &Value) -> GroupVersionKind {
    GroupVersionKind {
        group_version: GroupVersion::parse(object.str_at(&["apiVersion"]).unwrap()).unwrap(),
        kind: object.str_at(&["kind"]).unwrap().into(),
    }
}

fn texts(errors: &[FieldError]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

/// Returns the value at a path of names and indices, such as `spec.containers.0.image`, as JSON.
pub fn at(object: &Value, path: &str) -> String {
    let found = path
        .split('.')
        .try_fold(object, |node, part| match part.parse::<usize>() {
            Ok(index) => node.as_list()?.get(index),
            Err(_) => node.get(part),
        });
    found.map_or_else(|| "nothing".to_owned(), holdfast_value::json::to_string)
}
