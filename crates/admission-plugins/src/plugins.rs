//! Built-in plugins in the order of the reference.

use holdfast_admission::{AdmissionPlugin, DynamicPlugin};
use holdfast_kind_tables::features::Feature;

use crate::settings::PluginSettings;
use crate::{
    always, always_pull_images, certificates, default_class, default_toleration_seconds, deny_service_external_ips,
    event_rate_limit, extended_resource_toleration, image_policy_webhook, limit_pod_hard_anti_affinity_topology,
    limit_ranger, namespace_auto_provision, namespace_exists, namespace_lifecycle, node_declared_feature_validator,
    node_restriction, owner_references_permission_enforcement, persistent_volume_claim_resize, pod_groups,
    pod_node_selector, pod_resize_validator, pod_security, pod_toleration_restriction, pod_topology_labels, priority,
    resource_quota, runtime_class, service_account, storage_object_in_use_protection, taint_nodes_by_condition,
};

/// Returns the plugins that are enabled by default, in the order in which they are called.
pub fn plugins() -> Vec<Box<dyn AdmissionPlugin>> {
    all_plugins(&PluginSettings::default())
        .into_iter()
        .filter(|plugin| plugin.on_by_default())
        .collect()
}

/// Returns all existing plugins, in the order in which they are called.
pub fn all_plugins(settings: &PluginSettings) -> Vec<Box<dyn AdmissionPlugin>> {
    vec![
        Box::new(always::AlwaysAdmit),
        Box::new(namespace_auto_provision::NamespaceAutoProvision),
        Box::new(namespace_lifecycle::NamespaceLifecycle),
        Box::new(namespace_exists::NamespaceExists),
        Box::new(limit_pod_hard_anti_affinity_topology::LimitPodHardAntiAffinityTopology),
        Box::new(limit_ranger::LimitRanger::default()),
        Box::new(service_account::ServiceAccount),
        Box::new(node_restriction::NodeRestriction {
            features: settings.features,
        }),
        Box::new(taint_nodes_by_condition::TaintNodesByCondition),
        Box::new(always_pull_images::AlwaysPullImages),
        Box::new(image_policy_webhook::ImagePolicyWebhook {
            policy: settings.images.clone(),
        }),
        Box::new(pod_security::PodSecurity {
            counters: settings.counters.clone(),
            settings: settings.pod_security.clone(),
        }),
        Box::new(pod_node_selector::PodNodeSelector {
            selectors: settings.node_selectors.clone(),
        }),
        Box::new(priority::Priority {
            of_groups: settings.features.has(Feature::WorkloadAwarePreemption),
        }),
        Box::new(default_toleration_seconds::DefaultTolerationSeconds {
            not_ready: settings.not_ready_seconds,
            unreachable: settings.unreachable_seconds,
        }),
        Box::new(pod_toleration_restriction::PodTolerationRestriction {
            settings: settings.tolerations.clone(),
        }),
        Box::new(event_rate_limit::EventRateLimit::new(&settings.event_limits)),
        Box::new(extended_resource_toleration::ExtendedResourceToleration),
        Box::new(default_class::STORAGE),
        Box::new(storage_object_in_use_protection::StorageObjectInUseProtection),
        Box::new(pod_groups::PodGroupProtection),
        Box::new(owner_references_permission_enforcement::OwnerReferencesPermissionEnforcement),
        Box::new(persistent_volume_claim_resize::PersistentVolumeClaimResize),
        Box::new(runtime_class::RuntimeClass),
        Box::new(certificates::SignerPermission::APPROVAL),
        Box::new(certificates::SignerPermission::SIGNING),
        Box::new(certificates::ClusterTrustBundleAttest),
        Box::new(certificates::CertificateSubjectRestriction),
        Box::new(default_class::INGRESS),
        Box::new(deny_service_external_ips::DenyServiceExternalIPs),
        Box::new(pod_topology_labels::PodTopologyLabels),
        Box::new(pod_groups::PodGroupWorkloadExists),
        Box::new(node_declared_feature_validator::NodeDeclaredFeatureValidator),
        Box::new(pod_groups::JobValidation),
        Box::new(pod_resize_validator::PodResizeValidator),
        // After the others, so that rejected writes are not charged.
        Box::new(resource_quota::ResourceQuota {
            limited: settings.limited_resources.clone(),
        }),
        Box::new(always::AlwaysDeny),
    ]
}

/// Plugin before which admission policies and webhooks run.
const BEHIND_POLICIES_AND_WEBHOOKS: &str = "ResourceQuota";

