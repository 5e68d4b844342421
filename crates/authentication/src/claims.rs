//! Claims of a verified token, and the user that they name.

use holdfast_authorization::User;
use holdfast_cel::{Activation, CelValue};
use holdfast_gotext::quote::quote;
use holdfast_value::{SmolStr, Value};

use crate::configuration::{ClaimMappings, JwtConfig};
use crate::expressions::{Expression, claims_activation, texts, user_activation};
use crate::validation::Compiled;

/// Extra of a user that identifies the credential.
const CREDENTIAL: &str = "authentication.kubernetes.io/credential-id";

/// Mapping of claims to a user.
pub(crate) struct Mapper<'a> {
    config: &'a JwtConfig,
    compiled: &'a Compiled,
    claims: &'a Value,
    /// The variable `claims`; unset if no expression uses it.
    activation: Option<Activation>,
}

impl<'a> Mapper<'a> {
    pub(crate) fn new(config: &'a JwtConfig, compiled: &'a Compiled, claims: &'a Value) -> Self {
        let uses_claims = compiled.username.is_some()
            || compiled.groups.is_some()
            || compiled.uid.is_some()
            || !compiled.extra.is_empty()
            || !compiled.claim_rules.is_empty();
        Self {
            config,
            compiled,
            claims,
            activation: uses_claims.then(|| claims_activation(claims)),
        }
    }

    /// Returns the user, if all rules hold.
    ///
    /// # Errors
    /// The reason why there is none.
    ///
    /// upstream: k8s.io/apiserver/plugin/pkg/authenticator/token/oidc#jwtAuthenticator.AuthenticateToken
    pub(crate) fn user(&self) -> Result<User, String> {
        let user = User {
            name: self.username()?,
            groups: self.groups()?,
            uid: self.uid()?,
            extra: self.extra()?,
        };
        self.check_required_claims()?;
        let detail = |why: String| format!("oidc: error evaluating claim validation expression: {why}");
        for (rule, message) in &self.compiled.claim_rules {
            check(self.evaluate(rule).map_err(detail)?, rule, message).map_err(detail)?;
        }
        if !self.compiled.user_rules.is_empty() {
            let detail = |why: String| format!("oidc: error evaluating user info validation rule: {why}");
            let activation = user_activation(&user).map_err(|error| detail(error.to_string()))?;
            for (rule, message) in &self.compiled.user_rules {
                check(rule.evaluate(&activation).map_err(detail)?, rule, message).map_err(detail)?;
            }
        }
        Ok(user)
    }

    fn mappings(&self) -> &ClaimMappings {
        &self.config.claim_mappings
    }

    fn evaluate(&self, expression: &Expression) -> Result<CelValue, String> {
        let activation = self.activation.as_ref().ok_or("no claims")?;
        expression.evaluate(activation)
    }

    /// Returns the text of a claim; empty if it is null.
    fn text(&self, claim: &str) -> Result<&str, String> {
        match self.claims.get(claim) {
            None => Err("claim not present".to_owned()),
            Some(Value::Null) => Ok(""),
            Some(value) => value.as_str().ok_or_else(|| mismatch(value)),
        }
    }

    /// upstream: k8s.io/apiserver/plugin/pkg/authenticator/token/oidc#jwtAuthenticator.getUsername
    fn username(&self) -> Result<SmolStr, String> {
        if let Some(expression) = &self.compiled.username {
            let detail = |why: String| format!("oidc: error evaluating username claim expression: {why}");
            let value = self.evaluate(expression).map_err(detail)?;
            let text = value.as_str();
            let name = text.ok_or_else(|| detail("username claim expression must return a string".to_owned()))?;
            return match name.is_empty() {
                true => Err("oidc: empty username via CEL expression is not allowed".to_owned()),
                false => Ok(SmolStr::new(name)),
            };
        }
        let mapping = &self.mappings().username;
        let claim = mapping.claim.as_str();
        let detail = |why: String| format!("oidc: parse username claims {}: {why}", quote(claim));
        let name = self.text(claim).map_err(detail)?;
        if claim == "email" {
            self.check_email()?;
        }
        // The reference accepts an empty name, whose user would have no identity.
        if name.is_empty() {
            return Err(detail("the claim is empty".to_owned()));
        }
        let prefix = mapping.prefix.as_deref().unwrap_or_default();
        Ok(SmolStr::from(format!("{prefix}{name}")))
    }

    fn check_email(&self) -> Result<(), String> {
        match self.claims.get("email_verified") {
            None | Some(Value::Bool(true)) => Ok(()),
            Some(Value::Bool(false) | Value::Null) => Err("oidc: email not verified".to_owned()),
            Some(other) => Err(format!(
                "oidc: parse 'email_verified' claim: json: cannot unmarshal {} into Go value of type bool",
                other.json_kind()
            )),
        }
    }

