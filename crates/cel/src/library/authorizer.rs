//! Checks with the authorizer: `authorizer.group('').resource('pods').check('get').allowed()`.

#![expect(
    clippy::indexing_slicing,
    reason = "a call has the number of arguments of its chosen overload"
)]

use std::sync::Arc;

use smol_str::SmolStr;

use crate::error::EvaluationError::{self, NoSuchOverload};
use crate::extension::authorizer::{
    Asker, Authorizer, AuthorizerValue, Decision, Question, ResourceSubject, Stage, Subject,
};
use crate::functions::{Cost, Function};
use crate::value::{CelValue, Outcome};

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
