//! Edges of the objects that the graph follows, read from the stored objects.

use holdfast_value::Value;

use super::graph::{Links, VertexKind, VertexName};

/// Annotation of mirror Pods, which nodes create for their static Pods.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// Resource that the graph follows.
///
/// ```
/// use holdfast_authorization::node::GraphResource;
///
/// assert_eq!(GraphResource::Pods.group_resource(), ("", "pods"));
/// assert_eq!(GraphResource::VolumeAttachments.group_resource(), ("storage.k8s.io", "volumeattachments"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GraphResource {
    /// Pods.
    Pods,
    /// PersistentVolumes.
    PersistentVolumes,
    /// VolumeAttachments.
    VolumeAttachments,
    /// ResourceSlices.
    ResourceSlices,
    /// PodCertificateRequests.
    PodCertificateRequests,
}

impl GraphResource {
    /// All resources that the graph follows.
    pub const ALL: [Self; 5] = [
        Self::Pods,
        Self::PersistentVolumes,
        Self::VolumeAttachments,
        Self::ResourceSlices,
        Self::PodCertificateRequests,
    ];

    /// Returns the API group and the plural name.
    pub fn group_resource(self) -> (&'static str, &'static str) {
        match self {
            Self::Pods => ("", "pods"),
            Self::PersistentVolumes => ("", "persistentvolumes"),
            Self::VolumeAttachments => ("storage.k8s.io", "volumeattachments"),
            Self::ResourceSlices => ("resource.k8s.io", "resourceslices"),
            Self::PodCertificateRequests => ("certificates.k8s.io", "podcertificaterequests"),
        }
    }

    pub(super) fn vertex_kind(self) -> VertexKind {
        match self {
            Self::Pods => VertexKind::Pod,
            Self::PersistentVolumes => VertexKind::PersistentVolume,
            Self::VolumeAttachments => VertexKind::VolumeAttachment,
            Self::ResourceSlices => VertexKind::ResourceSlice,
            Self::PodCertificateRequests => VertexKind::PodCertificateRequest,
        }
    }

    /// Returns the edges of a stored object; `None` if it leads to no node.
    pub(super) fn links(self, namespace: &str, name: &str, object: &Value) -> Option<Links> {
        match self {
            Self::Pods => pod_links(namespace, name, object),
            Self::PersistentVolumes => volume_links(object),
            _ => Some(Links {
                target: node_of(object)?,
                sources: Vec::new(),
            }),
        }
    }
}

fn text<'a>(object: &'a Value, path: &[&str]) -> &'a str {
    object.str_at(path).unwrap_or_default()
}

fn items<'a>(object: &'a Value, path: &[&str]) -> impl Iterator<Item = &'a Value> + use<'a> {
    let list = object.at(path).and_then(Value::as_list);
    list.into_iter().flat_map(|list| list.iter())
}

fn node_of(object: &Value) -> Option<VertexName> {
    let node = text(object, &["spec", "nodeName"]);
    (!node.is_empty()).then(|| VertexName::new(VertexKind::Node, "", node))
}

/// Returns the edges of a Pod that is bound to a node. A mirror Pod leads to its node, but no object leads to it: a
/// node creates it and must not gain access by that.
///
/// upstream: plugin/pkg/auth/authorizer/node#Graph.AddPod
fn pod_links(namespace: &str, name: &str, pod: &Value) -> Option<Links> {
    let target = node_of(pod)?;
    let mut names = PodSources {
        namespace,
        found: Vec::new(),
    };
    if pod.at(&["metadata", "annotations", MIRROR]).is_none() {
        names.add(VertexKind::ServiceAccount, text(pod, &["spec", "serviceAccountName"]));
        names.add_containers(pod);
        names.add_volumes(pod, name);
        names.add_resource_claims(pod);
    }
    Some(Links {
        target,
        sources: names.found,
    })
}

/// Objects that a Pod refers to.
struct PodSources<'a> {
    namespace: &'a str,
    found: Vec<VertexName>,
}