    /// upstream: k8s.io/apiserver/plugin/pkg/authenticator/token/oidc#jwtAuthenticator.getGroups
    fn groups(&self) -> Result<Vec<SmolStr>, String> {
        let mapping = &self.mappings().groups;
        if !mapping.claim.is_empty()
            && let Some(value) = self.claims.get(&mapping.claim)
        {
            let detail = |why: String| format!("oidc: parse groups claim {}: {why}", quote(&mapping.claim));
            let prefix = mapping.prefix.as_deref().unwrap_or_default();
            let groups = texts_of_claim(value).map_err(detail)?.into_iter();
            return Ok(groups.map(|group| SmolStr::from(format!("{prefix}{group}"))).collect());
        }
        let Some(expression) = &self.compiled.groups else {
            return Ok(Vec::new());
        };
        let groups = self.evaluate(expression).and_then(|value| texts(&value));
        groups.map_err(|why| format!("oidc: error evaluating group claim expression: {why}"))
    }

    /// upstream: k8s.io/apiserver/plugin/pkg/authenticator/token/oidc#jwtAuthenticator.getUID
    fn uid(&self) -> Result<SmolStr, String> {
        let claim = self.mappings().uid.claim.as_str();
        if !claim.is_empty() {
            let uid = self.text(claim);
            let detail = |why| format!("oidc: parse uid claim {}: {why}", quote(claim));
            return uid.map(SmolStr::new).map_err(detail);
        }
        let Some(expression) = &self.compiled.uid else {
            return Ok(SmolStr::default());
        };
        let detail = |why: String| format!("oidc: error evaluating uid claim expression: {why}");
        let value = self.evaluate(expression).map_err(detail)?;
        let uid = value.as_str().map(SmolStr::new);
        uid.ok_or_else(|| detail("uid claim expression must return a string".to_owned()))
    }

    /// upstream: k8s.io/apiserver/plugin/pkg/authenticator/token/oidc#jwtAuthenticator.getExtra
    fn extra(&self) -> Result<Vec<(SmolStr, Vec<SmolStr>)>, String> {
        let mut extra = Vec::new();
        if let Some(id) = self.claims.str_at(&["jti"]).filter(|id| !id.is_empty()) {
            let id = SmolStr::from(format!("JTI={id}"));
            extra.push((SmolStr::new_static(CREDENTIAL), vec![id]));
        }
        for (key, expression) in &self.compiled.extra {
            let value = self.evaluate(expression)?;
            let values = texts(&value).map_err(|why| {
                let text = expression.text();
                format!("oidc: error evaluating extra claim expression: {text}: {why}")
            })?;
            if !values.is_empty() {
                extra.push((SmolStr::new(key), values));
            }
        }
        Ok(extra)
    }

    fn check_required_claims(&self) -> Result<(), String> {
        let rules = self.config.claim_validation_rules.iter();
        for rule in rules.filter(|rule| !rule.claim.is_empty()) {
            let (claim, wanted) = (rule.claim.as_str(), rule.required_value.as_str());
            if self.claims.get(claim).is_none() {
                return Err(format!("oidc: required claim {claim} not present in ID token"));
            }
            let stated = self.text(claim);
            let value = stated.map_err(|why| format!("oidc: parse claim {claim}: {why}"))?;
            if value != wanted {
                return Err(format!(
                    "oidc: required claim {claim} value does not match. Got = {value}, want = {wanted}"
                ));
            }
        }
        Ok(())
    }
}

/// Returns the error of a claim that is not a string.
fn mismatch(value: &Value) -> String {
    format!(
        "json: cannot unmarshal {} into Go value of type string",
        value.json_kind()
    )
}

/// Returns the texts of a claim: a string or a list of strings.
///
/// upstream: k8s.io/apiserver/plugin/pkg/authenticator/token/oidc#stringOrArray.UnmarshalJSON
fn texts_of_claim(value: &Value) -> Result<Vec<&str>, String> {
    match value {
        Value::Null => Ok(Vec::new()),
        Value::String(text) => Ok(vec![text]),
        Value::List(items) => {
            let texts: Option<Vec<&str>> = items.iter().map(Value::as_str).collect();
            texts.ok_or_else(|| mismatch(value))
        }
        other => Err(mismatch(other)),
    }
}

/// Rejects a rule that is not true.
///
/// upstream: k8s.io/apiserver/plugin/pkg/authenticator/token/oidc#checkValidationRulesEvaluation
fn check(value: CelValue, rule: &Expression, message: &str) -> Result<(), String> {
    match value.as_bool() {
        Some(true) => Ok(()),
        Some(false) => Err(format!("validation expression '{}' failed: {message}", rule.text())),
        None => Err("validation expression must return a boolean".to_owned()),
    }
}
