//! Server-Side Apply on custom resources: ownership according to the schema, after changes of the schema, across
//! versions, and in status and scale (<https://kubernetes.io/docs/reference/using-api/server-side-apply/>).

use conformance::{Binary, Server, Target};
use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::{APPLY, CRD, CRDS, JSON, MERGE, WIDGETS, ask, get, is_established, until, widget};

fn version(name: &str, storage: bool, spec: &Value) -> Value {
    json!({
        "name": name, "served": true, "storage": storage,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": spec}}}},
    })
}

async fn start(versions: &[Value]) -> (Server, Target) {
    let server = Server::start(&Binary::debug().unwrap(), &[]).unwrap();
    let target = Target::new(&server).unwrap();
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": versions},
    });
    let (code, answer) = ask(&target, Method::POST, CRDS, JSON, &crd).await;
    assert_eq!(code, StatusCode::CREATED, "{answer}");
    until(&target, CRD, |_, crd| is_established(crd)).await;
    (server, target)
}

async fn change(target: &Target, versions: &[Value]) {
    let patch = json!({"spec": {"versions": versions}});
    let (code, answer) = ask(target, Method::PATCH, CRD, MERGE, &patch).await;
    assert_eq!(code, StatusCode::OK, "{answer}");
}

async fn apply(target: &Target, path: &str, manager: &str, body: &Value) -> (StatusCode, Value) {
    let path = format!(
        "{path}{}fieldManager={manager}",
        if path.contains('?') { '&' } else { '?' }
    );
    ask(target, Method::PATCH, &path, APPLY, body).await
}

async fn applied(target: &Target, path: &str, manager: &str, body: &Value) -> Value {
    let (code, object) = apply(target, path, manager, body).await;
    assert!(code.is_success(), "{object}");
    object
}

/// Returns the field owners: `MANAGER VERSION SUBRESOURCE` and the fields, in the order of the object.
fn owners(object: &Value) -> Vec<(String, Value)> {
    let entries = object["metadata"]["managedFields"].as_array().unwrap();
    let owner = |entry: &Value| {
        let text = |name: &str| entry[name].as_str().unwrap_or_default();
        let version = text("apiVersion").rsplit('/').next().unwrap_or_default();
        let who = format!("{} {version} {}", text("manager"), text("subresource"));
        (who.trim_end().to_owned(), entry["fieldsV1"]["f:spec"].clone())
    };
    entries.iter().map(owner).collect()
}

fn items(markers: &Value) -> Value {
    let mut list = json!({"type": "array", "items": {"type": "object", "required": ["name"], "properties": {
        "name": {"type": "string"}, "value": {"type": "string"}}}});
    for (name, value) in markers.as_object().unwrap() {
        list[name] = value.clone();
    }
    list
}

fn by_name() -> Value {
    items(&json!({"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}))
}

fn pair(map_type: &str) -> Value {
    json!({"type": "object", "x-kubernetes-map-type": map_type, "properties": {
        "a": {"type": "string"}, "b": {"type": "string"}}})
}

#[tokio::test]
async fn lists_are_owned_as_a_whole_and_maps_by_key() {
    let any = json!({"l": items(&json!({})), "m": {"type": "object", "additionalProperties": {"type": "string"}}});
    let (_server, target) = start(&[version("v1", true, &any)]).await;
    let path = format!("{WIDGETS}/one");
    let made = applied(
        &target,
        &path,
        "a",
        &widget("one", &json!({"l": [{"name": "x"}], "m": {"k": "1"}})),
    )
    .await;
    assert_eq!(
        owners(&made),
        [("a v1".to_owned(), json!({"f:l": {}, "f:m": {"f:k": {}}}))]
    );
    let other = widget("one", &json!({"l": [{"name": "y"}], "m": {"q": "2"}}));
    let (code, rejected) = apply(&target, &path, "b", &other).await;
    assert_eq!(code, StatusCode::CONFLICT);
    assert_eq!(
        rejected["message"],
        "Apply failed with 1 conflict: conflict with \"a\": .spec.l"
    );
    let forced = applied(&target, &format!("{path}?force=true"), "b", &other).await;
    assert_eq!(forced["spec"], json!({"l": [{"name": "y"}], "m": {"k": "1", "q": "2"}}));
    assert_eq!(
        owners(&forced),
        [
            ("a v1".to_owned(), json!({"f:m": {"f:k": {}}})),
            ("b v1".to_owned(), json!({"f:l": {}, "f:m": {"f:q": {}}})),
        ]
    );
}

#[tokio::test]
async fn sets_and_lists_by_key_are_shared_item_by_item() {
    let set = json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}});
    let (_server, target) = start(&[version("v1", true, &json!({"s": set, "l": by_name()}))]).await;
    let path = format!("{WIDGETS}/one");
    let widget_with = |set: &[&str], names: &[&str]| {
        let items: Vec<Value> = names.iter().map(|name| json!({"name": name, "value": "1"})).collect();
        widget("one", &json!({"s": set, "l": items}))
    };
    applied(&target, &path, "a", &widget_with(&["p", "q"], &["x"])).await;
    let both = applied(&target, &path, "b", &widget_with(&["q", "r"], &["y"])).await;
    assert_eq!(both["spec"]["s"], json!(["p", "q", "r"]));
    let item = json!({".": {}, "f:name": {}, "f:value": {}});
    assert_eq!(
        owners(&both)[1].1,
        json!({"f:s": {"v:\"q\"": {}, "v:\"r\"": {}}, "f:l": {"k:{\"name\":\"y\"}": item}})
    );
    // An item that one manager omits and no other applies is removed.
    let less = applied(&target, &path, "a", &widget_with(&["q"], &[])).await;
    assert_eq!(
        less["spec"],
        json!({"s": ["q", "r"], "l": [{"name": "y", "value": "1"}]})
    );
    let (code, rejected) = apply(&target, &path, "a", &widget_with(&["q", "q"], &[])).await;
    assert!(!code.is_success(), "{rejected}");
}

