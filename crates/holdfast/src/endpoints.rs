//! kube-apiserver's flags for the endpoints of the Service `kubernetes`, and the leases that record which of the
//! servers on one etcd are alive: store entries that expire, with kube-apiserver's keys and encoding.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;

use anyhow::{Result, ensure};
use clap::{Args, ValueEnum};
use futures_util::future::BoxFuture;
use holdfast_controllers::{Address, Identity, KubernetesEndpoints, Reconciler, ServerLeases};
use holdfast_server::objects::{Store, readable};
use holdfast_server::operations::service::Service;
use holdfast_store::{CommitError, Transaction};
use holdfast_value::{Value, json};

/// Flags about the endpoints of the service `kubernetes`.
#[derive(Clone, Debug, Args)]
pub(crate) struct EndpointFlags {
    /// Endpoint reconciler for the Service kubernetes of servers that share an etcd
    #[arg(long, value_name = "TYPE", default_value = "lease")]
    endpoint_reconciler_type: ReconcilerType,

    /// Number of servers in the cluster. Only used with --endpoint-reconciler-type=master-count
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    apiserver_count: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ReconcilerType {
    Lease,
    MasterCount,
    None,
}

impl EndpointFlags {
    /// Rejects values that kube-apiserver rejects.
    pub(crate) fn check(&self) -> Result<()> {
        ensure!(
            self.apiserver_count > 0,
            "--apiserver-count should be a positive number, but value '{}' provided",
            self.apiserver_count
        );
        Ok(())
    }

    /// Returns true if a server maintains the endpoints.
    pub(crate) fn are_kept(&self) -> bool {
        self.endpoint_reconciler_type != ReconcilerType::None
    }

    /// Maintains the endpoints together with the other servers on the same store.
    pub(crate) fn run(
        &self,
        service: &Arc<Service>,
        reached: SocketAddr,
        identity: &Identity,
    ) -> Option<Arc<KubernetesEndpoints>> {
        let reconciler = match self.endpoint_reconciler_type {
            ReconcilerType::Lease => Reconciler::Lease,
            ReconcilerType::MasterCount => Reconciler::Count(usize::try_from(self.apiserver_count).unwrap_or(1)),
            ReconcilerType::None => Reconciler::Nothing,
        };
        let leases = Leases {
            store: Arc::clone(&service.context.shared.store),
            reached,
            identity: identity.name(),
        };
        let address = Address {
            ip: reached.ip().to_string(),
            port: reached.port(),
        };
        KubernetesEndpoints::run(service, reconciler, address, Arc::new(leases))
    }
}

/// Returns the address that a server registers as an endpoint of the service `kubernetes`: the one that it is reached at, or
/// the default address of the host if that is on the loopback interface. `None` if validation of Endpoints accepts neither:
/// a server that registers such an address keeps all servers on the store from writing the endpoints.
///
/// upstream: k8s.io/apimachinery/pkg/util/net#ResolveBindAddress
pub(crate) fn advertised_address(reached: SocketAddr) -> Option<SocketAddr> {
    let ip = match reached.ip() {
        ip if ip.is_loopback() || ip.is_unspecified() => default_address(ip.is_ipv4())?,
        ip => ip,
    };
    is_endpoint_address(ip).then(|| SocketAddr::new(ip, reached.port()))
}

/// Returns the address from which the host reaches others by its default route.
fn default_address(is_ipv4: bool) -> Option<IpAddr> {
    // These are documentation addresses. Connecting a UDP socket selects the route and sends nothing.
    let (any, other): (IpAddr, IpAddr) = match is_ipv4 {
        true => (Ipv4Addr::UNSPECIFIED.into(), Ipv4Addr::new(192, 0, 2, 1).into()),
        false => (
            Ipv6Addr::UNSPECIFIED.into(),
            Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into(),
        ),
    };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect((other, 9)).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

/// Returns true if Endpoints may have the address.
///
/// upstream: pkg/apis/core/validation#ValidateEndpointIP
fn is_endpoint_address(ip: IpAddr) -> bool {
    let is_link_local = match ip {
        IpAddr::V4(ip) => ip.is_link_local() || ip.octets().starts_with(&[224, 0, 0]),
        IpAddr::V6(ip) => ip.is_unicast_link_local() || ip.segments()[0] & 0xff0f == 0xff02,
    };
    !ip.is_loopback() && !ip.is_unspecified() && !is_link_local
}

/// Key prefix of the leases.
const ADDRESSES: &str = "/registry/masterleases/";
const IDENTITIES: &str = "/registry/peerserverleases/";
/// Label of an identity lease with the identity of its server.
const IDENTITY: &str = "apiserverIdentity";

struct Leases {
    store: Arc<Store>,
    reached: SocketAddr,
    identity: String,
}

impl Leases {
    fn key(&self) -> String {
        format!("{ADDRESSES}{}", self.reached.ip())
    }

    fn identity_key(&self) -> String {
        format!("{IDENTITIES}{}", self.identity)
    }

    /// Replaces the entry by `next` of the existing one.
    async fn write(&self, key: &str, next: impl Fn(Option<Value>) -> Value + Sync) -> Result<(), String> {
        loop {
            let snapshot = self.store.newest();
            let there = snapshot.get(key.as_bytes());
            let object = next(there.and_then(|entry| readable(entry)));
            let expected = there.map_or(0, |entry| entry.mod_revision());
            let value = holdfast_store::Value::plain(json::to_string(&object));
            match self
                .store
                .commit(Transaction::new().guard(key, expected).put(key, value))
                .await
            {
                Ok(_) => return Ok(()),
                Err(CommitError::GuardFailed { .. }) => {}
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    /// Removes the entry if it exists.
    async fn delete(&self, key: &str) -> Result<bool, String> {
        loop {
            let snapshot = self.store.newest();
            let Some(there) = snapshot.get(key.as_bytes()) else {
                return Ok(false);
            };
            let transaction = Transaction::new().guard(key, there.mod_revision()).delete(key);
            match self.store.commit(transaction).await {
                Ok(_) => return Ok(true),
                Err(CommitError::GuardFailed { .. }) => {}
                Err(error) => return Err(error.to_string()),
            }
        }
    }
}

impl ServerLeases for Leases {
    fn renew(&self) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async { self.write(&self.key(), |there| lease(there, self.reached)).await })
    }

    fn remove(&self) -> BoxFuture<'_, Result<bool, String>> {
        Box::pin(async { self.delete(&self.key()).await })
    }

    fn addresses(&self) -> Vec<String> {
        let snapshot = self.store.newest();
        let ip = |object: &Value| {
            let subset = object.at(&["subsets"])?.as_list()?.first()?;
            let address = subset.at(&["addresses"])?.as_list()?.first()?;
            address.str_at(&["ip"]).map(str::to_owned)
        };
        let all = snapshot.range(ADDRESSES.as_bytes());
        all.filter_map(|entry| ip(&readable(entry)?)).collect()
    }

    fn renew_identity(&self) -> BoxFuture<'_, Result<(), String>> {
        let next = |there| identity_lease(there, self.reached, &self.identity);
        Box::pin(async move { self.write(&self.identity_key(), next).await })
    }

    fn remove_identity(&self) -> BoxFuture<'_, Result<bool, String>> {
        Box::pin(async { self.delete(&self.identity_key()).await })
    }
}

