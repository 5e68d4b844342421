//! What all writes pass through, whatever the kind:
//! <https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/>.

use holdfast_resource::{GroupResource, Operation, Refusal, Resource, WriteContext};
use holdfast_value::Value;

/// Writes that an admission plugin has to do with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interest {
    /// The API group; `*` for all.
    pub group: &'static str,
    /// The plural name of the resource; `*` for all.
    pub resource: &'static str,
    /// The subresources, the empty one being the object itself; `*` for all.
    pub subresources: &'static [&'static str],
    /// What is done.
    pub operations: &'static [Operation],
}

impl Interest {
    /// All writes.
    pub const EVERYTHING: Self = Self {
        group: ANY,
        resource: ANY,
        subresources: &[ANY],
        operations: &[Operation::Create, Operation::Update, Operation::Delete],
    };

    /// Writes to objects of a resource themselves.
    pub const fn in_objects(group: &'static str, resource: &'static str, operations: &'static [Operation]) -> Self {
        Self {
            group,
            resource,
            subresources: &[""],
            operations,
        }
    }

    /// Writes to objects of all resources themselves.
    pub const fn in_all_objects(operations: &'static [Operation]) -> Self {
        Self::in_objects(ANY, ANY, operations)
    }

    /// The creation of objects of a resource.
    pub const fn in_new(group: &'static str, resource: &'static str) -> Self {
        Self::in_objects(group, resource, &[Operation::Create])
    }

    /// Whether this is such a write.
    pub fn covers(&self, context: &WriteContext<'_>, resource: &Resource) -> bool {
        let subresource = context.subresource.unwrap_or_default();
        self.operations.contains(&context.operation)
            && (self.resource == ANY || resource.plural == self.resource)
            && (self.group == ANY || resource.group == self.group)
            && self
                .subresources
                .iter()
                .any(|wanted| *wanted == ANY || *wanted == subresource)
    }
}

/// What stands for all groups, resources or subresources.
pub(crate) const ANY: &str = "*";

/// A status that is stored together with a write, in the server's own name: both are stored or neither is.
#[derive(Clone, Debug)]
pub struct Charge {
    /// The resource of the object whose status changes.
    pub resource: GroupResource,
    /// The object with its new status; the rest of it is as the lookup showed it.
    pub object: Value,
}

/// A check or change that all writes pass through, whatever the kind; what kube-apiserver calls an admission plugin.
pub trait AdmissionPlugin: Send + Sync {
    /// The name by which flags turn it on and off, such as `NamespaceLifecycle`.
    fn name(&self) -> &'static str;

    /// Whether the plugin is on where no flag says otherwise.
    fn on_by_default(&self) -> bool {
        true
    }

    /// The writes that concern the plugin.
    fn interests(&self) -> &[Interest] {
        &[Interest::EVERYTHING]
    }

    /// Whether a write concerns the plugin.
    fn concerns(&self, context: &WriteContext<'_>, resource: &Resource) -> bool {
        self.interests()
            .iter()
            .any(|interest| interest.covers(context, resource))
    }

    /// Changes the object, or refuses the write. `object` is `None` for deletions, `old` for creations.
    fn mutate(
        &self,
        context: &WriteContext<'_>,
        resource: &Resource,
        object: Option<&mut Value>,
        old: Option<&Value>,
    ) -> Result<(), Refusal> {
        let _ = (context, resource, object, old);
        Ok(())
    }

    /// Refuses the write, after all changes are made. `object` is `None` for deletions, `old` for creations.
    fn validate(
        &self,
        context: &WriteContext<'_>,
        resource: &Resource,
        object: Option<&Value>,
        old: Option<&Value>,
    ) -> Result<(), Refusal> {
        let _ = (context, resource, object, old);
        Ok(())
    }

    /// What the write takes from what is limited, after all else agreed to it. `object` is as it will be stored; `old` reads
    /// the object in place, for updates. Asked again where another write takes from the same objects and is faster.
    ///
    /// # Errors
    /// Where too little is left.
    fn charge(
        &self,
        context: &WriteContext<'_>,
        resource: &Resource,
        object: &Value,
        old: Option<&dyn Fn() -> Value>,
    ) -> Result<Vec<Charge>, Refusal> {
        let _ = (context, resource, object, old);
        Ok(Vec::new())
    }
}
