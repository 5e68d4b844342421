//! Impersonation of another user, with `Impersonate-User` and the headers that go with it
//! (<https://kubernetes.io/docs/reference/access-authn-authz/authentication/#user-impersonation>).

use std::collections::HashMap;
use std::sync::Arc;

use holdfast_authorization::{
    AccessTarget, Attributes, Authorizer, MASTERS, ResourceTarget, User, service_account_groups, service_account_of,
};
use holdfast_gotext::quote::quote;
use holdfast_resource::metadata::formats::{dns_label, dns_subdomain, domain_prefixed_path};
use holdfast_resource::{Aggregate, FieldPath};
use holdfast_value::SmolStr;
use http::header::HeaderMap;
use parking_lot::Mutex;

use super::{AUTHENTICATED, UNAUTHENTICATED};
use crate::http::ApiError;
use crate::http::headers::exact;
use crate::http::query::{self, DecodeError};
use crate::identity::authorization;

const USER: &str = "impersonate-user";
const GROUP: &str = "impersonate-group";
const UID: &str = "impersonate-uid";
const EXTRA: &str = "impersonate-extra-";

const NODE: &str = "system:node:";
const NODES: &str = "system:nodes";
pub(super) const ANONYMOUS: &str = "system:anonymous";

/// The group of what stands for users in access rules.
const GROUP_OF_USERS: &str = "authentication.k8s.io";

/// From so many groups or extras on, a user who may impersonate all of them needs no permission for each.
const MANY: usize = 4;

/// For how many users the last mode is remembered.
const REMEMBERED: usize = 1024;

/// The modes of impersonation, in the order in which they are tried. All but the last are constrained (KEP-5284): they need
/// `impersonate:MODE` on the user and `impersonate-on:MODE:VERB` on the resource of the request.
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

    /// The verb by which it is allowed; empty for the one that is not constrained.
    fn verb(self) -> String {
        match self {
            Self::Unconstrained => String::new(),
            way => format!("impersonate:{}", way.name()),
        }
    }
}

/// The user whom a request is judged as.
#[derive(Debug)]
pub struct Judged {
    /// The user.
    pub user: Arc<User>,
    /// Where that is not the one who asks: the verb by which that was allowed, which is empty for the way that is not
    /// constrained.
    pub impersonated: Option<String>,
}

impl Judged {
    fn as_asked(user: Arc<User>) -> Self {
        Self {
            user,
            impersonated: None,
        }
    }
}

/// Impersonation, with the mode that each user was allowed last. That mode is tried first, and refusals use its words.
#[derive(Default)]
pub struct Impersonation {
    last: Mutex<HashMap<SmolStr, Way>>,
    unconstrained_alone: bool,
}

impl Impersonation {
    /// With the constrained modes or without them.
    pub fn new(constrained: bool) -> Self {
        Self {
            last: Mutex::default(),
            unconstrained_alone: !constrained,
        }
    }

