//! Tests of policies without a server: their input and their results.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::ops::ControlFlow;
use std::sync::Arc;

use holdfast_authorization::{AlwaysAllow, Authorizer, User};
use holdfast_cel::PatternMemory;
use holdfast_resource::{Lookup, Registry};
use holdfast_schema::{GroupResource, GroupVersion, GroupVersionKind};
use holdfast_value::{Limits, Value, yaml};

use super::mutating::{self, MutationError, ObjectTypes};
use super::reinvocation::Reinvocation;
use super::request::Request;
use super::validating::{self, ValidationResult};
use super::{Check, Policies};

fn parse(text: &str) -> Value {
    yaml::parse(text.as_bytes(), &Limits::TRUSTED).unwrap()
}

/// Policies, and the objects that they can look up.
struct World {
    registry: Registry,
    objects: Vec<Value>,
    policies: Policies,
}

/// A write: the operation, the plural name and the object, with the subresource after a slash.
struct Write<'a> {
    operation: &'static str,
    resource: &'a str,
    object: &'a str,
}

impl Lookup for World {
    fn get(&self, resource: &GroupResource, namespace: &str, name: &str) -> Option<Value> {
        let kind = &self.registry.resource(resource)?.kind;
        let is = |object: &&Value| {
            object.str_at(&["kind"]) == Some(kind)
                && object.str_at(&["metadata", "name"]) == Some(name)
                && object.str_at(&["metadata", "namespace"]).unwrap_or_default() == namespace
        };
        self.objects.iter().find(is).cloned()
    }

    fn list(&self, resource: &GroupResource, namespace: &str, visit: &mut dyn FnMut(&Value) -> ControlFlow<()>) {
        let kind = self.registry.resource(resource).map(|resource| resource.kind.clone());
        for object in &self.objects {
            let found_in = object.str_at(&["metadata", "namespace"]).unwrap_or_default();
            if object.str_at(&["kind"]) == kind.as_deref() && found_in == namespace && visit(object).is_break() {
                return;
            }
        }
    }
}

/// Object types that accept every object unchanged.
struct AsTheyAre;

impl ObjectTypes for AsTheyAre {
    fn merge(&self, _kind: &GroupVersionKind, object: &Value, configuration: Value) -> Result<Value, String> {
        let mut merged = object.clone();
        for (key, value) in configuration.get("data").and_then(Value::as_map).into_iter().flatten() {
            merged.set_at(&["data", key], value.clone());
        }
        Ok(merged)
    }

    fn conform(&self, _kind: &GroupVersionKind, object: Value) -> Result<Value, MutationError> {
        Ok(object)
    }
}

const PODS: &str = "{apiGroups: [''], apiVersions: [v1], operations: ['*'], resources: [pods]}";

impl World {
    fn new() -> Self {
        let namespace = "{apiVersion: v1, kind: Namespace, metadata: {name: default, labels: {env: test}, uid: u}}";
        Self {
            registry: holdfast_kinds::registry(&holdfast_kinds::Config::default()).unwrap(),
            objects: vec![parse(namespace)],
            policies: Policies::default(),
        }
    }

    fn with_object(mut self, text: &str) -> Self {
        self.objects.push(parse(text));
        self
    }

    /// Adds a validating policy `p` on pods with additional fields in its spec, and a binding `b` with additional
    /// fields.
    fn validating(self, rules: &str, spec: &str, binding: &str) -> Self {
        let policy = format!("{{spec: {{matchConstraints: {rules}, {spec}}}}}");
        self.policies.validating.set_policy("p", Some(&parse(&policy)));
        let binding = format!("{{spec: {{policyName: p, validationActions: [Deny]{binding}}}}}");
        self.policies.validating.set_binding("b", Some(&parse(&binding)));
        self
    }

