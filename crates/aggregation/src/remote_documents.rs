//! The OpenAPI documents that other servers have reported.

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use holdfast_value::Value;
use http::header::HeaderValue;
use smol_str::SmolStr;

use crate::api_services::ApiServices;

/// The documents of other servers, by the names of their APIServices.
#[derive(Default)]
pub(crate) struct RemoteDocuments {
    pub(crate) by_service: ArcSwap<BTreeMap<SmolStr, Arc<Documents>>>,
}

/// The documents of the server of one APIService.
#[derive(Clone, Default)]
pub(crate) struct Documents {
    /// The paths of its documents of version 3, by their names.
    pub(crate) version_3: BTreeMap<String, String>,
    pub(crate) version_2: Option<Arc<Version2>>,
}

pub(crate) struct Version2 {
    pub(crate) etag: Option<HeaderValue>,
    /// A fingerprint that changes whenever the document does.
    pub(crate) print: Vec<u8>,
    /// The part of the document with the group version of the APIService.
    pub(crate) document: Value,
    /// The `info` member of the document.
    pub(crate) info: Value,
}

impl RemoteDocuments {
    /// Removes the documents of services that are no longer served elsewhere.
    pub(crate) fn keep<B>(&self, services: &ApiServices<B>) {
        let known = self.by_service.load();
        if known.keys().any(|name| services.proxied(name).is_none()) {
            let proxied = known.iter().filter(|(name, _)| services.proxied(name).is_some());
            let kept = proxied.map(|(name, documents)| (name.clone(), Arc::clone(documents)));
            self.by_service.store(Arc::new(kept.collect()));
        }
    }
}