#[tokio::test]
async fn field_that_becomes_granular_counts_as_always_granular() {
    let before = json!({"l": items(&json!({})), "o": pair("atomic")});
    let after = json!({"l": by_name(), "o": pair("granular")});
    let (_server, target) = start(&[version("v1", true, &before)]).await;
    let path = format!("{WIDGETS}/one");
    let whole = widget(
        "one",
        &json!({"l": [{"name": "x", "value": "1"}], "o": {"a": "1", "b": "2"}}),
    );
    applied(&target, &path, "a", &whole).await;
    change(&target, &[version("v1", true, &after)]).await;
    // The former owner owns the list and the map, and nothing in them.
    let part = widget("one", &json!({"l": [{"name": "y"}], "o": {"a": "9"}}));
    let both = applied(&target, &path, "b", &part).await;
    assert_eq!(
        both["spec"],
        json!({"l": [{"name": "x", "value": "1"}, {"name": "y"}], "o": {"a": "9", "b": "2"}})
    );
    assert_eq!(owners(&both)[0], ("a v1".to_owned(), json!({"f:l": {}, "f:o": {}})));
    let again = applied(
        &target,
        &path,
        "a",
        &widget("one", &json!({"l": [{"name": "x", "value": "2"}]})),
    )
    .await;
    let item = json!({".": {}, "f:name": {}, "f:value": {}});
    let a = owners(&again).into_iter().find(|(who, _)| who == "a v1").unwrap();
    assert_eq!(a.1, json!({"f:l": {"k:{\"name\":\"x\"}": item}}));
}

#[tokio::test]
async fn field_that_becomes_atomic_belongs_to_all_former_owners() {
    let before = json!({"l": by_name(), "o": pair("granular")});
    let after = json!({"l": items(&json!({})), "o": pair("atomic")});
    let (_server, target) = start(&[version("v1", true, &before)]).await;
    let path = format!("{WIDGETS}/one");
    let of_a = widget("one", &json!({"l": [{"name": "x"}], "o": {"a": "1"}}));
    applied(&target, &path, "a", &of_a).await;
    applied(
        &target,
        &path,
        "b",
        &widget("one", &json!({"l": [{"name": "y"}], "o": {"b": "1"}})),
    )
    .await;
    change(&target, &[version("v1", true, &after)]).await;
    let (code, rejected) = apply(&target, &path, "a", &of_a).await;
    assert_eq!(code, StatusCode::CONFLICT);
    assert_eq!(
        rejected["message"],
        "Apply failed with 2 conflicts: conflicts with \"b\":\n- .spec.l\n- .spec.o"
    );
    let forced = applied(&target, &format!("{path}?force=true"), "a", &of_a).await;
    assert_eq!(forced["spec"], of_a["spec"]);
    assert_eq!(owners(&forced), [("a v1".to_owned(), json!({"f:l": {}, "f:o": {}}))]);
}

