//! The attributes of a request that authorizers decide by.

use holdfast_gotext::quote::quote;
use holdfast_value::SmolStr;

/// The user that a request was authenticated as.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// The name, such as `alice` or `system:serviceaccount:default:robot`.
    pub name: SmolStr,
    /// An identifier that outlives the name; may be empty.
    pub uid: SmolStr,
    /// The groups, `system:authenticated` among them.
    pub groups: Vec<SmolStr>,
    /// What else the authenticator knows: keys and their values.
    pub extra: Vec<(SmolStr, Vec<SmolStr>)>,
}

/// The group of everybody who was authenticated.
pub const AUTHENTICATED: &str = "system:authenticated";

/// The group of everybody who was not.
pub const UNAUTHENTICATED: &str = "system:unauthenticated";

/// The group whose members may do everything.
pub const MASTERS: &str = "system:masters";

/// The extra of a service account's user that names the node on which it runs.
pub const NODE_NAME: &str = "authentication.kubernetes.io/node-name";

impl User {
    /// The node that the user runs on, where one is known.
    pub fn node(&self) -> Option<&str> {
        let (_, nodes) = self.extra.iter().find(|(key, _)| key == NODE_NAME)?;
        match nodes.as_slice() {
            [node] if !node.is_empty() => Some(node),
            _ => None,
        }
    }

    /// Whether the user is in `group`.
    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|member| member == group)
    }

    /// The server itself, which may do everything.
    pub fn server() -> Self {
        Self {
            name: SmolStr::new_static("system:apiserver"),
            groups: vec![SmolStr::new_static(MASTERS)],
            ..Self::default()
        }
    }
}

/// What a user wants to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes<'a> {
    /// A verb of the API for resources (`get`, `list`, `impersonate`, …), an HTTP method in small letters for paths.
    pub verb: &'a str,
    /// What it is to be done to.
    pub target: AccessTarget<'a>,
}

/// What something is to be done to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessTarget<'a> {
    /// A resource, or objects of it.
    Resource(ResourceTarget<'a>),
    /// A path that is none of a resource.
    Path(&'a str),
}

/// A resource, or objects of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResourceTarget<'a> {
    /// The group; empty for the core group.
    pub group: &'a str,
    /// The version, or `*`.
    pub version: &'a str,
    /// The plural name of the resource.
    pub resource: &'a str,
    /// The subresource; empty for the object itself.
    pub subresource: &'a str,
    /// The namespace; empty for cluster-scoped resources and for all namespaces.
    pub namespace: &'a str,
    /// The name of the object; empty for all objects.
    pub name: &'a str,
}

impl Attributes<'_> {
    /// What the reference says where `user` may not do this. `reason` is that of the authorizer; may be empty.
    pub fn refusal(&self, user: &str, reason: &str) -> String {
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
    fn a_refusal_says_who_cannot_do_what_and_where() {
        let target = ResourceTarget {
            group: "apps",
            resource: "deployments",
            ..ResourceTarget::default()
        };
        let refusal = |target, user: &str, reason: &str| Attributes { verb: "get", target }.refusal(user, reason);
        assert_eq!(
            refusal(AccessTarget::Resource(target), "al\"ice", ""),
            r#"User "al\"ice" cannot get resource "deployments" in API group "apps" at the cluster scope"#
        );
        let of_one = ResourceTarget {
            subresource: "status",
            namespace: "ns",
            ..target
        };
        assert_eq!(
            refusal(AccessTarget::Resource(of_one), "bob", "no rule"),
            r#"User "bob" cannot get resource "deployments/status" in API group "apps" in the namespace "ns": no rule"#
        );
        assert_eq!(
            refusal(AccessTarget::Path("/metrics"), "bob", ""),
            r#"User "bob" cannot get path "/metrics""#
        );
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
