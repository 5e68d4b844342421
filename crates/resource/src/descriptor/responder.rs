//! Handlers that replace the generic verbs: reviews, computed objects, POSTs that change other objects, and connections
//! to a node.

use holdfast_schema::GroupResource;
use holdfast_value::Value;

use super::destination::Destination;
use super::strategy::{Rejection, WriteContext};
use crate::access::{IssuedToken, TokenError, TokenUser};

/// Create-only storage: objects that are answered at once and never stored, such as a review or a token request.
///
/// The descriptor lists the verbs as for any resource. Objects arrive in the version of the request, typed, with their
/// defaults and with the namespace of the address.
pub trait Review: Send + Sync {
    /// Prepares and validates the object after mutating admission and before validating admission.
    ///
    /// # Errors
    /// If there is no response, with the reason.
    fn prepare(&self, _context: &WriteContext<'_>, _object: &mut Value) -> Result<(), Rejection> {
        Ok(())
    }

    /// Returns the response to a POST of `object`: the whole object for the client.
    ///
    /// # Errors
    /// If there is no response, with the reason.
    fn review(&self, context: &WriteContext<'_>, object: Value) -> Result<Value, Rejection>;

    /// Returns the token that `object` asks about, and the audiences; `None` if the review is not about a token, or
    /// answers without one.
    fn token_question<'v>(&self, _object: &'v Value) -> Option<(&'v str, Vec<&'v str>)> {
        None
    }

    /// Returns the response to a POST of `object`, like [`review`](Self::review), once its token is authenticated.
    ///
    /// # Errors
    /// If there is no response, with the reason.
    fn review_token(
        &self,
        context: &WriteContext<'_>,
        object: Value,
        _outcome: Result<TokenUser, TokenError>,
    ) -> Result<Value, Rejection> {
        self.review(context, object)
    }

    /// Returns the unsigned token that `object` requests, and the prepared response; `None` if the review issues no
    /// token.
    ///
    /// # Errors
    /// If there is no response, with the reason.
    fn draft_token(&self, _context: &WriteContext<'_>, _object: &Value) -> Result<Option<TokenDraft>, Rejection> {
        Ok(None)
    }

    /// Returns the response with the token of `draft`, which is signed.
    fn respond_with_token(&self, _context: &WriteContext<'_>, draft: TokenDraft) -> Value {
        draft.response
    }

    /// Returns the kind that the error for an invalid object names, if it is not that of the object.
    fn named_when_invalid(&self) -> Option<&'static str> {
        None
    }
}

/// A token, and the response to the request for it.
#[derive(Clone, Debug)]
pub struct TokenDraft {
    /// The token.
    pub token: IssuedToken,
    /// Response without the token.
    pub response: Value,
}

/// Objects that are computed when they are read, and never stored: the state of a component.
pub trait ComputedObjects: Send + Sync {
    /// Returns the response to a GET of the object of that name.
    ///
    /// # Errors
    /// If there is no object, with the reason.
    fn get(&self, context: &WriteContext<'_>, name: &str) -> Result<Value, Rejection>;

    /// Returns the objects of a list.
    ///
    /// # Errors
    /// If there is no list, with the reason.
    fn list(&self, context: &WriteContext<'_>) -> Result<Vec<Value>, Rejection>;
}

/// A POST that changes stored objects rather than adding one: a binding, an eviction.
///
/// The descriptor lists the verbs as for any resource. The response to a successful POST is a `Status`.
pub trait SubresourceAction: Send + Sync {
    /// Checks `request` after mutating admission and before validating admission.
    ///
    /// # Errors
    /// If the request is rejected.
    fn check(&self, _context: &WriteContext<'_>, _request: &Value) -> Result<(), Rejection> {
        Ok(())
    }

    /// Returns the steps that carry out `request`, which is typed and has its defaults, on the current objects. If one
    /// of them changes before the first step is done, the plan is made again.
    ///
    /// # Errors
    /// If the request is rejected.
    fn plan(&self, context: &WriteContext<'_>, request: &Value) -> Result<Vec<ActionStep>, Rejection>;

    /// Returns the versions other than that of the descriptor in which requests may be sent; their fields are the same.
    fn other_versions(&self) -> &'static [&'static str] {
        &[]
    }
}

/// One step of a [`SubresourceAction`]. Objects are in their storage version.
#[derive(Clone, Debug)]
pub enum ActionStep {
    /// Replaces the stored object with this one, bypassing the write pipeline: no field manager becomes the owner of
    /// the changes.
    Replace {
        /// The resource.
        resource: GroupResource,
        /// The object, with the resource version of the object that it replaces.
        object: Value,
    },
    /// Writes the status of an object in the name of the server.
    Status {
        /// The resource.
        resource: GroupResource,
        /// The object, with the resource version of the object that it replaces.
        object: Value,
    },
    /// Deletes an object in the name of the user.
    Delete {
        /// The resource.
        resource: GroupResource,
        /// The namespace; empty for cluster-scoped resources.
        namespace: String,
        /// The name.
        name: String,
        /// The `DeleteOptions`.
        options: Value,
        /// Error for the client if the object no longer meets the requirements of the options.
        conflict: Option<Rejection>,
    },
}

/// Result of a request to a node, a pod or a service.
#[derive(Clone, Debug)]
pub enum Connection {
    /// The request is passed on.
    Open(Box<Destination>),
    /// The request ends here, for this reason.
    Refused(Rejection),
    /// There is nothing to read.
    Nothing,
}

/// A subresource through which requests reach a node or a pod: a proxy, a log, a command.
pub trait Connecter: Send + Sync {
    /// Returns the supported query parameters of requests.
    fn parameters(&self) -> &'static [ConnectParameter];

    /// Returns true if requests are connected through: whatever their method they count as `CONNECT`, and admission
    /// sees them, with their options as the object. Others are reads that are answered with text.
    fn connects(&self) -> bool {
        true
    }

    /// Returns the verb that a request needs in addition to that of its method, so that users who may only read cannot
    /// act.
    fn also_needs(&self) -> Option<&'static str> {
        None
    }

    /// Returns the result of a request. `options` are its parameters, as an object of the subresource's kind.
    fn connect(&self, context: &WriteContext<'_>, options: &Value) -> Connection;
}

/// Query parameter of a request to a [`Connecter`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectParameter {
    /// The name, in the query and in the options.
    pub name: &'static str,
    /// Form of its values.
    pub form: ParameterForm,
    /// Description of the parameter.
    pub description: &'static str,
}

/// Form of the values of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParameterForm {
    /// A boolean; only true values appear in the options.
    Flag,
    /// A whole number.
    Number,
    /// Ports, which may be a list separated by commas.
    Ports,
    /// The path after that of the subresource, whatever the query.
    Path,
    /// A text.
    Text,
    /// Texts, one for each occurrence; `null` in the options if there is none.
    Texts,
    /// A time. OpenAPI has no type for such a parameter and leaves it out.
    Time,
}

impl ConnectParameter {
    /// Creates a parameter.
    pub const fn new(name: &'static str, form: ParameterForm, description: &'static str) -> Self {
        Self {
            name,
            form,
            description,
        }
    }
}
