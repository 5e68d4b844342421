//! The user that impersonation headers name, and the permissions that are required to impersonate that user.

use holdfast_authorization::{
    AccessTarget, Attributes, Authorizer, MASTERS, ResourceTarget, User, service_account_groups, service_account_of,
};
use holdfast_gotext::quote::quote;
use holdfast_schema::metadata::formats::{dns_label, dns_subdomain, domain_prefixed_path};
use holdfast_schema::{Aggregate, FieldPath};
use holdfast_value::SmolStr;
use http::header::HeaderMap;

use super::{ANONYMOUS, Mode};
use crate::http::ApiError;
use crate::http::headers::exact;
use crate::http::query::{self, DecodeError};
use crate::identity::{AUTHENTICATED, UNAUTHENTICATED, authorization};

pub(super) const USER: &str = "impersonate-user";
pub(super) const GROUP: &str = "impersonate-group";
const UID: &str = "impersonate-uid";
const EXTRA: &str = "impersonate-extra-";

const NODE: &str = "system:node:";
pub(super) const NODES: &str = "system:nodes";
/// API group of the resources that represent users in access rules.
const GROUP_OF_USERS: &str = "authentication.k8s.io";

/// Number of groups or extras from which a user who may impersonate all of them needs no permission for each.
const MANY: usize = 4;

/// The user that headers name.
#[derive(Default)]
pub(super) struct RequestedUser {
    pub(super) name: String,
    uid: String,
    groups: Vec<String>,
    extra: Vec<(String, Vec<String>)>,
}

impl RequestedUser {
    pub(super) fn read(headers: &HeaderMap) -> Result<Self, ApiError> {
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

    pub(super) fn is_empty(&self) -> bool {
        self.name.is_empty() && self.uid.is_empty() && self.groups.is_empty() && self.extra.is_empty()
    }

    /// Returns the namespace and name of the impersonated service account, if it is one.
    fn service_account(&self) -> Option<(&str, &str)> {
        service_account(&self.name)
    }

    /// Returns the impersonated node, if it is one.
    fn node(&self) -> Option<&str> {
        let name = self.name.strip_prefix(NODE)?;
        dns_subdomain(name).is_empty().then_some(name)
    }

    /// Returns true if the headers name only the user.
    fn is_bare(&self) -> bool {
        self.uid.is_empty() && self.groups.is_empty() && self.extra.is_empty()
    }

    /// Returns true if this mode is applicable to `user` and the requested user.
    pub(super) fn goes(&self, mode: Mode, user: &User) -> bool {
        match mode {
            Mode::AssociatedNode => {
                self.is_bare()
                    && service_account(&user.name).is_some()
                    && user.node().is_some_and(|node| self.node() == Some(node))
            }
            Mode::ArbitraryNode => self.is_bare() && self.node().is_some(),
            Mode::ServiceAccount => self.is_bare() && self.service_account().is_some(),
            Mode::UserInfo => self.node().is_none() && self.service_account().is_none(),
            Mode::Unconstrained => true,
        }
    }

    /// Checks the permissions of `user` for this mode.
    pub(super) fn check(
        &self,
        mode: Mode,
        user: &User,
        authorizer: &dyn Authorizer,
        request: &Attributes<'_>,
    ) -> Result<(), ApiError> {
        let check = |attributes: &Attributes<'_>| authorization::authorize(authorizer, user, attributes);
        if mode == Mode::Unconstrained {
            check(&self.named("impersonate", ""))?;
            return self.rest("impersonate", "").iter().try_for_each(check);
        }
        let on = format!("impersonate-on:{}:{}", mode.name(), request.verb);
        check(&Attributes { verb: &on, ..*request })?;
        let verb = mode.verb();
        match mode {
            Mode::AssociatedNode => check(&attribute(&verb, GROUP_OF_USERS, "nodes", "", "", "*")),
            Mode::ArbitraryNode => {
                let node = self.node().unwrap_or_default();
                check(&attribute(&verb, GROUP_OF_USERS, "nodes", "", "", node))
            }
            _ => {
                check(&self.named(&verb, GROUP_OF_USERS))?;
                self.check_constrained(&verb, user, &check)
            }
        }
    }

    /// Checks the uid, groups and extras of the requested user. Only the unconstrained mode allows empty texts and the
    /// group `system:masters`. For many groups or extras, one permission for all of them is enough.
    fn check_constrained(
        &self,
        verb: &str,
        user: &User,
        check: &dyn Fn(&Attributes<'_>) -> Result<(), ApiError>,
    ) -> Result<(), ApiError> {
        let reject = |resource, name, why: &str| {
            let attributes = attribute(verb, GROUP_OF_USERS, resource, "", "", name);
            Err(ApiError::unauthorized_for(&user.name, &attributes, why))
        };
        let all = |resource, subresource| attribute(verb, GROUP_OF_USERS, resource, subresource, "", "*");
        if !self.uid.is_empty() {
            check(&attribute(verb, GROUP_OF_USERS, "uids", "", "", &self.uid))?;
        }
        if self.groups.iter().any(String::is_empty) {
            return reject("groups", "", "impersonating the empty string group is not allowed");
        }
        if self.groups.iter().any(|group| group == MASTERS) {
            return reject(
                "groups",
                MASTERS,
                "impersonating the system:masters group is not allowed",
            );
        }
        if self.groups.len() < MANY || check(&all("groups", "")).is_err() {
            self.of_groups(verb, GROUP_OF_USERS)
                .try_for_each(|group| check(&group))?;
        }
        if let Some(why) = self.extra.iter().find_map(|(key, values)| error_of_extra(key, values)) {
            return reject("userextras", "", &why);
        }
        let values: usize = self.extra.iter().map(|(_, values)| values.len()).sum();
        if values < MANY || check(&all("userextras", "*")).is_err() {
            self.of_extra(verb).try_for_each(|extra| check(&extra))?;
        }
        Ok(())
    }

    /// Returns the permission to impersonate the user. `group` is the API group of users, groups and service accounts.
    fn named<'a>(&'a self, verb: &'a str, group: &'a str) -> Attributes<'a> {
        match self.service_account() {
            Some((namespace, name)) => attribute(verb, group, "serviceaccounts", "", namespace, name),
            None => attribute(verb, group, "users", "", "", &self.name),
        }
    }