/// Returns the plugin names that flags accept, including policies and webhooks, in the order of kube-apiserver 1.36.
pub fn names() -> Vec<&'static str> {
    let mut names = Vec::new();
    for plugin in all_plugins(&PluginSettings::default()) {
        if plugin.name() == BEHIND_POLICIES_AND_WEBHOOKS {
            names.extend(DynamicPlugin::ALL.map(DynamicPlugin::name));
        }
        names.push(plugin.name());
    }
    names
}

#[cfg(test)]
mod tests {
    use holdfast_admission::Calls;

    use super::{all_plugins, names};
    use crate::harness::{Harness, at};
    use crate::settings::PluginSettings;

    /// Plugins of kube-apiserver 1.36 in its order.
    const REFERENCE: [&str; 41] = [
        "AlwaysAdmit",
        "NamespaceAutoProvision",
        "NamespaceLifecycle",
        "NamespaceExists",
        "LimitPodHardAntiAffinityTopology",
        "LimitRanger",
        "ServiceAccount",
        "NodeRestriction",
        "TaintNodesByCondition",
        "AlwaysPullImages",
        "ImagePolicyWebhook",
        "PodSecurity",
        "PodNodeSelector",
        "Priority",
        "DefaultTolerationSeconds",
        "PodTolerationRestriction",
        "EventRateLimit",
        "ExtendedResourceToleration",
        "DefaultStorageClass",
        "StorageObjectInUseProtection",
        "PodGroupProtection",
        "OwnerReferencesPermissionEnforcement",
        "PersistentVolumeClaimResize",
        "RuntimeClass",
        "CertificateApproval",
        "CertificateSigning",
        "ClusterTrustBundleAttest",
        "CertificateSubjectRestriction",
        "DefaultIngressClass",
        "DenyServiceExternalIPs",
        "PodTopologyLabels",
        "PodGroupWorkloadExists",
        "NodeDeclaredFeatureValidator",
        "JobValidation",
        "PodResizeValidator",
        "MutatingAdmissionPolicy",
        "MutatingAdmissionWebhook",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionWebhook",
        "ResourceQuota",
        "AlwaysDeny",
    ];

    const POD: &str = "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c, image: i}]}}";

    fn pod(part: &str) -> String {
        POD.replace("spec: {", &format!("spec: {{{part}, "))
    }

    fn class(name: &str, value: i64, rest: &str) -> String {
        format!(
            "{{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {{name: {name}}}, value: {value}{rest}}}"
        )
    }

    #[test]
    fn plugins_stand_in_the_order_of_the_reference() {
        let of_reference: Vec<_> = names().into_iter().filter(|name| REFERENCE.contains(name)).collect();
        assert_eq!(of_reference, REFERENCE);
    }

    #[test]
    fn a_plugin_says_for_which_steps_and_operations_it_is_called() {
        for plugin in all_plugins(&PluginSettings::default()) {
            let of_all = ["AlwaysAdmit", "AlwaysDeny"].contains(&plugin.name());
            assert_eq!(plugin.calls() == Calls::ALL, of_all, "{}", plugin.name());
        }
    }

    #[test]
    fn nothing_is_made_in_a_namespace_that_is_missing_or_going() {
        let missing = Harness::new().admit("NamespaceLifecycle", POD);
        assert!(missing.unwrap_err().contains("NotFound"));
        let there = "{apiVersion: v1, kind: Namespace, metadata: {name: default}}";
        assert!(Harness::new().with(there).admit("NamespaceLifecycle", POD).is_ok());
        let going = there.replace("}}", "}, status: {phase: Terminating}}");
        assert_eq!(
            Harness::new()
                .with(&going)
                .admit("NamespaceLifecycle", POD)
                .unwrap_err(),
            "unable to create new content in namespace default because it is being terminated"
        );
    }

