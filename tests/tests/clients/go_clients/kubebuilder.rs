//! A project scaffolded by kubebuilder, with two versions of a kind, a controller, and webhooks that default, validate
//! and convert. Its tests pass with only `KUBEBUILDER_ASSETS` set.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use conformance::tool::{printed, script};
use conformance::{Binary, clients, root};
use test_support::{etcd, kube_apiserver, needs};

use crate::go_clients::{ENVTEST_TIMEOUTS, program, words};

/// Commands that scaffold the project. `--make=false` leaves generated code to controller-gen below.
const SCAFFOLD: [&str; 4] = [
    "init --domain example.com --repo holdfast.example/clients --fetch-deps=false --skip-go-version-check",
    "create api --group shop --version v1 --kind Widget --resource --controller --make=false",
    "create api --group shop --version v2 --kind Widget --resource --controller=false --make=false",
    "create webhook --group shop --version v1 --kind Widget --defaulting --programmatic-validation --conversion --spoke v2 \
     --make=false",
];

/// Code that the project's owner inserts where kubebuilder leaves room: the file, the position, and the replacement.
const WRITTEN: [(&str, &str, &str); 10] = [
    (
        "api/v1/widget_types.go",
        "// +kubebuilder:subresource:status\n",
        "// +kubebuilder:subresource:status\n// +kubebuilder:storageversion\n",
    ),
    (
        "api/v2/widget_types.go",
        "Foo *string `json:\"foo,omitempty\"`",
        "Bar *string `json:\"bar,omitempty\"`",
    ),
    (
        "api/v2/widget_conversion.go",
        "// dst.Spec.Size = src.Spec.Replicas",
        "dst.Spec.Foo = src.Spec.Bar",
    ),
    (
        "api/v2/widget_conversion.go",
        "// dst.Spec.Replicas = src.Spec.Size",
        "dst.Spec.Bar = src.Spec.Foo",
    ),
    (
        "internal/webhook/v1/widget_webhook.go",
        "\"context\"\n",
        "\"context\"\n\t\"errors\"\n",
    ),
    (
        "internal/webhook/v1/widget_webhook.go",
        "// TODO(user): fill in your defaulting logic.",
        "if obj.Spec.Foo == nil {\n\t\tobj.Spec.Foo = new(string)\n\t\t*obj.Spec.Foo = \"default\"\n\t}",
    ),
    (
        "internal/webhook/v1/widget_webhook.go",
        "// TODO(user): fill in your validation logic upon object creation.",
        "if *obj.Spec.Foo == \"bad\" {\n\t\treturn nil, errors.New(\"foo is bad\")\n\t}",
    ),
    (
        "internal/webhook/v1/widget_webhook.go",
        "// TODO(user): fill in your validation logic upon object update.",
        "if *newObj.Spec.Foo == \"bad\" {\n\t\treturn nil, errors.New(\"foo is bad\")\n\t}\n\t\
         if *newObj.Spec.Foo != *oldObj.Spec.Foo {\n\t\treturn admission.Warnings{\"foo changed\"}, nil\n\t}",
    ),
    (
        "internal/webhook/v1/webhook_suite_test.go",
        "// +kubebuilder:scaffold:imports",
        "shopv2 \"holdfast.example/clients/api/v2\"\n\t// +kubebuilder:scaffold:imports",
    ),
    (
        "internal/webhook/v1/webhook_suite_test.go",
        "// +kubebuilder:scaffold:scheme",
        "Expect(shopv2.AddToScheme(scheme.Scheme)).To(Succeed())\n\t// +kubebuilder:scaffold:scheme",
    ),
];

/// Arguments with which the project's `Makefile` calls controller-gen, for the packages that are tested.
const GENERATE: [&str; 2] = [
    "object:headerFile=hack/boilerplate.go.txt paths=./api/...",
    "rbac:roleName=manager-role crd webhook paths=./api/... paths=./internal/... output:crd:artifacts:config=config/crd/bases",
];

