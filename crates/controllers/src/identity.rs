//! The identity of a server among those on one store: a lease of its own that says that it lives, and the end of leases of
//! servers that do not, as kube-apiserver keeps them.
//! <https://kubernetes.io/docs/concepts/architecture/leases/#api-server-identity>

use std::sync::Arc;
use std::time::Duration;

use data_encoding::BASE32_NOPAD;
use holdfast_gotext::time::{Precision, Timestamp};
use holdfast_resource::Resource;
use holdfast_resource::metadata::new_object;
use holdfast_server::operations::loopback::{Client, RequestError, path_of};
use holdfast_server::operations::service::Service;
use holdfast_value::Value;
use sha2::{Digest as _, Sha256};
use tokio::sync::Mutex;

use crate::apiserver::{MANAGER, Turns, put};
use crate::election::micro_time;
use crate::refusal::{delete_unchanged, unless_gone};

/// The label of the lease of an API server, and its value for this kind of server.
const LABEL: [&str; 2] = ["apiserver.kubernetes.io/identity", "kube-apiserver"];
const HOST: &str = "kubernetes.io/hostname";
const PEER: &str = "kubernetes.io/peer-advertise-address";
pub(crate) const NAMESPACE: &str = "kube-system";

/// How long a server lives by its lease.
const DURATION: i64 = 3600;
const RENEWAL: Duration = Duration::from_secs(10);
/// How often expired leases of other servers are looked for.
const COLLECTION: Duration = Duration::from_secs(3600);

const RENEWAL_CHECK: &str = "poststarthook/start-kube-apiserver-identity-lease-controller";
const COLLECTION_CHECK: &str = "poststarthook/start-kube-apiserver-identity-lease-garbage-collector";

/// A server as others see it.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The name of its host.
    pub host: String,
    /// The uid, which distinguishes it from earlier servers of its name.
    pub uid: String,
    /// Where others reach it: `ADDRESS:PORT`.
    pub address: String,
}

impl Identity {
    /// The name of its lease: made from the name of the host and of the type of server, each behind its length.
    pub fn name(&self) -> String {
        Self::name_of(&self.host)
    }

    /// The name of the lease of a server on that host.
    pub fn name_of(host: &str) -> String {
        let mut digest = Sha256::new();
        for part in [host, LABEL[1]] {
            digest.update(u16::try_from(part.len()).unwrap_or(u16::MAX).to_be_bytes());
            digest.update(part);
        }
        let digest = digest.finalize();
        let half: Vec<u8> = digest.iter().take(16).copied().collect();
        format!("apiserver-{}", BASE32_NOPAD.encode(&half).to_lowercase())
    }

    /// Keeps the lease of this server, and looks for those of servers that are gone, until the server ends;
    /// [`IdentityLease::end`] takes its own away.
    pub fn run(self, service: &Arc<Service>) -> Option<Arc<IdentityLease>> {
        let context = &service.context;
        let client = Client::new(Arc::clone(service), MANAGER);
        let leases = client.resource("coordination.k8s.io", "leases")?;
        let (collector, of) = (client.clone(), Arc::clone(&leases));
        let (background, shutdown) = (&context.background, &context.shutdown);
        let lease = Arc::new(IdentityLease {
            client,
            leases,
            identity: self,
            ended: Mutex::new(false),
        });
        background.spawn(RENEWAL_CHECK, RENEWAL_CHECK, shutdown, Arc::clone(&lease).keep());
        background.spawn(COLLECTION_CHECK, COLLECTION_CHECK, shutdown, collect(collector, of));
        Some(lease)
    }

    /// The lease of this server after `there`.
    fn lease(&self, there: Option<Value>, now: &str) -> Value {
        let name = self.name();
        let mut lease = there.unwrap_or_else(|| {
            let mut lease = new_object("coordination.k8s.io/v1", "Lease", NAMESPACE, &name);
            let holder = format!("{name}_{}", self.uid);
            lease.set_at(&["spec", "holderIdentity"], holder.into());
            lease.set_at(&["spec", "leaseDurationSeconds"], DURATION.into());
            lease
        });
        lease.set_at(&["spec", "renewTime"], now.into());
        lease.set_at(&["metadata", "labels", LABEL[0]], LABEL[1].into());
        lease.set_at(&["metadata", "labels", HOST], self.host.as_str().into());
        lease.set_at(&["metadata", "annotations", PEER], self.address.as_str().into());
        lease
    }
}

