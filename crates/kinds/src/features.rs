//! Feature gates: what of kube-apiserver 1.36 is on, by its defaults and by `--feature-gates`
//! (<https://kubernetes.io/docs/reference/command-line-tools-reference/feature-gates/>).
//!
//! All gates of the reference are known, with stage and default. Those that change something here are a [`Feature`] each; kinds
//! get a set of these when they are made, so that no request looks anything up.

use std::collections::BTreeMap;
use std::fmt;

use holdfast_gotext::errors::aggregate;

/// Names the gates that change something here.
macro_rules! features {
    ($($(#[$doc:meta])* $name:ident,)+) => {
        /// A gate that changes something here, by the reference's name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Feature {
            $($(#[$doc])* $name,)+
        }

        impl Feature {
            /// All of them.
            pub const ALL: &'static [Feature] = &[$(Feature::$name),+];

            /// The name of the gate.
            pub fn name(self) -> &'static str {
                match self {
                    $(Feature::$name => stringify!($name),)+
                }
            }

            /// The feature whose gate has that name.
            pub fn named(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|feature| feature.name() == name)
            }
        }
    };
}

features! {
    /// Large answers are compressed.
    APIResponseCompression,
    /// Servers that share a store tell of themselves by leases.
    APIServerIdentity,
    /// Client certificates name the uid of their user.
    AllowParsingUserUIDFromCertAuth,
    /// Objects that cannot be read may be deleted.
    AllowUnsafeMalformedObjectDeletion,
    /// Commands and attachments over WebSockets take the right to create, too.
    AuthorizePodWebsocketUpgradeCreatePermission,
    /// Objects are served in CBOR.
    CBORServingAndStorage,
    /// Pods that are bound are not nominated any more.
    ClearingNominatedNodeNameAfterBinding,
    /// Bundles of trust anchors are served.
    ClusterTrustBundle,
    /// Pods may mount bundles of trust anchors.
    ClusterTrustBundleProjection,
    /// `/flagz` shows the flags of the server.
    ComponentFlagz,
    /// `/statusz` shows what runs here and since when.
    ComponentStatusz,
    /// Users may be impersonated by verbs of their own.
    ConstrainedImpersonation,
    /// Containers may say when they are started again.
    ContainerRestartRules,
    /// Containers may name the signal that ends them.
    ContainerStopSignals,
    /// Leases name a strategy and a preferred holder.
    CoordinatedLeaderElection,
    /// The source of a claim may stand in another namespace.
    CrossNamespaceVolumeDataSource,
    /// Claims may take a part of what a device can give.
    DRAConsumableCapacity,
    /// Devices may have to be ready before Pods are bound.
    DRADeviceBindingConditions,
    /// Devices may have taints, and claims tolerate them.
    DRADeviceTaints,
    /// Classes of devices may stand for extended resources.
    DRAExtendedResource,
    /// Attributes of devices may be lists.
    DRAListTypeAttributes,
    /// Devices may count towards what a node can give.
    DRANodeAllocatableResources,
    /// Devices may be parts of others.
    DRAPartitionableDevices,
    /// Requests for devices may name alternatives.
    DRAPrioritizedList,
    /// Requests for the status of pools of devices are answered.
    DRAResourcePoolStatus,
    /// Drivers tell of the devices of a claim.
    DRAResourceClaimDeviceStatus,
    /// The parts of the status of a claim take rights of their own.
    DRAResourceClaimGranularStatusAuthorization,
    /// Groups of Pods may share claims.
    DRAWorkloadResourceClaims,
    /// The status of workloads counts Pods that are ending.
    DeploymentReplicaSetTerminatingReplicas,
    /// The environment of containers may come from files.
    EnvFiles,
    /// Groups of Pods and workloads are served, and Pods belong to groups.
    GenericWorkload,
    /// Autoscalers may say how far off a metric may be.
    HPAConfigurableTolerance,
    /// Autoscalers may go down to no Pods at all.
    HPAScaleToZero,
    /// Pods may name their host.
    HostnameOverride,
    /// The status of a volume tells which image it is.
    ImageVolumeWithDigest,
    /// The resources of Pods as a whole may change.
    InPlacePodLevelResourcesVerticalScaling,
    /// The resources of init containers may change.
    InPlacePodVerticalScalingInitContainers,
    /// Names of configurations that come from files are kept free.
    ManifestBasedAdmissionControlConfig,
    /// Constraints of topology may name keys of labels.
    MatchLabelKeysInPodTopologySpread,
    /// The keys of labels that constraints of topology name go to their selectors.
    MatchLabelKeysInPodTopologySpreadSelectorMerge,
    /// StatefulSets may say how many Pods may be away during an update.
    MaxUnavailableStatefulSet,
    /// Volumes may move to other nodes.
    MutablePVNodeAffinity,
    /// The resources of suspended Jobs may change.
    MutablePodResourcesForSuspendedJobs,
    /// Where the Pods of a Job may run may change whenever the Job is suspended.
    MutableSchedulingDirectivesForSuspendedJobs,
    /// Policies change what is written.
    MutatingAdmissionPolicy,
    /// The features that nodes declare are looked at when Pods change.
    NodeDeclaredFeatures,
    /// OpenAPI documents list the values of fields.
    OpenAPIEnums,
    /// Requests for certificates of Pods are served, and Pods may mount what comes of them.
    PodCertificateRequest,
    /// The cost of deleting a Pod must be a number.
    PodDeletionCost,
    /// Pods have resources as a whole.
    PodLevelResources,
    /// Pods get the labels of the topology of their nodes.
    PodTopologyLabelsAdmission,
    /// Names of services may begin with a digit.
    RelaxedServiceNameValidation,
    /// Front proxies and aggregated servers are told the uids of users.
    RemoteRequestHeaderUID,
    /// The status of containers tells how their devices are.
    ResourceHealthStatus,
    /// The health of devices comes with a message.
    ResourceHealthStatusMessage,
    /// The end of a container may start all containers of a Pod again.
    RestartAllContainersOnContainerExits,
    /// SELinux labels may be set by mounts.
    SELinuxMount,
    /// Only writes to the status of ServiceCIDRs change it.
    ServiceCIDRStatusFieldWiping,
    /// Lists and watches may ask for the objects of a shard.
    ShardedListAndWatch,
    /// Lists take seats by the bytes that they show.
    SizeBasedListCostEstimate,
    /// Servers tell in which versions they store what they serve.
    StorageVersionAPI,
    /// Discovery tells a hash of the version that objects are stored in.
    StorageVersionHash,
    /// Migrations of stored objects are served.
    StorageVersionMigrator,
    /// Addresses are written so that all programs read them alike.
    StrictIPCIDRValidation,
    /// Tolerations may compare numbers.
    TaintTolerationComparisonOperators,
    /// A request for a token may say which account of its name it means.
    TokenRequestServiceAccountUIDValidation,
    /// Groups of Pods may have constraints of topology.
    TopologyAwareWorkloadScheduling,
    /// HTTP/2 connections of clients that nobody knows end with their first request.
    UnauthenticatedHTTP2DOSMitigation,
    /// Pods on the network of the host may have users of their own.
    UserNamespacesHostNetworkSupport,
    /// Drivers may keep Pods from nodes that lack them.
    VolumeLimitScaling,
    /// Health tells whether the store can be written to.
    WatchCacheInitializationPostStartHook,
    /// Watches may begin with the objects that are there.
    WatchList,
    /// Groups of Pods have a priority of their own.
    WorkloadAwarePreemption,
}

/// The features that are on, of those that change something here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features(u128);

impl Features {
    /// Whether the feature is on.
    pub fn has(self, feature: Feature) -> bool {
        self.0 & Self::bit(feature) != 0
    }

    /// Whether a feature of that name is on. One that nothing here knows is off.
    pub(crate) fn has_named(self, name: &str) -> bool {
        Feature::named(name).is_some_and(|feature| self.has(feature))
    }

    fn bit(feature: Feature) -> u128 {
        1 << (feature as u32)
    }
}

impl Default for Features {
    /// Those that are on by default.
    fn default() -> Self {
        FeatureGates::default().features()
    }
}

/// How mature a feature is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Off by default.
    Alpha,
    /// On or off by default.
    Beta,
    /// On, and soon without a gate.
    Stable,
    /// About to go.
    Deprecated,
}

