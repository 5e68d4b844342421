//! ValidatingWebhookConfigurations and MutatingWebhookConfigurations
//! (<https://kubernetes.io/docs/reference/kubernetes-api/extend-resources/validating-webhook-configuration-v1/>).

use std::collections::HashSet;
use std::sync::Arc;

use holdfast_admission::policies::environment::Compiler;
use holdfast_admission::webhooks::{WebhookType, Webhooks};
use holdfast_cel::PatternMemory;
use holdfast_resource::{Followed, Operation, Rejection, Strategy, WriteContext};
use holdfast_schema::metadata::formats::{dns_label_1035, dns_subdomain};
use holdfast_schema::{AnyRules, Check, Field, FieldError, Part, Rules};
use holdfast_value::Value;

use super::client_config;
use super::policy::validate_match_conditions;
use super::rules::OperationRules;
use super::static_names::StaticNames;
use crate::generation::count_given_empties;
use crate::rules::WebhookRule;
use crate::validation::{Errors, report};

/// Strategy of both kinds of configurations: they are validated, and their changes update the webhooks.
pub(super) struct WebhookConfiguration {
    pub(super) webhook_type: WebhookType,
    pub(super) webhooks: Arc<Webhooks>,
    /// Treatment of names that are reserved for manifest files.
    pub(super) static_names: StaticNames,
}

const REVIEW_VERSIONS: [&str; 2] = ["v1", "v1beta1"];

impl Strategy for WebhookConfiguration {
    /// upstream: pkg/registry/admissionregistration/validatingwebhookconfiguration#validatingWebhookConfigurationStrategy.PrepareForUpdate
    /// upstream: pkg/registry/admissionregistration/mutatingwebhookconfiguration#mutatingWebhookConfigurationStrategy.PrepareForUpdate
    fn prepare_for_update(&self, context: &WriteContext<'_>, object: &mut Value, old: &Value) -> Result<(), Rejection> {
        count_given_empties(context, object, old, "webhooks");
        Ok(())
    }

    fn rules<'v>(&self) -> &dyn AnyRules<'v> {
        self
    }

    /// upstream: pkg/registry/admissionregistration/validatingwebhookconfiguration#validatingWebhookConfigurationStrategy.Validate
    /// upstream: pkg/registry/admissionregistration/mutatingwebhookconfiguration#mutatingWebhookConfigurationStrategy.Validate
    fn validate(&self, context: &WriteContext<'_>, object: &Value) -> Vec<FieldError> {
        let mut errors = context.check(object, self);
        // An existing object may keep a reserved name.
        if context.operation == Operation::Create {
            errors.extend(self.static_names.errors(object));
        }
        errors
    }

    /// upstream: pkg/registry/admissionregistration/validatingwebhookconfiguration#validatingWebhookConfigurationStrategy.WarningsOnCreate
    /// upstream: pkg/registry/admissionregistration/mutatingwebhookconfiguration#mutatingWebhookConfigurationStrategy.WarningsOnCreate
    fn warnings(&self, _context: &WriteContext<'_>, object: &Value, old: Option<&Value>) -> Vec<String> {
        self.static_names.warnings(object, old)
    }
}

impl Followed for WebhookConfiguration {
    fn observe(&self, old: Option<&Value>, new: Option<&Value>) {
        if let Some(object) = new.or(old) {
            let name = object.str_at(&["metadata", "name"]).unwrap_or_default();
            self.webhooks.set(self.webhook_type, name, new);
        }
    }
}

impl<'v> Rules<'v> for WebhookConfiguration {
    type Rule = WebhookRule;

