//! Decisions of the mode `Node`.

use std::sync::Arc;

use holdfast_gotext::quote::quote;

use super::NodeGraph;
use super::graph::VertexKind;
use crate::rbac::rule::allows;
use crate::{AccessTarget, Attributes, Authorization, Authorizer, Decision, ResourceTarget, Rule, User, UserRules};

/// Group of all nodes.
pub const NODES: &str = "system:nodes";

/// Prefix of the user names of nodes.
const NODE_USER_PREFIX: &str = "system:node:";

/// Namespace of the leases of nodes.
const LEASE_NAMESPACE: &str = "kube-node-lease";

/// Returns the name of the node whose kubelet the user is. It is empty if the user name has only the prefix.
///
/// upstream: pkg/auth/nodeidentifier#defaultNodeIdentifier.NodeIdentity
pub fn node_of(user: &User) -> Option<&str> {
    let name = user.name.strip_prefix(NODE_USER_PREFIX)?;
    user.is_in(NODES).then_some(name)
}

/// Feature gates of the Node authorizer.
///
/// ```
/// use holdfast_authorization::node::NodeFeatures;
///
/// let features = NodeFeatures { pod_certificates: true, service_accounts: false };
/// assert!(features.pod_certificates);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeFeatures {
    /// `PodCertificateRequest`: nodes request certificates for their Pods.
    pub pod_certificates: bool,
    /// `KubeletServiceAccountTokenForCredentialProviders`: nodes read the service accounts of their Pods.
    pub service_accounts: bool,
}

/// Authorizer of the mode `Node`.
///
/// ```
/// use std::sync::Arc;
/// use holdfast_authorization::node::{GraphResource, NodeAuthorizer, NodeFeatures, NodeGraph};
/// use holdfast_authorization::{AccessTarget, Attributes, Authorizer, ResourceTarget, User};
/// use holdfast_value::{Limits, yaml};
///
/// let graph = Arc::new(NodeGraph::default());
/// let pod = yaml::parse(b"spec: {nodeName: n1, volumes: [{name: v, secret: {secretName: s}}]}", &Limits::REQUEST)?;
/// graph.set_object(GraphResource::Pods, "default", "web", Some(&pod));
/// let features = NodeFeatures { pod_certificates: false, service_accounts: false };
/// let authorizer = NodeAuthorizer::new(graph, Vec::new(), features);
///
/// let node = |name: &str| User { name: name.into(), groups: vec!["system:nodes".into()], ..User::default() };
/// let secret = ResourceTarget { version: "v1", resource: "secrets", namespace: "default", name: "s", ..ResourceTarget::default() };
/// let get = Attributes { verb: "get", target: AccessTarget::Resource(secret) };
/// assert!(authorizer.authorize(&node("system:node:n1"), &get).allows());
/// assert!(!authorizer.authorize(&node("system:node:n2"), &get).allows());
/// # Ok::<(), holdfast_value::Error>(())
/// ```
#[derive(Debug)]
pub struct NodeAuthorizer {
    graph: Arc<NodeGraph>,
    rules: Vec<Rule>,
    features: NodeFeatures,
}

/// Reason why a request is not allowed; `Ok` if it is.
type Verdict = Result<(), String>;

fn deny(reason: impl Into<String>) -> Verdict {
    Err(reason.into())
}

/// Returns `Ok` if `is_allowed`, and otherwise the reason.
fn check(is_allowed: bool, reason: &'static str) -> Verdict {
    if is_allowed { Ok(()) } else { deny(reason) }
}

impl NodeAuthorizer {
    /// Creates an authorizer that allows all nodes `rules`, except on the resources that `graph` decides about.
    pub fn new(graph: Arc<NodeGraph>, rules: Vec<Rule>, features: NodeFeatures) -> Self {
        Self { graph, rules, features }
    }

