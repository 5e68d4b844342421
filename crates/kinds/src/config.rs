use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::sync::Arc;

use holdfast_admission::policies::Policies;
use holdfast_admission::webhooks::Webhooks;
use holdfast_authorization::rbac::RuleIndex;
use holdfast_cel::PatternMemory;
use holdfast_gotext::cidr::Cidr;
use holdfast_kind_tables::apis::Apis;
use holdfast_kind_tables::features::Features;
use holdfast_structural::RuleTimings;

use crate::counters::Counters;

/// Settings of the server that the built-in kinds depend on, named after kube-apiserver's flags.
#[derive(Clone, Debug)]
pub struct Config {
    /// CIDR of the addresses of Services, whose family is the default one: `--service-cluster-ip-range`.
    pub service_cidr: Cidr,
    /// CIDR of the other family in a dual-stack cluster, the second one of `--service-cluster-ip-range`.
    pub secondary_service_cidr: Option<Cidr>,
    /// Range of node ports of Services: `--service-node-port-range`.
    pub node_ports: RangeInclusive<u16>,
    /// Port of the server: `--secure-port`.
    pub secure_port: u16,
    /// Address of the server for clients inside the cluster; `None` if it is only reachable on its own machine:
    /// `--advertise-address`.
    pub advertise_address: Option<IpAddr>,
    /// True if the server creates the endpoints of the Service `kubernetes` at its start, since no other server uses
    /// its store.
    pub first_endpoints: bool,
    /// Source of uniformly distributed numbers, at which the search for free addresses and ports starts.
    pub random: fn() -> u64,
    /// Addresses of kubelets.
    pub kubelets: Arc<KubeletAddresses>,
    /// True if containers may be privileged: `--allow-privileged`.
    pub allow_privileged: bool,
    /// Features that are enabled: `--feature-gates`.
    pub features: Features,
    /// Built-in APIs that are served: `--runtime-config`.
    pub apis: Apis,
    /// Index of roles and bindings, which the RBAC kinds keep up to date.
    pub policy: Arc<RuleIndex>,
    /// Admission webhooks, which the kinds of their configurations keep up to date.
    pub webhooks: Arc<Webhooks>,
    /// Admission policies and their bindings, which these kinds keep up to date.
    pub policies: Arc<Policies>,
    /// Memory budget and cache of the regular expressions of schemas and policies.
    pub patterns: PatternMemory,
    /// Timings of the validation rules of custom resources.
    pub rule_timings: Arc<RuleTimings>,
    /// Counters of the kinds and plugins.
    pub counters: Counters,
}

/// Addresses of kubelets, which requests for logs, commands and nodes are passed on to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubeletAddresses {
    /// Types of node addresses in order of preference: `--kubelet-preferred-address-types`.
    pub preferred_types: Vec<String>,
    /// Port of a kubelet that reports none: `--kubelet-port`.
    pub port: u16,
}

impl KubeletAddresses {
    /// Default types of node addresses in order of preference.
    pub const PREFERRED_TYPES: [&str; 5] = ["Hostname", "InternalDNS", "InternalIP", "ExternalDNS", "ExternalIP"];

    /// Default port of kubelets.
    pub const PORT: u16 = 10250;
}

impl Default for KubeletAddresses {
    /// Returns the reference's defaults.
    fn default() -> Self {
        Self {
            preferred_types: Self::PREFERRED_TYPES.map(ToOwned::to_owned).to_vec(),
            port: Self::PORT,
        }
    }
}

/// Default CIDR of Services: `10.0.0.0/24`.
const DEFAULT_SERVICE_CIDR: Cidr = Cidr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 0)), 24);

/// Maximum size of all compiled regular expressions of schemas and policies together, in bytes.
const PATTERN_MEMORY: usize = 256 << 20;

impl Default for Config {
    /// Returns the reference's defaults.
    fn default() -> Self {
        let patterns = PatternMemory::new(PATTERN_MEMORY);
        Self {
            service_cidr: DEFAULT_SERVICE_CIDR,
            secondary_service_cidr: None,
            node_ports: 30000..=32767,
            secure_port: 6443,
            advertise_address: None,
            first_endpoints: true,
            random,
            kubelets: Arc::default(),
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

/// Returns a random number from the randomness that keys the process's hash maps.
pub fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// Settings that the validation of pod specifications depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PodSettings {
    /// True if containers may be privileged.
    pub(crate) allow_privileged: bool,
    /// Features that are enabled.
    pub(crate) features: Features,
}

impl Config {
    /// Returns the settings for the validation of pod specifications.
    pub(crate) fn pods(&self) -> PodSettings {
        PodSettings {
            allow_privileged: self.allow_privileged,
            features: self.features,
        }
    }

    /// Returns the Service CIDRs of the flags; the first one has the default family.
    pub(crate) fn service_cidrs(&self) -> impl Iterator<Item = Cidr> {
        std::iter::once(self.service_cidr).chain(self.secondary_service_cidr)
    }

    /// Returns the address of the server for clients inside the cluster.
    pub(crate) fn server(&self) -> Option<SocketAddr> {
        let address = self.advertise_address?;
        Some(SocketAddr::new(address, self.secure_port))
    }
}
