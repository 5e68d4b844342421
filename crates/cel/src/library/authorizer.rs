//! Checks with the authorizer: `authorizer.group('').resource('pods').check('get').allowed()`.

#![expect(
    clippy::indexing_slicing,
    reason = "a call has the number of arguments of its chosen overload"
)]

use std::sync::Arc;

use smol_str::SmolStr;

use crate::error::EvaluationError::{self, NoSuchOverload};
use crate::functions::{Cost, Function};
use crate::value::{CelValue, Outcome};

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
pub struct AuthorizerValue(Stage);

#[derive(Debug, Clone)]
enum Stage {
    Authorizer(Asker),
    Path(Asker, SmolStr),
    Group(Asker, SmolStr),
    Resource(Asker, ResourceSubject),
    Decided(Decision),
}

/// Authorizer with the user of the check.
#[derive(Debug, Clone)]
struct Asker {
    authorizer: Arc<dyn Authorizer>,
    service_account: Option<(SmolStr, SmolStr)>,
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

impl CelValue {
    /// Creates the variable `authorizer`.
    pub fn authorizer(authorizer: Arc<dyn Authorizer>) -> Self {
        wrap(Stage::Authorizer(Asker {
            authorizer,
            service_account: None,
        }))
    }

    /// Creates `authorizer.requestResource`: a check of the request's resource.
    pub fn resource_check(authorizer: Arc<dyn Authorizer>, resource: ResourceSubject) -> Self {
        let asker = Asker {
            authorizer,
            service_account: None,
        };
        wrap(Stage::Resource(asker, resource))
    }
}

fn wrap(stage: Stage) -> CelValue {
    CelValue::Authorizer(Arc::new(AuthorizerValue(stage)))
}

/// Steps that specify one more part of the resource.
macro_rules! narrowing {
    ($name:literal, $field:ident) => {
        Function {
            name: $name,
            call: |_, args| {
                let (stage, text) = stage_and_text(args)?;
                let Stage::Resource(asker, resource) = stage else {
                    return Err(NoSuchOverload);
                };
                let mut resource = resource.clone();
                resource.$field = text.clone();
                Ok(wrap(Stage::Resource(asker.clone(), resource)))
            },
            cost: Cost::Fixed(1),
            signatures: &["resource_check.(string) resource_check"],
        }
    };
}

macro_rules! of_decision {
    ($name:literal, $signature:literal, $answer:expr) => {
        Function {
            name: $name,
            call: |_, args| match &args[0] {
                CelValue::Authorizer(value) => match &value.0 {
                    Stage::Decided(decision) => {
                        let answer: fn(&Decision) -> CelValue = $answer;
                        Ok(answer(decision))
                    }
                    _ => Err(NoSuchOverload),
                },
                _ => Err(NoSuchOverload),
            },
            cost: Cost::Fixed(1),
            signatures: &[$signature],
        }
    };
}

pub(crate) const FUNCTIONS: &[Function] = &[
    Function {
        name: "path",
        call: |_, args| {
            let (stage, path) = stage_and_text(args)?;
            let Stage::Authorizer(asker) = stage else {
                return Err(NoSuchOverload);
            };
            if path.trim().is_empty() {
                return Err(EvaluationError::failed("path must not be empty"));
            }
            Ok(wrap(Stage::Path(asker.clone(), path.clone())))
        },
        cost: Cost::Fixed(1),
        signatures: &["authorizer.(string) path_check"],
    },
    Function {
        name: "group",
        call: |_, args| {
            let (stage, group) = stage_and_text(args)?;
            let Stage::Authorizer(asker) = stage else {
                return Err(NoSuchOverload);
            };
            Ok(wrap(Stage::Group(asker.clone(), group.clone())))
        },
        cost: Cost::Fixed(1),
        signatures: &["authorizer.(string) group_check"],
    },
    Function {
        name: "serviceAccount",
        call: |_, args| service_account(args),
        cost: Cost::Fixed(1),
        signatures: &["authorizer.(string, string) authorizer"],
    },
    Function {
        name: "resource",
        call: |_, args| {
            let (stage, resource) = stage_and_text(args)?;
            let Stage::Group(asker, group) = stage else {
                return Err(NoSuchOverload);
            };
            if resource.trim().is_empty() {
                return Err(EvaluationError::failed("resource must not be empty"));
            }
            let subject = ResourceSubject {
                group: group.clone(),
                resource: resource.clone(),
                ..ResourceSubject::default()
            };
            Ok(wrap(Stage::Resource(asker.clone(), subject)))
        },
        cost: Cost::Fixed(1),
        signatures: &["group_check.(string) resource_check"],
    },
    narrowing!("subresource", subresource),
    narrowing!("namespace", namespace),
    narrowing!("name", name),
    narrowing!("fieldSelector", field_selector),
    narrowing!("labelSelector", label_selector),
    Function {
        name: "check",
        call: |_, args| check(args),
        // Deliberately expensive: an expression can make two checks.
        cost: Cost::Fixed(350_000),
        signatures: &["path_check.(string) decision", "resource_check.(string) decision"],
    },
    of_decision!("errored", "decision.() bool", |decision| CelValue::Bool(
        decision.error.is_some()
    )),
    of_decision!("error", "decision.() string", |decision| {
        CelValue::text(decision.error.as_deref().unwrap_or_default())
    }),
    of_decision!("allowed", "decision.() bool", |decision| CelValue::Bool(
        decision.allowed
    )),
    of_decision!("reason", "decision.() string", |decision| CelValue::text(
        decision.reason.as_str()
    )),
];

fn stage_and_text(args: &[CelValue]) -> Outcome<(&Stage, &SmolStr)> {
    match args {
        [CelValue::Authorizer(value), CelValue::String(text)] => Ok((&value.0, text)),
        _ => Err(NoSuchOverload),
    }
}

fn service_account(args: &[CelValue]) -> Outcome {
    let [
        CelValue::Authorizer(value),
        CelValue::String(namespace),
        CelValue::String(name),
    ] = args
    else {
        return Err(NoSuchOverload);
    };
    let Stage::Authorizer(asker) = &value.0 else {
        return Err(NoSuchOverload);
    };
    let label = |text: &str| {
        let edge = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
        edge(text.as_bytes().first())
            && edge(text.as_bytes().last())
            && text
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
    };
    if name.len() > 253 || !name.split('.').all(label) {
        return Err(EvaluationError::failed("Invalid service account name"));
    }
    if namespace.len() > 63 || !label(namespace) {
        return Err(EvaluationError::failed("Invalid service account namespace"));
    }
    Ok(wrap(Stage::Authorizer(Asker {
        authorizer: asker.authorizer.clone(),
        service_account: Some((namespace.clone(), name.clone())),
    })))
}

fn check(args: &[CelValue]) -> Outcome {
    let (stage, verb) = stage_and_text(args)?;
    let (asker, subject) = match stage {
        Stage::Path(asker, path) => (asker, Subject::Path(path.clone())),
        Stage::Resource(asker, resource) => (asker, Subject::Resource(resource.clone())),
        _ => return Err(NoSuchOverload),
    };
    let decision = asker.authorizer.authorize(&Question {
        service_account: asker.service_account.clone(),
        verb: verb.clone(),
        subject,
    });
    Ok(wrap(Stage::Decided(decision)))
}
