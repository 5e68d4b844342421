//! Benchmarks of the cost of admission policies for a write: policies that match it, and policies that do not.

use std::hint::black_box;
use std::ops::ControlFlow;
use std::sync::Arc;

use criterion::{Criterion, criterion_group, criterion_main};
use holdfast_admission::policies::Policies;
use holdfast_admission::policies::request::Request;
use holdfast_admission::policies::validating::check;
use holdfast_authorization::{AlwaysAllow, Authorizer, User};
use holdfast_kinds::{Config, registry};
use holdfast_resource::{Lookup, Registry};
use holdfast_schema::{GroupResource, GroupVersion, GroupVersionKind};
use holdfast_value::{Limits, Value, json, yaml};

const POD: &str = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"default","labels":{"app":"web","tier":"front"}},
    "spec":{"containers":[{"name":"a","image":"registry.example.com/a:1","resources":{"limits":{"cpu":"1"}}},
                          {"name":"b","image":"registry.example.com/b:1","resources":{"limits":{"cpu":"1"}}}]}}"#;

/// Typical policies: required labels, images from one registry, limits, and permitted users.
const VALIDATIONS: &str = "
  - {expression: \"has(object.metadata.labels) && 'app' in object.metadata.labels\"}
  - {expression: \"object.spec.containers.all(c, c.image.startsWith('registry.example.com/'))\"}
  - {expression: \"variables.limited\", messageExpression: \"'no limits in ' + object.metadata.name\"}
  - {expression: \"request.operation != 'DELETE' && request.userInfo.username != 'nobody'\"}";

struct Nothing;

impl Lookup for Nothing {
    fn get(&self, _resource: &GroupResource, _namespace: &str, _name: &str) -> Option<Value> {
        None
    }

    fn list(&self, _resource: &GroupResource, _namespace: &str, _visit: &mut dyn FnMut(&Value) -> ControlFlow<()>) {}
}

fn parse(text: &str) -> Value {
    yaml::parse(text.as_bytes(), &Limits::TRUSTED).unwrap_or_default()
}

/// Creates this number of policies on pods, each with a binding.
fn policies(count: usize) -> Policies {
    let policies = Policies::default();
    for at in 0..count {
        let name = format!("policy-{at}");
        let policy = parse(&format!(
            "spec:\n matchConstraints:\n  resourceRules:\n  - {{apiGroups: [''], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [pods]}}\n \
             variables:\n  - {{name: limited, expression: 'object.spec.containers.all(c, has(c.resources.limits))'}}\n validations:{VALIDATIONS}"
        ));
        let binding = parse(&format!("{{spec: {{policyName: {name}, validationActions: [Deny]}}}}"));
        policies.validating.set_policy(&name, Some(&policy));
        policies.validating.set_binding(&name, Some(&binding));
    }
    policies
}

/// Evaluates the policies for a write to the resource of that name.
fn ask(policies: &Policies, registry: &Registry, plural: &str, object: &Value, user: &Arc<User>) -> bool {
    let active = policies.validating.now();
    if !active.concerns(plural) {
        return true;
    }
    let name = GroupResource {
        group: Default::default(),
        resource: plural.into(),
    };
    let Some(resource) = registry.resource(&name) else {
        return false;
    };
    let authorizer: Arc<dyn Authorizer> = Arc::new(AlwaysAllow);
    let version = GroupVersion::new("", "v1");
    let request = Request {
        registry,
        resource,
        version: version.clone(),
        kind: GroupVersionKind {
            group_version: version,
            kind: resource.kind.clone(),
        },
        subresource: "",
        namespace: "default",
        name: "p",
        operation: "CREATE",
        old: None,
        user,
        authorizer: &authorizer,
        options: &Value::Null,
        dry_run: false,
        lookup: &Nothing,
    };
    check(&active, &request, Some(object)).denial.is_none()
}

fn cost(c: &mut Criterion) {
    let Ok(registry) = registry(&Config::default()) else {
        return;
    };
    let pod = json::parse(POD.as_bytes(), &Limits::TRUSTED).unwrap_or_default();
    let user = Arc::new(User {
        name: "alice".into(),
        groups: vec!["devs".into()],
        ..User::default()
    });
    let mut group = c.benchmark_group("policies");
    for count in [0, 1, 10] {
        let policies = policies(count);
        group.bench_function(format!("{count} that do not concern the write"), |b| {
            b.iter(|| black_box(ask(&policies, &registry, "secrets", black_box(&pod), &user)));
        });
        if count > 0 {
            assert!(ask(&policies, &registry, "pods", &pod, &user), "the object passes");
            group.bench_function(format!("{count} of four validations"), |b| {
                b.iter(|| black_box(ask(&policies, &registry, "pods", black_box(&pod), &user)));
            });
        }
    }
    group.finish();
}

criterion_group!(benches, cost);
criterion_main!(benches);
