//! Objects that a request names: their resource, their place, and the rights of the requester.

use std::sync::Arc;
use std::time::SystemTime;

use holdfast_authorization::{AccessTarget, Attributes, ResourceTarget, User, Verdict};
use holdfast_resource::{Registry, Served, Verb};
use holdfast_schema::GroupKind;
use holdfast_value::Value;
use holdfast_writes::{Target, WriteOptions, WriteRequest, manager_name, metadata};
use serde::Serialize;
use smol_str::SmolStr;
use tokio::time::Instant;

use crate::api::context::Context;
use crate::api::router::Incoming;
use crate::http::ApiError;

/// Namespace of objects that name none if the request names none either.
const DEFAULT_NAMESPACE: &str = "default";

/// Identity of an object, as its manifest states it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Subject {
    #[serde(skip_serializing_if = "SmolStr::is_empty")]
    pub(super) api_version: SmolStr,
    #[serde(skip_serializing_if = "SmolStr::is_empty")]
    pub(super) kind: SmolStr,
    #[serde(skip_serializing_if = "SmolStr::is_empty")]
    pub(super) namespace: SmolStr,
    #[serde(skip_serializing_if = "SmolStr::is_empty")]
    pub(super) name: SmolStr,
}

impl Subject {
    /// Returns the identity that a manifest states.
    pub(super) fn of_manifest(manifest: &Value) -> Self {
        let text = |path: &[&str]| SmolStr::new(manifest.str_at(path).unwrap_or_default());
        Self {
            api_version: text(&["apiVersion"]),
            kind: text(&["kind"]),
            namespace: text(&["metadata", "namespace"]),
            name: SmolStr::new(metadata::name(manifest)),
        }
    }
}

/// Requester of operations on several objects.
pub(super) struct Requester {
    pub(super) context: Arc<Context>,
    user: Arc<User>,
    user_agent: String,
    /// Namespace of objects that name none.
    namespace: SmolStr,
    now: SystemTime,
    deadline: Option<Instant>,
    is_internal: bool,
}

impl Requester {
    /// Returns the requester of `incoming`; objects that name no namespace are in `namespace`.
    pub(super) fn new(context: &Arc<Context>, incoming: &Incoming, namespace: &str) -> Self {
        let agent = crate::http::headers::text(&incoming.headers, http::header::USER_AGENT);
        Self {
            context: Arc::clone(context),
            user: Arc::clone(&incoming.user),
            user_agent: agent.unwrap_or_default().into_owned(),
            namespace: match namespace {
                "" => SmolStr::new_static(DEFAULT_NAMESPACE),
                namespace => namespace.into(),
            },
            now: incoming.now,
            deadline: incoming.deadline,
            is_internal: incoming.unadmitted,
        }
    }

    /// Returns the same requester for work that begins now, without a deadline.
    pub(super) fn later(&mut self) {
        self.now = self.context.shared.clock.now();
        self.deadline = None;
    }

    /// Returns the target of a write to the object, and completes the namespace of `subject`.
    ///
    /// # Errors
    /// 400 if the server does not serve the kind in this version, or if its objects are not stored.
    pub(super) async fn target(&self, subject: &mut Subject, options: WriteOptions) -> Result<Target, ApiError> {
        let mut registry = self.context.registry();
        let mut found = self.find(&registry, subject, &options);
        if found.is_none() && self.context.crds.caught_up().await {
            registry = self.context.registry();
            found = self.find(&registry, subject, &options);
        }
        let target = found.ok_or_else(|| unknown_kind(subject))?;
        subject.namespace = target.namespace.clone();
        Ok(target)
    }

    fn find(&self, registry: &Arc<Registry>, subject: &Subject, options: &WriteOptions) -> Option<Target> {
        let (group, version) = subject
            .api_version
            .split_once('/')
            .unwrap_or(("", &subject.api_version));
        let kind = GroupKind {
            group: group.into(),
            kind: subject.kind.clone(),
        };
        let served = registry.served(group, version, &registry.kind(&kind)?.plural)?;
        let resource = &served.resource;
        let is_stored = resource.storage.is_some() && served.version().verbs.contains(&Verb::Patch);
        if !is_stored || served.version().kind_type.kind() != subject.kind {
            return None;
        }
        let namespace = match (resource.namespaced(), subject.namespace.is_empty()) {
            (true, true) => self.namespace.clone(),
            (true, false) => subject.namespace.clone(),
            (false, _) => SmolStr::default(),
        };
        let mut target = self.target_at(registry, served, &namespace, &subject.name);
        target.writer.manager = manager_name(&options.field_manager, &self.user_agent);
        target.request = WriteRequest {
            dry_run: options.dry_run,
            options: options.clone(),
            deadline: self.deadline,
            ..WriteRequest::new(self.now)
        };
        Some(target)
    }

    /// Returns the object of this name as the target of a request.
    pub(super) fn target_at(&self, registry: &Arc<Registry>, served: &Served, namespace: &str, name: &str) -> Target {
        let api_version = &served.version().api_version;
        let mut target =
            Target::new(registry, &served.resource, api_version, "", &self.user, self.now).at(namespace, name);
        target.writer.internal = self.is_internal;
        target
    }

    /// Checks that the user may do this to the object.
    ///
    /// # Errors
    /// 403 if not.
    pub(super) async fn authorize(&self, verb: Verb, target: &Target) -> Result<(), ApiError> {
        let version = target.api_version.rsplit('/').next().unwrap_or_default();
        let attributes = Attributes {
            verb: verb.name(),
            target: AccessTarget::Resource(ResourceTarget {
                group: &target.resource.group,
                version,
                resource: &target.resource.plural,
                namespace: &target.namespace,
                name: match verb {
                    Verb::Create => "",
                    _ => &target.name,
                },
                ..ResourceTarget::default()
            }),
        };
        let answer = match self.context.shared.authorizer.start(&self.user, &attributes) {
            Verdict::Decided(answer) => answer,
            Verdict::Ask(pending) => pending.await,
        };
        match answer.allows() {
            true => Ok(()),
            false => Err(ApiError::unauthorized_for(
                &self.user.name,
                &attributes,
                answer.reason(),
            )),
        }
    }
}

fn unknown_kind(subject: &Subject) -> ApiError {
    ApiError::bad_request(format!(
        "no resource matches kind \"{}\" in version \"{}\"",
        subject.kind, subject.api_version
    ))
}
