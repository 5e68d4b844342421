use std::sync::Arc;
use std::time::SystemTime;

use holdfast_authorization::User;
use holdfast_resource::{AuditAnnotations, RawForm, Registry, Resource, Subresource};
use holdfast_schema::metadata::formats;
use holdfast_schema::types::EmptyField;
use holdfast_schema::{KindType, Provenance, ScaleFields};
use holdfast_value::{SmolStr, Value};
use tokio::time::Instant;

use crate::error::{Error, ErrorKind};
use crate::metadata;
use crate::options::WriteOptions;
use crate::reads::RunInput;

/// Field manager of the server's own writes.
const SERVER_MANAGER: &str = "kube-apiserver";

/// A write request: target resource, requester, options and expected body type.
pub struct Target {
    /// The resources at the time of the request.
    pub registry: RunInput<Arc<Registry>>,
    /// The resource.
    pub resource: Arc<Resource>,
    /// The `apiVersion` of the request.
    pub api_version: SmolStr,
    /// The subresource; empty for the object itself.
    pub subresource: SmolStr,
    /// The namespace; empty for cluster-scoped resources.
    pub namespace: SmolStr,
    /// The name; empty for a POST.
    pub name: SmolStr,
    /// Expected body.
    pub body: TargetBody,
    /// Requester.
    pub writer: Writer,
    /// Properties of the request.
    pub request: WriteRequest,
}

/// Expected body type, and known properties of the body that was sent.
pub struct TargetBody {
    /// Its `apiVersion`.
    pub api_version: SmolStr,
    /// Its kind.
    pub kind: SmolStr,
    /// Its type, if it has one.
    pub kind_type: Option<Arc<dyn KindType>>,
    /// Paths of the fields of the Scale, for writes to one.
    pub scale: Option<ScaleFields>,
    /// Fields that the write does not change.
    pub reset_fields: Arc<[Vec<SmolStr>]>,
    /// Fields that the body of a POST or PUT sets to an empty value and that are therefore absent from the object.
    pub empties: Vec<EmptyField>,
    /// Form of the raw extensions in the body of a POST or PUT. `None` if the body does not determine it, as in
    /// protobuf, which carries the bytes that a client has read.
    pub raw_form: Option<RawForm>,
}

impl TargetBody {
    /// Returns the provenance of the object in the body of a POST or PUT, once it is decoded.
    pub fn provenance(&self) -> Provenance<'_> {
        Provenance::from_body().with_empties(&self.empties)
    }
}

/// Requester of a write.
#[derive(Clone, Debug)]
pub struct Writer {
    /// The user.
    pub user: Arc<User>,
    /// The name of the field manager.
    pub manager: SmolStr,
    /// True if this is an internal client, or continues a write that was admitted before: no policy or webhook is
    /// called.
    pub internal: bool,
}

impl Writer {
    /// Creates a writer for a user that writes on behalf of the server.
    fn new(user: Arc<User>) -> Self {
        Self {
            user,
            manager: SmolStr::new_static(SERVER_MANAGER),
            internal: false,
        }
    }
}

/// Properties of a write request.
#[derive(Clone)]
pub struct WriteRequest {
    /// The options of the write, as the client gave them.
    pub options: WriteOptions,
    /// True if it is a PATCH.
    pub patches: bool,
    /// True if nothing is stored.
    pub dry_run: bool,
    /// True if the request is for a collection that contains the object, rather than for the object by name.
    pub of_collection: bool,
    /// Time of the write, which all of its steps use.
    pub now: RunInput<SystemTime>,
    /// Time at which the request times out.
    pub deadline: Option<Instant>,
    /// Audit annotations of the request, if it is audited.
    pub audit: Option<Arc<dyn AuditAnnotations>>,
}

impl WriteRequest {
    /// Creates a write at `now` without options, deadline and audit.
    pub fn new(now: SystemTime) -> Self {
        Self {
            options: WriteOptions::default(),
            patches: false,
            dry_run: false,
            of_collection: false,
            now: RunInput::new(now),
            deadline: None,
            audit: None,
        }
    }

    /// Creates a write that belongs to this request and has no options of its own.
    pub fn inner(&self) -> Self {
        Self {
            options: WriteOptions::default(),
            of_collection: false,
            ..self.clone()
        }
    }
}

/// Returns the fields of `reset_fields` that a write does not change. It may change the others without owning them.
fn untouched(reset_fields: &Arc<[Vec<SmolStr>]>, resource: &Resource, subresource: &str) -> Arc<[Vec<SmolStr>]> {
    let mut unowned = resource
        .capabilities
        .unowned_fields
        .iter()
        .filter(|(of, _)| *of == subresource)
        .peekable();
    if unowned.peek().is_none() {
        return Arc::clone(reset_fields);
    }
    let touched = |path: &[SmolStr]| {
        let mut unowned = unowned.clone();
        unowned.any(|(_, field)| field.split('.').eq(path.iter().map(SmolStr::as_str)))
    };
    let left = reset_fields.iter().filter(|path| !touched(path)).cloned();
    left.collect::<Vec<_>>().into()
}

