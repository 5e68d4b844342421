//! Type checking of the expressions of validating policies against the types of the objects in their rules. Its errors
//! do not reject a policy: they are reported in its status
//! (<https://kubernetes.io/docs/reference/access-authn-authz/validating-admission-policy/#type-checking>).

use std::collections::BTreeSet;

use holdfast_cel::{CompileError, CompositionBuilder, Environment, Type};
use holdfast_resource::Registry;
use holdfast_schema::{Field, GroupKind, GroupVersion, GroupVersionKind};
use holdfast_value::{Map, SmolStr, Value};

use super::environment::{
    AUTHORIZER, NAMESPACE_OBJECT, OBJECT, OLD_OBJECT, PARAMS, REQUEST, REQUEST_RESOURCE, namespace, request,
};

/// Maximum number of kinds that a policy is checked against.
const KINDS: usize = 10;

/// Returns the type errors of the expressions of a policy for its kinds in `registry`: a list of `ExpressionWarning`.
///
/// upstream: k8s.io/apiserver/pkg/admission/plugin/policy/validating#TypeChecker.Check
pub fn warnings(policy: &Value, registry: &Registry) -> Vec<Value> {
    let root = Field::root(policy);
    let spec = root.child("spec");
    let parameters = parameters_of(&spec, registry);
    let environments: Vec<(GroupVersionKind, Environment)> = kinds(&spec, registry)
        .into_iter()
        .filter_map(|kind| {
            let environment = environment_of(&kind, parameters.as_ref(), &spec, registry)?;
            Some((kind, environment))
        })
        .collect();
    let mut warnings = Vec::new();
    for validation in spec.child("validations").items() {
        for name in ["expression", "messageExpression"] {
            let expression = validation.child(name);
            if !expression.text().is_empty() {
                warnings.extend(warning(&expression, &environments));
            }
        }
    }
    warnings
}

fn environment_of(
    kind: &GroupVersionKind,
    parameters: Option<&Type>,
    spec: &Field<'_, '_>,
    registry: &Registry,
) -> Option<Environment> {
    let object = type_of(kind, registry)?;
    let mut environment = Environment::new()
        .with_variable(OBJECT, object.clone())
        .with_variable(OLD_OBJECT, object)
        .with_variable(NAMESPACE_OBJECT, namespace())
        .with_variable(REQUEST, request());
    if let Some(parameters) = parameters {
        environment = environment.with_variable(PARAMS, parameters.clone());
    }
    let environment = environment
        .with_variable(AUTHORIZER, Type::authorizer())
        .with_variable(REQUEST_RESOURCE, Type::resource_check());
    let mut builder = CompositionBuilder::new(&environment);
    for variable in spec.child("variables").items() {
        // A variable that does not compile has any type in the expressions that use it.
        let _ = builder.add(variable.child("name").text(), variable.child("expression").text());
    }
    Some(builder.finish().0)
}

fn parameters_of(spec: &Field<'_, '_>, registry: &Registry) -> Option<Type> {
    let kind = spec.child("paramKind");
    let kind = GroupVersionKind {
        group_version: GroupVersion::parse(kind.child("apiVersion").text())?,
        kind: kind.child("kind").text().into(),
    };
    type_of(&kind, registry)
}

/// Returns the type of objects of that kind in expressions, if it is served.
fn type_of(kind: &GroupVersionKind, registry: &Registry) -> Option<Type> {
    let api_version = kind.group_version.api_version();
    let kind_type = registry.types().kind(&api_version, &kind.kind).cloned().or_else(|| {
        let resource = registry.kind(&GroupKind {
            group: kind.group_version.group.clone(),
            kind: kind.kind.clone(),
        })?;
        resource.kind_type(&api_version)
    })?;
    Some(Type::declared(&kind_type.decl_type()?, &kind.kind))
}

/// Returns the kinds that the rules name explicitly, in order.
fn kinds(spec: &Field<'_, '_>, registry: &Registry) -> Vec<GroupVersionKind> {
    let constraints = spec.child("matchConstraints");
    let mut found = BTreeSet::new();
    for rule in constraints.child("resourceRules").items() {
        let names = |field: &str| -> Vec<SmolStr> {
            let field = rule.child(field);
            let mut names: Vec<SmolStr> = field.items().map(|name| name.text().into()).collect();
            names.sort();
            names
        };
        let (groups, versions) = (names("apiGroups"), names("apiVersions"));
        if groups.iter().chain(&versions).any(|name| name.contains('*')) {
            continue;
        }
        let resources: Vec<SmolStr> = names("resources")
            .into_iter()
            .filter(|name| !name.contains(['*', '/']))
            .collect();
        for group in &groups {
            for version in &versions {
                for resource in &resources {
                    if let Some(served) = registry.served(group, version, resource) {
                        found.insert((group.clone(), version.clone(), served.resource.kind.clone()));
                    }
                    if found.len() == KINDS {
                        return in_order(found);
                    }
                }
            }
        }
    }
    in_order(found)
}

