//! Common tasks of an unmodified `kubectl` against the real binary. kubectl comes from the Kubernetes project, not from
//! a Rust registry: if it is not on the path, these tests are ignored.

mod conversion;
mod custom_resources;
mod nodes;
mod operators;
mod workloads;

use std::ops::Deref;

use conformance::tool::{Tool, script, text};

/// A kubectl with a server of its own.
struct Kubectl(Tool);

impl Deref for Kubectl {
    type Target = Tool;

    fn deref(&self) -> &Tool {
        &self.0
    }
}

impl Kubectl {
    fn start() -> Self {
        Self(Tool::start("kubectl"))
    }

    /// Waits until all CRDs are established. Uses the path, since `--for=condition` fails for an object without
    /// conditions, which the reference returns for new CRDs, too.
    fn wait_for_crds(&self) {
        let established = r#"--for=jsonpath={.status.conditions[?(@.type=="Established")].status}=True"#;
        self.says(&["wait", "crd", "--all", established, "--timeout=60s"], "");
    }

    fn field(&self, object: &str, path: &str) -> String {
        self.says(&["get", object, "-o", &format!("jsonpath={path}")], "")
    }
}