    /// The effective user of a request of `user`: the one that its headers name, or else `user`.
    ///
    /// # Errors
    /// 400 where the headers name parts of a user but no user; 403 where `user` may not impersonate that user.
    pub fn judge(
        &self,
        user: Arc<User>,
        headers: &HeaderMap,
        authorizer: &dyn Authorizer,
        request: &Attributes<'_>,
    ) -> Result<Judged, ApiError> {
        if !headers.keys().any(|name| name.as_str().starts_with("impersonate-")) {
            return Ok(Judged::as_asked(user));
        }
        let wanted = Wanted::read(headers)?;
        if wanted.is_nobody() {
            return Ok(Judged::as_asked(user));
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
            let is_off = self.unconstrained_alone && way != Way::Unconstrained;
            if is_off || !wanted.goes(way, &user) {
                continue;
            }
            match wanted.check(way, &user, authorizer, request) {
                Ok(()) => {
                    self.remember(&user.name, way, last);
                    return Ok(Judged {
                        user: Arc::new(wanted.into_user(way)),
                        impersonated: Some(way.verb()),
                    });
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
    fn read(headers: &HeaderMap) -> Result<Self, ApiError> {
        let first = |name: &'static str| match headers.get(name) {
            Some(value) => exact(name, value).map(str::to_owned),
            None => Ok(String::new()),
        };
        let mut wanted = Self {
            name: first(USER)?,
            uid: first(UID)?,
            ..Self::default()
        };
        for group in headers.get_all(GROUP) {
            wanted.groups.push(exact(GROUP, group)?.to_owned());
        }
        for (name, value) in headers {
            let Some(key) = name.as_str().strip_prefix(EXTRA) else {
                continue;
            };
            let (key, value) = (extra_key(key)?, exact(name.as_str(), value)?.to_owned());
            match wanted.extra.iter_mut().find(|(known, _)| *known == key) {
                Some((_, values)) => values.push(value),
                None => wanted.extra.push((key, vec![value])),
            }
        }
        Ok(wanted)
    }

    fn is_nobody(&self) -> bool {
        self.name.is_empty() && self.uid.is_empty() && self.groups.is_empty() && self.extra.is_empty()
    }

    /// The namespace and name of the impersonated service account, if it is one.
    fn service_account(&self) -> Option<(&str, &str)> {
        service_account(&self.name)
    }

    /// The impersonated node, if it is one.
    fn node(&self) -> Option<&str> {
        let name = self.name.strip_prefix(NODE)?;
        dns_subdomain(name).is_empty().then_some(name)
    }

    /// Whether the headers name the user alone.
    fn is_bare(&self) -> bool {
        self.uid.is_empty() && self.groups.is_empty() && self.extra.is_empty()
    }

    /// Whether `user` can impersonate such a user in this mode.
    fn goes(&self, way: Way, user: &User) -> bool {
        match way {
            Way::AssociatedNode => {
                self.is_bare()
                    && service_account(&user.name).is_some()
                    && user.node().is_some_and(|node| self.node() == Some(node))
            }
            Way::ArbitraryNode => self.is_bare() && self.node().is_some(),
            Way::ServiceAccount => self.is_bare() && self.service_account().is_some(),
            Way::UserInfo => self.node().is_none() && self.service_account().is_none(),
            Way::Unconstrained => true,
        }
    }

    /// Checks the permissions of `user` for this mode.
    fn check(
        &self,
        way: Way,
        user: &User,
        authorizer: &dyn Authorizer,
        request: &Attributes<'_>,
    ) -> Result<(), ApiError> {
        let check = |attributes: &Attributes<'_>| authorization::authorize(authorizer, user, attributes);
        if way == Way::Unconstrained {
            check(&self.named("impersonate", ""))?;
            return self.rest("impersonate", "").iter().try_for_each(check);
        }
        let on = format!("impersonate-on:{}:{}", way.name(), request.verb);
        check(&Attributes { verb: &on, ..*request })?;
        let verb = way.verb();
        match way {
            Way::AssociatedNode => check(&attribute(&verb, GROUP_OF_USERS, "nodes", "", "", "*")),
            Way::ArbitraryNode => {
                let node = self.node().unwrap_or_default();
                check(&attribute(&verb, GROUP_OF_USERS, "nodes", "", "", node))
            }
            _ => {
                check(&self.named(&verb, GROUP_OF_USERS))?;
                self.check_constrained(&verb, user, &check)
            }
        }
    }

    /// Checks what the headers say of the user besides the name. Only the unconstrained mode allows empty texts and the group
    /// `system:masters`. For many groups or extras, one permission for all of them is enough.
    fn check_constrained(
        &self,
        verb: &str,
        user: &User,
        check: &dyn Fn(&Attributes<'_>) -> Result<(), ApiError>,
    ) -> Result<(), ApiError> {
        let refuse = |resource, name, why: &str| {
            let attributes = attribute(verb, GROUP_OF_USERS, resource, "", "", name);
            Err(ApiError::unauthorized_for(&user.name, &attributes, why))
        };
        let all = |resource, subresource| attribute(verb, GROUP_OF_USERS, resource, subresource, "", "*");
        if !self.uid.is_empty() {
            check(&attribute(verb, GROUP_OF_USERS, "uids", "", "", &self.uid))?;
        }
        if self.groups.iter().any(String::is_empty) {
            return refuse("groups", "", "impersonating the empty string group is not allowed");
        }
        if self.groups.iter().any(|group| group == MASTERS) {
            return refuse(
                "groups",
                MASTERS,
                "impersonating the system:masters group is not allowed",
            );
        }
        if self.groups.len() < MANY || check(&all("groups", "")).is_err() {
            self.of_groups(verb, GROUP_OF_USERS)
                .try_for_each(|group| check(&group))?;
        }
        if let Some(why) = self.extra.iter().find_map(|(key, values)| fault_of_extra(key, values)) {
            return refuse("userextras", "", &why);
        }
        let values: usize = self.extra.iter().map(|(_, values)| values.len()).sum();
        if values < MANY || check(&all("userextras", "*")).is_err() {
            self.of_extra(verb).try_for_each(|extra| check(&extra))?;
        }
        Ok(())
    }

    /// The permission to impersonate the user. `group` is the API group of users, groups and service accounts.
    fn named<'a>(&'a self, verb: &'a str, group: &'a str) -> Attributes<'a> {
        match self.service_account() {
            Some((namespace, name)) => attribute(verb, group, "serviceaccounts", "", namespace, name),
            None => attribute(verb, group, "users", "", "", &self.name),
        }
    }

    /// The permissions to impersonate all else of the user, in the order of the checks.
    fn rest<'a>(&'a self, verb: &'a str, group: &'a str) -> Vec<Attributes<'a>> {
        let uid = (!self.uid.is_empty()).then(|| attribute(verb, GROUP_OF_USERS, "uids", "", "", &self.uid));
        let groups = self.of_groups(verb, group);
        uid.into_iter().chain(groups).chain(self.of_extra(verb)).collect()
    }