    /// upstream: plugin/pkg/auth/authorizer/node#NodeAuthorizer.Authorize
    fn decide(&self, node: &str, attributes: &Attributes<'_>) -> Verdict {
        let AccessTarget::Resource(target) = &attributes.target else {
            return self.check_rules(attributes);
        };
        let request = NodeRequest {
            graph: &self.graph,
            node,
            verb: attributes.verb,
            target,
        };
        let features = &self.features;
        match (target.group, target.resource) {
            ("", "secrets") => request.check_read(VertexKind::Secret),
            ("", "configmaps") => request.check_read(VertexKind::ConfigMap),
            ("", "persistentvolumeclaims") => request.check_claim(),
            ("", "persistentvolumes") => request.check_get(VertexKind::PersistentVolume),
            ("resource.k8s.io", "resourceclaims") => request.check_get(VertexKind::ResourceClaim),
            ("storage.k8s.io", "volumeattachments") => request.check_get(VertexKind::VolumeAttachment),
            ("", "serviceaccounts") => {
                request.check_service_account(features.service_accounts || features.pod_certificates)
            }
            ("coordination.k8s.io", "leases") => request.check_lease(),
            ("storage.k8s.io", "csinodes") => request.check_csi_node(),
            ("resource.k8s.io", "resourceslices") => request.check_slice(),
            ("", "nodes") => request.check_node(),
            ("", "pods") => request.check_pod(),
            ("certificates.k8s.io", "podcertificaterequests") => match features.pod_certificates {
                true => request.check_pod_certificate(),
                false => deny(""),
            },
            _ => self.check_rules(attributes),
        }
    }

    fn check_rules(&self, attributes: &Attributes<'_>) -> Verdict {
        check(self.rules.iter().any(|rule| allows(rule, attributes)), "")
    }
}

impl Authorizer for NodeAuthorizer {
    fn authorize(&self, user: &User, attributes: &Attributes<'_>) -> Authorization {
        let Some(node) = node_of(user) else {
            return Authorization::NO_OPINION;
        };
        let verdict = match node {
            "" => deny(format!("unknown node for user {}", quote(&user.name))),
            node => self.decide(node, attributes),
        };
        match verdict {
            Ok(()) => Authorization::new(Decision::Allow),
            Err(reason) => Authorization {
                decision: Decision::NoOpinion,
                reason: (!reason.is_empty()).then(|| reason.into()),
                error: None,
            },
        }
    }

    /// upstream: plugin/pkg/auth/authorizer/node#NodeAuthorizer.RulesFor
    fn rules(&self, user: &User, _namespace: &str) -> UserRules {
        if node_of(user).is_none() {
            return UserRules::default();
        }
        UserRules {
            incomplete: true,
            errors: vec!["node authorizer does not support user rule resolution".to_owned()],
            ..UserRules::default()
        }
    }
}

/// Request of a node for a resource.
struct NodeRequest<'a> {
    graph: &'a NodeGraph,
    node: &'a str,
    verb: &'a str,
    target: &'a ResourceTarget<'a>,
}

