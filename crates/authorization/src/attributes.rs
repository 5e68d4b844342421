//! Attributes of a request that authorizers evaluate.

use holdfast_gotext::quote::quote;
use holdfast_value::SmolStr;

/// Authenticated user of a request.
///
/// ```
/// use holdfast_authorization::{AUTHENTICATED, User};
///
/// let alice = User { name: "alice".into(), groups: vec![AUTHENTICATED.into()], ..User::default() };
/// assert!(alice.is_in(AUTHENTICATED));
/// assert_eq!(alice.node(), None);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// Name, such as `alice` or `system:serviceaccount:default:robot`.
    pub name: SmolStr,
    /// Identifier that outlives the name; may be empty.
    pub uid: SmolStr,
    /// Groups, including `system:authenticated`.
    pub groups: Vec<SmolStr>,
    /// Additional attributes from the authenticator: keys and their values.
    pub extra: Vec<(SmolStr, Vec<SmolStr>)>,
}

/// Group of all authenticated users.
pub const AUTHENTICATED: &str = "system:authenticated";

/// Group of all users that are not authenticated.
pub const UNAUTHENTICATED: &str = "system:unauthenticated";

/// Group whose members may do everything.
pub const MASTERS: &str = "system:masters";

/// Extra key of a service account's user with the name of the node on which it runs.
pub const NODE_NAME: &str = "authentication.kubernetes.io/node-name";

impl User {
    /// Returns the node that the user runs on, if known.
    pub fn node(&self) -> Option<&str> {
        let (_, nodes) = self.extra.iter().find(|(key, _)| key == NODE_NAME)?;
        match nodes.as_slice() {
            [node] if !node.is_empty() => Some(node),
            _ => None,
        }
    }

    /// True if the user is in `group`.
    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|member| member == group)
    }

    /// Returns the user of the server itself, which may do everything.
    pub fn server() -> Self {
        Self {
            name: SmolStr::new_static("system:apiserver"),
            groups: vec![SmolStr::new_static(MASTERS)],
            ..Self::default()
        }
    }
}

/// Action that a user requests.
///
/// ```
/// use holdfast_authorization::{AccessTarget, Attributes, ResourceTarget};
///
/// let pods = ResourceTarget { version: "v1", resource: "pods", namespace: "shop", ..ResourceTarget::default() };
/// let list = Attributes { verb: "list", target: AccessTarget::Resource(pods) };
/// assert!(list.is_read_only());
/// assert_eq!(
///     list.rejection("alice", ""),
///     r#"User "alice" cannot list resource "pods" in API group "" in the namespace "shop""#
/// );
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes<'a> {
    /// Verb of the API for resources (`get`, `list`, `impersonate`, …), or an HTTP method in lower case for paths.
    pub verb: &'a str,
    /// Target of the action.
    pub target: AccessTarget<'a>,
}

/// Target of an action.
///
/// ```
/// use holdfast_authorization::{AccessTarget, Attributes};
///
/// let healthz = Attributes { verb: "get", target: AccessTarget::Path("/healthz") };
/// assert_eq!(healthz.rejection("alice", ""), r#"User "alice" cannot get path "/healthz""#);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessTarget<'a> {
    /// A resource, or objects of it.
    Resource(ResourceTarget<'a>),
    /// A path that does not belong to a resource.
    Path(&'a str),
}

/// Resource, or objects of it.
///
/// ```
/// use holdfast_authorization::ResourceTarget;
///
/// let log = ResourceTarget { version: "v1", resource: "pods", subresource: "log", name: "web", ..ResourceTarget::default() };
/// assert!(log.group.is_empty() && log.field_selector.is_empty());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResourceTarget<'a> {
    /// API group; empty for the core group.
    pub group: &'a str,
    /// Version, or `*`.
    pub version: &'a str,
    /// Plural name of the resource.
    pub resource: &'a str,
    /// Subresource; empty for the object itself.
    pub subresource: &'a str,
    /// Namespace; empty for cluster-scoped resources and for all namespaces.
    pub namespace: &'a str,
    /// Name of the object; empty for all objects.
    pub name: &'a str,
    /// Requirements of the field selector of a list, watch or deletecollection; empty if there is none, or if it cannot
    /// be parsed.
    pub field_selector: &'a [FieldRequirement],
    /// Text of the label selector of a list, watch or deletecollection; empty if there is none. Authorizers that cannot parse
    /// it ignore it.
    pub label_selector: &'a str,
}

/// Requirement of a field selector.
///
/// ```
/// use holdfast_authorization::{FieldRequirement, ResourceTarget};
///
/// // The Pods of one node.
/// let of_node = [FieldRequirement { field: "spec.nodeName".into(), is_equal: true, value: "n1".into() }];
/// let pods = ResourceTarget { resource: "pods", field_selector: &of_node, ..ResourceTarget::default() };
/// assert_eq!(pods.field_selector.len(), 1);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldRequirement {
    /// Path of the field, such as `spec.nodeName`.
    pub field: SmolStr,
    /// True if the field must have the value, false if it must not.
    pub is_equal: bool,
    /// The value.
    pub value: SmolStr,
}