impl Stage {
    /// The name of the stage as the reference's metrics have it; empty for what is stable.
    pub fn name(self) -> &'static str {
        match self {
            Self::Alpha => "ALPHA",
            Self::Beta => "BETA",
            Self::Stable => "",
            Self::Deprecated => "DEPRECATED",
        }
    }
}

/// A gate of the reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gate {
    /// Its name.
    pub name: &'static str,
    /// How mature the feature is.
    pub stage: Stage,
    /// Whether the feature is on.
    pub on: bool,
    locked: bool,
    needs: Vec<&'static str>,
    components: Vec<&'static str>,
    idle: Option<&'static str>,
}

impl Gate {
    /// Why it changes nothing here, where that is said.
    pub fn idle(&self) -> Option<&'static str> {
        self.idle
    }

    /// The components in which alone it means something; none where it is one of API servers.
    pub fn components(&self) -> &[&'static str] {
        &self.components
    }

    /// Whether it sets all gates of its stage.
    pub fn is_of_stage(&self) -> bool {
        [ALL_ALPHA, ALL_BETA].contains(&self.name)
    }

    /// Whether it may not be set to another value.
    pub fn is_locked(&self) -> bool {
        self.locked
    }

    /// The gate that a line of the table describes.
    fn of(line: &'static str) -> Option<Self> {
        let (line, idle) = match line.split_once(" because ") {
            Some((line, why)) => (line, Some(why)),
            None => (line, None),
        };
        let mut words = line.split(' ');
        let (name, stage, on) = (words.next()?, words.next()?, words.next()?);
        let stage = match stage {
            "alpha" => Stage::Alpha,
            "beta" => Stage::Beta,
            "ga" => Stage::Stable,
            "deprecated" => Stage::Deprecated,
            _ => return None,
        };
        let mut gate = Self {
            name,
            stage,
            on: on == "on",
            locked: false,
            needs: Vec::new(),
            components: Vec::new(),
            idle,
        };
        while let Some(word) = words.next() {
            let list = match word {
                "locked" => {
                    gate.locked = true;
                    continue;
                }
                "needs" => &mut gate.needs,
                "in" => &mut gate.components,
                _ => return None,
            };
            list.extend(words.next()?.split(','));
        }
        Some(gate)
    }
}

