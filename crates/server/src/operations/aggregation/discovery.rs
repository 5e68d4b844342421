//! The resources of other servers. They are requested in the newer form of discovery, or in the older one from servers
//! that have no other.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use holdfast_authorization::MASTERS;
use holdfast_resource::version_order;
use holdfast_schema::GroupVersion;
use http::StatusCode;
use http::header::{self, HeaderMap, HeaderValue};
use parking_lot::Mutex;
use smol_str::SmolStr;

use super::Aggregator;
use super::api_services::{ApiServices, Proxied, Remote};
use super::availability::{USER, path};
use super::fetch::{Question, own_user};
use crate::operations::discovery::aggregated::{ApiGroups, VersionDiscovery};
use crate::operations::discovery::legacy::ApiResources;

/// The discovery of other servers, by the names of their APIServices.
pub(crate) type RemoteVersions = BTreeMap<SmolStr, Arc<VersionDiscovery>>;

/// The discovery entry of a resource of another server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteResource {
    /// Its group and version.
    pub group_version: GroupVersion,
    /// The kind of its objects.
    pub kind: SmolStr,
    /// Its plural name.
    pub plural: SmolStr,
    /// True if its objects are in namespaces.
    pub namespaced: bool,
    /// The supported verbs.
    pub verbs: Vec<SmolStr>,
}

/// The discovery of other servers.
#[derive(Default)]
pub(super) struct RemoteDiscovery {
    versions: ArcSwap<RemoteVersions>,
    /// The last answer of each service about all its group versions.
    servers: Mutex<HashMap<ServiceKey, Said>>,
}

/// The namespace, name and port of a service.
type ServiceKey = (SmolStr, SmolStr, u16);

#[derive(Clone)]
struct Said {
    etag: Option<HeaderValue>,
    versions: Arc<HashMap<GroupVersion, VersionDiscovery>>,
}

/// The time limit of an answer.
const LIMIT: Duration = Duration::from_secs(5);

const NEWER: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
                     application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";

impl RemoteDiscovery {
    /// Removes the entries of services that are no longer served elsewhere.
    pub(super) fn keep(&self, services: &ApiServices) {
        let known = self.versions.load();
        if known.keys().any(|name| services.proxied(name).is_none()) {
            let proxied = known.iter().filter(|(name, _)| services.proxied(name).is_some());
            let kept: RemoteVersions = proxied
                .map(|(name, version)| (name.clone(), Arc::clone(version)))
                .collect();
            self.versions.store(Arc::new(kept));
        }
        let used: Vec<ServiceKey> = services.proxied_all().filter_map(|proxied| key_of(proxied)).collect();
        self.servers.lock().retain(|key, _| used.contains(key));
    }

    fn set(&self, name: &SmolStr, version: VersionDiscovery) {
        if self.versions.load().get(name).is_some_and(|known| **known == version) {
            return;
        }
        let version = Arc::new(version);
        self.versions.rcu(|known| {
            let mut next = RemoteVersions::clone(known);
            next.insert(name.clone(), Arc::clone(&version));
            next
        });
    }
}

fn key_of(proxied: &Proxied) -> Option<ServiceKey> {
    let Remote {
        namespace,
        service,
        port,
        ..
    } = proxied.service.remote.as_ref()?;
    Some((namespace.clone(), service.clone(), *port))
}

impl Aggregator {
    /// Returns the discovery of other servers.
    pub(crate) fn remote_versions(&self) -> Arc<RemoteVersions> {
        self.discovery.versions.load_full()
    }

    /// Returns the discovery entry of a resource of another server, in the version that comes first.
    pub fn remote_resource(&self, group: &str, plural: &str) -> Option<RemoteResource> {
        let (known, versions) = (self.known(), self.remote_versions());
        let of_group = known.proxied_all().filter(|proxied| proxied.service.group == group);
        let found = of_group.filter_map(|proxied| {
            let service = &proxied.service;
            let (kind, namespaced, verbs) = versions.get(&service.name)?.resource(plural)?;
            let resource = RemoteResource {
                group_version: service.group_version(),
                kind: kind.clone(),
                plural: plural.into(),
                namespaced,
                verbs: verbs.to_vec(),
            };
            Some((service.priority.version, resource))
        });
        let first = found.max_by(|(one, of_one), (other, of_other)| {
            let by_name = || version_order::compare(&of_other.group_version.version, &of_one.group_version.version);
            one.cmp(other).then_with(by_name)
        });
        first.map(|(_, resource)| resource)
    }

