//! The identity of a server among those on one store: a lease of its own while it runs, and the removal of the leases
//! of servers that do not run, as in kube-apiserver.
//! <https://kubernetes.io/docs/concepts/architecture/leases/#api-server-identity>

use std::sync::Arc;
use std::time::Duration;

use data_encoding::BASE32_NOPAD;
use holdfast_gotext::time::{Precision, Timestamp};
use holdfast_resource::Resource;
use holdfast_schema::metadata::new_object;
use holdfast_server::operations::loopback::{Client, RequestError, path_of};
use holdfast_server::operations::service::Service;
use holdfast_value::Value;
use sha2::{Digest as _, Sha256};
use tokio::sync::Mutex;

use crate::apiserver::{MANAGER, Turns, put};
use crate::election::micro_time;
use crate::rejection::{delete_unchanged, unless_gone};

/// Label of the lease of an API server, and its value for this kind of server.
const LABEL: [&str; 2] = ["apiserver.kubernetes.io/identity", "kube-apiserver"];
const HOST: &str = "kubernetes.io/hostname";
const PEER: &str = "kubernetes.io/peer-advertise-address";
pub(crate) const NAMESPACE: &str = "kube-system";

/// Duration of a server's lease in seconds.
const DURATION: i64 = 3600;
const RENEWAL: Duration = Duration::from_secs(10);
/// Interval at which expired leases of other servers are removed.
const COLLECTION: Duration = Duration::from_secs(3600);

const RENEWAL_CHECK: &str = "poststarthook/start-kube-apiserver-identity-lease-controller";
const COLLECTION_CHECK: &str = "poststarthook/start-kube-apiserver-identity-lease-garbage-collector";

/// Identity of a server as other servers see it.
#[derive(Clone, Debug)]
pub struct Identity {
    /// Name of its host.
    pub host: String,
    /// Uid that distinguishes it from earlier servers with the same name.
    pub uid: String,
    /// Address at which other servers reach it: `ADDRESS:PORT`.
    pub address: String,
}

impl Identity {
    /// Returns the name of its lease: a hash of the host name and the server type, each with its length as a prefix.
    pub fn name(&self) -> String {
        Self::name_of(&self.host)
    }

    /// Returns the name of the lease of a server on that host.
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

    /// Maintains the lease of this server, and removes the leases of stopped servers, until the server ends;
    /// [`IdentityLease::end`] removes its own.
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

    /// Returns the new lease of this server; `there` is the existing one.
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

/// Lease of a running server.
pub struct IdentityLease {
    client: Client,
    leases: Arc<Resource>,
    identity: Identity,
    /// True if the lease was removed; locked while the lease is written.
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

    /// Removes the lease when this server ends.
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
        // A lease that was renewed meanwhile is kept.
        delete_unchanged(client, &path, &lease.tree()).await?;
    }
    Ok(())
}

fn log_failure(outcome: Result<(), RequestError>) {
    if let Err(error) = outcome {
        tracing::warn!(%error, "cannot write the identity lease of a server; will retry");
    }
}

/// Returns true if a lease is that of an API server.
pub(crate) fn is_of_server(lease: &Value) -> bool {
    lease.str_at(&["metadata", "labels", LABEL[0]]) == Some(LABEL[1])
}

/// Returns true if a lease is that of an API server that did not renew it in time.
fn is_over(lease: &Value, now: Timestamp) -> bool {
    let spec = |field| lease.at(&["spec", field]);
    if !is_of_server(lease) {
        return false;
    }
    let renewed = spec("renewTime")
        .and_then(Value::as_str)
        .and_then(|time| Timestamp::parse(time, Precision::Micros).ok());
    match (renewed, spec("leaseDurationSeconds").and_then(Value::as_i64)) {
        (Some(renewed), Some(seconds)) => renewed.seconds.saturating_add(seconds) < now.seconds,
        // A lease without a duration or a renewal time counts as expired.
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
        // A renewal keeps the holder.
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
