use http::header::{HeaderName, HeaderValue};

use holdfast_authorization::{AccessTarget, Authorization, Decision, MASTERS, Masters, NODE_NAME, UserRules};
use http::Method;

use super::requested_user::{GROUP, NODES, USER};
use super::*;
use crate::http::request_info::RequestInfo;
use crate::identity::AUTHENTICATED;

/// Authorizer that allows the requests in its lines: `VERB GROUP RESOURCE/SUBRESOURCE NAMESPACE NAME`.
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
        Authorization::new(if self.0.contains(&line.as_str()) {
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
fn a_constrained_mode_is_chosen_by_its_verb() {
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
fn the_mode_that_worked_last_words_the_next_rejection() {
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
fn constrained_modes_need_the_user_and_the_request() {
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
fn constrained_modes_can_be_switched_off() {
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
fn nodes_are_impersonated_by_name_or_as_the_associated_node() {
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
    let outcome = ask(
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
    let user = outcome.unwrap();
    assert_eq!((user.name.as_str(), user.uid.as_str()), ("bob", "u-1"));
    assert_eq!(user.groups, ["g1", "g2", "system:authenticated"]);
    let mut extra: Vec<&str> = user.extra.iter().map(|(key, _)| key.as_str()).collect();
    extra.sort_unstable();
    assert_eq!(extra, ["example.com/key", "reason"]);
    assert_eq!(ask(MASTERS, &[]).unwrap().name, "asker");
}

#[test]
fn service_accounts_and_the_anonymous_bring_groups_of_their_own() {
    let groups = |name| ask(MASTERS, &[("Impersonate-User", name)]).unwrap().groups.join(" ");
    assert_eq!(
        groups("system:serviceaccount:shop:robot"),
        "system:serviceaccounts system:serviceaccounts:shop system:authenticated"
    );
    assert_eq!(groups("system:anonymous"), "system:unauthenticated");
}

#[test]
fn user_without_permission_is_denied_impersonation() {
    let rejected = ask("devs", &[("Impersonate-User", "admin")]).unwrap_err();
    assert_eq!(
        rejected,
        "configmaps is forbidden: User \"asker\" cannot impersonate-on:user-info:list resource \"configmaps\" in API group \"\" in the namespace \"n\""
    );
    let rejected = ask(MASTERS, &[("Impersonate-Group", "devs")]).unwrap_err();
    assert_eq!(
        rejected,
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
    let outcome = ask_bytes(&[
        ("impersonate-user", "josé".as_bytes()),
        ("impersonate-uid", "ü".as_bytes()),
        ("impersonate-group", "größen".as_bytes()),
        ("impersonate-extra-scopes", "日本".as_bytes()),
    ]);
    let user = outcome.unwrap();
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
        // Of several user names the first counts, and the others are not read.
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
    let outcome = ask_bytes(&[
        ("impersonate-user", b"bob"),
        ("impersonate-user", b"eve"),
        ("impersonate-uid", b"1"),
        ("impersonate-uid", b"2"),
    ]);
    let user = outcome.unwrap();
    assert_eq!((user.name.as_str(), user.uid.as_str()), ("bob", "1"));
    let none = ask_bytes(&[("impersonate-user", b""), ("impersonate-user", b"eve")]);
    assert_eq!(none.unwrap().name, "asker");
}

#[test]
fn invalid_service_account_or_node_name_is_a_user() {
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
        let rule = format!("impersonate  users/  {name}");
        let rules = [rule.as_str()];
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
            format!("requested &user.DefaultInfo{{Name:\"\", UID:\"\", {shown}}} without impersonating a user name")
        );
    }
}

#[test]
fn constrained_modes_deny_masters_and_invalid_extras() {
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
