//! Reads of a run from its environment are recorded.

use holdfast_admission::webhooks::WebhookType;
use holdfast_authorization::{AccessTarget, Attributes, ResourceTarget, User};
use holdfast_resource::{Operation, SharedState};
use parking_lot::Mutex;

use super::*;
use crate::call::Call;
use crate::environment::Environment;
use crate::reads::{Read, ReadObserver};

#[derive(Default)]
struct Recorder(Mutex<Vec<String>>);

impl Recorder {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock())
    }
}

impl ReadObserver for Recorder {
    fn record(&self, read: Read<'_>) {
        self.0.lock().push(match read {
            Read::Object {
                resource,
                namespace,
                name,
            } => format!("{resource} {namespace}/{name}"),
            other => format!("{other:?}"),
        });
    }
}

fn secrets() -> GroupResource {
    GroupResource {
        group: "".into(),
        resource: "secrets".into(),
    }
}

fn authorize(call: &Call<'_>) {
    let target = ResourceTarget {
        group: "",
        version: "v1",
        resource: "secrets",
        subresource: "",
        namespace: "",
        name: "",
        field_selector: &[],
        label_selector: "",
    };
    let attributes = Attributes {
        verb: "get",
        target: AccessTarget::Resource(target),
    };
    let _ = call.access.authorizer.authorize(&User::default(), &attributes);
}

type ReadStep = fn(&Stage<'_>, &Call<'_>);

/// Each way to read something in a step of a run, and the reads that are recorded.
const STEPS: [(&[&str], ReadStep); 17] = [
    (&["Clock"], |_, call| {
        call.now();
    }),
    (&["secrets default/s"], |_, call| {
        call.lookup.get(&secrets(), "default", "s");
    }),
    (&["List"], |_, call| {
        call.lookup.list(&secrets(), "", &mut |_| ControlFlow::Continue(()));
    }),
    (&["List"], |_, call| {
        call.lookup.list_revisions(&secrets(), "", &mut |_, _| {});
    }),
    (&["Clock"], |stage, _| {
        stage.environment.now(stage.target);
    }),
    (&[], |stage, _| {
        stage.environment.time_of_change(stage.target);
    }),
    (&["SharedState"], |_, call| {
        *SharedState::new(0).in_run(call.run) += 1;
    }),
    (&["Registry"], |stage, _| {
        stage.environment.registry(stage.target);
    }),
    (&["Registry"], |_, call| {
        let kind = "Secret".into();
        call.lookup.resource_of(&GroupKind { group: "".into(), kind });
    }),
    (&["StorageHealth"], |_, call| drop(call.lookup.storage_health())),
    (&["Permissions"], |_, call| authorize(call)),
    (&["Permissions"], |_, call| {
        drop(call.access.authorizer.rules(&User::default(), ""));
    }),
    (&["Tokens"], |_, call| drop(call.access.tokens.authenticate("t", &[]))),
    (&["Tokens"], |_, call| {
        call.access.issuer.audiences();
    }),
    (&["Permissions"], |stage, _| {
        stage.environment.authorizer();
    }),
    (&["Identifier"], |stage, _| {
        stage.environment.identifiers();
    }),
    (&["Policies", "Webhooks"], |stage, _| {
        stage.is_heard_of("UPDATE");
    }),
];

#[test]
fn each_read_of_a_step_is_recorded() {
    let (world, recorder) = (world(), Recorder::default());
    let target = target(&world, &tree(CONFIG), "");
    let services = world.services(&Nothing, Access::UNCHECKED);
    let stage = Stage::new(Environment::observed(services, &recorder), &target);
    let call = stage.call(Operation::Update, "a");
    for (at, (reads, step)) in STEPS.iter().enumerate() {
        assert!(recorder.take().is_empty(), "nothing is read before it is needed: {at}");
        step(&stage, &call);
        assert_eq!(recorder.take(), *reads, "{at}");
    }
}

#[test]
fn steps_of_a_run_see_the_same_webhooks_and_policies() {
    let world = world();
    let target = target(&world, &tree(CONFIG), "");
    let stage = Stage::new(world.environment(&Nothing, Access::UNCHECKED), &target);
    let hooks = Arc::clone(stage.environment.webhooks());
    let policies = Arc::clone(&stage.environment.policies().validating);
    let configuration = tree("{metadata: {name: late}, webhooks: []}");
    world
        .webhooks
        .set(WebhookType::Validating, "late", Some(&configuration));
    world.policies.validating.set_policy("late", Some(&tree("{spec: {}}")));
    assert!(Arc::ptr_eq(&hooks, stage.environment.webhooks()));
    assert!(Arc::ptr_eq(&policies, &stage.environment.policies().validating));
    let next = Stage::new(world.environment(&Nothing, Access::UNCHECKED), &target);
    assert!(!Arc::ptr_eq(&hooks, next.environment.webhooks()));
    assert!(!Arc::ptr_eq(&policies, &next.environment.policies().validating));
}

#[test]
fn noop_apply_reads_only_active_admission() {
    let (world, recorder) = (world(), Recorder::default());
    let object = decoded(&world, CONFIG);
    let target = target(&world, &object, "");
    let run = |stored: Option<&StoredObject>| {
        let services = world.services(&Nothing, Access::UNCHECKED);
        let stage = Stage::new(Environment::observed(services, &recorder), &target);
        let staged = stage.update(&apply(CONFIG, false), stored).now_or_never().unwrap();
        staged.unwrap()
    };
    let mut created = run(None).object;
    assert!(recorder.take().iter().any(|read| read == "Identifier"));
    created.set_at(&["metadata", "resourceVersion"], "7".into());
    assert_eq!(run(Some(&StoredObject::unproven(created))).write, Write::Unchanged);
    let mut reads = recorder.take();
    reads.sort();
    reads.dedup();
    assert_eq!(reads, ["Policies", "Webhooks"]);
}