/// Why gates cannot be set so, in the words of the reference.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct FeatureError(String);

/// All gates of the reference and whether each is on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeatureGates {
    gates: Vec<Gate>,
    warnings: Vec<String>,
}

impl Default for FeatureGates {
    fn default() -> Self {
        let lines = include_str!("tables/features.txt").lines();
        Self {
            gates: lines
                .filter(|line| !line.starts_with('#'))
                .filter_map(Gate::of)
                .collect(),
            warnings: Vec::new(),
        }
    }
}

const ALL_ALPHA: &str = "AllAlpha";
const ALL_BETA: &str = "AllBeta";

impl FeatureGates {
    /// The gates where `--feature-gates` was given these values, each a list of `Name=true` or `kube:Name=true`.
    ///
    /// # Errors
    /// Where a gate is unknown, locked or needs others that are off, or a value is no truth value.
    pub fn set(flags: &[String]) -> Result<Self, FeatureError> {
        let settings = read(flags)?;
        let mut gates = Self::default();
        if let Some(unknown) = settings.keys().find(|name| gates.gate(name).is_none()) {
            return Err(FeatureError(format!("unrecognized feature gate: {unknown}")));
        }
        let mut errors = Vec::new();
        for (all, stage) in [(ALL_ALPHA, Stage::Alpha), (ALL_BETA, Stage::Beta)] {
            if let Some(on) = settings.get(all) {
                let of_stage = gates.gates.iter_mut().filter(|gate| gate.stage == stage);
                of_stage
                    .filter(|gate| !gate.is_of_stage())
                    .for_each(|gate| gate.on = *on);
            }
        }
        for gate in &mut gates.gates {
            let Some(on) = settings.get(gate.name) else { continue };
            if gate.locked && gate.on != *on {
                errors.push(format!(
                    "cannot set feature gate {} to {on}, feature is locked to {}",
                    gate.name, gate.on
                ));
                continue;
            }
            gate.on = *on;
            let sort = match gate.stage {
                Stage::Stable => "GA",
                Stage::Deprecated => "deprecated",
                Stage::Alpha | Stage::Beta => continue,
            };
            gates.warnings.push(format!(
                "setting {sort} feature gate {}={on}. It will be removed in a future release.",
                gate.name
            ));
        }
        if errors.is_empty() {
            errors = gates.unmet();
        }
        match errors.is_empty() {
            true => Ok(gates),
            false => Err(FeatureError(aggregate(&errors))),
        }
    }

