//! The OpenAPI documents of other servers: those of version 3 are forwarded, and the one of version 2 is merged into
//! this server's.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use holdfast_value::{Limits, Value, json};
use http::StatusCode;
use http::header::{self, HeaderValue};
use serde::Deserialize;
use sha2::{Digest as _, Sha512};

use crate::api_services::{Proxied, by_highest_priority};
use crate::openapi_v2::{self, Added};
use crate::openapi_v3;
use crate::remote_documents::{Documents, Version2};
use crate::servers::Servers;
use crate::transport::{Question, Transport, own_user};

/// The source of OpenAPI documents.
pub trait DocumentSource: Send + Sync {
    /// Returns the paths that have a document of version 3, without a leading slash: `api/v1`, `apis/apps/v1`.
    fn paths(&self) -> Vec<String>;

    /// Returns the paths at which other servers have documents of version 3.
    fn elsewhere(&self) -> BTreeMap<String, String> {
        BTreeMap::new()
    }

    /// Returns a fingerprint that changes whenever the document of version 3 of that path does; `None` if there is no
    /// such document.
    fn fingerprint_3(&self, path: &str) -> Option<Vec<u8>>;

    /// Returns a fingerprint that changes whenever the document of version 2 does.
    fn fingerprint_2(&self) -> Vec<u8>;

    /// Returns the document of version 3 of one of these paths, as JSON.
    fn version_3(&self, path: &str) -> Option<Vec<u8>>;

