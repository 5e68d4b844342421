//! Feature gates of kube-apiserver 1.36, by its defaults and by `--feature-gates`
//! (<https://kubernetes.io/docs/reference/command-line-tools-reference/feature-gates/>).
//!
//! All gates of the reference are known, with stage and default. Each gate that has an effect here is a [`Feature`].
//! Kinds get the set of enabled features when they are constructed, so that no request looks up a gate.

mod gates;

pub use gates::{Claim, FeatureError, FeatureGates, Gate, Stage, truth};

/// Declares the gates that have an effect here.
macro_rules! features {
    ($(#[doc = $doc:literal] $name:ident,)+) => {
        /// Gate that has an effect here, by the reference's name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Feature {
            $(#[doc = $doc] $name,)+
        }

        impl Feature {
            /// All gates that have an effect here.
            pub const ALL: &'static [Feature] = &[$(Feature::$name),+];

            /// Returns the name of the gate.
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

            /// Returns the feature whose gate has that name.
            pub fn named(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|feature| feature.name() == name)
            }
        }
    };
}

features! {
    /// Large responses are compressed.
    APIResponseCompression,
    /// Servers that share a store announce themselves with leases.
    APIServerIdentity,
    /// Client certificates contain the uid of their user.
    AllowParsingUserUIDFromCertAuth,
    /// Nodes may request certificates for any name.
    AllowInsecureKubeletCertificateSigningRequests,
    /// Objects that cannot be read may be deleted.
    AllowUnsafeMalformedObjectDeletion,
    /// Commands and attachments over WebSockets also require the right to create.
    AuthorizePodWebsocketUpgradeCreatePermission,
    /// Objects are served in CBOR.
    CBORServingAndStorage,
    /// Binding a Pod clears its nominated node name.
    ClearingNominatedNodeNameAfterBinding,
    /// ClusterTrustBundles are served.
    ClusterTrustBundle,
    /// Pods may mount ClusterTrustBundles.
    ClusterTrustBundleProjection,
    /// `/flagz` lists the flags of the server.
    ComponentFlagz,
    /// `/statusz` reports the version and the start time of the server.
    ComponentStatusz,
    /// Impersonation may be permitted with verbs of its own.
    ConstrainedImpersonation,
    /// Containers may have restart rules.
    ContainerRestartRules,
    /// Containers may set their stop signal.
    ContainerStopSignals,
    /// The server elects holders of Leases among LeaseCandidates. Leases keep `spec.strategy` and `spec.preferredHolder`.
    CoordinatedLeaderElection,
    /// The source of a claim may be in another namespace.
    CrossNamespaceVolumeDataSource,
    /// Claims may consume a part of the capacity of a device.
    DRAConsumableCapacity,
    /// Pods may have to wait for the conditions of devices before they are bound.
    DRADeviceBindingConditions,
    /// Devices may have taints, which claims may tolerate.
    DRADeviceTaints,
    /// Device classes may represent extended resources.
    DRAExtendedResource,
    /// Attributes of devices may be lists.
    DRAListTypeAttributes,
    /// Devices may count towards the allocatable resources of a node.
    DRANodeAllocatableResources,
    /// Devices may be partitions of other devices.
    DRAPartitionableDevices,
    /// Device requests may list alternatives by priority.
    DRAPrioritizedList,
    /// ResourcePoolStatusRequests are served.
    DRAResourcePoolStatus,
    /// Drivers report the devices of a claim.
    DRAResourceClaimDeviceStatus,
    /// Parts of the status of a claim require permissions of their own.
    DRAResourceClaimGranularStatusAuthorization,
    /// PodGroups may share claims.
    DRAWorkloadResourceClaims,
    /// The status of workloads counts terminating Pods.
    DeploymentReplicaSetTerminatingReplicas,
    /// The environment of containers may come from files.
    EnvFiles,
    /// Kubelets that declare support for WebSockets get them unchanged.
    ExtendWebSocketsToKubelet,
    /// PodGroups and Workloads are served, and Pods may belong to a PodGroup.
    GenericWorkload,
    /// Autoscalers may set the tolerance of a metric.
    HPAConfigurableTolerance,
    /// Autoscalers may scale to zero Pods.
    HPAScaleToZero,
    /// Pods may override their hostname.
    HostnameOverride,
    /// The status of an image volume contains the digest of the image.
    ImageVolumeWithDigest,
    /// Pod-level resources may change in place.
    InPlacePodLevelResourcesVerticalScaling,
    /// The resources of init containers may change in place.
    InPlacePodVerticalScalingInitContainers,
    /// Nodes may read the service accounts of their Pods.
    KubeletServiceAccountTokenForCredentialProviders,
    /// Names of admission configurations from files are reserved.
    ManifestBasedAdmissionControlConfig,
    /// Topology spread constraints may set label keys.
    MatchLabelKeysInPodTopologySpread,
    /// The label keys of topology spread constraints are merged into their selectors.
    MatchLabelKeysInPodTopologySpreadSelectorMerge,
    /// StatefulSets may set the number of unavailable Pods during an update.
    MaxUnavailableStatefulSet,
    /// The node affinity of volumes may change.
    MutablePVNodeAffinity,
    /// The resources of suspended Jobs may change.
    MutablePodResourcesForSuspendedJobs,
    /// The scheduling directives of a Job may change whenever the Job is suspended.
    MutableSchedulingDirectivesForSuspendedJobs,
    /// MutatingAdmissionPolicies change written objects.
    MutatingAdmissionPolicy,
    /// Updates of Pods are validated against the declared features of their node.
    NodeDeclaredFeatures,
    /// OpenAPI documents list the values of fields.
    OpenAPIEnums,
    /// PodCertificateRequests are served, and Pods may mount the issued certificates.
    PodCertificateRequest,
    /// The deletion cost of a Pod must be a number.
    PodDeletionCost,
    /// Pods may have pod-level resources.
    PodLevelResources,
    /// Pods get the topology labels of their nodes.
    PodTopologyLabelsAdmission,
    /// Port forwarding that is tunnelled in WebSockets is unpacked for the kubelet.
    PortForwardWebsockets,
    /// Names of Services may begin with a digit.
    RelaxedServiceNameValidation,
    /// Front proxies and aggregated servers get the uids of users.
    RemoteRequestHeaderUID,
    /// The status of containers reports the health of their devices.
    ResourceHealthStatus,
    /// The health of devices has a message.
    ResourceHealthStatusMessage,
    /// The exit of a container may restart all containers of a Pod.
    RestartAllContainersOnContainerExits,
    /// SELinux labels may be set with mount options.
    SELinuxMount,
    /// Nodes may only request tokens for audiences that their Pods use.
    ServiceAccountNodeAudienceRestriction,
    /// Only writes to the status of ServiceCIDRs change it.
    ServiceCIDRStatusFieldWiping,
    /// Lists and watches may select the objects of a shard.
    ShardedListAndWatch,
    /// The number of seats of a list depends on the bytes that it returns.
    SizeBasedListCostEstimate,
    /// Servers publish the versions in which they store resources.
    StorageVersionAPI,
    /// Discovery contains a hash of the storage version.
    StorageVersionHash,
    /// StorageVersionMigrations are served.
    StorageVersionMigrator,
    /// Ambiguous IP addresses and CIDRs are rejected.
    StrictIPCIDRValidation,
    /// Tolerations may compare numbers.
    TaintTolerationComparisonOperators,
    /// A token request may contain the uid of its service account.
    TokenRequestServiceAccountUIDValidation,
    /// PodGroups may have topology constraints.
    TopologyAwareWorkloadScheduling,
    /// Commands and attachments over WebSockets are translated to SPDY for the kubelet.
    TranslateStreamCloseWebsocketRequests,
    /// HTTP/2 connections of unauthenticated clients close after their first request.
    UnauthenticatedHTTP2DOSMitigation,
    /// Pods on the host network may have their own user namespace.
    UserNamespacesHostNetworkSupport,
    /// CSI drivers may keep Pods off nodes that lack the driver.
    VolumeLimitScaling,
    /// Health checks report if the store is writable.
    WatchCacheInitializationPostStartHook,
    /// Watches may begin with the existing objects.
    WatchList,
    /// PodGroups have a priority of their own.
    WorkloadAwarePreemption,
}

/// Enabled features, of those that have an effect here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features(u128);

impl Features {
    /// Returns true if the feature is enabled.
    pub fn has(self, feature: Feature) -> bool {
        self.0 & Self::bit(feature) != 0
    }

    /// Returns true if a feature of that name is enabled. One without an effect here is disabled.
    pub(crate) fn has_named(self, name: &str) -> bool {
        Feature::named(name).is_some_and(|feature| self.has(feature))
    }

    fn bit(feature: Feature) -> u128 {
        1 << (feature as u32)
    }
}

impl Default for Features {
    /// Returns the features that are enabled by default.
    fn default() -> Self {
        FeatureGates::default().features()
    }
}
