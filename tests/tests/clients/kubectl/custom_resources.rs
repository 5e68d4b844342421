//! Custom resources, from the creation to the deletion of their CRD.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use test_support::needs;

use crate::kubectl::{Kubectl, script, text};

const CRD: &str = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: shops.stable.example.com
spec:
  group: stable.example.com
  scope: Namespaced
  names: {plural: shops, singular: shop, kind: Shop, shortNames: [sh], categories: [all, trade]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources:
      status: {}
      scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}
    selectableFields:
    - jsonPath: .spec.city
    additionalPrinterColumns:
    - {name: City, type: string, jsonPath: .spec.city}
    - {name: Desired, type: integer, jsonPath: .spec.replicas}
    - {name: Ready, type: string, jsonPath: '.status.conditions[?(@.type=="Ready")].status'}
    - {name: Phase, type: string, priority: 1, jsonPath: .status.phase}
    schema:
      openAPIV3Schema:
        type: object
        description: A shop sells things.
        required: [spec]
        properties:
          spec:
            type: object
            description: What the shop is to be.
            required: [city]
            properties:
              city: {type: string, description: Where it is., enum: [Ulm, Bonn, Jena]}
              replicas: {type: integer, minimum: 0, maximum: 9, default: 2}
              port: {x-kubernetes-int-or-string: true}
              shelves:
                type: array
                description: What stands where.
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [name]
                items:
                  type: object
                  required: [name]
                  properties:
                    name: {type: string, description: The name of the shelf.}
                    goods: {type: array, x-kubernetes-list-type: set, items: {type: string}}
                    size: {type: object, properties: {width: {type: integer, description: In centimetres.}}}
              notes: {type: object, x-kubernetes-preserve-unknown-fields: true}
          status:
            type: object
            properties:
              replicas: {type: integer}
              phase: {type: string}
              conditions:
                type: array
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [type]
                items:
                  type: object
                  required: [type, status]
                  properties: {type: {type: string}, status: {type: string}}
"#;

const SHOP: &str = "
apiVersion: stable.example.com/v1
kind: Shop
metadata:
  name: corner
  labels: {app: corner}
spec:
  city: Ulm
  shelves:
  - {name: left, goods: [bread, milk]}
  - {name: right, goods: [tea]}
";

const OPEN: &str = r#"{"status":{"replicas":4,"phase":"Open","conditions":[{"type":"Ready","status":"True"}]}}"#;

/// Arguments of a patch that sets the status of the shop to open.
const PATCH_OPEN: [&str; 7] = [
    "patch",
    "shop",
    "corner",
    "--subresource=status",
    "--type=merge",
    "-p",
    OPEN,
];

/// Returns a server that shops are defined on.
fn start() -> Kubectl {
    let kubectl = Kubectl::start();
    kubectl.says(&["apply", "-f", "-"], CRD);
    kubectl.wait_for_crds();
    kubectl
}

/// Returns the same with one shop on it.
fn start_with_shop() -> Kubectl {
    let kubectl = start();
    kubectl.says(&["apply", "-f", "-"], SHOP);
    kubectl
}

/// Returns the words of each line of a table.
fn rows(table: &str) -> Vec<Vec<&str>> {
    table.lines().map(|line| line.split_whitespace().collect()).collect()
}

#[needs(kubectl)]
#[test]
fn established_crd_is_discovered() {
    let kubectl = Kubectl::start();
    let unknown = kubectl.rejects(&["get", "shops"], "");
    assert_eq!(unknown, "error: the server doesn't have a resource type \"shops\"\n");
    let unmatched = kubectl.rejects(&["apply", "-f", "-"], SHOP);
    assert!(
        unmatched.contains("no matches for kind \"Shop\" in version \"stable.example.com/v1\""),
        "{unmatched}"
    );
    kubectl.says(&["apply", "-f", "-"], CRD);
    kubectl.wait_for_crds();
    let wait = ["wait", "crd/shops.stable.example.com", "--for=condition=Established"];
    kubectl.says(&wait, "");
    // The cache that kubectl has just filled does not contain the resource.
    assert_eq!(
        kubectl.says(&["apply", "-f", "-"], SHOP),
        "shop.stable.example.com/corner created\n"
    );
    for name in [
        "shops",
        "shop",
        "sh",
        "Shop",
        "shops.stable.example.com",
        "shops.v1.stable.example.com",
    ] {
        assert_eq!(
            kubectl.says(&["get", name, "-o", "name"], ""),
            "shop.stable.example.com/corner\n"
        );
    }
    let resources = kubectl.says(&["api-resources", "--api-group=stable.example.com", "--no-headers"], "");
    assert_eq!(
        rows(&resources),
        [["shops", "sh", "stable.example.com/v1", "true", "Shop"]]
    );
    let of_category = kubectl.says(&["api-resources", "--categories=trade", "-o", "name"], "");
    assert_eq!(of_category, "shops.stable.example.com\n");
    let versions = kubectl.says(&["api-versions"], "");
    assert!(versions.contains("stable.example.com/v1\n"), "{versions}");
    let crds = kubectl.says(&["get", "crd", "--no-headers"], "");
    assert_eq!(rows(&crds)[0][0], "shops.stable.example.com");

    kubectl.says(&["delete", "crd", "shops.stable.example.com", "--timeout=60s"], "");
    kubectl.rejects_in_time(
        &["get", "shops", "--cache-dir=/nonexistent"],
        "error: the server doesn't have a resource type \"shops\"\n",
    );
}

