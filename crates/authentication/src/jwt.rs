//! Authenticator of the tokens of one issuer.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use holdfast_authorization::User;
use holdfast_gotext::quote::quote;
use holdfast_gotext::time::{Precision, Timestamp};
use holdfast_value::Value;

use crate::claims::Mapper;
use crate::configuration::JwtConfig;
use crate::jws::{self, Algorithm, Jws};
use crate::keys::KeySet;
use crate::validation::Compiled;

/// Time by which the clock of the issuer may be ahead of this one in the claim `nbf`.
const LEEWAY: Duration = Duration::from_secs(60);

/// Path of the discovery document below the URL of an issuer.
const WELL_KNOWN: &str = "/.well-known/openid-configuration";

const GOOGLE: &str = "https://accounts.google.com";
const GOOGLE_WITHOUT_SCHEME: &str = "accounts.google.com";

/// Authenticator of the tokens of one issuer. It has no keys.
#[derive(Debug)]
pub struct JwtAuthenticator {
    config: JwtConfig,
    compiled: Compiled,
    algorithms: Vec<Algorithm>,
}

/// A token of the issuer with valid times and audience, whose signature is not verified.
#[derive(Clone, Debug)]
pub struct ReceivedToken(Jws);

impl ReceivedToken {
    /// Returns true if one of the keys signed the token.
    pub fn is_signed_by(&self, keys: &KeySet) -> bool {
        keys.verify(&self.0)
    }

    /// Returns the claims.
    pub fn claims(&self) -> &Value {
        &self.0.claims
    }
}

impl JwtAuthenticator {
    /// Creates the authenticator of a validated issuer, for tokens that are signed with one of `algorithms`.
    pub fn new(config: JwtConfig, compiled: Compiled, algorithms: Vec<Algorithm>) -> Self {
        Self {
            config,
            compiled,
            algorithms,
        }
    }

    /// Returns the URL of the issuer.
    pub fn issuer(&self) -> &str {
        &self.config.issuer.url
    }

    /// Returns the URL of the issuer's discovery document.
    pub fn discovery_url(&self) -> String {
        let issuer = &self.config.issuer;
        match issuer.discovery_url.as_str() {
            "" => format!("{}{WELL_KNOWN}", issuer.url.strip_suffix('/').unwrap_or(&issuer.url)),
            other => other.to_owned(),
        }
    }

    /// Returns the authorities of the issuer's certificate in PEM; `None` for those of the system.
    pub fn certificate_authority(&self) -> Option<&str> {
        Some(self.config.issuer.certificate_authority.as_str()).filter(|pem| !pem.is_empty())
    }

    /// Returns the network on which the issuer is reached; `None` for the default one.
    pub fn egress(&self) -> Option<&str> {
        Some(self.config.issuer.egress_selector_type.as_str()).filter(|egress| !egress.is_empty())
    }

    /// Returns true if a token states this issuer. Nothing else of it is checked.
    ///
    /// upstream: k8s.io/apiserver/plugin/pkg/authenticator/token/oidc#hasCorrectIssuer
    pub fn issued(&self, token: &str) -> bool {
        let claims = jws::claims(token);
        let stated = claims.as_ref().and_then(|claims| claims.str_at(&["iss"]));
        match stated {
            Some(GOOGLE_WITHOUT_SCHEME) => self.issuer() == GOOGLE,
            stated => stated.unwrap_or_default() == self.issuer(),
        }
    }

    /// Parses a token and checks its issuer, audience, times and algorithm at the time `now`.
    ///
    /// # Errors
    /// The reason why the token is invalid.
    ///
    /// upstream: github.com/coreos/go-oidc#IDTokenVerifier.Verify
    pub fn receive(&self, token: &str, now: SystemTime) -> Result<ReceivedToken, String> {
        let jws = Jws::parse(token).map_err(|why| format!("oidc: malformed jwt: {why}"))?;
        if !self.issued(token) {
            let stated = jws.claims.str_at(&["iss"]).unwrap_or_default();
            return Err(format!(
                "oidc: id token issued by a different provider, expected {} got {}",
                quote(self.issuer()),
                quote(stated)
            ));
        }
        let accepted = &self.config.issuer.audiences;
        let audiences = audiences(&jws.claims)?;
        let has_audience = audiences
            .iter()
            .any(|audience| accepted.iter().any(|one| one == audience));
        if !has_audience {
            return Err(audience_error(accepted, &audiences));
        }
        check_times(&jws.claims, now)?;
        let is_allowed = Algorithm::named(&jws.algorithm).is_some_and(|named| self.algorithms.contains(&named));
        if !is_allowed {
            let names: Vec<&str> = self.algorithms.iter().map(|algorithm| algorithm.name()).collect();
            return Err(format!(
                "oidc: id token signed with unsupported algorithm, expected {} got {}",
                listed(&names),
                quote(&jws.algorithm)
            ));
        }
        Ok(ReceivedToken(jws))
    }

