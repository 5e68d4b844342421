//! Cost of CEL rules: a custom object of some 3 KB with twenty containers and fifty rules, like those that operators
//! write.

use std::fmt::Write as _;
use std::hint::black_box;
use std::sync::Arc;

use criterion::{Criterion, criterion_group, criterion_main};
use holdfast_cel::PatternMemory;
use holdfast_schema::types::TypeTable;
use holdfast_structural::{CompileContext, CustomType, Node, Rules, VersionSchema};
use holdfast_value::{Limits, Value, json};

const PATTERN: &str = "^[a-z]([-a-z0-9]*[a-z0-9])?$";

/// Returns the schema: ten pairs of bounds, ten names and ten modes with rules of their own, and containers. Without
/// rules it is otherwise the same.
fn schema(rules: bool) -> Value {
    let marked = |own: &[String]| {
        let own: Vec<String> = own
            .iter()
            .map(|rule| format!(r#"{{"rule":{}}}"#, Value::from(rule.as_str())))
            .collect();
        if rules {
            format!(r#","x-kubernetes-validations":[{}]"#, own.join(","))
        } else {
            String::new()
        }
    };
    let (mut properties, mut of_spec) = (String::new(), Vec::new());
    for at in 0..10 {
        let name = marked(&[format!("self.matches('{PATTERN}')"), "self == oldSelf".to_owned()]);
        let mode = marked(&["self in ['fast', 'safe', 'off']".to_owned()]);
        let _ = write!(
            properties,
            r#""min{at}":{{"type":"integer"}},"max{at}":{{"type":"integer"}},"name{at}":{{"type":"string","maxLength":63{name}}},
            "mode{at}":{{"type":"string"{mode}}},"#
        );
        of_spec.push(format!(
            "!has(self.min{at}) || !has(self.max{at}) || self.min{at} <= self.max{at}"
        ));
    }
    for at in 0..8 {
        of_spec.push(format!(
            "self.containers.all(c, c.image.startsWith('registry.example.com/') && c.cpu >= self.min{at} - 100)"
        ));
    }
    let of_item = marked(&[
        "self.cpu >= 0 && self.name != ''".to_owned(),
        "has(self.image)".to_owned(),
    ]);
    let text = format!(
        r#"{{"type":"object","properties":{{"spec":{{"type":"object","properties":{{{properties}"containers":{{"type":"array",
        "maxItems":50,"x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["name"],"items":{{"type":"object",
        "required":["name"],"properties":{{"name":{{"type":"string","maxLength":63}},"image":{{"type":"string","maxLength":200}},
        "cpu":{{"type":"integer"}}}}{of_item}}}}}}}{}}}}}}}"#,
        marked(&of_spec)
    );
    json::parse(text.as_bytes(), &Limits::TRUSTED).unwrap_or_default()
}

fn object() -> Value {
    let mut spec = String::new();
    for at in 0..10 {
        let _ = write!(
            spec,
            r#""min{at}":{at},"max{at}":20,"name{at}":"a-name-of-some-length-{at}","mode{at}":"safe","#
        );
    }
    let containers: Vec<String> = (0..20)
        .map(|at| format!(r#"{{"name":"c{at}","image":"registry.example.com/team/application:{at}","cpu":{at}}}"#))
        .collect();
    let text = format!(
        r#"{{"apiVersion":"example.com/v1","kind":"Workload","metadata":{{"name":"a"}},"spec":{{{spec}"containers":[{}]}}}}"#,
        containers.join(",")
    );
    json::parse(text.as_bytes(), &Limits::TRUSTED).unwrap_or_default()
}

/// Returns a list and ten rules whose total cost is nearly the limit for the rules of an object.
fn most_expensive() -> (Value, Value) {
    let rule = r#"{"rule":"self.all(x, self.all(y, x + y >= 0))"}"#;
    let schema = format!(
        r#"{{"type":"object","properties":{{"l":{{"type":"array","items":{{"type":"integer"}},"x-kubernetes-validations":[{}]}}}}}}"#,
        [rule; 10].join(",")
    );
    let items: Vec<String> = (0..370).map(|at| at.to_string()).collect();
    let object = format!(r#"{{"l":[{}]}}"#, items.join(","));
    let parse = |text: &str| json::parse(text.as_bytes(), &Limits::TRUSTED).unwrap_or_default();
    (parse(&schema), parse(&object))
}

/// Returns the context for schemas whose regular expressions may use up to that many bytes.
fn sharing(bytes: usize) -> CompileContext {
    CompileContext {
        patterns: PatternMemory::new(bytes),
        ..CompileContext::default()
    }
}

fn rules(criterion: &mut Criterion) {
    let types = Arc::new(TypeTable::default());
    let (plain, ruled) = (schema(false), schema(true));
    let object = object();
    for (name, schema) in [("without rules", &plain), ("50 rules", &ruled)] {
        let custom_type = CustomType::new(
            &VersionSchema::new(Some(schema.clone())),
            Arc::clone(&types),
            sharing(256 << 20),
        );
        let check = |old: Option<&Value>| {
            let mut errors = custom_type.validate_schema(&object, old);
            custom_type.validate_rules(&object, old, &mut errors);
            custom_type.validate_rest(&object, old, &mut errors);
            errors
        };
        if !check(Some(&object)).is_empty() {
            continue;
        }
        criterion.bench_function(&format!("validate a new object: {name}"), |bench| {
            bench.iter(|| check(black_box(None)));
        });
        criterion.bench_function(&format!("validate an update: {name}"), |bench| {
            bench.iter(|| check(black_box(Some(&object))));
        });
    }
    let (schema, object) = most_expensive();
    let custom_type = CustomType::new(&VersionSchema::new(Some(schema)), types, sharing(256 << 20));
    let check = || {
        let mut errors = Vec::new();
        custom_type.validate_rules(&object, None, &mut errors);
        errors
    };
    if check().is_empty() {
        criterion.bench_function("the most expensive rules that are let through", |bench| {
            bench.iter(check)
        });
    }
    let node = Node::read(&ruled);
    criterion.bench_function("compile 50 rules", |bench| {
        bench.iter(|| Rules::new(black_box(&node), true, &CompileContext::default()));
    });
}

criterion_group!(benches, rules);
criterion_main!(benches);