impl NodeRequest<'_> {
    fn has_subresource(&self) -> bool {
        !self.target.subresource.is_empty()
    }

    /// True if the request selects objects whose `field` is the name of the node.
    fn selects_node(&self, field: &str) -> bool {
        let mut requirements = self.target.field_selector.iter();
        requirements.any(|one| one.is_equal && one.field == field && one.value == self.node)
    }

    fn check_related(&self, kind: VertexKind) -> Verdict {
        let ResourceTarget { namespace, name, .. } = *self.target;
        match self.graph.leads_to(kind, namespace, name, self.node) {
            true => Ok(()),
            false => deny(format!(
                "no relationship found between node '{}' and this object",
                self.node
            )),
        }
    }

    /// upstream: plugin/pkg/auth/authorizer/node#NodeAuthorizer.authorize
    fn check_named(&self, kind: VertexKind) -> Verdict {
        check(!self.target.name.is_empty(), "No Object name found")?;
        self.check_related(kind)
    }

    /// upstream: plugin/pkg/auth/authorizer/node#NodeAuthorizer.authorizeReadNamespacedObject
    fn check_read(&self, kind: VertexKind) -> Verdict {
        let reads = matches!(self.verb, "get" | "list" | "watch");
        check(reads, "can only read resources of this type")?;
        check(!self.has_subresource(), "cannot read subresource")?;
        let is_namespaced = !self.target.namespace.is_empty();
        check(is_namespaced, "can only read namespaced object of this type")?;
        self.check_named(kind)
    }

    /// upstream: plugin/pkg/auth/authorizer/node#NodeAuthorizer.authorizeGet
    fn check_get(&self, kind: VertexKind) -> Verdict {
        check(self.verb == "get", "can only get individual resources of this type")?;
        check(!self.has_subresource(), "cannot get subresource")?;
        self.check_named(kind)
    }

    /// upstream: plugin/pkg/auth/authorizer/node#NodeAuthorizer.authorizeStatusUpdate
    fn check_claim(&self) -> Verdict {
        let kind = VertexKind::PersistentVolumeClaim;
        if self.target.subresource != "status" {
            return self.check_get(kind);
        }
        let updates = matches!(self.verb, "update" | "patch");
        check(updates, "can only get/update/patch this type")?;
        self.check_named(kind)
    }

    /// upstream: plugin/pkg/auth/authorizer/node#NodeAuthorizer.authorizeServiceAccount
    fn check_service_account(&self, may_read: bool) -> Verdict {
        if self.verb == "get" && !self.has_subresource() {
            check(may_read, "not allowed to get service accounts")?;
            return self.check_read(VertexKind::ServiceAccount);
        }
        let creates_one = self.verb == "create" && !self.target.name.is_empty();
        check(creates_one, "can only create tokens for individual service accounts")?;
        let is_token = self.target.subresource == "token";
        check(is_token, "can only create token subresource of serviceaccount")?;
        self.check_related(VertexKind::ServiceAccount)
    }

    /// True if the verb is one that nodes may use on their own lease and CSINode.
    fn maintains(&self) -> bool {
        matches!(self.verb, "get" | "create" | "update" | "patch" | "delete")
    }

    /// True if the object has the name of the node. The name of a new object is checked at admission.
    fn is_own(&self) -> bool {
        self.verb == "create" || self.target.name == self.node
    }

    /// upstream: plugin/pkg/auth/authorizer/node#NodeAuthorizer.authorizeLease
    fn check_lease(&self) -> Verdict {
        check(
            self.maintains(),
            "can only get, create, update, patch, or delete a node lease",
        )?;
        if self.target.namespace != LEASE_NAMESPACE {
            let namespace = quote(LEASE_NAMESPACE);
            return deny(format!("can only access leases in the {namespace} system namespace"));
        }
        check(
            self.is_own(),
            "can only access node lease with the same name as the requesting node",
        )
    }

    /// upstream: plugin/pkg/auth/authorizer/node#NodeAuthorizer.authorizeCSINode
    fn check_csi_node(&self) -> Verdict {
        check(
            self.maintains(),
            "can only get, create, update, patch, or delete a CSINode",
        )?;
        check(!self.has_subresource(), "cannot authorize CSINode subresources")?;
        check(
            self.is_own(),
            "can only access CSINode with the same name as the requesting node",
        )
    }

    /// upstream: plugin/pkg/auth/authorizer/node#NodeAuthorizer.authorizeResourceSlice
    fn check_slice(&self) -> Verdict {
        check(!self.has_subresource(), "cannot authorize ResourceSlice subresources")?;
        match self.verb {
            // The node of a new slice is checked at admission.
            "create" => Ok(()),
            "get" | "update" | "patch" | "delete" => self.check_named(VertexKind::ResourceSlice),
            "watch" | "list" | "deletecollection" => check(
                self.selects_node("spec.nodeName"),
                "can only list/watch/deletecollection resourceslices with nodeName field selector",
            ),
            _ => deny(
                "only the following verbs are allowed for a ResourceSlice: get, watch, list, create, update, patch, delete, \
                 deletecollection",
            ),
        }
    }

    /// upstream: plugin/pkg/auth/authorizer/node#NodeAuthorizer.authorizePodCertificateRequest
    fn check_pod_certificate(&self) -> Verdict {
        check(
            !self.has_subresource(),
            "nodes may not access the status subresource of PodCertificateRequests",
        )?;
        match self.verb {
            "create" => Ok(()),
            "get" => self.check_named(VertexKind::PodCertificateRequest),
            "list" | "watch" => check(
                self.selects_node("spec.nodeName"),
                "can only list/watch podcertificaterequests with nodeName field selector",
            ),
            verb => deny(format!("nodes may not {verb} podcertificaterequests")),
        }
    }

    /// Checks a request for Nodes. The name is compared directly, since a kubelet reads its Node before it creates it.
    ///
    /// upstream: plugin/pkg/auth/authorizer/node#NodeAuthorizer.authorizeNode
    fn check_node(&self) -> Verdict {
        match (self.target.subresource, self.verb) {
            ("", "create" | "update" | "patch") | ("status", "update" | "patch") => Ok(()),
            ("", "get" | "list" | "watch") => match self.target.name {
                name if name == self.node => Ok(()),
                "" => deny(format!(
                    "node '{}' cannot read all nodes, only its own Node object",
                    self.node
                )),
                name => deny(format!(
                    "node '{}' cannot read '{name}', only its own Node object",
                    self.node
                )),
            },
            _ => deny(""),
        }
    }

    /// upstream: plugin/pkg/auth/authorizer/node#NodeAuthorizer.authorizePod
    fn check_pod(&self) -> Verdict {
        match (self.target.subresource, self.verb) {
            ("", "get") => self.check_get(VertexKind::Pod),
            ("", "list" | "watch") if self.selects_node("spec.nodeName") => Ok(()),
            ("", "list" | "watch") if !self.target.name.is_empty() => self.check_named(VertexKind::Pod),
            ("", "list" | "watch") => deny("can only list/watch pods with spec.nodeName field selector"),
            // Admission limits these to mirror Pods, and to Pods of the node.
            ("", "create" | "delete") | ("status", "update" | "patch") | ("eviction", "create") => Ok(()),
            _ => deny(""),
        }
    }
}