    /// What the log says of gates that need not or should not be set.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// All gates, in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = &Gate> {
        self.gates.iter()
    }

    /// The features that are on, of those that change something here.
    pub fn features(&self) -> Features {
        let on = Feature::ALL
            .iter()
            .filter(|feature| self.gate(feature.name()).is_some_and(|gate| gate.on));
        Features(on.fold(0, |bits, feature| bits | Features::bit(*feature)))
    }

    fn gate(&self, name: &str) -> Option<&Gate> {
        self.gates.iter().find(|gate| gate.name == name)
    }

    /// The gates that are on while others that they need are off.
    fn unmet(&self) -> Vec<String> {
        let is_off = |name: &&&str| self.gate(name).is_some_and(|gate| !gate.on);
        let unmet = self.gates.iter().filter(|gate| gate.on).filter_map(|gate| {
            let off: Vec<&str> = gate.needs.iter().filter(is_off).copied().collect();
            let sentence = || {
                format!(
                    "{} is enabled, but depends on features that are disabled: [{}]",
                    gate.name,
                    off.join(" ")
                )
            };
            (!off.is_empty()).then(sentence)
        });
        unmet.collect()
    }
}

impl fmt::Display for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name, self.on)
    }
}

/// The component that gates are of where a flag names none.
const KUBE: &str = "kube";

/// The gates that the values of flags name, each with its last value.
fn read(flags: &[String]) -> Result<BTreeMap<String, bool>, FeatureError> {
    let mut settings = BTreeMap::new();
    let (mut named, mut unnamed) = (false, false);
    for pair in flags
        .iter()
        .flat_map(|flag| flag.split(','))
        .filter(|pair| !pair.is_empty())
    {
        let (component, pair) = match pair.split_once(':') {
            Some((component, pair)) => (component.trim(), pair.trim()),
            None => ("", pair.trim()),
        };
        named |= component == KUBE;
        unnamed |= component.is_empty();
        if !["", KUBE].contains(&component) {
            return Err(FeatureError(format!("component not registered: {component}")));
        }
        if named && unnamed {
            let text = "set kube feature gates with default empty prefix or kube: prefix consistently, do not mix use";
            return Err(FeatureError(text.to_owned()));
        }
        if pair.is_empty() {
            continue;
        }
        let (name, value) = match pair.split_once('=') {
            Some((name, value)) => (name.trim(), value.trim()),
            None => return Err(FeatureError(format!("missing bool value for {pair}"))),
        };
        let on = truth(value).map_err(|why| FeatureError(format!("invalid value of {name}={value}, err: {why}")))?;
        settings.insert(name.to_owned(), on);
    }
    Ok(settings)
}

