//! Filter of writes that wait for the storage versions of their resources.

use arc_swap::ArcSwap;
use holdfast_proto::Messages;
use holdfast_resource::Registry;

use super::{Exchange, Filter, Step};
use crate::http::ApiError;
use crate::operations::storage_versions::StorageVersionBarrier;

/// Filter that rejects writes to resources whose storage version is not published, if this is enabled.
pub(super) struct WithStorageVersionPrecondition<'a> {
    pub(super) barrier: Option<&'a StorageVersionBarrier>,
    pub(super) registry: &'a ArcSwap<Registry>,
    pub(super) serializer: &'a Messages,
}

impl WithStorageVersionPrecondition<'_> {
    fn check(&self, exchange: &Exchange<'_>) -> Result<(), ApiError> {
        let Some(barrier) = self.barrier else { return Ok(()) };
        barrier.check(&exchange.info, exchange.user()?, &self.registry.load())
    }
}

impl Filter for WithStorageVersionPrecondition<'_> {
    fn request<'f>(&'f self, exchange: &'f mut Exchange<'_>) -> Step<'f> {
        match self.check(exchange) {
            Ok(()) => Step::Pass,
            Err(error) => Step::rejection(exchange, self.serializer, &error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::arrival::WithRequestInfo;
    use super::super::testing::{Reply, World, exchange};
    use super::*;

    #[tokio::test]
    async fn write_before_published_version_reaches_no_handler() {
        let (world, barrier) = (World::default(), StorageVersionBarrier::default());
        let filter = |barrier| WithStorageVersionPrecondition {
            barrier,
            registry: &world.registry,
            serializer: world.serializer(),
        };
        let code = async |barrier, method| {
            let handler = Reply::OK.behind(filter(barrier)).behind(WithRequestInfo {
                cbor: false,
                own_apis: true,
            });
            let mut request = exchange(method, "/api/v1/namespaces/n/pods");
            request.user = Some(World::user("alice"));
            handler.handle(&mut request).await.status().as_u16()
        };
        assert_eq!(code(Some(&barrier), "POST").await, 503);
        assert_eq!(code(Some(&barrier), "GET").await, 200);
        assert_eq!(code(None, "POST").await, 200);
        barrier.complete();
        assert_eq!(code(Some(&barrier), "POST").await, 200);
    }
}
