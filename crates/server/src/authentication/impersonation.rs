//! Asking in the name of somebody else, with `Impersonate-User` and its fellows
//! (<https://kubernetes.io/docs/reference/access-authn-authz/authentication/#user-impersonation>).

use std::collections::HashMap;
use std::sync::Arc;

use holdfast_authorization::{AccessTarget, Attributes, Authorizer, ResourceTarget};
use holdfast_value::SmolStr;
use http::header::HeaderMap;
use parking_lot::Mutex;

use super::{AUTHENTICATED, UNAUTHENTICATED};
use crate::ApiError;
use crate::authorization;
use crate::query;
use crate::user::User;

const USER: &str = "impersonate-user";
const GROUP: &str = "impersonate-group";
const UID: &str = "impersonate-uid";
const EXTRA: &str = "impersonate-extra-";

const SERVICE_ACCOUNT: &str = "system:serviceaccount:";
const NODE: &str = "system:node:";
const NODES: &str = "system:nodes";
const ANONYMOUS: &str = "system:anonymous";

/// The extra of a service account's user that names the node on which it runs.
const RUNS_ON: &str = "authentication.kubernetes.io/node-name";

/// The group of what stands for users in access rules.
const GROUP_OF_USERS: &str = "authentication.k8s.io";

/// How many users' ways of asking are remembered.
const REMEMBERED: usize = 1024;

/// The ways in which one may be allowed to ask in another's name, in the order in which they are tried. All but the last
/// are constrained: they need `impersonate:WAY` of the user and `impersonate-on:WAY:VERB` of what is asked for
/// (KEP-5284).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    AssociatedNode,
    ArbitraryNode,
    ServiceAccount,
    UserInfo,
    Unconstrained,
}

impl Way {
    const ALL: [Self; 5] = [
        Self::AssociatedNode,
        Self::ArbitraryNode,
        Self::ServiceAccount,
        Self::UserInfo,
        Self::Unconstrained,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::AssociatedNode => "associated-node",
            Self::ArbitraryNode => "arbitrary-node",
            Self::ServiceAccount => "serviceaccount",
            Self::UserInfo => "user-info",
            Self::Unconstrained => "",
        }
    }
}

/// Asking in the name of others: who may, and in which way each user did so last, which is tried first and whose words
/// refusals take.
#[derive(Default)]
pub struct Impersonation {
    last: Mutex<HashMap<SmolStr, Way>>,
}

impl Impersonation {
    /// The user whom a request of `user` is judged as: the one that its headers name, if they name one, and else `user`.
    ///
    /// # Errors
    /// 400 where the headers name no user but something of one; 403 where `user` may not ask in that user's name.
    pub fn judge(
        &self,
        user: Arc<User>,
        headers: &HeaderMap,
        authorizer: &dyn Authorizer,
        request: &Attributes<'_>,
    ) -> Result<Arc<User>, ApiError> {
        if !headers.keys().any(|name| name.as_str().starts_with("impersonate-")) {
            return Ok(user);
        }
        let wanted = Wanted::read(headers);
        if wanted.is_nobody() {
            return Ok(user);
        }
        if wanted.name.is_empty() {
            return Err(ApiError::bad_request(format!(
                "requested {} without impersonating a user name",
                wanted.as_go()
            )));
        }
        let last = self.last.lock().get(&user.name).copied();
        let others = Way::ALL.into_iter().filter(|way| Some(*way) != last);
        let mut first_refusal = None;
        for way in last.into_iter().chain(others) {
            if !wanted.goes(way, &user) {
                continue;
            }
            match wanted.check(way, &user, authorizer, request) {
                Ok(()) => {
                    self.remember(&user.name, way, last);
                    return Ok(Arc::new(wanted.into_user(way)));
                }
                Err(refusal) => first_refusal = first_refusal.or(Some(refusal)),
            }
        }
        Err(first_refusal.unwrap_or_else(ApiError::unauthorized))
    }

    fn remember(&self, name: &SmolStr, way: Way, last: Option<Way>) {
        if last == Some(way) {
            return;
        }
        let mut known = self.last.lock();
        if known.len() >= REMEMBERED {
            known.clear();
        }
        known.insert(name.clone(), way);
    }
}

/// The user that headers name.
#[derive(Default)]
struct Wanted {
    name: String,
    uid: String,
    groups: Vec<String>,
    extra: Vec<(String, Vec<String>)>,
}

