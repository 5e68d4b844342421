//! The configuration file of authentication (`AuthenticationConfiguration` of `apiserver.config.k8s.io`).

/// Configuration of authentication.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuthenticationConfiguration {
    /// Issuers of accepted tokens.
    pub jwt: Vec<JwtConfig>,
    /// Requests without credentials; `None` if flags decide about them.
    pub anonymous: Option<AnonymousConfig>,
}

/// Requests without credentials.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AnonymousConfig {
    /// True if they are accepted.
    pub enabled: bool,
    /// Paths for which they are accepted; all paths if there are none.
    pub paths: Vec<String>,
}

/// An issuer, and the meaning of its tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JwtConfig {
    /// The issuer.
    pub issuer: Issuer,
    /// Conditions on the claims.
    pub claim_validation_rules: Vec<ClaimValidationRule>,
    /// Attributes of the user.
    pub claim_mappings: ClaimMappings,
    /// Conditions on the resulting user.
    pub user_validation_rules: Vec<UserValidationRule>,
}

/// An issuer of tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Issuer {
    /// URL of the issuer, which is the claim `iss` of its tokens.
    pub url: String,
    /// URL of the discovery document, if it is not below `url`; may be empty.
    pub discovery_url: String,
    /// Authorities of the issuer's certificate in PEM; those of the system if empty.
    pub certificate_authority: String,
    /// Accepted audiences. A token needs one of them.
    pub audiences: Vec<String>,
    /// Match policy of the audiences: empty or `MatchAny`.
    pub audience_match_policy: String,
    /// Network on which the issuer is reached; may be empty.
    pub egress_selector_type: String,
}

/// Condition on claims: the value of a claim, or an expression.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimValidationRule {
    /// Name of the claim; empty for an expression.
    pub claim: String,
    /// Required value of the claim.
    pub required_value: String,
    /// CEL expression over `claims`; empty for a claim.
    pub expression: String,
    /// Message if the expression is false.
    pub message: String,
}

/// Attributes of the user of a token.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimMappings {
    /// Name of the user.
    pub username: PrefixedClaimOrExpression,
    /// Groups of the user.
    pub groups: PrefixedClaimOrExpression,
    /// Identifier of the user.
    pub uid: ClaimOrExpression,
    /// Further attributes.
    pub extra: Vec<ExtraMapping>,
}

/// A claim with a prefix, or an expression.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PrefixedClaimOrExpression {
    /// Name of the claim; may be empty.
    pub claim: String,
    /// Text before the value of the claim. Required with a claim.
    pub prefix: Option<String>,
    /// CEL expression over `claims`; may be empty.
    pub expression: String,
}

/// A claim, or an expression.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimOrExpression {
    /// Name of the claim; may be empty.
    pub claim: String,
    /// CEL expression over `claims`; may be empty.
    pub expression: String,
}

/// A further attribute of the user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExtraMapping {
    /// Name of the attribute, such as `example.org/tenant`.
    pub key: String,
    /// CEL expression over `claims`.
    pub value_expression: String,
}

/// Condition on the resulting user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserValidationRule {
    /// CEL expression over `user`.
    pub expression: String,
    /// Message if the expression is false.
    pub message: String,
}