/// Returns the lease of an address that follows `there`. Each renewal increments a counter, since an unchanged object
/// is not written.
fn lease(there: Option<Value>, reached: SocketAddr) -> Value {
    let mut lease = there.unwrap_or_else(|| {
        let mut lease = Value::empty_map();
        lease.set_at(&["kind"], "Endpoints".into());
        lease.set_at(&["apiVersion"], "v1".into());
        lease
    });
    let mut address = Value::empty_map();
    address.set_at(&["ip"], reached.ip().to_string().into());
    let mut subset = Value::empty_map();
    subset.set_at(&["addresses"], vec![address].into());
    lease.set_at(&["subsets"], vec![subset].into());
    let generation = lease.at(&["metadata", "generation"]).and_then(Value::as_i64);
    lease.set_at(
        &["metadata", "generation"],
        Value::Int(generation.unwrap_or(0).saturating_add(1)),
    );
    lease
}

/// Returns the lease of an identity that follows `there`.
fn identity_lease(there: Option<Value>, reached: SocketAddr, identity: &str) -> Value {
    let mut lease = lease(there, reached);
    let mut port = Value::empty_map();
    port.set_at(&["name"], "https".into());
    port.set_at(&["port"], Value::Int(reached.port().into()));
    port.set_at(&["protocol"], "TCP".into());
    if let Some(subset) = lease
        .at(&["subsets"])
        .and_then(|subsets| subsets.as_list()?.first().cloned())
    {
        let mut subset = subset;
        subset.set_at(&["ports"], vec![port].into());
        lease.set_at(&["subsets"], vec![subset].into());
    }
    lease.set_at(&["metadata", "labels", IDENTITY], identity.into());
    lease
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "what fails here is the test")]
mod tests {
    use super::*;

    #[test]
    fn loopback_address_is_not_advertised() {
        for reached in ["127.0.0.1:6443", "[::1]:6443", "0.0.0.0:6443"] {
            let advertised = advertised_address(reached.parse().unwrap());
            let is_fit = advertised.is_none_or(|address| is_endpoint_address(address.ip()) && address.port() == 6443);
            assert!(is_fit, "{reached}: {advertised:?}");
        }
        for special in [
            "127.0.0.9",
            "::1",
            "0.0.0.0",
            "169.254.1.1",
            "fe80::1",
            "224.0.0.1",
            "ff02::1",
        ] {
            assert!(!is_endpoint_address(special.parse().unwrap()), "{special}");
        }
        let own = "192.0.2.2:443".parse().unwrap();
        assert_eq!(advertised_address(own), Some(own));
        assert_eq!(advertised_address("169.254.1.1:443".parse().unwrap()), None);
    }

    #[test]
    fn a_lease_counts_up_and_keeps_what_else_it_says() {
        let reached = "192.0.2.2:26343".parse().unwrap();
        let first = identity_lease(None, reached, "apiserver-x");
        assert_eq!(
            json::to_string(&first),
            r#"{"apiVersion":"v1","kind":"Endpoints","metadata":{"generation":1,"labels":{"apiserverIdentity":"apiserver-x"}},"subsets":[{"addresses":[{"ip":"192.0.2.2"}],"ports":[{"name":"https","port":26343,"protocol":"TCP"}]}]}"#
        );
        let mut other = first;
        other.set_at(&["metadata", "annotations", "a"], "b".into());
        let second = lease(Some(other), reached);
        assert_eq!(second.at(&["metadata", "generation"]), Some(&Value::Int(2)));
        assert_eq!(second.str_at(&["metadata", "annotations", "a"]), Some("b"));
    }
}
