//! Reader of the configuration file. It is strict: unknown and repeated fields are errors.

use holdfast_schema::FieldPath;
use holdfast_value::{Limits, Value, yaml};

use crate::configuration::{
    AnonymousConfig, AuthenticationConfiguration, ClaimMappings, ClaimOrExpression, ClaimValidationRule, ExtraMapping,
    Issuer, JwtConfig, PrefixedClaimOrExpression, UserValidationRule,
};

/// Versions of the file.
const VERSIONS: [&str; 3] = [
    "apiserver.config.k8s.io/v1",
    "apiserver.config.k8s.io/v1beta1",
    "apiserver.config.k8s.io/v1alpha1",
];

const KIND: &str = "AuthenticationConfiguration";

/// Error of reading a configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// There is no text.
    #[error("empty config data")]
    Empty,
    /// The text cannot be read.
    #[error("couldn't get version/kind; json parse error: {0}")]
    Unreadable(String),
    /// It is of another kind or version.
    #[error("no kind {kind:?} is registered for version {version:?}; there is {KIND} of {}", VERSIONS.join(", "))]
    Kind {
        /// The stated kind.
        kind: String,
        /// The stated version.
        version: String,
    },
    /// A field has a value of another type.
    #[error("{path}: expected {expected}, got {found}")]
    Type {
        /// Path of the field.
        path: String,
        /// The expected type.
        expected: &'static str,
        /// The type of the value.
        found: &'static str,
    },
    /// It has unknown or repeated fields.
    #[error("strict decoding error: {0}")]
    Strict(String),
}

impl AuthenticationConfiguration {
    /// Reads YAML or JSON of the versions `v1`, `v1beta1` and `v1alpha1`.
    ///
    /// ```
    /// use holdfast_authentication::AuthenticationConfiguration;
    ///
    /// let text = b"{apiVersion: apiserver.config.k8s.io/v1, kind: AuthenticationConfiguration, anonymous: {enabled: true}}";
    /// let configuration = AuthenticationConfiguration::read(text)?;
    /// assert!(configuration.anonymous.is_some_and(|anonymous| anonymous.enabled));
    /// # Ok::<(), holdfast_authentication::ReadError>(())
    /// ```
    ///
    /// # Errors
    /// If it cannot be decoded. Its values are not validated.
    pub fn read(bytes: &[u8]) -> Result<Self, ReadError> {
        if bytes.is_empty() {
            return Err(ReadError::Empty);
        }
        let outcome = yaml::parse_with_findings(bytes, &Limits::REQUEST);
        let parsed = outcome.map_err(|error| ReadError::Unreadable(error.to_string()))?;
        check_kind(&parsed.value)?;
        let mut reader = Reader::default();
        let configuration = reader.configuration(&Node::root(&parsed.value))?;
        let repeated = parsed.findings.iter().map(ToString::to_string);
        let strict: Vec<String> = repeated.chain(reader.unknown).collect();
        match strict.is_empty() {
            true => Ok(configuration),
            false => Err(ReadError::Strict(strict.join(", "))),
        }
    }
}

fn check_kind(value: &Value) -> Result<(), ReadError> {
    let text = |name| value.str_at(&[name]).unwrap_or_default();
    let (version, kind) = (text("apiVersion"), text("kind"));
    match VERSIONS.contains(&version) && kind == KIND {
        true => Ok(()),
        false => Err(ReadError::Kind {
            kind: kind.to_owned(),
            version: version.to_owned(),
        }),
    }
}

/// Value with its path; null counts as missing.
struct Node<'v> {
    value: Option<&'v Value>,
    path: FieldPath,
}

impl<'v> Node<'v> {
    fn root(value: &'v Value) -> Self {
        Self {
            value: Some(value),
            path: FieldPath::default(),
        }
    }

    fn child(&self, name: &str) -> Self {
        let value = self.value.and_then(|value| value.get(name));
        Self {
            value: value.filter(|value| !value.is_null()),
            path: self.path.child(name),
        }
    }

    fn mismatch(&self, expected: &'static str) -> ReadError {
        ReadError::Type {
            path: self.path.to_string(),
            expected,
            found: self.value.map_or("null", Value::json_kind),
        }
    }

