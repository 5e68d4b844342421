//! Asking in the name of somebody else, with `Impersonate-User` and its fellows
//! (<https://kubernetes.io/docs/reference/access-authn-authz/authentication/#user-impersonation>).

use std::sync::Arc;

use holdfast_value::SmolStr;
use http::Method;
use http::header::HeaderMap;

use super::{AUTHENTICATED, UNAUTHENTICATED};
use crate::ApiError;
use crate::authorization::{self, Authorizer};
use crate::query;
use crate::request_info::{RequestInfo, ResourcePath};
use crate::user::User;

const USER: &str = "impersonate-user";
const GROUP: &str = "impersonate-group";
const UID: &str = "impersonate-uid";
const EXTRA: &str = "impersonate-extra-";

const SERVICE_ACCOUNT: &str = "system:serviceaccount:";
const ANONYMOUS: &str = "system:anonymous";

/// The user whom a request of `user` is judged as: the one that its headers name, if they name one, and else `user`.
///
/// # Errors
/// 400 where the headers name no user but something of one; 403 where `user` may not ask in that user's name.
pub fn impersonate(
    user: Arc<User>,
    headers: &HeaderMap,
    authorizer: &dyn Authorizer,
    request: &RequestInfo,
    method: &Method,
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
    if !wanted
        .attributes()
        .all(|attribute| authorizer.allows(&user, &attribute))
    {
        return Err(authorization::refused_as(&user, &wanted.mode(request), request, method));
    }
    Ok(Arc::new(wanted.into_user()))
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

    /// What must be allowed: `impersonate` of each thing that is said of the user.
    fn attributes(&self) -> impl Iterator<Item = RequestInfo> {
        let mut attributes = vec![match self.service_account() {
            Some((namespace, name)) => attribute("", "serviceaccounts", "", namespace, name),
            None => attribute("", "users", "", "", &self.name),
        }];
        attributes.extend(self.groups.iter().map(|group| attribute("", "groups", "", "", group)));
        const GROUP: &str = "authentication.k8s.io";
        if !self.uid.is_empty() {
            attributes.push(attribute(GROUP, "uids", "", "", &self.uid));
        }
        for (key, values) in &self.extra {
            attributes.extend(
                values
                    .iter()
                    .map(|value| attribute(GROUP, "userextras", key, "", value)),
            );
        }
        attributes.into_iter()
    }

    /// The verb that refusals name: what is done, as whom.
    fn mode(&self, request: &RequestInfo) -> String {
        let as_whom = match self.service_account() {
            Some(_) => "serviceaccount",
            None => "user-info",
        };
        format!("impersonate-on:{as_whom}:{}", request.verb)
    }

    fn into_user(self) -> User {
        let mut groups = self.groups.clone();
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
fn attribute(group: &str, resource: &str, subresource: &str, namespace: &str, name: &str) -> RequestInfo {
    RequestInfo {
        path: String::new(),
        verb: SmolStr::new_static("impersonate"),
        resource: Some(ResourcePath {
            group: group.into(),
            version: SmolStr::new_static("v1"),
            namespace: namespace.into(),
            resource: resource.into(),
            name: name.into(),
            subresource: subresource.into(),
            ..ResourcePath::default()
        }),
        query: query::Query::default(),
    }
}

#[cfg(test)]
mod tests {
    use http::header::{HeaderName, HeaderValue};

    use super::*;
    use crate::authorization::BuiltInRules;

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
        let user = impersonate(Arc::new(user), &map, &BuiltInRules, &request, &Method::GET);
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