    fn request<R>(&self, write: &Write<'_>, ask: impl FnOnce(&Request<'_>, Value) -> R) -> R {
        let (plural, subresource) = write.resource.split_once('/').unwrap_or((write.resource, ""));
        let name = GroupResource {
            group: Default::default(),
            resource: plural.into(),
        };
        let resource = self.registry.resource(&name).unwrap();
        let object = parse(write.object);
        let authorizer: Arc<dyn Authorizer> = Arc::new(AlwaysAllow);
        let user = Arc::new(User {
            name: "alice".into(),
            ..User::default()
        });
        let version = GroupVersion::new("", "v1");
        let name = object.str_at(&["metadata", "name"]).unwrap_or_default().to_owned();
        let namespace = if resource.namespaced() { "default" } else { "" };
        let old = (write.operation != "CREATE").then_some(&object);
        let request = Request {
            registry: &self.registry,
            resource,
            version: version.clone(),
            kind: GroupVersionKind {
                group_version: version,
                kind: resource.kind.clone(),
            },
            subresource,
            namespace: if resource.capabilities.is_namespace {
                &name
            } else {
                namespace
            },
            name: &name,
            operation: write.operation,
            old,
            user: &user,
            authorizer: &authorizer,
            options: &Value::Null,
            dry_run: false,
            lookup: self,
        };
        ask(&request, object.clone())
    }

    fn check(&self, write: &Write<'_>) -> ValidationResult {
        self.request(write, |request, object| {
            let object = Some(object).filter(|_| write.operation != "DELETE");
            validating::check(&self.policies.validating.now(), request, object.as_ref())
        })
    }

    /// Returns the reason why the creation of a pod of that name, with additional fields, is rejected.
    fn rejected(&self, name: &str, rest: &str) -> Option<String> {
        let object = format!("{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, namespace: default{rest}}}}}");
        let result = self.check(&Write {
            operation: "CREATE",
            resource: "pods",
            object: &object,
        });
        let text = result.denial.map(|denial| denial.message)?;
        Some(
            text.split_once("denied request: ")
                .map_or(text.clone(), |(_, why)| why.to_owned()),
        )
    }
}

const NEVER: &str = "validations: [{expression: 'false', message: seen}]";

fn seen() -> Option<String> {
    Some("seen".to_owned())
}

#[test]
fn rules_name_resources_operations_and_single_objects() {
    let rules = |rest: &str| format!("{{resourceRules: [{{apiGroups: [''], apiVersions: [v1], {rest}}}]}}");
    let policies = |rest: &str| World::new().validating(&rules(rest), NEVER, "");
    assert_eq!(
        policies("operations: [CREATE], resources: [pods]").rejected("a", ""),
        seen()
    );
    assert_eq!(
        policies("operations: [UPDATE], resources: [pods]").rejected("a", ""),
        None
    );
    assert_eq!(
        policies("operations: ['*'], resources: [pods/status]").rejected("a", ""),
        None
    );
    let named = policies("operations: ['*'], resources: [pods], resourceNames: [a, b]");
    assert_eq!(named.rejected("a", ""), seen());
    assert_eq!(named.rejected("c", ""), None);
}

#[test]
fn patterns_are_compiled_into_memory_of_policies() {
    let memory = PatternMemory::new(8 << 20);
    let named = "validations: [{expression: \"object.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')\"}]";
    let fresh_world = World {
        policies: Policies::new(&memory),
        ..World::new()
    };
    let world = fresh_world.validating(&format!("{{resourceRules: [{PODS}]}}"), named, "");
    for _ in 0..1000 {
        assert_eq!(world.rejected("web-0", ""), None);
    }
    assert!(memory.taken() > 0);
    world.policies.validating.set_policy("p", None);
    assert_eq!(memory.taken(), 0, "it goes with the policy");
}

#[test]
fn excluded_resource_does_not_match() {
    let rules = format!(
        "{{resourceRules: [{PODS}], excludeResourceRules: [{{apiGroups: ['*'], apiVersions: ['*'], operations: [CREATE], \
         resources: ['*'], resourceNames: [free]}}]}}"
    );
    let world = World::new().validating(&rules, NEVER, "");
    assert_eq!(world.rejected("free", ""), None);
    assert_eq!(world.rejected("other", ""), seen());
}