#[tokio::test]
async fn managers_keep_the_version_they_wrote_in_until_it_is_gone() {
    let text = json!({"type": "string"});
    let spec = json!({"a": text, "b": text});
    let (_server, target) = start(&[version("v1", true, &spec), version("v2", false, &spec)]).await;
    let (one, two) = (
        format!("{WIDGETS}/one"),
        format!("{WIDGETS}/one").replace("/v1/", "/v2/"),
    );
    let at_two = |spec: Value| {
        let mut object = widget("one", &spec);
        object["apiVersion"] = json!("example.com/v2");
        object
    };
    applied(&target, &one, "a", &widget("one", &json!({"a": "1", "b": "x"}))).await;
    let both = applied(&target, &two, "b", &at_two(json!({"a": "1"}))).await;
    let who = |object: &Value| owners(object).into_iter().map(|(who, _)| who).collect::<Vec<_>>();
    assert_eq!(
        who(&both)
            .iter()
            .filter(|who| ["a v1", "b v2"].contains(&who.as_str()))
            .count(),
        2
    );
    // Conflicts are detected across versions.
    let (code, _) = apply(&target, &two, "c", &at_two(json!({"a": "2"}))).await;
    assert_eq!(code, StatusCode::CONFLICT);
    // A manager that applies in another version moves to it, and gives up the fields that it omits.
    let moved = applied(&target, &two, "a", &at_two(json!({"a": "1"}))).await;
    assert_eq!(who(&moved).iter().filter(|who| who.ends_with("v2")).count(), 2);
    assert_eq!(get(&target, &one).await.1["spec"], json!({"a": "1"}));

    applied(&target, &one, "late", &widget("one", &json!({"b": "y"}))).await;
    change(&target, &[version("v1", false, &spec), version("v2", true, &spec)]).await;
    // Objects are migrated by writing them before their version is removed: an object stored in a missing version
    // cannot be read.
    let moved = json!({"metadata": {"labels": {"moved": "yes"}}});
    let (code, answer) = ask(&target, Method::PATCH, &two, MERGE, &moved).await;
    assert_eq!(code, StatusCode::OK, "{answer}");
    let status = json!({"status": {"storedVersions": ["v2"]}});
    let (code, answer) = ask(&target, Method::PATCH, &format!("{CRD}/status"), MERGE, &status).await;
    assert_eq!(code, StatusCode::OK, "{answer}");
    change(&target, &[version("v2", true, &spec)]).await;
    assert_eq!(get(&target, &one).await.0, StatusCode::NOT_FOUND);
    assert!(
        who(&get(&target, &two).await.1).contains(&"late v1".to_owned()),
        "a read changes nothing"
    );
    // An apply fails as long as a manager has an entry in the removed version, even a forced one that changes nothing.
    let (code, rejected) = apply(&target, &format!("{two}?force=true"), "a", &at_two(json!({"a": "1"}))).await;
    assert_eq!(code, StatusCode::INTERNAL_SERVER_ERROR, "{rejected}");
    assert_eq!(
        rejected["message"],
        "request to convert CR to an invalid group/version: example.com/v1"
    );
    // An update clears the managed fields, and applies work after that.
    let written = json!({"spec": {"b": "z"}});
    let (code, written) = ask(&target, Method::PATCH, &two, MERGE, &written).await;
    assert_eq!(code, StatusCode::OK, "{written}");
    assert_eq!(written["metadata"]["managedFields"], Value::Null, "{written}");
    let again = applied(&target, &two, "a", &at_two(json!({"a": "1"}))).await;
    assert!(who(&again).contains(&"a v2".to_owned()), "{again}");
    assert!(who(&again).iter().all(|who| who.ends_with("v2")), "{again}");
}

#[tokio::test]
async fn managers_of_a_removed_version_can_be_migrated() {
    let spec = json!({"a": {"type": "string"}});
    let (_server, target) = start(&[version("v1", false, &spec), version("v2", true, &spec)]).await;
    let (one, two) = (
        format!("{WIDGETS}/one"),
        format!("{WIDGETS}/one").replace("/v1/", "/v2/"),
    );
    applied(&target, &one, "a", &widget("one", &json!({"a": "1"}))).await;
    change(&target, &[version("v2", true, &spec)]).await;
    // Migration tools send managed fields whose versions they have rewritten.
    let mut managed = get(&target, &two).await.1["metadata"]["managedFields"].clone();
    managed[0]["apiVersion"] = json!("example.com/v2");
    let migrated = json!({"metadata": {"managedFields": managed}});
    let (code, migrated) = ask(&target, Method::PATCH, &two, MERGE, &migrated).await;
    assert_eq!(code, StatusCode::OK, "{migrated}");
    assert_eq!(owners(&migrated), [("a v2".to_owned(), json!({"f:a": {}}))]);
    let mut changed = widget("one", &json!({"a": "2"}));
    changed["apiVersion"] = json!("example.com/v2");
    assert_eq!(applied(&target, &two, "a", &changed).await["spec"]["a"], "2");
}

