//! Attribute-based access control: the mode `ABAC`
//! (<https://kubernetes.io/docs/reference/access-authn-authz/abac/>).

use std::sync::Arc;

use holdfast_value::{Limits, SmolStr, Value, json};

use crate::{AUTHENTICATED, AccessTarget, Attributes, Authorization, Authorizer, Decision, Rule, User, UserRules};

/// Version and kind of a line.
const API_VERSION: &str = "abac.authorization.kubernetes.io/v1beta1";
const KIND: &str = "Policy";

/// Maximum size of a line in bytes, as that of Go's scanner.
const MAX_LINE_BYTES: usize = 64 << 10;

const ALL: &str = "*";

/// Error of a policy file.
///
/// ```
/// use holdfast_authorization::abac::PolicyList;
///
/// let error = PolicyList::read(b"# a comment\n{").unwrap_err();
/// assert_eq!(error.line, 2);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyError {
    /// Number of the line, from 1.
    pub line: usize,
    /// Text of the line, shortened.
    pub text: String,
    /// Description of the error.
    pub why: String,
}

impl std::fmt::Display for PolicyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}: {}: {}", self.line, self.text, self.why)
    }
}

impl std::error::Error for PolicyError {}

/// One policy: a subject and its permission.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Policy {
    user: SmolStr,
    group: SmolStr,
    readonly: bool,
    api_group: SmolStr,
    resource: SmolStr,
    namespace: SmolStr,
    non_resource_path: SmolStr,
}

/// Authorizer with the policies of a file.
///
/// ```
/// use holdfast_authorization::abac::PolicyList;
///
/// let line = br#"{"apiVersion": "abac.authorization.kubernetes.io/v1beta1", "kind": "Policy",
///     "spec": {"user": "alice", "namespace": "*", "resource": "pods", "apiGroup": "", "readonly": true}}"#;
/// let line: Vec<u8> = line.iter().copied().filter(|byte| *byte != b'\n').collect();
/// assert_eq!(PolicyList::read(&line)?.len(), 1);
/// # Ok::<(), holdfast_authorization::abac::PolicyError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct PolicyList {
    policies: Vec<Policy>,
    has_unversioned: bool,
}

impl PolicyList {
    /// Reads a policy per line. Empty lines and comments (`#`) are skipped. Lines without a version are of the first version.
    ///
    /// # Errors
    /// If a line is no policy.
    ///
    /// upstream: pkg/auth/authorizer/abac#NewFromFile
    pub fn read(text: &[u8]) -> Result<Self, PolicyError> {
        let mut list = Self::default();
        for (at, line) in text.split(|byte| *byte == b'\n').enumerate() {
            let trimmed = line.trim_ascii();
            if trimmed.is_empty() || trimmed.starts_with(b"#") {
                continue;
            }
            list.add(trimmed).map_err(|why| PolicyError {
                line: at + 1,
                text: String::from_utf8_lossy(trimmed).chars().take(1024).collect(),
                why,
            })?;
        }
        Ok(list)
    }

    /// Returns the number of policies.
    pub fn len(&self) -> usize {
        self.policies.len()
    }

    /// True if there is no policy.
    pub fn is_empty(&self) -> bool {
        self.policies.is_empty()
    }

    /// True if a line has no version.
    pub fn has_unversioned(&self) -> bool {
        self.has_unversioned
    }

    fn add(&mut self, line: &[u8]) -> Result<(), String> {
        if line.len() > MAX_LINE_BYTES {
            return Err("token too long".to_owned());
        }
        let value = json::parse(line, &Limits::REQUEST).map_err(|error| error.to_string())?;
        if value.as_map().is_none() {
            return Err(format!("expected object, got {}", value.json_kind()));
        }
        let (version, kind) = (text(&value, "apiVersion")?, text(&value, "kind")?);
        let policy = match (version.as_str(), kind.as_str()) {
            ("", "" | KIND) => {
                self.has_unversioned = true;
                Policy::from_first_version(&value)?
            }
            (API_VERSION, KIND) => Policy::from_spec(value.get("spec").unwrap_or(&Value::Null))?,
            _ => return Err(format!("no kind {kind:?} is registered for version {version:?}")),
        };
        self.policies.push(policy);
        Ok(())
    }
}

/// Returns the text of a member; empty if it is missing.
fn text(value: &Value, name: &str) -> Result<SmolStr, String> {
    match value.get(name) {
        None | Some(Value::Null) => Ok(SmolStr::default()),
        Some(member) => {
            let text = member.as_str().map(SmolStr::new);
            text.ok_or_else(|| format!("{name}: expected string, got {}", member.json_kind()))
        }
    }
}