impl Target {
    /// Creates a write of `user` at `now` to `resource`, or to a subresource of it, in the served or storage version
    /// `api_version`. The caller fills in the namespace, the name, the field manager and the options.
    pub fn new(
        registry: &Arc<Registry>,
        resource: &Arc<Resource>,
        api_version: &SmolStr,
        subresource: &str,
        user: &Arc<User>,
        now: SystemTime,
    ) -> Self {
        let mut versions = resource.versions.iter();
        let version = versions.find(|version| version.api_version == *api_version);
        let part = version.and_then(|version| version.subresource(subresource));
        let (body_version, body_kind, reset_fields) = match part {
            Some(Subresource { kind, reset_fields, .. }) => {
                (kind.group_version.api_version(), &kind.kind, Some(reset_fields))
            }
            None => (
                api_version.clone(),
                &resource.kind,
                version.map(|version| &version.reset_fields),
            ),
        };
        Self {
            registry: RunInput::new(Arc::clone(registry)),
            resource: Arc::clone(resource),
            api_version: api_version.clone(),
            subresource: subresource.into(),
            namespace: SmolStr::default(),
            name: SmolStr::default(),
            body: TargetBody {
                kind_type: resource.body_type(registry.types(), &body_version, body_kind),
                api_version: body_version,
                kind: body_kind.clone(),
                scale: part.and_then(|part| part.scale.clone()),
                reset_fields: reset_fields
                    .map_or_else(Default::default, |fields| untouched(fields, resource, subresource)),
                empties: Vec::new(),
                raw_form: None,
            },
            writer: Writer::new(Arc::clone(user)),
            request: WriteRequest::new(now),
        }
    }

    /// Returns the same target for the object of that namespace and name.
    #[must_use]
    pub fn at(mut self, namespace: &str, name: &str) -> Self {
        (self.namespace, self.name) = (SmolStr::new(namespace), SmolStr::new(name));
        self
    }

    /// Returns the same target for `object`, from its metadata.
    #[must_use]
    pub fn at_object(self, object: &Value) -> Self {
        let namespace = object.str_at(&["metadata", "namespace"]).unwrap_or_default();
        self.at(namespace, metadata::name(object))
    }

    /// Returns the audit annotations of the request, if it is audited.
    pub fn audit(&self) -> Option<&dyn AuditAnnotations> {
        self.request.audit.as_deref()
    }

    /// Creates a target for a stored object in its storage version, even if that is not served.
    pub fn for_stored(
        registry: &Arc<Registry>,
        resource: &Arc<Resource>,
        namespace: &str,
        name: &str,
        user: &Arc<User>,
        now: SystemTime,
    ) -> Self {
        let storage = resource.storage.as_ref();
        let api_version = storage.map(|storage| storage.api_version.clone()).unwrap_or_default();
        let mut target = Self::new(registry, resource, &api_version, "", user, now).at(namespace, name);
        target.body.reset_fields = Arc::default();
        target.writer.manager = user.name.clone();
        target
    }

    /// Returns the target of writes by the server itself to a resource or a subresource, in the storage version. The
    /// caller fills in the namespace and the name. Returns `None` if the subresource does not exist.
    pub fn of_server(
        registry: &Arc<Registry>,
        resource: &Arc<Resource>,
        subresource: &str,
        now: SystemTime,
    ) -> Option<Self> {
        let stored = resource.storage.as_ref().map(|storage| &storage.api_version);
        let version = resource
            .versions
            .iter()
            .find(|version| Some(&version.api_version) == stored)
            .or(resource.versions.first())?;
        let reset_fields = match subresource {
            "" => &version.reset_fields,
            name => &version.subresource(name)?.reset_fields,
        };
        let user = Arc::new(User::server());
        let mut target = Self::new(registry, resource, &version.api_version, subresource, &user, now);
        target.body.reset_fields = Arc::clone(reset_fields);
        target.writer.internal = true;
        Some(target)
    }

    /// Returns an error if the deadline has passed before a run begins.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfTime`] if the deadline has passed.
    pub fn check_deadline(&self) -> Result<(), Error> {
        match self.request.deadline {
            Some(deadline) if Instant::now() >= deadline => Err(ErrorKind::OutOfTime.into()),
            _ => Ok(()),
        }
    }

    /// Returns the fields that are removed from a new object: those that writes to the object itself do not change,
    /// through whichever path it is created.
    pub fn reset_at_creation(&self) -> Arc<[Vec<SmolStr>]> {
        let main = match self.subresource.as_str() {
            "" => None,
            _ => {
                let mut versions = self.resource.versions.iter();
                versions.find(|version| version.api_version == self.api_version)
            }
        };
        Arc::clone(main.map_or(&self.body.reset_fields, |version| &version.reset_fields))
    }

    /// Rejects names under which no object can be stored: empty ones, and those with a meaning in paths.
    ///
    /// upstream: k8s.io/apiserver/pkg/registry/generic/registry#NamespaceKeyFunc
    ///
    /// # Errors
    /// [`ErrorKind::BadRequest`] if the name is one of these.
    pub fn check_key(&self) -> Result<(), Error> {
        formats::check_key(self.resource.namespaced(), &self.namespace, &self.name).map_err(Error::bad_request)
    }

    /// Returns the key of the object `name`; empty if the resource is not stored.
    pub fn key(&self, name: &str) -> String {
        let storage = self.resource.storage.as_ref();
        storage
            .map(|storage| storage.key(&self.namespace, name))
            .unwrap_or_default()
    }
}
