//! Pods that run on a node.

use holdfast_gotext::quote::quote;
use holdfast_resource::table::items;
use holdfast_resource::{Operation, Rejection};
use holdfast_schema::Field;
use holdfast_value::Value;

use super::{Write, reject, text};
use holdfast_kinds::pod_spec::{MIRROR, names_config_map, names_secret};
use holdfast_schema::same;

pub(super) const NODE_NAME: [&str; 2] = ["spec", "nodeName"];

impl Write<'_> {
    /// upstream: plugin/pkg/admission/noderestriction#Plugin.admitPod
    pub(super) fn admit_pod(&self) -> Result<(), Rejection> {
        match (self.subresource(), self.context.operation) {
            ("", Operation::Create) => self.admit_new_pod(),
            ("", Operation::Delete) => {
                let pod = self.pod(self.context.name)?;
                self.check_runs_here(&pod, || {
                    format!(
                        "node {} can only delete pods with spec.nodeName set to itself",
                        self.node()
                    )
                })
            }
            ("", _) => reject(format!(
                "unexpected operation {}, node {} can only create and delete mirror pods",
                quote(self.operation()),
                self.node()
            )),
            ("status", Operation::Update) => self.admit_pod_status(),
            ("status", _) => reject(format!("unexpected operation {}", quote(self.operation()))),
            ("eviction", Operation::Create) => self.admit_eviction(),
            ("eviction", _) => reject(format!("unexpected operation {}", self.operation())),
            (other, _) => reject(format!(
                "unexpected pod subresource {}, only 'status' and 'eviction' are allowed",
                quote(other)
            )),
        }
    }

    /// upstream: plugin/pkg/admission/noderestriction#Plugin.admitPodStatus
    /// upstream: plugin/pkg/admission/noderestriction#Plugin.admitPodEviction
    fn check_runs_here(&self, pod: &Value, why: impl FnOnce() -> String) -> Result<(), Rejection> {
        match text(Some(pod), &NODE_NAME) == self.name {
            true => Ok(()),
            false => reject(why()),
        }
    }

    /// Admits the creation of a mirror Pod by its node.
    ///
    /// upstream: plugin/pkg/admission/noderestriction#Plugin.admitPodCreate
    fn admit_new_pod(&self) -> Result<(), Rejection> {
        let node = self.node();
        let Some(pod) = self.object else {
            return Ok(());
        };
        if pod.at(&["metadata", "annotations", MIRROR]).is_none() {
            return reject(format!(
                "pod does not have \"{MIRROR}\" annotation, node {node} can only create mirror pods"
            ));
        }
        self.check_runs_here(pod, || {
            format!("node {node} can only create pods with spec.nodeName set to itself")
        })?;
        let [owner] = items(pod, &["metadata", "ownerReferences"]) else {
            let several = items(pod, &["metadata", "ownerReferences"]).len() > 1;
            let owner = if several { "a single owner" } else { "an owner" };
            return reject(format!(
                "node {node} can only create pods with {owner} reference set to itself"
            ));
        };
        self.check_owner(owner)?;
        match reference_of(pod) {
            Ok(None) => Ok(()),
            Ok(Some(referenced)) => reject(format!("node {node} can not create pods that reference {referenced}")),
            Err(why) => reject(format!("error checking mirror pod for API references: {why}")),
        }
    }

    /// upstream: plugin/pkg/admission/noderestriction#Plugin.admitPodCreate
    fn check_owner(&self, owner: &Value) -> Result<(), Rejection> {
        let (node, owner) = (self.node(), Field::root(owner));
        let reference = ["apiVersion", "kind", "name"].map(|field| owner.child(field).text());
        if reference != ["v1", "Node", self.name] {
            return reject(format!(
                "node {node} can only create pods with an owner reference set to itself"
            ));
        }
        if !owner.child("controller").is_true() {
            return reject(format!(
                "node {node} can only create pods with a controller owner reference set to itself"
            ));
        }
        if owner.child("blockOwnerDeletion").is_true() {
            return reject(format!(
                "node {node} must not set blockOwnerDeletion on an owner reference"
            ));
        }
        let here = self.find("nodes", "node", "", self.name)?;
        let (stated, uid) = (owner.child("uid").text(), text(Some(&here), &["metadata", "uid"]));
        if stated != uid {
            // The reference has the two in this order.
            return reject(format!("node {} UID mismatch: expected {stated} got {uid}", self.name));
        }
        Ok(())
    }

    /// upstream: plugin/pkg/admission/noderestriction#Plugin.admitPodStatus
    fn admit_pod_status(&self) -> Result<(), Rejection> {
        let (Some(old), Some(new)) = (self.old, self.object) else {
            return Ok(());
        };
        let node = self.node();
        self.check_runs_here(old, || {
            format!("node {node} can only update pod status for pods with spec.nodeName set to itself")
        })?;
        let differs = |path: &[&str]| !same(old.at(path), new.at(path));
        if differs(&["metadata", "labels"]) {
            return reject(format!("node {node} cannot update labels through pod status"));
        }
        if differs(&["status", "resourceClaimStatuses"]) {
            return reject(format!("node {node} cannot update resource claim statues"));
        }
        if differs(&["status", "extendedResourceClaimStatus"]) {
            return reject(format!("node {node} cannot update extended resource claim status"));
        }
        Ok(())
    }

    /// upstream: plugin/pkg/admission/noderestriction#Plugin.admitPodEviction
    fn admit_eviction(&self) -> Result<(), Rejection> {
        let name = match self.context.name {
            "" => text(self.object, &["metadata", "name"]),
            name => name,
        };
        if name.is_empty() {
            return reject("could not determine pod from request data");
        }
        let pod = self.pod(name)?;
        self.check_runs_here(&pod, || {
            format!(
                "node {} can only evict pods with spec.nodeName set to itself",
                self.name
            )
        })
    }
}

