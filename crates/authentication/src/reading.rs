//! Reader of the configuration file. It is strict: unknown and repeated fields are errors.

use crate::configuration::{
    AnonymousConfig, AuthenticationConfiguration, ClaimMappings, ClaimOrExpression, ClaimValidationRule, ExtraMapping,
    Issuer, JwtConfig, PrefixedClaimOrExpression, UserValidationRule,
};
use crate::strict::{Node, ReadError, Reader, read_object};

const KIND: &str = "AuthenticationConfiguration";

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
        read_object(bytes, KIND, configuration)
    }
}

/// Reads the fields of a configuration.
fn configuration(reader: &mut Reader, root: &Node<'_>) -> Result<AuthenticationConfiguration, ReadError> {
    reader.members(root, &["apiVersion", "kind", "jwt", "anonymous"])?;
    let without_credentials = root.child("anonymous");
    Ok(AuthenticationConfiguration {
        jwt: root.list("jwt", |node| jwt(reader, node))?,
        anonymous: match without_credentials.is_set() {
            true => Some(anonymous(reader, &without_credentials)?),
            false => None,
        },
    })
}

fn anonymous(reader: &mut Reader, node: &Node<'_>) -> Result<AnonymousConfig, ReadError> {
    reader.members(node, &["enabled", "conditions"])?;
    let paths = node.list("conditions", |condition| {
        reader.members(condition, &["path"])?;
        condition.text("path")
    });
    Ok(AnonymousConfig {
        enabled: node.optional_flag("enabled")?.unwrap_or_default(),
        paths: paths?,
    })
}

fn jwt(reader: &mut Reader, node: &Node<'_>) -> Result<JwtConfig, ReadError> {
    let known = ["issuer", "claimValidationRules", "claimMappings", "userValidationRules"];
    reader.members(node, &known)?;
    Ok(JwtConfig {
        issuer: issuer(reader, &node.child("issuer"))?,
        claim_validation_rules: node.list("claimValidationRules", |rule| claim_rule(reader, rule))?,
        claim_mappings: mappings(reader, &node.child("claimMappings"))?,
        user_validation_rules: node.list("userValidationRules", |rule| {
            reader.members(rule, &["expression", "message"])?;
            Ok(UserValidationRule {
                expression: rule.text("expression")?,
                message: rule.text("message")?,
            })
        })?,
    })
}

fn issuer(reader: &mut Reader, node: &Node<'_>) -> Result<Issuer, ReadError> {
    let known = [
        "url",
        "discoveryURL",
        "certificateAuthority",
        "audiences",
        "audienceMatchPolicy",
        "egressSelectorType",
    ];
    reader.members(node, &known)?;
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

fn claim_rule(reader: &mut Reader, node: &Node<'_>) -> Result<ClaimValidationRule, ReadError> {
    reader.members(node, &["claim", "requiredValue", "expression", "message"])?;
    Ok(ClaimValidationRule {
        claim: node.text("claim")?,
        required_value: node.text("requiredValue")?,
        expression: node.text("expression")?,
        message: node.text("message")?,
    })
}

fn mappings(reader: &mut Reader, node: &Node<'_>) -> Result<ClaimMappings, ReadError> {
    reader.members(node, &["username", "groups", "uid", "extra"])?;
    let uid = node.child("uid");
    reader.members(&uid, &["claim", "expression"])?;
    Ok(ClaimMappings {
        username: prefixed(reader, &node.child("username"))?,
        groups: prefixed(reader, &node.child("groups"))?,
        uid: ClaimOrExpression {
            claim: uid.text("claim")?,
            expression: uid.text("expression")?,
        },
        extra: node.list("extra", |extra| {
            reader.members(extra, &["key", "valueExpression"])?;
            Ok(ExtraMapping {
                key: extra.text("key")?,
                value_expression: extra.text("valueExpression")?,
            })
        })?,
    })
}

fn prefixed(reader: &mut Reader, node: &Node<'_>) -> Result<PrefixedClaimOrExpression, ReadError> {
    reader.members(node, &["claim", "prefix", "expression"])?;
    Ok(PrefixedClaimOrExpression {
        claim: node.text("claim")?,
        prefix: node.child("prefix").optional_text()?,
        expression: node.text("expression")?,
    })
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