    fn optional_text(&self) -> Result<Option<String>, ReadError> {
        let Some(value) = self.value else { return Ok(None) };
        let text = value.as_str().ok_or_else(|| self.mismatch("string"))?;
        Ok(Some(text.to_owned()))
    }

    /// Returns the text of the member `name`; empty if it is missing.
    fn text(&self, name: &str) -> Result<String, ReadError> {
        Ok(self.child(name).optional_text()?.unwrap_or_default())
    }

    fn flag(&self, name: &str) -> Result<bool, ReadError> {
        let node = self.child(name);
        match node.value {
            None => Ok(false),
            Some(value) => value.as_bool().ok_or_else(|| node.mismatch("bool")),
        }
    }

    /// Reads each item of the list `name`.
    fn list<T>(
        &self,
        name: &str,
        mut read: impl FnMut(&Node<'_>) -> Result<T, ReadError>,
    ) -> Result<Vec<T>, ReadError> {
        let node = self.child(name);
        let Some(value) = node.value else {
            return Ok(Vec::new());
        };
        let list = value.as_list().ok_or_else(|| node.mismatch("array"))?;
        let items = list.iter().enumerate().map(|(at, value)| Node {
            value: Some(value).filter(|value| !value.is_null()),
            path: node.path.index(at),
        });
        items.map(|item| read(&item)).collect()
    }
}

/// Reader of objects, which collects unknown fields.
#[derive(Default)]
struct Reader {
    unknown: Vec<String>,
}

impl Reader {
    /// Checks that `node` is an object, and records its members that are not among `known`.
    fn members(&mut self, node: &Node<'_>, known: &[&str]) -> Result<(), ReadError> {
        let Some(value) = node.value else { return Ok(()) };
        let map = value.as_map().ok_or_else(|| node.mismatch("object"))?;
        for (key, _) in map.iter().filter(|(key, _)| !known.contains(&key.as_str())) {
            let path = node.path.child(key);
            self.unknown.push(format!("unknown field {:?}", path.as_str()));
        }
        Ok(())
    }

    fn configuration(&mut self, root: &Node<'_>) -> Result<AuthenticationConfiguration, ReadError> {
        self.members(root, &["apiVersion", "kind", "jwt", "anonymous"])?;
        let anonymous = root.child("anonymous");
        Ok(AuthenticationConfiguration {
            jwt: root.list("jwt", |node| self.jwt(node))?,
            anonymous: match anonymous.value {
                Some(_) => Some(self.anonymous(&anonymous)?),
                None => None,
            },
        })
    }

    fn anonymous(&mut self, node: &Node<'_>) -> Result<AnonymousConfig, ReadError> {
        self.members(node, &["enabled", "conditions"])?;
        let paths = node.list("conditions", |condition| {
            self.members(condition, &["path"])?;
            condition.text("path")
        });
        Ok(AnonymousConfig {
            enabled: node.flag("enabled")?,
            paths: paths?,
        })
    }

    fn jwt(&mut self, node: &Node<'_>) -> Result<JwtConfig, ReadError> {
        let known = ["issuer", "claimValidationRules", "claimMappings", "userValidationRules"];
        self.members(node, &known)?;
        Ok(JwtConfig {
            issuer: self.issuer(&node.child("issuer"))?,
            claim_validation_rules: node.list("claimValidationRules", |rule| self.claim_rule(rule))?,
            claim_mappings: self.mappings(&node.child("claimMappings"))?,
            user_validation_rules: node.list("userValidationRules", |rule| {
                self.members(rule, &["expression", "message"])?;
                Ok(UserValidationRule {
                    expression: rule.text("expression")?,
                    message: rule.text("message")?,
                })
            })?,
        })
    }

    fn issuer(&mut self, node: &Node<'_>) -> Result<Issuer, ReadError> {
        let known = [
            "url",
            "discoveryURL",
            "certificateAuthority",
            "audiences",
            "audienceMatchPolicy",
            "egressSelectorType",
        ];
        self.members(node, &known)?;
        Ok(Issuer {
            url: node.text("url")?,
            discovery_url: node.text("discoveryURL")?,
            certificate_authority: node.text("certificateAuthority")?,
            audiences: node.list("audiences", |audience| {
                Ok(audience.optional_text()?.unwrap_or_default())
            })?,
            audience_match_policy: node.text("audienceMatchPolicy")?,
            egress_selector_type: node.text("egressSelectorType")?,
        })
    }