impl Wanted {
    fn read(headers: &HeaderMap) -> Self {
        let mut wanted = Self::default();
        for (name, value) in headers {
            let Ok(value) = value.to_str() else { continue };
            match name.as_str() {
                USER => value.clone_into(&mut wanted.name),
                UID => value.clone_into(&mut wanted.uid),
                GROUP => wanted.groups.push(value.to_owned()),
                other => {
                    let Some(key) = other.strip_prefix(EXTRA) else { continue };
                    let key = query::decode(key, false).unwrap_or(key.into()).to_lowercase();
                    match wanted.extra.iter_mut().find(|(known, _)| *known == key) {
                        Some((_, values)) => values.push(value.to_owned()),
                        None => wanted.extra.push((key, vec![value.to_owned()])),
                    }
                }
            }
        }
        wanted
    }

    fn is_nobody(&self) -> bool {
        self.name.is_empty() && self.uid.is_empty() && self.groups.is_empty() && self.extra.is_empty()
    }

    /// The namespace and name of the service account that is meant, if it is one.
    fn service_account(&self) -> Option<(&str, &str)> {
        self.name.strip_prefix(SERVICE_ACCOUNT)?.split_once(':')
    }

    /// The node that is meant, if it is one.
    fn node(&self) -> Option<&str> {
        self.name.strip_prefix(NODE).filter(|name| !name.is_empty())
    }

    /// Whether nothing but the name is asked for.
    fn is_bare(&self) -> bool {
        self.uid.is_empty() && self.groups.is_empty() && self.extra.is_empty()
    }

    /// Whether users such as this one can be asked for in this way, by `user`.
    fn goes(&self, way: Way, user: &User) -> bool {
        match way {
            Way::AssociatedNode => {
                let runs_on = user.extra.iter().find(|(key, _)| key == RUNS_ON);
                let runs_on = runs_on.and_then(|(_, values)| values.first());
                self.is_bare() && runs_on.is_some_and(|node| self.node() == Some(node))
            }
            Way::ArbitraryNode => self.is_bare() && self.node().is_some(),
            Way::ServiceAccount => self.is_bare() && self.service_account().is_some(),
            Way::UserInfo => self.node().is_none() && self.service_account().is_none(),
            Way::Unconstrained => true,
        }
    }

    /// Checks that `user` may do so in this way.
    fn check(
        &self,
        way: Way,
        user: &User,
        authorizer: &dyn Authorizer,
        request: &Attributes<'_>,
    ) -> Result<(), ApiError> {
        let check = |attributes: &Attributes<'_>| authorization::authorize(authorizer, user, attributes);
        if way == Way::Unconstrained {
            return self.attributes("", "impersonate").iter().try_for_each(check);
        }
        let on = format!("impersonate-on:{}:{}", way.name(), request.verb);
        check(&Attributes { verb: &on, ..*request })?;
        let verb = format!("impersonate:{}", way.name());
        match way {
            Way::AssociatedNode => check(&attribute(&verb, GROUP_OF_USERS, "nodes", "", "", "*")),
            Way::ArbitraryNode => {
                let node = self.node().unwrap_or_default();
                check(&attribute(&verb, GROUP_OF_USERS, "nodes", "", "", node))
            }
            _ => self.attributes(GROUP_OF_USERS, &verb).iter().try_for_each(check),
        }
    }

    /// What must be allowed: `verb` of each thing that is said of the user. `group` is that of users, groups and service
    /// accounts.
    fn attributes<'a>(&'a self, group: &'a str, verb: &'a str) -> Vec<Attributes<'a>> {
        let mut attributes = vec![match self.service_account() {
            Some((namespace, name)) => attribute(verb, group, "serviceaccounts", "", namespace, name),
            None => attribute(verb, group, "users", "", "", &self.name),
        }];
        let groups = self.groups.iter();
        attributes.extend(groups.map(|name| attribute(verb, group, "groups", "", "", name)));
        for (key, values) in &self.extra {
            let values = values.iter();
            attributes.extend(values.map(|value| attribute(verb, GROUP_OF_USERS, "userextras", key, "", value)));
        }
        if !self.uid.is_empty() {
            attributes.push(attribute(verb, GROUP_OF_USERS, "uids", "", "", &self.uid));
        }
        attributes
    }

    fn into_user(self, way: Way) -> User {
        let mut groups = self.groups.clone();
        if matches!(way, Way::AssociatedNode | Way::ArbitraryNode) {
            groups.push(NODES.to_owned());
        }
        if let (true, Some((namespace, _))) = (groups.is_empty(), self.service_account()) {
            groups.push("system:serviceaccounts".to_owned());
            groups.push(format!("system:serviceaccounts:{namespace}"));
        }
        let of_all = if self.name == ANONYMOUS {
            UNAUTHENTICATED
        } else {
            AUTHENTICATED
        };
        if !groups
            .iter()
            .any(|group| group == AUTHENTICATED || group == UNAUTHENTICATED)
        {
            groups.push(of_all.to_owned());
        }
        let extra = self.extra.into_iter().map(|(key, values)| {
            let values = values.into_iter().map(SmolStr::from).collect();
            (SmolStr::from(key), values)
        });
        User {
            name: self.name.into(),
            uid: self.uid.into(),
            groups: groups.into_iter().map(SmolStr::from).collect(),
            extra: extra.collect(),
        }
    }

    /// The user as Go prints it, which is how messages show it.
    fn as_go(&self) -> String {
        let list = |values: &[String]| {
            let quoted: Vec<String> = values.iter().map(|value| format!("{value:?}")).collect();
            format!("[]string{{{}}}", quoted.join(", "))
        };
        let groups = if self.groups.is_empty() {
            "[]string(nil)".to_owned()
        } else {
            list(&self.groups)
        };
        let extra = if self.extra.is_empty() {
            "map[string][]string(nil)".to_owned()
        } else {
            let entries: Vec<String> = self
                .extra
                .iter()
                .map(|(key, values)| format!("{key:?}:{}", list(values)))
                .collect();
            format!("map[string][]string{{{}}}", entries.join(", "))
        };
        let (name, uid) = (&self.name, &self.uid);
        format!("&user.DefaultInfo{{Name:{name:?}, UID:{uid:?}, Groups:{groups}, Extra:{extra}}}")
    }
}

