//! `holdfast lint`: manifests are checked without a server of their own.

use std::path::Path;
use std::process::{Command, Stdio};

use conformance::Binary;
use serde_json::Value;

/// Runs the command in `folder`. Returns its exit code, the output, and the error output.
fn lint(folder: &Path, arguments: &[&str]) -> (i32, String, String) {
    let binary = Binary::debug().unwrap();
    let mut command = Command::new(binary.path());
    command.arg("lint").args(arguments).current_dir(folder);
    // No cluster is needed.
    command.env("KUBECONFIG", "/nonexistent").stdin(Stdio::null());
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        output.status.code().unwrap(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    folder
}

/// Returns `FILE:LINE RULE FIELD` for each finding.
fn findings(output: &str) -> Vec<String> {
    let document: Value = serde_json::from_str(output).unwrap();
    let findings = document["findings"].as_array().unwrap().iter();
    let line = |finding: &Value| {
        let text = |name: &str| finding[name].as_str().unwrap_or("-").to_owned();
        format!(
            "{}:{} {} {}",
            text("file"),
            finding["line"],
            text("rule"),
            text("field")
        )
    };
    findings.map(line).collect()
}

const CONFIG_MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {a: b}\n";

#[test]
fn valid_manifests_have_no_findings() {
    let folder = folder(&[
        ("a.yaml", CONFIG_MAP),
        (
            "below/pod.yaml",
            "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: other}\nspec: {serviceAccountName: x, priorityClassName: high, \
             runtimeClassName: z, containers: [{name: c, image: i}]}\n",
        ),
        (
            "below/job.json",
            r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "p-"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}"#,
        ),
        (
            "kustomization.yaml",
            "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [a.yaml]\n",
        ),
    ]);
    let (code, output, errors) = lint(folder.path(), &["-R", "-f", "."]);
    assert_eq!((code, output.as_str()), (0, ""), "{errors}");
    assert_eq!(errors, "3 objects, 0 errors, 0 warnings\n");
}

#[test]
fn each_rule_finds_its_violation() {
    let two_fields = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: twice}\ndata:\n  a: b\n  a: c\n";
    let service = "apiVersion: v1\nkind: Service\nmetadata: {name: s}\nspec: {ports: [{port: 70000}]}\n";
    let restricted = "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: restricted\n  labels: {pod-security.kubernetes.io/enforce: restricted}\n";
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: restricted}\nspec: {containers: [{name: c, image: i}]}\n";
    let folder = folder(&[
        ("1.yaml", "a: [\n"),
        (
            "2.yaml",
            "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: x}\n",
        ),
        ("3.yaml", &format!("{CONFIG_MAP}---\n{CONFIG_MAP}")),
        (
            "4.yaml",
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\nnodata: {}\n",
        ),
        ("5.yaml", two_fields),
        ("6.yaml", service),
        ("7.yaml", &format!("{pod}---\n{restricted}")),
        ("8.yaml", "apiVersion: v1\nkind: Endpoints\nmetadata: {name: e}\n"),
        ("9.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a/b}\n"),
    ]);
    let (code, output, errors) = lint(folder.path(), &["-f", ".", "-o", "json"]);
    assert_eq!(code, 1, "{errors}");
    let found = findings(&output);
    let expected = [
        "./1.yaml:2 syntax -",
        "./2.yaml:1 unknown-kind -",
        "./3.yaml:6 duplicate-object -",
        "./4.yaml:1 schema -",
        "./5.yaml:1 schema -",
        "./6.yaml:1 validation spec.ports[0].port",
        "./6.yaml:1 validation spec.ports[0].targetPort",
        "./7.yaml:1 policy -",
        "./8.yaml:1 warning -",
        "./9.yaml:1 validation -",
    ];
    assert_eq!(found, expected, "{output}");
    let (code, _, _) = lint(folder.path(), &["-f", "2.yaml", "--skip-unknown-kinds"]);
    assert_eq!(code, 0);
    let (code, _, _) = lint(folder.path(), &["-f", "8.yaml"]);
    assert_eq!(code, 0);
    let (code, _, _) = lint(folder.path(), &["-f", "8.yaml", "--warnings-as-errors"]);
    assert_eq!(code, 1);
    let (code, _, errors) = lint(folder.path(), &["-f", "absent"]);
    assert_eq!(code, 2);
    assert!(errors.contains("absent"), "{errors}");
}

#[test]
fn conflicts_between_managers_name_them() {
    let with = |color: &str| {
        format!(
            "{CONFIG_MAP}  \n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c}}\ndata: {{color: {color}}}\n"
        )
    };
    let folder = folder(&[("app/a.yaml", &with("blue")), ("platform/a.yaml", &with("red"))]);
    let arguments = ["--manager=app=app", "--manager=platform=platform", "-o", "sarif"];
    let (code, output, errors) = lint(folder.path(), &arguments);
    assert_eq!(code, 1, "{errors}");
    let log: Value = serde_json::from_str(&output).unwrap();
    let results = log["runs"][0]["results"].as_array().unwrap();
    // Both managers may set one field to the same value.
    assert_eq!(results.len(), 1, "{output}");
    assert_eq!(results[0]["ruleId"], "ownership-conflict");
    let message = results[0]["message"]["text"].as_str().unwrap();
    assert!(
        message.contains(".data.color") && message.contains("\"app\""),
        "{message}"
    );
}

#[test]
fn crds_and_policies_are_in_effect_whatever_their_order() {
    let object = "apiVersion: example.com/v1\nkind: Queue\nmetadata: {name: q}\nspec: {min: 5, max: 3}\n";
    let crd = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: queues.example.com}\nspec:\n  group: \
               example.com\n  scope: Namespaced\n  names: {kind: Queue, plural: queues}\n  versions:\n  - name: v1\n    served: true\n    \
               storage: true\n    schema:\n      openAPIV3Schema:\n        type: object\n        properties:\n          spec:\n            \
               type: object\n            properties: {min: {type: integer}, max: {type: integer}}\n            \
               x-kubernetes-validations: [{rule: self.min <= self.max, message: min is larger}]\n";
    let policy = "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\nmetadata: {name: p}\nspec:\n  paramKind: \
                  {apiVersion: v1, kind: Secret}\n  matchConstraints:\n    resourceRules:\n    - {apiGroups: [''], apiVersions: [v1], \
                  operations: [CREATE], resources: [configmaps]}\n  validations:\n  - {expression: \"'a' in params.data\", message: \
                  denied}\n";
    let binding = "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicyBinding\nmetadata: {name: p}\nspec: \
                   {policyName: p, validationActions: [Deny], paramRef: {name: limits, namespace: default, parameterNotFoundAction: \
                   Deny}}\n";
    let parameters = "apiVersion: v1\nkind: Secret\nmetadata: {name: limits}\ndata: {b: Yg==}\n";
    let text = [object, CONFIG_MAP, binding, policy, parameters, crd].join("---\n");
    let folder = folder(&[("all.yaml", &text)]);
    let (code, output, errors) = lint(folder.path(), &["-f", "all.yaml", "-o", "json"]);
    assert_eq!(code, 1, "{errors}");
    assert_eq!(
        findings(&output),
        ["all.yaml:1 validation spec", "all.yaml:6 policy -"],
        "{output}"
    );
}
