//! FlowSchemas: assignment of requests to priority levels.

use std::ops::ControlFlow;

use holdfast_schema::metadata::formats::{dns_label, dns_subdomain};
use holdfast_schema::{Check, Field, FieldError, FieldPath, Part, Rules};
use holdfast_value::Value;

use super::EXEMPT;
use crate::rules::FlowSchemaRule;
use crate::validation::{Errors, report};

const ALL: &str = "*";
const VERBS: [&str; 9] = [
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "proxy",
    "update",
    "watch",
];
/// Kinds of subjects with the field of each.
const SUBJECTS: [(&str, &str); 3] = [
    ("Group", "group"),
    ("ServiceAccount", "serviceAccount"),
    ("User", "user"),
];

/// Validation rules of FlowSchemas that validation tags do not cover.
pub(super) struct SchemaRules<'n> {
    /// Name of the schema.
    pub(super) name: &'n str,
}

impl<'v> Rules<'v> for SchemaRules<'_> {
    type Rule = FlowSchemaRule;

    fn rule(&self, rule: FlowSchemaRule, part: &Part<'v, '_>, check: &mut Check<'_>) {
        let errors = &mut check.errors;
        match rule {
            FlowSchemaRule::MatchingPrecedence => {
                let precedence = part.child("matchingPrecedence");
                if precedence.number() == Some(1) && self.name != EXEMPT {
                    errors.push(precedence.invalid("only the schema named 'exempt' may have matchingPrecedence 1"));
                }
            }
            FlowSchemaRule::DistinguisherMethod => validate_method(&part.child("distinguisherMethod"), errors),
            FlowSchemaRule::Subject => validate_subject(part, errors),
            FlowSchemaRule::Some => {
                if part.child("resourceRules").is_empty() && part.child("nonResourceRules").is_empty() {
                    errors
                        .push(part.required("at least one of resourceRules and nonResourceRules has to be non-empty"));
                }
            }
            FlowSchemaRule::Verbs => validate_verbs(&part.child("verbs"), errors),
            FlowSchemaRule::ApiGroups => {
                let _ = all_alone(&part.child("apiGroups"), "other api groups", errors);
            }
            FlowSchemaRule::Resources => {
                let _ = all_alone(&part.child("resources"), "other resources", errors);
            }
            FlowSchemaRule::Namespaces => validate_namespaces(part, errors),
            FlowSchemaRule::NonResourceURLs => validate_paths(&part.child("nonResourceURLs"), errors),
        }
    }
}

/// Validates the distinguisher method. The error shows the whole method.
///
/// upstream: pkg/apis/flowcontrol/validation#ValidateFlowSchemaSpec
fn validate_method(method: &Field<'_, '_>, errors: &mut Errors) {
    const METHODS: [&str; 2] = ["ByNamespace", "ByUser"];
    let type_field = method.child("type");
    if method.is_set() && !METHODS.contains(&type_field.text()) {
        let mut shown = Value::empty_map();
        shown.set_at(&["Type"], type_field.text().into());
        errors.push(FieldError::not_supported(&type_field.path(), shown, &METHODS));
    }
}

/// upstream: pkg/apis/flowcontrol/validation#ValidateFlowSchemaResourcePolicyRule
fn validate_namespaces(rule: &Field<'_, '_>, errors: &mut Errors) {
    let namespaces = rule.child("namespaces");
    if namespaces.is_empty() && !rule.child("clusterScope").is_true() {
        let why = "resource rules that are not cluster scoped must supply at least one namespace";
        errors.push(namespaces.required(why));
    } else if all_alone(&namespaces, "other namespaces", errors).is_continue() {
        for namespace in namespaces.items() {
            let messages = dns_label(namespace.text()).into_iter();
            errors.extend(messages.map(|message| {
                namespace.invalid(format!(
                    "each member of this list must be '*' or a DNS-1123 label; {message}"
                ))
            }));
        }
    }
}

/// upstream: pkg/apis/flowcontrol/validation#ValidateFlowSchemaNonResourcePolicyRule
fn validate_paths(paths: &Field<'_, '_>, errors: &mut Errors) {
    if all_alone(paths, "other non-resource URLs", errors).is_continue() {
        for path in paths.items() {
            if let Some(message) = path_error(path.text()) {
                errors.push(path.invalid(message));
            }
        }
    }
}

/// upstream: pkg/apis/flowcontrol/validation#ValidateFlowSchemaSubject
fn validate_subject(subject: &Field<'_, '_>, errors: &mut Errors) {
    let kind = subject.child("kind");
    let Some((_, own)) = SUBJECTS.iter().find(|(known, _)| *known == kind.text()) else {
        errors.push(kind.not_supported(&SUBJECTS.map(|(kind, _)| kind)));
        return;
    };
    let who = subject.child(own);
    if who.is_set() {
        validate_named_subject(kind.text(), &who, errors);
    } else {
        errors.push(who.required(format!("{own} is required when subject kind is '{}'", kind.text())));
    }
    for (other, field) in ["serviceAccount", "user", "group"]
        .into_iter()
        .filter_map(|field| SUBJECTS.iter().find(|(_, known)| *known == field && field != *own))
    {
        let part = subject.child(field);
        if part.is_set() {
            errors.push(part.forbidden(format!("{field} is forbidden when subject kind is not '{other}'")));
        }
    }
}

