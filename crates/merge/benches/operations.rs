//! Benchmark of apply and update of whole objects: the sequences of the reference's own benchmark, on its objects.
//!
//! An iteration starts from no object and no managers. Objects are parsed and validated before. In `same` all steps get
//! the same object, as in the reference; in `parsed` each step gets a separately parsed one, as in a server, so that no
//! step can profit from sharing memory with the step before.

#![allow(clippy::unwrap_used, clippy::print_stderr)] // A benchmark may stop at anything unexpected.

mod corpus;

use std::sync::Arc;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use holdfast_merge::{
    Duplicates, FieldSpec, IdentityConverter, ListSpec, Managers, MapSpec, Reference, Scalar, Schema, SchemaBuilder,
    Set, TypeRef, Typed, Updater, UpdaterBuilder,
};
use holdfast_value::{Limits, Value, json};

/// Object to write, and the writers.
struct Case {
    name: String,
    schema: Arc<Schema>,
    type_ref: TypeRef,
    object: Value,
    /// Managers that each sequence must end with, if known.
    expected: Vec<(String, Owners)>,
}

/// Managers by name: version, whether applied, set.
type Owners = Vec<(String, String, bool, Set)>;

/// Sequence of writes.
struct Sequence {
    name: &'static str,
    return_input_on_noop: bool,
    steps: &'static [Step],
}

#[derive(Clone, Copy)]
enum Step {
    Apply(&'static str),
    Update(&'static str, &'static str),
}

const SEQUENCES: [Sequence; 6] = [
    Sequence {
        name: "Create",
        return_input_on_noop: false,
        steps: &[Step::Update("controller", "v1")],
    },
    Sequence {
        name: "Apply",
        return_input_on_noop: false,
        steps: &[Step::Apply("controller")],
    },
    Sequence {
        name: "ApplyTwice",
        return_input_on_noop: false,
        steps: &[Step::Apply("controller"), Step::Apply("other-controller")],
    },
    Sequence {
        name: "ApplyTwiceNoCompare",
        return_input_on_noop: true,
        steps: &[Step::Apply("controller"), Step::Apply("other-controller")],
    },
    Sequence {
        name: "Update",
        return_input_on_noop: false,
        steps: &[Step::Update("controller", "v1"), Step::Update("other-controller", "v1")],
    },
    Sequence {
        name: "UpdateVersion",
        return_input_on_noop: false,
        steps: &[Step::Update("controller", "v1"), Step::Update("other-controller", "v2")],
    },
];

fn operations(criterion: &mut Criterion) {
    let mut cases = vec![small_case()];
    cases.extend(
        corpus::directory()
            .into_iter()
            .flat_map(|directory| corpus_cases(&directory)),
    );
    for case in &cases {
        let mut group = criterion.benchmark_group(&case.name);
        for sequence in &SEQUENCES {
            let updater = UpdaterBuilder::new(IdentityConverter)
                .return_input_on_noop(sequence.return_input_on_noop)
                .build();
            let nothing = Typed::trusted(Value::Null, case.schema.clone(), case.type_ref);
            let same = vec![case.typed(case.object.clone()); sequence.steps.len()];
            let parsed: Vec<_> = sequence.steps.iter().map(|_| case.typed(case.parsed_again())).collect();
            case.check(sequence, &run(&updater, sequence.steps, &nothing, &same));
            case.check(sequence, &run(&updater, sequence.steps, &nothing, &parsed));
            group.bench_function(BenchmarkId::new(sequence.name, "same"), |bencher| {
                bencher.iter(|| run(&updater, sequence.steps, &nothing, &same));
            });
            if sequence.steps.len() > 1 {
                group.bench_function(BenchmarkId::new(sequence.name, "parsed"), |bencher| {
                    bencher.iter(|| run(&updater, sequence.steps, &nothing, &parsed));
                });
            }
        }
        group.bench_function("Validate", |bencher| bencher.iter(|| case.typed(case.object.clone())));
        group.finish();
    }
}

fn run(updater: &Updater<IdentityConverter>, steps: &[Step], nothing: &Typed, objects: &[Typed]) -> (Typed, Managers) {
    let mut existing = nothing.clone();
    let mut managers = Managers::new();
    for (step, object) in steps.iter().zip(objects) {
        match step {
            Step::Apply(manager) => {
                let applied = updater
                    .apply(&existing, object, "v1", managers, manager, false)
                    .unwrap();
                existing = applied.object.unwrap_or(existing);
                managers = applied.managers;
            }
            Step::Update(manager, version) => {
                (existing, managers) = updater.update(&existing, object, version, managers, manager).unwrap();
            }
        }
    }
    (existing, managers)
}

impl Case {
    fn typed(&self, value: Value) -> Typed {
        Typed::new(value, self.schema.clone(), self.type_ref, Duplicates::Rejected).unwrap()
    }