    #[test]
    fn a_pod_stays_five_minutes_on_a_node_that_is_not_well() {
        let admitted = Harness::new().admit("DefaultTolerationSeconds", POD).unwrap();
        assert_eq!(
            at(&admitted, "spec.tolerations.1"),
            r#"{"effect":"NoExecute","key":"node.kubernetes.io/unreachable","operator":"Exists","tolerationSeconds":300}"#
        );
        let tolerant = pod("tolerations: [{operator: Exists}]");
        let admitted = Harness::new().admit("DefaultTolerationSeconds", &tolerant).unwrap();
        assert_eq!(at(&admitted, "spec.tolerations"), r#"[{"operator":"Exists"}]"#);
    }

    #[test]
    fn a_pod_takes_on_where_its_node_stands() {
        let node =
            "{apiVersion: v1, kind: Node, metadata: {name: one, labels: {topology.kubernetes.io/zone: z, other: o}}}";
        let admitted = Harness::new()
            .with(node)
            .admit("PodTopologyLabels", &pod("nodeName: one"));
        assert_eq!(
            at(&admitted.unwrap(), "metadata.labels"),
            r#"{"topology.kubernetes.io/zone":"z"}"#
        );
    }

    #[test]
    fn a_pod_has_the_priority_of_its_class() {
        let plain = Harness::new().admit("Priority", POD).unwrap();
        assert_eq!(at(&plain, "spec.priority"), "0");
        let harness = Harness::new()
            .with(&class("high", 1000, ", preemptionPolicy: Never"))
            .with(&class("usual", 10, ", globalDefault: true"));
        let high = harness.admit("Priority", &pod("priorityClassName: high")).unwrap();
        assert_eq!(
            (at(&high, "spec.priority"), at(&high, "spec.preemptionPolicy")),
            ("1000".into(), r#""Never""#.into())
        );
        let usual = harness.admit("Priority", POD).unwrap();
        assert_eq!(at(&usual, "spec.priorityClassName"), r#""usual""#);
        assert_eq!(
            harness.admit("Priority", &pod("priorityClassName: nope")).unwrap_err(),
            "no PriorityClass with name nope was found"
        );
        assert_eq!(
            harness.admit("Priority", &pod("priority: 5")).unwrap_err(),
            "the integer value of priority (5) must not be provided in pod spec; priority admission controller computed 10 \
             from the given PriorityClass name"
        );
        assert_eq!(
            harness
                .admit("Priority", &class("other", 1, ", globalDefault: true"))
                .unwrap_err(),
            "PriorityClass usual is already marked as default. Only one default can exist"
        );
    }

    #[test]
    fn claims_get_the_newest_default_class_and_a_finalizer() {
        let storage = |name: &str, made: &str| {
            format!(
                "{{apiVersion: storage.k8s.io/v1, kind: StorageClass, provisioner: p, metadata: {{name: {name}, \
                 creationTimestamp: '{made}', annotations: {{storageclass.kubernetes.io/is-default-class: 'true'}}}}}}"
            )
        };
        let harness = Harness::new()
            .with(&storage("old", "2020-01-01T00:00:00Z"))
            .with(&storage("new", "2021-01-01T00:00:00Z"));
        let claim = "{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: c}, spec: {}}";
        let admitted = harness.admit("DefaultStorageClass", claim).unwrap();
        assert_eq!(at(&admitted, "spec.storageClassName"), r#""new""#);
        let none = claim.replace("spec: {}", "spec: {storageClassName: ''}");
        let admitted = harness.admit("DefaultStorageClass", &none).unwrap();
        assert_eq!(at(&admitted, "spec.storageClassName"), r#""""#);
        let kept = harness.admit("StorageObjectInUseProtection", claim).unwrap();
        assert_eq!(at(&kept, "metadata.finalizers"), r#"["kubernetes.io/pvc-protection"]"#);
    }

    #[test]
    fn a_runtime_class_brings_overhead_and_a_place_to_run() {
        let runtime = "{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: r}, handler: h, \
                       overhead: {podFixed: {cpu: 100m}}, scheduling: {nodeSelector: {a: b}}}";
        let harness = Harness::new().with(runtime);
        let admitted = harness.admit("RuntimeClass", &pod("runtimeClassName: r")).unwrap();
        assert_eq!(at(&admitted, "spec.overhead"), r#"{"cpu":"100m"}"#);
        assert_eq!(at(&admitted, "spec.nodeSelector"), r#"{"a":"b"}"#);
        assert_eq!(
            harness
                .admit("RuntimeClass", &pod("runtimeClassName: r, nodeSelector: {a: c}"))
                .unwrap_err(),
            "conflict: runtimeClass.scheduling.nodeSelector[a] = b; pod.spec.nodeSelector[a] = c"
        );
        assert_eq!(
            harness
                .admit("RuntimeClass", &pod("runtimeClassName: nope"))
                .unwrap_err(),
            "pod rejected: RuntimeClass \"nope\" not found"
        );
        assert_eq!(
            harness.admit("RuntimeClass", &pod("overhead: {cpu: 1}")).unwrap_err(),
            "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
        );
    }

    #[test]
    fn a_new_node_takes_no_pods() {
        let node = Harness::new()
            .admit(
                "TaintNodesByCondition",
                "{apiVersion: v1, kind: Node, metadata: {name: one}}",
            )
            .unwrap();
        assert_eq!(
            at(&node, "spec.taints"),
            r#"[{"effect":"NoSchedule","key":"node.kubernetes.io/not-ready"}]"#
        );
    }
}
