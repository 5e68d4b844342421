//! Values of checks with the authorizer.

use std::sync::Arc;

use smol_str::SmolStr;

pub(crate) const AUTHORIZER: &str = "kubernetes.authorization.Authorizer";
pub(crate) const PATH_CHECK: &str = "kubernetes.authorization.PathCheck";
pub(crate) const GROUP_CHECK: &str = "kubernetes.authorization.GroupCheck";
pub(crate) const RESOURCE_CHECK: &str = "kubernetes.authorization.ResourceCheck";
pub(crate) const DECISION: &str = "kubernetes.authorization.Decision";

/// Authorizer that decides on the actions of a request's user. The server implements it.
pub trait Authorizer: std::fmt::Debug + Send + Sync {
    /// Decides on `question`.
    fn authorize(&self, question: &Question) -> Decision;
}

/// Attributes of a check.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Question {
    /// Namespace and name of the service account to check instead of the user of the request.
    pub service_account: Option<(SmolStr, SmolStr)>,
    /// Verb of the API, or of HTTP for a path.
    pub verb: SmolStr,
    /// Target of the verb.
    pub subject: Subject,
}

/// Target of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// A path that does not belong to a resource.
    Path(SmolStr),
    /// A resource.
    Resource(ResourceSubject),
}

impl Default for Subject {
    fn default() -> Self {
        Subject::Resource(ResourceSubject::default())
    }
}

/// Resource of a check; unspecified parts are empty.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ResourceSubject {
    /// The API group.
    pub group: SmolStr,
    /// Plural name of the resource.
    pub resource: SmolStr,
    /// The subresource.
    pub subresource: SmolStr,
    /// The namespace.
    pub namespace: SmolStr,
    /// Name of one object.
    pub name: SmolStr,
    /// Unparsed field selector.
    pub field_selector: SmolStr,
    /// Unparsed label selector.
    pub label_selector: SmolStr,
}

/// Answer of the authorizer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Decision {
    /// True if the action is allowed.
    pub allowed: bool,
    /// Reason of the decision.
    pub reason: String,
    /// Error during the decision.
    pub error: Option<String>,
}

/// Value of one of the types of this library.
#[derive(Debug, Clone)]
pub struct AuthorizerValue(pub(crate) Stage);

/// Step of a check.
#[derive(Debug, Clone)]
pub(crate) enum Stage {
    Authorizer(Asker),
    Path(Asker, SmolStr),
    Group(Asker, SmolStr),
    Resource(Asker, ResourceSubject),
    Decided(Decision),
}

/// Authorizer with the user of the check.
#[derive(Debug, Clone)]
pub(crate) struct Asker {
    pub(crate) authorizer: Arc<dyn Authorizer>,
    pub(crate) service_account: Option<(SmolStr, SmolStr)>,
}

impl AuthorizerValue {
    pub(crate) fn type_name(&self) -> &'static str {
        match self.0 {
            Stage::Authorizer(_) => AUTHORIZER,
            Stage::Path(..) => PATH_CHECK,
            Stage::Group(..) => GROUP_CHECK,
            Stage::Resource(..) => RESOURCE_CHECK,
            Stage::Decided(_) => DECISION,
        }
    }
}
