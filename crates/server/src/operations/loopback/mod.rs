//! The loopback client of controllers inside the server, without TLS, sockets or a second copy of the objects.
//!
//! Writes are processed like every request, from authorization to the store, as a user of `system:masters`. Reads and
//! watches use the state in memory: an [`Object`] is the shared stored bytes, and is parsed on request. A watch of
//! [everything](Client::watch_everything) is one position in the event history, however many resources there are, so
//! that it includes custom resources from the moment they are served.

mod changes;
mod object;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use holdfast_authorization::{AUTHENTICATED, MASTERS, User, service_account_user};
use holdfast_gotext::time::{Precision, Timestamp};
use holdfast_resource::{ClaimProblem, Registry, Resource};
use holdfast_schema::GroupResource;
use holdfast_value::{Limits, Value, json};
use holdfast_writes::{DeleteOptions, Target};
use http::header::{self, HeaderName};
use http::{HeaderValue, Method};
use http_body_util::{BodyExt as _, Limited};
use smol_str::SmolStr;

use crate::http::ApiError;
use crate::http::negotiation::{PATCH_TYPES, PatchType};
use crate::http::request::Unadmitted;
use crate::identity::ClientCertificate;
use crate::metrics::QueueMetrics;
use crate::objects::claims;
use crate::operations::aggregation::Aggregator;
use crate::operations::service::Service;
use crate::runtime::shutdown::Shutdown;
use crate::runtime::testing_clock::Advances;
use crate::wire::body::RequestBody;

pub use changes::{Change, Changes, Lost};
pub use object::{Object, Objects};

/// The source address of the server's own requests.
pub(in crate::operations) const OWN_ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// The name of controllers in kube-apiserver. It appears in `managedFields`, so that fields keep their owner when a
/// cluster moves from one server to the other.
const USER_AGENT: HeaderValue = HeaderValue::from_static("kube-controller-manager/holdfast");

/// A client of the server within its own process.
#[derive(Clone)]
pub struct Client {
    service: Arc<Service>,
    user: Arc<User>,
    /// True if its requests skip admission policies and webhooks.
    unadmitted: bool,
}

/// The reason why a request failed: the `Status` that any client would get.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct RequestError {
    /// The HTTP status code.
    pub code: u16,
    /// The reason, such as `NotFound`; may be empty.
    pub reason: SmolStr,
    /// The message.
    pub message: String,
}

impl From<ApiError> for RequestError {
    fn from(error: ApiError) -> Self {
        Self {
            code: error.code().as_u16(),
            reason: error.reason().into(),
            message: error.to_string(),
        }
    }
}

impl RequestError {
    /// Returns true if there is no such object.
    pub fn is_not_found(&self) -> bool {
        self.code == 404
    }

    /// Returns true if the object was not in the state that the request requires.
    pub fn is_conflict(&self) -> bool {
        self.code == 409
    }
}

impl Client {
    /// Creates a client that acts as the service account `name` of `kube-system`, with all permissions.
    pub fn new(service: Arc<Service>, name: &str) -> Self {
        let user = User {
            name: service_account_user("kube-system", name),
            groups: [MASTERS, AUTHENTICATED].map(SmolStr::new_static).to_vec(),
            ..User::default()
        };
        Self {
            service,
            user: Arc::new(user),
            unadmitted: false,
        }
    }

    /// Returns the same client, whose requests skip admission policies and webhooks.
    #[must_use]
    pub fn unadmitted(self) -> Self {
        Self {
            unadmitted: true,
            ..self
        }
    }

    /// Returns the shutdown phase of the server.
    pub fn shutdown(&self) -> Shutdown {
        self.service.context.shutdown.clone()
    }

    /// Returns the currently served resources.
    pub fn registry(&self) -> Arc<Registry> {
        self.service.context.registry()
    }

    /// Returns the resource of that group and plural name, if it is served.
    pub fn resource(&self, group: &str, plural: &str) -> Option<Arc<Resource>> {
        let name = GroupResource {
            group: group.into(),
            resource: plural.into(),
        };
        self.registry().resource(&name).cloned()
    }