fn in_order(kinds: BTreeSet<(SmolStr, SmolStr, SmolStr)>) -> Vec<GroupVersionKind> {
    let kinds = kinds.into_iter().map(|(group, version, kind)| GroupVersionKind {
        group_version: GroupVersion::new(group, version),
        kind,
    });
    kinds.collect()
}

/// Returns the type errors of an expression in the environments.
///
/// upstream: k8s.io/apiserver/pkg/admission/plugin/policy/validating#TypeChecker.CheckExpression
fn warning(expression: &Field<'_, '_>, environments: &[(GroupVersionKind, Environment)]) -> Option<Value> {
    let reported = environments.iter().filter_map(|(kind, environment)| {
        let error = environment.compile(expression.text(), &[]).err()?;
        let CompileError::Issues(issues) = error else {
            return None;
        };
        let GroupVersion { group, version } = &kind.group_version;
        Some(format!("{group}/{version}, Kind={}: {issues}\n", kind.kind))
    });
    let reported: Vec<String> = reported.collect();
    if reported.is_empty() {
        return None;
    }
    let mut warning = Map::new();
    warning.insert("fieldRef", expression.path().to_string().as_str());
    warning.insert("warning", reported.join("\n").as_str());
    Some(Value::Map(warning))
}

#[cfg(test)]
mod tests {
    use holdfast_value::{Limits, yaml};

    fn warnings(rules: &str, rest: &str) -> Vec<String> {
        let text = format!("{{spec: {{matchConstraints: {{resourceRules: [{rules}]}}, {rest}}}}}");
        let policy = yaml::parse(text.as_bytes(), &Limits::TRUSTED).unwrap();
        let registry = holdfast_kinds::registry(&holdfast_kinds::Config::default()).unwrap();
        let warnings = super::warnings(&policy, &registry);
        warnings
            .iter()
            .map(|warning| {
                let text = |field: &str| warning.str_at(&[field]).unwrap().to_owned();
                format!("{}: {}", text("fieldRef"), text("warning"))
            })
            .collect()
    }

    const DEPLOYMENTS: &str = "{apiGroups: [apps], apiVersions: [v1], resources: [deployments], operations: ['*']}";

    #[test]
    fn a_field_that_the_kind_lacks_is_reported_with_the_kind() {
        let rest = "variables: [{name: count, expression: object.spec.replicas}], validations: [{expression: variables.count > 1}, \
                    {expression: object.foo > 1, messageExpression: object.spec.bar}, {expression: 'object.metadata.name == oldObject.kind'}]";
        assert_eq!(
            warnings(DEPLOYMENTS, rest),
            [
                "spec.validations[1].expression: apps/v1, Kind=Deployment: ERROR: <input>:1:7: undefined field 'foo'\n | object.foo > 1\n | ......^\n",
                "spec.validations[1].messageExpression: apps/v1, Kind=Deployment: ERROR: <input>:1:12: undefined field 'bar'\n | object.spec.bar\n | ...........^\n",
            ]
        );
    }

    #[test]
    fn each_kind_is_checked_and_wildcards_are_passed_over() {
        let rules =
            "{apiGroups: ['', apps], apiVersions: [v1], resources: [pods, deployments, 'pods/*'], operations: ['*']}";
        let found = warnings(rules, "validations: [{expression: object.spec.replicas > 1}]");
        assert_eq!(found.len(), 1);
        assert!(
            found[0].contains("/v1, Kind=Pod: ERROR") && !found[0].contains("Deployment"),
            "{found:?}"
        );
        let all = "{apiGroups: ['*'], apiVersions: [v1], resources: [pods], operations: ['*']}";
        assert_eq!(
            warnings(all, "validations: [{expression: object.foo > 1}]"),
            Vec::<String>::new()
        );
    }

    #[test]
    fn parameters_are_typed_where_their_kind_is_known() {
        let rest = |kind: &str| {
            format!("paramKind: {{apiVersion: v1, kind: {kind}}}, validations: [{{expression: params.nothing == 'a'}}]")
        };
        let found = warnings(DEPLOYMENTS, &rest("ConfigMap"));
        assert!(found[0].contains("undefined field 'nothing'"), "{found:?}");
        let found = warnings(DEPLOYMENTS, &rest("Unknown"));
        assert!(found[0].contains("undeclared reference to 'params'"), "{found:?}");
    }
}