    fn rule(&self, rule: WebhookRule, part: &Part<'v, '_>, check: &mut Check<'_>) {
        match rule {
            WebhookRule::Webhooks => {
                let webhooks = part.child("webhooks");
                let mut names = HashSet::new();
                for webhook in check.items(part, "webhooks", &webhooks) {
                    check.values(&webhook, self);
                    let name = webhook.child("name");
                    if !name.text().is_empty() && !names.insert(name.text()) {
                        check.errors.push(name.duplicate());
                    }
                }
            }
            WebhookRule::Name => validate_name(&part.child("name"), &mut check.errors),
            WebhookRule::Client => client_config::validate(part, &mut check.errors),
            WebhookRule::MatchConditions => {
                let conditions = part.child("matchConditions");
                if !conditions.is_empty() {
                    let nothing = Value::empty_map();
                    let mut compiler = Compiler::for_policy(&Field::root(&nothing), &PatternMemory::default());
                    validate_match_conditions(&conditions, &mut compiler, &mut check.errors);
                }
            }
            WebhookRule::AdmissionReviewVersions => {
                validate_review_versions(&part.child("admissionReviewVersions"), &mut check.errors)
            }
            WebhookRule::Operation(rule) => OperationRules.rule(rule, part, check),
        }
    }
}

/// upstream: k8s.io/apimachinery/pkg/util/validation#IsFullyQualifiedName
fn validate_name(name: &Field<'_, '_>, errors: &mut Errors) {
    match name.text() {
        "" => errors.push(name.required("")),
        text => {
            let details = dns_subdomain(text);
            if details.is_empty() && text.split('.').count() < 3 {
                errors.push(name.invalid("should be a domain with at least three segments separated by dots"));
            }
            report(name, details, errors);
        }
    }
}

/// upstream: pkg/apis/admissionregistration/validation#validateAdmissionReviewVersions
fn validate_review_versions(versions: &Field<'_, '_>, errors: &mut Errors) {
    if versions.is_empty() {
        let detail = format!("must specify one of {}", REVIEW_VERSIONS.join(", "));
        errors.push(versions.required(detail));
        return;
    }
    let mut seen = HashSet::new();
    for version in versions.items() {
        report(&version, dns_label_1035(version.text()), errors);
        if !seen.insert(version.text()) {
            errors.push(version.invalid("duplicate version"));
        }
    }
    if !versions
        .items()
        .any(|version| REVIEW_VERSIONS.contains(&version.text()))
    {
        let detail = format!("must include at least one of {}", REVIEW_VERSIONS.join(", "));
        errors.push(versions.invalid(detail));
    }
}

#[cfg(test)]
mod tests {
    use crate::harness::Harness;

    const FINE: &str = "{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingWebhookConfiguration, metadata: {name: a}, \
         webhooks: [{name: a.example.com, clientConfig: {url: 'https://example.com/x'}, sideEffects: None, \
         admissionReviewVersions: [v1], rules: [{operations: [CREATE], apiGroups: [''], apiVersions: [v1], resources: [pods]}]}]}";

    fn errors(from: &str, to: &str) -> Vec<String> {
        assert!(FINE.contains(from), "{from}");
        Harness::new().errors(&FINE.replace(from, to))
    }

    #[test]
    fn a_webhook_is_reached_by_https_or_by_a_service() {
        assert_eq!(Harness::new().errors(FINE), Vec::<String>::new());
        assert_eq!(
            errors("https://example.com/x", "http://user@example.com/x?a=b#c"),
            [
                "webhooks[0].clientConfig.url: Invalid value: \"http\": 'https' is the only allowed URL scheme; desired format: https://host[/path]",
                "webhooks[0].clientConfig.url: Invalid value: \"user\": user information is not permitted in the URL",
                "webhooks[0].clientConfig.url: Invalid value: \"c\": fragments are not permitted in the URL",
                "webhooks[0].clientConfig.url: Invalid value: \"a=b\": query parameters are not permitted in the URL",
            ]
        );
        assert_eq!(
            errors(
                "url: 'https://example.com/x'",
                "service: {name: s, namespace: ns, port: 0, path: a//b}"
            ),
            [
                "webhooks[0].clientConfig.service.port: Invalid value: 0: port is not valid: must be between 1 and 65535, inclusive",
                "webhooks[0].clientConfig.service.path: Invalid value: \"a//b\": must start with a '/'",
                "webhooks[0].clientConfig.service.path: Invalid value: \"a//b\": segment[0] may not be empty",
                "webhooks[0].clientConfig.service.path: Invalid value: \"a//b\": segment[1] may not be empty",
            ]
        );
        let odd = errors(
            "url: 'https://example.com/x'",
            "service: {name: s, namespace: ns, path: é}",
        );
        assert!(odd[1].contains("segment[0]: a lowercase RFC 1123 subdomain"), "{odd:?}");
        assert_eq!(
            errors("https://example.com/x", "https://a b"),
            [
                "webhooks[0].clientConfig.url: Required value: url must be a valid URL: parse \"https://a b\": invalid character \" \" in host name; desired format: https://host[/path]"
            ]
        );
        assert_eq!(
            errors("https://example.com/x", "://"),
            [
                "webhooks[0].clientConfig.url: Required value: url must be a valid URL: parse \"://\": missing protocol scheme; desired format: https://host[/path]"
            ]
        );
        assert_eq!(
            errors("https://example.com/x", "HTTPS://Example.com/x"),
            Vec::<String>::new()
        );
        assert_eq!(
            errors("url: 'https://example.com/x'", "service: {name: s, port: 443}"),
            ["webhooks[0].clientConfig.service.name: Required value"]
        );
    }

