//! Writes wait until this server has published the storage versions of its resources (`StorageVersionAPI`, KEP-2339): a
//! migration would miss objects that are written earlier. The rule is that of the reference's
//! `WithStorageVersionPrecondition`.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};

use holdfast_authorization::{MASTERS, User};
use holdfast_resource::{Registry, Resource};
use holdfast_schema::GroupResource;
use holdfast_value::SmolStr;
use parking_lot::RwLock;

use crate::http::ApiError;
use crate::http::request_info::RequestInfo;

/// The progress of a server in publishing its storage versions.
#[derive(Debug, Default)]
pub struct StorageVersionBarrier {
    completed: AtomicBool,
    /// The storage prefixes of the published resources; several resources may share one.
    published: RwLock<HashSet<SmolStr>>,
    errors: RwLock<HashMap<SmolStr, String>>,
}

impl StorageVersionBarrier {
    /// Records that the version of the objects below that prefix is published.
    pub fn published(&self, prefix: &str) {
        self.errors.write().remove(prefix);
        self.published.write().insert(prefix.into());
    }

    /// Records that it could not be published.
    pub fn failed(&self, prefix: &str, error: String) {
        self.errors.write().insert(prefix.into(), error);
    }

    /// Records that all versions are published; no write waits from now on.
    pub fn complete(&self) {
        self.completed.store(true, Ordering::Release);
    }

    /// Returns true if the versions of all resources are published, so that no write waits.
    pub fn is_complete(&self) -> bool {
        self.completed.load(Ordering::Acquire)
    }

    /// Rejects a write to a resource whose storage version was not published yet.
    ///
    /// # Errors
    /// 503 if the version was not published.
    pub(crate) fn check(&self, info: &RequestInfo, user: &User, registry: &Registry) -> Result<(), ApiError> {
        if self.completed.load(Ordering::Acquire) || matches!(info.verb.as_str(), "get" | "list" | "watch") {
            return Ok(());
        }
        let Some(path) = &info.resource else { return Ok(()) };
        let first_namespaces =
            || info.verb == "create" && user.name == APISERVER && user.groups.iter().any(|group| group == MASTERS);
        let passes = match (path.group.as_str(), path.resource.as_str()) {
            ("internal.apiserver.k8s.io", "storageversions") => true,
            ("", "namespaces") => first_namespaces(),
            ("coordination.k8s.io", "leases") => path.namespace == "kube-system",
            _ => false,
        };
        let name = GroupResource {
            group: path.group.clone(),
            resource: path.resource.clone(),
        };
        let resource = registry.resource(&name).filter(|_| !passes);
        let Some(prefix) = resource.and_then(|resource| prefix_of(resource)) else {
            return Ok(());
        };
        if self.published.read().contains(prefix) {
            return Ok(());
        }
        let errors = self.errors.read();
        let error = errors.get(prefix).map_or("<nil>", String::as_str);
        Err(ApiError::unavailable(format!(
            "wait for storage version registration to complete for resource: {name}, last seen error: {error}"
        )))
    }
}

/// Returns the storage prefix of a resource whose version is published, which is a built-in resource that is stored.
fn prefix_of(resource: &Resource) -> Option<&SmolStr> {
    let storage = resource.storage.as_ref().filter(|_| resource.crd.is_none());
    storage.map(|storage| &storage.prefix)
}

/// The user name of the server itself.
const APISERVER: &str = "system:apiserver";

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;

    fn user(name: &str, group: &str) -> User {
        User {
            name: name.into(),
            groups: vec![group.into()],
            ..User::default()
        }
    }

    #[test]
    fn write_before_published_storage_version_is_rejected() {
        let registry = holdfast_kinds::registry(&holdfast_kinds::Config::default()).unwrap();
        let barrier = StorageVersionBarrier::default();
        let ask = |method: Method, uri: &str, user: &User| {
            let info = RequestInfo::parse(&method, &uri.parse().unwrap()).unwrap();
            let outcome = barrier.check(&info, user, &registry);
            outcome.map_err(|error| (error.code().as_u16(), error.to_string()))
        };
        let (anybody, server) = (user("admin", MASTERS), user(APISERVER, MASTERS));
        let pods = "/api/v1/namespaces/a/pods";
        let rejected = |resource: &str, error: &str| {
            let text = "wait for storage version registration to complete for resource";
            Err((503, format!("{text}: {resource}, last seen error: {error}")))
        };
        assert_eq!(ask(Method::POST, pods, &anybody), rejected("pods", "<nil>"));
        let status = "/apis/apps/v1/namespaces/a/deployments/b/status";
        assert_eq!(
            ask(Method::PATCH, status, &anybody),
            rejected("deployments.apps", "<nil>")
        );
        assert_eq!(ask(Method::DELETE, pods, &server), rejected("pods", "<nil>"));
        assert_eq!(
            ask(Method::POST, "/api/v1/namespaces", &anybody),
            rejected("namespaces", "<nil>")
        );
        for (method, uri, user) in [
            (Method::GET, pods, &anybody),
            (Method::POST, "/livez", &anybody),
            (Method::POST, "/apis/none/v1/gadgets", &anybody),
            (
                Method::POST,
                "/apis/authorization.k8s.io/v1/subjectaccessreviews",
                &anybody,
            ),
            (
                Method::POST,
                "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases",
                &anybody,
            ),
            (Method::POST, "/api/v1/namespaces", &server),
        ] {
            assert_eq!(ask(method, uri, user), Ok(()), "{uri}");
        }
        let leases = "/apis/coordination.k8s.io/v1/namespaces/a/leases";
        assert_eq!(
            ask(Method::POST, leases, &anybody),
            rejected("leases.coordination.k8s.io", "<nil>")
        );
        let prefix = registry
            .resource(&GroupResource {
                group: "".into(),
                resource: "pods".into(),
            })
            .and_then(|pods| prefix_of(pods).cloned())
            .unwrap();
        barrier.failed(&prefix, "no".to_owned());
        assert_eq!(ask(Method::POST, pods, &anybody), rejected("pods", "no"));
        barrier.published(&prefix);
        assert_eq!(ask(Method::POST, pods, &anybody), Ok(()));
        barrier.complete();
        assert_eq!(ask(Method::POST, leases, &anybody), Ok(()));
    }
}