/// Attributes that outlive the request, for an authorizer that continues later.
///
/// ```
/// use holdfast_authorization::{AccessTarget, Attributes, OwnedAttributes};
///
/// let owned = {
///     let path = String::from("/healthz");
///     OwnedAttributes::from(&Attributes { verb: "get", target: AccessTarget::Path(&path) })
/// };
/// assert!(matches!(owned.borrow().target, AccessTarget::Path("/healthz")));
/// ```
#[derive(Clone, Debug)]
pub struct OwnedAttributes {
    verb: SmolStr,
    target: OwnedTarget,
}

#[derive(Clone, Debug)]
enum OwnedTarget {
    Path(SmolStr),
    /// The group, version, resource, subresource, namespace, name and label selector, and the field selector.
    Resource([SmolStr; 7], Vec<FieldRequirement>),
}

impl From<&Attributes<'_>> for OwnedAttributes {
    fn from(attributes: &Attributes<'_>) -> Self {
        let target = match attributes.target {
            AccessTarget::Path(path) => OwnedTarget::Path(path.into()),
            AccessTarget::Resource(target) => {
                let texts = [
                    target.group,
                    target.version,
                    target.resource,
                    target.subresource,
                    target.namespace,
                    target.name,
                    target.label_selector,
                ];
                OwnedTarget::Resource(texts.map(SmolStr::new), target.field_selector.to_vec())
            }
        };
        Self {
            verb: attributes.verb.into(),
            target,
        }
    }
}

impl OwnedAttributes {
    /// Returns the attributes.
    pub fn borrow(&self) -> Attributes<'_> {
        let target = match &self.target {
            OwnedTarget::Path(path) => AccessTarget::Path(path),
            OwnedTarget::Resource(texts, field_selector) => {
                let [group, version, resource, subresource, namespace, name, label_selector] = texts;
                AccessTarget::Resource(ResourceTarget {
                    group,
                    version,
                    resource,
                    subresource,
                    namespace,
                    name,
                    field_selector,
                    label_selector,
                })
            }
        };
        Attributes {
            verb: &self.verb,
            target,
        }
    }
}

impl Attributes<'_> {
    /// True if the verb only reads: `get`, `list` or `watch`.
    ///
    /// upstream: k8s.io/apiserver/pkg/authorization/authorizer#AttributesRecord.IsReadOnly
    pub fn is_read_only(&self) -> bool {
        matches!(self.verb, "get" | "list" | "watch")
    }

    /// Returns the reference's message if `user` may not do this. `reason` comes from the authorizer and may be empty.
    pub fn rejection(&self, user: &str, reason: &str) -> String {
        let (verb, user) = (self.verb, quote(user));
        let because = if reason.is_empty() { "" } else { ": " };
        let target = match self.target {
            AccessTarget::Path(path) => {
                return format!("User {user} cannot {verb} path {}{because}{reason}", quote(path));
            }
            AccessTarget::Resource(target) => target,
        };
        let resource = match target.subresource {
            "" => quote(target.resource),
            subresource => quote(&format!("{}/{subresource}", target.resource)),
        };
        let scope = match target.namespace {
            "" => "at the cluster scope".to_owned(),
            namespace => format!("in the namespace {}", quote(namespace)),
        };
        let group = quote(target.group);
        format!("User {user} cannot {verb} resource {resource} in API group {group} {scope}{because}{reason}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn denial_names_user_action_and_scope() {
        let target = ResourceTarget {
            group: "apps",
            resource: "deployments",
            ..ResourceTarget::default()
        };
        let rejection = |target, user: &str, reason: &str| Attributes { verb: "get", target }.rejection(user, reason);
        assert_eq!(
            rejection(AccessTarget::Resource(target), "al\"ice", ""),
            r#"User "al\"ice" cannot get resource "deployments" in API group "apps" at the cluster scope"#
        );
        let of_one = ResourceTarget {
            subresource: "status",
            namespace: "ns",
            ..target
        };
        assert_eq!(
            rejection(AccessTarget::Resource(of_one), "bob", "no rule"),
            r#"User "bob" cannot get resource "deployments/status" in API group "apps" in the namespace "ns": no rule"#
        );
        assert_eq!(
            rejection(AccessTarget::Path("/metrics"), "bob", ""),
            r#"User "bob" cannot get path "/metrics""#
        );
    }

    #[test]
    fn owned_attributes_equal_the_borrowed_ones() {
        let field_selector = [FieldRequirement {
            field: "spec.nodeName".into(),
            is_equal: true,
            value: "n1".into(),
        }];
        let resource = AccessTarget::Resource(ResourceTarget {
            group: "g",
            version: "v",
            resource: "r",
            subresource: "s",
            namespace: "ns",
            name: "n",
            field_selector: &field_selector,
            label_selector: "a=b",
        });
        for target in [resource, AccessTarget::Path("/livez")] {
            let attributes = Attributes { verb: "list", target };
            assert_eq!(OwnedAttributes::from(&attributes).borrow(), attributes);
        }
    }

    #[test]
    fn a_user_runs_on_a_node_where_one_is_named() {
        let node = |nodes: &[&str]| {
            let user = User {
                extra: vec![(NODE_NAME.into(), nodes.iter().map(|&node| node.into()).collect())],
                ..User::default()
            };
            user.node().map(str::to_owned)
        };
        assert_eq!(node(&["one"]).as_deref(), Some("one"));
        assert_eq!((node(&[]), node(&[""]), node(&["one", "two"])), (None, None, None));
    }
}
