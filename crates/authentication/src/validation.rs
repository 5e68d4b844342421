//! Validation of a configuration, which compiles its expressions.

use std::collections::BTreeSet;

use holdfast_cel::selects_field;
use holdfast_gotext::url;
use holdfast_schema::metadata::formats::domain_prefixed_path;
use holdfast_schema::{FieldError, FieldPath};
use holdfast_value::Value;
use x509_parser::pem::Pem;

use crate::configuration::{
    AnonymousConfig, AuthenticationConfiguration, ClaimMappings, ClaimValidationRule, Issuer, JwtConfig,
    PrefixedClaimOrExpression, UserValidationRule,
};
use crate::expressions::{Expression, compiler};

/// Maximum number of issuers.
const MAX_ISSUERS: usize = 64;

const MATCH_ANY: &str = "MatchAny";

/// Result of a validation: the errors, and the expressions of each issuer.
#[derive(Debug, Default)]
pub struct Validated {
    /// Errors of the fields.
    pub errors: Vec<FieldError>,
    /// Expressions of the issuers, in their order. Incomplete if there are errors.
    pub compiled: Vec<Compiled>,
}

/// Compiled expressions of an issuer.
#[derive(Debug, Default)]
pub struct Compiled {
    pub(crate) username: Option<Expression>,
    pub(crate) groups: Option<Expression>,
    pub(crate) uid: Option<Expression>,
    /// Keys and expressions of further attributes.
    pub(crate) extra: Vec<(String, Expression)>,
    /// Expressions over claims, each with its message.
    pub(crate) claim_rules: Vec<(Expression, String)>,
    /// Expressions over users, each with its message.
    pub(crate) user_rules: Vec<(Expression, String)>,
}

/// Validates a configuration, whose tokens may not come from one of `disallowed_issuers`: those of service accounts.
///
/// upstream: k8s.io/apiserver/pkg/apis/apiserver/validation#ValidateAuthenticationConfiguration
pub fn validate(configuration: &AuthenticationConfiguration, disallowed_issuers: &[String]) -> Validated {
    let root = FieldPath::new("jwt");
    let mut validated = Validated::default();
    let issuers = configuration.jwt.len();
    if issuers > MAX_ISSUERS {
        validated.errors.push(FieldError::too_many(&root, issuers, MAX_ISSUERS));
        return validated;
    }
    let disallowed: BTreeSet<&str> = disallowed_issuers.iter().map(String::as_str).collect();
    let (mut seen, mut seen_discovery) = (BTreeSet::new(), BTreeSet::new());
    for (at, jwt) in configuration.jwt.iter().enumerate() {
        let path = root.index(at);
        let (compiled, errors) = Validator::new(&disallowed).jwt(jwt, &path);
        validated.compiled.push(compiled);
        validated.errors.extend(errors);
        let issuer = path.child("issuer");
        if !seen.insert(&jwt.issuer.url) {
            let duplicate = FieldError::duplicate(&issuer.child("url"), jwt.issuer.url.as_str());
            validated.errors.push(duplicate);
        }
        let discovery_url = &jwt.issuer.discovery_url;
        if !discovery_url.is_empty() && !seen_discovery.insert(discovery_url) {
            let duplicate = FieldError::duplicate(&issuer.child("discoveryURL"), discovery_url.as_str());
            validated.errors.push(duplicate);
        }
    }
    validated
        .errors
        .extend(configuration.anonymous.as_ref().and_then(anonymous_error));
    validated
}

fn anonymous_error(anonymous: &AnonymousConfig) -> Option<FieldError> {
    if anonymous.enabled || anonymous.paths.is_empty() {
        return None;
    }
    let shown = anonymous.paths.iter().map(|path| {
        let path = holdfast_gotext::quote::quote(path);
        format!("apiserver.AnonymousAuthCondition{{Path:{path}}}")
    });
    let texts: Vec<String> = shown.collect();
    let shown = format!("[]apiserver.AnonymousAuthCondition{{{}}}", texts.join(", "));
    let path = FieldPath::new("anonymous.conditions");
    let why = "enabled should be set to true when conditions are defined";
    Some(FieldError::invalid_text(&path, shown, why))
}