#[needs(kubectl)]
#[test]
fn get_prints_the_columns_of_the_crd() {
    let kubectl = start();
    let none = kubectl.output(&["get", "shops"], "");
    assert_eq!(text(&none.stderr), "No resources found in default namespace.\n");
    kubectl.says(&["apply", "-f", "-"], SHOP);
    let table = kubectl.says(&["get", "sh"], "");
    assert_eq!(
        rows(&table),
        [&["NAME", "CITY", "DESIRED", "READY"][..], &["corner", "Ulm", "2"]]
    );
    kubectl.says(&PATCH_OPEN, "");
    let wide = kubectl.says(&["get", "shop", "corner", "-o", "wide"], "");
    assert_eq!(
        rows(&wide),
        [
            ["NAME", "CITY", "DESIRED", "READY", "PHASE"],
            ["corner", "Ulm", "2", "True", "Open"]
        ]
    );
    let everywhere = kubectl.says(
        &["get", "shops", "--all-namespaces", "--show-labels", "--no-headers"],
        "",
    );
    assert_eq!(
        rows(&everywhere),
        [["default", "corner", "Ulm", "2", "True", "app=corner"]]
    );
    let all = kubectl.says(&["get", "all"], "");
    assert!(all.contains("service/kubernetes"), "{all}");
    assert!(all.contains("shop.stable.example.com/corner"), "{all}");
    assert_eq!(
        kubectl.says(&["get", "trade", "-o", "name"], ""),
        "shop.stable.example.com/corner\n"
    );

    let yaml = kubectl.says(&["get", "shop", "corner", "-o", "yaml"], "");
    assert!(
        yaml.starts_with("apiVersion: stable.example.com/v1\nkind: Shop\n"),
        "{yaml}"
    );
    assert_eq!(
        kubectl.field("shop/corner", r#"{.spec.shelves[?(@.name=="right")].goods[0]}"#),
        "tea"
    );
    let shops_in = |city: &str| {
        let selector = format!("--field-selector=spec.city={city}");
        kubectl.says(&["get", "shops", &selector, "-o", "name"], "")
    };
    assert_eq!(
        (shops_in("Ulm").as_str(), shops_in("Bonn").as_str()),
        ("shop.stable.example.com/corner\n", "")
    );
    let rejection = kubectl.rejects(&["get", "shops", "--field-selector=spec.replicas=2"], "");
    assert!(
        rejection.contains("field label not supported: spec.replicas"),
        "{rejection}"
    );
    let described = kubectl.says(&["describe", "shop", "corner"], "");
    assert!(described.contains("City:      Ulm"), "{described}");
}

#[needs(kubectl)]
#[test]
fn a_watch_prints_a_row_for_each_change() {
    let kubectl = start_with_shop();
    let mut watching = kubectl
        .command(&["get", "shops", "--watch", "--output-watch-events"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(watching.stdout.take().unwrap())
        .lines()
        .map(Result::unwrap);
    let mut next = || lines.next().unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(next(), "EVENT NAME CITY DESIRED READY");
    assert_eq!(next(), "ADDED corner Ulm 2");
    kubectl.says(&["scale", "shop/corner", "--replicas=3"], "");
    assert_eq!(next(), "MODIFIED corner Ulm 3");
    kubectl.says(
        &[
            "patch",
            "shop",
            "corner",
            "--subresource=status",
            "--type=merge",
            "-p",
            OPEN,
        ],
        "",
    );
    assert_eq!(next(), "MODIFIED corner Ulm 3 True");
    kubectl.says(&["delete", "shop", "corner"], "");
    assert_eq!(next(), "DELETED corner Ulm 3 True");
    watching.kill().unwrap();
    watching.wait().unwrap();
}

#[needs(kubectl)]
#[test]
fn explain_shows_what_the_schema_says() {
    let kubectl = start();
    let says = kubectl.says(&["explain", "shop"], "");
    assert!(
        says.contains("GROUP:      stable.example.com\nKIND:       Shop\nVERSION:    v1\n"),
        "{says}"
    );
    assert!(says.contains("A shop sells things."), "{says}");
    assert!(
        says.contains("spec\t<Object> -required-\n    What the shop is to be."),
        "{says}"
    );
    assert!(
        says.contains("metadata\t<ObjectMeta>\n    Standard object's metadata."),
        "{says}"
    );
    let says = kubectl.says(&["explain", "shops.spec.shelves.size.width"], "");
    assert!(says.contains("FIELD: width <integer>"), "{says}");
    assert!(says.contains("In centimetres."), "{says}");
    let says = kubectl.says(&["explain", "sh.spec", "--recursive"], "");
    for line in [
        "  city\t<string> -required-\n  enum: Ulm, Bonn, Jena\n",
        "  port\t<Object>\n",
        "  shelves\t<[]Object>\n    goods\t<[]string>\n    name\t<string> -required-\n    size\t<Object>\n      width\t<integer>\n",
    ] {
        assert!(says.contains(line), "{line:?} is not in:\n{says}");
    }
    let rejection = kubectl.rejects(&["explain", "shop.spec.colour"], "");
    assert_eq!(rejection, "error: field \"colour\" does not exist\n");
}

#[needs(kubectl)]
#[test]
fn client_side_and_server_side_apply_share_an_object() {
    let kubectl = start_with_shop();
    assert_eq!(
        kubectl.says(&["apply", "-f", "-"], SHOP),
        "shop.stable.example.com/corner unchanged\n"
    );
    let moved = SHOP.replace("Ulm", "Bonn");
    let diff = kubectl.output(&["diff", "-f", "-"], &moved);
    assert_eq!(diff.status.code(), Some(1));
    let diff = text(&diff.stdout);
    assert!(diff.contains("-  city: Ulm\n+  city: Bonn\n"), "{diff}");

    let dry = ["apply", "--dry-run=server", "-o", "jsonpath={.spec.city}", "-f", "-"];
    assert_eq!(kubectl.says(&dry, &moved), "Bonn");
    assert_eq!(kubectl.field("shop/corner", "{.spec.city}"), "Ulm");
    assert_eq!(
        kubectl.says(&["apply", "-f", "-"], &moved),
        "shop.stable.example.com/corner configured\n"
    );

    let server_side = ["apply", "--server-side", "--field-manager=other", "-f", "-"];
    let conflict = kubectl.rejects(&server_side, &SHOP.replace("Ulm", "Jena"));
    assert!(
        conflict.contains("conflict with \"kubectl-client-side-apply\" using stable.example.com/v1: .spec.city"),
        "{conflict}"
    );
    // A shelf more, by its name: that has no other owner.
    let more = "
apiVersion: stable.example.com/v1
kind: Shop
metadata: {name: corner}
spec:
  shelves:
  - {name: middle, goods: [salt]}
";
    assert_eq!(
        kubectl.says(&server_side, more),
        "shop.stable.example.com/corner serverside-applied\n"
    );
    assert_eq!(
        kubectl.field("shop/corner", "{.spec.shelves[*].name}"),
        "left right middle"
    );
    assert_eq!(kubectl.field("shop/corner", "{.spec.city}"), "Bonn");
    let forced = [
        "apply",
        "--server-side",
        "--field-manager=other",
        "--force-conflicts",
        "-f",
        "-",
    ];
    kubectl.says(&forced, &SHOP.replace("Ulm", "Jena"));
    assert_eq!(kubectl.field("shop/corner", "{.spec.city}"), "Jena");
    // Fields that only this manager owned and no longer applies are removed.
    assert_eq!(kubectl.field("shop/corner", "{.spec.shelves[*].name}"), "left right");
}

#[needs(kubectl)]
#[test]
fn each_type_of_patch_is_taken_but_the_strategic_one() {
    let kubectl = start_with_shop();
    let patch = |kind: &'static str, body: &'static str| ["patch", "shop", "corner", "--type", kind, "-p", body];
    let rejection = kubectl.rejects(&patch("strategic", r#"{"spec":{"replicas":3}}"#), "");
    assert!(
        rejection.contains(
            "application/strategic-merge-patch+json is not supported by stable.example.com/v1, Kind=Shop: the body of the \
             request was in an unknown format - accepted media types include: application/json-patch+json, \
             application/merge-patch+json, application/apply-patch+yaml"
        ),
        "{rejection}"
    );
    kubectl.says(&patch("merge", r#"{"spec":{"replicas":3}}"#), "");
    assert_eq!(
        kubectl.says(&patch("merge", r#"{"spec":{"replicas":3}}"#), ""),
        "shop.stable.example.com/corner patched (no change)\n"
    );
    kubectl.says(
        &patch("json", r#"[{"op":"replace","path":"/spec/replicas","value":4}]"#),
        "",
    );
    assert_eq!(kubectl.field("shop/corner", "{.spec.replicas}"), "4");
    let rejection = kubectl.rejects(&patch("merge", r#"{"spec":{"replicas":33}}"#), "");
    assert_eq!(
        rejection,
        "The Shop \"corner\" is invalid: spec.replicas: Invalid value: 33: spec.replicas in body should be less than or equal to 9\n"
    );
}

#[needs(kubectl)]
#[test]
fn status_and_scale_are_subresources() {
    let kubectl = start_with_shop();
    assert_eq!(
        kubectl.says(&["scale", "shop/corner", "--replicas=4"], ""),
        "shop.stable.example.com/corner scaled\n"
    );
    assert_eq!(kubectl.field("shop/corner", "{.spec.replicas}"), "4");
    let rejection = kubectl.rejects(&["scale", "shop/corner", "--replicas=40"], "");
    assert!(
        rejection.contains("spec.replicas in body should be less than or equal to 9"),
        "{rejection}"
    );
    let rejection = kubectl.rejects(&["scale", "shop/corner", "--replicas=1", "--current-replicas=7"], "");
    assert!(rejection.contains("Expected replicas to be 7, was 4"), "{rejection}");

    // A write of the spec does not change the status, and a write of the status does not change the spec.
    let merge = |more: &[&str], body: &str| {
        let words = ["patch", "shop", "corner", "--type=merge", "-p", body];
        kubectl.says(&[&words, more].concat(), "")
    };
    merge(&[], r#"{"status":{"phase":"Closed"}}"#);
    assert_eq!(kubectl.field("shop/corner", "{.status.phase}"), "");
    merge(
        &["--subresource=status"],
        &OPEN.replace("{\"status\"", "{\"spec\":{\"city\":\"Jena\"},\"status\""),
    );
    assert_eq!(kubectl.field("shop/corner", "{.status.phase}{.spec.city}"), "OpenUlm");
    let table = kubectl.says(&["get", "shop", "corner", "--subresource=scale", "--no-headers"], "");
    assert_eq!(rows(&table)[0][..3], ["corner", "4", "4"]);
    let table = kubectl.says(&["get", "shop", "corner", "--subresource=status", "--no-headers"], "");
    assert_eq!(rows(&table), [["corner", "Ulm", "4", "True"]]);
}

#[needs(kubectl)]
#[test]
fn wait_sees_conditions_values_and_ends() {
    let kubectl = start();
    let waits = [
        "--for=create",
        "--for=condition=Ready",
        "--for=jsonpath={.status.phase}=Open",
        "--for=jsonpath={.status.conditions[?(@.type==\"Ready\")].status}=True",
    ];
    let mut waiting: Vec<_> = waits
        .iter()
        .map(|wait| {
            // Only what is waited for in general may be missing at first.
            if *wait != "--for=create" && kubectl.output(&["get", "shop", "corner"], "").stdout.is_empty() {
                kubectl.says(&["apply", "-f", "-"], SHOP);
            }
            kubectl
                .command(&["wait", "shop/corner", wait, "--timeout=60s"])
                .stdout(Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    kubectl.says(&PATCH_OPEN, "");
    for (child, wait) in waiting.iter_mut().zip(waits) {
        assert!(child.wait().unwrap().success(), "{wait}");
    }
    let mut gone = kubectl
        .command(&["wait", "shop/corner", "--for=delete", "--timeout=60s"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    kubectl.says(&["delete", "shop", "corner"], "");
    assert!(gone.wait().unwrap().success());
}

#[needs(kubectl)]
#[test]
fn labels_annotations_edits_and_replacements_are_kept() {
    let kubectl = start_with_shop();
    kubectl.says(&["label", "shop", "corner", "tier=front"], "");
    kubectl.says(&["annotate", "shop", "corner", "example.com/note=first"], "");
    assert_eq!(
        kubectl.says(&["get", "shops", "-l", "tier in (front)", "-o", "name"], ""),
        "shop.stable.example.com/corner\n"
    );
    assert_eq!(
        kubectl.field("shop/corner", r"{.metadata.annotations.example\.com/note}"),
        "first"
    );
    assert_eq!(kubectl.field("shop/corner", "{.metadata.generation}"), "1");

    let edit = |change: &str| {
        let editor = script(
            &kubectl.server.data_dir(),
            "editor",
            &format!("sed -i '{change}' \"$1\""),
        );
        let mut command = kubectl.command(&["edit", "shop", "corner"]);
        command.env("KUBE_EDITOR", editor).output().unwrap()
    };
    assert!(edit("s/city: Ulm/city: Bonn/").status.success());
    assert_eq!(kubectl.field("shop/corner", "{.spec.city}"), "Bonn");
    let rejected = edit("s/city: Bonn/city: Paris/");
    assert!(!rejected.status.success());
    let complaint = text(&rejected.stderr);
    assert!(
        complaint.contains("shops.stable.example.com \"corner\" is invalid"),
        "{complaint}"
    );

    assert_eq!(
        kubectl.says(&["replace", "-f", "-"], SHOP),
        "shop.stable.example.com/corner replaced\n"
    );
    assert_eq!(
        kubectl.field("shop/corner", "{.spec.city}{.metadata.labels}"),
        r#"Ulm{"app":"corner"}"#
    );
    let stale = SHOP.replace("name: corner\n", "name: corner\n  resourceVersion: \"1\"\n");
    let conflict = kubectl.rejects(&["replace", "-f", "-"], &stale);
    assert!(conflict.contains("the object has been modified"), "{conflict}");
}

#[needs(kubectl)]
#[test]
fn schema_violation_is_rejected_with_messages() {
    let kubectl = start();
    let reject = |from: &str, to: &str| kubectl.rejects(&["create", "-f", "-"], &SHOP.replace(from, to));
    assert_eq!(
        reject("Ulm", "Paris"),
        "The Shop \"corner\" is invalid: spec.city: Unsupported value: \"Paris\": supported values: \"Ulm\", \"Bonn\", \"Jena\"\n"
    );
    assert_eq!(
        reject("city: Ulm", "replicas: 10"),
        "The Shop \"corner\" is invalid: \n* spec.replicas: Invalid value: 10: spec.replicas in body should be less than or equal to 9\n* spec.city: Required value\n"
    );
    assert_eq!(
        reject("name: right", "name: left"),
        "The Shop \"corner\" is invalid: spec.shelves[1]: Duplicate value: {\"name\":\"left\"}\n"
    );
    let unknown = reject("city:", "town: x\n  city:");
    assert!(
        unknown.contains("strict decoding error: unknown field \"spec.town\""),
        "{unknown}"
    );
    let ignored = ["create", "--validate=ignore", "-o", "jsonpath={.spec}", "-f", "-"];
    let made = kubectl.says(
        &ignored,
        &SHOP.replace("city:", "town: x\n  notes: {any: thing}\n  city:"),
    );
    assert!(made.contains("thing") && !made.contains("town"), "{made}");
    let again = kubectl.rejects(&["create", "-f", "-"], SHOP);
    assert!(
        again.contains("shops.stable.example.com \"corner\" already exists"),
        "{again}"
    );
    let flawed = CRD.replace("name: shops.stable", "name: stores.stable");
    let rejection = kubectl.rejects(&["create", "-f", "-"], &flawed);
    assert!(
        rejection.contains("must be spec.names.plural+\".\"+spec.group"),
        "{rejection}"
    );
}

#[needs(kubectl)]
#[test]
fn access_is_granted_by_resource_and_subresource() {
    let kubectl = start_with_shop();
    assert_eq!(kubectl.says(&["auth", "can-i", "create", "shops"], ""), "yes\n");
    let can = |what: &[&str]| {
        let output = kubectl.output(&[&["auth", "can-i"], what, &["--as=ann"]].concat(), "");
        text(&output.stdout).trim().to_owned()
    };
    assert_eq!(can(&["get", "shops"]), "no");
    let role = [
        "create",
        "role",
        "keeper",
        "--verb=get,patch",
        "--resource=shops,shops/status",
    ];
    kubectl.says(&role, "");
    kubectl.says(&["create", "rolebinding", "keeper", "--role=keeper", "--user=ann"], "");
    kubectl.says_in_time(&["auth", "can-i", "get", "sh", "--as=ann"], |says| says.trim() == "yes");
    assert_eq!(can(&["get", "shops/corner"]), "yes");
    assert_eq!(can(&["patch", "shops", "--subresource=status"]), "yes");
    assert_eq!(can(&["patch", "shops", "--subresource=scale"]), "no");
    assert_eq!(can(&["delete", "shops"]), "no");
    let rejection = kubectl.rejects(&["delete", "shop", "corner", "--as=ann"], "");
    assert!(
        rejection.contains(
            "shops.stable.example.com \"corner\" is forbidden: User \"ann\" cannot delete resource \"shops\" in API group \
             \"stable.example.com\" in the namespace \"default\""
        ),
        "{rejection}"
    );
    // A user with the role view does not see custom resources unless a role includes them.
    kubectl.says(
        &["create", "rolebinding", "viewer", "--clusterrole=view", "--user=bob"],
        "",
    );
    let rejection = kubectl.rejects(&["get", "shops", "--as=bob"], "");
    assert!(rejection.contains("cannot list resource \"shops\""), "{rejection}");
    let aggregated = "
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: view-shops
  labels: {rbac.authorization.k8s.io/aggregate-to-view: 'true'}
rules:
- {apiGroups: [stable.example.com], resources: [shops], verbs: [get, list, watch]}
";
    kubectl.says(&["apply", "-f", "-"], aggregated);
    let wait = "--for=jsonpath={.rules[?(@.apiGroups[0]==\"stable.example.com\")].resources[0]}=shops";
    kubectl.says(&["wait", "clusterrole/view", wait, "--timeout=60s"], "");
    kubectl.says_in_time(&["get", "shops", "--as=bob", "-o", "name"], |listed| {
        listed == "shop.stable.example.com/corner\n"
    });
}

#[needs(kubectl)]
#[test]
fn deletion_waits_for_finalizers_and_takes_dependents_along() {
    let kubectl = start_with_shop();
    let uid = kubectl.field("shop/corner", "{.metadata.uid}");
    let owned = |kind: &str, api_version: &str, spec: &str| {
        format!(
            r#"{{"apiVersion":"{api_version}","kind":"{kind}","metadata":{{"name":"owned","ownerReferences":[{{"apiVersion":"stable.example.com/v1","kind":"Shop","name":"corner","uid":"{uid}","blockOwnerDeletion":true}}]}}{spec}}}"#
        )
    };
    kubectl.says(&["create", "-f", "-"], &owned("ConfigMap", "v1", ""));
    let shop = owned("Shop", "stable.example.com/v1", r#","spec":{"city":"Jena"}"#);
    kubectl.says(&["create", "-f", "-"], &shop);
    let hold = r#"{"metadata":{"finalizers":["example.com/hold"]}}"#;
    kubectl.says(&["patch", "shop", "owned", "--type=merge", "-p", hold], "");

    let delete = ["delete", "shop", "corner", "--cascade=foreground", "--wait=false"];
    kubectl.says(&delete, "");
    kubectl.says(&["wait", "--for=delete", "configmap/owned", "--timeout=60s"], "");
    let path = "--for=jsonpath={.metadata.deletionTimestamp}";
    kubectl.says(&["wait", "shop/owned", path, "--timeout=60s"], "");
    assert_eq!(
        kubectl.field("shop/corner", "{.metadata.finalizers}"),
        r#"["foregroundDeletion"]"#
    );
    kubectl.says(
        &[
            "patch",
            "shop",
            "owned",
            "--type=merge",
            "-p",
            r#"{"metadata":{"finalizers":null}}"#,
        ],
        "",
    );
    kubectl.says(&["wait", "--for=delete", "shop/corner", "--timeout=60s"], "");

    // The deletion of a namespace deletes custom resources in it, too.
    kubectl.says(&["create", "namespace", "temporary"], "");
    kubectl.says(&["apply", "-n", "temporary", "-f", "-"], SHOP);
    kubectl.says(&["delete", "namespace", "temporary", "--timeout=60s"], "");
    assert_eq!(kubectl.says(&["get", "shops", "-A", "-o", "name"], ""), "");
}