#[cfg(test)]
mod tests {
    use holdfast_value::{Limits, yaml};

    use super::super::GraphResource;
    use super::*;
    use crate::FieldRequirement;

    const ALL_FEATURES: NodeFeatures = NodeFeatures {
        pod_certificates: true,
        service_accounts: true,
    };

    fn authorizer(features: NodeFeatures) -> NodeAuthorizer {
        let graph = NodeGraph::default();
        let object = |text: &str| yaml::parse(text.as_bytes(), &Limits::REQUEST).unwrap();
        let pod = "{spec: {nodeName: n1, serviceAccountName: sa, containers: [], resourceClaims: [{name: r, resourceClaimName: rc}], \
                   volumes: [{name: a, secret: {secretName: s}}, {name: b, configMap: {name: c}}, {name: d, persistentVolumeClaim: \
                   {claimName: pvc}}]}}";
        graph.set_object(GraphResource::Pods, "ns", "p", Some(&object(pod)));
        let volume =
            "{spec: {claimRef: {namespace: ns, name: pvc}, csi: {nodeStageSecretRef: {namespace: x, name: vs}}}}";
        graph.set_object(GraphResource::PersistentVolumes, "", "pv", Some(&object(volume)));
        for resource in [GraphResource::VolumeAttachments, GraphResource::ResourceSlices] {
            graph.set_object(resource, "", "own", Some(&object("{spec: {nodeName: n1}}")));
        }
        let request = object("{spec: {nodeName: n1}}");
        graph.set_object(GraphResource::PodCertificateRequests, "ns", "own", Some(&request));
        let services = Rule {
            verbs: vec!["get".into()],
            api_groups: vec!["".into()],
            resources: vec!["services".into()],
            ..Rule::default()
        };
        NodeAuthorizer::new(Arc::new(graph), vec![services], features)
    }

    fn kubelet(node: &str) -> User {
        User {
            name: format!("system:node:{node}").into(),
            groups: vec![NODES.into()],
            ..User::default()
        }
    }

    /// Asks as the node n1 for `verb group/resource/subresource namespace name field=value`. Parts may be `-`. Returns
    /// `allow`, or the reason.
    fn ask_with(authorizer: &NodeAuthorizer, request: &str) -> String {
        let parts: Vec<&str> = request.split(' ').map(|part| part.trim_matches('-')).collect();
        let part = |at: usize| parts.get(at).copied().unwrap_or_default();
        let mut resource = part(1).split('/');
        let selector: Vec<FieldRequirement> = part(4)
            .split_once('=')
            .map(|(field, value)| FieldRequirement {
                field: field.trim_end_matches('!').into(),
                is_equal: !field.ends_with('!'),
                value: value.into(),
            })
            .into_iter()
            .collect();
        let target = ResourceTarget {
            group: resource.next().unwrap_or_default(),
            version: "v1",
            resource: resource.next().unwrap_or_default(),
            subresource: resource.next().unwrap_or_default(),
            namespace: part(2),
            name: part(3),
            field_selector: &selector,
            label_selector: "",
        };
        let attributes = Attributes {
            verb: part(0),
            target: AccessTarget::Resource(target),
        };
        let answer = authorizer.authorize(&kubelet("n1"), &attributes);
        assert_ne!(answer.decision, Decision::Deny, "other authorizers may allow it");
        if answer.allows() {
            "allow".to_owned()
        } else {
            answer.reason().to_owned()
        }
    }