#[tokio::test]
async fn status_and_scale_have_owners_of_their_own() {
    let number = json!({"type": "integer"});
    let mut versions = version("v1", true, &json!({"replicas": number, "color": {"type": "string"}}));
    versions["schema"]["openAPIV3Schema"]["properties"]["status"] =
        json!({"type": "object", "properties": {"replicas": number}});
    versions["subresources"] = json!({"status": {},
        "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}});
    let (_server, target) = start(&[versions]).await;
    let path = format!("{WIDGETS}/one");
    let mut sent = widget("one", &json!({"replicas": 1}));
    sent["status"] = json!({"replicas": 7});
    let made = applied(&target, &path, "a", &sent).await;
    assert_eq!(made["status"], Value::Null);
    assert_eq!(owners(&made), [("a v1".to_owned(), json!({"f:replicas": {}}))]);

    sent["spec"]["replicas"] = json!(55);
    let reported = applied(&target, &format!("{path}/status"), "controller", &sent).await;
    assert_eq!(
        (&reported["spec"]["replicas"], &reported["status"]["replicas"]),
        (&json!(1), &json!(7))
    );
    assert!(owners(&reported).contains(&("controller v1 status".to_owned(), Value::Null)));

    let scale =
        json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "one"}, "spec": {"replicas": 2}});
    let (code, rejected) = apply(&target, &format!("{path}/scale"), "scaler", &scale).await;
    assert_eq!(code, StatusCode::CONFLICT);
    assert_eq!(
        rejected["message"],
        "Apply failed with 1 conflict: conflict with \"a\": .spec.replicas"
    );
    let address = format!("{path}/scale?fieldManager=scaler");
    let (code, scaled) = ask(
        &target,
        Method::PATCH,
        &address,
        MERGE,
        &json!({"spec": {"replicas": 4}}),
    )
    .await;
    assert_eq!((code, &scaled["status"]["replicas"]), (StatusCode::OK, &json!(7)));
    let now = get(&target, &path).await.1;
    assert!(owners(&now).contains(&("scaler v1 scale".to_owned(), json!({"f:replicas": {}}))));
    // The user who scales owns `replicas` instead of the applier, as described in the documentation of horizontal
    // scaling.
    let (code, rejected) = apply(&target, &path, "a", &widget("one", &json!({"replicas": 1}))).await;
    assert_eq!(code, StatusCode::CONFLICT);
    let shown = "Apply failed with 1 conflict: conflict with \"scaler\" with subresource \"scale\" using example.com/v1: .spec.replicas";
    assert_eq!(rejected["message"], shown);
    let without = applied(&target, &path, "a", &widget("one", &json!({"color": "red"}))).await;
    assert_eq!(without["spec"], json!({"replicas": 4, "color": "red"}));
}

/// Flux's `ssa` expects this of clusters (`TestApply_MigrateAPIVersion` of its suite).
#[tokio::test]
async fn managers_of_an_unserved_version_are_still_owners() {
    let (text, default) = (json!({"type": "string"}), json!({"type": "string", "default": "x"}));
    let (old, new) = (json!({"a": text}), json!({"a": text, "b": default}));
    let unserved = |spec: &Value| {
        let mut version = version("v1beta1", false, spec);
        version["served"] = json!(false);
        version
    };
    let (_server, target) = start(&[version("v1beta1", true, &old)]).await;
    let one = format!("{WIDGETS}/one");
    let before = one.replace("/v1/", "/v1beta1/");
    let mut first = widget("one", &json!({"a": "1"}));
    first["apiVersion"] = json!("example.com/v1beta1");
    applied(&target, &before, "applier", &first).await;

    change(&target, &[unserved(&old), version("v1", true, &old)]).await;
    let label = json!({"metadata": {"labels": {"moved": "yes"}}});
    let moved = ask(
        &target,
        Method::PATCH,
        &format!("{one}?fieldManager=mover"),
        MERGE,
        &label,
    )
    .await;
    let who: Vec<String> = owners(&moved.1).into_iter().map(|(who, _)| who).collect();
    assert_eq!(who, ["applier v1beta1", "mover v1"]);
    let (code, rejected) = apply(&target, &one, "other", &widget("one", &json!({"a": "2"}))).await;
    assert_eq!(code, StatusCode::CONFLICT, "{rejected}");

    // A default that the old version does not know prevents the comparison of the object in it.
    change(&target, &[unserved(&old), version("v1", true, &new)]).await;
    for manager in ["applier", "other"] {
        let (code, rejected) = apply(&target, &one, manager, &widget("one", &json!({"a": "1"}))).await;
        assert_eq!(code, StatusCode::INTERNAL_SERVER_ERROR, "{rejected}");
        assert_eq!(rejected["message"], ".spec.b: field not declared in schema");
    }
    // An update succeeds without tracking managers.
    let changed = json!({"spec": {"a": "3"}});
    let (code, updated) = ask(&target, Method::PATCH, &one, MERGE, &changed).await;
    assert_eq!(
        (code, &updated["metadata"]["managedFields"]),
        (StatusCode::OK, &Value::Null)
    );
}
