//! Built-in kinds: applied by several managers, listed, edited, patched, rolled out and deleted.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use test_support::needs;

use crate::kubectl::{Kubectl, script, text};

const DEPLOYMENT: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
spec:
  replicas: 3
  selector:
    matchLabels: {app: web}
  template:
    metadata:
      labels: {app: web}
    spec:
      containers:
      - name: web
        image: registry.example.com/web:1.0.0
"#;

#[needs(kubectl)]
#[test]
fn two_managers_apply_one_deployment() {
    let kubectl = Kubectl::start();
    let apply = |manager: &str, more: &'static [&'static str]| {
        let manager = format!("--field-manager={manager}");
        let mut arguments = vec!["apply", "--server-side", "-f", "-"];
        arguments.extend(more);
        (arguments.iter().map(|word| (*word).to_owned()).chain([manager])).collect::<Vec<_>>()
    };
    let says = |arguments: Vec<String>, input: &str| {
        kubectl.says(&arguments.iter().map(String::as_str).collect::<Vec<_>>(), input)
    };
    let rejects = |arguments: Vec<String>, input: &str| {
        kubectl.rejects(&arguments.iter().map(String::as_str).collect::<Vec<_>>(), input)
    };

    assert_eq!(
        says(apply("alpha", &[]), DEPLOYMENT),
        "deployment.apps/web serverside-applied\n"
    );

    // Another manager that applies another value is rejected, and the error names the owner of the field.
    let other = DEPLOYMENT.replace("replicas: 3", "replicas: 5");
    let conflict = rejects(apply("bravo", &[]), &other);
    assert!(
        conflict.contains("conflict with \"alpha\": .spec.replicas"),
        "{conflict}"
    );
    assert_eq!(kubectl.field("deployment/web", "{.spec.replicas}"), "3");

    // With force it becomes the owner of the field.
    says(apply("bravo", &["--force-conflicts"]), &other);
    assert_eq!(kubectl.field("deployment/web", "{.spec.replicas}"), "5");

    // The first manager applies the same value and shares the field from then on.
    says(apply("alpha", &[]), &other);
    let shared = rejects(apply("alpha", &[]), DEPLOYMENT);
    assert!(shared.contains("conflict with \"bravo\": .spec.replicas"), "{shared}");

    // A field that one of two owners omits stays; a field that the last owner omits returns to its default.
    let without = DEPLOYMENT.replace("  replicas: 3\n", "");
    says(apply("bravo", &[]), &without);
    assert_eq!(kubectl.field("deployment/web", "{.spec.replicas}"), "5");
    says(apply("alpha", &[]), &without);
    assert_eq!(kubectl.field("deployment/web", "{.spec.replicas}"), "1");
}

#[needs(kubectl)]
#[test]
fn client_side_apply_diff_and_edit() {
    let kubectl = Kubectl::start();
    assert_eq!(
        kubectl.says(&["apply", "-f", "-"], DEPLOYMENT),
        "deployment.apps/web created\n"
    );
    assert_eq!(
        kubectl.says(&["apply", "-f", "-"], DEPLOYMENT),
        "deployment.apps/web unchanged\n"
    );

    let other = DEPLOYMENT.replace("1.0.0", "2.0.0");
    let output = kubectl.output(&["diff", "-f", "-"], &other);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let diff = text(&output.stdout);
    assert!(
        diff.contains("-        image: registry.example.com/web:1.0.0") || diff.contains("1.0.0"),
        "{diff}"
    );
    assert_eq!(
        kubectl.field("deployment/web", "{.spec.template.spec.containers[0].image}"),
        "registry.example.com/web:1.0.0"
    );

    assert_eq!(
        kubectl.says(&["apply", "-f", "-"], &other),
        "deployment.apps/web configured\n"
    );
    assert_eq!(
        kubectl.field("deployment/web", "{.spec.template.spec.containers[0].image}"),
        "registry.example.com/web:2.0.0"
    );

    let editor = script(
        &kubectl.server.data_dir(),
        "editor",
        r#"sed -i 's/web:2\.0\.0/web:3.0.0/' "$1""#,
    );
    let edit = kubectl
        .command(&["edit", "deployment/web"])
        .env("KUBE_EDITOR", editor)
        .output()
        .unwrap();
    assert!(edit.status.success(), "{}", text(&edit.stderr));
    assert_eq!(
        kubectl.field("deployment/web", "{.spec.template.spec.containers[0].image}"),
        "registry.example.com/web:3.0.0"
    );
}

