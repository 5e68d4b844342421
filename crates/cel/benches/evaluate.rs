//! Benchmark of compiling and evaluating typical expressions.

use std::hint::black_box;
use std::sync::Arc;

use criterion::{Criterion, criterion_group, criterion_main};
use holdfast_cel::{Activation, Budget, CelValue, DeclField, DeclType, Environment, ListType, Type};
use holdfast_value::{Limits, Value, json};

fn fields<const N: usize>(fields: [(&str, DeclType); N]) -> DeclType {
    DeclType::object(
        fields
            .into_iter()
            .filter_map(|(name, decl)| DeclField::new(name, decl, false)),
    )
}

/// Returns a workload with twenty containers, as a schema and as an object.
fn workload() -> (Arc<DeclType>, Value) {
    let container = fields([
        ("name", DeclType::string(Some(63))),
        ("image", DeclType::string(Some(200))),
        ("cpu", DeclType::int()),
    ]);
    let schema = fields([
        ("replicas", DeclType::int()),
        ("maxReplicas", DeclType::int()),
        ("name", DeclType::string(Some(63))),
        ("containers", DeclType::list(container, Some(50), ListType::Atomic)),
    ]);
    let containers: Vec<String> = (0..20)
        .map(|at| format!(r#"{{"name": "c{at}", "image": "registry.example.com/app:{at}", "cpu": {at}}}"#))
        .collect();
    let text = format!(
        r#"{{"replicas": 3, "maxReplicas": 5, "name": "workload-a", "containers": [{}]}}"#,
        containers.join(",")
    );
    (
        Arc::new(schema),
        json::parse(text.as_bytes(), &Limits::default()).unwrap_or_default(),
    )
}

const RULES: [(&str, &str); 7] = [
    ("two fields compared", "self.replicas <= self.maxReplicas"),
    (
        "presence and comparison",
        "!has(self.replicas) || !has(self.maxReplicas) || self.replicas <= self.maxReplicas",
    ),
    (
        "a constant pattern",
        "self.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
    ),
    ("a member of constants", "self.name in ['a', 'b', 'workload-a']"),
    (
        "all of 20 containers by prefix",
        "self.containers.all(c, c.image.startsWith('registry.example.com/'))",
    ),
    (
        "all of 20 containers by two fields",
        "self.containers.all(c, has(c.cpu) && c.cpu >= 0 && c.name != '')",
    ),
    (
        "names of 20 containers joined",
        "self.containers.map(c, c.name).join(',') != ''",
    ),
];

fn evaluating(criterion: &mut Criterion) {
    let (schema, object) = workload();
    let environment = Environment::new().with_object("self", schema.clone());
    let own = CelValue::typed(&object, &schema).unwrap_or(CelValue::Null);
    let activation = Activation::new(&environment).with("self", own);
    for (name, rule) in RULES {
        let Ok(program) = environment.compile(rule, &[Type::Bool]) else {
            continue;
        };
        criterion.bench_function(&format!("evaluate/{name}"), |bencher| {
            bencher.iter(|| program.evaluate(black_box(&activation), &mut Budget::default()));
        });
    }
}

fn compiling(criterion: &mut Criterion) {
    let (schema, _) = workload();
    let environment = Environment::new().with_object("self", schema);
    for (name, rule) in RULES {
        criterion.bench_function(&format!("compile/{name}"), |bencher| {
            bencher.iter(|| environment.compile(black_box(rule), &[Type::Bool]));
        });
    }
}

criterion_group!(benches, evaluating, compiling);
criterion_main!(benches);
