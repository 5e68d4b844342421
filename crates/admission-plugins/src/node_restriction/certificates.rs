//! Certificates of nodes and of the Pods that run on them.

use holdfast_gotext::quote::quote;
use holdfast_resource::{Operation, Rejection};
use holdfast_value::Value;

use super::pods::NODE_NAME;
use super::{Write, reject, text};
use holdfast_kind_tables::features::Feature;
use holdfast_kinds::pem;
use holdfast_kinds::pod_spec::MIRROR;

/// Signers of kubelet certificates.
const SIGNERS: [&str; 2] = [
    "kubernetes.io/kubelet-serving",
    "kubernetes.io/kube-apiserver-client-kubelet",
];
const UID: [&str; 2] = ["metadata", "uid"];

impl Write<'_> {
    /// upstream: plugin/pkg/admission/noderestriction#Plugin.admitCSR
    pub(super) fn admit_signing_request(&self) -> Result<(), Rejection> {
        let asks = self.context.operation == Operation::Create
            && !self
                .features
                .has(Feature::AllowInsecureKubeletCertificateSigningRequests)
            && SIGNERS.contains(&text(self.object, &["spec", "signerName"]));
        if !asks {
            return Ok(());
        }
        match pem::common_name(text(self.object, &["spec", "request"])) {
            Err(why) => reject(format!("unable to parse csr: {why}")),
            Ok(name) if name == self.context.user.name.as_str() => Ok(()),
            Ok(_) => reject(format!("can only create a node CSR with CN=system:node:{}", self.name)),
        }
    }

    /// Admits a certificate request of a node for a Pod that runs on it.
    ///
    /// upstream: plugin/pkg/admission/noderestriction#Plugin.admitPodCertificateRequest
    pub(super) fn admit_pod_certificate(&self) -> Result<(), Rejection> {
        if !self.features.has(Feature::PodCertificateRequest) {
            return reject("PodCertificateRequest feature gate is disabled");
        }
        if self.context.operation != Operation::Create {
            return reject(format!("unexpected operation {}", self.operation()));
        }
        if !self.subresource().is_empty() {
            return reject(format!("unexpected subresource {}", self.subresource()));
        }
        let node_name = self.requested("nodeName");
        if node_name != self.name {
            return reject(format!(
                "PodCertificateRequest.Spec.NodeName={}, which is not the requesting node {}",
                quote(node_name),
                self.node()
            ));
        }
        let pod_name = self.requested("podName");
        let shown = self.quoted(pod_name);
        let node = self
            .find("nodes", "node", "", node_name)
            .map_err(|_| missing("node", &quote(node_name), "node", node_name))?;
        let (stated, uid) = (self.requested("nodeUID"), text(Some(&node), &UID));
        if stated != uid {
            return Err(Rejection::Failed(format!(
                "PodCertificateRequest for pod {shown} names node UID {}, inconsistent with the running node ({})",
                quote(stated),
                quote(uid)
            )));
        }
        let pod = self
            .pod(pod_name)
            .map_err(|_| missing("pod", &shown, "pod", pod_name))?;
        let (stated, uid) = (self.requested("podUID"), text(Some(&pod), &UID));
        if stated != uid {
            return Err(Rejection::Failed(format!(
                "PodCertificateRequest for pod {shown} contains pod UID ({}) which differs from running pod {}",
                quote(stated),
                quote(uid)
            )));
        }
        self.check_running_pod(&pod, node_name, &shown)
    }

    /// Checks that the pod of a request, `shown` in messages, runs on the node of that name, as the service account
    /// that the request names.
    ///
    /// upstream: plugin/pkg/admission/noderestriction#Plugin.admitPodCertificateRequest
    fn check_running_pod(&self, pod: &Value, node_name: &str, shown: &str) -> Result<(), Rejection> {
        if text(Some(pod), &NODE_NAME) != node_name {
            return reject(format!(
                "pod {shown} is not running on node {} named in the PodCertificateRequest",
                quote(node_name)
            ));
        }
        if pod.at(&["metadata", "annotations", MIRROR]).is_some() {
            return reject(format!("pod {shown} is a mirror pod"));
        }
        let (account, runs_as) = (
            self.requested("serviceAccountName"),
            text(Some(pod), &["spec", "serviceAccountName"]),
        );
        if account != runs_as {
            return reject(format!(
                "PodCertificateRequest for pod {shown} contains serviceAccountName ({}) that differs from running pod ({})",
                quote(account),
                quote(runs_as)
            ));
        }
        let found = self
            .find("serviceaccounts", "serviceaccount", self.context.namespace, account)
            .map_err(|_| missing("service account", &self.quoted(account), "serviceaccount", account))?;
        let (stated, uid) = (self.requested("serviceAccountUID"), text(Some(&found), &UID));
        if stated != uid {
            return reject(format!(
                "PodCertificateRequest for pod {shown} names service account UID {}, which differs from the running service account \
                 ({})",
                quote(stated),
                quote(uid)
            ));
        }
        Ok(())
    }

    /// Returns a field of the specification of the request.
    fn requested(&self, field: &str) -> &str {
        text(self.object, &["spec", field])
    }

    /// Returns the name of an object in the namespace of the request, as messages quote it.
    fn quoted(&self, name: &str) -> String {
        quote(&format!("{}/{name}", self.context.namespace))
    }
}