/// The lease of a server that runs.
pub struct IdentityLease {
    client: Client,
    leases: Arc<Resource>,
    identity: Identity,
    /// Whether the lease was taken away; held while it is written.
    ended: Mutex<bool>,
}

impl IdentityLease {
    async fn keep(self: Arc<Self>) {
        let mut turns = Turns::new(&self.client, RENEWAL);
        while turns.next().await {
            let ended = self.ended.lock().await;
            if !*ended {
                log_failure(self.renew().await);
            }
        }
    }

    async fn renew(&self) -> Result<(), RequestError> {
        let name = self.identity.name();
        let there = self.client.get(&self.leases, NAMESPACE, &name);
        let is_new = there.is_none();
        let lease = self
            .identity
            .lease(there.map(|lease| lease.tree()), &micro_time(&self.client));
        put(&self.client, &self.leases, is_new, &lease).await.map(drop)
    }

    /// Takes the lease away: this server lives no longer.
    pub async fn end(&self) {
        let mut ended = self.ended.lock().await;
        *ended = true;
        let path = path_of(&self.leases, NAMESPACE, &self.identity.name()).unwrap_or_default();
        log_failure(unless_gone(self.client.delete(&path, &Value::empty_map()).await));
    }
}

async fn collect(client: Client, leases: Arc<Resource>) {
    let mut turns = Turns::new(&client, COLLECTION);
    while turns.next().await {
        log_failure(collect_once(&client, &leases).await);
    }
}

async fn collect_once(client: &Client, leases: &Resource) -> Result<(), RequestError> {
    let now = Timestamp::from(client.time());
    let all = client.list(leases, NAMESPACE);
    let over: Vec<_> = all.iter().filter(|lease| is_over(&lease.tree(), now)).collect();
    drop(all);
    for lease in over {
        let path = path_of(leases, NAMESPACE, lease.name()).unwrap_or_default();
        // One that was renewed meanwhile stays.
        delete_unchanged(client, &path, &lease.tree()).await?;
    }
    Ok(())
}

fn log_failure(outcome: Result<(), RequestError>) {
    if let Err(error) = outcome {
        tracing::warn!(%error, "a lease of a server's identity cannot be written; tried again later");
    }
}

/// Whether a lease is that of an API server.
pub(crate) fn is_of_server(lease: &Value) -> bool {
    lease.str_at(&["metadata", "labels", LABEL[0]]) == Some(LABEL[1])
}

/// Whether a lease is that of an API server that did not renew it.
fn is_over(lease: &Value, now: Timestamp) -> bool {
    let spec = |field| lease.at(&["spec", field]);
    if !is_of_server(lease) {
        return false;
    }
    let renewed = spec("renewTime").and_then(Value::as_str);
    let renewed = renewed.and_then(|time| Timestamp::parse(time, Precision::Micros).ok());
    match (renewed, spec("leaseDurationSeconds").and_then(Value::as_i64)) {
        (Some(renewed), Some(seconds)) => renewed.seconds.saturating_add(seconds) < now.seconds,
        // One that says nothing of its end is as good as over.
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity() -> Identity {
        Identity {
            host: "vm".to_owned(),
            uid: "8837719e-8b36-4b76-ba0f-43c634b86a79".to_owned(),
            address: "192.0.2.2:26343".to_owned(),
        }
    }

    #[test]
    fn a_server_is_named_as_the_reference_names_it() {
        assert_eq!(identity().name(), "apiserver-wlv32tlttr4jl3gtroqexyxapa");
    }

    #[test]
    fn a_lease_is_over_when_it_was_not_renewed_for_its_duration() {
        let lease = identity().lease(None, "2026-11-22T00:55:59.417363Z");
        let at = |seconds: i64| Timestamp {
            seconds: 1_795_308_959 + seconds,
            nanos: 0,
        };
        assert!(!is_over(&lease, at(3600)));
        assert!(is_over(&lease, at(3601)));
        // A renewal keeps who holds it.
        let again = Identity {
            uid: "other".to_owned(),
            ..identity()
        };
        let renewed = again.lease(Some(lease.clone()), "2026-11-22T00:56:59.000000Z");
        assert_eq!(
            renewed.at(&["spec", "holderIdentity"]),
            lease.at(&["spec", "holderIdentity"])
        );
        assert!(!is_over(&renewed, at(3601)));
        let mut other = lease;
        other.set_at(&["metadata", "labels", LABEL[0]], "another-apiserver".into());
        assert!(!is_over(&other, at(99_999)));
    }
}
