use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::sync::Arc;

use holdfast_admission::policies::Policies;
use holdfast_admission::webhooks::Webhooks;
use holdfast_authorization::rbac::RuleIndex;
use holdfast_cel::PatternMemory;
use holdfast_resource::structural::RuleTimings;

use crate::apis::Apis;
use crate::counters::Counters;
use crate::features::Features;
use crate::validation::addresses::Block;

/// What the built-in kinds depend on beside the objects: settings of the server, named after kube-apiserver's flags.
#[derive(Clone, Debug)]
pub struct Config {
    /// The block from which Services get their addresses, whose family is the default one: `--service-cluster-ip-range`.
    pub service_cidr: Block,
    /// The block of the other family in a dual-stack cluster, the second one of `--service-cluster-ip-range`.
    pub secondary_service_cidr: Option<Block>,
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
    /// The built-in APIs that are served: `--runtime-config`.
    pub apis: Apis,
    /// The index of roles and bindings, which the kinds of RBAC keep up to date.
    pub policy: Arc<RuleIndex>,
    /// What webhooks are called in admission, which their configurations keep up to date.
    pub webhooks: Arc<Webhooks>,
    /// The admission policies and their bindings, which these kinds keep up to date.
    pub policies: Arc<Policies>,
    /// Where the regular expressions of schemas and policies are compiled.
    pub patterns: PatternMemory,
    /// Where is noted how long the rules of custom resources take.
    pub rule_timings: Arc<RuleTimings>,
    /// Counters of the kinds and plugins.
    pub counters: Counters,
}

/// What all compiled regular expressions of schemas and policies may take together, in bytes.
const PATTERN_MEMORY: usize = 256 << 20;

impl Default for Config {
    /// The reference's defaults.
    fn default() -> Self {
        let patterns = PatternMemory::new(PATTERN_MEMORY);
        Self {
            service_cidr: Block::DEFAULT_SERVICES,
            secondary_service_cidr: None,
            node_ports: 30000..=32767,
            secure_port: 6443,
            advertise_address: None,
            first_endpoints: true,
            random,
            allow_privileged: false,
            features: Features::default(),
            apis: Apis::default(),
            policy: Arc::default(),
            webhooks: Arc::new(Webhooks::new(patterns.clone())),
            policies: Arc::new(Policies::new(&patterns)),
            patterns,
            rule_timings: Arc::default(),
            counters: Counters::default(),
        }
    }
}

/// A number of the randomness that the process's hash maps are keyed with.
pub fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// What the checks of pod specifications depend on beside the specification.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PodSettings {
    /// Whether containers may be privileged.
    pub(crate) allow_privileged: bool,
    /// The features that are on.
    pub(crate) features: Features,
}

impl Config {
    /// What the checks of pod specifications depend on.
    pub(crate) fn pods(&self) -> PodSettings {
        PodSettings {
            allow_privileged: self.allow_privileged,
            features: self.features,
        }
    }

    /// Returns the blocks of the flags that Services get their addresses from; the first one is of the default family.
    pub(crate) fn service_cidrs(&self) -> impl Iterator<Item = Block> {
        std::iter::once(self.service_cidr).chain(self.secondary_service_cidr)
    }

    /// Where those inside of the cluster reach the server.
    pub(crate) fn server(&self) -> Option<SocketAddr> {
        let address = self.advertise_address?;
        Some(SocketAddr::new(address, self.secure_port))
    }
}