/// Sources of a volume in the order in which the reference checks them, with the path of the Secret's name.
const VOLUME_SECRETS: [(&str, &[&str]); 11] = [
    ("azureFile", &["secretName"]),
    ("cephfs", &["secretRef", "name"]),
    ("cinder", &["secretRef", "name"]),
    ("flexVolume", &["secretRef", "name"]),
    // The sources of a projected volume follow.
    ("projected", &[]),
    ("rbd", &["secretRef", "name"]),
    ("secret", &["secretName"]),
    ("scaleIO", &["secretRef", "name"]),
    ("iscsi", &["secretRef", "name"]),
    ("storageos", &["secretRef", "name"]),
    ("csi", &["nodePublishSecretRef", "name"]),
];

impl PodSources<'_> {
    fn add(&mut self, kind: VertexKind, name: &str) {
        if !name.is_empty() {
            self.found.push(VertexName::new(kind, self.namespace, name));
        }
    }

    /// upstream: pkg/api/v1/pod#VisitPodSecretNames
    /// upstream: pkg/api/v1/pod#VisitPodConfigmapNames
    fn add_containers(&mut self, pod: &Value) {
        for secret in items(pod, &["spec", "imagePullSecrets"]) {
            self.add(VertexKind::Secret, text(secret, &["name"]));
        }
        let lists = ["initContainers", "containers", "ephemeralContainers"];
        for container in lists.iter().flat_map(|list| items(pod, &["spec", list])) {
            for source in items(container, &["envFrom"]) {
                self.add(VertexKind::Secret, text(source, &["secretRef", "name"]));
                self.add(VertexKind::ConfigMap, text(source, &["configMapRef", "name"]));
            }
            for source in items(container, &["env"]) {
                self.add(VertexKind::Secret, text(source, &["valueFrom", "secretKeyRef", "name"]));
                self.add(
                    VertexKind::ConfigMap,
                    text(source, &["valueFrom", "configMapKeyRef", "name"]),
                );
            }
        }
    }

    fn add_volumes(&mut self, pod: &Value, pod_name: &str) {
        for volume in items(pod, &["spec", "volumes"]) {
            let source = VOLUME_SECRETS
                .iter()
                .find_map(|(name, path)| Some((volume.get(name)?, path)));
            if let Some((source, path)) = source
                && !path.is_empty()
            {
                self.add(VertexKind::Secret, text(source, path));
            }
            for projected in items(volume, &["projected", "sources"]) {
                self.add(VertexKind::Secret, text(projected, &["secret", "name"]));
                self.add(VertexKind::ConfigMap, text(projected, &["configMap", "name"]));
            }
            self.add(VertexKind::ConfigMap, text(volume, &["configMap", "name"]));
            if let Some(claim) = volume.get("persistentVolumeClaim") {
                self.add(VertexKind::PersistentVolumeClaim, text(claim, &["claimName"]));
            } else if volume.get("ephemeral").is_some() {
                let claim = format!("{pod_name}-{}", text(volume, &["name"]));
                self.add(VertexKind::PersistentVolumeClaim, &claim);
            }
        }
    }

    /// Adds the claims by their names, and those of templates once the status of the Pod names them.
    ///
    /// upstream: k8s.io/dynamic-resource-allocation/resourceclaim#Name
    fn add_resource_claims(&mut self, pod: &Value) {
        for claim in items(pod, &["spec", "resourceClaims"]) {
            if let Some(name) = claim.str_at(&["resourceClaimName"]) {
                self.add(VertexKind::ResourceClaim, name);
            } else if claim.get("resourceClaimTemplateName").is_some() {
                let name = text(claim, &["name"]);
                let mut statuses = items(pod, &["status", "resourceClaimStatuses"]);
                let status = statuses.find(|status| text(status, &["name"]) == name);
                let made = status.map_or("", |status| text(status, &["resourceClaimName"]));
                self.add(VertexKind::ResourceClaim, made);
            }
        }
        let extended = ["status", "extendedResourceClaimStatus", "resourceClaimName"];
        self.add(VertexKind::ResourceClaim, text(pod, &extended));
    }
}

