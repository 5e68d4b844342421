//! The trait of admission plugins:
//! <https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/>.

use std::pin::Pin;

use holdfast_resource::{GroupResource, Operation, Refusal, WriteContext};
use holdfast_value::Value;

use crate::timings::{OPERATIONS, Step};

/// Writes that concern an admission plugin.
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

    /// The creation and the update of objects of a resource.
    pub const fn in_written(group: &'static str, resource: &'static str) -> Self {
        Self::in_objects(group, resource, &[Operation::Create, Operation::Update])
    }

    /// Whether a write is among these.
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

/// The calls of a plugin that metrics count: the steps and the operations that the reference calls it for. There the plugin
/// looks itself for what concerns it; here it is called for its [interests](AdmissionPlugin::interests) alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Calls {
    steps: &'static [Step],
    operations: &'static [Operation],
}

impl Calls {
    /// All calls.
    pub const ALL: Self = Self::both(&OPERATIONS);

    /// Calls that may change the object.
    pub const fn admitting(operations: &'static [Operation]) -> Self {
        Self {
            steps: &[Step::Admit],
            operations,
        }
    }

    /// Calls that may refuse the write.
    pub const fn validating(operations: &'static [Operation]) -> Self {
        Self {
            steps: &[Step::Validate],
            operations,
        }
    }

    /// Calls of both steps.
    pub const fn both(operations: &'static [Operation]) -> Self {
        Self {
            steps: &Step::ALL,
            operations,
        }
    }

    /// Whether there are calls of this step for this operation.
    pub fn include(self, step: Step, operation: Operation) -> bool {
        self.steps.contains(&step) && self.operations.contains(&operation)
    }
}

/// Matches all groups, resources or subresources.
pub(crate) const ANY: &str = "*";

/// A status that the server stores in the same transaction as a write.
#[derive(Clone, Debug)]
pub struct Reservation {
    /// The resource of the object whose status changes.
    pub resource: GroupResource,
    /// The object with its new status; the rest of it is as the lookup showed it.
    pub object: Value,
}

/// What becomes of a write that others decide about.
pub type Consultation<'a> = Pin<Box<dyn Future<Output = Result<(), Refusal>> + Send + 'a>>;

/// An admission plugin: it may change a write, refuse it, or reserve quotas for it.
pub trait AdmissionPlugin: Send + Sync {
    /// The name by which flags turn it on and off, such as `NamespaceLifecycle`.
    fn name(&self) -> &'static str;

    /// The calls that metrics count.
    fn calls(&self) -> Calls {
        Calls::ALL
    }

    /// The feature gate without which the plugin is not there.
    fn gate(&self) -> Option<&'static str> {
        None
    }

    /// Whether the plugin is on where no flag says otherwise.
    fn on_by_default(&self) -> bool {
        true
    }

    /// The writes that concern the plugin.
    fn interests(&self) -> &[Interest] {
        &[Interest::EVERYTHING]
    }

    /// Whether a write concerns the plugin.
    fn concerns(&self, context: &WriteContext<'_>) -> bool {
        self.interests().iter().any(|interest| interest.covers(context))
    }

    /// Whether the namespace of a new object is made before the write where it is not there. The server makes it, as a write of
    /// its own.
    fn provides_namespaces(&self) -> bool {
        false
    }

    /// Changes the object, or refuses the write. `object` is `None` for deletions, `old` for creations.
    fn mutate(
        &self,
        context: &WriteContext<'_>,
        object: Option<&mut Value>,
        old: Option<&Value>,
    ) -> Result<(), Refusal> {
        let _ = (context, object, old);
        Ok(())
    }

    /// Refuses the write, after all changes are made. `object` is `None` for deletions, `old` for creations.
    fn validate(&self, context: &WriteContext<'_>, object: Option<&Value>, old: Option<&Value>) -> Result<(), Refusal> {
        let _ = (context, object, old);
        Ok(())
    }

    /// Whether the plugin reserves what is limited, which is then all that it does.
    fn reserves(&self) -> bool {
        false
    }

    /// Whether the plugin consults others; see [`AdmissionPlugin::consult`].
    fn asks_others(&self) -> bool {
        false
    }

    /// Consults others about the write, once the plugins that decide alone let it pass. `object` is `None` for deletions.
    fn consult<'a>(&'a self, context: &'a WriteContext<'a>, object: Option<&'a Value>) -> Consultation<'a> {
        let _ = (context, object);
        Box::pin(std::future::ready(Ok(())))
    }

    /// The quota reservations of a write that all plugins allow. `object` is as it will be stored; `old` reads the stored object,
    /// for updates. Called again where another write changes the same quotas first.
    ///
    /// # Errors
    /// Where a quota has too little left.
    fn reserve(
        &self,
        context: &WriteContext<'_>,
        object: &Value,
        old: Option<&dyn Fn() -> Value>,
    ) -> Result<Vec<Reservation>, Refusal> {
        let _ = (context, object, old);
        Ok(Vec::new())
    }
}
