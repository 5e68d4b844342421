//! Feature gates: what of kube-apiserver 1.36 is on, by its defaults and by `--feature-gates`
//! (<https://kubernetes.io/docs/reference/command-line-tools-reference/feature-gates/>).
//!
//! All gates of the reference are known, with stage and default. Those that change something here are a [`Feature`] each; kinds
//! get a set of these when they are made, so that no request looks anything up.

mod gates;

pub use gates::{Claim, FeatureError, FeatureGates, Gate, Stage, truth};

/// Names the gates that change something here.
macro_rules! features {
    ($(#[doc = $doc:literal] $name:ident,)+) => {
        /// A gate that changes something here, by the reference's name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Feature {
            $(#[doc = $doc] $name,)+
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

            /// Returns the effect of the gate.
            pub fn effect(self) -> &'static str {
                match self {
                    $(Feature::$name => $doc.trim_ascii(),)+
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
    /// Servers that share a store announce themselves by leases.
    APIServerIdentity,
    /// Client certificates name the uid of their user.
    AllowParsingUserUIDFromCertAuth,
    /// Nodes may ask for certificates in any name.
    AllowInsecureKubeletCertificateSigningRequests,
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
    /// Leases keep `spec.strategy` and `spec.preferredHolder`.
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
    /// Drivers report the devices of a claim.
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
    /// The status of a volume says which image it is.
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
    /// Front proxies and aggregated servers get the uids of users.
    RemoteRequestHeaderUID,
    /// The status of containers says how their devices are.
    ResourceHealthStatus,
    /// The health of devices comes with a message.
    ResourceHealthStatusMessage,
    /// The end of a container may start all containers of a Pod again.
    RestartAllContainersOnContainerExits,
    /// SELinux labels may be set by mounts.
    SELinuxMount,
    /// Nodes ask for tokens for audiences that their Pods name.
    ServiceAccountNodeAudienceRestriction,
    /// Only writes to the status of ServiceCIDRs change it.
    ServiceCIDRStatusFieldWiping,
    /// Lists and watches may ask for the objects of a shard.
    ShardedListAndWatch,
    /// Lists take seats by the bytes that they show.
    SizeBasedListCostEstimate,
    /// Servers publish in which versions they store what they serve.
    StorageVersionAPI,
    /// Discovery has a hash of the version that objects are stored in.
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
    /// HTTP/2 connections of unauthenticated clients end with their first request.
    UnauthenticatedHTTP2DOSMitigation,
    /// Pods on the network of the host may have users of their own.
    UserNamespacesHostNetworkSupport,
    /// Drivers may keep Pods from nodes that lack them.
    VolumeLimitScaling,
    /// Health says whether the store can be written to.
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