/// Place of the Secret of a volume source.
struct SecretPlace {
    source: &'static str,
    /// Field with the reference.
    field: &'static str,
    /// True if a reference without a namespace means the namespace of the claim.
    in_claim_namespace: bool,
}

const fn place(source: &'static str, field: &'static str, in_claim_namespace: bool) -> SecretPlace {
    SecretPlace {
        source,
        field,
        in_claim_namespace,
    }
}

/// Secrets of volumes that kubelets read. Those that only controllers read are not listed.
const PERSISTENT_SECRETS: [SecretPlace; 10] = [
    place("cephfs", "secretRef", true),
    place("cinder", "secretRef", false),
    place("flexVolume", "secretRef", true),
    place("rbd", "secretRef", true),
    place("scaleIO", "secretRef", true),
    place("iscsi", "secretRef", true),
    place("storageos", "secretRef", false),
    place("csi", "nodePublishSecretRef", false),
    place("csi", "nodeStageSecretRef", false),
    place("csi", "nodeExpandSecretRef", false),
];

/// Returns the edges of a volume that is bound to a claim.
///
/// upstream: plugin/pkg/auth/authorizer/node#Graph.AddPV
/// upstream: pkg/api/v1/persistentvolume#VisitPVSecretNames
fn volume_links(volume: &Value) -> Option<Links> {
    let spec = volume.get("spec")?;
    let claim = spec.get("claimRef")?;
    let claim_namespace = text(claim, &["namespace"]);
    let mut sources = Vec::new();
    let mut add = |namespace: &str, name: &str| {
        if !name.is_empty() {
            sources.push(VertexName::new(VertexKind::Secret, namespace, name));
        }
    };
    if let Some(file) = spec.get("azureFile") {
        let namespace = file.str_at(&["secretNamespace"]).filter(|text| !text.is_empty());
        add(namespace.unwrap_or(claim_namespace), text(file, &["secretName"]));
    }
    for place in &PERSISTENT_SECRETS {
        let Some(reference) = spec.at(&[place.source, place.field]) else {
            continue;
        };
        let namespace = match text(reference, &["namespace"]) {
            "" if place.in_claim_namespace => claim_namespace,
            namespace => namespace,
        };
        add(namespace, text(reference, &["name"]));
    }
    Some(Links {
        target: VertexName::new(
            VertexKind::PersistentVolumeClaim,
            claim_namespace,
            text(claim, &["name"]),
        ),
        sources,
    })
}

#[cfg(test)]
mod tests {
    use holdfast_value::{Limits, yaml};

    use super::*;

    fn sources(resource: GraphResource, text: &str) -> Vec<String> {
        let object = yaml::parse(text.as_bytes(), &Limits::REQUEST).unwrap();
        let links = resource.links("ns", "p", &object).unwrap();
        let shown = |vertex: &VertexName| format!("{:?} {}/{}", vertex.kind, vertex.namespace, vertex.name);
        let mut all = vec![shown(&links.target)];
        all.extend(links.sources.iter().map(shown));
        all
    }

