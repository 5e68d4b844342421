//! Every built-in kind, and custom resources: each server reads, lists, watches, patches, applies, updates and deletes
//! the objects that the other wrote.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{Method, StatusCode};
use serde_json::{Value, json};
use test_support::needs;

use crate::{JSON, Pair, Side, named, version};

/// The namespace of all objects here.
const NAMESPACE: &str = "beside";

/// An object of each kind, by its collection. `NS`, `NAME`, `NUMBER` and `REQUEST` are placeholders for values known
/// later.
const OBJECTS: &str = include_str!("objects.json");

/// Number of attempts before a difference is reported.
const LOOKS: usize = 20;

#[needs(etcd, kube_apiserver)]
#[tokio::test]
async fn each_server_reads_and_changes_every_kind_of_the_other() {
    // Their controllers would write concurrently with the test.
    let quiet = "--controllers=*,-clusterrole-aggregation-controller,-resourcequota-controller,\
                 -validatingadmissionpolicy-status-controller";
    let pair = Pair::start(&[quiet]).await;
    pair.reference
        .make("/api/v1/namespaces", &named("v1", "Namespace", NAMESPACE))
        .await;
    let objects: BTreeMap<String, Value> = serde_json::from_str(OBJECTS).unwrap();
    assert_eq!(missing(&pair.holdfast, &objects).await, BTreeSet::new());
    let (mut differences, mut number) = (Vec::new(), 0);
    for (collection, shape) in &objects {
        for (writer, other) in pair.ways() {
            number += 1;
            let subject = Subject::new(collection, shape, number);
            differences.extend(subject.exchange(writer, other).await);
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// Returns the collections that a server has and the table has not.
async fn missing(side: &Side, objects: &BTreeMap<String, Value>) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let (_, groups) = side.get("/apis").await;
    let versions = groups["groups"].as_array().unwrap().iter().flat_map(|group| {
        let versions = group["versions"].as_array().unwrap();
        versions
            .iter()
            .map(|version| format!("/apis/{}", version["groupVersion"].as_str().unwrap()))
    });
    for root in ["/api/v1".to_owned()].into_iter().chain(versions) {
        let (_, list) = side.get(&root).await;
        for resource in list["resources"].as_array().unwrap() {
            let verbs = resource["verbs"].as_array().unwrap();
            if !["create", "list"]
                .iter()
                .all(|verb| verbs.iter().any(|known| known == verb))
            {
                continue;
            }
            let name = resource["name"].as_str().unwrap();
            let scope = if resource["namespaced"] == true {
                "/namespaces/NS"
            } else {
                ""
            };
            found.insert(format!("{root}{scope}/{name}"));
        }
    }
    found.retain(|collection| !objects.contains_key(collection));
    found
}

/// Object that both servers write in turn.
struct Subject {
    collection: String,
    object: Value,
}

impl Subject {
    fn new(collection: &str, shape: &Value, number: usize) -> Self {
        let name = format!("x{number}");
        let key = rcgen::KeyPair::generate().unwrap();
        let request = rcgen::CertificateParams::default().serialize_request(&key).unwrap();
        let text = shape
            .to_string()
            .replace("\"NS\"", &format!("{NAMESPACE:?}"))
            .replace("NAME", &name)
            .replace("NUMBER", &number.to_string())
            .replace("REQUEST", &STANDARD.encode(request.pem().unwrap()));
        let mut object: Value = serde_json::from_str(&text).unwrap();
        let own = object.as_object_mut().unwrap().remove("name");
        let parts: Vec<&str> = collection.split('/').collect();
        let api_version = match parts[1] {
            "api" => parts[2].to_owned(),
            _ => format!("{}/{}", parts[2], parts[3]),
        };
        object["apiVersion"] = api_version.into();
        object["metadata"] = json!({"name": own.unwrap_or_else(|| name.into()), "labels": {"made": "yes"}});
        Self {
            collection: collection.replace("/NS/", &format!("/{NAMESPACE}/")),
            object,
        }
    }

    fn name(&self) -> &str {
        self.object["metadata"]["name"].as_str().unwrap()
    }

    /// Creates the object through `writer`, and runs all operations on it through `other`. Returns the differences.
    async fn exchange(&self, writer: &Side, other: &Side) -> Vec<String> {
        let mut found = Found {
            of: format!("{} by {}", self.collection, writer.name),
            differences: Vec::new(),
        };
        let (_, before) = writer.get(&format!("{}?limit=1", self.collection)).await;
        let made = writer.make(&self.collection, &self.object).await;
        let mut streams = Vec::new();
        for side in [writer, other] {
            streams.push(side.follow(&self.collection, self.name(), version(&before)).await);
        }
        self.read(writer, other, &mut found).await;
        self.change(writer, other, &mut found).await;
        self.remove(writer, other, &mut found).await;
        let mut reported = Vec::new();
        for stream in &mut streams {
            reported.push(stream.until_gone().await);
        }
        found.compare(
            "the first event",
            &made["metadata"]["uid"],
            &reported[0][0]["object"]["metadata"]["uid"],
        );
        found.compare("the events", &json!(reported[0]), &json!(reported[1]));
        found.differences
    }

    /// Checks that both servers return the same object, individually and in lists.
    async fn read(&self, writer: &Side, other: &Side, found: &mut Found) {
        let path = format!("{}/{}", self.collection, self.name());
        for path in [&path, &self.collection] {
            let difference = retried(async || {
                let (shown, also) = (writer.get(path).await, other.get(path).await);
                // The versions of lists are those of the moment.
                let items = |answer: &Value| match &answer["items"] {
                    Value::Null => answer.clone(),
                    items => items.clone(),
                };
                Found::between(&items(&shown.1), &items(&also.1))
            });
            found.add(path, difference.await);
        }
    }

    /// Checks that a write that changes nothing is not stored: the resource version stays the same.
    async fn unchanged(
        &self,
        side: &Side,
        what: &str,
        write: impl AsyncFn(&Value) -> (StatusCode, Value),
        found: &mut Found,
    ) {
        let path = format!("{}/{}", self.collection, self.name());
        let difference = retried(async || {
            let (_, shown) = side.get(&path).await;
            Found::between(&shown, &write(&shown).await.1)
        });
        found.add(what, difference.await);
    }

    async fn change(&self, writer: &Side, other: &Side, found: &mut Found) {
        let path = format!("{}/{}", self.collection, self.name());
        let patch = json!({"metadata": {"annotations": {"patched": other.name}}});
        let patched = other.merge(&path, &patch).await;
        found.succeeded("a patch", &patched);
        self.read(writer, other, found).await;
        let again = async |_: &Value| writer.merge(&path, &patch).await;
        self.unchanged(writer, "the same patch", again, found).await;
        let put = async |shown: &Value| writer.ask(Method::PUT, &path, JSON, shown).await;
        self.unchanged(writer, "what is there, put again", put, found).await;

        let mut applied = self.object.clone();
        applied["metadata"]["labels"]["applied"] = "yes".into();
        let forced = "applier&force=true";
        found.succeeded("an apply", &other.apply(&path, forced, &applied).await);
        self.read(writer, other, found).await;
        let again = async |_: &Value| writer.apply(&path, forced, &applied).await;
        self.unchanged(writer, "the same apply", again, found).await;

        let (_, mut next) = other.get(&path).await;
        next["metadata"]["labels"]["updated"] = "yes".into();
        found.succeeded("an update", &other.ask(Method::PUT, &path, JSON, &next).await);
        self.read(writer, other, found).await;
    }

    async fn remove(&self, writer: &Side, other: &Side, found: &mut Found) {
        let path = format!("{}/{}", self.collection, self.name());
        let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"});
        found.succeeded("a deletion", &other.ask(Method::DELETE, &path, JSON, &options).await);
        // Volumes are protected, by a controller that is not here.
        let (code, left) = other.get(&path).await;
        let protected = left["metadata"]["finalizers"].to_string().contains("-protection");
        if code == StatusCode::OK && protected {
            let patch = json!({"metadata": {"finalizers": null}});
            found.succeeded("letting go of it", &other.merge(&path, &patch).await);
        }
        for side in [writer, other] {
            side.until(&path, |code, _| code == StatusCode::NOT_FOUND).await;
        }
    }
}

/// Differences between the servers.
struct Found {
    of: String,
    differences: Vec<String>,
}

impl Found {
    fn compare(&mut self, what: &str, one: &Value, other: &Value) {
        self.add(what, Self::between(one, other));
    }

    fn add(&mut self, what: &str, difference: Option<String>) {
        let reported = difference.map(|difference| format!("{}: {what}: {difference}", self.of));
        self.differences.extend(reported);
    }

    fn between(one: &Value, other: &Value) -> Option<String> {
        (one != other).then(|| difference(one, other))
    }

    fn succeeded(&mut self, what: &str, answer: &(StatusCode, Value)) {
        let (code, answer) = answer;
        if !code.is_success() {
            self.differences.push(format!("{}: {what}: {code} {answer}", self.of));
        }
    }
}

/// Repeats a comparison that finds a difference, because controllers write concurrently with the test. The last result
/// applies.
async fn retried(mut look: impl AsyncFnMut() -> Option<String>) -> Option<String> {
    let mut last = None;
    for _ in 0..LOOKS {
        last = look().await;
        if last.is_none() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    last
}

/// Returns the first path at which two values differ, with both values.
fn difference(one: &Value, other: &Value) -> String {
    match (one, other) {
        (Value::Object(left), Value::Object(right)) => {
            let keys: BTreeSet<&String> = left.keys().chain(right.keys()).collect();
            let key = keys.into_iter().find(|key| left.get(*key) != right.get(*key));
            let member =
                |map: &serde_json::Map<String, Value>| key.and_then(|key| map.get(key)).cloned().unwrap_or_default();
            format!(
                ".{}{}",
                key.map_or("", String::as_str),
                difference(&member(left), &member(right))
            )
        }
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
            let at = left
                .iter()
                .zip(right)
                .position(|(left, right)| left != right)
                .unwrap_or_default();
            format!("[{at}]{}", difference(&left[at], &right[at]))
        }
        _ => format!(": {one} and {other}"),
    }
}

#[needs(etcd, kube_apiserver)]
#[tokio::test]
async fn both_servers_serve_every_version_of_a_custom_resource() {
    let pair = Pair::start(&[]).await;
    for (number, (writer, other)) in pair.ways().into_iter().enumerate() {
        let group = format!("g{number}.example.com");
        writer
            .make("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &crd(&group))
            .await;
        let mut differences = Vec::new();
        for served in ["v1", "v2"] {
            let collection = format!("/apis/{group}/{served}/namespaces/default/gadgets");
            for side in pair.sides() {
                side.until(&collection, |code, _| code == StatusCode::OK).await;
            }
            let object = json!({"apiVersion": format!("{group}/{served}"), "kind": "Gadget",
                "metadata": {"name": format!("gadget-{served}"), "labels": {"a": "b"}},
                "spec": {"size": 3, "parts": [{"name": "a", "weight": 1.5}, {"name": "b", "any": {"z": 1, "a": [null]}}]}});
            let subject = Subject { collection, object };
            differences.extend(subject.exchange(writer, other).await);
            differences.extend(subject.exchange(other, writer).await);
            // A status is written through a separate path.
            let path = format!("{}/{}", subject.collection, subject.name());
            writer.make(&subject.collection, &subject.object).await;
            let (code, answer) = other
                .merge(&format!("{path}/status"), &json!({"status": {"ready": true}}))
                .await;
            assert_eq!(code, StatusCode::OK, "{answer}");
            let (_, shown) = writer.get(&path).await;
            assert_eq!(shown["status"]["ready"], true, "{shown}");
            assert_eq!(shown["metadata"]["generation"], 1, "{shown}");
            // Validation rules and schemas apply to writes through either server.
            let (code, answer) = other.merge(&path, &json!({"spec": {"size": 30}})).await;
            assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY, "{answer}");
            assert!(answer["message"].as_str().unwrap().contains("too large"), "{answer}");
        }
        assert!(differences.is_empty(), "{}", differences.join("\n"));
        // The objects of a CRD are deleted with it, on both sides, regardless of the server that has to delete them.
        let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/gadgets.{group}");
        let (code, answer) = other.delete(&path).await;
        assert_eq!(code, StatusCode::OK, "{answer}");
        for side in pair.sides() {
            side.until(&path, |code, _| code == StatusCode::NOT_FOUND).await;
            let collection = format!("/apis/{group}/v1/gadgets");
            side.until(&collection, |code, _| code == StatusCode::NOT_FOUND).await;
        }
        assert_eq!(pair.keys(&format!("/registry/{group}/")), 0);
    }
}

fn crd(group: &str) -> Value {
    let version = |name: &str, storage: bool| {
        json!({"name": name, "served": true, "storage": storage, "subresources": {"status": {}}, "schema": {"openAPIV3Schema": {
        "type": "object", "properties": {
            "spec": {"type": "object",
                "x-kubernetes-validations": [{"rule": "self.size < 10", "message": "too large"}],
                "properties": {
                    "size": {"type": "integer"},
                    "colour": {"type": "string", "default": "red"},
                    "parts": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"], "items": {
                        "type": "object", "required": ["name"], "properties": {
                            "name": {"type": "string"}, "weight": {"type": "number"},
                            "any": {"x-kubernetes-preserve-unknown-fields": true}}}},
                }},
            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        }}}})
    };
    let mut crd = named(
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        &format!("gadgets.{group}"),
    );
    crd["spec"] = json!({"group": group, "scope": "Namespaced",
        "names": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList"},
        "versions": [version("v1", false), version("v2", true)]});
    crd
}