/// The permission to ask in the name of a user of whom this is said.
fn attribute<'a>(
    verb: &'a str,
    group: &'a str,
    resource: &'a str,
    subresource: &'a str,
    namespace: &'a str,
    name: &'a str,
) -> Attributes<'a> {
    Attributes {
        verb,
        target: AccessTarget::Resource(ResourceTarget {
            group,
            version: "v1",
            resource,
            subresource,
            namespace,
            name,
        }),
    }
}

#[cfg(test)]
mod tests {
    use http::header::{HeaderName, HeaderValue};

    use holdfast_authorization::{Decision, Masters, UserRules, Verdict};
    use http::Method;

    use super::*;
    use crate::request_info::RequestInfo;

    /// Allows what its lines say: `VERB GROUP RESOURCE/SUBRESOURCE NAMESPACE NAME`.
    struct Listed<'a>(&'a [&'a str]);

    impl Authorizer for Listed<'_> {
        fn authorize(&self, _user: &User, attributes: &Attributes<'_>) -> Decision {
            let AccessTarget::Resource(target) = attributes.target else {
                return Decision::NO_OPINION;
            };
            let line = format!(
                "{} {} {}/{} {} {}",
                attributes.verb, target.group, target.resource, target.subresource, target.namespace, target.name
            );
            Decision::of(if self.0.contains(&line.as_str()) {
                Verdict::Allow
            } else {
                Verdict::NoOpinion
            })
        }

        fn rules(&self, _user: &User, _namespace: &str) -> UserRules {
            UserRules::default()
        }
    }