    #[test]
    fn pod_refers_to_all_objects_of_its_spec() {
        let pod = r"
spec:
  nodeName: n1
  serviceAccountName: robot
  imagePullSecrets: [{name: pull}, {name: ''}]
  initContainers: [{name: i, envFrom: [{secretRef: {name: s1}}, {configMapRef: {name: c1}}]}]
  containers: [{name: c, env: [{name: A, valueFrom: {secretKeyRef: {name: s2, key: k}}},
    {name: B, valueFrom: {configMapKeyRef: {name: c2, key: k}}}, {name: C, value: x}]}]
  ephemeralContainers: [{name: e, envFrom: [{secretRef: {name: s3}}]}]
  volumes:
  - {name: v1, secret: {secretName: s4}}
  - {name: v2, configMap: {name: c3}}
  - {name: v3, projected: {sources: [{secret: {name: s5}}, {configMap: {name: c4}}, {serviceAccountToken: {path: t}}]}}
  - {name: v4, persistentVolumeClaim: {claimName: pvc}}
  - {name: v5, ephemeral: {volumeClaimTemplate: {}}}
  - {name: v6, csi: {driver: d, nodePublishSecretRef: {name: s6}}}
  - {name: v7, azureFile: {secretName: s7}}
  - {name: v8, iscsi: {secretRef: {name: s8}}}
  resourceClaims: [{name: r1, resourceClaimName: direct}, {name: r2, resourceClaimTemplateName: t},
    {name: r3, resourceClaimTemplateName: t}]
status:
  resourceClaimStatuses: [{name: r2, resourceClaimName: made}, {name: r3}]
  extendedResourceClaimStatus: {resourceClaimName: extended}
";
        let expected = [
            "Node /n1",
            "ServiceAccount ns/robot",
            "Secret ns/pull",
            "Secret ns/s1",
            "ConfigMap ns/c1",
            "Secret ns/s2",
            "ConfigMap ns/c2",
            "Secret ns/s3",
            "Secret ns/s4",
            "ConfigMap ns/c3",
            "Secret ns/s5",
            "ConfigMap ns/c4",
            "PersistentVolumeClaim ns/pvc",
            "PersistentVolumeClaim ns/p-v5",
            "Secret ns/s6",
            "Secret ns/s7",
            "Secret ns/s8",
            "ResourceClaim ns/direct",
            "ResourceClaim ns/made",
            "ResourceClaim ns/extended",
        ];
        assert_eq!(sources(GraphResource::Pods, pod), expected);
    }

    #[test]
    fn mirror_pod_gives_access_to_nothing_else() {
        let pod = "{metadata: {annotations: {kubernetes.io/config.mirror: x}}, spec: {nodeName: n1, serviceAccountName: a, volumes: \
                   [{name: v, secret: {secretName: s}}]}}";
        assert_eq!(sources(GraphResource::Pods, pod), ["Node /n1"]);
    }

    #[test]
    fn object_without_node_or_claim_has_no_edges() {
        for resource in GraphResource::ALL {
            let object = yaml::parse(b"{spec: {nodeName: ''}}", &Limits::REQUEST).unwrap();
            assert_eq!(resource.links("ns", "p", &object), None, "{resource:?}");
        }
    }

    #[test]
    fn volume_refers_to_secrets_that_kubelets_read() {
        let bound = "claimRef: {namespace: ns, name: c}";
        for (source, secrets) in [
            ("azureFile: {secretName: s}", &["Secret ns/s"][..]),
            ("azureFile: {secretName: s, secretNamespace: x}", &["Secret x/s"]),
            ("cephfs: {secretRef: {name: s}}", &["Secret ns/s"]),
            ("rbd: {secretRef: {name: s, namespace: x}}", &["Secret x/s"]),
            ("cinder: {secretRef: {name: s, namespace: x}}", &["Secret x/s"]),
            (
                "csi: {controllerPublishSecretRef: {name: a, namespace: x}, nodePublishSecretRef: {name: b, namespace: x}, \
                 nodeStageSecretRef: {name: c, namespace: x}, nodeExpandSecretRef: {name: d, namespace: x}, \
                 controllerExpandSecretRef: {name: e, namespace: x}}",
                &["Secret x/b", "Secret x/c", "Secret x/d"],
            ),
        ] {
            let volume = format!("{{spec: {{{bound}, {source}}}}}");
            let found = sources(GraphResource::PersistentVolumes, &volume);
            assert_eq!(found[0], "PersistentVolumeClaim ns/c");
            assert_eq!(found[1..], *secrets, "{source}");
        }
    }

    #[test]
    fn attachment_slice_and_request_lead_to_their_node() {
        for resource in [
            GraphResource::VolumeAttachments,
            GraphResource::ResourceSlices,
            GraphResource::PodCertificateRequests,
        ] {
            assert_eq!(sources(resource, "{spec: {nodeName: n1}}"), ["Node /n1"]);
        }
    }
}