    /// Returns the permissions to impersonate the other attributes of the user, in the order of the checks.
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

    pub(super) fn into_user(self, mode: Mode) -> User {
        let mut groups = self.groups.clone();
        if matches!(mode, Mode::AssociatedNode | Mode::ArbitraryNode) {
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

    /// Formats the user as Go prints it, as messages show it.
    pub(super) fn as_go(&self) -> String {
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

/// Returns the namespace and name of the service account with the user name `user`, if it is one.
fn service_account(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = service_account_of(user)?;
    let is_one = dns_label(namespace).is_empty() && dns_subdomain(name).is_empty();
    is_one.then_some((namespace, name))
}

/// Returns the key of an extra from the name of a header, in lower case; well-formed escapes are decoded.
fn extra_key(text: &str) -> Result<String, ApiError> {
    match query::decode(text) {
        Ok(key) => Ok(key.into_owned()),
        Err(DecodeError::Escape) => Ok(text.to_owned()),
        Err(DecodeError::Encoding) => Err(ApiError::bad_request(format!(
            "the header \"{EXTRA}{text}\" cannot be read: its name is not UTF-8"
        ))),
    }
}

/// Returns the reason why constrained modes deny an extra.
fn error_of_extra(key: &str, values: &[String]) -> Option<String> {
    if key.is_empty() {
        return Some("impersonating the empty string key in extra is not allowed".to_owned());
    }
    let path = FieldPath::new("extra").child("key");
    let errors = domain_prefixed_path(&path, key);
    if !errors.is_empty() {
        let why = Aggregate(&errors);
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

/// Returns the permission to impersonate a user with this attribute.
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
            field_selector: &[],
            label_selector: "",
        }),
    }
}