    /// Waits until the served resources reflect a CRD that was stored at `revision`.
    ///
    /// # Errors
    /// 504 if the wait exceeds its time limit.
    pub async fn wait_for_crds(&self, revision: u64) -> Result<(), RequestError> {
        match self.service.context.crds.reached(revision).await {
            true => Ok(()),
            false => Err(ApiError::out_of_time().into()),
        }
    }

    /// Returns the aggregator, if aggregation is enabled.
    pub fn aggregator(&self) -> Option<Arc<Aggregator>> {
        self.service.paths.aggregator().cloned()
    }

    /// Repairs values that at most one object may hold, such as the addresses of Services. Returns the problems that it
    /// found.
    ///
    /// # Errors
    /// If the store cannot be used; the text is the reason.
    pub async fn repair_claims(&self) -> Result<Vec<ClaimProblem>, String> {
        let context = &self.service.context;
        claims::repair(&context.shared.store, &context.registry()).await
    }

    /// Returns the metrics of the queue of a controller.
    pub fn queue_metrics(&self, name: &str) -> Option<QueueMetrics> {
        self.service.context.shared.metrics.queue(name).ok()
    }

    /// Returns the time of day.
    pub fn time(&self) -> SystemTime {
        self.service.context.shared.clock.now()
    }

    /// Returns a receiver of the moves of the clock, which only tests cause.
    pub fn advances(&self) -> Advances {
        let testing = self.service.testing.as_ref();
        testing.map(|testing| testing.clock.advances()).unwrap_or_default()
    }

    /// Returns the time of day in the format of `metadata` and conditions.
    pub fn now(&self) -> String {
        Timestamp::from(self.time()).text(Precision::Seconds).to_string()
    }

    /// Lists the objects at `path`, as metadata only.
    ///
    /// # Errors
    /// If the server rejects the request, or if the answer is too long.
    pub async fn list_metadata(&self, path: &str) -> Result<Value, RequestError> {
        let accept = HeaderValue::from_static(METADATA);
        self.exchange(Method::GET, path, header::ACCEPT, accept, Bytes::new(), &ELSEWHERE)
            .await
    }

    /// Creates `object` in the collection at `path`.
    ///
    /// # Errors
    /// If the server rejects the request.
    pub async fn create(&self, path: &str, object: &Value) -> Result<Value, RequestError> {
        self.send(Method::POST, path, JSON, Some(object)).await
    }

    /// Replaces the object at `path`.
    ///
    /// # Errors
    /// If the server rejects the request.
    pub async fn update(&self, path: &str, object: &Value) -> Result<Value, RequestError> {
        self.send(Method::PUT, path, JSON, Some(object)).await
    }

    /// Patches the object at `path`.
    ///
    /// # Errors
    /// If the server rejects the request.
    pub async fn patch(&self, path: &str, patch_type: PatchType, patch: &Value) -> Result<Value, RequestError> {
        let named = PATCH_TYPES.iter().find(|(_, known)| *known == patch_type);
        let media_type = named.map_or(JSON, |(name, _)| *name);
        self.send(Method::PATCH, path, media_type, Some(patch)).await
    }

    /// Applies to the object at `path` of another server.
    ///
    /// # Errors
    /// If one of the servers rejects the request, or if the answer is too long.
    pub async fn apply_elsewhere(&self, path: &str, configuration: &Value) -> Result<(), RequestError> {
        let named = PATCH_TYPES.iter().find(|(_, known)| *known == PatchType::Apply);
        let media_type = named.map_or(JSON, |(name, _)| *name);
        let content_type = HeaderValue::from_static(media_type);
        let bytes = Bytes::from(json::to_string(configuration));
        let applied = self.exchange(
            Method::PATCH,
            path,
            header::CONTENT_TYPE,
            content_type,
            bytes,
            &ELSEWHERE,
        );
        applied.await.map(drop)
    }

    /// Deletes the object or the collection at `path`; `options` is a `DeleteOptions`.
    ///
    /// # Errors
    /// If the server rejects the request.
    pub async fn delete(&self, path: &str, options: &Value) -> Result<Value, RequestError> {
        self.send(Method::DELETE, path, JSON, Some(options)).await
    }

