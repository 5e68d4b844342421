//! What answers a request in place of the generic verbs: reviews, objects that are computed, POSTs that change other objects,
//! and what is connected through to a node.

use holdfast_value::Value;

use crate::{GroupResource, Refusal, WriteContext};

/// Create-only storage: what is answered at once and never stored, such as a review or a request for a token.
///
/// The verbs stand in the descriptor as for any resource. Objects come in the version of the request, typed, with their
/// defaults and with the namespace of the address.
pub trait Review: Send + Sync {
    /// Shapes and checks what mutating admission left, before validating admission sees it.
    ///
    /// # Errors
    /// Why there is no answer.
    fn prepare(&self, _context: &WriteContext<'_>, _object: &mut Value) -> Result<(), Refusal> {
        Ok(())
    }

    /// The answer to a POST of `object`: the whole object that the client is shown.
    ///
    /// # Errors
    /// Why there is no answer.
    fn review(&self, context: &WriteContext<'_>, object: Value) -> Result<Value, Refusal>;

    /// The kind that a refusal of an invalid object names, where it is not that of the object.
    fn named_when_invalid(&self) -> Option<&'static str> {
        None
    }
}

/// Objects that are computed when they are read, and never stored: the state of a component.
pub trait ComputedObjects: Send + Sync {
    /// The answer to a GET of the object of that name.
    ///
    /// # Errors
    /// Why there is none.
    fn get(&self, context: &WriteContext<'_>, name: &str) -> Result<Value, Refusal>;

    /// The objects that a list shows.
    ///
    /// # Errors
    /// Why there is no list.
    fn list(&self, context: &WriteContext<'_>) -> Result<Vec<Value>, Refusal>;
}

/// What a POST does to objects that are stored, rather than adding one: a binding, an eviction.
///
/// The verbs stand in the descriptor as for any resource. The answer to a POST that succeeds is a `Status`.
pub trait SubresourceAction: Send + Sync {
    /// Checks `request` as mutating admission left it, before validating admission sees it.
    ///
    /// # Errors
    /// Why it is not to be carried out.
    fn check(&self, _context: &WriteContext<'_>, _request: &Value) -> Result<(), Refusal> {
        Ok(())
    }

    /// The steps that carry out `request`, which is typed and has its defaults, on the objects as they are now. Where one of
    /// them changes before the first step is done, the plan is made again.
    ///
    /// # Errors
    /// Why it is not to be carried out.
    fn plan(&self, context: &WriteContext<'_>, request: &Value) -> Result<Vec<ActionStep>, Refusal>;

    /// Other versions than that of the descriptor in which requests may come; their fields are the same.
    fn other_versions(&self) -> &'static [&'static str] {
        &[]
    }
}

/// One step of a [`SubresourceAction`]. Objects are in the version that they are stored in.
#[derive(Clone, Debug)]
pub enum ActionStep {
    /// Has this object take the place of the stored one, untouched by what writes go through: no manager comes to own what
    /// changed.
    Replace {
        /// The resource.
        resource: GroupResource,
        /// The object, with the resource version of the one that it takes the place of.
        object: Value,
    },
    /// Writes the status of an object in the name of the server.
    Status {
        /// The resource.
        resource: GroupResource,
        /// The object, with the resource version of the one that it takes the place of.
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
        /// What the client reads where the object is another by now than the options require.
        conflict: Option<Refusal>,
    },
}

/// How far a request to a node or to a pod gets. There is nothing behind this server, so that none gets to
/// its end.
#[derive(Clone, Debug)]
pub enum Connection {
    /// It comes no further, for this reason.
    Refused(Refusal),
    /// There is nothing to read.
    Nothing,
}

/// A subresource through which requests reach a node or a pod: a proxy, a log, a command.
pub trait Connecter: Send + Sync {
    /// What requests may ask for in their query.
    fn parameters(&self) -> &'static [ConnectParameter];

    /// Whether requests are connected through: whatever their method they count as `CONNECT`, and admission sees them, with
    /// what they ask for as the object. Others are reads that are answered with text.
    fn connects(&self) -> bool {
        true
    }

    /// The verb that a request needs besides that of its method, so that who may only read does not act.
    fn also_needs(&self) -> Option<&'static str> {
        None
    }

    /// How far a request comes. `options` is what it asks for, as an object of the subresource's kind.
    fn connect(&self, context: &WriteContext<'_>, options: &Value) -> Connection;
}

/// What a request to a [`Connecter`] may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectParameter {
    /// The name, in the query and in the options.
    pub name: &'static str,
    /// What its values are.
    pub form: ParameterForm,
    /// What it means.
    pub description: &'static str,
}

/// What the values of a parameter are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParameterForm {
    /// Whether something holds; only what does stands in the options.
    Flag,
    /// A whole number.
    Number,
    /// Ports, which may stand behind one another, parted by commas.
    Ports,
    /// The path behind that of the subresource, whatever the query says.
    Path,
    /// A text.
    Text,
    /// Texts, one each time that it is given; `null` in the options where it never is.
    Texts,
    /// A time. OpenAPI has no word for such a parameter and leaves it out.
    Time,
}

impl ConnectParameter {
    /// A parameter.
    pub const fn new(name: &'static str, form: ParameterForm, description: &'static str) -> Self {
        Self {
            name,
            form,
            description,
        }
    }
}
