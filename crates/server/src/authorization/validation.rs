//! Validation of a configuration, which compiles its match conditions.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use holdfast_gotext::duration;
use holdfast_schema::metadata::formats::dns_subdomain;
use holdfast_schema::{FieldError, FieldPath};

use super::conditions::MatchConditions;
use super::configuration::{AuthorizationConfiguration, AuthorizerConfig, WebhookSettings};

/// Types of authorizers, sorted.
pub const KNOWN_TYPES: [&str; 6] = ["ABAC", "AlwaysAllow", "AlwaysDeny", "Node", "RBAC", WEBHOOK];

const WEBHOOK: &str = "Webhook";

const KUBECONFIG: &str = "KubeConfigFile";
const IN_CLUSTER: &str = "InClusterConfig";

/// Maximum time limit of a call in nanoseconds.
const MAX_TIMEOUT: i64 = 30_000_000_000;

/// Maximum number of match conditions of a webhook.
const MAX_CONDITIONS: usize = 64;

/// Result of a validation: the errors, and the match conditions of each authorizer.
#[derive(Debug, Default)]
pub struct Validated {
    /// Errors of the fields.
    pub errors: Vec<FieldError>,
    /// Match conditions of the authorizers, in their order. Incomplete if there are errors.
    pub conditions: Vec<MatchConditions>,
}

/// Validates a configuration.
///
/// upstream: k8s.io/apiserver/pkg/apis/apiserver/validation#ValidateAuthorizationConfiguration
pub fn validate(configuration: &AuthorizationConfiguration) -> Validated {
    let root = FieldPath::new("authorizers");
    let mut validated = Validated::default();
    if configuration.authorizers.is_empty() {
        let why = "at least one authorization mode must be defined";
        validated.errors.push(FieldError::required(&root, why));
    }
    let (mut types, mut names) = (BTreeSet::new(), BTreeSet::new());
    for (at, authorizer) in configuration.authorizers.iter().enumerate() {
        let path = root.index(at);
        let mut validator = Validator {
            path,
            errors: Vec::new(),
        };
        let conditions = validator.authorizer(authorizer, &mut types, &mut names);
        validated.errors.extend(validator.errors);
        validated.conditions.push(conditions);
    }
    validated
}

/// Validator of one authorizer.
struct Validator {
    path: FieldPath,
    errors: Vec<FieldError>,
}

impl Validator {
    fn required(&mut self, field: &str, why: &str) {
        self.errors.push(FieldError::required(&self.path.child(field), why));
    }

    fn invalid(&mut self, field: &str, value: &str, why: &str) {
        self.errors
            .push(FieldError::invalid(&self.path.child(field), value, why));
    }

    /// Checks that a field is one of `supported`.
    fn one_of(&mut self, field: &str, value: &str, supported: &[&str]) {
        match value {
            "" => self.required(field, ""),
            value if !supported.contains(&value) => {
                let error = FieldError::not_supported(&self.path.child(field), value, supported);
                self.errors.push(error);
            }
            _ => {}
        }
    }