/// Returns the error for a request that names a missing object. The reference wraps the error, which loses its status.
///
/// upstream: plugin/pkg/admission/noderestriction#Plugin.admitPodCertificateRequest
fn missing(what: &str, shown: &str, kind: &str, name: &str) -> Rejection {
    Rejection::Failed(format!(
        "while retrieving {what} {shown} named in the PodCertificateRequest: {kind} {} not found",
        quote(name)
    ))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

    use super::super::testing::{by_node, create, harness};
    use crate::harness::Harness;

    fn request(signer: &str, name: &str) -> String {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut parameters = rcgen::CertificateParams::default();
        parameters.distinguished_name.push(rcgen::DnType::CommonName, name);
        let pem = parameters.serialize_request(&key).unwrap().pem().unwrap();
        let encoded = STANDARD.encode(pem);
        format!(
            "{{apiVersion: certificates.k8s.io/v1, kind: CertificateSigningRequest, metadata: {{name: r}}, spec: {{signerName: \
             {signer}, request: {encoded}, usages: [client auth]}}}}"
        )
    }

    #[test]
    fn a_node_asks_for_certificates_in_its_own_name() {
        let signer = "kubernetes.io/kube-apiserver-client-kubelet";
        assert_eq!(create(&harness(), &request(signer, "system:node:n1")), Ok(()));
        let rejected = "can only create a node CSR with CN=system:node:n1";
        assert_eq!(
            create(&harness(), &request(signer, "system:node:m")).unwrap_err(),
            rejected
        );
        assert_eq!(create(&harness(), &request("a.io/b", "system:node:m")), Ok(()));
        let open = by_node(Harness::with_gates(
            "AllowInsecureKubeletCertificateSigningRequests=true",
        ));
        assert_eq!(create(&open, &request(signer, "system:node:m")), Ok(()));
        let odd = "{apiVersion: certificates.k8s.io/v1, kind: CertificateSigningRequest, metadata: {name: r}, spec: {signerName: \
                   kubernetes.io/kubelet-serving, request: AAAA, usages: []}}";
        assert_eq!(
            create(&harness(), odd).unwrap_err(),
            "unable to parse csr: PEM block type must be CERTIFICATE REQUEST"
        );
    }

    #[test]
    fn a_node_asks_for_certificates_for_the_pods_that_run_on_it() {
        const GATES: &str = "PodCertificateRequest=true";
        let text = "{apiVersion: certificates.k8s.io/v1beta1, kind: PodCertificateRequest, metadata: {name: r, namespace: default}, \
                    spec: {nodeName: n1, nodeUID: nu, podName: p, podUID: pu, serviceAccountName: s, serviceAccountUID: su}}";
        let node = "{apiVersion: v1, kind: Node, metadata: {name: n1, uid: nu}}";
        let pod = "{apiVersion: v1, kind: Pod, metadata: {name: p, uid: pu}, spec: {nodeName: n1, serviceAccountName: s, containers: \
                   []}}";
        let account = "{apiVersion: v1, kind: ServiceAccount, metadata: {name: s, uid: su}}";
        let with = |objects: &[&str]| {
            let empty = by_node(Harness::serving("api/beta=true", GATES));
            objects.iter().fold(empty, |harness, object| harness.with(object))
        };
        let all = with(&[node, pod, account]);
        assert_eq!(create(&all, text), Ok(()));
        let about = "PodCertificateRequest for pod \\\"default/p\\\"";
        for (harness, text, why) in [
            (
                &all,
                text.replace("nodeName: n1,", "nodeName: m,"),
                "PodCertificateRequest.Spec.NodeName=\"m\", which is not the requesting node \"n1\"".to_owned(),
            ),
            (
                &with(&[]),
                text.to_owned(),
                "while retrieving node \\\"n1\\\" named in the PodCertificateRequest: node \\\"n1\\\" not found".to_owned(),
            ),
            (
                &all,
                text.replace("nodeUID: nu", "nodeUID: x"),
                format!("{about} names node UID \\\"x\\\", inconsistent with the running node (\\\"nu\\\")"),
            ),
            (
                &with(&[node]),
                text.to_owned(),
                "while retrieving pod \\\"default/p\\\" named in the PodCertificateRequest: pod \\\"p\\\" not found".to_owned(),
            ),
            (
                &all,
                text.replace("podUID: pu", "podUID: x"),
                format!("{about} contains pod UID (\\\"x\\\") which differs from running pod \\\"pu\\\""),
            ),
            (
                &with(&[node, &pod.replace("nodeName: n1", "nodeName: m"), account]),
                text.to_owned(),
                "pod \"default/p\" is not running on node \"n1\" named in the PodCertificateRequest".to_owned(),
            ),
            (
                &with(&[node, &pod.replace("uid: pu", "uid: pu, annotations: {kubernetes.io/config.mirror: x}"), account]),
                text.to_owned(),
                "pod \"default/p\" is a mirror pod".to_owned(),
            ),
            (
                &all,
                text.replace("serviceAccountName: s", "serviceAccountName: t"),
                "contains serviceAccountName (\"t\") that differs from running pod (\"s\")".to_owned(),
            ),
            (
                &with(&[node, pod]),
                text.to_owned(),
                "while retrieving service account \\\"default/s\\\" named in the PodCertificateRequest: serviceaccount \\\"s\\\" not \
                 found"
                    .to_owned(),
            ),
            (
                &all,
                text.replace("serviceAccountUID: su", "serviceAccountUID: x"),
                "names service account UID \"x\", which differs from the running service account (\"su\")".to_owned(),
            ),
        ] {
            let rejected = create(harness, &text).unwrap_err();
            assert!(rejected.contains(&why), "{rejected}");
        }
    }
}
