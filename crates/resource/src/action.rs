//! What a request does that neither reads nor writes the object that its path names: a POST that changes other objects, and
//! what leads on to a node.

use holdfast_value::Value;

use crate::{GroupResource, Refusal, WriteContext};

/// What a POST does to objects that are stored, rather than adding one: a binding, an eviction.
///
/// The verbs stand in the descriptor as for any resource. The answer to a POST that succeeds is a `Status`.
pub trait Action: Send + Sync {
    /// The steps that carry out `request`, which is typed and has its defaults, on the objects as they are now. Where one of
    /// them changes before the first step is done, the plan is made anew.
    ///
    /// # Errors
    /// Why it is not to be carried out.
    fn plan(&self, context: &WriteContext<'_>, request: &Value) -> Result<Vec<Step>, Refusal>;

    /// Other versions than that of the descriptor in which requests may come; their fields are the same.
    fn other_versions(&self) -> &'static [&'static str] {
        &[]
    }
}

/// One step of an [`Action`]. Objects are in the version that they are stored in.
#[derive(Clone, Debug)]
pub enum Step {
    /// Has this object take the place of the stored one, untouched by what writes go through: nobody comes to own what
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
        /// What the client is told where the object is another by now than the options require.
        conflict: Option<Refusal>,
    },
}

/// How far a request comes that leads on to a node or to a pod. There is nothing behind this server, so that none comes to
/// its end.
#[derive(Clone, Debug)]
pub enum Connection {
    /// It comes no further, for this reason.
    Refused(Refusal),
    /// There is nothing to read.
    Nothing,
}

/// A parameter behind the path of a request, by its name.
pub type Parameter<'a> = dyn Fn(&str) -> Option<String> + 'a;