    /// Requests the resources of an APIService from its server. While the server does not answer, discovery reports the
    /// version as stale.
    ///
    /// # Errors
    /// If there is no answer; the text gives the reason.
    pub async fn refresh_discovery(&self, name: &str) -> Result<(), String> {
        let Some(proxied) = self.proxied(name) else {
            return Ok(());
        };
        let service = &proxied.service;
        let found = self.said(&proxied).await;
        let (resources, fresh) = match &found {
            Ok(said) => {
                let version = said.versions.get(&service.group_version());
                (version.cloned(), true)
            }
            Err(_) => (None, false),
        };
        let version = VersionDiscovery::of_server(service.version.clone(), resources, fresh);
        let _changing = self.changing.lock();
        // The APIService may have changed during the request.
        if self
            .proxied(name)
            .is_some_and(|now| now.service.remote == service.remote)
        {
            self.discovery.set(&service.name, version);
        }
        found.map(drop)
    }

    async fn said(&self, proxied: &Proxied) -> Result<Said, String> {
        let key = key_of(proxied).ok_or("it is served here")?;
        let before = self.discovery.servers.lock().get(&key).cloned();
        let question = Question {
            path: "/apis",
            user: own_user(USER, &[MASTERS]),
            accept: Some(NEWER),
            known: before.as_ref().and_then(|said| said.etag.clone()),
            limit: LIMIT,
        };
        let answer = self.fetch(proxied, question).await?;
        if let (StatusCode::NOT_MODIFIED, Some(before)) = (answer.status, before) {
            return Ok(before);
        }
        if answer.status == StatusCode::SERVICE_UNAVAILABLE {
            let (namespace, name, port) = key;
            return Err(format!(
                "service {namespace}/{name}:{port} returned non-success response code: 503"
            ));
        }
        if answer.status != StatusCode::OK || !is_newer(&answer.headers) {
            return self.said_in_older_form(proxied).await;
        }
        let etag = answer.headers.get(header::ETAG).cloned();
        let groups: ApiGroups = read(answer.body).await?;
        let said = Said {
            etag,
            versions: Arc::new(groups.by_version()),
        };
        self.discovery.servers.lock().insert(key, said.clone());
        Ok(said)
    }

    /// Returns the server's discovery of one group version, in the older form, which does not cover other versions.
    async fn said_in_older_form(&self, proxied: &Proxied) -> Result<Said, String> {
        let service = &proxied.service;
        let path = path(service);
        let question = Question {
            path: &path,
            user: own_user(USER, &[]),
            accept: Some("application/json"),
            known: None,
            limit: LIMIT,
        };
        let answer = self.fetch(proxied, question).await?;
        if answer.status != StatusCode::OK {
            let code = answer.status.as_u16();
            return Err(format!("failed to download legacy discovery for {path}: {code}"));
        }
        let resources: ApiResources = read(answer.body).await?;
        let version = VersionDiscovery::of_older_form(service.version.clone(), resources);
        Ok(Said {
            etag: None,
            versions: Arc::new(HashMap::from([(service.group_version(), version)])),
        })
    }
}

/// Returns true if an answer has the newer form.
fn is_newer(headers: &HeaderMap) -> bool {
    let text = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let parameters: Vec<&str> = text.unwrap_or_default().split(';').map(str::trim).collect();
    let has = |wanted: &str| parameters.contains(&wanted);
    has("g=apidiscovery.k8s.io") && has("as=APIGroupDiscoveryList") && (has("v=v2") || has("v=v2beta1"))
}

/// Parses a document on a thread where it does not delay other requests.
async fn read<T: serde::de::DeserializeOwned + Send + 'static>(body: bytes::Bytes) -> Result<T, String> {
    let task = tokio::task::spawn_blocking(move || serde_json::from_slice(&body));
    let read = task.await.map_err(|error| error.to_string())?;
    read.map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newer_form_is_known_by_its_content_type() {
        let newer = |text: &'static str| {
            is_newer(&HeaderMap::from_iter([(
                header::CONTENT_TYPE,
                HeaderValue::from_static(text),
            )]))
        };
        assert!(newer(
            "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
        ));
        assert!(newer(
            "application/json; g=apidiscovery.k8s.io; v=v2beta1; as=APIGroupDiscoveryList"
        ));
        assert!(!newer("application/json"));
        assert!(!newer(
            "application/json;g=apidiscovery.k8s.io;v=v3;as=APIGroupDiscoveryList"
        ));
    }
}