    fn parsed_again(&self) -> Value {
        json::parse(&json::to_vec(&self.object), &Limits::TRUSTED).unwrap()
    }

    /// Checks that the measured operations give the right result.
    fn check(&self, sequence: &Sequence, state: &(Typed, Managers)) {
        let (object, managers) = state;
        assert_eq!(object.value(), &self.object);
        let Some((_, expected)) = self.expected.iter().find(|(name, _)| name == sequence.name) else {
            return;
        };
        assert_eq!(managers.len(), expected.len());
        for (name, version, applied, set) in expected {
            let owned = managers.get(name).unwrap();
            assert_eq!(
                (owned.api_version.as_str(), owned.applied),
                (version.as_str(), *applied)
            );
            assert_eq!(&owned.set, set, "{} {} {name}", self.name, sequence.name);
        }
    }
}

/// Returns the reference's cases.
fn corpus_cases(directory: &std::path::Path) -> Vec<Case> {
    let definitions = corpus::read(&directory.join("bench.json"));
    let sets = corpus::read(&directory.join("bench-fieldsets.json"));
    let cases = definitions
        .at(&["operations", "cases"])
        .and_then(Value::as_list)
        .unwrap();
    cases
        .iter()
        .map(|case| {
            let text = |name: &str| case.str_at(&[name]).unwrap();
            let schema = SchemaBuilder::read(&corpus::read(&directory.join(text("schema"))))
                .unwrap()
                .build();
            Case {
                name: text("name").to_owned(),
                type_ref: schema.named(text("type")).unwrap(),
                schema: Arc::new(schema),
                object: corpus::read(&directory.join(text("object"))),
                expected: expected_managers(case, &sets),
            }
        })
        .collect()
}

fn expected_managers(case: &Value, sets: &Value) -> Vec<(String, Owners)> {
    let sequences = case.get("expected").and_then(Value::as_list).unwrap();
    sequences
        .iter()
        .map(|sequence| {
            let managers = sequence
                .get("managers")
                .and_then(Value::as_map)
                .unwrap()
                .iter()
                .map(|(name, owned)| {
                    let mut owned = owned.as_str().unwrap().split(' ');
                    let version = owned.next().unwrap().to_owned();
                    let applied = owned.next() == Some("true");
                    let set = sets.get(owned.next().unwrap()).unwrap();
                    (
                        name.to_string(),
                        version,
                        applied,
                        Set::from_fields_v1_value(set).unwrap(),
                    )
                })
                .collect();
            (sequence.str_at(&["sequence"]).unwrap().to_owned(), managers)
        })
        .collect()
}

/// A case that needs no shared data: a workload of two containers.
fn small_case() -> Case {
    let schema = SchemaBuilder::new()
        .define(
            "Port",
            MapSpec::from_fields([
                FieldSpec::new("name", Scalar::String),
                FieldSpec::new("port", Scalar::Numeric),
                FieldSpec::new("protocol", Scalar::String).with_default("TCP"),
            ]),
        )
        .define(
            "Container",
            MapSpec::from_fields([
                FieldSpec::new("name", Scalar::String),
                FieldSpec::new("image", Scalar::String),
                FieldSpec::new("args", ListSpec::atomic(Scalar::String)),
                FieldSpec::new("ports", ListSpec::keyed(Reference::named("Port"), ["port", "protocol"])),
            ]),
        )
        .define(
            "Workload",
            MapSpec::from_fields([
                FieldSpec::new("labels", MapSpec::new(Scalar::String)),
                FieldSpec::new("replicas", Scalar::Numeric),
                FieldSpec::new("finalizers", ListSpec::set(Scalar::String)),
                FieldSpec::new("containers", ListSpec::keyed(Reference::named("Container"), ["name"])),
            ]),
        )
        .build();
    let object = br#"{
        "labels": {"app": "web", "tier": "front"}, "replicas": 3, "finalizers": ["example.com/a", "example.com/b"],
        "containers": [
            {"name": "web", "image": "web:1", "args": ["-v"], "ports": [{"port": 80, "name": "http"}, {"port": 443}]},
            {"name": "log", "image": "log:2", "ports": [{"port": 9, "protocol": "UDP"}]}
        ]
    }"#;
    Case {
        name: "small".to_owned(),
        type_ref: schema.named("Workload").unwrap(),
        schema: Arc::new(schema),
        object: json::parse(object, &Limits::default()).unwrap(),
        expected: Vec::new(),
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(600))
        .sample_size(20);
    targets = operations
}
criterion_main!(benches);
