//! Objects of the node itself: the node, its lease, its volumes and its devices.

use std::collections::BTreeSet;

use holdfast_gotext::quote::quote;
use holdfast_resource::{Operation, Rejection};
use holdfast_schema::Field;
use holdfast_value::Value;

use super::{Write, reject};
use holdfast_schema::same;

const OF_LEASES: &str = "kube-node-lease";
const RESTRICTED: &str = "node-restriction.kubernetes.io";

/// Labels of Kubernetes that kubelets may set.
const LABELS: [&str; 11] = [
    "kubernetes.io/hostname",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "beta.kubernetes.io/instance-type",
    "node.kubernetes.io/instance-type",
    "kubernetes.io/os",
    "kubernetes.io/arch",
    "beta.kubernetes.io/os",
    "beta.kubernetes.io/arch",
];
/// Domains of further labels that kubelets may set.
const DOMAINS: [&str; 2] = ["kubelet.kubernetes.io", "node.kubernetes.io"];

impl Write<'_> {
    /// upstream: plugin/pkg/admission/noderestriction#Plugin.admitNode
    pub(super) fn admit_node(&self) -> Result<(), Rejection> {
        let (node, requested) = (self.node(), self.object_name());
        if requested != self.name {
            return reject(format!(
                "node {node} is not allowed to modify node {}",
                quote(requested)
            ));
        }
        let at = |object: Option<&Value>, path: &[&str]| object.and_then(|object| object.at(path)).cloned();
        let differs = |path: &[&str]| !same(at(self.object, path).as_ref(), at(self.old, path).as_ref());
        let configured = self.object.and_then(|node| node.at(&["spec", "configSource"]));
        let forbidden = || forbidden_labels(self.object, self.old);
        match self.context.operation {
            Operation::Create if configured.is_some() => reject(format!(
                "node {node} is not allowed to create pods with a non-nil configSource"
            )),
            Operation::Create => match forbidden() {
                Some(labels) => reject(format!(
                    "node {node} is not allowed to set the following labels: {labels}"
                )),
                None => Ok(()),
            },
            Operation::Update if configured.is_some() && differs(&["spec", "configSource"]) => reject(format!(
                "node {node} is not allowed to update configSource to a new non-nil configSource"
            )),
            Operation::Update if differs(&["spec", "taints"]) => {
                reject(format!("node {node} is not allowed to modify taints"))
            }
            Operation::Update if differs(&["metadata", "ownerReferences"]) => {
                reject(format!("node {node} is not allowed to modify ownerReferences"))
            }
            Operation::Update => match forbidden() {
                Some(labels) => reject(format!("is not allowed to modify labels: {labels}")),
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }

    /// Admits an update of the status of a claim that changes only the fields for kubelets.
    ///
    /// upstream: plugin/pkg/admission/noderestriction#Plugin.admitPVCStatus
    pub(super) fn admit_claim(&self) -> Result<(), Rejection> {
        if self.subresource() != "status" {
            return reject("may only update PVC status");
        }
        if self.context.operation != Operation::Update {
            return reject(format!("unexpected operation {}", quote(self.operation())));
        }
        const OPEN: [[&str; 2]; 6] = [
            ["metadata", "resourceVersion"],
            ["metadata", "managedFields"],
            ["status", "capacity"],
            ["status", "conditions"],
            ["status", "allocatedResourceStatuses"],
            ["status", "allocatedResources"],
        ];
        let rest = |claim: Option<&Value>| {
            let mut claim = claim.cloned().unwrap_or_default();
            for place in OPEN {
                claim.remove_at(&place);
            }
            claim
        };
        let (old, new) = (rest(self.old), rest(self.object));
        let changed: Vec<String> = ["metadata", "spec", "status"]
            .into_iter()
            .flat_map(|part| changed_fields(part, old.get(part), new.get(part)))
            .collect();
        if changed.is_empty() {
            return Ok(());
        }
        reject(format!(
            "node {} is not allowed to update fields other than status.quantity and status.conditions: {}",
            self.node(),
            changed.join(", ")
        ))
    }

    /// upstream: plugin/pkg/admission/noderestriction#Plugin.admitLease
    pub(super) fn admit_lease(&self) -> Result<(), Rejection> {
        if self.context.namespace != OF_LEASES {
            return reject(format!(
                "can only access leases in the \"{OF_LEASES}\" system namespace"
            ));
        }
        self.check_own_name("can only access node lease with the same name as the requesting node")
    }

    /// upstream: plugin/pkg/admission/noderestriction#Plugin.admitCSINode
    pub(super) fn admit_csi_node(&self) -> Result<(), Rejection> {
        self.check_own_name("can only access CSINode with the same name as the requesting node")
    }

    /// upstream: plugin/pkg/admission/noderestriction#Plugin.admitLease
    /// upstream: plugin/pkg/admission/noderestriction#Plugin.admitCSINode
    fn check_own_name(&self, why: &str) -> Result<(), Rejection> {
        match self.object_name() == self.name {
            true => Ok(()),
            false => reject(why),
        }
    }

    /// upstream: plugin/pkg/admission/noderestriction#Plugin.admitResourceSlice
    pub(super) fn admit_slice(&self) -> Result<(), Rejection> {
        let (slice, done) = match self.context.operation {
            Operation::Create => (self.object, "create"),
            Operation::Delete => (self.old, "delete"),
            _ => return Ok(()),
        };
        let slice_node = slice.and_then(|slice| slice.str_at(&["spec", "nodeName"]));
        match slice_node == Some(self.name) {
            true => Ok(()),
            false => reject(format!(
                "can only {done} ResourceSlice with the same NodeName as the requesting node"
            )),
        }
    }
}

/// Returns the fields of a part that differ, each with its path.
fn changed_fields(part: &str, old: Option<&Value>, new: Option<&Value>) -> Vec<String> {
    let (old, new) = (Field::placed(old, ""), Field::placed(new, ""));
    let names: BTreeSet<&str> = old.entries().chain(new.entries()).map(|(name, _)| name).collect();
    let differs = |name: &&str| !same(old.child(name).value(), new.child(name).value());
    names
        .into_iter()
        .filter(differs)
        .map(|name| format!("{part}.{name}"))
        .collect()
}

/// Returns the changed labels that kubelets must not modify, as text.
///
/// upstream: plugin/pkg/admission/noderestriction#Plugin.getForbiddenLabels
fn forbidden_labels(object: Option<&Value>, old: Option<&Value>) -> Option<String> {
    let labels = |object: Option<&Value>| object.and_then(|object| object.at(&["metadata", "labels"])).cloned();
    let (old, new) = (labels(old), labels(object));
    let (old, new) = (Field::placed(old.as_ref(), ""), Field::placed(new.as_ref(), ""));
    let names: BTreeSet<&str> = old.entries().chain(new.entries()).map(|(name, _)| name).collect();
    let value = |labels: &Field<'_, '_>, name: &str| {
        labels
            .entries()
            .find(|(known, _)| *known == name)
            .map(|(_, value)| value.text().to_owned())
    };
    let forbidden: Vec<&str> = names
        .into_iter()
        .filter(|name| is_forbidden(name) && value(&old, name) != value(&new, name))
        .collect();
    (!forbidden.is_empty()).then(|| forbidden.join(", "))
}

/// upstream: plugin/pkg/admission/noderestriction#Plugin.getForbiddenLabels
fn is_forbidden(label: &str) -> bool {
    let domain = label.split_once('/').map_or("", |(domain, _)| domain);
    let is_of = |of: &str| {
        let rest = domain.strip_suffix(of);
        rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    let of_agents = LABELS.contains(&label) || DOMAINS.into_iter().any(is_of);
    is_of(RESTRICTED) || (is_of("kubernetes.io") || is_of("k8s.io")) && !of_agents
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::testing::{PLUGIN, create, harness, update};

    fn node(metadata: &str, spec: &str) -> String {
        format!("{{apiVersion: v1, kind: Node, metadata: {{name: n1{metadata}}}, spec: {{{spec}}}}}")
    }

    #[test]
    fn a_node_sets_its_own_labels() {
        let labelled = |label: &str| node(&format!(", labels: {{{label}: x}}"), "");
        let (harness, plain) = (harness(), node("", ""));
        for label in [
            "a.b/c",
            "kubernetes.io/os",
            "a.kubelet.kubernetes.io/b",
            "node.kubernetes.io/b",
            "plain",
        ] {
            assert_eq!(create(&harness, &labelled(label)), Ok(()), "{label}");
            assert_eq!(update(&harness, None, &plain, &labelled(label)), Ok(()), "{label}");
        }
        for label in [
            "node-restriction.kubernetes.io/a",
            "a.node-restriction.kubernetes.io/b",
            "kubernetes.io/a",
            "a.k8s.io/b",
        ] {
            assert_eq!(
                create(&harness, &labelled(label)).unwrap_err(),
                format!("node \"n1\" is not allowed to set the following labels: {label}")
            );
            let rejected = format!("is not allowed to modify labels: {label}");
            assert_eq!(update(&harness, None, &plain, &labelled(label)).unwrap_err(), rejected);
            assert_eq!(update(&harness, None, &labelled(label), &plain).unwrap_err(), rejected);
            assert_eq!(update(&harness, None, &labelled(label), &labelled(label)), Ok(()));
        }
    }

    #[test]
    fn a_node_does_not_change_taints_and_owners() {
        let (harness, plain) = (harness(), node("", ""));
        let tainted = node("", "taints: [{key: a, effect: NoSchedule}]");
        assert_eq!(create(&harness, &tainted), Ok(()));
        assert_eq!(
            update(&harness, Some("status"), &plain, &tainted).unwrap_err(),
            "node \"n1\" is not allowed to modify taints"
        );
        let owned = node(", ownerReferences: [{apiVersion: v1, kind: Pod, name: p, uid: u}]", "");
        assert_eq!(
            update(&harness, None, &plain, &owned).unwrap_err(),
            "node \"n1\" is not allowed to modify ownerReferences"
        );
        let configured = node("", "configSource: {configMap: {name: c}}");
        assert_eq!(
            create(&harness, &configured).unwrap_err(),
            "node \"n1\" is not allowed to create pods with a non-nil configSource"
        );
        assert_eq!(
            update(&harness, None, &plain, &configured).unwrap_err(),
            "node \"n1\" is not allowed to update configSource to a new non-nil configSource"
        );
        let other = plain.replace("name: n1", "name: m");
        assert_eq!(
            harness.admit_deletion(PLUGIN, &other).unwrap_err(),
            "node \"n1\" is not allowed to modify node \"m\""
        );
        assert_eq!(harness.admit_deletion(PLUGIN, &plain), Ok(()));
    }

    #[test]
    fn a_node_reports_volumes_in_the_status_of_claims() {
        let claim = |labels: &str, status: &str| {
            format!(
                "{{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {{name: c, labels: {{{labels}}}}}, spec: {{}}, status: \
                 {{{status}}}}}"
            )
        };
        let (harness, old) = (harness(), claim("", ""));
        assert_eq!(
            update(&harness, Some("status"), &old, &claim("", "capacity: {storage: 1}")),
            Ok(())
        );
        assert_eq!(
            update(&harness, Some("status"), &old, &claim("a: b", "phase: Bound")).unwrap_err(),
            "node \"n1\" is not allowed to update fields other than status.quantity and status.conditions: metadata.labels, \
             status.phase"
        );
        for rejected in [create(&harness, &old), update(&harness, None, &old, &old)] {
            assert_eq!(rejected.unwrap_err(), "may only update PVC status");
        }
    }

    #[test]
    fn node_writes_only_its_lease_csi_node_and_slices() {
        let harness = harness();
        let lease =
            |name: &str| format!("{{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {{name: {name}}}}}");
        assert_eq!(
            create(&harness, &lease("n1")).unwrap_err(),
            "can only access leases in the \"kube-node-lease\" system namespace"
        );
        let there = super::super::testing::harness().in_namespace("kube-node-lease");
        assert_eq!(create(&there, &lease("n1")), Ok(()));
        let rejected = "can only access node lease with the same name as the requesting node";
        assert_eq!(create(&there, &lease("m")).unwrap_err(), rejected);
        assert_eq!(there.admit_deletion(PLUGIN, &lease("m")).unwrap_err(), rejected);
        let drivers =
            |name: &str| format!("{{apiVersion: storage.k8s.io/v1, kind: CSINode, metadata: {{name: {name}}}}}");
        assert_eq!(create(&harness, &drivers("n1")), Ok(()));
        assert_eq!(
            create(&harness, &drivers("m")).unwrap_err(),
            "can only access CSINode with the same name as the requesting node"
        );
        let slice = |node: &str| {
            format!(
                "{{apiVersion: resource.k8s.io/v1, kind: ResourceSlice, metadata: {{name: s}}, spec: {{nodeName: {node}}}}}"
            )
        };
        assert_eq!(create(&harness, &slice("n1")), Ok(()));
        let rejected =
            |done: &str| format!("can only {done} ResourceSlice with the same NodeName as the requesting node");
        assert_eq!(create(&harness, &slice("m")).unwrap_err(), rejected("create"));
        assert_eq!(
            harness.admit_deletion(PLUGIN, &slice("m")).unwrap_err(),
            rejected("delete")
        );
        assert_eq!(update(&harness, None, &slice("m"), &slice("m")), Ok(()));
    }
}