    /// Lists ConfigMaps as alice in the name of another.
    fn ask_as(
        impersonation: &Impersonation,
        authorizer: &dyn Authorizer,
        headers: &[(&'static str, &'static str)],
    ) -> Result<User, String> {
        let user = User {
            name: "alice".into(),
            extra: vec![(RUNS_ON.into(), vec!["n1".into()])],
            ..User::default()
        };
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_static(value));
        }
        let uri = "/api/v1/namespaces/n/configmaps".parse().unwrap();
        let request = RequestInfo::parse(&Method::GET, &uri).unwrap();
        let user = impersonation.judge(Arc::new(user), &map, authorizer, &request.attributes());
        user.map(|user| User::clone(&user)).map_err(|error| error.to_string())
    }

    #[test]
    fn the_way_that_worked_last_words_the_next_refusal() {
        let impersonation = Impersonation::default();
        let rules = Listed(&["impersonate  users/  bob"]);
        let eve = || ask_as(&impersonation, &rules, &[("impersonate-user", "eve")]).unwrap_err();
        assert!(eve().contains("cannot impersonate-on:user-info:list resource \"configmaps\""));
        assert!(ask_as(&impersonation, &rules, &[("impersonate-user", "bob")]).is_ok());
        assert_eq!(
            eve(),
            "users \"eve\" is forbidden: User \"alice\" cannot impersonate resource \"users\" in API group \"\" at the cluster scope"
        );
    }

    #[test]
    fn constrained_ways_need_the_user_and_the_request() {
        let impersonation = Impersonation::default();
        let on = "impersonate-on:user-info:list  configmaps/ n ";
        let user = "impersonate:user-info authentication.k8s.io users/  bob";
        let bob = |rules: &[&str]| ask_as(&impersonation, &Listed(rules), &[("impersonate-user", "bob")]);
        assert!(bob(&[on]).is_err());
        assert!(bob(&[user]).is_err());
        assert_eq!(bob(&[on, user]).unwrap().name, "bob");
        let eve = ask_as(&impersonation, &Listed(&[on, user]), &[("impersonate-user", "eve")]);
        assert_eq!(
            eve.unwrap_err(),
            "users.authentication.k8s.io \"eve\" is forbidden: User \"alice\" cannot impersonate:user-info resource \"users\" in API group \"authentication.k8s.io\" at the cluster scope"
        );
    }

    #[test]
    fn nodes_are_asked_for_one_by_one_or_as_the_one_that_the_asker_runs_on() {
        let associated = Listed(&[
            "impersonate-on:associated-node:list  configmaps/ n ",
            "impersonate:associated-node authentication.k8s.io nodes/  *",
        ]);
        let ask = |node| ask_as(&Impersonation::default(), &associated, &[("impersonate-user", node)]);
        assert_eq!(ask("system:node:n1").unwrap().groups, [NODES, AUTHENTICATED]);
        assert!(ask("system:node:n2").is_err());
        let arbitrary = Listed(&[
            "impersonate-on:arbitrary-node:list  configmaps/ n ",
            "impersonate:arbitrary-node authentication.k8s.io nodes/  n2",
        ]);
        let ask = |node| ask_as(&Impersonation::default(), &arbitrary, &[("impersonate-user", node)]);
        assert!(ask("system:node:n2").is_ok());
        assert!(ask("system:node:n3").is_err());
    }

    fn ask(group: &'static str, headers: &[(&'static str, &'static str)]) -> Result<User, String> {
        let user = User {
            name: "asker".into(),
            groups: vec![group.into()],
            ..User::default()
        };
        let headers = headers.iter().map(|(name, value)| {
            let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
            (name, HeaderValue::from_static(value))
        });
        let mut map = HeaderMap::new();
        headers.for_each(|(name, value)| {
            map.append(name, value);
        });
        let uri = "/api/v1/namespaces/n/configmaps".parse().unwrap();
        let request = RequestInfo::parse(&Method::GET, &uri).unwrap();
        let user = Impersonation::default().judge(Arc::new(user), &map, &Masters, &request.attributes());
        user.map(|user| User::clone(&user)).map_err(|error| error.to_string())
    }

    const MASTERS: &str = crate::user::MASTERS;

    #[test]
    fn the_user_of_the_headers_takes_the_place_of_the_asker() {
        let user = ask(
            MASTERS,
            &[
                ("Impersonate-User", "bob"),
                ("Impersonate-Group", "g1"),
                ("Impersonate-Group", "g2"),
                ("Impersonate-Uid", "u-1"),
                ("Impersonate-Extra-Reason", "s1"),
                ("Impersonate-Extra-Example.com%2Fkey", "v"),
            ],
        );
        let user = user.unwrap();
        assert_eq!((user.name.as_str(), user.uid.as_str()), ("bob", "u-1"));
        assert_eq!(user.groups, ["g1", "g2", "system:authenticated"]);
        let mut extra: Vec<&str> = user.extra.iter().map(|(key, _)| key.as_str()).collect();
        extra.sort_unstable();
        assert_eq!(extra, ["example.com/key", "reason"]);
        assert_eq!(ask(MASTERS, &[]).unwrap().name, "asker");
    }

    #[test]
    fn service_accounts_and_nobody_bring_groups_of_their_own() {
        let groups = |name| ask(MASTERS, &[("Impersonate-User", name)]).unwrap().groups.join(" ");
        assert_eq!(
            groups("system:serviceaccount:shop:robot"),
            "system:serviceaccounts system:serviceaccounts:shop system:authenticated"
        );
        assert_eq!(groups("system:anonymous"), "system:unauthenticated");
    }

    #[test]
    fn who_may_not_is_refused_rather_than_served_as_themselves() {
        let refused = ask("devs", &[("Impersonate-User", "admin")]).unwrap_err();
        assert_eq!(
            refused,
            "configmaps is forbidden: User \"asker\" cannot impersonate-on:user-info:list resource \"configmaps\" in API group \"\" in the namespace \"n\""
        );
        let refused = ask(MASTERS, &[("Impersonate-Group", "devs")]).unwrap_err();
        assert_eq!(
            refused,
            "requested &user.DefaultInfo{Name:\"\", UID:\"\", Groups:[]string{\"devs\"}, Extra:map[string][]string(nil)} without impersonating a user name"
        );
    }
}
