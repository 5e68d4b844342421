//! The daily work of an unmodified `kubectl` against the real binary. kubectl comes from the Kubernetes
//! project, not from a registry of Rust: where it is not on the path, these tests are ignored.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "what fails here is the test")]

mod conversion;
mod custom_resources;
mod operators;
mod workloads;

use std::ops::Deref;

use conformance::tool::{Tool, script, text};

/// A kubectl that speaks to a server of its own.
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

    /// Waits until all definitions are established. By path, since `--for=condition` ends with an error where an object has
    /// no conditions yet, which the reference shows of new definitions, too.
    fn wait_for_definitions(&self) {
        let established = r#"--for=jsonpath={.status.conditions[?(@.type=="Established")].status}=True"#;
        self.says(&["wait", "crd", "--all", established, "--timeout=60s"], "");
    }

    fn field(&self, object: &str, path: &str) -> String {
        self.says(&["get", object, "-o", &format!("jsonpath={path}")], "")
    }
}