#[needs(kubectl)]
#[test]
fn get_prints_tables_names_and_objects() {
    let kubectl = Kubectl::start();
    kubectl.says(&["apply", "--server-side", "-f", "-"], DEPLOYMENT);

    let table = kubectl.says(&["get", "deployments"], "");
    let mut lines = table.lines();
    let head: Vec<&str> = lines.next().unwrap().split_whitespace().collect();
    assert_eq!(head, ["NAME", "READY", "UP-TO-DATE", "AVAILABLE", "AGE"]);
    let row: Vec<&str> = lines.next().unwrap().split_whitespace().collect();
    assert_eq!(row[..4], ["web", "0/3", "0", "0"]);

    assert_eq!(
        kubectl.says(&["get", "deploy", "-o", "name"], ""),
        "deployment.apps/web\n"
    );
    let yaml = kubectl.says(&["get", "deployment", "web", "-o", "yaml"], "");
    assert!(yaml.starts_with("apiVersion: apps/v1\nkind: Deployment\n"), "{yaml}");
    let namespaces = kubectl.says(&["get", "namespaces", "-o", "name"], "");
    for name in ["default", "kube-node-lease", "kube-public", "kube-system"] {
        assert!(namespaces.contains(&format!("namespace/{name}\n")), "{namespaces}");
    }
}

#[needs(kubectl)]
#[test]
fn scale_label_wait_and_delete() {
    let kubectl = Kubectl::start();
    kubectl.says(&["apply", "--server-side", "-f", "-"], DEPLOYMENT);

    assert_eq!(
        kubectl.says(&["scale", "deployment/web", "--replicas=7"], ""),
        "deployment.apps/web scaled\n"
    );
    assert_eq!(kubectl.field("deployment/web", "{.spec.replicas}"), "7");

    kubectl.says(&["label", "deployment/web", "tier=front"], "");
    assert_eq!(
        kubectl.says(&["get", "deployments", "-l", "tier=front", "-o", "name"], ""),
        "deployment.apps/web\n"
    );
    assert_eq!(
        kubectl.says(&["get", "deployments", "-l", "tier=back", "-o", "name"], ""),
        ""
    );

    kubectl.says(
        &[
            "wait",
            "deployment/web",
            "--for=jsonpath={.spec.replicas}=7",
            "--timeout=60s",
        ],
        "",
    );
    let says = kubectl.says(&["delete", "deployment", "web", "--timeout=60s"], "");
    assert!(says.starts_with("deployment.apps \"web\" deleted"), "{says}");
    let gone = kubectl.rejects(&["get", "deployment", "web"], "");
    assert_eq!(
        gone,
        "Error from server (NotFound): deployments.apps \"web\" not found\n"
    );
}

#[needs(kubectl)]
#[test]
fn explain_shows_fields_and_their_types() {
    let kubectl = Kubectl::start();
    let says = kubectl.says(&["explain", "deployment.spec.replicas"], "");
    assert!(says.contains("FIELD: replicas <integer>"), "{says}");
    let says = kubectl.says(&["explain", "pods.spec.containers"], "");
    assert!(says.contains("image\t<string>"), "{says}");
    assert!(says.contains("DESCRIPTION:"), "{says}");
}

#[needs(kubectl)]
#[test]
fn a_misspelt_field_is_rejected() {
    let kubectl = Kubectl::start();
    let misspelt = DEPLOYMENT.replace("replicas:", "replica:");
    let rejection = kubectl.rejects(&["create", "-f", "-"], &misspelt);
    assert!(rejection.contains("unknown field \"spec.replica\""), "{rejection}");
}

