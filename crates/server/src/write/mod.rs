//! The way of a write, one for all kinds.
//!
//! Next object → reset what this write does not touch → types and defaults → ownership → storage version → mutating
//! admission → preparation → validation → validating admission → encode once → commit with a guard. Everything up to the
//! commit is one run over one snapshot (`pipeline.rs`), which waits for webhooks alone, where there are any. Writers of one
//! object wait for each other (`turns.rs`); when another writer was faster nevertheless, the run starts over from the object
//! as it is then. What the write takes from quotas is reckoned last and stored together with it (`charges.rs`).

mod act;
mod admission;
mod change;
mod charges;
mod commit;
mod connect;
mod context;
pub(crate) mod decode;
pub(crate) mod deletion;
mod identity;
pub(crate) mod metadata;
mod outcome;
mod pipeline;
mod policies;
pub(crate) mod scale;
pub(crate) mod tracking;
mod turns;
mod webhook_answers;
mod webhook_versions;
mod webhooks;

use std::sync::Arc;
use std::time::{Instant, SystemTime};

use holdfast_authorization::User;
use holdfast_resource::{Registry, Resource, ScaleFields, Subresource};
use smol_str::SmolStr;

pub(crate) use act::act;
pub(crate) use change::Change;
pub(crate) use commit::{Shape, Written, answer, ask, create, delete, update};
pub(crate) use connect::connect;
pub use context::Context;
pub(crate) use pipeline::{check_namespace, check_place};
pub use tracking::FieldManagers;
pub use turns::Turns;

use crate::http::ApiError;
use crate::http::options::WriteOptions;
use crate::http::request::ResourceRequest;
use crate::objects;
use crate::representation::Shown;

/// The field manager by the name of which the server itself writes.
const SERVER_MANAGER: &str = "kube-apiserver";

/// What a write is about.
pub(crate) struct Target {
    /// The resources at the time of the request.
    pub(crate) registry: Arc<Registry>,
    /// The resource in the version of the request.
    pub(crate) shown: Shown,
    /// The subresource; empty for the object itself.
    pub(crate) subresource: SmolStr,
    /// Where the fields of the Scale stand, for writes to one.
    pub(crate) scale: Option<ScaleFields>,
    /// The `apiVersion` of what the address takes.
    pub(crate) body_version: SmolStr,
    /// The kind of what the address takes.
    pub(crate) body_kind: SmolStr,
    /// What the write does not touch.
    pub(crate) reset_fields: Arc<[Vec<SmolStr>]>,
    /// The namespace; empty for cluster-scoped resources.
    pub(crate) namespace: SmolStr,
    /// The name; empty for a POST.
    pub(crate) name: SmolStr,
    /// The user who writes.
    pub(crate) user: Arc<User>,
    /// The name of the field manager.
    pub(crate) manager: SmolStr,
    /// The options of the write, as the client gave them.
    pub(crate) options: WriteOptions,
    /// Whether nothing is to be stored.
    pub(crate) dry_run: bool,
    /// Whether the server writes by itself, or goes on with a write that others had their say in: nobody else is asked.
    pub(crate) by_server: bool,
    /// Whether the object is one of a collection that the request is about, rather than named by it.
    pub(crate) of_collection: bool,
    /// When it is written: the time of day for all that the write does.
    pub(crate) now: SystemTime,
    /// When the client is told that it took too long.
    pub(crate) deadline: Option<Instant>,
}

/// The fields of `reset_fields` that a write does not touch; of the others it merely makes nobody the owner.
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
    /// Refuses to begin a run when the time is over.
    ///
    /// # Errors
    /// 504.
    pub(crate) fn check_deadline(&self) -> Result<(), ApiError> {
        match self.deadline {
            Some(deadline) if Instant::now() >= deadline => Err(ApiError::out_of_time()),
            _ => Ok(()),
        }
    }

    /// What a new object does not keep of what is sent: that which writes to the object itself do not touch, through
    /// whatever address it is created.
    pub(crate) fn reset_at_creation(&self) -> Arc<[Vec<SmolStr>]> {
        let main = match self.subresource.as_str() {
            "" => None,
            _ => {
                let mut versions = self.shown.resource.versions.iter();
                versions.find(|version| version.api_version == self.shown.api_version)
            }
        };
        Arc::clone(main.map_or(&self.reset_fields, |version| &version.reset_fields))
    }

    /// Refuses what no object can be stored under.
    ///
    /// # Errors
    /// 400.
    pub(crate) fn check_key(&self) -> Result<(), ApiError> {
        objects::check_key(&self.shown.resource, &self.namespace, &self.name)
    }

    /// A stored object as it is stored, whatever versions are served.
    pub(crate) fn of_stored(
        context: &Context,
        resource: &Arc<Resource>,
        namespace: &str,
        name: &str,
        user: &Arc<User>,
    ) -> Self {
        let storage = resource.storage.as_ref();
        let api_version = storage.map(|storage| storage.api_version.clone()).unwrap_or_default();
        Self {
            registry: context.registry(),
            shown: Shown::as_stored(resource, &api_version),
            subresource: SmolStr::default(),
            scale: None,
            body_version: api_version,
            body_kind: resource.kind.clone(),
            reset_fields: Arc::default(),
            namespace: SmolStr::new(namespace),
            name: SmolStr::new(name),
            user: Arc::clone(user),
            manager: user.name.clone(),
            options: WriteOptions::default(),
            dry_run: false,
            by_server: false,
            of_collection: false,
            now: context.clock.now(),
            deadline: None,
        }
    }

    /// What `request` writes to.
    pub(crate) fn of_request(request: &ResourceRequest, options: WriteOptions) -> Self {
        let (version, subresource) = (request.version(), request.subresource());
        let (body_version, body_kind, reset_fields) = match subresource {
            Some(Subresource { kind, reset_fields, .. }) => {
                (kind.group_version.api_version(), &kind.kind, reset_fields)
            }
            None => (
                version.api_version.clone(),
                &request.served.resource.kind,
                &version.reset_fields,
            ),
        };
        Self {
            registry: Arc::clone(&request.registry),
            shown: Shown::of_request(request),
            scale: subresource.and_then(|subresource| subresource.scale.clone()),
            body_version,
            body_kind: body_kind.clone(),
            subresource: request.subresource.clone(),
            reset_fields: untouched(reset_fields, &request.served.resource, &request.subresource),
            namespace: request.namespace.clone(),
            name: request.name.clone(),
            user: Arc::clone(&request.user),
            manager: tracking::manager_name(&options.field_manager, &request.user_agent()),
            dry_run: options.dry_run,
            options,
            by_server: false,
            of_collection: false,
            now: request.now,
            deadline: request.deadline,
        }
    }

    /// What the server itself writes to a resource or a subresource of it, in the version that the resource is kept in. The
    /// namespace and the name are left to be filled in. `None` where there is no such subresource.
    pub(crate) fn of_server(
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
        Some(Self {
            registry: Arc::clone(registry),
            shown: Shown::new(resource, version),
            scale: None,
            body_version: version.api_version.clone(),
            body_kind: resource.kind.clone(),
            subresource: subresource.into(),
            reset_fields: Arc::clone(reset_fields),
            namespace: SmolStr::default(),
            name: SmolStr::default(),
            user: Arc::new(User::server()),
            manager: SmolStr::new_static(SERVER_MANAGER),
            options: WriteOptions::default(),
            dry_run: false,
            by_server: true,
            of_collection: false,
            now,
            deadline: None,
        })
    }
}
