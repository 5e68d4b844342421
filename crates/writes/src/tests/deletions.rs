//! Results of DELETE runs.

use super::*;
use crate::options::PropagationPolicy;

fn delete(world: &World, stored: &Value, options: &DeleteOptions) -> Result<Staged, Error> {
    let existing = StoredObject::unproven(stored.clone());
    let target = target(world, stored, "");
    run(world, &target, async |stage| stage.delete(options, &existing).await)
}

fn with_policy(policy: PropagationPolicy) -> DeleteOptions {
    DeleteOptions {
        propagation_policy: Some(policy),
        ..DeleteOptions::default()
    }
}

fn with_grace(seconds: i64) -> DeleteOptions {
    DeleteOptions {
        grace_period_seconds: Some(seconds),
        ..DeleteOptions::default()
    }
}

#[test]
fn a_policy_becomes_the_finalizer_of_the_garbage_collector() {
    let world = world();
    let held = stored(
        &world,
        &CONFIG.replace("name: a", "name: a, finalizers: [orphan, a.io/x]"),
    );
    for (policy, expected) in [
        (PropagationPolicy::Foreground, &["a.io/x", "foregroundDeletion"][..]),
        (PropagationPolicy::Orphan, &["orphan", "a.io/x"]),
        (PropagationPolicy::Background, &["a.io/x"]),
    ] {
        let staged = delete(&world, &held, &with_policy(policy)).unwrap();
        assert_eq!(staged.write, Write::Put, "{policy:?}");
        let finalizers: Vec<&str> = metadata::finalizers(&staged.object).collect();
        assert_eq!(finalizers, expected, "{policy:?}");
    }
    let orphans = stored(&world, &CONFIG.replace("name: a", "name: a, finalizers: [orphan]"));
    let gone = delete(&world, &orphans, &with_policy(PropagationPolicy::Background)).unwrap();
    assert_eq!(gone.write, Write::Delete, "nothing holds it any more");
    let older = DeleteOptions {
        orphan_dependents: Some(true),
        ..DeleteOptions::default()
    };
    let staged = delete(&world, &stored(&world, CONFIG), &older).unwrap();
    assert_eq!(metadata::finalizers(&staged.object).collect::<Vec<_>>(), ["orphan"]);
}

#[test]
fn a_grace_period_only_becomes_shorter() {
    let world = world();
    let pod =
        "{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {nodeName: node-1, containers: [{name: c, image: i}]}}";
    let running = stored(&world, pod);
    let seconds = |object: &Value| {
        object
            .at(&["metadata", "deletionGracePeriodSeconds"])
            .and_then(Value::as_i64)
    };
    let end = |object: &Value| object.str_at(&["metadata", "deletionTimestamp"]).unwrap().to_owned();
    let marked = delete(&world, &running, &DeleteOptions::default()).unwrap();
    assert_eq!((marked.write, seconds(&marked.object)), (Write::Put, Some(30)));
    assert_eq!(end(&marked.object), "2001-09-09T01:47:10Z", "when it is over");
    let sooner = delete(&world, &marked.object, &with_grace(10)).unwrap();
    assert_eq!((sooner.write, seconds(&sooner.object)), (Write::Put, Some(10)));
    assert_eq!(end(&sooner.object), "2001-09-09T01:46:50Z");
    let shortest = delete(&world, &sooner.object, &with_grace(-5)).unwrap();
    assert_eq!((shortest.write, seconds(&shortest.object)), (Write::Put, Some(1)));
    let later = delete(&world, &sooner.object, &with_grace(60)).unwrap();
    assert_eq!(later.write, Write::Unchanged);
    let now = delete(&world, &sooner.object, &with_grace(0)).unwrap();
    assert_eq!(now.write, Write::Delete);
    assert!(is_marked_first(resource_of(&world, &running), &now.object, &running));
    assert!(!is_marked_first(resource_of(&world, &running), &running, &running));
}

#[test]
fn a_pod_without_a_node_goes_at_once() {
    let world = world();
    let pod = "{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: c, image: i}]}}";
    let staged = delete(&world, &stored(&world, pod), &with_grace(30)).unwrap();
    assert_eq!(staged.write, Write::Delete);
}

#[test]
fn failed_preconditions_name_the_kind_or_resource() {
    let world = world();
    let options = DeleteOptions {
        resource_version: Some("6".to_owned()),
        ..DeleteOptions::default()
    };
    let refused = |text: &str| match kind_of(delete(&world, &stored(&world, text), &options)) {
        ErrorKind::Conflict { resource, why, .. } => (resource.resource.to_string(), why),
        other => panic!("{other:?}"),
    };
    assert_eq!(
        refused(CONFIG),
        (
            "ConfigMap".to_owned(),
            "the ResourceVersion in the precondition (6) does not match the ResourceVersion in record (7). The object might \
             have been modified"
                .to_owned()
        )
    );
    assert_eq!(
        refused("{apiVersion: v1, kind: Namespace, metadata: {name: a}}"),
        (
            "namespaces".to_owned(),
            "Precondition failed: ResourceVersion in precondition: 6, ResourceVersion in object meta: 7".to_owned()
        )
    );
}

#[test]
fn object_held_by_its_kind_terminates_without_grace_period() {
    let world = world();
    let namespace = stored(&world, "{apiVersion: v1, kind: Namespace, metadata: {name: a}}");
    let marked = delete(&world, &namespace, &DeleteOptions::default()).unwrap();
    assert_eq!(marked.write, Write::Put);
    assert!(marked.object.at(&["metadata", "deletionTimestamp"]).is_some());
    assert!(marked.object.at(&["metadata", "deletionGracePeriodSeconds"]).is_none());
    assert_eq!(marked.object.str_at(&["status", "phase"]), Some("Terminating"));
}
