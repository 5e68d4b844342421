//! Results of runs over small objects, rule by rule.

#![allow(clippy::unwrap_used, clippy::panic, reason = "what fails here is the test")]

mod admission;
mod deletions;
mod known;
mod layers;
mod patches;
mod reads;
mod webhooks;

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use holdfast_authorization::AlwaysDeny;
use holdfast_ownership::ApplyOptions;
use holdfast_resource::access::Access;
use holdfast_resource::{Lookup, RawForm, Resource};
use holdfast_schema::{GroupKind, GroupResource, GroupVersion};
use holdfast_value::{Limits, Value, json, merge_patch, yaml};

use crate::change::{Change, Patch};
use crate::deletion::is_marked_first;
use crate::error::{Error, ErrorKind};
use crate::metadata;
use crate::options::{DeleteOptions, FieldValidation};
use crate::reads::RunInput;
use crate::stage::Stage;
use crate::staged::{Staged, StoredObject, Write};
use crate::target::Target;
use crate::testing::{UID, World};

/// No other object is stored.
struct Nothing;

impl Lookup for Nothing {
    fn get(&self, _: &GroupResource, _: &str, _: &str) -> Option<Value> {
        None
    }

    fn list(&self, _: &GroupResource, _: &str, _: &mut dyn FnMut(&Value) -> ControlFlow<()>) {}
}

fn world() -> World {
    World::new(holdfast_kinds::registry(&holdfast_kinds::Config::default()).unwrap())
}

fn tree(text: &str) -> Value {
    yaml::parse(text.as_bytes(), &Limits::REQUEST).unwrap()
}

fn resource_of<'w>(world: &'w World, object: &Value) -> &'w Arc<Resource> {
    let version = GroupVersion::parse(object.str_at(&["apiVersion"]).unwrap()).unwrap();
    let kind = object.str_at(&["kind"]).unwrap().into();
    world
        .registry
        .kind(&GroupKind {
            group: version.group,
            kind,
        })
        .unwrap()
}

/// Decodes an object like a request body: typed, with its defaults.
fn decoded(world: &World, text: &str) -> Value {
    let object = tree(text);
    let version = object.str_at(&["apiVersion"]).unwrap();
    let kind_type = resource_of(world, &object).kind_type(version).unwrap();
    kind_type.fill_in(kind_type.decode(&object).unwrap().object).unwrap()
}

fn target(world: &World, object: &Value, subresource: &str) -> Target {
    world.target(resource_of(world, object), object, subresource)
}

fn run<T>(world: &World, target: &Target, run: impl AsyncFnOnce(&Stage<'_>) -> T) -> T {
    let stage = Stage::new(world.environment(&Nothing, Access::UNCHECKED), target);
    run(&stage).now_or_never().unwrap()
}

fn create(world: &World, text: &str) -> Result<Staged, Error> {
    let object = decoded(world, text);
    let target = target(world, &object, "");
    run(world, &target, async |stage| stage.create(object).await)
}

/// Returns the object that a creation stores, at resource version 7.
fn stored(world: &World, text: &str) -> Value {
    let mut object = create(world, text).unwrap().object;
    object.set_at(&["metadata", "resourceVersion"], "7".into());
    object
}

fn update_at(world: &World, target: &Target, existing: Option<&Value>, change: &Change) -> Result<Staged, Error> {
    let existing = existing.map(|stored| StoredObject::unproven(stored.clone()));
    run(world, target, async |stage| {
        stage.update(change, existing.as_ref()).await
    })
}

fn put(object: Value) -> Change {
    Change::Replace {
        object,
        warnings: Vec::new(),
    }
}

/// Runs a PUT of `text` over the existing object `existing`.
fn replace(world: &World, existing: &Value, subresource: &str, text: &str) -> Result<Staged, Error> {
    let target = target(world, existing, subresource);
    update_at(world, &target, Some(existing), &put(decoded(world, text)))
}

fn apply(text: &str, force: bool) -> Change {
    Change::Apply {
        applied: tree(text),
        findings: Vec::new(),
        validation: FieldValidation::Strict,
        options: ApplyOptions::from_force(force),
    }
}

fn kind_of(result: Result<Staged, Error>) -> ErrorKind {
    match result {
        Ok(staged) => panic!("staged {}", json::to_string(&staged.object)),
        Err(error) => error.into_parts().0,
    }
}

const CONFIG: &str = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {a: '1'}}";