    const NO_RELATION: &str = "no relationship found between node 'n1' and this object";

    #[test]
    fn each_resource_has_the_rules_of_the_reference() {
        let authorizer = authorizer(ALL_FEATURES);
        for (request, expected) in [
            ("get /secrets ns s", "allow"),
            ("list /secrets ns s", "allow"),
            ("watch /secrets ns s", "allow"),
            ("get /secrets x vs", "allow"),
            ("get /secrets ns other", NO_RELATION),
            ("list /secrets ns", "No Object name found"),
            ("list /secrets", "can only read namespaced object of this type"),
            ("update /secrets ns s", "can only read resources of this type"),
            ("get /secrets/x ns s", "cannot read subresource"),
            ("get /configmaps ns c", "allow"),
            ("get /configmaps other c", NO_RELATION),
            ("get /persistentvolumeclaims ns pvc", "allow"),
            (
                "list /persistentvolumeclaims ns pvc",
                "can only get individual resources of this type",
            ),
            ("update /persistentvolumeclaims/status ns pvc", "allow"),
            ("patch /persistentvolumeclaims/status ns other", NO_RELATION),
            (
                "get /persistentvolumeclaims/status ns pvc",
                "can only get/update/patch this type",
            ),
            ("get /persistentvolumeclaims/x ns pvc", "cannot get subresource"),
            ("get /persistentvolumes - pv", "allow"),
            ("get /persistentvolumes - other", NO_RELATION),
            ("get resource.k8s.io/resourceclaims ns rc", "allow"),
            ("get resource.k8s.io/resourceclaims ns x", NO_RELATION),
            ("get storage.k8s.io/volumeattachments - own", "allow"),
            ("get storage.k8s.io/volumeattachments - x", NO_RELATION),
            ("get /serviceaccounts ns sa", "allow"),
            ("get /serviceaccounts ns other", NO_RELATION),
            ("create /serviceaccounts/token ns sa", "allow"),
            ("create /serviceaccounts/token ns other", NO_RELATION),
            (
                "create /serviceaccounts ns sa",
                "can only create token subresource of serviceaccount",
            ),
            (
                "list /serviceaccounts ns sa",
                "can only create tokens for individual service accounts",
            ),
            ("get /services ns web", "allow"),
            ("update /services ns web", ""),
            (
                "delete certificates.k8s.io/podcertificaterequests ns own",
                "nodes may not delete podcertificaterequests",
            ),
        ] {
            assert_eq!(ask_with(&authorizer, request), expected, "{request}");
        }
    }

    #[test]
    fn node_maintains_its_own_lease_and_csi_node() {
        let authorizer = authorizer(ALL_FEATURES);
        for (request, expected) in [
            ("get coordination.k8s.io/leases kube-node-lease n1", "allow"),
            ("create coordination.k8s.io/leases kube-node-lease", "allow"),
            (
                "update coordination.k8s.io/leases kube-node-lease n2",
                "can only access node lease with the same name as the requesting node",
            ),
            (
                "get coordination.k8s.io/leases ns n1",
                "can only access leases in the \"kube-node-lease\" system namespace",
            ),
            (
                "list coordination.k8s.io/leases kube-node-lease",
                "can only get, create, update, patch, or delete a node lease",
            ),
            ("patch storage.k8s.io/csinodes - n1", "allow"),
            ("create storage.k8s.io/csinodes", "allow"),
            (
                "get storage.k8s.io/csinodes - n2",
                "can only access CSINode with the same name as the requesting node",
            ),
            (
                "watch storage.k8s.io/csinodes",
                "can only get, create, update, patch, or delete a CSINode",
            ),
            (
                "get storage.k8s.io/csinodes/status - n1",
                "cannot authorize CSINode subresources",
            ),
        ] {
            assert_eq!(ask_with(&authorizer, request), expected, "{request}");
        }
    }