    fn of_groups<'a>(&'a self, verb: &'a str, group: &'a str) -> impl Iterator<Item = Attributes<'a>> {
        let groups = self.groups.iter();
        groups.map(move |name| attribute(verb, group, "groups", "", "", name))
    }

    fn of_extra<'a>(&'a self, verb: &'a str) -> impl Iterator<Item = Attributes<'a>> {
        self.extra.iter().flat_map(move |(key, values)| {
            let values = values.iter();
            values.map(move |value| attribute(verb, GROUP_OF_USERS, "userextras", key, "", value))
        })
    }

    fn into_user(self, way: Way) -> User {
        let mut groups = self.groups.clone();
        if matches!(way, Way::AssociatedNode | Way::ArbitraryNode) {
            groups.push(NODES.to_owned());
        }
        if let (true, Some((namespace, _))) = (groups.is_empty(), self.service_account()) {
            groups.extend(service_account_groups(namespace).map(String::from));
        }
        let of_all = if self.name == ANONYMOUS {
            Some(UNAUTHENTICATED)
        } else {
            let counted = groups.iter().any(|group| group == UNAUTHENTICATED);
            (!counted).then_some(AUTHENTICATED)
        };
        if let Some(of_all) = of_all.filter(|of_all| !groups.iter().any(|group| group == of_all)) {
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
            let quoted: Vec<String> = values.iter().map(|value| quote(value)).collect();
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
            let mut entries: Vec<&(String, Vec<String>)> = self.extra.iter().collect();
            entries.sort_unstable();
            let entries = entries
                .into_iter()
                .map(|(key, values)| format!("{}:{}", quote(key), list(values)));
            format!("map[string][]string{{{}}}", entries.collect::<Vec<_>>().join(", "))
        };
        let (name, uid) = (quote(&self.name), quote(&self.uid));
        format!("&user.DefaultInfo{{Name:{name}, UID:{uid}, Groups:{groups}, Extra:{extra}}}")
    }
}

/// The namespace and name of the service account of which `user` is the name, if it is one.
fn service_account(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = service_account_of(user)?;
    let is_one = dns_label(namespace).is_empty() && dns_subdomain(name).is_empty();
    is_one.then_some((namespace, name))
}