    /// Passes the parts of the document of version 2 to the callback: the name of a member and its content.
    /// Consecutive maps of the same member form one map.
    fn version_2(&self, take: &mut dyn FnMut(&'static str, Value));
}

/// The user that requests documents.
const USER: &str = "system:aggregator";

/// The time limit of an answer.
const LIMIT: Duration = Duration::from_secs(60);

/// The bounds of a document.
const DOCUMENT: Limits = Limits {
    max_bytes: 32 << 20,
    max_depth: 512,
    max_nodes: 4_000_000,
};

/// The index of the documents of version 3.
#[derive(Deserialize)]
struct Index {
    #[serde(default)]
    paths: BTreeMap<String, DocumentPath>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DocumentPath {
    #[serde(rename = "serverRelativeURL")]
    url: String,
}

impl<T: Transport> Servers<T> {
    /// Requests the documents of an APIService from its server. While the server does not answer, its last documents
    /// remain in use.
    ///
    /// # Errors
    /// If there is no answer; the text gives the reason.
    pub async fn refresh_openapi(&self, name: &str) -> Result<(), String> {
        let Some(proxied) = self.proxied(name) else {
            return Ok(());
        };
        if !proxied.service.available {
            return Err("service unavailable".to_owned());
        }
        let last = self
            .documents
            .by_service
            .load()
            .get(name)
            .map(|known| Documents::clone(known));
        let before = last.unwrap_or_default();
        let version_3 = self.index_of(&proxied).await;
        let version_2 = self.version_2_of(&proxied, before.version_2.as_ref()).await;
        let documents = Documents {
            version_3: version_3.as_ref().map_or(before.version_3, BTreeMap::clone),
            version_2: version_2.as_ref().map_or(before.version_2, Option::clone),
        };
        let next = Arc::new(documents);
        let _changing = self.changing.lock();
        if self.proxied(name).is_some() {
            self.documents.by_service.rcu(|known| {
                let mut known = BTreeMap::clone(known);
                known.insert(name.into(), Arc::clone(&next));
                known
            });
        }
        version_3.map(drop).and(version_2.map(drop))
    }

    async fn index_of(&self, proxied: &Proxied<T::Backend>) -> Result<BTreeMap<String, String>, String> {
        let answer = self.fetch(proxied, question("/openapi/v3", None, None)).await?;
        match answer.status {
            StatusCode::OK => {
                let index: Index = serde_json::from_slice(&answer.body).map_err(|error| error.to_string())?;
                let places = index.paths.into_iter().map(|(name, place)| (name, place.url));
                Ok(places.collect())
            }
            StatusCode::NOT_FOUND => Ok(BTreeMap::new()),
            status => Err(format!("the index of OpenAPI v3 was answered with {status}")),
        }
    }

    async fn version_2_of(
        &self,
        proxied: &Proxied<T::Backend>,
        before: Option<&Arc<Version2>>,
    ) -> Result<Option<Arc<Version2>>, String> {
        let known = before.and_then(|before| before.etag.clone());
        let request = question("/openapi/v2", Some("application/json"), known);
        let answer = self.fetch(proxied, request).await?;
        match answer.status {
            StatusCode::NOT_MODIFIED => Ok(before.cloned()),
            StatusCode::NOT_FOUND => Ok(None),
            StatusCode::OK => {
                let etag = answer.headers.get(header::ETAG).cloned();
                let prefix = format!("{}/", proxied.service.path());
                let task = tokio::task::spawn_blocking(move || {
                    let document = json::parse(&answer.body, &DOCUMENT).map_err(|error| error.to_string())?;
                    Ok::<_, String>(Version2 {
                        etag,
                        print: Sha512::digest(&answer.body).to_vec(),
                        document: openapi_v2::below(&document, |path| path.starts_with(&prefix)),
                        info: document.get("info").cloned().unwrap_or_else(Value::empty_map),
                    })
                });
                let read = task.await.map_err(|error| error.to_string())?;
                read.map(|read| Some(Arc::new(read)))
            }
            status => Err(format!("failed to retrieve openAPI spec, http error: {status}")),
        }
    }

    /// Returns the server that has the document of version 3 of that name.
    pub fn remote_document(&self, name: &str, is_local: impl Fn(&str) -> bool) -> Option<Arc<Proxied<T::Backend>>> {
        if !self.any_remote() || self.converted(name).is_some() {
            return None;
        }
        if let Some(own) = self.services().remote(&format!("/{name}")) {
            return Some(Arc::clone(own));
        }
        if is_local(name) {
            return None;
        }
        let known = self.documents.by_service.load();
        let (of, _) = known
            .iter()
            .find(|(_, documents)| documents.version_3.contains_key(name))?;
        self.proxied(of)
    }

    /// Returns the document of version 2 from which the document of version 3 of that name is converted, for a server
    /// that only has version 2.
    fn converted(&self, name: &str) -> Option<Arc<Version2>> {
        let proxied = Arc::clone(self.services().remote(&format!("/{name}"))?);
        let known = self.documents.by_service.load();
        let documents = known.get(proxied.service.name.as_str())?;
        let is_own = documents.version_3.is_empty() && document_name(&proxied) == name;
        documents.version_2.clone().filter(|_| is_own)
    }

    /// Returns the documents of `source` merged with those of other servers.
    pub fn documents(self: &Arc<Self>, source: Arc<dyn DocumentSource>) -> Arc<dyn DocumentSource> {
        Arc::new(WithRemote {
            source,
            servers: Arc::clone(self),
        })
    }

    /// Returns the documents of version 2 of other servers, highest priority first.
    fn documents_2(&self) -> Vec<Arc<Version2>> {
        let (services, known) = (self.services(), self.documents.by_service.load());
        let remote = services.proxied_all().map(|proxied| {
            let service = &proxied.service;
            (service.group_version(), service.priority)
        });
        let ordered = by_highest_priority(remote.collect());
        let names = ordered
            .iter()
            .flat_map(|(group, versions)| versions.iter().map(move |version| format!("{version}.{group}")));
        names
            .filter_map(|name| known.get(name.as_str())?.version_2.clone())
            .collect()
    }
}

fn question(path: &'static str, accept: Option<&'static str>, etag: Option<HeaderValue>) -> Question<'static> {
    Question {
        path,
        user: own_user(USER, &[]),
        accept,
        etag,
        limit: LIMIT,
    }
}

/// The documents of this server and of others.
struct WithRemote<T: Transport> {
    source: Arc<dyn DocumentSource>,
    servers: Arc<Servers<T>>,
}

impl<T: Transport> DocumentSource for WithRemote<T> {
    fn paths(&self) -> Vec<String> {
        let mut paths = self.source.paths();
        let services = self.servers.services();
        let remote = services.proxied_all().map(|proxied| document_name(proxied));
        let converted: Vec<String> = remote.filter(|name| self.servers.converted(name).is_some()).collect();
        paths.retain(|path| !converted.contains(path));
        paths.extend(converted);
        paths
    }

    fn elsewhere(&self) -> BTreeMap<String, String> {
        let local: BTreeSet<String> = self.source.paths().into_iter().collect();
        let services = self.servers.services();
        let mut elsewhere = BTreeMap::new();
        for (of, documents) in self.servers.documents.by_service.load().iter() {
            let Some(proxied) = services.proxied(of) else { continue };
            let own = document_name(proxied);
            for (name, url) in &documents.version_3 {
                if *name == own || !local.contains(name) && !elsewhere.contains_key(name) {
                    elsewhere.insert(name.clone(), url.clone());
                }
            }
        }
        elsewhere
    }

    fn fingerprint_3(&self, path: &str) -> Option<Vec<u8>> {
        match self.servers.converted(path) {
            Some(remote) => Some(remote.print.clone()),
            None => self.source.fingerprint_3(path),
        }
    }

    fn fingerprint_2(&self) -> Vec<u8> {
        let mut print = self.source.fingerprint_2();
        for document in self.servers.documents_2() {
            print.extend_from_slice(&document.print);
        }
        print
    }

    fn version_3(&self, path: &str) -> Option<Vec<u8>> {
        let Some(remote) = self.servers.converted(path) else {
            return self.source.version_3(path);
        };
        let mut document = remote.document.clone();
        document.set_at(&["info"], remote.info.clone());
        Some(json::to_vec(&openapi_v3::of_version_2(&document)))
    }

    fn version_2(&self, take: &mut dyn FnMut(&'static str, Value)) {
        let remote = self.servers.documents_2();
        if remote.is_empty() {
            return self.source.version_2(take);
        }
        let documents: Vec<&Value> = remote.iter().map(|remote| &remote.document).collect();
        let added = Added::new(&documents, |take| self.source.version_2(take));
        added.write(take, |take| self.source.version_2(take));
    }
}

/// Returns the name of the document of version 3 of an APIService: `apis/GROUP/VERSION`.
fn document_name<B>(proxied: &Proxied<B>) -> String {
    proxied.service.path().trim_start_matches('/').to_owned()
}
