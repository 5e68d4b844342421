//! Coordinated leader election: components nominate themselves by LeaseCandidates, and the server chooses which one
//! holds their Lease, so that the oldest version leads during an upgrade
//! (<https://kubernetes.io/docs/concepts/cluster-administration/coordinated-leader-election/>).
//!
//! Before it elects, the elector asks all candidates to renew (`spec.pingTime`), and waits a few seconds for them. A
//! holder that renews its Lease is never replaced: `spec.preferredHolder` asks it to step down. Everything is derived
//! from the objects, so the next server continues an election that another one began.
//!
//! In the reference these controllers are a part of kube-apiserver, on the server that holds their own Lease.
//!
//! upstream: pkg/controlplane/controller/leaderelection#RunWithLeaderElection

mod candidate;
mod collection;
mod decision;
mod elector;

use std::sync::Arc;

use holdfast_resource::Resource;
use holdfast_server::operations::loopback::Client;
use holdfast_value::SmolStr;

pub(crate) use collection::collect;
pub(crate) use elector::elect;

/// The name of the elector, and of the Lease that its server holds.
pub const NAME: &str = "leader-election-controller";

/// The name of the controller that removes LeaseCandidates.
pub(crate) const COLLECTOR: &str = "leasecandidate-garbage-collector";

/// Health check of both controllers, with kube-apiserver's name.
pub const CHECK: &str = "poststarthook/start-kube-apiserver-coordinated-leader-election-controller";

/// The API group of both resources.
const GROUP: &str = "coordination.k8s.io";

/// Version of LeaseCandidates that the controllers read and write.
const CANDIDATE_VERSION: &str = "v1beta1";

/// Name of a Lease that has candidates.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct LeaseName {
    namespace: SmolStr,
    name: SmolStr,
}

/// Returns the resource of LeaseCandidates if the server serves the version that the controllers need.
fn candidates_of(client: &Client) -> Option<Arc<Resource>> {
    let resource = client.resource(GROUP, "leasecandidates")?;
    let preferred = &resource.versions.first()?.group_version;
    (preferred.version == CANDIDATE_VERSION).then_some(resource)
}