/// upstream: pkg/apis/flowcontrol/validation#ValidateServiceAccountSubject
fn validate_named_subject(kind: &str, who: &Field<'_, '_>, errors: &mut Errors) {
    let name = who.child("name");
    let of_account = kind == "ServiceAccount";
    if name.text().is_empty() {
        errors.push(name.required(""));
    } else if of_account && name.text() != ALL {
        report(&name, dns_subdomain(name.text()), errors);
    }
    if of_account {
        let namespace = who.child("namespace");
        if namespace.text().is_empty() {
            errors.push(namespace.required("must specify namespace for service account"));
        } else {
            report(&namespace, dns_label(namespace.text()), errors);
        }
    }
}

/// upstream: pkg/apis/flowcontrol/validation#ValidateFlowSchemaResourcePolicyRule
/// upstream: pkg/apis/flowcontrol/validation#ValidateFlowSchemaNonResourcePolicyRule
fn validate_verbs(verbs: &Field<'_, '_>, errors: &mut Errors) {
    if all_alone(verbs, "other verbs", errors).is_continue() && !verbs.items().all(|verb| VERBS.contains(&verb.text()))
    {
        let path: FieldPath = verbs.path();
        errors.push(FieldError::not_supported(
            &path,
            verbs.value().cloned().unwrap_or_default(),
            &VERBS,
        ));
    }
}

/// Reports `*` together with other items. Returns `Break` if the list contains `*`.
fn all_alone(list: &Field<'_, '_>, others: &str, errors: &mut Errors) -> ControlFlow<()> {
    if !list.items().any(|item| item.text() == ALL) {
        return ControlFlow::Continue(());
    }
    if list.len() > 1 {
        errors.push(list.invalid(format!("if '*' is present, must not specify {others}")));
    }
    ControlFlow::Break(())
}

/// Returns the error in a non-resource path.
///
/// upstream: pkg/apis/flowcontrol/validation#ValidateNonResourceURLPath
fn path_error(path: &str) -> Option<&'static str> {
    let stars = path.matches('*').count();
    Some(match path {
        "" => "must not be empty",
        "/" => return None,
        path if !path.starts_with('/') => "must start with slash",
        path if path.contains(' ') => "must not contain white-space",
        path if path.contains("//") => "must not contain double slash",
        path if stars > 1 || stars == 1 && !path.ends_with("/*") => "wildcard can only do suffix matching",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use crate::harness::Harness;

    fn schema(spec: &str) -> Vec<String> {
        Harness::new().errors(&format!(
            "{{apiVersion: flowcontrol.apiserver.k8s.io/v1, kind: FlowSchema, metadata: {{name: a}}, spec: {{{spec}}}}}"
        ))
    }

    const LEVEL: &str = "priorityLevelConfiguration: {name: l}";
    const WHO: &str = "subjects: [{kind: User, user: {name: u}}]";

    #[test]
    fn schema_without_level_or_with_precedence_1_is_rejected() {
        assert_eq!(
            schema(""),
            ["spec.priorityLevelConfiguration.name: Required value: must reference a priority level"]
        );
        assert_eq!(
            schema(&format!("{LEVEL}, matchingPrecedence: 1")),
            ["spec.matchingPrecedence: Invalid value: 1: only the schema named 'exempt' may have matchingPrecedence 1"]
        );
    }

    #[test]
    fn rules_say_whose_requests_for_what() {
        assert_eq!(
            schema(&format!("{LEVEL}, rules: [{{subjects: []}}]")),
            [
                "spec.rules[0].subjects: Required value: subjects must contain at least one value",
                "spec.rules[0]: Required value: at least one of resourceRules and nonResourceRules has to be non-empty",
            ]
        );
        let resources = "resourceRules: [{verbs: [get], apiGroups: ['*', x], resources: [a]}]";
        assert_eq!(
            schema(&format!("{LEVEL}, rules: [{{{WHO}, {resources}}}]")),
            [
                "spec.rules[0].resourceRules[0].apiGroups: Invalid value: [\"*\",\"x\"]: if '*' is present, must not specify \
                 other api groups",
                "spec.rules[0].resourceRules[0].namespaces: Required value: resource rules that are not cluster scoped must \
                 supply at least one namespace",
            ]
        );
    }

    #[test]
    fn a_subject_is_of_its_kind() {
        let subject = |subject: &str| {
            let paths = "nonResourceRules: [{verbs: ['*'], nonResourceURLs: [/healthz]}]";
            schema(&format!("{LEVEL}, rules: [{{subjects: [{{{subject}}}], {paths}}}]"))
        };
        assert!(subject("kind: ServiceAccount, serviceAccount: {namespace: ns, name: '*'}").is_empty());
        assert_eq!(
            subject("kind: User, group: {name: g}"),
            [
                "spec.rules[0].subjects[0].user: Required value: user is required when subject kind is 'User'",
                "spec.rules[0].subjects[0].group: Forbidden: group is forbidden when subject kind is not 'Group'",
            ]
        );
        assert_eq!(subject("kind: Robot").len(), 1);
    }
}
