//! A project that kubebuilder makes, with a controller and webhooks: its own tests pass with `KUBEBUILDER_ASSETS` alone.

use std::path::Path;
use std::process::Command;

use conformance::tool::{printed, script};
use conformance::{Binary, clients, root};
use test_support::needs;

use crate::{program, words};

/// What makes the project. `--make=false` leaves what is generated to controller-gen below.
const SCAFFOLD: [&str; 3] = [
    "init --domain example.com --repo holdfast.example/clients --fetch-deps=false --skip-go-version-check",
    "create api --group shop --version v1 --kind Widget --resource --controller --make=false",
    "create webhook --group shop --version v1 --kind Widget --defaulting --programmatic-validation --make=false",
];

/// How the project's `Makefile` calls controller-gen, for the packages that are tested.
const GENERATE: [&str; 2] = [
    "rbac:roleName=manager-role crd webhook paths=./api/... paths=./internal/... output:crd:artifacts:config=config/crd/bases",
    "object:headerFile=hack/boilerplate.go.txt paths=./api/...",
];

#[needs(clients, go)]
#[test]
fn a_project_of_kubebuilder_passes_its_tests_by_one_variable() {
    let kubebuilder = program("go", "sigs.k8s.io/kubebuilder/v4");
    let generator = program("go", "sigs.k8s.io/controller-tools/cmd/controller-gen");
    // Go names what it keeps by the folder of the package.
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
            std::fs::copy(clients::sources("go").join(name), project.join(name)).unwrap();
        }
    }
    for line in GENERATE {
        in_project(&generator, &project, &words(line), &[]);
    }
    let assets = Binary::debug().unwrap().assets(&folder.join("assets")).unwrap();
    let said = in_project(
        Path::new("go"),
        &project,
        &["test", "-v", "-vet=off", "-count=1", "./internal/..."],
        &[
            ("KUBEBUILDER_ASSETS", assets.to_str().unwrap()),
            ("GINKGO_NO_COLOR", "TRUE"),
        ],
    );
    let suites = said.lines().filter(|line| line.starts_with("Ran ")).count();
    assert_eq!(suites, 2, "the controller's and the webhook's: {said}");
}

fn in_project(program: &Path, project: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> String {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .envs(variables.iter().copied())
        .current_dir(project);
    printed(&mut command, "")
}
