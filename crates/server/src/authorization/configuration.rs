//! The configuration file of authorization (`AuthorizationConfiguration` of `apiserver.config.k8s.io`).

use holdfast_authentication::strict::{Node, ReadError, Reader, read_object};

const KIND: &str = "AuthorizationConfiguration";

/// Default times of the cache in nanoseconds.
const AUTHORIZED_TTL: i64 = 300_000_000_000;
const UNAUTHORIZED_TTL: i64 = 30_000_000_000;

/// Configuration of authorization: a chain of authorizers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuthorizationConfiguration {
    /// Authorizers in their order.
    pub authorizers: Vec<AuthorizerConfig>,
}

/// An authorizer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuthorizerConfig {
    /// Type, such as `Webhook` or `RBAC`.
    pub kind: String,
    /// Name in metrics; that of authorizers other than webhooks is their type in lower case.
    pub name: String,
    /// Settings of a webhook.
    pub webhook: Option<WebhookSettings>,
}

/// Settings of a webhook. Times are in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WebhookSettings {
    /// Time to cache that a request is allowed.
    pub authorized_ttl: i64,
    /// True if it is cached that a request is allowed.
    pub caches_authorized: bool,
    /// Time to cache that a request is not allowed.
    pub unauthorized_ttl: i64,
    /// True if it is cached that a request is not allowed.
    pub caches_unauthorized: bool,
    /// Time limit of a call.
    pub timeout: i64,
    /// Version of the reviews: `v1` or `v1beta1`.
    pub review_version: String,
    /// Version of the reviews in match conditions: `v1`.
    pub condition_version: String,
    /// Decision if there is no answer: `NoOpinion` or `Deny`.
    pub failure_policy: String,
    /// Type of the connection: `KubeConfigFile` or `InClusterConfig`.
    pub connection_type: String,
    /// Path of the kubeconfig.
    pub kubeconfig: Option<String>,
    /// CEL expressions that must be true for a request that the webhook decides about.
    pub match_conditions: Vec<String>,
}

impl AuthorizationConfiguration {
    /// Reads YAML or JSON of the versions `v1`, `v1beta1` and `v1alpha1`.
    ///
    /// # Errors
    /// If it cannot be decoded. Its values are not validated.
    pub fn read(bytes: &[u8]) -> Result<Self, ReadError> {
        read_object(bytes, KIND, configuration)
    }
}

fn configuration(reader: &mut Reader, root: &Node<'_>) -> Result<AuthorizationConfiguration, ReadError> {
    reader.members(root, &["apiVersion", "kind", "authorizers"])?;
    let authorizers = root.list("authorizers", |node| {
        reader.members(node, &["type", "name", "webhook"])?;
        let webhook = node.child("webhook");
        Ok(AuthorizerConfig {
            kind: node.text("type")?,
            name: node.text("name")?,
            webhook: match webhook.is_set() {
                true => Some(webhook_settings(reader, &webhook)?),
                false => None,
            },
        })
    });
    Ok(AuthorizationConfiguration {
        authorizers: authorizers?,
    })
}

/// Fields of a webhook.
const WEBHOOK_FIELDS: [&str; 10] = [
    "authorizedTTL",
    "cacheAuthorizedRequests",
    "unauthorizedTTL",
    "cacheUnauthorizedRequests",
    "timeout",
    "subjectAccessReviewVersion",
    "matchConditionSubjectAccessReviewVersion",
    "failurePolicy",
    "connectionInfo",
    "matchConditions",
];

fn webhook_settings(reader: &mut Reader, node: &Node<'_>) -> Result<WebhookSettings, ReadError> {
    reader.members(node, &WEBHOOK_FIELDS)?;
    let connection = node.child("connectionInfo");
    reader.members(&connection, &["type", "kubeConfigFile"])?;
    let conditions = node.list("matchConditions", |condition| {
        reader.members(condition, &["expression"])?;
        condition.text("expression")
    });
    let or = |time: i64, default: i64| if time == 0 { default } else { time };
    Ok(WebhookSettings {
        authorized_ttl: or(node.duration("authorizedTTL")?, AUTHORIZED_TTL),
        caches_authorized: node.optional_flag("cacheAuthorizedRequests")?.unwrap_or(true),
        unauthorized_ttl: or(node.duration("unauthorizedTTL")?, UNAUTHORIZED_TTL),
        caches_unauthorized: node.optional_flag("cacheUnauthorizedRequests")?.unwrap_or(true),
        timeout: node.duration("timeout")?,
        review_version: node.text("subjectAccessReviewVersion")?,
        condition_version: node.text("matchConditionSubjectAccessReviewVersion")?,
        failure_policy: node.text("failurePolicy")?,
        connection_type: connection.text("type")?,
        kubeconfig: connection.child("kubeConfigFile").optional_text()?,
        match_conditions: conditions?,
    })
}