#[needs(kubectl)]
#[test]
fn auth_shows_who_one_is_and_what_one_may_do() {
    let kubectl = Kubectl::start();
    let says = kubectl.says(&["auth", "whoami", "-o", "jsonpath={.status.userInfo.groups}"], "");
    assert_eq!(says, r#"["system:masters","system:authenticated"]"#);
    assert_eq!(kubectl.says(&["auth", "can-i", "delete", "nodes"], ""), "yes\n");
    let as_ann = ["--as=ann", "--namespace=default"];
    let can = |what: &[&str]| {
        let output = kubectl.output(&[&["auth", "can-i"], what, &as_ann].concat(), "");
        text(&output.stdout).trim().to_owned()
    };
    assert_eq!(can(&["get", "pods"]), "no");
    assert_eq!(can(&["get", "/healthz"]), "yes");
    kubectl.says(
        &[
            "create",
            "role",
            "reader",
            "--verb=get",
            "--resource=pods",
            "--resource-name=a",
        ],
        "",
    );
    kubectl.says(&["create", "rolebinding", "reader", "--role=reader", "--user=ann"], "");
    kubectl.says_in_time(&[&["auth", "can-i", "get", "pods/a"][..], &as_ann].concat(), |says| {
        says.trim() == "yes"
    });
    assert_eq!(can(&["get", "pods/b"]), "no");
    assert!(can(&["--list"]).contains("pods"));
    let rejection = kubectl.rejects(&["get", "pods", "--as=ann"], "");
    assert!(
        rejection.starts_with("Error from server (Forbidden): pods is forbidden: User \"ann\" cannot list"),
        "{rejection}"
    );
}

#[needs(kubectl)]
#[test]
fn each_output_of_get_shows_the_object() {
    let kubectl = Kubectl::start();
    kubectl.says(&["apply", "--server-side", "-f", "-"], DEPLOYMENT);
    let get = |output: &str| kubectl.says(&["get", "deployment", "web", "-o", output], "");

    let wide = get("wide");
    let head: Vec<&str> = wide.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(
        head,
        [
            "NAME",
            "READY",
            "UP-TO-DATE",
            "AVAILABLE",
            "AGE",
            "CONTAINERS",
            "IMAGES",
            "SELECTOR"
        ]
    );
    assert!(wide.contains("registry.example.com/web:1.0.0"), "{wide}");
    let json: serde_json::Value = serde_json::from_str(&get("json")).unwrap();
    assert_eq!(json["spec"]["replicas"], 3);
    assert!(json["metadata"].get("managedFields").is_none());
    let owned = kubectl.says(&["get", "deployment", "web", "-o", "json", "--show-managed-fields"], "");
    assert!(owned.contains("\"manager\": \"kubectl\""), "{owned}");
    assert_eq!(get("jsonpath={.spec.template.spec.containers[*].name}"), "web");
    assert_eq!(get("go-template={{.metadata.name}}"), "web");
    assert_eq!(
        get("custom-columns=N:.metadata.name,R:.spec.replicas"),
        "N     R\nweb   3\n"
    );
    let sorted = kubectl.says(
        &[
            "get",
            "namespaces",
            "--sort-by=.metadata.name",
            "-o",
            "jsonpath={.items[0].metadata.name}",
        ],
        "",
    );
    assert_eq!(sorted, "default");
    let chunked = kubectl.says(&["get", "clusterroles", "--chunk-size=7", "-o", "name"], "");
    assert!(
        chunked.contains("clusterrole.rbac.authorization.k8s.io/view\n"),
        "{chunked}"
    );
    let raw = kubectl.says(&["get", "--raw", "/readyz"], "");
    assert_eq!(raw, "ok");
}

#[needs(kubectl)]
#[test]
fn watching_shows_what_changes() {
    let kubectl = Kubectl::start();
    kubectl.says(&["create", "configmap", "one", "--from-literal=a=1"], "");
    let mut watching = kubectl
        .command(&[
            "get",
            "configmaps",
            "--watch",
            "--output-watch-events",
            "-o",
            "custom-columns=E:.type,N:.object.metadata.name,A:.object.data.a",
            "--field-selector=metadata.name=one",
        ])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(watching.stdout.take().unwrap())
        .lines()
        .map(Result::unwrap);
    let mut next = || lines.next().unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(next(), "E N A");
    assert_eq!(next(), "ADDED one 1");
    kubectl.says(&["patch", "configmap", "one", "-p", r#"{"data":{"a":"2"}}"#], "");
    assert_eq!(next(), "MODIFIED one 2");
    kubectl.says(&["delete", "configmap", "one"], "");
    assert_eq!(next(), "DELETED one 2");
    watching.kill().unwrap();
    watching.wait().unwrap();
}

#[needs(kubectl)]
#[test]
fn each_type_of_patch_changes_what_it_names() {
    let kubectl = Kubectl::start();
    kubectl.says(&["apply", "--server-side", "-f", "-"], DEPLOYMENT);
    let patch = |kind: &str, body: &str| kubectl.says(&["patch", "deployment", "web", "--type", kind, "-p", body], "");

    // A strategic merge patch keeps the containers that it does not name, a merge patch does not.
    patch(
        "strategic",
        r#"{"spec":{"template":{"spec":{"containers":[{"name":"side","image":"registry.example.com/side:1"}]}}}}"#,
    );
    let names = "{.spec.template.spec.containers[*].name}";
    assert_eq!(kubectl.field("deployment/web", names), "side web");
    patch(
        "merge",
        r#"{"spec":{"template":{"spec":{"containers":[{"name":"only","image":"registry.example.com/only:1"}]}}}}"#,
    );
    assert_eq!(kubectl.field("deployment/web", names), "only");
    patch("json", r#"[{"op":"replace","path":"/spec/replicas","value":9}]"#);
    assert_eq!(kubectl.field("deployment/web", "{.spec.replicas}"), "9");
    let unchanged = patch("merge", r#"{"spec":{"replicas":9}}"#);
    assert_eq!(unchanged, "deployment.apps/web patched (no change)\n");

    kubectl.says(
        &[
            "patch",
            "deployment",
            "web",
            "--subresource=status",
            "--type=merge",
            "-p",
            r#"{"status":{"replicas":4}}"#,
        ],
        "",
    );
    assert_eq!(kubectl.field("deployment/web", "{.status.replicas}"), "4");
    kubectl.says(&["annotate", "deployment", "web", "note=first"], "");
    let rejection = kubectl.rejects(&["annotate", "deployment", "web", "note=second"], "");
    assert!(
        rejection.contains("--overwrite is false but found the following declared annotation(s)"),
        "{rejection}"
    );
    kubectl.says(
        &["set", "image", "deployment/web", "only=registry.example.com/only:2"],
        "",
    );
    assert_eq!(
        kubectl.field("deployment/web", "{.spec.template.spec.containers[0].image}"),
        "registry.example.com/only:2"
    );
}

#[needs(kubectl)]
#[test]
fn a_rollout_is_restarted_paused_and_waited_for() {
    let kubectl = Kubectl::start();
    kubectl.says(&["apply", "--server-side", "-f", "-"], DEPLOYMENT);
    let before = kubectl.field("deployment/web", "{.metadata.generation}");
    kubectl.says(&["rollout", "restart", "deployment/web"], "");
    let restarted = kubectl.field(
        "deployment/web",
        r"{.spec.template.metadata.annotations.kubectl\.kubernetes\.io/restartedAt}",
    );
    assert!(restarted.starts_with("20"), "{restarted}");
    assert_ne!(kubectl.field("deployment/web", "{.metadata.generation}"), before);
    kubectl.says(&["rollout", "pause", "deployment/web"], "");
    assert_eq!(kubectl.field("deployment/web", "{.spec.paused}"), "true");
    kubectl.says(&["rollout", "resume", "deployment/web"], "");

    // The status that a controller would set, so that the wait ends.
    let mut waiting = kubectl
        .command(&["rollout", "status", "deployment/web", "--timeout=60s"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let generation = kubectl.field("deployment/web", "{.metadata.generation}");
    let done = format!(
        r#"{{"status":{{"observedGeneration":{generation},"replicas":3,"updatedReplicas":3,"readyReplicas":3,"availableReplicas":3}}}}"#
    );
    kubectl.says(
        &[
            "patch",
            "deployment",
            "web",
            "--subresource=status",
            "--type=merge",
            "-p",
            &done,
        ],
        "",
    );
    assert!(waiting.wait().unwrap().success());
    kubectl.says(
        &[
            "wait",
            "namespace/default",
            "--for=jsonpath={.status.phase}=Active",
            "--timeout=60s",
        ],
        "",
    );
}

#[needs(kubectl)]
#[test]
fn deletion_cascades_as_requested() {
    let kubectl = Kubectl::start();
    let owned = |owner: &str| {
        let uid = kubectl.field(&format!("configmap/{owner}"), "{.metadata.uid}");
        let dependent = format!(
            r#"{{"apiVersion":"v1","kind":"Secret","metadata":{{"name":"of-{owner}","ownerReferences":[{{"apiVersion":"v1","kind":"ConfigMap","name":"{owner}","uid":"{uid}","blockOwnerDeletion":true}}]}}}}"#
        );
        kubectl.says(&["create", "-f", "-"], &dependent);
    };
    for (owner, cascade) in [("back", "background"), ("fore", "foreground"), ("leave", "orphan")] {
        kubectl.says(&["create", "configmap", owner], "");
        owned(owner);
        kubectl.says(
            &[
                "delete",
                "configmap",
                owner,
                &format!("--cascade={cascade}"),
                "--timeout=60s",
            ],
            "",
        );
    }
    kubectl.says(
        &[
            "wait",
            "--for=delete",
            "secret/of-back",
            "secret/of-fore",
            "--timeout=60s",
        ],
        "",
    );
    assert_eq!(kubectl.field("secret/of-leave", "{.metadata.ownerReferences}"), "");

    // The deletion of a namespace deletes everything in it, and kubectl waits until it is gone.
    kubectl.says(&["create", "namespace", "temporary"], "");
    kubectl.says(&["create", "configmap", "inside", "-n", "temporary"], "");
    kubectl.says(&["delete", "namespace", "temporary", "--timeout=60s"], "");
    let gone = kubectl.rejects(&["get", "configmap", "inside", "-n", "temporary"], "");
    assert!(gone.contains("NotFound"), "{gone}");
}

#[needs(kubectl)]
#[test]
fn the_server_says_what_it_serves() {
    let kubectl = Kubectl::start();
    let resources = kubectl.says(&["api-resources", "--verbs=list", "--namespaced", "-o", "name"], "");
    for name in ["pods", "deployments.apps", "leases.coordination.k8s.io"] {
        assert!(resources.lines().any(|line| line == name), "{resources}");
    }
    let versions = kubectl.says(&["api-versions"], "");
    assert!(versions.lines().any(|line| line == "apps/v1"), "{versions}");
}

#[needs(kubectl)]
#[test]
fn create_validates_on_the_server_without_making_anything() {
    let kubectl = Kubectl::start();
    let says = kubectl.says(
        &[
            "create",
            "--dry-run=server",
            "-o",
            "jsonpath={.spec.strategy.type}",
            "-f",
            "-",
        ],
        DEPLOYMENT,
    );
    assert_eq!(says, "RollingUpdate");
    kubectl.rejects(&["get", "deployment", "web"], "");
    let negative = DEPLOYMENT.replace("replicas: 3", "replicas: -1");
    let rejection = kubectl.rejects(&["create", "--dry-run=server", "-f", "-"], &negative);
    assert!(rejection.contains("spec.replicas: Invalid value: -1"), "{rejection}");
    kubectl.says(
        &[
            "create",
            "deployment",
            "quick",
            "--image=registry.example.com/web:1",
            "--replicas=2",
        ],
        "",
    );
    kubectl.says(&["expose", "deployment", "quick", "--port=80"], "");
    assert_eq!(kubectl.field("service/quick", "{.spec.ports[0].targetPort}"), "80");
    let described = kubectl.says(&["describe", "deployment", "quick"], "");
    assert!(described.contains("Replicas:               2 desired"), "{described}");
}