const DEPLOYMENT: &str = "{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}, spec: {replicas: 1, selector: \
                          {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, \
                          image: i}]}}}}";

#[test]
fn new_object_gets_an_identity_from_the_server() {
    let world = world();
    let text = "{apiVersion: v1, kind: ConfigMap, metadata: {generateName: a-, uid: mine, creationTimestamp: \
                '2000-01-01T00:00:00Z'}}";
    let staged = create(&world, text).unwrap();
    assert_eq!(staged.write, Write::Put);
    assert_eq!(metadata::name(&staged.object), "a-bcdfg");
    assert_eq!(metadata::uid(&staged.object), UID);
    let born = staged.object.str_at(&["metadata", "creationTimestamp"]);
    assert_eq!(born, Some("2001-09-09T01:46:40Z"));
    assert_eq!(staged.object.str_at(&["metadata", "namespace"]), Some("default"));
}

#[test]
fn an_invalid_object_is_refused_with_its_errors() {
    let error = create(
        &world(),
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: A}, data: {'/': x}}",
    );
    let ErrorKind::Invalid { kind, errors, .. } = kind_of(error) else {
        panic!("not invalid")
    };
    let fields: Vec<&str> = errors.iter().map(|error| error.field.as_str()).collect();
    assert_eq!(
        (kind.kind.as_str(), fields.as_slice()),
        ("ConfigMap", &["metadata.name", "data[/]"][..])
    );
}

#[test]
fn defaults_are_filled_in_before_ownership_is_tracked() {
    let object = stored(&world(), DEPLOYMENT);
    let managers = object
        .at(&["metadata", "managedFields"])
        .and_then(Value::as_list)
        .unwrap();
    let owned = managers[0].at(&["fieldsV1", "f:spec", "f:progressDeadlineSeconds"]);
    assert!(owned.is_some(), "{}", json::to_string(&object));
}

#[test]
fn reset_fields_keep_their_values_and_get_no_owner() {
    let world = world();
    let existing = stored(&world, DEPLOYMENT);
    let with_status = DEPLOYMENT
        .replace("replicas: 1,", "replicas: 2,")
        .replace("spec: {replicas", "status: {replicas: 5}, spec: {replicas");
    let object = replace(&world, &existing, "", &with_status).unwrap().object;
    assert_eq!(object.at(&["spec", "replicas"]), Some(&Value::Int(2)));
    assert_eq!(object.at(&["status"]), existing.at(&["status"]));
    assert!(!json::to_string(object.at(&["metadata", "managedFields"]).unwrap()).contains("f:status"));
    let object = replace(&world, &existing, "status", &with_status).unwrap().object;
    assert_eq!(object.at(&["spec"]), existing.at(&["spec"]));
    assert_eq!(object.at(&["status", "replicas"]), Some(&Value::Int(5)));
}

#[test]
fn an_update_that_changes_nothing_stages_nothing() {
    let world = world();
    let existing = stored(&world, CONFIG);
    let mut target = target(&world, &existing, "");
    target.request.now = RunInput::new(World::now() + Duration::from_secs(3600));
    let staged = update_at(&world, &target, Some(&existing), &put(decoded(&world, CONFIG))).unwrap();
    assert_eq!(staged.write, Write::Unchanged);
    assert_eq!(staged.object, existing, "the times of managers stay, too");
    let other = CONFIG.replace("'1'", "'2'");
    let staged = update_at(&world, &target, Some(&existing), &put(decoded(&world, &other))).unwrap();
    assert_eq!(staged.write, Write::Put);
}

