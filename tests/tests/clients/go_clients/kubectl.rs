//! kubectl of the oldest and of the newest minor that supports a server of 1.36: one before, and one after. The tests in
//! `tests/tests/clients/kubectl` go deeper, with the kubectl that is on the path.

use base64::Engine as _;
use conformance::clients;
use conformance::tool::Tool;
use test_support::needs;

use crate::go_clients::{program, words};

const DEPLOYMENT: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: web, image: 'registry.example.com/web:1.0.0', ports: [{containerPort: 80}]}
";

/// A request for a certificate of the user bob, with content that is no PEM.
const REQUEST: &str = "
apiVersion: certificates.k8s.io/v1
kind: CertificateSigningRequest
metadata: {name: bob}
spec:
  request: bm8gUEVN
  signerName: kubernetes.io/kube-apiserver-client
  usages: [client auth]
";

#[needs(clients, go)]
#[test]
fn kubectl_1_35_does_its_daily_work() {
    daily_work("kubectl_oldest", "1.35");
}

#[needs(clients, go)]
#[test]
fn kubectl_1_37_does_its_daily_work() {
    daily_work("go", "1.37");
}

fn daily_work(module: &str, minor: &str) {
    let kubectl = Tool::start(program(module, "./kubectl"));
    applies(&kubectl);
    shows(&kubectl);
    changes(&kubectl);
    makes_and_asks(&kubectl);
    keeps_nodes_free(&kubectl);
    deletes(&kubectl);
    let required = std::fs::read_to_string(clients::sources(module).join("go.mod")).unwrap();
    let pinned = format!("k8s.io/kubectl v0.{}.", minor.trim_start_matches("1."));
    assert!(required.contains(&pinned), "{module} has another kubectl than {minor}");
}

/// Runs lines of kubectl and compares the output of each with the expected one.
fn each(kubectl: &Tool, lines: &[(&str, &str)]) {
    for (line, expected) in lines {
        let said = kubectl.says(&words(line), "");
        assert!(said.contains(expected), "{line}: {said}");
    }
}

