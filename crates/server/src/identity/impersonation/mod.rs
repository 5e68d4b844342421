//! Impersonation of another user, with `Impersonate-User` and the related headers
//! (<https://kubernetes.io/docs/reference/access-authn-authz/authentication/#user-impersonation>).

mod requested_user;

use std::collections::HashMap;
use std::sync::Arc;

use holdfast_authorization::{Attributes, Authorizer, User};
use holdfast_value::SmolStr;
use http::header::HeaderMap;
use parking_lot::Mutex;

use self::requested_user::RequestedUser;
use crate::http::ApiError;

pub(super) const ANONYMOUS: &str = "system:anonymous";

/// Maximum number of users whose last mode is remembered.
const REMEMBERED: usize = 1024;

/// Modes of impersonation, in the order in which they are tried. All but the last are constrained (KEP-5284): they need
/// `impersonate:MODE` on the user and `impersonate-on:MODE:VERB` on the resource of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    AssociatedNode,
    ArbitraryNode,
    ServiceAccount,
    UserInfo,
    Unconstrained,
}

impl Mode {
    const ALL: [Self; 5] = [
        Self::AssociatedNode,
        Self::ArbitraryNode,
        Self::ServiceAccount,
        Self::UserInfo,
        Self::Unconstrained,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::AssociatedNode => "associated-node",
            Self::ArbitraryNode => "arbitrary-node",
            Self::ServiceAccount => "serviceaccount",
            Self::UserInfo => "user-info",
            Self::Unconstrained => "",
        }
    }

    /// Returns the verb that allows the mode; empty for the unconstrained mode.
    fn verb(self) -> String {
        match self {
            Self::Unconstrained => String::new(),
            mode => format!("impersonate:{}", mode.name()),
        }
    }
}

/// Effective user of a request.
#[derive(Debug)]
pub struct Judged {
    /// The user.
    pub user: Arc<User>,
    /// Verb that allowed the impersonation, if there is one; empty for the unconstrained mode.
    pub impersonated: Option<String>,
}

impl Judged {
    fn as_requested(user: Arc<User>) -> Self {
        Self {
            user,
            impersonated: None,
        }
    }
}

/// Impersonation, with the last mode that each user was allowed. That mode is tried first, and denials use its words.
#[derive(Default)]
pub struct Impersonation {
    last: Mutex<HashMap<SmolStr, Mode>>,
    unconstrained_alone: bool,
}

impl Impersonation {
    /// Creates the state with or without the constrained modes.
    pub fn new(constrained: bool) -> Self {
        Self {
            last: Mutex::default(),
            unconstrained_alone: !constrained,
        }
    }

    /// Returns the effective user of a request of `user`: the user that its headers name, or else `user`.
    ///
    /// # Errors
    /// If the headers name attributes of a user but no user (400), or if `user` may not impersonate that user (403).
    pub fn judge(
        &self,
        user: Arc<User>,
        headers: &HeaderMap,
        authorizer: &dyn Authorizer,
        request: &Attributes<'_>,
    ) -> Result<Judged, ApiError> {
        if !headers.keys().any(|name| name.as_str().starts_with("impersonate-")) {
            return Ok(Judged::as_requested(user));
        }
        let wanted = RequestedUser::read(headers)?;
        if wanted.is_empty() {
            return Ok(Judged::as_requested(user));
        }
        if wanted.name.is_empty() {
            return Err(ApiError::bad_request(format!(
                "requested {} without impersonating a user name",
                wanted.as_go()
            )));
        }
        let last = self.last.lock().get(&user.name).copied();
        let others = Mode::ALL.into_iter().filter(|mode| Some(*mode) != last);
        let mut first_rejection = None;
        for mode in last.into_iter().chain(others) {
            let is_off = self.unconstrained_alone && mode != Mode::Unconstrained;
            if is_off || !wanted.goes(mode, &user) {
                continue;
            }
            match wanted.check(mode, &user, authorizer, request) {
                Ok(()) => {
                    self.remember(&user.name, mode, last);
                    return Ok(Judged {
                        user: Arc::new(wanted.into_user(mode)),
                        impersonated: Some(mode.verb()),
                    });
                }
                Err(rejection) => first_rejection = first_rejection.or(Some(rejection)),
            }
        }
        Err(first_rejection.unwrap_or_else(ApiError::unauthorized))
    }

    fn remember(&self, name: &SmolStr, mode: Mode, last: Option<Mode>) {
        if last == Some(mode) {
            return;
        }
        let mut known = self.last.lock();
        if known.len() >= REMEMBERED {
            known.clear();
        }
        known.insert(name.clone(), mode);
    }
}

#[cfg(test)]
mod tests;