/// Volume sources that reference no API object.
const ALONE: [&str; 22] = [
    "awsElasticBlockStore",
    "azureDisk",
    "cephfs",
    "cinder",
    "downwardAPI",
    "emptyDir",
    "fc",
    "flexVolume",
    "flocker",
    "gcePersistentDisk",
    "gitRepo",
    "hostPath",
    "image",
    "iscsi",
    "nfs",
    "photonPersistentDisk",
    "portworxVolume",
    "quobyte",
    "rbd",
    "scaleIO",
    "storageos",
    "vsphereVolume",
];

/// Volume sources that reference an API object, each with the name of that object.
const NEEDY: [(&str, &str); 7] = [
    ("configMap", "configmaps (via configmap volumes)"),
    ("secret", "secrets (via secret volumes)"),
    ("csi", "csidrivers (via CSI volumes)"),
    ("glusterfs", "endpoints (via glusterFS volumes)"),
    ("persistentVolumeClaim", "persistentvolumeclaims"),
    ("ephemeral", "persistentvolumeclaims (via ephemeral volumes)"),
    ("azureFile", "secrets (via azureFile volumes)"),
];

/// Sources of projected volumes that reference an API object.
const PROJECTED: [(&str, &str); 5] = [
    ("configMap", "configmaps (via projected volumes)"),
    ("secret", "secrets (via projected volumes)"),
    ("serviceAccountToken", "serviceaccounts (via projected volumes)"),
    ("clusterTrustBundle", "clustertrustbundles"),
    ("podCertificate", "podcertificates"),
];

