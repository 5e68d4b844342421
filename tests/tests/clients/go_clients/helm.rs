//! Helm 3: a chart with a CRD, an object of it, and hooks that need no Pod.

use conformance::tool::Tool;
use conformance::{Binary, root};
use test_support::needs;

use crate::go_clients::{program, words};

const CHART: [(&str, &str); 7] = [
    (
        "Chart.yaml",
        "{apiVersion: v2, name: shop, version: 0.1.0, appVersion: '1.0', kubeVersion: '>=1.36.0-0'}\n",
    ),
    ("values.yaml", "{replicas: 2, size: 1}\n"),
    (
        "crds/widgets.yaml",
        "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.shop.example.com}
spec:
  group: shop.example.com
  scope: Namespaced
  names: {plural: widgets, kind: Widget}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties: {spec: {type: object, properties: {size: {type: integer, maximum: 9}}}}
",
    ),
    (
        "templates/deployment.yaml",
        "
apiVersion: apps/v1
kind: Deployment
metadata: {name: {{ .Release.Name }}}
spec:
  replicas: {{ .Values.replicas }}
  selector: {matchLabels: {app: {{ .Release.Name }}}}
  template:
    metadata: {labels: {app: {{ .Release.Name }}}}
    spec: {containers: [{name: web, image: 'registry.example.com/web:{{ .Chart.AppVersion }}'}]}
",
    ),
    (
        "templates/widget.yaml",
        "
apiVersion: shop.example.com/v1
kind: Widget
metadata: {name: {{ .Release.Name }}}
spec: {size: {{ .Values.size }}}
",
    ),
    (
        "templates/settings.yaml",
        "
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}}
data:
  served: '{{ .Capabilities.APIVersions.Has \"apps/v1/Deployment\" }}'
  version: '{{ .Capabilities.KubeVersion.Major }}.{{ .Capabilities.KubeVersion.Minor }}'
  looked-up: '{{ len (lookup \"v1\" \"Namespace\" \"\" \"kube-system\") | eq 0 | not }}'
",
    ),
    (
        "templates/hook.yaml",
        "
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}-hook
  annotations:
    helm.sh/hook: pre-install,post-upgrade,pre-rollback,pre-delete
    helm.sh/hook-delete-policy: before-hook-creation
data: {revision: '{{ .Release.Revision }}'}
",
    ),
];