/// The key of an extra as the name of a header has it, in small letters: escapes in it are read where they are well-formed.
fn extra_key(text: &str) -> Result<String, ApiError> {
    match query::decode(text) {
        Ok(key) => Ok(key.into_owned()),
        Err(DecodeError::Escape) => Ok(text.to_owned()),
        Err(DecodeError::Encoding) => Err(ApiError::bad_request(format!(
            "the header \"{EXTRA}{text}\" cannot be read: its name is not UTF-8"
        ))),
    }
}

/// Why constrained modes refuse an extra.
fn fault_of_extra(key: &str, values: &[String]) -> Option<String> {
    if key.is_empty() {
        return Some("impersonating the empty string key in extra is not allowed".to_owned());
    }
    let path = FieldPath::new("extra").child("key");
    let faults = domain_prefixed_path(&path, key);
    if !faults.is_empty() {
        let why = Aggregate(&faults);
        return Some(format!("impersonating an invalid key in extra is not allowed: {why}"));
    }
    if key.to_lowercase() != key {
        let key = quote(key);
        return Some(format!(
            "impersonating a non-lowercase key in extra is not allowed: {key}"
        ));
    }
    let empty = values.iter().any(String::is_empty);
    empty.then(|| "impersonating the empty string value in extra is not allowed".to_owned())
}