/// Validator of one issuer.
struct Validator<'a> {
    disallowed: &'a BTreeSet<&'a str>,
    errors: Vec<FieldError>,
    uses_email_verified: bool,
}

impl<'a> Validator<'a> {
    fn new(disallowed: &'a BTreeSet<&'a str>) -> Self {
        Self {
            disallowed,
            errors: Vec::new(),
            uses_email_verified: false,
        }
    }

    fn invalid(&mut self, path: &FieldPath, value: impl Into<Value>, why: impl Into<String>) {
        self.errors.push(FieldError::invalid(path, value, why));
    }

    fn required(&mut self, path: &FieldPath, why: impl Into<String>) {
        self.errors.push(FieldError::required(path, why));
    }

    fn duplicate(&mut self, path: &FieldPath, value: &str) {
        self.errors.push(FieldError::duplicate(path, value));
    }

    /// upstream: k8s.io/apiserver/pkg/apis/apiserver/validation#validateJWTAuthenticator
    fn jwt(mut self, jwt: &JwtConfig, path: &FieldPath) -> (Compiled, Vec<FieldError>) {
        let mut compiled = Compiled::default();
        self.issuer(&jwt.issuer, &path.child("issuer"));
        let rules = path.child("claimValidationRules");
        self.claim_rules(&jwt.claim_validation_rules, &rules, &mut compiled);
        self.mappings(&jwt.claim_mappings, &path.child("claimMappings"), &mut compiled);
        let rules = path.child("userValidationRules");
        self.user_rules(&jwt.user_validation_rules, &rules, &mut compiled);
        (compiled, self.errors)
    }

    /// upstream: k8s.io/apiserver/pkg/apis/apiserver/validation#validateIssuer
    fn issuer(&mut self, issuer: &Issuer, path: &FieldPath) {
        let url_path = path.child("url");
        match issuer.url.is_empty() {
            true => self.required(&url_path, ""),
            false => self.url(&issuer.url, self.disallowed, &url_path),
        }
        self.discovery_url(issuer, &path.child("discoveryURL"));
        self.audiences(issuer, &path.child("audiences"), &path.child("audienceMatchPolicy"));
        if let Some(why) = authority_error(&issuer.certificate_authority) {
            self.invalid(&path.child("certificateAuthority"), "<omitted>", why);
        }
        let egress = issuer.egress_selector_type.as_str();
        if !matches!(egress, "" | "controlplane" | "cluster") {
            let why = "egress selector must be either controlplane or cluster";
            self.invalid(&path.child("egressSelectorType"), egress, why);
        }
    }

    /// upstream: k8s.io/apiserver/pkg/apis/apiserver/validation#validateIssuerDiscoveryURL
    fn discovery_url(&mut self, issuer: &Issuer, path: &FieldPath) {
        let url = issuer.discovery_url.as_str();
        if url.is_empty() {
            return;
        }
        if !issuer.url.is_empty() && issuer.url.trim_end_matches('/') == url.trim_end_matches('/') {
            self.invalid(path, url, "discoveryURL must be different from URL");
        }
        self.url(url, &BTreeSet::new(), path);
    }

    /// upstream: k8s.io/apiserver/pkg/apis/apiserver/validation#validateURL
    fn url(&mut self, text: &str, disallowed: &BTreeSet<&str>, path: &FieldPath) {
        if disallowed.contains(text) {
            let listed: Vec<&str> = disallowed.iter().copied().collect();
            let why = format!("URL must not overlap with disallowed issuers: [{}]", listed.join(" "));
            self.invalid(path, text, why);
        }
        let parsed = match url::parse(text) {
            Ok(parsed) => parsed,
            Err(why) => return self.invalid(path, text, why),
        };
        for (is_wrong, why) in [
            (parsed.scheme != "https", "URL scheme must be https"),
            (parsed.user.is_some(), "URL must not contain a username or password"),
            (!parsed.query.is_empty(), "URL must not contain a query"),
            (!parsed.fragment.is_empty(), "URL must not contain a fragment"),
        ] {
            if is_wrong {
                self.invalid(path, text, why);
            }
        }
    }