    /// Returns the user that the claims of a verified token name.
    ///
    /// # Errors
    /// If there is none, or a rule does not hold; the error is the reason.
    pub fn user(&self, claims: &Value) -> Result<User, String> {
        Mapper::new(&self.config, &self.compiled, claims).user()
    }

    /// Returns the claim of groups that the token leaves to another server (a distributed claim), if there is one.
    pub fn distributed_groups<'v>(&self, claims: &'v Value) -> Option<&'v str> {
        let claim = self.config.claim_mappings.groups.claim.as_str();
        if claim.is_empty() || claims.get(claim).is_some() {
            return None;
        }
        claims.str_at(&["_claim_names", claim])
    }
}

fn audience_error(accepted: &[String], audiences: &[&str]) -> String {
    let got = listed(audiences);
    match accepted {
        [only] => format!("oidc: expected audience {} got {got}", quote(only)),
        several => {
            let unique: BTreeSet<&str> = several.iter().map(String::as_str).collect();
            let sorted: Vec<&str> = unique.into_iter().collect();
            format!("oidc: expected audience in {} got {got}", listed(&sorted))
        }
    }
}

/// Returns the texts as Go lists them: `["a" "b"]`.
fn listed(texts: &[&str]) -> String {
    let texts: Vec<String> = texts.iter().map(|text| quote(text)).collect();
    format!("[{}]", texts.join(" "))
}

fn audiences(claims: &Value) -> Result<Vec<&str>, String> {
    let detail =
        || "oidc: failed to unmarshal claims: the audience is neither a string nor a list of strings".to_owned();
    match claims.get("aud") {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::String(audience)) => Ok(vec![audience]),
        Some(Value::List(audiences)) => {
            let audiences: Option<Vec<&str>> = audiences.iter().map(Value::as_str).collect();
            audiences.ok_or_else(detail)
        }
        Some(_) => Err(detail()),
    }
}

fn check_times(claims: &Value, now: SystemTime) -> Result<(), String> {
    let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    match seconds(claims, "exp")? {
        None => return Err("oidc: token is expired (Token Expiry: 0001-01-01 00:00:00 +0000 UTC)".to_owned()),
        Some(end) if end < whole(now) || end == whole(now) && now.subsec_nanos() > 0 => {
            return Err(format!("oidc: token is expired (Token Expiry: {})", shown(end)));
        }
        Some(_) => {}
    }
    match seconds(claims, "nbf")? {
        Some(start) if whole(now + LEEWAY) < start => Err(format!(
            "oidc: current time {} before the nbf (not before) time: {}",
            shown(whole(now)),
            shown(start)
        )),
        _ => Ok(()),
    }
}

fn whole(time: Duration) -> i64 {
    i64::try_from(time.as_secs()).unwrap_or(i64::MAX)
}

/// Returns a claim in seconds since 1970.
///
/// upstream: github.com/coreos/go-oidc#jsonTime.UnmarshalJSON
fn seconds(claims: &Value, name: &str) -> Result<Option<i64>, String> {
    let seconds = match claims.get(name) {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Int(seconds)) => Some(*seconds),
        Some(Value::UInt(_)) => Some(i64::MAX),
        Some(Value::Float(seconds)) => Some(*seconds as i64),
        Some(Value::String(text)) => {
            let whole = text.parse::<i64>().ok();
            whole.or_else(|| {
                text.parse::<f64>()
                    .ok()
                    .filter(|seconds| seconds.is_finite())
                    .map(|seconds| seconds as i64)
            })
        }
        Some(_) => None,
    };
    let detail = || format!("oidc: failed to unmarshal claims: {name} is no number");
    seconds.map(Some).ok_or_else(detail)
}

