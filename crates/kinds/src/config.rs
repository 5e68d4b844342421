use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::sync::Arc;

use holdfast_admission::policies::Policies;
use holdfast_admission::webhooks::Webhooks;
use holdfast_authorization::rbac::Policy;

use crate::features::Features;
use crate::validation::addresses::Block;

/// What the built-in kinds depend on beside the objects: settings of the server, named after kube-apiserver's flags.
#[derive(Clone, Debug)]
pub struct Config {
    /// The addresses from which services get theirs: `--service-cluster-ip-range`.
    pub service_cidr: Block,
    /// The ports of nodes that services may take: `--service-node-port-range`.
    pub node_ports: RangeInclusive<u16>,
    /// Where the server listens: `--secure-port`.
    pub secure_port: u16,
    /// The address that those inside of the cluster reach the server at; `None` where it is reached from its own machine
    /// alone: `--advertise-address`.
    pub advertise_address: Option<IpAddr>,
    /// Whether the server makes what stands behind the service `kubernetes` at its start, as one that has a store to itself.
    pub first_endpoints: bool,
    /// Where the search for free addresses and ports begins: any number, none likelier than another.
    pub random: fn() -> u64,
    /// Whether containers may be privileged: `--allow-privileged`.
    pub allow_privileged: bool,
    /// The features that are on: `--feature-gates`.
    pub features: Features,
    /// What roles and bindings come to, which the kinds of RBAC keep up to date.
    pub policy: Arc<Policy>,
    /// What webhooks are called in admission, which their configurations keep up to date.
    pub webhooks: Arc<Webhooks>,
    /// The admission policies and their bindings, which these kinds keep up to date.
    pub policies: Arc<Policies>,
}

impl Default for Config {
    /// The reference's defaults.
    fn default() -> Self {
        Self {
            service_cidr: Block::DEFAULT_SERVICES,
            node_ports: 30000..=32767,
            secure_port: 6443,
            advertise_address: None,
            first_endpoints: true,
            random,
            allow_privileged: false,
            features: Features::default(),
            policy: Arc::default(),
            webhooks: Arc::default(),
            policies: Arc::default(),
        }
    }
}

/// A number of the randomness that the process's hash maps are keyed with.
pub fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

impl Config {
    /// Where those inside of the cluster reach the server.
    pub(crate) fn server(&self) -> Option<SocketAddr> {
        let address = self.advertise_address?;
        Some(SocketAddr::new(address, self.secure_port))
    }
}