    fn authorizer<'a>(
        &mut self,
        authorizer: &'a AuthorizerConfig,
        types: &mut BTreeSet<&'a str>,
        names: &mut BTreeSet<&'a str>,
    ) -> MatchConditions {
        let (kind, name) = (authorizer.kind.as_str(), authorizer.name.as_str());
        self.one_of("type", kind, &KNOWN_TYPES);
        if !self.errors.is_empty() {
            return MatchConditions::default();
        }
        if !types.insert(kind) && kind != WEBHOOK {
            self.errors.push(FieldError::duplicate(&self.path.child("type"), kind));
            return MatchConditions::default();
        }
        self.name(name, !names.insert(name));
        match &authorizer.webhook {
            Some(webhook) if kind == WEBHOOK => return self.webhook(webhook),
            Some(_) => self.invalid("webhook", "non-null", "may only be specified when type=Webhook"),
            None if kind == WEBHOOK => self.required("webhook", "required when type=Webhook"),
            None => {}
        }
        MatchConditions::default()
    }

    fn name(&mut self, name: &str, is_taken: bool) {
        if name.is_empty() {
            return self.required("name", "");
        }
        if is_taken {
            self.errors.push(FieldError::duplicate(&self.path.child("name"), name));
            return;
        }
        let messages = dns_subdomain(name);
        if !messages.is_empty() {
            let messages: Vec<String> = messages.iter().map(ToString::to_string).collect();
            let why = format!("authorizer name is invalid: {}", messages.join(", "));
            self.invalid("name", name, &why);
        }
    }

    /// Validates a webhook. The paths of errors do not contain `webhook`, as in the reference.
    ///
    /// upstream: k8s.io/apiserver/pkg/apis/apiserver/validation#ValidateWebhookConfiguration
    fn webhook(&mut self, webhook: &WebhookSettings) -> MatchConditions {
        match webhook.timeout {
            0 => self.required("timeout", ""),
            1..=MAX_TIMEOUT => {}
            other => self.invalid("timeout", &shown(other), "must be > 0s and <= 30s"),
        }
        for (field, ttl) in [
            ("authorizedTTL", webhook.authorized_ttl),
            ("unauthorizedTTL", webhook.unauthorized_ttl),
        ] {
            if ttl < 0 {
                self.invalid(field, &shown(ttl), "must be > 0s");
            }
        }
        self.one_of(
            "subjectAccessReviewVersion",
            &webhook.review_version,
            &["v1", "v1beta1"],
        );
        let field = "matchConditionSubjectAccessReviewVersion";
        match webhook.condition_version.as_str() {
            "" if webhook.match_conditions.is_empty() => {}
            "" => self.required(field, "required if match conditions are specified"),
            version => self.one_of(field, version, &["v1"]),
        }
        self.one_of("failurePolicy", &webhook.failure_policy, &["NoOpinion", "Deny"]);
        self.connection(webhook);
        self.conditions(&webhook.match_conditions)
    }

    fn connection(&mut self, webhook: &WebhookSettings) {
        let field = "connectionInfo.kubeConfigFile";
        let file = webhook.kubeconfig.as_deref();
        match webhook.connection_type.as_str() {
            IN_CLUSTER => match file {
                Some(file) => self.invalid(field, file, "can only be set when type=KubeConfigFile"),
                None => {
                    let path = self.path.child("connectionInfo.type");
                    let why = "InClusterConfig is not allowed for kube-apiserver";
                    self.errors.push(FieldError::forbidden(&path, why));
                }
            },
            KUBECONFIG => match file.unwrap_or_default() {
                "" => self.required(field, ""),
                file => {
                    if let Err(why) = check_file(Path::new(file)) {
                        self.invalid(field, file, &why);
                    }
                }
            },
            other => self.one_of("connectionInfo.type", other, &[IN_CLUSTER, KUBECONFIG]),
        }
    }

    /// upstream: k8s.io/apiserver/pkg/apis/apiserver/validation#compileMatchConditions
    fn conditions(&mut self, expressions: &[String]) -> MatchConditions {
        let path = self.path.child("matchConditions");
        let mut conditions = MatchConditions::default();
        if expressions.len() > MAX_CONDITIONS {
            let error = FieldError::too_many(&path, expressions.len(), MAX_CONDITIONS);
            self.errors.push(error);
            return conditions;
        }
        let mut seen = BTreeSet::new();
        for (at, expression) in expressions.iter().enumerate() {
            let path = path.index(at).child("expression");
            let error = if expression.trim().is_empty() {
                Some(FieldError::required(&path, ""))
            } else if !seen.insert(expression) {
                Some(FieldError::duplicate(&path, expression.as_str()))
            } else {
                let added = conditions.add(expression);
                added
                    .err()
                    .map(|why| FieldError::invalid(&path, expression.as_str(), why))
            };
            self.errors.extend(error);
        }
        conditions
    }
}

/// Checks that `path` is a regular file.
fn check_file(path: &Path) -> Result<(), String> {
    if !path.is_absolute() {
        return Err("must be an absolute path".to_owned());
    }
    let file = fs::metadata(path).map_err(|error| format!("error loading file: {error}"))?;
    match file.is_file() {
        true => Ok(()),
        false => Err("must be a regular file".to_owned()),
    }
}

/// Returns nanoseconds as Go shows them.
fn shown(nanoseconds: i64) -> String {
    let sign = if nanoseconds < 0 { "-" } else { "" };
    format!(
        "{sign}{}",
        duration::text(Duration::from_nanos(nanoseconds.unsigned_abs()))
    )
}