/// A truth value as Go reads it.
///
/// # Errors
/// In Go's words, where `text` is none.
pub fn truth(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Ok(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Ok(false),
        _ => Err(format!("strconv.ParseBool: parsing {text:?}: invalid syntax")),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::apis::Apis;
    use crate::harness::{Harness, at};

    fn set(flags: &[&str]) -> Result<FeatureGates, String> {
        let flags: Vec<String> = flags.iter().map(|&flag| flag.to_owned()).collect();
        FeatureGates::set(&flags).map_err(|error| error.to_string())
    }

    fn is_on(gates: &FeatureGates, name: &str) -> bool {
        gates.gate(name).unwrap().on
    }

    #[test]
    fn every_line_of_the_table_is_a_gate_and_every_feature_has_one() {
        let lines = include_str!("tables/features.txt").lines();
        let gates = FeatureGates::default();
        assert_eq!(gates.gates.len(), lines.filter(|line| !line.starts_with('#')).count());
        assert!(gates.gates.is_sorted_by_key(|gate| gate.name));
        for feature in Feature::ALL {
            assert!(gates.gate(feature.name()).is_some(), "{feature:?}");
        }
        for needed in gates.gates.iter().flat_map(|gate| &gate.needs) {
            assert!(gates.gate(needed).is_some(), "{needed}");
        }
        assert_eq!(gates.unmet(), Vec::<String>::new());
        assert!(Feature::ALL.len() <= 128);
    }

    #[test]
    fn defaults_are_those_of_the_reference() {
        let features = Features::default();
        assert!(features.has(Feature::WatchList) && features.has(Feature::MutatingAdmissionPolicy));
        assert!(!features.has(Feature::ContainerStopSignals) && !features.has(Feature::MaxUnavailableStatefulSet));
    }

    #[test]
    fn gates_are_set_by_name_by_stage_and_by_several_flags() {
        let gates = set(&["ContainerStopSignals=true,WatchList=0", "MaxUnavailableStatefulSet=T"]).unwrap();
        let features = gates.features();
        assert!(features.has(Feature::ContainerStopSignals) && features.has(Feature::MaxUnavailableStatefulSet));
        assert!(!features.has(Feature::WatchList));
        let gates = set(&[
            "kube:GenericWorkload=false,kube:AllAlpha=true",
            "kube:GangScheduling=false",
        ]);
        assert_eq!(
            gates.unwrap_err(),
            "[DRAWorkloadResourceClaims is enabled, but depends on features that are disabled: [GenericWorkload], \
             TopologyAwareWorkloadScheduling is enabled, but depends on features that are disabled: [GenericWorkload], \
             WorkloadAwarePreemption is enabled, but depends on features that are disabled: [GangScheduling], \
             WorkloadWithJob is enabled, but depends on features that are disabled: [GenericWorkload]]"
        );
        let gates = set(&["AllAlpha=true,ContainerStopSignals=false,AllBeta=true"]).unwrap();
        assert!(is_on(&gates, "GenericWorkload") && !is_on(&gates, "ContainerStopSignals"));
        assert!(is_on(&gates, "AllAlpha") && is_on(&gates, "SELinuxMount"));
        assert!(!is_on(&gates, "WindowsHostNetwork"));
    }

    #[test]
    fn refusals_are_in_the_words_of_the_reference() {
        for (flag, error) in [
            ("Nope=true", "unrecognized feature gate: Nope"),
            ("WatchList", "missing bool value for WatchList"),
            (
                "WatchList=maybe",
                "invalid value of WatchList=maybe, err: strconv.ParseBool: parsing \"maybe\": invalid syntax",
            ),
            (
                "APIServerTracing=false",
                "cannot set feature gate APIServerTracing to false, feature is locked to true",
            ),
            (
                "ClusterTrustBundleProjection=true",
                "ClusterTrustBundleProjection is enabled, but depends on features that are disabled: [ClusterTrustBundle]",
            ),
            ("wardle:A=true", "component not registered: wardle"),
            (
                "kube:WatchList=true,WatchList=true",
                "set kube feature gates with default empty prefix or kube: prefix consistently, do not mix use",
            ),
        ] {
            assert_eq!(set(&[flag]).unwrap_err(), error);
        }
    }

    #[test]
    fn gates_that_will_go_are_warned_of() {
        let gates = set(&["APIServerTracing=true,WindowsHostNetwork=false,WatchList=true"]).unwrap();
        assert_eq!(
            gates.warnings(),
            [
                "setting GA feature gate APIServerTracing=true. It will be removed in a future release.",
                "setting deprecated feature gate WindowsHostNetwork=false. It will be removed in a future release."
            ]
        );
    }

    #[test]
    fn every_gate_that_may_be_set_changes_something_or_says_why_not() {
        for gate in FeatureGates::default()
            .iter()
            .filter(|gate| !gate.is_locked() && !gate.is_of_stage())
        {
            let is_felt = Feature::named(gate.name).is_some();
            let is_elsewhere = !gate.components().is_empty();
            let told = [is_felt, is_elsewhere, gate.idle().is_some()];
            assert_eq!(told.iter().filter(|told| **told).count(), 1, "{}", gate.name);
        }
    }

    #[test]
    fn every_gate_of_a_field_is_a_feature() {
        let apis = Apis::set(&["api/all=true".to_owned()]).unwrap();
        let types = crate::tables::types_of(&apis).unwrap();
        let fields = types.iter().flat_map(|(_, of)| of.fields());
        let gates: Vec<&str> = fields
            .filter_map(|field| Some(field.marks.gate.as_ref()?.name.as_str()))
            .collect();
        assert!(!gates.is_empty());
        for gate in gates {
            assert!(Feature::named(gate).is_some(), "{gate}");
        }
    }

    #[test]
    fn objects_keep_the_fields_of_features_that_they_use() {
        let lease = "{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: a, namespace: b}, spec: {strategy: \
                     OldestEmulationVersion, preferredHolder: h}}";
        let harness = Harness::new();
        let mut old = harness.read(lease);
        old.remove_at(&["spec", "preferredHolder"]);
        let kept = harness.update(&old, lease);
        assert_eq!(at(&kept, "spec"), r#"{"strategy":"OldestEmulationVersion"}"#);
        let pod = |containers: &str| {
            format!("{{apiVersion: v1, kind: Pod, metadata: {{name: a}}, spec: {{containers: [{containers}]}}}}")
        };
        let stops = |name: &str| format!("{{name: {name}, image: i, lifecycle: {{stopSignal: SIGTERM}}}}");
        let (one, two) = (pod(&stops("a")), pod(&format!("{}, {}", stops("a"), stops("b"))));
        let kept = harness.update(&harness.read(&one), &two);
        assert_eq!(at(&kept, "spec.containers.1.lifecycle.stopSignal"), "\"SIGTERM\"");
        assert_eq!(at(&harness.create(&two), "spec.containers.1.lifecycle"), "nothing");
    }

    #[test]
    fn kinds_keep_the_fields_of_features_that_are_on() {
        for (gates, object, path, kept) in [
            (
                "MaxUnavailableStatefulSet=true",
                "{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: a}, spec: {serviceName: s, selector: \
                 {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}, \
                 updateStrategy: {type: RollingUpdate, rollingUpdate: {}}}}",
                "spec.updateStrategy.rollingUpdate.maxUnavailable",
                "1",
            ),
            (
                "CoordinatedLeaderElection=true",
                "{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: a, namespace: b}, spec: {strategy: \
                 OldestEmulationVersion}}",
                "spec.strategy",
                "\"OldestEmulationVersion\"",
            ),
            (
                "VolumeLimitScaling=true",
                "{apiVersion: storage.k8s.io/v1, kind: CSIDriver, metadata: {name: a}, spec: {}}",
                "spec.preventPodSchedulingIfMissing",
                "false",
            ),
            (
                "GenericWorkload=true",
                "{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {schedulingGroup: {podGroupName: g}, containers: \
                 [{name: c, image: i}]}}",
                "spec.schedulingGroup.podGroupName",
                "\"g\"",
            ),
        ] {
            assert_eq!(at(&Harness::with_gates(gates).create(object), path), kept, "{gates}");
            assert_eq!(at(&Harness::new().create(object), path), "nothing", "{gates}");
        }
        let scaler = "{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: a}, spec: {minReplicas: 0, \
                      maxReplicas: 3, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: d}, metrics: [{type: External, \
                      external: {metric: {name: m}, target: {type: Value, value: 1}}}]}}";
        let refused = ["spec.minReplicas: Invalid value: 0: must be greater than or equal to 1"];
        assert_eq!(Harness::new().errors(scaler), refused);
        assert_eq!(
            Harness::with_gates("HPAScaleToZero=true").errors(scaler),
            Vec::<String>::new()
        );
    }

    const POD: &str = "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {hostnameOverride: h, resources: {limits: {cpu: 1}}, \
         initContainers: [{name: i, image: i, restartPolicy: Always}], containers: [{name: c, image: i, restartPolicy: Never, \
         restartPolicyRules: [{action: Restart, exitCodes: {operator: In, values: [1]}}], env: [{name: E, valueFrom: \
         {fileKeyRef: {volumeName: v, path: p, key: k}}}]}], volumes: [{name: v, emptyDir: {}}]}}";

    /// What a Pod has of fields that features hold back.
    fn fields_of_pod(gates: &str, old: Option<&str>) -> Vec<String> {
        let harness = Harness::with_gates(gates);
        let pod = match old {
            None => harness.create(POD),
            Some(old) => harness.shaped(None, &Harness::new().create(old), harness.read(POD)),
        };
        let paths = [
            "spec.hostnameOverride",
            "spec.resources.limits.cpu",
            "spec.initContainers.0.restartPolicy",
            "spec.containers.0.restartPolicy",
            "spec.containers.0.env.0.valueFrom.fileKeyRef.key",
        ];
        paths.iter().map(|path| at(&pod, path)).collect()
    }

    #[test]
    fn fields_are_dropped_while_their_features_are_off() {
        let all = fields_of_pod("WatchList=true", None);
        let off = "HostnameOverride=false,PodLevelResources=false,InPlacePodLevelResourcesVerticalScaling=false,\
                   ContainerRestartRules=false,RestartAllContainersOnContainerExits=false,EnvFiles=false";
        let none = fields_of_pod(off, None);
        let kept: Vec<bool> = all.iter().zip(&none).map(|(with, without)| with == without).collect();
        // What a sidecar says has nothing to do with these features.
        assert_eq!(kept, [false, false, true, false, false]);
        assert_eq!(fields_of_pod(off, Some(POD)), all);
    }

    #[test]
    fn old_fields_take_addresses_that_not_all_read_alike_where_that_is_allowed() {
        const OBJECTS: [&str; 7] = [
            "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c, image: i}], hostAliases: [{ip: \
             010.1.2.3}], dnsConfig: {nameservers: ['::ffff:1.2.3.4']}}}",
            "{apiVersion: v1, kind: Service, metadata: {name: s}, spec: {ports: [{port: 80}], externalIPs: [010.1.2.3]}}",
            "{apiVersion: v1, kind: Service, metadata: {name: s}, spec: {type: LoadBalancer, ports: [{port: 80}], \
             loadBalancerSourceRanges: [10.0.0.1/8]}}",
            "{apiVersion: v1, kind: Node, metadata: {name: node}, spec: {podCIDR: 10.0.0.1/8, podCIDRs: [10.0.0.1/8]}}",
            "{apiVersion: v1, kind: Endpoints, metadata: {name: e}, subsets: [{addresses: [{ip: 010.1.2.3}], ports: [{port: \
             80}]}]}",
            "{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: e}, addressType: IPv4, endpoints: \
             [{addresses: [010.1.2.3]}]}",
            "{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: net}, spec: {podSelector: {}, ingress: \
             [{from: [{ipBlock: {cidr: 10.0.0.1/8, except: [010.1.0.0/16]}}]}]}}",
        ];
        let (strict, lenient) = (
            Harness::with_gates("StrictIPCIDRValidation=true"),
            Harness::with_gates("StrictIPCIDRValidation=false"),
        );
        for object in OBJECTS {
            assert_ne!(strict.errors(object), [""; 0], "{object}");
            assert_eq!(lenient.errors(object), [""; 0], "{object}");
            // What is stored may stay.
            let update_of_all = !object.contains("kind: Pod") && !object.contains("kind: Node");
            if update_of_all {
                assert_eq!(strict.update_errors(object, object), [""; 0], "{object}");
            }
        }
        let slice = "{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: e}, addressType: IPv6, endpoints: \
             [{addresses: ['2001:DB8::1']}]}";
        assert_ne!(lenient.errors(slice), [""; 0]);
    }

    #[test]
    fn writes_of_service_blocks_keep_or_change_their_status() {
        let block = "{apiVersion: networking.k8s.io/v1, kind: ServiceCIDR, metadata: {name: c}, spec: {cidrs: [10.1.0.0/16]}, \
                     status: {conditions: [{type: Ready, status: 'True', reason: R, message: m, lastTransitionTime: \
                     '2024-01-01T00:00:00Z'}]}}";
        let reason = |gates| at(&Harness::with_gates(gates).create(block), "status.conditions.0.reason");
        assert_eq!(reason("ServiceCIDRStatusFieldWiping=true"), "nothing");
        assert_eq!(reason("ServiceCIDRStatusFieldWiping=false"), "\"R\"");
    }

    #[test]
    fn fields_of_templates_go_as_those_of_pods() {
        let deployment = "{apiVersion: apps/v1, kind: Deployment, metadata: {name: d}, spec: {selector: {matchLabels: {a: b}}, \
             template: {metadata: {labels: {a: b}}, spec: {hostnameOverride: h, containers: [{name: c, image: i}]}}}}";
        let with = |gates| {
            at(
                &Harness::with_gates(gates).create(deployment),
                "spec.template.spec.hostnameOverride",
            )
        };
        assert_ne!(with("HostnameOverride=true"), with("HostnameOverride=false"));
    }

    #[test]
    fn values_are_refused_or_taken_as_their_features_say() {
        let pod = |spec: &str| {
            format!(
                "{{apiVersion: v1, kind: Pod, metadata: {{name: p}}, spec: {{containers: [{{name: c, image: i}}], {spec}}}}}"
            )
        };
        let compares = pod("tolerations: [{key: a, operator: Gt, value: '5'}]");
        let wrong = pod("tolerations: [{key: a, operator: Gt, value: '05'}]");
        let labels = pod("securityContext: {seLinuxChangePolicy: MountOption}");
        let network = pod("hostUsers: false, hostNetwork: true");
        let service = "{apiVersion: v1, kind: Service, metadata: {name: 1a}, spec: {ports: [{port: 80}]}}";
        let cost = "{apiVersion: v1, kind: Pod, metadata: {name: p, annotations: {controller.kubernetes.io/pod-deletion-cost: x}}, \
             spec: {containers: [{name: c, image: i}]}}";
        for (object, allowing, refusing) in [
            (
                compares.as_str(),
                "TaintTolerationComparisonOperators=true",
                "TaintTolerationComparisonOperators=false",
            ),
            (&labels, "SELinuxMount=true", "SELinuxMount=false"),
            (
                &network,
                "UserNamespacesHostNetworkSupport=true",
                "UserNamespacesHostNetworkSupport=false",
            ),
            (
                service,
                "RelaxedServiceNameValidation=true",
                "RelaxedServiceNameValidation=false",
            ),
            (cost, "PodDeletionCost=false", "PodDeletionCost=true"),
        ] {
            assert_eq!(
                Harness::with_gates(allowing).errors(object),
                Vec::<String>::new(),
                "{allowing}"
            );
            assert_eq!(Harness::with_gates(refusing).errors(object).len(), 1, "{refusing}");
        }
        assert_eq!(
            Harness::with_gates("TaintTolerationComparisonOperators=true").errors(&wrong),
            ["spec.tolerations[0].value: Invalid value: \"05\": must be a valid decimal integer in canonical form"]
        );
    }
}