    /// Deletes a stored object, even if its resource is not served in any version.
    ///
    /// # Errors
    /// If the server rejects the request.
    pub async fn delete_stored(
        &self,
        resource: &Arc<Resource>,
        namespace: &str,
        name: &str,
    ) -> Result<(), RequestError> {
        let target = Target::for_stored(&self.registry(), resource, namespace, name, &self.user, self.time());
        let deleted = crate::write::delete(&self.service.context.write, target, DeleteOptions::default()).await;
        deleted?;
        Ok(())
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        media_type: &'static str,
        body: Option<&Value>,
    ) -> Result<Value, RequestError> {
        let bytes = body.map(|body| Bytes::from(json::to_string(body))).unwrap_or_default();
        let content_type = HeaderValue::from_static(media_type);
        let limits = &Limits::TRUSTED;
        self.exchange(method, path, header::CONTENT_TYPE, content_type, bytes, limits)
            .await
    }

    async fn exchange(
        &self,
        method: Method,
        path: &str,
        name: HeaderName,
        value: HeaderValue,
        bytes: Bytes,
        limits: &Limits,
    ) -> Result<Value, RequestError> {
        let built = http::Request::builder()
            .method(method)
            .uri(path)
            .header(header::USER_AGENT, USER_AGENT)
            .header(name, value)
            .body(RequestBody::from_bytes(bytes));
        let mut request = built.map_err(|error| unreadable(&error))?;
        if self.unadmitted {
            request.extensions_mut().insert(Unadmitted);
        }
        let credential = ClientCertificate::User(Arc::clone(&self.user), None);
        let answer = self
            .service
            .respond(request, Some(&credential), Some(OWN_ADDRESS))
            .await;
        let code = answer.status();
        let collected = Limited::new(answer.into_body(), limits.max_bytes).collect().await;
        let body = collected.map_err(|error| unreadable(&error))?.to_bytes();
        let object = json::parse(&body, limits);
        if code.is_success() {
            return object.map_err(|error| unreadable(&error));
        }
        // Failures of the connection to another server are reported in plain text.
        let object = object.unwrap_or_else(|_| {
            let mut status = Value::empty_map();
            status.set_at(&["message"], String::from_utf8_lossy(&body).trim().into());
            status
        });
        Err(RequestError {
            code: code.as_u16(),
            reason: object.str_at(&["reason"]).unwrap_or_default().into(),
            message: object.str_at(&["message"]).unwrap_or_default().to_owned(),
        })
    }
}

const JSON: &str = "application/json";
const METADATA: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
/// The bounds of answers that other servers may have written.
const ELSEWHERE: Limits = Limits {
    max_bytes: 64 << 20,
    max_depth: Limits::TRUSTED.max_depth,
    max_nodes: 5_000_000,
};

fn unreadable(why: &dyn std::fmt::Display) -> RequestError {
    RequestError {
        code: 500,
        reason: SmolStr::new_static("InternalError"),
        message: why.to_string(),
    }
}

/// Returns the path of a collection of `resource` in the version that discovery prefers, or of one object if `name` is
/// not empty. `namespace` is empty for cluster-scoped resources and for all namespaces. `None` if no version is served.
pub fn path_of(resource: &Resource, namespace: &str, name: &str) -> Option<String> {
    let version = &resource.versions.first()?.group_version;
    let mut path = if version.group.is_empty() {
        format!("/api/{}", version.version)
    } else {
        format!("/apis/{}/{}", version.group, version.version)
    };
    let namespaces = if namespace.is_empty() { "" } else { "namespaces" };
    for part in [namespaces, namespace, &resource.plural, name] {
        if !part.is_empty() {
            path.push('/');
            path.push_str(part);
        }
    }
    Some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_paths_use_the_preferred_version() {
        let registry = holdfast_kinds::registry(&holdfast_kinds::Config::default()).unwrap();
        let path = |group: &str, plural: &str, namespace, name| {
            let name_of = GroupResource {
                group: group.into(),
                resource: plural.into(),
            };
            path_of(registry.resource(&name_of).unwrap(), namespace, name).unwrap()
        };
        assert_eq!(path("", "pods", "a", "b"), "/api/v1/namespaces/a/pods/b");
        assert_eq!(path("apps", "deployments", "", ""), "/apis/apps/v1/deployments");
        assert_eq!(path("", "nodes", "", "n"), "/api/v1/nodes/n");
    }
}