#[cfg(test)]
mod tests {
    use holdfast_schema::Aggregate;

    use super::*;

    fn errors(authorizers: &str) -> String {
        let text = format!(
            "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\nauthorizers: {authorizers}"
        );
        let configuration = AuthorizationConfiguration::read(text.as_bytes()).unwrap();
        let errors = validate(&configuration).errors;
        if errors.is_empty() {
            String::new()
        } else {
            Aggregate(&errors).to_string()
        }
    }

    fn webhook(more: &str) -> String {
        errors(&format!(
            "[{{type: Webhook, name: w, webhook: {{timeout: 3s, subjectAccessReviewVersion: v1, failurePolicy: Deny, \
             connectionInfo: {{type: KubeConfigFile, kubeConfigFile: /proc/self/exe}}{more}}}}}]"
        ))
    }

    #[test]
    fn valid_chain_has_no_errors() {
        assert_eq!(errors("[{type: Node, name: node}, {type: RBAC, name: rbac}]"), "");
        assert_eq!(webhook(""), "");
        assert_eq!(
            webhook(
                ", matchConditionSubjectAccessReviewVersion: v1, matchConditions: [{expression: 'request.user == \"a\"'}]"
            ),
            ""
        );
    }

    #[test]
    fn invalid_chain_is_reported_with_its_fields() {
        for (authorizers, expected) in [
            (
                "[]",
                "authorizers: Required value: at least one authorization mode must be defined",
            ),
            ("[{name: a}]", "authorizers[0].type: Required value"),
            (
                "[{type: Nobody, name: a}]",
                "authorizers[0].type: Unsupported value: \"Nobody\": supported values: \"ABAC\", \"AlwaysAllow\", \"AlwaysDeny\", \"Node\", \"RBAC\", \"Webhook\"",
            ),
            (
                "[{type: RBAC, name: rbac}, {type: RBAC, name: b}]",
                "authorizers[1].type: Duplicate value: \"RBAC\"",
            ),
            ("[{type: RBAC}]", "authorizers[0].name: Required value"),
            (
                "[{type: Webhook, name: w}]",
                "authorizers[0].webhook: Required value: required when type=Webhook",
            ),
            (
                "[{type: RBAC, name: rbac, webhook: {}}]",
                "authorizers[0].webhook: Invalid value: \"non-null\": may only be specified when type=Webhook",
            ),
        ] {
            assert_eq!(errors(authorizers), expected);
        }
        assert!(errors("[{type: RBAC, name: A_}]").starts_with(
            "authorizers[0].name: Invalid value: \"A_\": authorizer name is invalid: a lowercase RFC 1123 subdomain"
        ));
    }

    #[test]
    fn invalid_webhook_is_reported_with_its_fields() {
        let all = errors(
            "[{type: Webhook, name: w, webhook: {timeout: 31s, authorizedTTL: -1s, connectionInfo: {type: InClusterConfig}}}]",
        );
        for expected in [
            "authorizers[0].timeout: Invalid value: \"31s\": must be > 0s and <= 30s",
            "authorizers[0].authorizedTTL: Invalid value: \"-1s\": must be > 0s",
            "authorizers[0].subjectAccessReviewVersion: Required value",
            "authorizers[0].failurePolicy: Required value",
            "authorizers[0].connectionInfo.type: Forbidden: InClusterConfig is not allowed for kube-apiserver",
        ] {
            assert!(all.contains(expected), "{expected}: {all}");
        }
        for (conditions, expected) in [
            (
                "[{expression: 'true'}]",
                "authorizers[0].matchConditionSubjectAccessReviewVersion: Required value",
            ),
            (
                "[{expression: ''}]",
                "authorizers[0].matchConditions[0].expression: Required value",
            ),
            (
                "[{expression: 'true'}, {expression: 'true'}]",
                "authorizers[0].matchConditions[1].expression: Duplicate value: \"true\"",
            ),
            (
                "[{expression: '1'}]",
                "authorizers[0].matchConditions[0].expression: Invalid value: \"1\": must evaluate to bool but got int",
            ),
        ] {
            let found = webhook(&format!(", matchConditions: {conditions}"));
            assert!(found.contains(expected), "{expected}: {found}");
        }
    }
}