/// Returns a time as Go prints it.
fn shown(seconds: i64) -> String {
    let text = Timestamp { seconds, nanos: 0 }.text(Precision::Seconds);
    text.replace('T', " ").replace('Z', " +0000 UTC")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::tests::{Signer, key_set};
    use crate::{AuthenticationConfiguration, validate};

    fn authenticator(jwt: &str) -> JwtAuthenticator {
        let text =
            format!("apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\njwt: [{{{jwt}}}]");
        let mut configuration = AuthenticationConfiguration::read(text.as_bytes()).unwrap();
        let mut validated = validate(&configuration, &[]);
        assert!(validated.errors.is_empty(), "{:?}", validated.errors);
        let (config, compiled) = (configuration.jwt.remove(0), validated.compiled.remove(0));
        JwtAuthenticator::new(config, compiled, Algorithm::ALL.to_vec())
    }

    const ISSUER: &str = "issuer: {url: 'https://a', audiences: [x]}";
    const SUBJECT: &str = "username: {claim: sub, prefix: 'a:'}";

    fn mapped(mappings: &str, rules: &str, claims: &str) -> Result<User, String> {
        let claims = holdfast_value::json::parse(claims.as_bytes(), &holdfast_value::Limits::REQUEST).unwrap();
        authenticator(&format!("{ISSUER}, claimMappings: {{{mappings}}}{rules}")).user(&claims)
    }

    #[test]
    fn signed_token_is_received_if_its_claims_hold() {
        let (signer, now) = (Signer::rsa(), UNIX_EPOCH + Duration::from_secs(1_000));
        let authenticator = authenticator(&format!("{ISSUER}, claimMappings: {{{SUBJECT}}}"));
        let receive = |algorithm: &str, claims: &str| {
            let token = signer.token(algorithm, "0", claims);
            authenticator.receive(&token, now)
        };
        let good = r#"{"iss":"https://a","aud":["y","x"],"sub":"s","exp":1000,"nbf":1060}"#;
        let token = receive("RS256", good).unwrap();
        assert!(token.is_signed_by(&key_set(&[&signer])));
        assert!(!token.is_signed_by(&key_set(&[&Signer::rsa()])));
        assert_eq!(authenticator.user(token.claims()).unwrap().name, "a:s");
        for (from, to, why) in [
            (
                "https://a",
                "https://b",
                "oidc: id token issued by a different provider, expected \"https://a\" got \"https://b\"",
            ),
            ("[\"y\",\"x\"]", "\"y\"", "oidc: expected audience \"x\" got [\"y\"]"),
            (
                "1000",
                "999",
                "oidc: token is expired (Token Expiry: 1970-01-01 00:16:39 +0000 UTC)",
            ),
            (
                "\"exp\":1000",
                "\"x\":0",
                "oidc: token is expired (Token Expiry: 0001-01-01 00:00:00 +0000 UTC)",
            ),
            (
                "1060",
                "1061",
                "oidc: current time 1970-01-01 00:16:40 +0000 UTC before the nbf",
            ),
            ("1060", "true", "oidc: failed to unmarshal claims: nbf is no number"),
        ] {
            let error = receive("RS256", &good.replace(from, to)).unwrap_err();
            assert!(error.starts_with(why), "{error}");
        }
        let error = receive("HS256", good).unwrap_err();
        assert!(
            error.contains("unsupported algorithm") && error.ends_with("got \"HS256\""),
            "{error}"
        );
    }

    #[test]
    fn claims_are_mapped_with_prefixes() {
        let mappings = format!("{SUBJECT}, groups: {{claim: roles, prefix: 'r:'}}, uid: {{claim: oid}}");
        let user = mapped(&mappings, "", r#"{"sub":"s","roles":["a","b"],"oid":"1","jti":"t"}"#).unwrap();
        assert_eq!((user.name.as_str(), user.uid.as_str()), ("a:s", "1"));
        assert_eq!(user.groups, ["r:a", "r:b"]);
        assert_eq!(user.extra, [(CREDENTIAL_ID.into(), vec!["JTI=t".into()])]);
        let user = mapped(&mappings, "", r#"{"sub":"s","roles":"a","oid":"1"}"#).unwrap();
        assert_eq!((user.groups.as_slice(), user.extra.len()), (&["r:a".into()][..], 0));
        for (claims, why) in [
            (
                r#"{"oid":"1"}"#,
                "oidc: parse username claims \"sub\": claim not present",
            ),
            (
                r#"{"sub":1,"oid":"1"}"#,
                "oidc: parse username claims \"sub\": json: cannot unmarshal number into Go value of type string",
            ),
            (
                r#"{"sub":"","oid":"1"}"#,
                "oidc: parse username claims \"sub\": the claim is empty",
            ),
            (r#"{"sub":"s"}"#, "oidc: parse uid claim \"oid\": claim not present"),
            (
                r#"{"sub":"s","oid":"1","roles":[1]}"#,
                "oidc: parse groups claim \"roles\": json: cannot unmarshal array into Go value of type string",
            ),
        ] {
            assert_eq!(mapped(&mappings, "", claims).unwrap_err(), why);
        }
    }

    const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

    #[test]
    fn unverified_email_names_no_user() {
        let email = "username: {claim: email, prefix: ''}";
        let email_user = |verified: &str| mapped(email, "", &format!(r#"{{"email":"a@b"{verified}}}"#));
        assert_eq!(email_user("").unwrap().name, "a@b");
        assert_eq!(email_user(r#","email_verified":true"#).unwrap().name, "a@b");
        assert_eq!(
            email_user(r#","email_verified":false"#).unwrap_err(),
            "oidc: email not verified"
        );
        assert!(
            email_user(r#","email_verified":"true""#)
                .unwrap_err()
                .contains("'email_verified'")
        );
    }

    #[test]
    fn expressions_map_claims_and_check_them() {
        let mappings = "username: {expression: \"claims.sub + '@' + claims.tenant.name\"}, groups: {expression: \
                        'claims.roles.filter(r, r != \"\")'}, uid: {expression: 'string(claims.number)'}, extra: [{key: \
                        a.b/c, valueExpression: 'claims.x__dot__y'}, {key: a.b/d, valueExpression: 'claims.?z.orValue(\"\")'}]";
        let claims = r#"{"sub":"s","tenant":{"name":"t"},"roles":["a",""],"number":7,"x.y":["1","2"]}"#;
        let user = mapped(mappings, "", claims).unwrap();
        assert_eq!((user.name.as_str(), user.uid.as_str()), ("s@t", "7"));
        assert_eq!(user.groups, ["a"]);
        assert_eq!(user.extra, [("a.b/c".into(), vec!["1".into(), "2".into()])]);
        let error = mapped("username: {expression: claims.sub}", "", "{}").unwrap_err();
        assert_eq!(
            error,
            "oidc: error evaluating username claim expression: expression 'claims.sub' resulted in error: no such key: sub"
        );
        let error = mapped("username: {expression: claims.sub}", "", r#"{"sub":1}"#).unwrap_err();
        assert!(
            error.ends_with("username claim expression must return a string"),
            "{error}"
        );
        let error = mapped("username: {expression: claims.sub}", "", r#"{"sub":""}"#).unwrap_err();
        assert_eq!(error, "oidc: empty username via CEL expression is not allowed");
    }

    #[test]
    fn rules_reject_claims_and_users() {
        let rules = ", claimValidationRules: [{claim: hd, requiredValue: x}, {expression: 'claims.exp - claims.nbf <= 60.0', \
                     message: too long}], userValidationRules: [{expression: \"!user.username.startsWith('a:system:')\", \
                     message: reserved}, {expression: 'user.extra.all(k, k != \"q\") && user.groups.size() == 0'}]";
        let checked = |claims: &str| mapped(SUBJECT, rules, claims).map(|user| user.name);
        assert_eq!(checked(r#"{"sub":"s","hd":"x","exp":60,"nbf":0}"#).unwrap(), "a:s");
        for (claims, why) in [
            (r#"{"sub":"s"}"#, "oidc: required claim hd not present in ID token"),
            (
                r#"{"sub":"s","hd":"y"}"#,
                "oidc: required claim hd value does not match. Got = y, want = x",
            ),
            (
                r#"{"sub":"s","hd":"x","exp":61,"nbf":0}"#,
                "oidc: error evaluating claim validation expression: validation expression 'claims.exp - claims.nbf <= 60.0' failed: too long",
            ),
            (
                r#"{"sub":"system:a","hd":"x","exp":1,"nbf":0}"#,
                "oidc: error evaluating user info validation rule: validation expression '!user.username.startsWith('a:system:')' failed: reserved",
            ),
        ] {
            assert_eq!(checked(claims).unwrap_err(), why);
        }
    }

    #[test]
    fn discovery_document_is_below_the_issuer_or_elsewhere() {
        let discovery_url = |issuer: &str| {
            let mappings = format!("claimMappings: {{{SUBJECT}}}");
            authenticator(&format!("issuer: {{{issuer}, audiences: [x]}}, {mappings}")).discovery_url()
        };
        assert_eq!(
            discovery_url("url: 'https://a/b/'"),
            "https://a/b/.well-known/openid-configuration"
        );
        assert_eq!(
            discovery_url("url: 'https://a', discoveryURL: 'https://c/d'"),
            "https://c/d"
        );
    }
}