    fn claim_rule(&mut self, node: &Node<'_>) -> Result<ClaimValidationRule, ReadError> {
        self.members(node, &["claim", "requiredValue", "expression", "message"])?;
        Ok(ClaimValidationRule {
            claim: node.text("claim")?,
            required_value: node.text("requiredValue")?,
            expression: node.text("expression")?,
            message: node.text("message")?,
        })
    }

    fn mappings(&mut self, node: &Node<'_>) -> Result<ClaimMappings, ReadError> {
        self.members(node, &["username", "groups", "uid", "extra"])?;
        let uid = node.child("uid");
        self.members(&uid, &["claim", "expression"])?;
        Ok(ClaimMappings {
            username: self.prefixed(&node.child("username"))?,
            groups: self.prefixed(&node.child("groups"))?,
            uid: ClaimOrExpression {
                claim: uid.text("claim")?,
                expression: uid.text("expression")?,
            },
            extra: node.list("extra", |extra| {
                self.members(extra, &["key", "valueExpression"])?;
                Ok(ExtraMapping {
                    key: extra.text("key")?,
                    value_expression: extra.text("valueExpression")?,
                })
            })?,
        })
    }

    fn prefixed(&mut self, node: &Node<'_>) -> Result<PrefixedClaimOrExpression, ReadError> {
        self.members(node, &["claim", "prefix", "expression"])?;
        Ok(PrefixedClaimOrExpression {
            claim: node.text("claim")?,
            prefix: node.child("prefix").optional_text()?,
            expression: node.text("expression")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<AuthenticationConfiguration, String> {
        let text = format!("apiVersion: apiserver.config.k8s.io/v1beta1\nkind: AuthenticationConfiguration\n{text}");
        AuthenticationConfiguration::read(text.as_bytes()).map_err(|error| error.to_string())
    }

    #[test]
    fn all_fields_are_read() {
        let read = read(
            "anonymous: {enabled: true, conditions: [{path: /livez}]}\njwt:\n- issuer: {url: 'https://a', discoveryURL: \
             'https://b', audiences: [w, x], audienceMatchPolicy: MatchAny}\n  claimValidationRules: [{claim: hd, \
             requiredValue: z}]\n  claimMappings:\n    username: {claim: sub, prefix: ''}\n    groups: {expression: \
             claims.roles}\n    extra: [{key: a.b/c, valueExpression: claims.d}]\n  userValidationRules: [{expression: \
             'true', message: denied}]\n",
        );
        let configuration = read.unwrap();
        let [jwt] = configuration.jwt.as_slice() else {
            unreachable!("one issuer")
        };
        assert_eq!(jwt.issuer.audiences, ["w", "x"]);
        assert_eq!(jwt.claim_mappings.username.prefix.as_deref(), Some(""));
        assert_eq!(jwt.claim_mappings.groups.prefix, None);
        assert_eq!(jwt.claim_mappings.extra.len(), 1);
        assert_eq!(jwt.user_validation_rules.len(), 1);
        assert_eq!(configuration.anonymous.unwrap().paths, ["/livez"]);
    }

    #[test]
    fn undecodable_file_is_rejected_with_reason() {
        for (text, why) in [
            (
                "jwt: [{issuer: {uri: x}}]",
                "strict decoding error: unknown field \"jwt[0].issuer.uri\"",
            ),
            ("jwt: [{issuer: x}]", "jwt[0].issuer: expected object, got string"),
            ("jwt: {}", "jwt: expected array, got object"),
            (
                "jwt: [{issuer: {audiences: [1]}}]",
                "jwt[0].issuer.audiences[0]: expected string",
            ),
            ("anonymous: {enabled: 'yes'}", "anonymous.enabled: expected bool"),
            ("jwt: []\njwt: []", "strict decoding error: "),
            ("jwt: [", "json parse error"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
        assert_eq!(AuthenticationConfiguration::read(b""), Err(ReadError::Empty));
        let other = AuthenticationConfiguration::read(b"{apiVersion: v1, kind: Pod}").unwrap_err();
        assert!(
            other.to_string().starts_with("no kind \"Pod\" is registered"),
            "{other}"
        );
    }
}