fn flag(value: &Value, name: &str) -> Result<bool, String> {
    match value.get(name) {
        None | Some(Value::Null) => Ok(false),
        Some(member) => {
            let flag = member.as_bool();
            flag.ok_or_else(|| format!("{name}: expected bool, got {}", member.json_kind()))
        }
    }
}

impl Policy {
    /// Reads the `spec` of `v1beta1`.
    ///
    /// upstream: pkg/apis/abac/v1beta1#Convert_v1beta1_Policy_To_abac_Policy
    fn from_spec(spec: &Value) -> Result<Self, String> {
        if !matches!(spec, Value::Map(_) | Value::Null) {
            return Err(format!("spec: expected object, got {}", spec.json_kind()));
        }
        let mut policy = Self {
            user: text(spec, "user")?,
            group: text(spec, "group")?,
            readonly: flag(spec, "readonly")?,
            api_group: text(spec, "apiGroup")?,
            resource: text(spec, "resource")?,
            namespace: text(spec, "namespace")?,
            non_resource_path: text(spec, "nonResourcePath")?,
        };
        policy.limit_wildcards();
        Ok(policy)
    }

    /// Reads a policy without a version, whose missing members match everything.
    ///
    /// upstream: pkg/apis/abac/v0#Convert_v0_Policy_To_abac_Policy
    fn from_first_version(value: &Value) -> Result<Self, String> {
        let or_all = |text: &SmolStr| match text.is_empty() {
            true => SmolStr::new_static(ALL),
            false => text.clone(),
        };
        let (namespace, resource) = (text(value, "namespace")?, text(value, "resource")?);
        let mut policy = Self {
            user: text(value, "user")?,
            group: text(value, "group")?,
            readonly: flag(value, "readonly")?,
            api_group: SmolStr::new_static(ALL),
            resource: or_all(&resource),
            namespace: or_all(&namespace),
            non_resource_path: match namespace.is_empty() && resource.is_empty() {
                true => SmolStr::new_static(ALL),
                false => SmolStr::default(),
            },
        };
        if policy.user.is_empty() && policy.group.is_empty() {
            policy.group = SmolStr::new_static(AUTHENTICATED);
        }
        policy.limit_wildcards();
        Ok(policy)
    }

    /// Limits the wildcard of users and groups to those that are authenticated.
    fn limit_wildcards(&mut self) {
        if self.user == ALL || self.group == ALL {
            self.group = SmolStr::new_static(AUTHENTICATED);
            self.user = SmolStr::default();
        }
    }

    /// upstream: pkg/auth/authorizer/abac#subjectMatches
    fn is_about(&self, user: &User) -> bool {
        let has_subject = !self.user.is_empty() || !self.group.is_empty();
        let is_user = self.user.is_empty() || self.user == user.name;
        let is_group = self.group.is_empty() || user.is_in(&self.group);
        has_subject && is_user && is_group
    }

    /// upstream: pkg/auth/authorizer/abac#matches
    fn allows(&self, user: &User, attributes: &Attributes<'_>) -> bool {
        if !self.is_about(user) || (self.readonly && !attributes.is_read_only()) {
            return false;
        }
        let matches = |pattern: &str, text: &str| pattern == ALL || pattern == text;
        match attributes.target {
            AccessTarget::Resource(target) => {
                matches(&self.namespace, target.namespace)
                    && matches(&self.resource, target.resource)
                    && matches(&self.api_group, target.group)
            }
            AccessTarget::Path(path) => {
                let pattern = self.non_resource_path.as_str();
                let is_below = pattern.ends_with('*') && path.starts_with(pattern.trim_end_matches('*'));
                pattern == path || is_below
            }
        }
    }

    fn verbs(&self) -> Vec<SmolStr> {
        let verbs: &[&'static str] = if self.readonly {
            &["get", "list", "watch"]
        } else {
            &[ALL]
        };
        verbs.iter().map(|verb| SmolStr::new_static(verb)).collect()
    }
}

impl Authorizer for PolicyList {
    fn authorize(&self, user: &User, attributes: &Attributes<'_>) -> Authorization {
        if self.policies.iter().any(|policy| policy.allows(user, attributes)) {
            return Authorization::new(Decision::Allow);
        }
        Authorization {
            reason: Some(Arc::from("No policy matched.")),
            ..Authorization::NO_OPINION
        }
    }