    #[test]
    fn lists_must_select_objects_of_the_node() {
        let authorizer = authorizer(ALL_FEATURES);
        let own = "spec.nodeName=n1";
        let slices = "can only list/watch/deletecollection resourceslices with nodeName field selector";
        let pods = "can only list/watch pods with spec.nodeName field selector";
        let requests = "can only list/watch podcertificaterequests with nodeName field selector";
        for (request, expected) in [
            (format!("list resource.k8s.io/resourceslices - - {own}"), "allow"),
            (
                format!("deletecollection resource.k8s.io/resourceslices - - {own}"),
                "allow",
            ),
            (
                "watch resource.k8s.io/resourceslices - - spec.nodeName=n2".to_owned(),
                slices,
            ),
            (
                "watch resource.k8s.io/resourceslices - - spec.nodeName!=n1".to_owned(),
                slices,
            ),
            ("get resource.k8s.io/resourceslices - own".to_owned(), "allow"),
            ("create resource.k8s.io/resourceslices".to_owned(), "allow"),
            ("delete resource.k8s.io/resourceslices - x".to_owned(), NO_RELATION),
            (
                "get resource.k8s.io/resourceslices/status - own".to_owned(),
                "cannot authorize ResourceSlice subresources",
            ),
            (
                "x resource.k8s.io/resourceslices - own".to_owned(),
                "only the following verbs are allowed for a ResourceSlice: get, watch, list, create, update, patch, delete, \
                 deletecollection",
            ),
            (format!("list /pods - - {own}"), "allow"),
            (format!("watch /pods ns - {own}"), "allow"),
            ("list /pods".to_owned(), pods),
            ("list /pods ns p".to_owned(), "allow"),
            ("list /pods ns q".to_owned(), NO_RELATION),
            ("get /pods ns p".to_owned(), "allow"),
            ("get /pods ns q".to_owned(), NO_RELATION),
            ("create /pods ns".to_owned(), "allow"),
            ("delete /pods ns q".to_owned(), "allow"),
            ("update /pods ns p".to_owned(), ""),
            ("patch /pods/status ns q".to_owned(), "allow"),
            ("create /pods/eviction ns q".to_owned(), "allow"),
            ("get /pods/log ns p".to_owned(), ""),
            (
                format!("list certificates.k8s.io/podcertificaterequests ns - {own}"),
                "allow",
            ),
            (
                "list certificates.k8s.io/podcertificaterequests ns".to_owned(),
                requests,
            ),
            (
                "get certificates.k8s.io/podcertificaterequests ns own".to_owned(),
                "allow",
            ),
            (
                "get certificates.k8s.io/podcertificaterequests ns x".to_owned(),
                NO_RELATION,
            ),
        ] {
            assert_eq!(ask_with(&authorizer, &request), expected, "{request}");
        }
    }

    #[test]
    fn node_reads_only_its_own_node_object() {
        let authorizer = authorizer(ALL_FEATURES);
        for (request, expected) in [
            ("get /nodes - n1", "allow"),
            ("watch /nodes - n1", "allow"),
            (
                "get /nodes - n2",
                "node 'n1' cannot read 'n2', only its own Node object",
            ),
            (
                "list /nodes",
                "node 'n1' cannot read all nodes, only its own Node object",
            ),
            ("create /nodes", "allow"),
            ("patch /nodes/status - n1", "allow"),
            ("delete /nodes - n1", ""),
            ("get /nodes/status - n1", ""),
            ("get /nodes/proxy - n1", ""),
        ] {
            assert_eq!(ask_with(&authorizer, request), expected, "{request}");
        }
    }

    #[test]
    fn gates_change_the_rules() {
        let none = authorizer(NodeFeatures {
            pod_certificates: false,
            service_accounts: false,
        });
        for (request, expected) in [
            ("create certificates.k8s.io/podcertificaterequests ns", ""),
            ("get /serviceaccounts ns sa", "not allowed to get service accounts"),
        ] {
            assert_eq!(ask_with(&none, request), expected, "{request}");
        }
    }

    #[test]
    fn only_nodes_are_judged() {
        let authorizer = authorizer(ALL_FEATURES);
        let get = Attributes {
            verb: "get",
            target: AccessTarget::Path("/healthz"),
        };
        let outsider = User {
            groups: Vec::new(),
            ..kubelet("n1")
        };
        let alice = User {
            name: "alice".into(),
            groups: vec![NODES.into()],
            ..User::default()
        };
        for user in [&outsider, &alice] {
            assert_eq!(authorizer.authorize(user, &get), Authorization::NO_OPINION);
            assert_eq!(authorizer.rules(user, "ns"), UserRules::default());
        }
        assert_eq!(
            authorizer.authorize(&kubelet(""), &get).reason(),
            "unknown node for user \"system:node:\""
        );
        assert_eq!(authorizer.authorize(&kubelet("n1"), &get), Authorization::NO_OPINION);
        assert!(authorizer.rules(&kubelet("n1"), "ns").incomplete);
    }
}