    /// upstream: k8s.io/apiserver/pkg/apis/apiserver/validation#validateAudiences
    fn audiences(&mut self, issuer: &Issuer, path: &FieldPath, policy_path: &FieldPath) {
        let (audiences, policy) = (&issuer.audiences, issuer.audience_match_policy.as_str());
        if audiences.is_empty() {
            return self.required(path, format!("at least one {path} is required"));
        }
        let mut seen = BTreeSet::new();
        for (at, audience) in audiences.iter().enumerate() {
            let item = path.index(at);
            if audience.is_empty() {
                self.required(&item, "");
            }
            if !seen.insert(audience) {
                self.duplicate(&item, audience);
            }
        }
        if audiences.len() > 1 && policy != MATCH_ANY {
            let why = "audienceMatchPolicy must be MatchAny for multiple audiences";
            self.invalid(policy_path, policy, why);
        }
        if audiences.len() == 1 && !matches!(policy, "" | MATCH_ANY) {
            let why = "audienceMatchPolicy must be empty or MatchAny for single audience";
            self.invalid(policy_path, policy, why);
        }
    }

    /// upstream: k8s.io/apiserver/pkg/apis/apiserver/validation#validateClaimValidationRules
    fn claim_rules(&mut self, rules: &[ClaimValidationRule], path: &FieldPath, compiled: &mut Compiled) {
        let (mut claims, mut expressions) = (BTreeSet::new(), BTreeSet::new());
        for (at, rule) in rules.iter().enumerate() {
            let path = path.index(at);
            match (rule.claim.is_empty(), rule.expression.is_empty()) {
                (false, false) => {
                    self.invalid(&path, rule.claim.as_str(), "claim and expression can't both be set");
                }
                (true, true) => self.required(&path, "claim or expression is required"),
                (false, true) => {
                    if !rule.message.is_empty() {
                        let why = "may not be specified when claim is set";
                        self.invalid(&path.child("message"), rule.message.as_str(), why);
                    }
                    if !claims.insert(&rule.claim) {
                        self.duplicate(&path.child("claim"), &rule.claim);
                    }
                }
                (true, false) => {
                    if !rule.required_value.is_empty() {
                        let why = "may not be specified when expression is set";
                        self.invalid(&path.child("requiredValue"), rule.required_value.as_str(), why);
                    }
                    let path = path.child("expression");
                    if !expressions.insert(&rule.expression) {
                        self.duplicate(&path, &rule.expression);
                        continue;
                    }
                    let outcome = compiler().claims_condition(&rule.expression);
                    let expression = self.compiled(outcome, &rule.expression, &path);
                    self.note_email_verified(expression.as_ref());
                    let rule = expression.map(|expression| (expression, rule.message.clone()));
                    compiled.claim_rules.extend(rule);
                }
            }
        }
    }

    /// Returns the expression, or records its error.
    fn compiled(&mut self, compiled: Result<Expression, String>, text: &str, path: &FieldPath) -> Option<Expression> {
        compiled.map_err(|why| self.invalid(path, text, why)).ok()
    }

    fn note_email_verified(&mut self, expression: Option<&Expression>) {
        self.uses_email_verified |= expression.is_some_and(|expression| selects(expression, "email_verified"));
    }