#[test]
fn selectors_take_objects_and_namespaces_by_their_labels() {
    let world =
        |selector: &str| World::new().validating(&format!("{{resourceRules: [{PODS}], {selector}}}"), NEVER, "");
    let objects = world("objectSelector: {matchLabels: {a: b}}");
    assert_eq!(objects.rejected("x", ", labels: {a: b}"), seen());
    assert_eq!(objects.rejected("x", ""), None);
    assert_eq!(
        world("namespaceSelector: {matchLabels: {env: test}}").rejected("x", ""),
        seen()
    );
    assert_eq!(
        world("namespaceSelector: {matchLabels: {env: prod}}").rejected("x", ""),
        None
    );
    let rules = "{resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: ['*'], resources: [namespaces, nodes]}], \
                      namespaceSelector: {matchLabels: {env: prod}}}";
    let namespaces = World::new().validating(rules, NEVER, "");
    let made = |resource: &str, object: &str| {
        let write = Write {
            operation: "CREATE",
            resource,
            object,
        };
        namespaces.check(&write).denial.is_some()
    };
    assert!(made("namespaces", "{metadata: {name: new, labels: {env: prod}}}"));
    assert!(!made("namespaces", "{metadata: {name: new}}"));
    assert!(
        made("nodes", "{metadata: {name: n}}"),
        "a namespace selector says nothing of the cluster"
    );
}

#[test]
fn a_binding_narrows_what_its_policy_sees() {
    let rules = format!("{{resourceRules: [{PODS}]}}");
    let bound = ", matchResources: {objectSelector: {matchLabels: {a: b}}}";
    let world = World::new().validating(&rules, NEVER, bound);
    assert_eq!(world.rejected("x", ""), None);
    assert_eq!(world.rejected("x", ", labels: {a: b}"), seen());
}

#[test]
fn an_equivalent_version_is_seen_as_the_rules_name_it() {
    let rules = |policy: &str| {
        format!(
            "{{resourceRules: [{{apiGroups: [events.k8s.io], apiVersions: [v1], operations: ['*'], resources: [events]}}], matchPolicy: {policy}}}"
        )
    };
    let spec = "validations: [{expression: 'false', messageExpression: \"request.kind.group + ' for ' + request.requestKind.version\"}]";
    let write = Write {
        operation: "CREATE",
        resource: "events",
        object: "{apiVersion: v1, kind: Event, metadata: {name: e, namespace: default}}",
    };
    let reported = |policy: &str| {
        let result = World::new().validating(&rules(policy), spec, "").check(&write);
        result.denial.map(|denial| denial.message)
    };
    assert_eq!(
        reported("Equivalent").as_deref(),
        Some("ValidatingAdmissionPolicy 'p' with binding 'b' denied request: events.k8s.io for v1")
    );
    assert_eq!(reported("Exact"), None);
}

fn parameter(namespace: &str, name: &str, most: &str, labels: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: ConfigMap, metadata: {{name: {name}, namespace: {namespace}, labels: {labels}}}, data: {{most: '{most}'}}}}"
    )
}

const LIMITED: &str = "paramKind: {apiVersion: v1, kind: ConfigMap}, validations: [{expression: size(object.metadata.name) <= int(params.data.most), \
                       messageExpression: \"'at most ' + params.data.most\"}]";

#[test]
fn parameters_are_chosen_by_name_or_by_labels() {
    let rules = format!("{{resourceRules: [{PODS}]}}");
    let world = |reference: &str| {
        World::new()
            .with_object(&parameter("default", "one", "3", "{a: b}"))
            .with_object(&parameter("default", "two", "5", "{a: b}"))
            .with_object(&parameter("other", "one", "1", "{a: b}"))
            .validating(
                &rules,
                LIMITED,
                &format!(", paramRef: {{parameterNotFoundAction: Deny, {reference}}}"),
            )
    };
    let at_most = |most: &str| Some(format!("at most {most}"));
    assert_eq!(world("name: one").rejected("abcd", ""), at_most("3"));
    assert_eq!(world("name: one").rejected("abc", ""), None);
    assert_eq!(world("name: one, namespace: other").rejected("abc", ""), at_most("1"));
    let selected = world("selector: {matchLabels: {a: b}}");
    assert_eq!(selected.rejected("abcd", ""), at_most("3"));
    assert_eq!(selected.rejected("abc", ""), None);
    let none = Some(
        "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction"
            .to_owned(),
    );
    assert_eq!(world("selector: {matchLabels: {c: d}}").rejected("a", ""), none);
    assert_eq!(world("name: none").rejected("a", ""), none);
}

