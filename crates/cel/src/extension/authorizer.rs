//! Values of checks with the authorizer.

use std::sync::Arc;

use smol_str::SmolStr;

pub(crate) const AUTHORIZER: &str = "kubernetes.authorization.Authorizer";
pub(crate) const PATH_CHECK: &str = "kubernetes.authorization.PathCheck";
pub(crate) const GROUP_CHECK: &str = "kubernetes.authorization.GroupCheck";
pub(crate) const RESOURCE_CHECK: &str = "kubernetes.authorization.ResourceCheck";
pub(crate) const DECISION: &str = "kubernetes.authorization.Decision";

/// Authorizer that decides on the actions of a request's user. The server implements it.
///
/// ```
/// use std::sync::Arc;
/// use holdfast_cel::{Activation, Authorizer, Budget, CelValue, Decision, Environment, Question, Type};
///
/// /// Allows everybody to read.
/// #[derive(Debug)]
/// struct Readers;
///
/// impl Authorizer for Readers {
///     fn authorize(&self, question: &Question) -> Decision {
///         Decision { allowed: question.verb == "get", ..Decision::default() }
///     }
/// }
///
/// let environment = Environment::new().with_variable("authorizer", Type::authorizer());
/// let rule = environment.compile("authorizer.path('/healthz').check('get').allowed()", &[Type::Bool])?;
/// let authorizer = CelValue::authorizer(Arc::new(Readers));
/// let activation = Activation::new(&environment).with("authorizer", authorizer);
/// assert_eq!(rule.evaluate(&activation, &mut Budget::default())?.as_bool(), Some(true));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Authorizer: std::fmt::Debug + Send + Sync {
    /// Decides on `question`.
    fn authorize(&self, question: &Question) -> Decision;
}

/// Attributes of a check.
///
/// ```
/// use holdfast_cel::{Question, Subject};
///
/// let question = Question { verb: "get".into(), subject: Subject::Path("/healthz".into()), ..Question::default() };
/// assert!(question.service_account.is_none());
/// ```
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
///
/// ```
/// use holdfast_cel::{ResourceSubject, Subject};
///
/// let pods = Subject::Resource(ResourceSubject { resource: "pods".into(), ..ResourceSubject::default() });
/// assert!(matches!(pods, Subject::Resource(resource) if resource.name.is_empty()));
/// ```
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
///
/// ```
/// use holdfast_cel::ResourceSubject;
///
/// let logs = ResourceSubject { resource: "pods".into(), subresource: "log".into(), ..ResourceSubject::default() };
/// assert_eq!((logs.group.as_str(), logs.subresource.as_str()), ("", "log"));
/// ```
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
///
/// ```
/// use holdfast_cel::Decision;
///
/// let decision = Decision { allowed: false, reason: "no rule".into(), ..Decision::default() };
/// assert!(decision.error.is_none());
/// ```
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
///
/// ```
/// use std::sync::Arc;
/// use holdfast_cel::{Authorizer, CelValue, Decision, Question};
///
/// #[derive(Debug)]
/// struct Nobody;
///
/// impl Authorizer for Nobody {
///     fn authorize(&self, _question: &Question) -> Decision {
///         Decision::default()
///     }
/// }
///
/// let value = CelValue::authorizer(Arc::new(Nobody));
/// assert_eq!(value.type_name(), "kubernetes.authorization.Authorizer");
/// ```
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