    /// upstream: k8s.io/apiserver/pkg/apis/apiserver/validation#validateClaimMappings
    fn mappings(&mut self, mappings: &ClaimMappings, path: &FieldPath, compiled: &mut Compiled) {
        let username_path = path.child("username");
        compiled.username = self.prefixed(&mappings.username, &username_path, true);
        self.note_email_verified(compiled.username.as_ref());
        compiled.groups = self.prefixed(&mappings.groups, &path.child("groups"), false);
        let (uid, uid_path) = (&mappings.uid, path.child("uid"));
        if !uid.claim.is_empty() && !uid.expression.is_empty() {
            self.invalid(&uid_path, "", "claim and expression can't both be set");
        } else if !uid.expression.is_empty() {
            let expression = compiler().claims_mapping(&uid.expression);
            compiled.uid = self.compiled(expression, &uid.expression, &uid_path.child("expression"));
        }
        self.extra(mappings, &path.child("extra"), compiled);
        let uses_email = compiled
            .username
            .as_ref()
            .is_some_and(|username| selects(username, "email"));
        if uses_email && !self.uses_email_verified {
            let why = "claims.email_verified must be used in claimMappings.username.expression or \
                       claimMappings.extra[*].valueExpression or claimValidationRules[*].expression when claims.email is used in \
                       claimMappings.username.expression";
            let username = mappings.username.expression.as_str();
            self.invalid(&username_path.child("expression"), username, why);
        }
    }

    fn extra(&mut self, mappings: &ClaimMappings, path: &FieldPath, compiled: &mut Compiled) {
        let mut seen = BTreeSet::new();
        for (at, mapping) in mappings.extra.iter().enumerate() {
            let path = path.index(at);
            let (key_path, key) = (path.child("key"), mapping.key.as_str());
            self.errors.extend(domain_prefixed_path(&key_path, key));
            if key != key.to_lowercase() {
                self.invalid(&key_path, key, "must be lowercase");
            }
            if is_of_kubernetes(key) {
                let why = "k8s.io, kubernetes.io and their subdomains are reserved for Kubernetes use";
                self.invalid(&key_path, key, why);
            }
            if !seen.insert(key) {
                self.duplicate(&key_path, key);
                continue;
            }
            let (expression_path, text) = (path.child("valueExpression"), mapping.value_expression.as_str());
            if text.is_empty() {
                self.required(&expression_path, "");
                continue;
            }
            let outcome = compiler().claims_mapping(text);
            let expression = self.compiled(outcome, text, &expression_path);
            self.note_email_verified(expression.as_ref());
            compiled
                .extra
                .extend(expression.map(|expression| (key.to_owned(), expression)));
        }
    }

    /// upstream: k8s.io/apiserver/pkg/apis/apiserver/validation#validatePrefixClaimOrExpression
    fn prefixed(
        &mut self,
        mapping: &PrefixedClaimOrExpression,
        path: &FieldPath,
        is_required: bool,
    ) -> Option<Expression> {
        match (mapping.claim.is_empty(), mapping.expression.is_empty()) {
            (false, false) => self.invalid(path, "", "claim and expression can't both be set"),
            (true, true) if is_required => self.required(path, "claim or expression is required"),
            (true, true) => {}
            (true, false) => {
                if let Some(prefix) = &mapping.prefix {
                    let why = "may not be specified when expression is set";
                    self.invalid(&path.child("prefix"), prefix.as_str(), why);
                }
                let expression = compiler().claims_mapping(&mapping.expression);
                return self.compiled(expression, &mapping.expression, &path.child("expression"));
            }
            (false, true) => {
                if mapping.prefix.is_none() {
                    let why =
                        "prefix is required when claim is set. It can be set to an empty string to disable prefixing";
                    self.required(&path.child("prefix"), why);
                }
            }
        }
        None
    }

    /// upstream: k8s.io/apiserver/pkg/apis/apiserver/validation#validateUserValidationRules
    fn user_rules(&mut self, rules: &[UserValidationRule], path: &FieldPath, compiled: &mut Compiled) {
        let mut seen = BTreeSet::new();
        for (at, rule) in rules.iter().enumerate() {
            let path = path.index(at).child("expression");
            let text = rule.expression.as_str();
            if text.is_empty() {
                self.required(&path, "");
            } else if !seen.insert(text) {
                self.duplicate(&path, text);
            } else {
                let outcome = compiler().user_condition(text);
                let expression = self.compiled(outcome, text, &path);
                let rule = expression.map(|expression| (expression, rule.message.clone()));
                compiled.user_rules.extend(rule);
            }
        }
    }
}

/// Returns true if an expression selects this claim.
fn selects(expression: &Expression, claim: &str) -> bool {
    selects_field(expression.text(), "claims", claim)
}