/// The permission to impersonate a user with this attribute.
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

    use holdfast_authorization::{Authorization, Decision, Masters, NODE_NAME, UserRules};
    use http::Method;

    use super::*;
    use crate::http::request_info::RequestInfo;

    /// Allows what its lines say: `VERB GROUP RESOURCE/SUBRESOURCE NAMESPACE NAME`.
    struct Listed<'a>(&'a [&'a str]);

    impl Authorizer for Listed<'_> {
        fn authorize(&self, _user: &User, attributes: &Attributes<'_>) -> Authorization {
            let AccessTarget::Resource(target) = attributes.target else {
                return Authorization::NO_OPINION;
            };
            let line = format!(
                "{} {} {}/{} {} {}",
                attributes.verb, target.group, target.resource, target.subresource, target.namespace, target.name
            );
            Authorization::of(if self.0.contains(&line.as_str()) {
                Decision::Allow
            } else {
                Decision::NoOpinion
            })
        }

        fn rules(&self, _user: &User, _namespace: &str) -> UserRules {
            UserRules::default()
        }
    }

    /// Lists ConfigMaps as alice, who impersonates another user.
    fn ask_as(
        impersonation: &Impersonation,
        authorizer: &dyn Authorizer,
        headers: &[(&'static str, &'static str)],
    ) -> Result<User, String> {
        ask_by("alice", impersonation, authorizer, headers)
    }

    fn ask_by(
        name: &str,
        impersonation: &Impersonation,
        authorizer: &dyn Authorizer,
        headers: &[(&'static str, &'static str)],
    ) -> Result<User, String> {
        let user = User {
            name: name.into(),
            extra: vec![(NODE_NAME.into(), vec!["n1".into()])],
            ..User::default()
        };
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_static(value));
        }
        let uri = "/api/v1/namespaces/n/configmaps".parse().unwrap();
        let request = RequestInfo::parse(&Method::GET, &uri).unwrap();
        let user = impersonation.judge(Arc::new(user), &map, authorizer, &request.attributes());
        user.map(|judged| User::clone(&judged.user))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn a_constrained_way_is_told_by_its_verb() {
        let judged = |headers: &[(&'static str, &'static str)]| {
            let entries = headers.iter();
            let map = entries.map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
            let request = RequestInfo::parse(&Method::GET, &"/api/v1/pods".parse().unwrap()).unwrap();
            let (user, map) = (Arc::new(User::server()), map.collect());
            let judged = Impersonation::default().judge(user, &map, &Masters, &request.attributes());
            judged.unwrap().impersonated
        };
        assert_eq!(judged(&[]), None);
        assert_eq!(judged(&[(USER, "bob")]), Some("impersonate:user-info".to_owned()));
        assert_eq!(judged(&[(USER, "bob"), (GROUP, "system:masters")]), Some(String::new()));
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
    fn constrained_ways_can_be_switched_off() {
        let rules = Listed(&[
            "impersonate-on:user-info:list  configmaps/ n ",
            "impersonate:user-info authentication.k8s.io users/  bob",
        ]);
        let ask = |constrained| ask_as(&Impersonation::new(constrained), &rules, &[("impersonate-user", "bob")]);
        assert!(ask(true).is_ok());
        assert_eq!(
            ask(false).unwrap_err(),
            "users \"bob\" is forbidden: User \"alice\" cannot impersonate resource \"users\" in API group \"\" at the cluster scope"
        );
    }

    #[test]
    fn nodes_are_asked_for_one_by_one_or_as_the_one_that_the_asker_runs_on() {
        let associated = Listed(&[
            "impersonate-on:associated-node:list  configmaps/ n ",
            "impersonate:associated-node authentication.k8s.io nodes/  *",
        ]);
        let ask = |by, node| {
            ask_by(
                by,
                &Impersonation::default(),
                &associated,
                &[("impersonate-user", node)],
            )
        };
        let agent = "system:serviceaccount:n:agent";
        assert_eq!(ask(agent, "system:node:n1").unwrap().groups, [NODES, AUTHENTICATED]);
        assert!(ask(agent, "system:node:n2").is_err());
        assert!(ask("alice", "system:node:n1").is_err());
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
        user.map(|judged| User::clone(&judged.user))
            .map_err(|error| error.to_string())
    }

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

    fn ask_bytes(headers: &[(&'static str, &[u8])]) -> Result<User, ApiError> {
        let user = User {
            name: "asker".into(),
            groups: vec![MASTERS.into()],
            ..User::default()
        };
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_bytes(value).unwrap());
        }
        let uri = "/api/v1/namespaces/n/configmaps".parse().unwrap();
        let request = RequestInfo::parse(&Method::GET, &uri).unwrap();
        let judged = Impersonation::default().judge(Arc::new(user), &map, &Masters, &request.attributes());
        judged.map(|judged| User::clone(&judged.user))
    }

    #[test]
    fn names_are_read_as_utf_8_and_never_left_out() {
        let user = ask_bytes(&[
            ("impersonate-user", "josé".as_bytes()),
            ("impersonate-uid", "ü".as_bytes()),
            ("impersonate-group", "größen".as_bytes()),
            ("impersonate-extra-scopes", "日本".as_bytes()),
        ]);
        let user = user.unwrap();
        assert_eq!((user.name.as_str(), user.uid.as_str()), ("josé", "ü"));
        assert_eq!(user.groups, ["größen", "system:authenticated"]);
        assert_eq!(user.extra, [("scopes".into(), vec!["日本".into()])]);
        for name in [
            "impersonate-user",
            "impersonate-uid",
            "impersonate-group",
            "impersonate-extra-a",
        ] {
            let error = ask_bytes(&[("impersonate-user", b"bob"), (name, b"jos\xe9")]);
            // Of several names of users the first counts, and others are not read.
            match name {
                "impersonate-user" => assert_eq!(error.unwrap().name, "bob"),
                _ => assert_eq!(error.unwrap_err().code().as_u16(), 400, "{name}"),
            }
        }
        assert_eq!(
            ask_bytes(&[("impersonate-user", b"jos\xe9")])
                .unwrap_err()
                .code()
                .as_u16(),
            400
        );
        let escaped = ask_bytes(&[("impersonate-user", b"bob"), ("impersonate-extra-%ff", b"v")]);
        assert_eq!(escaped.unwrap_err().code().as_u16(), 400);
    }

    #[test]
    fn the_first_of_several_names_and_uids_counts() {
        let user = ask_bytes(&[
            ("impersonate-user", b"bob"),
            ("impersonate-user", b"eve"),
            ("impersonate-uid", b"1"),
            ("impersonate-uid", b"2"),
        ]);
        let user = user.unwrap();
        assert_eq!((user.name.as_str(), user.uid.as_str()), ("bob", "1"));
        let none = ask_bytes(&[("impersonate-user", b""), ("impersonate-user", b"eve")]);
        assert_eq!(none.unwrap().name, "asker");
    }

    #[test]
    fn what_only_looks_like_a_service_account_or_a_node_is_a_user() {
        for name in [
            "system:serviceaccount:a:b:c",
            "system:serviceaccount:a",
            "system:serviceaccount::b",
            "system:serviceaccount:A:b",
            "system:node:",
            "system:node:N_1",
        ] {
            let user = ask_bytes(&[("impersonate-user", name.as_bytes())]).unwrap();
            assert_eq!(user.groups, ["system:authenticated"], "{name}");
            let rules = format!("impersonate  users/  {name}");
            let rules = [rules.as_str()];
            let name: &'static str = name;
            let outcome = ask_as(
                &Impersonation::default(),
                &Listed(&rules),
                &[("impersonate-user", name)],
            );
            assert_eq!(outcome.unwrap().name, name);
        }
    }

    #[test]
    fn groups_of_all_follow_from_the_name_and_the_groups() {
        let groups = |name: &'static str, groups: &[&'static str]| {
            let groups = groups.iter().map(|group| ("impersonate-group", group.as_bytes()));
            let headers: Vec<_> = [("impersonate-user", name.as_bytes())]
                .into_iter()
                .chain(groups)
                .collect();
            ask_bytes(&headers).unwrap().groups.join(" ")
        };
        assert_eq!(
            groups("system:anonymous", &["system:authenticated"]),
            "system:authenticated system:unauthenticated"
        );
        assert_eq!(groups("bob", &["system:unauthenticated"]), "system:unauthenticated");
        assert_eq!(groups("bob", &["system:authenticated"]), "system:authenticated");
    }

    #[test]
    fn extras_without_a_user_are_refused_even_where_they_are_empty() {
        for (name, shown) in [
            (
                "impersonate-group",
                "Groups:[]string{\"\"}, Extra:map[string][]string(nil)",
            ),
            (
                "impersonate-extra-scopes",
                "Groups:[]string(nil), Extra:map[string][]string{\"scopes\":[]string{\"\"}}",
            ),
        ] {
            let error = ask_bytes(&[(name, b"")]).unwrap_err();
            assert_eq!(
                error.to_string(),
                format!(
                    "requested &user.DefaultInfo{{Name:\"\", UID:\"\", {shown}}} without impersonating a user name"
                )
            );
        }
    }

    #[test]
    fn constrained_ways_take_neither_masters_nor_odd_extras_and_ask_about_many_at_once() {
        const ON: &str = "impersonate-on:user-info:list  configmaps/ n ";
        const BOB: &str = "impersonate:user-info authentication.k8s.io users/  bob";
        let ask = |more: &'static str, headers: &[(&'static str, &'static str)]| {
            let rules = [ON, BOB, more];
            let headers: Vec<_> = [("impersonate-user", "bob")].iter().chain(headers).copied().collect();
            ask_as(&Impersonation::default(), &Listed(&rules), &headers)
        };
        let message = |resource: &str, why: &str| {
            format!(
                "{resource} is forbidden: User \"alice\" cannot impersonate:user-info resource \"{}\" in API group \"authentication.k8s.io\" at the cluster scope: {why}",
                resource.split('.').next().unwrap_or_default()
            )
        };
        let masters = ask(
            "impersonate:user-info authentication.k8s.io groups/  system:masters",
            &[("impersonate-group", "system:masters")],
        );
        assert_eq!(
            masters.unwrap_err(),
            message(
                "groups.authentication.k8s.io",
                "impersonating the system:masters group is not allowed"
            )
            .replace(" is forbidden", " \"system:masters\" is forbidden")
        );
        let odd = ask(
            "impersonate:user-info authentication.k8s.io userextras/reason  v",
            &[("impersonate-extra-reason", "v")],
        );
        assert_eq!(
            odd.unwrap_err(),
            message(
                "userextras.authentication.k8s.io",
                "impersonating an invalid key in extra is not allowed: extra.key: Invalid value: \"reason\": must be a domain-prefixed path (such as \"acme.io/foo\")"
            )
        );
        let many: Vec<_> = ["a", "b", "c", "d"].map(|group| ("impersonate-group", group)).into();
        let all = "impersonate:user-info authentication.k8s.io groups/  *";
        assert!(ask(all, &many).is_ok());
        assert!(ask(all, &many[..3]).is_err());
    }
}
