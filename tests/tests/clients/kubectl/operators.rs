//! CRDs of operators, with hundreds of kilobytes, and their objects.

use conformance::operators::{DOCUMENT, Types, certificates, compositions, monitoring};
use serde_json::{Value, json};
use test_support::needs;

use crate::kubectl::Kubectl;

/// Minimum size in bytes of the largest CRD, which makes it comparable to those of operators.
const LARGE: usize = 300_000;

const COLLECTOR: &str = "
apiVersion: monitoring.example.com/v1
kind: Collector
metadata: {name: main}
spec:
  version: v3.1.0
  replicas: 2
  retention: 15d
  resources: {requests: {cpu: 500m, memory: 2Gi}}
  containers:
  - name: collector
    args: ['--log=debug']
    ports:
    - {containerPort: 9090}
    - {containerPort: 9090, protocol: UDP}
    readinessProbe: {httpGet: {path: /ready, port: web}, periodSeconds: 5}
  volumes:
  - {name: extra, configMap: {name: extra}}
  affinity:
    podAntiAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
      - labelSelector: {matchLabels: {app: collector}}
        topologyKey: kubernetes.io/hostname
  storage:
    volumeClaimTemplate:
      spec: {resources: {requests: {storage: 50Gi}}}
";

const CERTIFICATE: &str = "
apiVersion: certificates.example.com/v1
kind: Certificate
metadata: {name: web}
spec:
  dnsNames: [web.example.com]
  secretName: web-tls
  issuerRef: {name: internal}
";

/// Returns a server on which these are defined.
fn start(make: fn(&Types) -> Vec<Value>) -> (Kubectl, Vec<Value>) {
    let kubectl = Kubectl::start();
    let document: Value = serde_json::from_str(&kubectl.says(&["get", "--raw", DOCUMENT], "")).unwrap();
    let crds = make(&Types::from_document(&document));
    kubectl.says(&["apply", "--server-side", "-f", "-"], &list(&crds));
    kubectl.wait_for_crds();
    (kubectl, crds)
}

fn list(crds: &[Value]) -> String {
    json!({"apiVersion": "v1", "kind": "List", "items": crds}).to_string()
}

fn versions(kubectl: &Kubectl) -> String {
    let columns = "custom-columns=N:.metadata.name,V:.metadata.resourceVersion,G:.metadata.generation";
    kubectl.says(&["get", "crd", "-o", columns], "")
}

#[needs(kubectl)]
#[test]
fn large_crd_is_applied_and_explained() {
    let (kubectl, crds) = start(monitoring);
    let largest = crds.iter().map(|crd| crd.to_string().len()).max().unwrap();
    assert!(largest > LARGE, "{largest} bytes");

    // The apply of an operator at its next start changes nothing.
    let before = versions(&kubectl);
    kubectl.says(&["apply", "--server-side", "-f", "-"], &list(&crds));
    assert_eq!(versions(&kubectl), before);

    // Like with the reference, it is too large for the annotation of a client-side apply, and can be replaced.
    let rejection = kubectl.rejects(&["apply", "-f", "-"], &crds[0].to_string());
    assert!(
        rejection.contains("metadata.annotations: Too long: may not be more than 262144 bytes"),
        "{rejection}"
    );
    assert_eq!(
        kubectl.says(&["replace", "-f", "-"], &crds[0].to_string()),
        "customresourcedefinition.apiextensions.k8s.io/collectors.monitoring.example.com replaced\n"
    );

    let says = kubectl.says(
        &["explain", "collectors.spec.containers.livenessProbe.httpGet.port"],
        "",
    );
    assert!(says.contains("FIELD: port <Object>"), "{says}");
    let says = kubectl.says(&["explain", "coll.spec.volumes", "--recursive"], "");
    assert!(says.contains("    defaultMode\t<integer>\n"), "{says}");
    let published = kubectl.says(&["get", "--raw", "/openapi/v3/apis/monitoring.example.com/v1"], "");
    assert!(published.len() > LARGE, "{} bytes", published.len());
    let published: Value = serde_json::from_str(&published).unwrap();
    let schema = &published["components"]["schemas"]["com.example.monitoring.v1.Collector"];
    let containers = &schema["properties"]["spec"]["properties"]["containers"];
    assert_eq!(containers["x-kubernetes-list-map-keys"], json!(["name"]));
}