    /// upstream: pkg/auth/authorizer/abac#PolicyList.RulesFor
    fn rules(&self, user: &User, namespace: &str) -> UserRules {
        let mut found = UserRules::default();
        let policies = self.policies.iter().filter(|policy| policy.is_about(user));
        for policy in policies.filter(|policy| policy.namespace == ALL || policy.namespace == namespace) {
            if !policy.resource.is_empty() {
                found.rules.push(Rule {
                    verbs: policy.verbs(),
                    api_groups: vec![policy.api_group.clone()],
                    resources: vec![policy.resource.clone()],
                    ..Rule::default()
                });
            }
            if !policy.non_resource_path.is_empty() {
                found.rules.push(Rule {
                    verbs: policy.verbs(),
                    non_resource_urls: vec![policy.non_resource_path.clone()],
                    ..Rule::default()
                });
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ResourceTarget;

    fn policies(specs: &[&str]) -> PolicyList {
        let lines = specs
            .iter()
            .map(|spec| format!("{{\"apiVersion\":\"{API_VERSION}\",\"kind\":\"Policy\",\"spec\":{spec}}}\n"));
        PolicyList::read(lines.collect::<String>().as_bytes()).unwrap()
    }

    fn user(name: &str) -> User {
        User {
            name: name.into(),
            groups: vec!["devs".into(), AUTHENTICATED.into()],
            ..User::default()
        }
    }

    fn may(list: &PolicyList, name: &str, verb: &str, place: &str) -> bool {
        let target = match place.split_once(':') {
            None => AccessTarget::Path(place),
            Some((namespace, resource)) => AccessTarget::Resource(ResourceTarget {
                namespace,
                resource,
                ..ResourceTarget::default()
            }),
        };
        list.authorize(&user(name), &Attributes { verb, target }).allows()
    }

    #[test]
    fn policy_allows_its_subject_and_target_only() {
        let list = policies(&[
            r#"{"user":"alice","namespace":"a","resource":"pods","apiGroup":"*","readonly":true}"#,
            r#"{"group":"devs","nonResourcePath":"/logs/*","readonly":true}"#,
            r#"{"user":"bob","group":"admins","namespace":"*","resource":"*","apiGroup":"*"}"#,
            r#"{"namespace":"*","resource":"*","apiGroup":"*"}"#,
        ]);
        for (name, verb, place, expected) in [
            ("alice", "get", "a:pods", true),
            ("alice", "watch", "a:pods", true),
            ("alice", "create", "a:pods", false),
            ("alice", "get", "b:pods", false),
            ("alice", "get", "a:secrets", false),
            ("carol", "get", "a:pods", false),
            ("carol", "get", "/logs/a", true),
            ("carol", "post", "/logs/a", false),
            ("carol", "get", "/log", false),
            ("bob", "get", "a:pods", false),
        ] {
            assert_eq!(may(&list, name, verb, place), expected, "{name} {verb} {place}");
        }
        let none = list.authorize(
            &user("x"),
            &Attributes {
                verb: "get",
                target: AccessTarget::Path("/"),
            },
        );
        assert_eq!(none.reason(), "No policy matched.");
        let rules = list.rules(&user("alice"), "a");
        assert_eq!(
            rules.rules.len(),
            1,
            "the policy for a path has no namespace: {rules:?}"
        );
        assert_eq!(rules.rules[0].verbs, ["get", "list", "watch"]);
    }

    #[test]
    fn wildcards_match_authenticated_users_only() {
        let list = policies(&[r#"{"user":"*","namespace":"*","resource":"*","apiGroup":"*"}"#]);
        assert!(may(&list, "alice", "create", "a:pods"));
        let nobody = User::default();
        let target = AccessTarget::Resource(ResourceTarget::default());
        assert!(!list.authorize(&nobody, &Attributes { verb: "get", target }).allows());
    }

    #[test]
    fn unversioned_lines_match_all_by_default() {
        let list =
            PolicyList::read(b"# old\n\n{\"user\":\"alice\"}\n{\"resource\":\"pods\",\"readonly\":true}").unwrap();
        assert!(list.has_unversioned());
        assert!(may(&list, "alice", "post", "/a") && may(&list, "alice", "create", "a:b"));
        assert!(may(&list, "bob", "get", "a:pods") && !may(&list, "bob", "get", "/a"));
    }

    #[test]
    fn unreadable_line_is_named() {
        for (text, line, why) in [
            ("{\"user\":\"a\"}\n{", 2, ""),
            ("\n[]", 2, "expected object, got array"),
            ("{\"user\":1}", 1, "user: expected string, got number"),
            ("{\"readonly\":\"yes\"}", 1, "readonly: expected bool, got string"),
            (
                "{\"apiVersion\":\"v1\",\"kind\":\"Pod\"}",
                1,
                "no kind \"Pod\" is registered for version \"v1\"",
            ),
        ] {
            let error = PolicyList::read(text.as_bytes()).unwrap_err();
            assert!(error.line == line && error.why.contains(why), "{text}: {error}");
        }
    }
}
