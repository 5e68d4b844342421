//! Lists and watches that return the objects that their user may read, instead of a denial
//! (<https://github.com/kubernetes/kubernetes/issues/40403>).
//!
//! The permissions of the user are evaluated once for each namespace. A watch ends with an error that makes clients list
//! again if they change.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use holdfast_authorization::{AccessTarget, Attributes, Authorizer, ResourceTarget, User, Verdict, rbac::rule};
use holdfast_resource::{AuditAnnotations as _, Resource, Verb};
use smol_str::SmolStr;
use tokio::time::Instant;

use crate::api::context::Context;
use crate::http::ApiError;
use crate::http::request::ResourceRequest;
use crate::objects::{AuthorizedObjects, name_of_key};
use crate::read::items::TimeSlice;

/// Maximum number of namespaces, and of names, that one request evaluates.
const MAX_EVALUATIONS: usize = 10_000;

/// Maximum number of questions to other servers in one evaluation.
const MAX_REMOTE_QUESTIONS: usize = 100;

/// Interval at which a watch looks for a change of roles.
const ROLES_INTERVAL: Duration = Duration::from_millis(500);

/// Interval at which a watch evaluates the permissions even if no role changed, because other servers may decide.
const EVALUATION_INTERVAL: Duration = Duration::from_secs(300);

/// Returns true if the handler of the request can restrict it to the objects that its user may read.
pub(super) fn can_restrict(request: &ResourceRequest) -> bool {
    let resource = &request.served.resource;
    matches!(request.verb, Verb::List | Verb::Watch)
        && request.name.is_empty()
        && request.subresource.is_empty()
        && resource.storage.is_some()
        && resource.capabilities.responder("").is_none()
}

/// Returns the objects that the user of a denied request may read; `None` if the request is allowed.
///
/// # Errors
/// The denial if the user may read no object, or if too many evaluations are needed to know.
pub(super) async fn readable(
    context: &Arc<Context>,
    request: &mut ResourceRequest,
) -> Result<Option<Readable>, ApiError> {
    let Some(denied) = request.denied.take() else {
        return Ok(None);
    };
    let version = request.version();
    let readable = Readable {
        context: Arc::clone(context),
        user: Arc::clone(&request.user),
        resource: Arc::clone(&request.served.resource),
        version: version.group_version.version.as_str().into(),
        namespace: request.namespace.clone(),
        watches: request.verb == Verb::Watch,
        objects: Arc::default(),
        generation: 0,
    };
    let annotate = |decision: &str, reason: &str| {
        if let Some(audit) = &request.audit {
            audit.annotate("authorization.k8s.io/decision", decision.to_owned());
            audit.annotate("authorization.k8s.io/reason", reason.to_owned());
        }
    };
    match readable.evaluated().await {
        Some(readable) if !readable.objects.is_empty() => {
            annotate("allow", "restricted to the objects that the user may read");
            Ok(Some(readable))
        }
        _ => {
            annotate("forbid", "");
            Err(denied)
        }
    }
}

/// The objects of a resource that a user may read, and the question that they answer.
pub(super) struct Readable {
    context: Arc<Context>,
    user: Arc<User>,
    resource: Arc<Resource>,
    version: SmolStr,
    /// The namespace of the request; empty for all.
    namespace: SmolStr,
    watches: bool,
    /// The objects.
    pub(super) objects: Arc<AuthorizedObjects>,
    /// The state of the roles before the evaluation.
    generation: u64,
}

impl Readable {
    /// Returns the same with the objects by the current permissions; `None` if too many evaluations are needed.
    async fn evaluated(mut self) -> Option<Self> {
        // Roles that change during the evaluation lead to another one.
        self.generation = self.authorizer().generation();
        self.objects = Arc::new(self.evaluate().await?);
        Some(self)
    }

    /// Returns when the permissions of the user have changed.
    pub(super) async fn changed(mut self) {
        let mut evaluated = Instant::now();
        loop {
            tokio::time::sleep(ROLES_INTERVAL).await;
            let is_due = evaluated.elapsed() >= EVALUATION_INTERVAL;
            if self.authorizer().generation() == self.generation && !is_due {
                continue;
            }
            let before = Arc::clone(&self.objects);
            self = match self.evaluated().await {
                Some(now) if now.objects == before => now,
                _ => return,
            };
            evaluated = Instant::now();
        }
    }

    fn authorizer(&self) -> &dyn Authorizer {
        self.context.shared.authorizer.as_ref()
    }

    async fn evaluate(&self) -> Option<AuthorizedObjects> {
        let mut objects = AuthorizedObjects::default();
        let (mut names, mut questions) = (0, 0);
        let (verb, mut turn) = (if self.watches { "watch" } else { "list" }, TimeSlice::default());
        for namespace in self.namespaces()? {
            turn.end_if_due().await;
            if self.is_allowed(verb, &namespace, "", &mut questions).await? {
                objects.add_all(&namespace);
                continue;
            }
            for name in self.named_in_roles(&namespace) {
                names += 1;
                if names > MAX_EVALUATIONS {
                    return None;
                }
                turn.end_if_due().await;
                // The content of an object that may be read by itself may also be listed.
                if self.is_allowed(verb, &namespace, &name, &mut questions).await?
                    || !self.watches && self.is_allowed("get", &namespace, &name, &mut questions).await?
                {
                    objects.add(&namespace, name);
                }
            }
        }
        Some(objects)
    }

    /// Returns the namespaces of the request; `None` if there are too many. That of cluster-scoped objects is empty.
    fn namespaces(&self) -> Option<Vec<SmolStr>> {
        if !self.resource.namespaced() || !self.namespace.is_empty() {
            return Some(vec![self.namespace.clone()]);
        }
        let registry = self.context.registry();
        let storage = registry.namespaces()?.storage.as_ref()?;
        let prefix = storage.namespace_prefix("");
        let snapshot = self.context.shared.store.for_key(prefix.as_bytes()).snapshot();
        let keys = snapshot.range(prefix.as_bytes()).take(MAX_EVALUATIONS + 1);
        let namespaces: Vec<SmolStr> = keys.map(|entry| SmolStr::new(name_of_key(entry.key()))).collect();
        (namespaces.len() <= MAX_EVALUATIONS).then_some(namespaces)
    }

    /// Returns the names of objects that the roles of the user contain for the resource.
    fn named_in_roles(&self, namespace: &str) -> BTreeSet<SmolStr> {
        let rules = self.authorizer().rules(&self.user, namespace).rules.into_iter();
        let own = rules.filter(|rule| {
            rule::has(&rule.api_groups, &self.resource.group) && rule::has(&rule.resources, &self.resource.plural)
        });
        own.flat_map(|rule| rule.resource_names).collect()
    }

    /// Returns true if the user may do this; `None` if too many questions to other servers are needed.
    async fn is_allowed(&self, verb: &str, namespace: &str, name: &str, questions: &mut usize) -> Option<bool> {
        let target = AccessTarget::Resource(ResourceTarget {
            group: &self.resource.group,
            version: &self.version,
            resource: &self.resource.plural,
            namespace,
            name,
            ..ResourceTarget::default()
        });
        let pending = match self.authorizer().start(&self.user, &Attributes { verb, target }) {
            Verdict::Decided(answer) => return Some(answer.allows()),
            Verdict::Ask(pending) => pending,
        };
        *questions += 1;
        match *questions > MAX_REMOTE_QUESTIONS {
            true => None,
            false => Some(pending.await.allows()),
        }
    }
}