#[needs(kubectl)]
#[test]
fn pods_in_custom_resources_are_shared_and_checked_in_depth() {
    let (kubectl, _) = start(monitoring);
    kubectl.says(
        &["apply", "--server-side", "--field-manager=user", "-f", "-"],
        COLLECTOR,
    );
    assert_eq!(
        kubectl.field(
            "collector/main",
            "{.spec.shards} {.spec.scrapeInterval} {.spec.containers[0].ports[*].protocol}"
        ),
        "1 30s TCP UDP"
    );
    let image = r#"{"apiVersion":"monitoring.example.com/v1","kind":"Collector","metadata":{"name":"main"},"spec":{"containers":[{"name":"collector","image":"registry.example.com/collector:3"},{"name":"side","image":"registry.example.com/side:1"}]}}"#;
    let images = ["apply", "--server-side", "--field-manager=images", "-f", "-"];
    kubectl.says(&images, image);
    assert_eq!(
        kubectl.field(
            "collector/main",
            "{.spec.containers[*].image} {.spec.containers[0].args}"
        ),
        r#"registry.example.com/collector:3 registry.example.com/side:1 ["--log=debug"]"#
    );
    let conflict = kubectl.rejects(
        &["apply", "--server-side", "--field-manager=third", "-f", "-"],
        &COLLECTOR.replace("--log=debug", "--log=info"),
    );
    assert!(
        conflict.contains("conflict with \"user\": .spec.containers[name=\"collector\"].args"),
        "{conflict}"
    );

    let wrong = COLLECTOR
        .replace("periodSeconds: 5", "periodSeconds: often")
        .replace("15d", "long");
    let rejection = kubectl.rejects(&["create", "-f", "-"], &wrong.replace("{name: main}", "{name: wrong}"));
    assert!(
        rejection.contains("spec.containers[0].readinessProbe.periodSeconds: Invalid value: \"string\""),
        "{rejection}"
    );
    assert!(
        rejection.contains("spec.retention: Invalid value: \"long\""),
        "{rejection}"
    );
    let misspelt = COLLECTOR
        .replace("httpGet", "httpget")
        .replace("{name: main}", "{name: wrong}");
    let rejection = kubectl.rejects(&["create", "-f", "-"], &misspelt);
    assert!(
        rejection.contains("unknown field \"spec.containers[0].readinessProbe.httpget\""),
        "{rejection}"
    );

    kubectl.says(&["scale", "collector/main", "--replicas=3"], "");
    assert_eq!(kubectl.field("collector/main", "{.spec.shards}"), "3");
    let status = r#"{"status":{"availableReplicas":2,"conditions":[{"type":"Reconciled","status":"True","reason":"Done","message":"","lastTransitionTime":"2026-01-02T03:04:05Z"}]}}"#;
    let patch = [
        "patch",
        "collector",
        "main",
        "--subresource=status",
        "--type=merge",
        "-p",
        status,
    ];
    kubectl.says(&patch, "");
    kubectl.says(
        &["wait", "collector/main", "--for=condition=Reconciled", "--timeout=60s"],
        "",
    );
    let line = kubectl.says(&["get", "monitoring", "--no-headers"], "");
    let row: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(
        row,
        ["collector.monitoring.example.com/main", "v3.1.0", "2", "2", "True"]
    );

    kubectl.says(
        &["delete", "crd", "collectors.monitoring.example.com", "--timeout=60s"],
        "",
    );
    kubectl.rejects_in_time(
        &["get", "--raw", "/apis/monitoring.example.com/v1/collectors"],
        "the server could not find the requested resource",
    );
}

