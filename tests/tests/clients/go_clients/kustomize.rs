//! kustomize, whose output kubectl applies.

use conformance::tool::Tool;
use test_support::needs;

use crate::go_clients::{program, words};

#[needs(clients, go)]
#[test]
fn kustomize_output_is_applied_and_pruned() {
    let kustomize = program("go", "sigs.k8s.io/kustomize/kustomize/v5");
    let kubectl = Tool::start(program("go", "./kubectl"));
    kubectl.file(
        "base/deployment.yaml",
        "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {selector: {matchLabels: {app: web}}, \
         template: {metadata: {labels: {app: web}}, spec: {containers: [{name: web, image: web, \
         envFrom: [{configMapRef: {name: settings}}]}]}}}}",
    );
    kubectl.file(
        "base/kustomization.yaml",
        "resources: [deployment.yaml]\nconfigMapGenerator: [{name: settings, literals: [colour=red]}]\n",
    );
    let overlay = |colour: &str| {
        let file = kubectl.file(
            "overlay/kustomization.yaml",
            &format!(
                "resources: [../base]\nnamespace: shop\nnamePrefix: blue-\nlabels: [{{pairs: {{shop: blue}}}}]\n\
                 replicas: [{{name: web, count: 4}}]\nimages: [{{name: web, newName: registry.example.com/web, newTag: 1.2.3}}]\n\
                 configMapGenerator: [{{name: settings, behavior: merge, literals: [colour={colour}]}}]\n"
            ),
        );
        let folder = file.trim_end_matches("/kustomization.yaml");
        kubectl.has_say(&kustomize, &["build", folder])
    };
    kubectl.says(&words("create namespace shop"), "");
    let field = |path: &str| kubectl.says(&["get", "-n", "shop", "deployment/blue-web", "-o", path], "");
    let command = "apply --server-side --prune --applyset=shop -n shop -f -";
    let apply = |input: &str| kubectl.says(&words(command), input);
    let said = apply(&overlay("green"));
    assert!(said.contains("deployment.apps/blue-web serverside-applied"), "{said}");
    assert_eq!(field("jsonpath={.spec.replicas}"), "4");
    assert_eq!(
        field("jsonpath={.spec.template.spec.containers[0].image}"),
        "registry.example.com/web:1.2.3"
    );
    let settings = "jsonpath={.spec.template.spec.containers[0].envFrom[0].configMapRef.name}";
    let first = field(settings);
    assert_eq!(
        kubectl.says(
            &[
                "get",
                "-n",
                "shop",
                "configmap",
                &first,
                "-o",
                "jsonpath={.data.colour}"
            ],
            ""
        ),
        "green"
    );

    // Another content has another name; the map of before is pruned.
    let said = apply(&overlay("yellow"));
    assert!(said.contains(&format!("configmap/{first} pruned")), "{said}");
    assert_ne!(field(settings), first);
    let maps = kubectl.says(&words("get configmaps -n shop -l shop=blue -o name"), "");
    assert_eq!(maps.lines().count(), 1, "{maps}");
}