/// The project, created once for the tests below.
static PROJECT: LazyLock<PathBuf> = LazyLock::new(project);

#[needs(clients, go)]
#[test]
fn a_project_of_kubebuilder_passes_its_tests_by_one_variable() {
    let folder = tempfile::tempdir().unwrap();
    passes(&Binary::debug().unwrap().assets(folder.path()).unwrap());
}

#[needs(clients, go, etcd, kube_apiserver)]
#[test]
fn the_same_project_passes_its_tests_with_the_reference() {
    let folder = tempfile::tempdir().unwrap();
    symlink(etcd::program().unwrap(), folder.path().join("etcd")).unwrap();
    symlink(kube_apiserver::program().unwrap(), folder.path().join("kube-apiserver")).unwrap();
    passes(folder.path());
}

/// Runs the project's tests with the programs of a directory.
fn passes(assets: &Path) {
    let mut variables = vec![
        ("KUBEBUILDER_ASSETS", assets.to_str().unwrap()),
        ("GINKGO_NO_COLOR", "TRUE"),
        // The suite waits one second for its manager.
        ("GOMEGA_DEFAULT_EVENTUALLY_TIMEOUT", "60s"),
    ];
    variables.extend(ENVTEST_TIMEOUTS);
    let said = in_project(
        Path::new("go"),
        &PROJECT,
        &["test", "-v", "-vet=off", "-count=1", "./internal/..."],
        &variables,
    );
    let suites: Vec<&str> = said.lines().filter(|line| line.starts_with("Ran ")).collect();
    let [controller, webhook] = suites[..] else {
        panic!("two suites: {said}")
    };
    assert!(controller.starts_with("Ran 1 of 1 Specs"), "{said}");
    assert!(webhook.starts_with("Ran 5 of 5 Specs"), "{said}");
}

/// Creates the project below the build directory: Go's cache depends on the folder of the package.
fn project() -> PathBuf {
    let kubebuilder = program("go", "sigs.k8s.io/kubebuilder/v4");
    let generator = program("go", "sigs.k8s.io/controller-tools/cmd/controller-gen");
    // kubebuilder relies on goimports, which searches the module cache, to find packages of this module.
    let sources = clients::sources("go");
    in_project(
        Path::new("go"),
        &sources,
        &["mod", "download", "sigs.k8s.io/controller-runtime"],
        &[],
    );
    let folder = root().join("target/clients/kubebuilder");
    let _ = std::fs::remove_dir_all(&folder);
    let (project, programs) = (folder.join("project"), folder.join("programs"));
    std::fs::create_dir_all(&project).unwrap();
    std::fs::create_dir_all(&programs).unwrap();
    // Each step of kubebuilder runs `go mod tidy`. The project has the modules of the other clients instead, which Go has built by
    // then.
    let path = std::env::var("PATH").unwrap();
    let untidy = format!("[ \"$1 $2\" = 'mod tidy' ] || PATH='{path}' exec go \"$@\"");
    script(&programs, "go", &untidy);
    let path = format!("{}:{path}", programs.display());
    for line in SCAFFOLD {
        in_project(&kubebuilder, &project, &words(line), &[("PATH", &path)]);
        for name in ["go.mod", "go.sum"] {
            std::fs::copy(sources.join(name), project.join(name)).unwrap();
        }
    }
    for (file, place, text) in WRITTEN {
        let file = project.join(file);
        let generated = std::fs::read_to_string(&file).unwrap();
        assert_eq!(generated.matches(place).count(), 1, "{}: {place}", file.display());
        std::fs::write(&file, generated.replace(place, text)).unwrap();
    }
    let specs = "widget_specs_test.go";
    std::fs::copy(
        clients::sources("kubebuilder").join(specs),
        project.join("internal/webhook/v1").join(specs),
    )
    .unwrap();
    for line in GENERATE {
        in_project(&generator, &project, &words(line), &[]);
    }
    project
}

fn in_project(program: &Path, project: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> String {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .envs(variables.iter().copied())
        .current_dir(project);
    printed(&mut command, "")
}