#[needs(kubectl)]
#[test]
fn certificates_and_their_issuers_are_kept_to_their_schema() {
    let (kubectl, _) = start(certificates);
    let names = kubectl.says(&["api-resources", "--categories=certificates", "-o", "name"], "");
    assert_eq!(names.lines().count(), 4, "{names}");
    kubectl.says(&["apply", "-f", "-"], CERTIFICATE);
    assert_eq!(
        kubectl.field(
            "cert/web",
            "{.spec.issuerRef.kind} {.spec.issuerRef.group} {.spec.usages[1]} {.spec.isCA}"
        ),
        "Issuer certificates.example.com key encipherment false"
    );
    let issuer = "
apiVersion: certificates.example.com/v1
kind: Issuer
metadata: {name: internal}
spec:
  acme:
    server: https://acme.example.com
    privateKeySecretRef: {name: account, key: tls.key}
    solvers:
    - http01: {ingress: {podTemplate: {spec: {tolerations: [{key: edge, operator: Exists}]}}}}
    - dns01: {webhook: {groupName: dns.example.com, solverName: own, config: {any: [thing, 1]}}}
";
    kubectl.says(&["apply", "--server-side", "-f", "-"], issuer);
    assert_eq!(
        kubectl.field("issuer/internal", "{.spec.acme.solvers[1].dns01.webhook.config}"),
        r#"{"any":["thing",1]}"#
    );
    let both = issuer.replace("  acme:", "  selfSigned: {}\n  acme:");
    let rejection = kubectl.rejects(&["apply", "--server-side", "-f", "-"], &both);
    assert!(
        rejection.contains("must validate one and only one schema (oneOf)"),
        "{rejection}"
    );
    // Validation rules: of the whole object, of one field with its own message, and of the old value.
    let rejection = kubectl.rejects(
        &["apply", "-f", "-"],
        &CERTIFICATE
            .replace("dnsNames: [web.example.com]", "isCA: true")
            .replace("name: web", "name: other"),
    );
    assert!(
        rejection.contains("spec: Invalid value: a certificate needs a name"),
        "{rejection}"
    );
    let numbers = CERTIFICATE.replace("dnsNames: [web.example.com]", "ipAddresses: [192.0.2.1, here]");
    let rejection = kubectl.rejects(&["apply", "-f", "-"], &numbers);
    assert!(
        rejection.contains("spec.ipAddresses: Invalid value: not an address: here"),
        "{rejection}"
    );
    let rejection = kubectl.rejects(&["apply", "-f", "-"], &CERTIFICATE.replace("web-tls", "web-tls-2"));
    assert!(rejection.contains("spec: Forbidden: secretName stays"), "{rejection}");
    let doubled = CERTIFICATE.replace("  dnsNames", "  usages: [server auth, server auth]\n  dnsNames");
    let rejection = kubectl.rejects(&["apply", "-f", "-"], &doubled);
    assert!(
        rejection.contains("spec.usages[1]: Duplicate value: \"server auth\""),
        "{rejection}"
    );
}

#[needs(kubectl)]
#[test]
fn compositions_take_what_they_do_not_know_where_they_may() {
    let (kubectl, _) = start(compositions);
    let composition = "
apiVersion: compositions.example.com/v1
kind: Composition
metadata: {name: databases}
spec:
  compositeTypeRef: {apiVersion: example.com/v1, kind: Database}
  pipeline:
  - step: first
    functionRef: {name: patch-and-transform}
    input: {apiVersion: pt.example.com/v1, kind: Resources, resources: [{name: one, base: {any: thing}}]}
";
    kubectl.says(&["apply", "--server-side", "-f", "-"], composition);
    // Another step, by another manager, in the other version.
    let more = "
apiVersion: compositions.example.com/v1beta1
kind: Composition
metadata: {name: databases}
spec:
  compositeTypeRef: {apiVersion: example.com/v1, kind: Database}
  pipeline:
  - {step: second, functionRef: {name: ready}}
";
    kubectl.says(&["apply", "--server-side", "--field-manager=second", "-f", "-"], more);
    assert_eq!(
        kubectl.field(
            "composition/databases",
            "{.spec.mode} {.spec.pipeline[*].step} {.spec.pipeline[0].input.resources[0].base.any}"
        ),
        "Pipeline first second thing"
    );
    let unnamed = composition.replace("apiVersion: pt.example.com/v1, ", "");
    let rejection = kubectl.rejects(&["apply", "--server-side", "--force-conflicts", "-f", "-"], &unnamed);
    assert!(
        rejection.contains("spec.pipeline[0].input.apiVersion: Required value"),
        "{rejection}"
    );

    let instance = "
apiVersion: compositions.example.com/v1beta1
kind: Instance
metadata: {name: disk, annotations: {example.com/external-name: disk-17}}
spec:
  forProvider: {region: north, zone: a, networkRef: {name: main, policy: {}}, csi: {driver: csi.example.com}}
";
    kubectl.says(&["apply", "-f", "-"], instance);
    assert_eq!(
        kubectl.field("instance/disk", "{.spec.deletionPolicy} {.spec.managementPolicies} {.spec.providerConfigRef.name} {.spec.forProvider.networkRef.policy.resolution}"),
        r#"Delete ["*"] default Required"#
    );
    let unplaced = instance.replace("zone: a, ", "");
    let rejection = kubectl.rejects(&["apply", "-f", "-"], &unplaced);
    assert!(
        rejection.contains("spec: Invalid value: spec.forProvider.zone is a required parameter"),
        "{rejection}"
    );
    let observed = unplaced.replace("  forProvider", "  managementPolicies: [Observe]\n  forProvider");
    kubectl.says(&["apply", "-f", "-"], &observed);
    let row = kubectl.says(&["get", "inst", "--no-headers"], "");
    assert_eq!(row.split_whitespace().nth(1), Some("disk-17"), "{row}");
}
