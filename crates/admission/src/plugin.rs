//! The trait of admission plugins:
//! <https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/>.

use std::pin::Pin;

use holdfast_resource::{Operation, Rejection, WriteContext};
use holdfast_schema::GroupResource;
use holdfast_value::Value;

use crate::timings::{OPERATIONS, Step};

/// Writes that concern an admission plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interest {
    /// API group; `*` for all.
    pub group: &'static str,
    /// Plural name of the resource; `*` for all.
    pub resource: &'static str,
    /// Subresources, the empty one being the object itself; `*` for all.
    pub subresources: &'static [&'static str],
    /// Operations.
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

    /// Creates an interest in writes to objects of a resource themselves.
    pub const fn in_objects(group: &'static str, resource: &'static str, operations: &'static [Operation]) -> Self {
        Self {
            group,
            resource,
            subresources: &[""],
            operations,
        }
    }

    /// Creates an interest in writes to objects of all resources themselves.
    pub const fn in_all_objects(operations: &'static [Operation]) -> Self {
        Self::in_objects(ANY, ANY, operations)
    }

    /// Creates an interest in the creation of objects of a resource.
    pub const fn in_new(group: &'static str, resource: &'static str) -> Self {
        Self::in_objects(group, resource, &[Operation::Create])
    }

    /// Creates an interest in the creation and the update of objects of a resource.
    pub const fn in_written(group: &'static str, resource: &'static str) -> Self {
        Self::in_objects(group, resource, &[Operation::Create, Operation::Update])
    }

    /// Returns true if a write is among these.
    pub fn covers(&self, context: &WriteContext<'_>) -> bool {
        let resource = context.resource;
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

/// Calls of a plugin that metrics count: the steps and the operations for which the reference calls it. In the
/// reference the plugin itself checks which of these writes concern it; here it is called only for its
/// [interests](AdmissionPlugin::interests).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Calls {
    steps: &'static [Step],
    operations: &'static [Operation],
}

impl Calls {
    /// All calls.
    pub const ALL: Self = Self::both(&OPERATIONS);

    /// Creates the set of calls that may change the object.
    pub const fn admitting(operations: &'static [Operation]) -> Self {
        Self {
            steps: &[Step::Admit],
            operations,
        }
    }

    /// Creates the set of calls that may reject the write.
    pub const fn validating(operations: &'static [Operation]) -> Self {
        Self {
            steps: &[Step::Validate],
            operations,
        }
    }

    /// Creates the set of calls of both steps.
    pub const fn both(operations: &'static [Operation]) -> Self {
        Self {
            steps: &Step::ALL,
            operations,
        }
    }

    /// Returns true if there are calls of this step for this operation.
    pub fn include(self, step: Step, operation: Operation) -> bool {
        self.steps.contains(&step) && self.operations.contains(&operation)
    }
}

/// Wildcard for all groups, resources or subresources.
pub(crate) const ANY: &str = "*";

/// A status that the server stores in the same transaction as a write.
#[derive(Clone, Debug)]
pub struct Reservation {
    /// Resource of the object whose status changes.
    pub resource: GroupResource,
    /// Object with its new status; the rest is the object that the lookup returned.
    pub object: Value,
}

/// Pending decision of others on a write.
pub type Consultation<'a> = Pin<Box<dyn Future<Output = Result<(), Rejection>> + Send + 'a>>;

/// An admission plugin: it may change a write, reject it, or reserve quotas for it.
pub trait AdmissionPlugin: Send + Sync {
    /// Returns the name by which flags enable and disable it, such as `NamespaceLifecycle`.
    fn name(&self) -> &'static str;

    /// Returns the calls that metrics count.
    fn calls(&self) -> Calls {
        Calls::ALL
    }

    /// Returns the feature gate that enables the plugin.
    fn gate(&self) -> Option<&'static str> {
        None
    }

    /// Returns true if the plugin is enabled without a flag.
    fn on_by_default(&self) -> bool {
        true
    }

    /// Returns the writes that concern the plugin.
    fn interests(&self) -> &[Interest] {
        &[Interest::EVERYTHING]
    }

    /// Returns true if a write concerns the plugin.
    fn concerns(&self, context: &WriteContext<'_>) -> bool {
        self.interests().iter().any(|interest| interest.covers(context))
    }

    /// Returns true if a missing namespace of a new object is created before the write. The server creates it in a
    /// separate write.
    fn provides_namespaces(&self) -> bool {
        false
    }

    /// Changes the object, or rejects the write. `object` is `None` for deletions, `old` for creations.
    fn mutate(
        &self,
        context: &WriteContext<'_>,
        object: Option<&mut Value>,
        old: Option<&Value>,
    ) -> Result<(), Rejection> {
        let _ = (context, object, old);
        Ok(())
    }

    /// Validates the write after all changes are made. `object` is `None` for deletions, `old` for creations.
    fn validate(
        &self,
        context: &WriteContext<'_>,
        object: Option<&Value>,
        old: Option<&Value>,
    ) -> Result<(), Rejection> {
        let _ = (context, object, old);
        Ok(())
    }

    /// Returns true if the plugin reserves limited resources; then it does nothing else.
    fn reserves(&self) -> bool {
        false
    }

    /// Returns true if the plugin consults others; see [`AdmissionPlugin::consult`].
    fn asks_others(&self) -> bool {
        false
    }

    /// Consults others about the write, after the plugins that decide locally have allowed it. `object` is `None` for
    /// deletions.
    fn consult<'a>(&'a self, context: &'a WriteContext<'a>, object: Option<&'a Value>) -> Consultation<'a> {
        let _ = (context, object);
        Box::pin(std::future::ready(Ok(())))
    }

    /// Returns the quota reservations of a write that all plugins allow. `object` is the object to be stored; `old`
    /// reads the stored object, for updates. Called again if another write changes the same quotas first.
    ///
    /// # Errors
    /// If the remainder of a quota is too small.
    fn reserve(
        &self,
        context: &WriteContext<'_>,
        object: &Value,
        old: Option<&dyn Fn() -> Value>,
    ) -> Result<Vec<Reservation>, Rejection> {
        let _ = (context, object, old);
        Ok(Vec::new())
    }
}