    #[test]
    fn match_conditions_must_compile() {
        let messages = errors(
            "sideEffects: None",
            "sideEffects: None, matchConditions: [{name: a, expression: ' object.x == '}, {name: a, expression: request.name}]",
        );
        assert!(
            messages[0].starts_with(
                "webhooks[0].matchConditions[0].expression: Invalid value: \"object.x ==\": compilation failed:"
            ),
            "{messages:?}"
        );
        assert_eq!(
            messages[1..],
            [
                "webhooks[0].matchConditions[1].expression: Invalid value: \"request.name\": must evaluate to bool but got string",
                "webhooks[0].matchConditions[1].name: Duplicate value: \"a\"",
            ]
        );
    }

    #[test]
    fn conditions_are_checked_however_many_there_are() {
        let list: Vec<String> = (0..65)
            .map(|at| {
                format!(
                    "{{name: c{at}, expression: {}}}",
                    if at == 64 { "'1'" } else { "'true'" }
                )
            })
            .collect();
        let conditions = format!("sideEffects: None, matchConditions: [{}]", list.join(","));
        let messages = errors("sideEffects: None", &conditions);
        assert_eq!(
            messages,
            [
                "webhooks[0].matchConditions: Too many: 65: must have at most 64 items",
                "webhooks[0].matchConditions[64].expression: Invalid value: \"1\": must evaluate to bool but got int",
            ]
        );
    }

    #[test]
    fn wildcards_in_rules_stand_alone() {
        assert_eq!(
            errors("[pods]", "['*/*', pods]"),
            [
                "webhooks[0].rules[0].resources: Invalid value: [\"*/*\",\"pods\"]: if '*/*' is present, must not specify other resources"
            ]
        );
        assert_eq!(
            errors("[CREATE]", "['*', CREATE]"),
            [
                "webhooks[0].rules[0].operations: Invalid value: [\"*\",\"CREATE\"]: if '*' is present, must not specify other operations"
            ]
        );
        assert_eq!(errors("[pods]", "['pods/*', '*/scale', pods]"), Vec::<String>::new());
        let singles = "if '*' is present, must not specify other resources without subresources";
        assert_eq!(
            errors("[pods]", "['*', pods]"),
            [format!(
                "webhooks[0].rules[0].resources: Invalid value: [\"*\",\"pods\"]: {singles}"
            )]
        );
        assert_eq!(errors("[pods]", "[pods, '*']"), Vec::<String>::new());
        assert_eq!(
            errors("[pods]", "['pods/*', '*/scale', pods/scale]"),
            [
                "webhooks[0].rules[0].resources[2]: Invalid value: \"pods/scale\": if 'pods/*' is present, must not specify pods/scale",
                "webhooks[0].rules[0].resources[2]: Invalid value: \"pods/scale\": if '*/scale' is present, must not specify pods/scale",
            ]
        );
    }

    #[test]
    fn a_list_that_is_given_as_empty_counts_as_a_change() {
        let configuration = |webhooks: &str| {
            format!(
                "{{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {{name: a}}{webhooks}}}"
            )
        };
        let harness = Harness::new();
        let old = harness.create(&configuration(""));
        let generation =
            |webhooks| crate::harness::at(&harness.update(&old, &configuration(webhooks)), "metadata.generation");
        assert_eq!([generation(""), generation(", webhooks: []")], ["1", "2"]);
    }
}