#[test]
fn without_parameters_a_policy_that_may_do_without_sees_nothing() {
    let rules = format!("{{resourceRules: [{PODS}]}}");
    let reference = ", paramRef: {name: none, parameterNotFoundAction: Allow}";
    assert_eq!(
        World::new().validating(&rules, LIMITED, reference).rejected("a", ""),
        None
    );
    let no_reference =
        "paramKind: {apiVersion: v1, kind: ConfigMap}, validations: [{expression: params == null, message: given}]";
    assert_eq!(
        World::new().validating(&rules, no_reference, "").rejected("a", ""),
        None
    );
}

#[test]
fn a_kind_of_parameters_must_be_served_and_fit_its_reference() {
    let rules = format!("{{resourceRules: [{PODS}]}}");
    let reported = |kind: &str, reference: &str, rest: &str| {
        let spec = format!("paramKind: {{{kind}}}, {NEVER}{rest}");
        let reference = format!(", paramRef: {{parameterNotFoundAction: Deny, {reference}}}");
        World::new().validating(&rules, &spec, &reference).rejected("a", "")
    };
    assert_eq!(
        reported("apiVersion: x.y/v1, kind: Z", "name: a", "").as_deref(),
        Some("failed to configure policy: failed to find resource referenced by paramKind: 'x.y/v1, Kind=Z'")
    );
    assert_eq!(
        reported("apiVersion: x.y/v1, kind: Z", "name: a", ", failurePolicy: Ignore"),
        None
    );
    assert_eq!(
        reported("apiVersion: v1, kind: Node", "name: a, namespace: ns", "").as_deref(),
        Some("failed to configure binding: paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
    );
}

#[test]
fn match_condition_errors_follow_failure_policy() {
    let rules = format!("{{resourceRules: [{PODS}]}}");
    let world = |rest: &str| {
        let spec = format!(
            "{NEVER}, matchConditions: [{{name: a, expression: \"object.metadata.name != 'free'\"}}, \
             {{name: b, expression: object.metadata.labels.x == 'on-time'}}]{rest}"
        );
        World::new().validating(&rules, &spec, "")
    };
    assert_eq!(world("").rejected("free", ""), None);
    assert_eq!(world("").rejected("a", ", labels: {x: on-time}"), seen());
    assert_eq!(world("").rejected("a", ", labels: {x: late}"), None);
    assert_eq!(
        world("").rejected("a", "").as_deref(),
        Some("expression 'object.metadata.labels.x == 'on-time'' resulted in error: no such key: labels")
    );
    assert_eq!(world(", failurePolicy: Ignore").rejected("a", ""), None);
    let write = Write {
        operation: "CREATE",
        resource: "pods",
        object: "{metadata: {name: a, labels: {x: on-time}}}",
    };
    let annotated = || {
        let spec = "auditAnnotations: [{key: a, valueExpression: \"object.metadata.labels.x + '!'\"}]";
        World::new().validating(&rules, spec, "")
    };
    let annotations_of = |world: World| world.check(&write).annotations;
    assert_eq!(annotations_of(annotated()), [("p/a".to_owned(), "on-time!".to_owned())]);
    // Two bindings produce the same annotation.
    let twice = annotated();
    let binding = parse("{spec: {policyName: p, validationActions: [Deny]}}");
    twice.policies.validating.set_binding("c", Some(&binding));
    assert_eq!(annotations_of(twice), [("p/a".to_owned(), "on-time!".to_owned())]);
    let empty = "auditAnnotations: [{key: a, valueExpression: \"' '\"}, {key: b, valueExpression: 'null'}]";
    assert_eq!(annotations_of(World::new().validating(&rules, empty, "")), []);
}

#[test]
fn a_failure_that_is_to_be_audited_is_reported_with_its_place() {
    let rules = format!("{{resourceRules: [{PODS}]}}");
    let spec = "validations: [{expression: 'true'}, {expression: 'false', message: 'a <b>'}]";
    let world = World::new().validating(&rules, spec, "");
    let binding = parse("{spec: {policyName: p, validationActions: [Audit, Warn]}}");
    world.policies.validating.set_binding("b", Some(&binding));
    let write = Write {
        operation: "CREATE",
        resource: "pods",
        object: "{metadata: {name: a}}",
    };
    let failure = "[{\"message\":\"a \\u003cb\\u003e\",\"policy\":\"p\",\"binding\":\"b\",\"expressionIndex\":1,\
                   \"validationActions\":[\"Audit\",\"Warn\"]}]";
    let key = "validation.policy.admission.k8s.io/validation_failure";
    assert_eq!(world.check(&write).annotations, [(key.to_owned(), failure.to_owned())]);
}

#[test]
fn invalid_message_falls_back_to_fixed_one_or_expression() {
    let rules = format!("{{resourceRules: [{PODS}]}}");
    let reported = |rest: &str| {
        let spec = format!("validations: [{{expression: ' 1 > 2 '{rest}}}]");
        World::new().validating(&rules, &spec, "").rejected("a", "")
    };
    assert_eq!(reported("").as_deref(), Some("failed expression: 1 > 2"));
    assert_eq!(reported(", message: ' fixed '").as_deref(), Some("fixed"));
    for made in [
        "string(object.none)",
        "' '",
        r#""'a\\nb'""#,
        "'abcdefgh'.replace('', 'x'.replace('x', '0123456789'.replace('', '0123456789'.replace('', '0123456789012345678901234567890123456789'))))",
    ] {
        let reported = reported(&format!(
            ", message: fixed, messageExpression: {}",
            if made.starts_with('"') {
                made.to_owned()
            } else {
                format!("\"{made}\"")
            }
        ));
        assert_eq!(reported.as_deref(), Some("fixed"), "{made}");
    }
}

#[test]
fn expressions_that_cost_too_much_end_the_policy() {
    let rules = format!("{{resourceRules: [{PODS}]}}");
    let ranges = "lists.range(900).all(a, lists.range(900).all(b, a + b >= 0))";
    let each = format!("validations: [{{expression: \"{ranges}\"}}]");
    let reported = World::new().validating(&rules, &each, "").rejected("a", "").unwrap();
    assert!(
        reported.ends_with("resulted in error: operation cancelled: actual cost limit exceeded"),
        "{reported}"
    );
    let many = vec![format!("{{expression: \"{}\"}}", ranges.replace("900", "400")); 20].join(", ");
    let world = World::new().validating(&rules, &format!("validations: [{many}]"), "");
    assert_eq!(
        world.rejected("a", "").as_deref(),
        Some(super::expression::OUT_OF_BUDGET)
    );
    let write = Write {
        operation: "CREATE",
        resource: "pods",
        object: "{metadata: {name: a}}",
    };
    let checks: Vec<(&str, &str)> = world
        .check(&write)
        .checks
        .iter()
        .map(|check| (check.error, check.action))
        .collect();
    assert_eq!(checks, [("out_of_budget", "deny")]);
}

#[test]
fn variables_are_evaluated_once() {
    let rules = format!("{{resourceRules: [{PODS}]}}");
    // Each use costs more than the common budget.
    let dear = "lists.range(300).all(a, lists.range(300).all(b, a + b >= 0))";
    let uses = vec!["{expression: variables.dear}"; 40].join(", ");
    let spec = format!("variables: [{{name: dear, expression: \"{dear}\"}}], validations: [{uses}]");
    assert_eq!(World::new().validating(&rules, &spec, "").rejected("a", ""), None);
}

#[test]
fn annotations_of_the_audit_log_are_evaluated() {
    let rules = format!("{{resourceRules: [{PODS}]}}");
    let world = |rest: &str| {
        let spec = format!("auditAnnotations: [{{key: a, valueExpression: object.metadata.labels.x + '!'}}]{rest}");
        World::new().validating(&rules, &spec, "")
    };
    assert_eq!(world("").rejected("a", ", labels: {x: on-time}"), None);
    assert!(world("").rejected("a", "").unwrap().ends_with("no such key: labels"));
    assert_eq!(world(", failurePolicy: Ignore").rejected("a", ""), None);
}

#[test]
fn results_of_checks_are_counted() {
    let rules = format!("{{resourceRules: [{PODS}]}}");
    let write = Write {
        operation: "CREATE",
        resource: "pods",
        object: "{metadata: {name: a}}",
    };
    let counted = |spec: &str, binding: &str| {
        let world = World::new().validating(&rules, spec, "");
        let binding = parse(&format!("{{spec: {{policyName: p, validationActions: [{binding}]}}}}"));
        world.policies.validating.set_binding("b", Some(&binding));
        let result = world.check(&write);
        let checks = result.checks.iter().map(
            |Check {
                 policy,
                 binding,
                 error,
                 action,
                 ..
             }| format!("{policy}/{binding} {error} {action}"),
        );
        checks.collect::<Vec<_>>()
    };
    assert_eq!(
        counted(NEVER, "Warn, Audit"),
        ["p/b no_error warn", "p/b no_error audit"]
    );
    let failing = "validations: [{expression: object.none == 1}]";
    assert_eq!(counted(failing, "Deny"), ["p/b invalid_error deny"]);
    assert_eq!(
        counted(&format!("{failing}, failurePolicy: Ignore"), "Deny"),
        ["p/b invalid_error allow"]
    );
    assert_eq!(
        counted("validations: [{expression: 'true'}]", "Deny"),
        Vec::<String>::new()
    );
}

fn mutated(spec: &str) -> (Value, mutating::Outcome) {
    let world = World::new();
    let text = format!("{{spec: {{matchConstraints: {{resourceRules: [{PODS}]}}, {spec}}}}}");
    world.policies.mutating.set_policy("p", Some(&parse(&text)));
    world
        .policies
        .mutating
        .set_binding("b", Some(&parse("{spec: {policyName: p}}")));
    let write = Write {
        operation: "CREATE",
        resource: "pods",
        object: "{apiVersion: v1, kind: Pod, metadata: {name: a}, data: {k: v}}",
    };
    world.request(&write, |request, mut object| {
        let active = world.policies.mutating.now();
        let outcome = mutating::mutate(&active, request, &mut object, &AsTheyAre, &mut Reinvocation::default());
        (object, outcome)
    })
}

#[test]
fn a_mutation_sees_what_those_before_it_made() {
    let apply = |expression: &str| {
        format!("{{patchType: ApplyConfiguration, applyConfiguration: {{expression: \"{expression}\"}}}}")
    };
    let (object, outcome) = mutated(&format!(
        "mutations: [{}, {}]",
        apply("Object{data: {'one': '1'}}"),
        apply("Object{data: {'two': object.data.one + '2'}}")
    ));
    assert!(outcome.changed && outcome.rejections.is_empty());
    assert_eq!(object.str_at(&["data", "two"]), Some("12"));
    let (_, outcome) = mutated(&format!("mutations: [{}]", apply("Object{data: {'k': 'v'}}")));
    assert!(!outcome.changed);
    let (_, outcome) = mutated(&format!(
        "mutations: [{}]",
        apply("Object{data: {'k': null}, spec: Object.spec{a: null}}")
    ));
    assert!(
        !outcome.changed && outcome.rejections.is_empty(),
        "what is null says nothing"
    );
}

#[test]
fn failed_mutation_keeps_others_and_is_reported() {
    let patch = |expression: &str| format!("{{patchType: JSONPatch, jsonPatch: {{expression: \"{expression}\"}}}}");
    let (object, outcome) = mutated(&format!(
        "mutations: [{}, {}]",
        patch("[JSONPatch{op: 'replace', path: '/none/x', value: 1}]"),
        patch("[JSONPatch{op: 'add', path: '/data/later', value: 'yes'}]")
    ));
    assert_eq!(object.str_at(&["data", "later"]), Some("yes"));
    let messages: Vec<&str> = outcome
        .rejections
        .iter()
        .map(|rejected| rejected.message.as_str())
        .collect();
    assert_eq!(
        messages,
        [
            "policy 'p' with binding 'b' denied request: JSON Patch: replace operation does not apply: doc is missing path: /none/x: missing value"
        ]
    );
    let errors: Vec<&str> = outcome.checks.iter().map(|check| check.error).collect();
    assert_eq!(errors, ["invalid_error", "no_error"]);
}