fn applies(kubectl: &Tool) {
    let file = kubectl.file("web.yaml", DEPLOYMENT);
    let other = kubectl.file("other.yaml", &DEPLOYMENT.replace("1.0.0", "2.0.0"));
    each(
        kubectl,
        &[
            (&format!("apply -f {file}"), "deployment.apps/web created"),
            (&format!("apply -f {file}"), "deployment.apps/web unchanged"),
            (
                &format!("apply --server-side -f {file}"),
                "deployment.apps/web serverside-applied",
            ),
            (&format!("diff -f {file}"), ""),
            (&format!("diff --server-side -f {file}"), ""),
            (
                "apply view-last-applied deployment/web",
                "registry.example.com/web:1.0.0",
            ),
        ],
    );
    let different = kubectl.output(&words(&format!("diff -f {other}")), "");
    assert_eq!(different.status.code(), Some(1), "{different:?}");
    let conflict = kubectl.rejects(
        &words(&format!("apply --server-side --field-manager=other -f {other}")),
        "",
    );
    assert!(
        conflict.contains(r#".spec.template.spec.containers[name="web"].image"#),
        "{conflict}"
    );
    let misspelt = DEPLOYMENT.replace("replicas:", "replcas:");
    let rejected = kubectl.rejects(&words("apply -f -"), &misspelt);
    assert!(rejected.contains(r#"unknown field "spec.replcas""#), "{rejected}");
}

fn shows(kubectl: &Tool) {
    each(
        kubectl,
        &[
            ("get deployments", "web    0/3     0            0"),
            ("get deployments -o wide", "registry.example.com/web:1.0.0   app=web"),
            ("get deploy web -o yaml", "kind: Deployment"),
            ("get deploy web -o json", r#""kind": "Deployment""#),
            ("get deploy web -o jsonpath={.spec.replicas}", "3"),
            (
                "get deploy web -o custom-columns=NAME:.metadata.name,N:.spec.replicas",
                "web    3",
            ),
            ("get deploy -l app=none -o name", ""),
            (
                "get deploy --field-selector metadata.name=web -o name",
                "deployment.apps/web",
            ),
            ("get all,configmaps -A", "service/kubernetes"),
            ("get --raw /version", r#""minor": "36""#),
            (
                "describe deployment web",
                "3 desired | 0 updated | 0 total | 0 available | 0 unavailable",
            ),
            ("explain deployment.spec.replicas", "FIELD: replicas <integer>"),
            ("explain deployment --recursive", "terminationGracePeriodSeconds"),
            ("api-resources --verbs=list -o name", "deployments.apps"),
            ("api-versions", "apps/v1"),
            ("cluster-info", "is running at https://"),
            ("events", ""),
        ],
    );
}

fn changes(kubectl: &Tool) {
    each(
        kubectl,
        &[
            (r#"patch deployment web -p {"spec":{"minReadySeconds":5}}"#, "patched"),
            (
                r#"patch deployment web --type=json -p [{"op":"replace","path":"/spec/minReadySeconds","value":6}]"#,
                "patched",
            ),
            (
                r#"patch deployment web --type=merge -p {"spec":{"minReadySeconds":7}}"#,
                "patched",
            ),
            ("get deployment web -o jsonpath={.spec.minReadySeconds}", "7"),
            (
                "set image deployment/web web=registry.example.com/web:3.0.0",
                "image updated",
            ),
            ("set env deployment/web COLOUR=red", "env updated"),
            (
                "set resources deployment/web --limits=cpu=100m",
                "resource requirements updated",
            ),
            ("scale deployment web --replicas=5", "scaled"),
            (
                "wait deployment/web --for=jsonpath={.spec.replicas}=5 --timeout=60s",
                "condition met",
            ),
            ("label deployment web tier=front", "labeled"),
            ("label deployment web tier-", "unlabeled"),
            ("annotate deployment web note=short", "annotated"),
            ("rollout pause deployment/web", "paused"),
            ("rollout resume deployment/web", "resumed"),
            ("rollout restart deployment/web", "restarted"),
            ("rollout history deployment/web", "No rollout history found."),
            (
                "rollout status deployment/web --watch=false",
                "Waiting for deployment spec update to be observed",
            ),
            ("autoscale deployment web --min=1 --max=3", "autoscaled"),
            ("get hpa web", "Deployment/web"),
            ("expose deployment web --port=80", "service/web exposed"),
        ],
    );
}

fn makes_and_asks(kubectl: &Tool) {
    each(
        kubectl,
        &[
            ("create namespace team", "namespace/team created"),
            ("create configmap settings --from-literal=a=b", "created"),
            ("create secret generic password --from-literal=a=b", "created"),
            ("create quota few --hard=services.nodeports=3", "created"),
            ("create job once --image=registry.example.com/job", "created"),
            ("create ingress web --rule=a.example.com/*=web:80", "created"),
            ("create pdb web --selector=app=web --min-available=1", "created"),
            ("create priorityclass high --value=5", "created"),
            ("create serviceaccount bot", "created"),
            ("create token bot --duration=1h", "eyJ"),
            ("auth can-i create pods", "yes"),
            ("auth whoami", "system:masters"),
            ("create role reader --verb=get --resource=pods", "created"),
            ("create rolebinding reader --role=reader --user=alice", "created"),
        ],
    );
    kubectl.says_in_time(&words("auth can-i get pods --as=alice"), |says| says == "yes\n");
    each(kubectl, &[("auth can-i --list --as=alice", "pods")]);
    let denied = kubectl.output(&words("auth can-i delete pods --as=alice"), "");
    assert_eq!((denied.status.code(), &*denied.stdout), (Some(1), b"no\n".as_slice()));
    let missing = kubectl.rejects(&words("create token nobody"), "");
    assert!(missing.contains(r#"serviceaccounts "nobody" not found"#), "{missing}");
    let unreadable = kubectl.rejects(&words("create -f -"), REQUEST);
    assert!(unreadable.contains("spec.request"), "{unreadable}");
    let encoded = base64::prelude::BASE64_STANDARD.encode(certificate_request());
    let whole = REQUEST.replace("bm8gUEVN", &encoded);
    assert!(kubectl.says(&words("create -f -"), &whole).contains("bob created"));
    each(
        kubectl,
        &[("certificate approve bob", "bob approved"), ("get csr bob", "Approved")],
    );
    let twice = kubectl.rejects(&words("certificate deny bob"), "");
    assert!(twice.contains("already Approved"), "{twice}");
}

/// Returns a request for a certificate, as PEM.
fn certificate_request() -> String {
    let key = rcgen::KeyPair::generate().unwrap();
    let mut parameters = rcgen::CertificateParams::default();
    parameters.distinguished_name.push(rcgen::DnType::CommonName, "bob");
    parameters.serialize_request(&key).unwrap().pem().unwrap()
}

fn keeps_nodes_free(kubectl: &Tool) {
    kubectl.says(
        &words("create -f -"),
        "{apiVersion: v1, kind: Node, metadata: {name: one}}",
    );
    each(
        kubectl,
        &[
            ("taint node one a=b:NoSchedule", "tainted"),
            ("cordon one", "cordoned"),
            ("get nodes", "Unknown,SchedulingDisabled"),
            ("uncordon one", "uncordoned"),
            (
                r#"run alone --image=registry.example.com/a --overrides={"spec":{"nodeName":"one"}}"#,
                "pod/alone created",
            ),
        ],
    );
    // The node has no kubelet, and there is no metrics server.
    for (line, why) in [
        ("logs alone", "Error from server"),
        ("exec alone -- ls", "no preferred addresses found"),
        ("top nodes", "Metrics API not available"),
    ] {
        let rejected = kubectl.rejects(&words(line), "");
        assert!(rejected.contains(why), "{line}: {rejected}");
    }
    let rejected = kubectl.rejects(&words("drain one"), "");
    assert!(
        rejected.contains("cannot delete Pods that declare no controller"),
        "{rejected}"
    );
    each(
        kubectl,
        &[
            // It waits for no kubelet, which would end the pod.
            (
                "drain one --force --grace-period=0 --disable-eviction --timeout=60s",
                "drained",
            ),
            ("get pods --field-selector spec.nodeName=one -o name", ""),
        ],
    );
}

fn deletes(kubectl: &Tool) {
    each(
        kubectl,
        &[
            ("delete deployment web --cascade=orphan", r#""web" deleted"#),
            ("delete deployment web --ignore-not-found", ""),
            ("delete namespace team --timeout=60s", r#""team" deleted"#),
            (
                "delete configmap,secret,job --all --cascade=foreground --timeout=60s",
                "deleted",
            ),
        ],
    );
    let gone = kubectl.rejects(&words("get deployment web"), "");
    assert!(gone.contains(r#"deployments.apps "web" not found"#), "{gone}");
}
