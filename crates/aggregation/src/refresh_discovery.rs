//! Requests for the resources of other servers, in the newer form of discovery, or in the older one from servers that have no other.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use holdfast_authorization::MASTERS;
use holdfast_resource::version_order;
use http::StatusCode;
use http::header::{self, HeaderMap};

use crate::api_services::Proxied;
use crate::availability::USER;
use crate::discovery::{ApiGroups, ApiResources, VersionDiscovery};
use crate::remote_discovery::{RemoteResource, RemoteVersions, ServerDiscovery, key_of};
use crate::servers::Servers;
use crate::transport::{Question, Transport, own_user};

/// The time limit of an answer.
const LIMIT: Duration = Duration::from_secs(5);

const NEWER: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
                     application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";

impl<T: Transport> Servers<T> {
    /// Returns the discovery of other servers.
    pub fn remote_versions(&self) -> Arc<RemoteVersions> {
        self.discovery.versions.load_full()
    }

    /// Returns the discovery entry of a resource of another server, in the version that comes first.
    pub fn remote_resource(&self, group: &str, plural: &str) -> Option<RemoteResource> {
        let (services, versions) = (self.services(), self.remote_versions());
        let of_group = services.proxied_all().filter(|proxied| proxied.service.group == group);
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
        let found = self.ask_discovery(&proxied).await;
        let (resources, fresh) = match &found {
            Ok(answer) => {
                let version = answer.versions.get(&service.group_version());
                (version.cloned(), true)
            }
            Err(_) => (None, false),
        };
        let version = VersionDiscovery::from_server(service.version.clone(), resources, fresh);
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

    async fn ask_discovery(&self, proxied: &Proxied<T::Backend>) -> Result<ServerDiscovery, String> {
        let key = key_of(proxied).ok_or("it is served here")?;
        let before = self.discovery.answers.lock().get(&key).cloned();
        let question = Question {
            path: "/apis",
            user: own_user(USER, &[MASTERS]),
            accept: Some(NEWER),
            etag: before.as_ref().and_then(|answer| answer.etag.clone()),
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
            return self.ask_legacy_discovery(proxied).await;
        }
        let etag = answer.headers.get(header::ETAG).cloned();
        let groups: ApiGroups = read(answer.body).await?;
        let discovery = ServerDiscovery {
            etag,
            versions: Arc::new(groups.by_version()),
        };
        self.discovery.answers.lock().insert(key, discovery.clone());
        Ok(discovery)
    }

    /// Returns the server's discovery of one group version, in the older form, which does not cover other versions.
    async fn ask_legacy_discovery(&self, proxied: &Proxied<T::Backend>) -> Result<ServerDiscovery, String> {
        let service = &proxied.service;
        let path = service.path();
        let question = Question {
            path: &path,
            user: own_user(USER, &[]),
            accept: Some("application/json"),
            etag: None,
            limit: LIMIT,
        };
        let answer = self.fetch(proxied, question).await?;
        if answer.status != StatusCode::OK {
            let code = answer.status.as_u16();
            return Err(format!("failed to download legacy discovery for {path}: {code}"));
        }
        let resources: ApiResources = read(answer.body).await?;
        let version = VersionDiscovery::from_legacy(service.version.clone(), resources);
        Ok(ServerDiscovery {
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
    use http::header::HeaderValue;

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