#[test]
fn an_object_that_is_to_go_goes_with_its_last_finalizer() {
    let world = world();
    let mut existing = stored(
        &world,
        &CONFIG.replace("name: a", "name: a, finalizers: [a.io/x, a.io/y]"),
    );
    existing.set_at(&["metadata", "deletionTimestamp"], "2001-09-09T01:46:40Z".into());
    existing.set_at(&["metadata", "deletionGracePeriodSeconds"], Value::Int(0));
    let left = |finalizers: &str| {
        let text = CONFIG.replace("name: a", &format!("name: a, finalizers: [{finalizers}]"));
        replace(&world, &existing, "", &text).unwrap().write
    };
    assert_eq!(left("a.io/x"), Write::Put);
    assert_eq!(left(""), Write::Delete);
}

#[test]
fn empty_lists_are_none_once_they_are_stored() {
    let world = world();
    let role = "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: a}, rules: []}";
    assert_eq!(stored(&world, role).get("rules"), Some(&Value::Null));
    let volume = "spec: {volumes: [{name: v, projected: {sources: []}}], ";
    let existing = stored(
        &world,
        &DEPLOYMENT.replacen("spec: {containers", &format!("{volume}containers"), 1),
    );
    let path = ["spec", "template", "spec", "volumes"];
    let sources = |object: &Value| object.at(&path).map(json::to_string);
    assert!(
        sources(&existing).is_some_and(|text| text.contains(r#""sources":null"#)),
        "{existing:?}"
    );
    let manifest = DEPLOYMENT.replacen("spec: {containers", &format!("{volume}containers"), 1);
    let again = replace(&world, &existing, "", &manifest).unwrap();
    assert_eq!(
        (again.write, again.object == existing),
        (Write::Unchanged, true),
        "an empty list is no change"
    );
}

#[test]
fn some_kinds_count_what_is_dropped() {
    let world = world();
    let slice = "{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: a}, addressType: IPv4, endpoints: \
                 [{addresses: [10.1.1.1]}]}";
    let existing = stored(&world, slice);
    let annotated = slice.replace("[10.1.1.1]", "[10.1.1.1], deprecatedTopology: {a: b}");
    let next = replace(&world, &existing, "", &annotated).unwrap().object;
    assert_eq!(next.at(&["metadata", "generation"]).and_then(Value::as_i64), Some(2));
    assert_eq!(next.get("endpoints"), existing.get("endpoints"));
}

#[test]
fn the_generation_counts_changes_of_the_spec_alone() {
    let world = world();
    let existing = stored(&world, DEPLOYMENT);
    let generation = |object: &Value| object.at(&["metadata", "generation"]).and_then(Value::as_i64);
    assert_eq!(generation(&existing), Some(1));
    let labelled = DEPLOYMENT.replace("name: a}", "name: a, labels: {x: z}}");
    assert_eq!(
        generation(&replace(&world, &existing, "", &labelled).unwrap().object),
        Some(1)
    );
    let scaled = DEPLOYMENT.replace("replicas: 1", "replicas: 2");
    assert_eq!(
        generation(&replace(&world, &existing, "", &scaled).unwrap().object),
        Some(2)
    );
}

#[test]
fn an_update_keeps_name_and_uid() {
    let world = world();
    let existing = stored(&world, CONFIG);
    let named = replace(&world, &existing, "", &CONFIG.replace("name: a", "name: b"));
    assert!(matches!(kind_of(named), ErrorKind::BadRequest(_)));
    let other = replace(&world, &existing, "", &CONFIG.replace("name: a", "name: a, uid: other"));
    assert!(matches!(kind_of(other), ErrorKind::Conflict { .. }));
    let object = replace(&world, &existing, "", &CONFIG.replace("'1'", "'2'"))
        .unwrap()
        .object;
    assert_eq!(metadata::uid(&object), UID);
}

#[test]
fn a_stale_version_is_refused_and_a_missing_one_filled_in() {
    let world = world();
    let existing = stored(&world, CONFIG);
    let at = |version: &str| {
        CONFIG
            .replace("'1'", "'2'")
            .replace("name: a", &format!("name: a, resourceVersion: '{version}'"))
    };
    assert!(matches!(
        kind_of(replace(&world, &existing, "", &at("6"))),
        ErrorKind::Modified(..)
    ));
    for version in ["7", ""] {
        let object = replace(&world, &existing, "", &at(version)).unwrap().object;
        assert_eq!(object.str_at(&["metadata", "resourceVersion"]), Some("7"));
    }
    // A kind that rejects unconditional updates.
    let lease = "{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: a}}";
    let existing = stored(&world, lease);
    let missing = kind_of(replace(
        &world,
        &existing,
        "",
        &lease.replace("name: a", "name: a, labels: {x: z}"),
    ));
    let ErrorKind::Invalid { errors, .. } = missing else {
        panic!("not invalid")
    };
    assert_eq!(errors[0].field.as_str(), "metadata.resourceVersion");
}

#[test]
fn each_run_starts_from_the_object_in_place() {
    let world = world();
    let patch = Change::Patch {
        patch: Ok((Patch::Merge(tree("{data: {b: '2'}}")), Vec::new())),
        validation: FieldValidation::Strict,
    };
    for text in [CONFIG.to_owned(), CONFIG.replace("a: '1'}", "a: '1', c: '3'}")] {
        let existing = stored(&world, &text);
        let target = target(&world, &existing, "");
        let staged = update_at(&world, &target, Some(&existing), &patch).unwrap();
        let expected = merge_patch::apply(existing.get("data").unwrap(), &tree("{b: '2'}")).unwrap();
        assert_eq!(staged.object.get("data"), Some(&expected));
    }
}

#[test]
fn an_apply_takes_fields_from_others_by_force_alone() {
    let world = world();
    let existing = stored(&world, CONFIG);
    let wanted = CONFIG.replace("'1'", "'2'");
    let mut applier = target(&world, &existing, "");
    applier.writer.manager = "applier".into();
    let refused = kind_of(update_at(&world, &applier, Some(&existing), &apply(&wanted, false)));
    let ErrorKind::ApplyConflict(conflicts) = refused else {
        panic!("{refused:?}")
    };
    let fields: Vec<&str> = conflicts.iter().map(|conflict| conflict.path.as_str()).collect();
    assert_eq!(fields, [".data.a"]);
    let staged = update_at(&world, &applier, Some(&existing), &apply(&wanted, true)).unwrap();
    assert_eq!(staged.object.str_at(&["data", "a"]), Some("2"));
    let same = update_at(&world, &applier, Some(&existing), &apply(CONFIG, false)).unwrap();
    assert_eq!(same.write, Write::Put, "both own the field now");
}

#[test]
fn an_apply_creates_what_is_not_there_where_its_user_may() {
    let mut world = world();
    let object = tree(CONFIG);
    let address = target(&world, &object, "");
    let staged = update_at(&world, &address, None, &apply(CONFIG, false)).unwrap();
    assert_eq!((staged.write, metadata::uid(&staged.object)), (Write::Put, UID));
    let replaced = update_at(&world, &address, None, &put(decoded(&world, CONFIG)));
    assert!(
        matches!(kind_of(replaced), ErrorKind::NotFound(..)),
        "a PUT creates no ConfigMap"
    );
    world.authorizer = Arc::new(AlwaysDeny);
    let denied = kind_of(update_at(&world, &address, None, &apply(CONFIG, false)));
    assert!(
        matches!(denied, ErrorKind::Unauthorized { verb: "create", .. }),
        "{denied:?}"
    );
}

#[test]
fn patches_change_raw_extensions_by_their_form() {
    let world = world();
    let label = || tree("{metadata: {labels: {a: b}}}");
    let patched = |text: &str, raw_form: RawForm, patch: Patch| {
        let patch = Change::Patch {
            patch: Ok((patch, Vec::new())),
            validation: FieldValidation::Strict,
        };
        let existing = StoredObject {
            raw_form,
            ..StoredObject::unproven(stored(&world, text))
        };
        let target = target(&world, &existing.object, "");
        run(&world, &target, async |stage| {
            stage.update(&patch, Some(&existing)).await
        })
    };
    let revision = "{apiVersion: apps/v1, kind: ControllerRevision, metadata: {name: a}, revision: 1, data: {a: 1}}";
    for (raw_form, merges, merges_strategically) in [
        (RawForm::Marshalled, true, true),
        (RawForm::Compact, true, false),
        (RawForm::Verbatim, false, false),
    ] {
        let outcome = (
            patched(revision, raw_form, Patch::Merge(label())).is_ok(),
            patched(revision, raw_form, Patch::Strategic(label())).is_ok(),
        );
        assert_eq!(outcome, (merges, merges_strategically), "{raw_form:?}");
    }
    let ErrorKind::Invalid { errors, .. } = kind_of(patched(revision, RawForm::Verbatim, Patch::Merge(label()))) else {
        panic!("another rejection")
    };
    let messages: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(messages, [r#"data: Invalid value: {"a":1}: field is immutable"#]);
    let class = "{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: a}, spec: {config: [{opaque: \
                 {driver: d.example.com, parameters: {a: 1}}}]}}";
    let generation = |raw_form: RawForm| {
        let staged = patched(class, raw_form, Patch::Strategic(label())).unwrap();
        assert_eq!(staged.raw_form, RawForm::Marshalled);
        staged.object.at(&["metadata", "generation"]).and_then(Value::as_i64)
    };
    assert_eq!(generation(RawForm::Marshalled), Some(1));
    assert_eq!(generation(RawForm::Compact), Some(2));
    assert_eq!(generation(RawForm::Verbatim), Some(2));
}

#[test]
fn the_first_write_stores_what_reads_fill_in() {
    let world = world();
    let claim = "{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: a}, spec: {accessModes: [ReadWriteOnce], \
                 resources: {requests: {storage: 1Gi}}}, status: {phase: Pending}}";
    let service_account = "{apiVersion: v1, kind: ServiceAccount, metadata: {name: a}}";
    let write = |text: &str, as_created: bool| {
        let mut existing = StoredObject::unproven(stored(&world, text));
        if as_created {
            existing.provenance = existing.provenance.as_created();
        }
        let target = target(&world, &existing.object, "");
        let patch = Change::Patch {
            patch: Ok((Patch::Merge(tree("{metadata: {}}")), Vec::new())),
            validation: FieldValidation::Strict,
        };
        let staged = run(&world, &target, async |stage| {
            stage.update(&patch, Some(&existing)).await
        });
        staged.unwrap().write
    };
    assert_eq!(write(claim, true), Write::Put);
    assert_eq!(write(claim, false), Write::Unchanged);
    assert_eq!(write(service_account, true), Write::Unchanged);
}

#[test]
fn a_deletion_removes_what_nothing_holds_and_marks_what_waits() {
    let world = world();
    let delete = |stored: &Value, options: &DeleteOptions| {
        let existing = StoredObject::unproven(stored.clone());
        let target = target(&world, stored, "");
        run(&world, &target, async |stage| stage.delete(options, &existing).await)
    };
    let free = stored(&world, CONFIG);
    let now = DeleteOptions::default();
    assert_eq!(delete(&free, &now).unwrap().write, Write::Delete);
    let held = stored(&world, &CONFIG.replace("name: a", "name: a, finalizers: [a.io/x]"));
    let marked = delete(&held, &now).unwrap();
    assert_eq!(marked.write, Write::Put);
    let since = marked.object.str_at(&["metadata", "deletionTimestamp"]);
    assert_eq!(since, Some("2001-09-09T01:46:40Z"));
    assert_eq!(delete(&marked.object, &now).unwrap().write, Write::Unchanged);
    let other = DeleteOptions {
        uid: Some("other".to_owned()),
        ..DeleteOptions::default()
    };
    assert!(matches!(kind_of(delete(&free, &other)), ErrorKind::Conflict { .. }));
}

#[test]
fn a_run_begins_before_its_deadline_alone() {
    let world = world();
    let existing = stored(&world, CONFIG);
    let mut target = target(&world, &existing, "");
    target.request.deadline = Some(tokio::time::Instant::now());
    let late = update_at(&world, &target, Some(&existing), &put(decoded(&world, CONFIG)));
    assert!(matches!(kind_of(late), ErrorKind::OutOfTime));
}

#[test]
fn an_error_is_one_word_in_size() {
    assert_eq!(size_of::<Error>(), size_of::<usize>());
}
