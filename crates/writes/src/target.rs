use std::sync::Arc;
use std::time::{Instant, SystemTime};

use holdfast_authorization::User;
use holdfast_resource::metadata::formats;
use holdfast_resource::schema::EmptyField;
use holdfast_resource::{AuditAnnotations, KindType, RawForm, Registry, Resource, ScaleFields, Subresource};
use holdfast_value::{SmolStr, Value};

use crate::{Error, ErrorKind, WriteOptions, metadata};

/// The field manager for the server's own writes.
const SERVER_MANAGER: &str = "kube-apiserver";

/// What a write is about: an address, what it takes, who writes there, and how.
pub struct Target {
    /// The resources at the time of the request.
    pub registry: Arc<Registry>,
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
    /// What the address takes.
    pub body: TargetBody,
    /// Who writes.
    pub writer: Writer,
    /// How it is written.
    pub request: WriteRequest,
}

/// What an address takes, and what is known of the body that was sent to it.
pub struct TargetBody {
    /// Its `apiVersion`.
    pub api_version: SmolStr,
    /// Its kind.
    pub kind: SmolStr,
    /// Its type, where it has one.
    pub kind_type: Option<Arc<dyn KindType>>,
    /// Where the fields of the Scale stand, for writes to one.
    pub scale: Option<ScaleFields>,
    /// What the write does not touch.
    pub reset_fields: Arc<[Vec<SmolStr>]>,
    /// What the body of a POST or PUT gives as empty and the object does not hold for that.
    pub empties: Vec<EmptyField>,
    /// Form of the raw extensions in the body of a POST or PUT. `None` if the body does not tell, as protobuf, which carries the
    /// bytes that a client has read.
    pub raw_form: Option<RawForm>,
}

/// Who writes.
#[derive(Clone, Debug)]
pub struct Writer {
    /// The user.
    pub user: Arc<User>,
    /// The name of the field manager.
    pub manager: SmolStr,
    /// Whether this is an internal client, or continues a write that was admitted before: no policy or webhook is called.
    pub internal: bool,
}

impl Writer {
    /// A user who writes as the server does.
    fn new(user: Arc<User>) -> Self {
        Self {
            user,
            manager: SmolStr::new_static(SERVER_MANAGER),
            internal: false,
        }
    }
}

/// How it is written.
#[derive(Clone)]
pub struct WriteRequest {
    /// The options of the write, as the client gave them.
    pub options: WriteOptions,
    /// Whether it is a PATCH.
    pub patches: bool,
    /// Whether nothing is to be stored.
    pub dry_run: bool,
    /// Whether the object is one of a collection that the request is about, rather than named by it.
    pub of_collection: bool,
    /// When it is written: the time of day for all that the write does.
    pub now: SystemTime,
    /// When the request times out.
    pub deadline: Option<Instant>,
    /// What the audit log says of the request, where it is audited.
    pub audit: Option<Arc<dyn AuditAnnotations>>,
}

impl WriteRequest {
    /// A write at `now` without options, deadline and audit.
    pub fn new(now: SystemTime) -> Self {
        Self {
            options: WriteOptions::default(),
            patches: false,
            dry_run: false,
            of_collection: false,
            now,
            deadline: None,
            audit: None,
        }
    }

    /// A write that belongs to this request and has no options of its own.
    pub fn inner(&self) -> Self {
        Self {
            options: WriteOptions::default(),
            of_collection: false,
            ..self.clone()
        }
    }
}

/// The fields of `reset_fields` that a write does not change. The others it may change without owning them.
fn untouched(reset_fields: &Arc<[Vec<SmolStr>]>, resource: &Resource, subresource: &str) -> Arc<[Vec<SmolStr>]> {
    let unowned = resource.capabilities.unowned_fields.iter();
    let mut unowned = unowned.filter(|(of, _)| *of == subresource).peekable();
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
    /// A write of `user` at `now` to `resource`, or to a subresource of it, in the version `api_version` in which it is served
    /// or stored. Namespace and name, the field manager and the options are left to be filled in.
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
            registry: Arc::clone(registry),
            resource: Arc::clone(resource),
            api_version: api_version.clone(),
            subresource: subresource.into(),
            namespace: SmolStr::default(),
            name: SmolStr::default(),
            body: TargetBody {
                kind_type: registry.types().of_body(resource, &body_version, body_kind),
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

    /// The same for the object of that namespace and name.
    #[must_use]
    pub fn at(mut self, namespace: &str, name: &str) -> Self {
        (self.namespace, self.name) = (SmolStr::new(namespace), SmolStr::new(name));
        self
    }

    /// The same for `object`, by its own metadata.
    #[must_use]
    pub fn at_object(self, object: &Value) -> Self {
        let namespace = object.str_at(&["metadata", "namespace"]).unwrap_or_default();
        self.at(namespace, metadata::name(object))
    }

    /// What the audit log says of the request, where it is audited.
    pub fn audit(&self) -> Option<&dyn AuditAnnotations> {
        self.request.audit.as_deref()
    }

    /// A stored object as it is stored, whatever versions are served.
    pub fn of_stored(
        registry: &Arc<Registry>,
        resource: &Arc<Resource>,
        (namespace, name): (&str, &str),
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

    /// What the server itself writes to a resource or a subresource of it, in the version that the resource is kept in. The
    /// namespace and the name are left to be filled in. `None` where there is no such subresource.
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

    /// Refuses to begin a run when the time is over.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfTime`].
    pub fn check_deadline(&self) -> Result<(), Error> {
        match self.request.deadline {
            Some(deadline) if Instant::now() >= deadline => Err(ErrorKind::OutOfTime.into()),
            _ => Ok(()),
        }
    }

    /// What a new object does not keep of what is sent: that which writes to the object itself do not touch, through
    /// whatever address it is created.
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

    /// Refuses what no object can be stored under: names that mean something in paths, and none at all.
    ///
    /// # Errors
    /// [`ErrorKind::BadRequest`].
    pub fn check_key(&self) -> Result<(), Error> {
        formats::check_key(self.resource.namespaced(), &self.namespace, &self.name).map_err(Error::bad_request)
    }

    /// The key of the object `name`; empty for what is not stored.
    pub fn key(&self, name: &str) -> String {
        let storage = self.resource.storage.as_ref();
        storage
            .map(|storage| storage.key(&self.namespace, name))
            .unwrap_or_default()
    }
}
