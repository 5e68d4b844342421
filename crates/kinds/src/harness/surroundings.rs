//! Environment of a write: rights, tokens and other objects.

use std::ops::ControlFlow;

use holdfast_authorization::{AccessTarget, Attributes, Authorization, Authorizer, Decision, User, UserRules};
use holdfast_resource::access::{
    BoundObject, IssuedToken, ServiceAccountToken, TokenAuthenticator, TokenError, TokenIssuer, TokenUser,
};
use holdfast_resource::{Lookup, Resource};
use holdfast_schema::{GroupKind, GroupResource};
use holdfast_value::{SmolStr, Value};

use super::Harness;

impl Authorizer for Harness {
    fn authorize(&self, _user: &User, attributes: &Attributes<'_>) -> Authorization {
        let AccessTarget::Resource(target) = attributes.target else {
            return Authorization::NO_OPINION;
        };
        let question = format!("{} {}/{}", attributes.verb, target.resource, target.subresource);
        match self.rights.iter().flatten().any(|right| *right == question) {
            true => Authorization::new(Decision::Allow),
            false => Authorization::NO_OPINION,
        }
    }

    fn rules(&self, _user: &User, _namespace: &str) -> UserRules {
        UserRules::default()
    }
}

impl TokenIssuer for TesterToken {
    fn audiences(&self) -> &[SmolStr] {
        static OWN: [SmolStr; 1] = [SmolStr::new_static("tests")];
        &OWN
    }

    fn longest(&self) -> Option<i64> {
        Some(86_400)
    }

    fn extended_life(&self) -> Option<i64> {
        Some(365 * 86_400)
    }

    /// Returns a token whose text describes its purpose.
    fn issue(&self, token: &ServiceAccountToken<'_>) -> Result<IssuedToken, String> {
        let shown = |object: &Option<BoundObject>| match object {
            Some(object) => format!("{}/{}", object.name, object.uid),
            None => "none".to_owned(),
        };
        let token = format!(
            "{}/{} for {}, {} s, pod {}, node {}",
            token.account.name,
            token.account.uid,
            token.audiences.join(" "),
            token.seconds,
            shown(&token.pod),
            shown(&token.node)
        );
        Ok(IssuedToken {
            token,
            credential: "JTI=1".to_owned(),
        })
    }
}

/// Authenticator of one token: `tester`, of the user who makes the requests.
pub(super) struct TesterToken;

impl TokenAuthenticator for TesterToken {
    fn authenticate(&self, token: &str, _audiences: &[&str]) -> Result<TokenUser, TokenError> {
        if token != "tester" {
            return Err(TokenError::Unknown);
        }
        Ok(TokenUser {
            user: Harness::new().world.user,
            audiences: vec!["here".into()],
            annotations: Vec::new(),
            warning: None,
        })
    }
}

impl Lookup for Harness {
    fn get(&self, resource: &GroupResource, _namespace: &str, name: &str) -> Option<Value> {
        let mut found = None;
        self.list(resource, "", &mut |object| {
            if object.str_at(&["metadata", "name"]) == Some(name) {
                found = Some(object.clone());
            }
            ControlFlow::Continue(())
        });
        found
    }

    fn resource_of(&self, kind: &GroupKind) -> Option<&Resource> {
        self.world.registry.kind(kind).map(AsRef::as_ref)
    }

    fn list(&self, resource: &GroupResource, _namespace: &str, visit: &mut dyn FnMut(&Value) -> ControlFlow<()>) {
        for object in &self.objects {
            if self.resource(object).group_resource() == *resource && visit(object).is_break() {
                return;
            }
        }
    }
}
