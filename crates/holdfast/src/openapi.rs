//! The OpenAPI documents of the built-in kinds, as the server asks for them.

use std::sync::Arc;

use arc_swap::ArcSwap;
use holdfast_kind_tables::Descriptions;
use holdfast_kind_tables::features::{Feature, Features};
use holdfast_openapi::{NoDescriptions, Publication};
use holdfast_resource::Registry;
use holdfast_schema::types::TypeTable;
use holdfast_server::operations::openapi::DocumentSource;
use holdfast_server::runtime::version::KUBERNETES;
use holdfast_value::{Value, json};
use tracing::warn;

/// Generator of documents for the resources of the registry. It caches nothing: each document reads the descriptions
/// again.
pub(crate) struct Documents {
    registry: Arc<ArcSwap<Registry>>,
    types: Arc<TypeTable>,
    lists_values: bool,
}

impl Documents {
    pub(crate) fn new(registry: Arc<ArcSwap<Registry>>, types: Arc<TypeTable>, features: Features) -> Self {
        Self {
            registry,
            types,
            lists_values: features.has(Feature::OpenAPIEnums),
        }
    }

    fn publish<T>(&self, publish: impl FnOnce(&Publication<'_>) -> T) -> T {
        let descriptions: Box<dyn holdfast_openapi::Descriptions> = match Descriptions::read() {
            Ok(descriptions) => Box::new(descriptions),
            Err(error) => {
                warn!(%error, "no descriptions for OpenAPI");
                Box::new(NoDescriptions)
            }
        };
        // `1.36` of `1.36.2`.
        let version = KUBERNETES.rsplit_once('.').map_or(KUBERNETES, |(version, _)| version);
        let registry = self.registry.load();
        let publication = Publication::new(&registry, &self.types, &*descriptions, version);
        publish(&publication.listing_values(self.lists_values))
    }
}

impl DocumentSource for Documents {
    fn paths(&self) -> Vec<String> {
        Publication::v3_names(&self.registry.load())
    }

    fn fingerprint_3(&self, path: &str) -> Option<Vec<u8>> {
        Publication::v3_fingerprint(&self.registry.load(), path).map(of_this_build)
    }

    fn fingerprint_2(&self) -> Vec<u8> {
        of_this_build(Publication::v2_fingerprint(&self.registry.load()))
    }

    fn version_3(&self, path: &str) -> Option<Vec<u8>> {
        self.publish(|publication| publication.v3(path).map(|document| json::to_vec(&document)))
    }

    fn version_2(&self, take: &mut dyn FnMut(&'static str, Value)) {
        self.publish(|publication| publication.v2(take));
    }
}

/// Adds the identity of this build to a fingerprint, because built-in descriptions change with the build.
fn of_this_build(mut print: Vec<u8>) -> Vec<u8> {
    print.extend_from_slice(concat!("\n", env!("CARGO_PKG_VERSION"), " ").as_bytes());
    print.extend_from_slice(KUBERNETES.as_bytes());
    print
}