/// Returns the first kind of object that a Pod references, in the words of the reference.
///
/// upstream: pkg/api/pod#HasAPIObjectReference
fn reference_of(pod: &Value) -> Result<Option<&'static str>, String> {
    let root = Field::root(pod);
    let spec = root.child("spec");
    if !spec.child("serviceAccountName").text().is_empty() {
        return Ok(Some("serviceaccounts"));
    }
    if names_secret(&spec) {
        return Ok(Some("secrets"));
    }
    if names_config_map(&spec) {
        return Ok(Some("configmaps"));
    }
    if !spec.child("resourceClaims").is_empty() {
        return Ok(Some("resourceclaims"));
    }
    for volume in spec.child("volumes").items() {
        let has = |field: &str| volume.child(field).is_set();
        if ALONE.into_iter().any(has) {
            continue;
        }
        if let Some((_, what)) = NEEDY.iter().find(|(field, _)| has(field)) {
            return Ok(Some(what));
        }
        if !has("projected") {
            let name = quote(volume.child("name").text());
            return Err(format!("unknown volume type for volume  {name}"));
        }
        for source in volume.child("projected").child("sources").items() {
            if let Some((_, what)) = PROJECTED.iter().find(|(field, _)| source.child(field).is_set()) {
                return Ok(Some(what));
            }
            if !source.child("downwardAPI").is_set() {
                let name = quote(volume.child("name").text());
                return Err(format!("unknown source for projected volume {name}"));
            }
        }
    }
    Ok(None)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::testing::{PLUGIN, by_node, create, harness, update};
    use crate::harness::Harness;

    const OWNER: &str = "{apiVersion: v1, kind: Node, name: n1, uid: u, controller: true}";

    fn mirror(owners: &str, spec: &str) -> String {
        format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: p, namespace: default, annotations: {{kubernetes.io/config.mirror: x}}, \
             ownerReferences: [{owners}]}}, spec: {{nodeName: n1, {spec}containers: [{{name: c, image: i}}]}}}}"
        )
    }

    fn with_node() -> Harness {
        harness().with("{apiVersion: v1, kind: Node, metadata: {name: n1, uid: u}}")
    }

    #[test]
    fn a_node_makes_mirrors_of_what_it_runs() {
        let harness = with_node();
        assert_eq!(create(&harness, &mirror(OWNER, "")), Ok(()));
        for (text, why) in [
            (
                mirror(OWNER, "").replace("config.mirror", "config.other"),
                "pod does not have \"kubernetes.io/config.mirror\" annotation, node \"n1\" can only create mirror pods",
            ),
            (
                mirror(OWNER, "").replace("nodeName: n1", "nodeName: m"),
                "node \"n1\" can only create pods with spec.nodeName set to itself",
            ),
            (
                mirror("", ""),
                "node \"n1\" can only create pods with an owner reference set to itself",
            ),
            (
                mirror(&format!("{OWNER}, {OWNER}"), ""),
                "node \"n1\" can only create pods with a single owner reference set to itself",
            ),
            (
                mirror(&OWNER.replace("name: n1", "name: m"), ""),
                "node \"n1\" can only create pods with an owner reference set to itself",
            ),
            (
                mirror(&OWNER.replace("controller: true", "controller: false"), ""),
                "node \"n1\" can only create pods with a controller owner reference set to itself",
            ),
            (
                mirror(&OWNER.replace("controller", "blockOwnerDeletion: true, controller"), ""),
                "node \"n1\" must not set blockOwnerDeletion on an owner reference",
            ),
            (
                mirror(&OWNER.replace("uid: u", "uid: v"), ""),
                "node n1 UID mismatch: expected v got u",
            ),
        ] {
            assert_eq!(create(&harness, &text).unwrap_err(), why);
        }
        let missing = create(&super::super::testing::harness(), &mirror(OWNER, "")).unwrap_err();
        assert!(
            missing.contains("NotFound") && missing.contains("\"node\""),
            "{missing}"
        );
    }

    #[test]
    fn mirrors_need_no_other_objects() {
        let harness = with_node();
        let volume = |source: &str| format!("volumes: [{{name: v, {source}}}], ");
        for source in [
            "emptyDir: {}",
            "hostPath: {path: /a}",
            "projected: {sources: [{downwardAPI: {}}]}",
        ] {
            assert_eq!(create(&harness, &mirror(OWNER, &volume(source))), Ok(()));
        }
        for (spec, what) in [
            ("serviceAccountName: s, ".to_owned(), "serviceaccounts"),
            ("imagePullSecrets: [{name: s}], ".to_owned(), "secrets"),
            (volume("secret: {secretName: s}"), "secrets"),
            (volume("csi: {driver: d, nodePublishSecretRef: {name: s}}"), "secrets"),
            (volume("configMap: {name: c}"), "configmaps"),
            ("resourceClaims: [{name: c}], ".to_owned(), "resourceclaims"),
            (volume("csi: {driver: d}"), "csidrivers (via CSI volumes)"),
            (
                volume("persistentVolumeClaim: {claimName: c}"),
                "persistentvolumeclaims",
            ),
            (
                volume("ephemeral: {}"),
                "persistentvolumeclaims (via ephemeral volumes)",
            ),
            (
                volume("glusterfs: {endpoints: e, path: p}"),
                "endpoints (via glusterFS volumes)",
            ),
            (
                volume("projected: {sources: [{serviceAccountToken: {path: t}}]}"),
                "serviceaccounts (via projected volumes)",
            ),
            (volume("projected: {sources: [{configMap: {name: c}}]}"), "configmaps"),
        ] {
            assert_eq!(
                create(&harness, &mirror(OWNER, &spec)).unwrap_err(),
                format!("node \"n1\" can not create pods that reference {what}"),
                "{spec}"
            );
        }
        let from = mirror(OWNER, "").replace(
            "image: i",
            "image: i, env: [{name: e, valueFrom: {secretKeyRef: {name: s, key: k}}}]",
        );
        assert!(create(&harness, &from).unwrap_err().ends_with("reference secrets"));
        let from = mirror(OWNER, "").replace("image: i", "image: i, envFrom: [{configMapRef: {name: c}}]");
        assert!(create(&harness, &from).unwrap_err().ends_with("reference configmaps"));
        assert_eq!(
            create(&harness, &mirror(OWNER, &volume("projected: {sources: [{}]}"))).unwrap_err(),
            "error checking mirror pod for API references: unknown source for projected volume \"v\""
        );
    }

    #[test]
    fn a_node_reports_the_pods_that_run_on_it() {
        let harness = harness();
        let pod = |node: &str, labels: &str, status: &str| {
            format!(
                "{{apiVersion: v1, kind: Pod, metadata: {{name: p, namespace: default, labels: {{{labels}}}}}, spec: {{nodeName: \
                 {node}, containers: [{{name: c, image: i}}]}}, status: {{{status}}}}}"
            )
        };
        let of_status = |old: &str, new: &str| update(&harness, Some("status"), old, new);
        let here = pod("n1", "", "");
        assert_eq!(of_status(&here, &pod("n1", "", "phase: Running")), Ok(()));
        assert_eq!(
            of_status(&pod("m", "", ""), &here).unwrap_err(),
            "node \"n1\" can only update pod status for pods with spec.nodeName set to itself"
        );
        assert_eq!(
            of_status(&here, &pod("n1", "a: b", "")).unwrap_err(),
            "node \"n1\" cannot update labels through pod status"
        );
        assert_eq!(
            of_status(
                &here,
                &pod("n1", "", "resourceClaimStatuses: [{name: c, resourceClaimName: d}]")
            )
            .unwrap_err(),
            "node \"n1\" cannot update resource claim statues"
        );
        assert_eq!(
            update(&harness, None, &here, &here).unwrap_err(),
            "unexpected operation \"UPDATE\", node \"n1\" can only create and delete mirror pods"
        );
        assert_eq!(
            update(&harness, Some("resize"), &here, &here).unwrap_err(),
            "unexpected pod subresource \"resize\", only 'status' and 'eviction' are allowed"
        );
        let (with_here, with_other) = (
            by_node(Harness::new()).with(&here),
            by_node(Harness::new()).with(&pod("m", "", "")),
        );
        assert_eq!(with_here.admit_deletion(PLUGIN, &here), Ok(()));
        assert_eq!(
            with_other.admit_deletion(PLUGIN, &here).unwrap_err(),
            "node \"n1\" can only delete pods with spec.nodeName set to itself"
        );
        assert!(harness.admit_deletion(PLUGIN, &here).unwrap_err().contains("NotFound"));
        let eviction = "{apiVersion: policy/v1, kind: Eviction, metadata: {name: p, namespace: default}}";
        let evict = |harness: &Harness| harness.admit_subresource(PLUGIN, "pods", "eviction", "p", eviction);
        assert_eq!(evict(&with_here), Ok(()));
        assert_eq!(
            evict(&with_other).unwrap_err(),
            "node n1 can only evict pods with spec.nodeName set to itself"
        );
    }
}