#[needs(clients, go)]
#[test]
fn a_release_is_installed_upgraded_rolled_back_and_uninstalled() {
    let helm = Tool::start(program("go", "helm.sh/helm/v3/cmd/helm"));
    let kubectl = program("go", "./kubectl");
    for (name, content) in CHART {
        helm.file(&format!("shop/{name}"), content);
    }
    let chart = helm.server.data_dir().join("files/shop").display().to_string();
    let field = |object: &str, path: &str| {
        let arguments = ["get", "-n", "market", object, "-o", &format!("jsonpath={path}")];
        helm.has_say(&kubectl, &arguments)
    };
    let says = |line: &str| helm.says(&words(&format!("{line} -n market")), "");

    let shown = says(&format!("template shop {chart} --include-crds --kube-version 1.36.0"));
    assert!(
        shown.contains("kind: Widget") && shown.contains("maximum: 9"),
        "{shown}"
    );
    let installed = says(&format!("install shop {chart} --create-namespace"));
    assert!(installed.contains("STATUS: deployed"), "{installed}");
    assert_eq!(field("deployment/shop", "{.spec.replicas}"), "2");
    assert_eq!(field("widget/shop", "{.spec.size}"), "1");
    assert_eq!(field("configmap/shop-hook", "{.data.revision}"), "1");
    assert_eq!(
        field("configmap/shop", "{.data}"),
        r#"{"looked-up":"true","served":"true","version":"1.36"}"#
    );
    assert_eq!(
        field("deployment/shop", "{.metadata.labels.app\\.kubernetes\\.io/managed-by}"),
        "Helm"
    );

    let upgraded = says(&format!("upgrade shop {chart} --set replicas=5"));
    assert!(upgraded.contains("REVISION: 2"), "{upgraded}");
    assert_eq!(field("deployment/shop", "{.spec.replicas}"), "5");
    assert_eq!(field("configmap/shop-hook", "{.data.revision}"), "2");
    // A value that the CRD rejects fails the release, and the objects stay.
    let rejected = helm.rejects(&words(&format!("upgrade shop {chart} --set size=10 -n market")), "");
    assert!(rejected.contains("spec.size: Invalid value: 10"), "{rejected}");
    assert_eq!(field("widget/shop", "{.spec.size}"), "1");
    let list = says("list -a");
    assert!(list.contains("shop-0.1.0") && list.contains("failed"), "{list}");

    says("rollback shop 1");
    assert_eq!(field("deployment/shop", "{.spec.replicas}"), "2");
    let history = says("history shop");
    assert!(history.contains("Rollback to 1"), "{history}");
    assert!(says("get manifest shop").contains("replicas: 2"));
    assert!(says("status shop").contains("REVISION: 4"));

    let gone = says("uninstall shop");
    assert!(gone.contains(r#"release "shop" uninstalled"#), "{gone}");
    let left = helm.has_say(&kubectl, &words("get deployments,widgets,configmaps -n market -o name"));
    // Hooks are not part of the release, and CRDs stay.
    assert_eq!(left, "configmap/shop-hook\n");
    assert_eq!(field("crd/widgets.shop.example.com", "{.spec.names.kind}"), "Widget");
    assert!(helm.rejects(&words("status shop -n market"), "").contains("not found"));
}

/// Settings of the chart of the server: a server with a volume, and two servers on etcd.
const SETTINGS: [&str; 2] = [
    "--set networkPolicy.from[0].namespaceSelector.matchLabels.team=shop",
    "--set store.type=etcd --set store.etcdServers[0]=https://etcd:2379 --set store.etcdSecretName=etcd --set replicaCount=2 \
     --set keysSecretName=keys --set tlsSecretName=tls --set extraArgs[0]=--audit-log-path=-",
];

#[needs(clients, go)]
#[test]
fn chart_of_the_server_is_linted_and_installed() {
    let helm = Tool::start(program("go", "helm.sh/helm/v3/cmd/helm"));
    let kubectl = program("go", "./kubectl");
    let chart = root().join("packaging/helm/holdfast").display().to_string();
    for (number, settings) in SETTINGS.iter().enumerate() {
        let name = format!("one{number}");
        helm.says(&words(&format!("lint {chart} --strict {settings}")), "");
        // The server validates each object and reports unknown fields.
        let installed = helm.says(&words(&format!("install {name} {chart} {settings}")), "");
        assert!(installed.contains("STATUS: deployed"), "{installed}");
        let field = |path: &str| {
            let object = format!("statefulset/{name}-holdfast");
            helm.has_say(&kubectl, &["get", &object, "-o", &format!("jsonpath={path}")])
        };
        let arguments = field("{.spec.template.spec.containers[0].args}");
        assert_eq!(
            arguments.contains("--etcd-servers=https://etcd:2379"),
            number == 1,
            "{arguments}"
        );
        let container = "{.spec.template.spec.containers[0].securityContext}";
        let context = field(container);
        assert!(context.contains(r#""readOnlyRootFilesystem":true"#), "{context}");
        accepts_flags(&field(
            "{range .spec.template.spec.containers[0].args[*]}{@}{\"\\n\"}{end}",
        ));
    }
    // Several servers need an etcd and the same keys.
    for settings in ["--set replicaCount=2", "--set store.type=etcd", "--set unknown=1"] {
        let rejected = helm.rejects(&words(&format!("template rejected {chart} {settings}")), "");
        assert!(
            rejected.contains("values don't meet the specifications"),
            "{settings}: {rejected}"
        );
    }
}

/// Checks that the server knows the flags: it reports the missing files, and nothing before that.
fn accepts_flags(lines: &str) {
    let binary = Binary::debug().unwrap();
    let flags = lines.lines().map(|line| line.replace("$(POD_IP)", "127.0.0.1"));
    let output = binary.command().arg("check").args(flags).output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(
        !message.contains("unexpected argument") && !message.contains("invalid value"),
        "{message}"
    );
}