/// upstream: k8s.io/apiserver/pkg/apis/apiserver/validation#isKubernetesDomainPrefix
fn is_of_kubernetes(key: &str) -> bool {
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    ["kubernetes.io", "k8s.io"].iter().any(|reserved| {
        let below = domain.strip_suffix(reserved);
        below.is_some_and(|below| below.is_empty() || below.ends_with('.'))
    })
}

/// Returns the error of authorities in PEM that cannot be read; empty text has none.
///
/// upstream: k8s.io/client-go/util/cert#NewPoolFromBytes
fn authority_error(pem: &str) -> Option<String> {
    if pem.is_empty() {
        return None;
    }
    let blocks = Pem::iter_from_buffer(pem.as_bytes()).map_while(Result::ok);
    let mut certificates = blocks.filter(|block| block.label == "CERTIFICATE").peekable();
    if certificates.peek().is_none() {
        return Some("data does not contain any valid RSA or ECDSA certificates".to_owned());
    }
    let mut details = certificates.filter_map(|block| block.parse_x509().err().map(|error| error.to_string()));
    details.next().map(|_| "x509: malformed certificate".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(jwt: &str) -> Vec<String> {
        let head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n";
        let configuration = AuthenticationConfiguration::read(format!("{head}{jwt}").as_bytes()).unwrap();
        let validated = validate(&configuration, &["https://own".to_owned()]);
        validated.errors.iter().map(ToString::to_string).collect()
    }

    fn with(issuer: &str, more: &str) -> Vec<String> {
        errors(&format!("jwt: [{{issuer: {{{issuer}}}, {more}}}]"))
    }

    const GOOD: &str = "url: 'https://a', audiences: [x]";
    const USERNAME: &str = "username: {claim: sub, prefix: ''}";

    #[test]
    fn invalid_issuer_has_the_messages_of_the_reference() {
        let mappings = format!("claimMappings: {{{USERNAME}}}");
        for (issuer, expected) in [
            ("audiences: [x]", "jwt[0].issuer.url: Required value"),
            (
                "url: 'http://a', audiences: [x]",
                "jwt[0].issuer.url: Invalid value: \"http://a\": URL scheme must be https",
            ),
            (
                "url: 'https://own', audiences: [x]",
                "jwt[0].issuer.url: Invalid value: \"https://own\": URL must not overlap with disallowed issuers: [https://own]",
            ),
            (
                "url: 'https://u@a', audiences: [x]",
                "jwt[0].issuer.url: Invalid value: \"https://u@a\": URL must not contain a username or password",
            ),
            (
                "url: 'https://a?b', audiences: [x]",
                "jwt[0].issuer.url: Invalid value: \"https://a?b\": URL must not contain a query",
            ),
            (
                "url: 'https://a', discoveryURL: 'https://a/', audiences: [x]",
                "jwt[0].issuer.discoveryURL: Invalid value: \"https://a/\": discoveryURL must be different from URL",
            ),
            (
                "url: 'https://a'",
                "jwt[0].issuer.audiences: Required value: at least one jwt[0].issuer.audiences is required",
            ),
            (
                "url: 'https://a', audiences: [x, x], audienceMatchPolicy: MatchAny",
                "jwt[0].issuer.audiences[1]: Duplicate value: \"x\"",
            ),
            (
                "url: 'https://a', audiences: [w, x]",
                "jwt[0].issuer.audienceMatchPolicy: Invalid value: \"\": audienceMatchPolicy must be MatchAny for multiple audiences",
            ),
            (
                "url: 'https://a', audiences: [x], certificateAuthority: none",
                "jwt[0].issuer.certificateAuthority: Invalid value: \"<omitted>\": data does not contain any valid RSA or ECDSA certificates",
            ),
            (
                "url: 'https://a', audiences: [x], egressSelectorType: etcd",
                "jwt[0].issuer.egressSelectorType: Invalid value: \"etcd\": egress selector must be either controlplane or cluster",
            ),
        ] {
            assert_eq!(with(issuer, &mappings), [expected]);
        }
        assert_eq!(with(GOOD, &mappings), [""; 0]);
    }

    #[test]
    fn invalid_mappings_have_the_messages_of_the_reference() {
        for (more, expected) in [
            (
                "",
                "jwt[0].claimMappings.username: Required value: claim or expression is required",
            ),
            (
                "username: {claim: sub}",
                "jwt[0].claimMappings.username.prefix: Required value: prefix is required when claim is set. It can be set to an empty string to disable prefixing",
            ),
            (
                "username: {claim: sub, prefix: '', expression: claims.sub}",
                "jwt[0].claimMappings.username: Invalid value: \"\": claim and expression can't both be set",
            ),
            (
                "username: {expression: claims.sub, prefix: a}",
                "jwt[0].claimMappings.username.prefix: Invalid value: \"a\": may not be specified when expression is set",
            ),
            (
                "username: {claim: sub, prefix: ''}, extra: [{key: a.b/C, valueExpression: claims.c}]",
                "jwt[0].claimMappings.extra[0].key: Invalid value: \"a.b/C\": must be lowercase",
            ),
            (
                "username: {claim: sub, prefix: ''}, extra: [{key: x.k8s.io/c, valueExpression: claims.c}]",
                "jwt[0].claimMappings.extra[0].key: Invalid value: \"x.k8s.io/c\": k8s.io, kubernetes.io and their subdomains are reserved for Kubernetes use",
            ),
            (
                "username: {claim: sub, prefix: ''}, extra: [{key: foo, valueExpression: claims.c}]",
                "jwt[0].claimMappings.extra[0].key: Invalid value: \"foo\": must be a domain-prefixed path (such as \"acme.io/foo\")",
            ),
        ] {
            assert_eq!(with(GOOD, &format!("claimMappings: {{{more}}}")), [expected]);
        }
        let email = |more: &str| {
            let mappings = format!("claimMappings: {{username: {{expression: claims.email}}{more}}}");
            with(GOOD, &mappings)
        };
        let [refused] = &email("")[..] else {
            unreachable!("one error")
        };
        assert!(refused.contains("claims.email_verified must be used in"), "{refused}");
        let verified = ", extra: [{key: a.b/c, valueExpression: 'string(claims.email_verified)'}]";
        assert_eq!(email(verified), [""; 0]);
    }

    #[test]
    fn expressions_are_compiled_with_their_types() {
        let rules = |rules: &str| with(GOOD, &format!("claimMappings: {{{USERNAME}}}, {rules}"));
        let [error] = &rules("claimValidationRules: [{expression: claims.a}]")[..] else {
            unreachable!("one error")
        };
        assert_eq!(
            error,
            "jwt[0].claimValidationRules[0].expression: Invalid value: \"claims.a\": must evaluate to bool"
        );
        let [error] = &rules("userValidationRules: [{expression: user.name == 'a'}]")[..] else {
            unreachable!("one error")
        };
        assert!(
            error.contains("compilation failed: ") && error.contains("undefined field 'name'"),
            "{error}"
        );
        for good in [
            "claimValidationRules: [{expression: 'claims.a == 1'}, {claim: b, requiredValue: c}]",
            "userValidationRules: [{expression: \"!user.username.startsWith('system:')\"}]",
        ] {
            assert_eq!(rules(good), [""; 0]);
        }
        let twice = "claimValidationRules: [{claim: b, requiredValue: c}, {claim: b, requiredValue: d}]";
        assert_eq!(
            rules(twice),
            ["jwt[0].claimValidationRules[1].claim: Duplicate value: \"b\""]
        );
    }

    #[test]
    fn conditions_of_rejected_anonymous_requests_are_invalid() {
        assert_eq!(
            errors("anonymous: {enabled: false, conditions: [{path: /livez}]}"),
            [
                "anonymous.conditions: Invalid value: []apiserver.AnonymousAuthCondition{apiserver.AnonymousAuthCondition{Path:\"/livez\"}}: enabled should be set to true when conditions are defined"
            ]
        );
    }
}
