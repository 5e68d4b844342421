//! `/version`: the Kubernetes release that the server implements, and its own release
//! (<https://kubernetes.io/docs/reference/kubernetes-api/other-resources/>, `version.Info`).

use serde::Serialize;

/// The Kubernetes release that the server implements.
pub const KUBERNETES: &str = "1.36.2";

/// The build information of a server.
#[derive(Clone, Copy, Debug)]
pub struct Build {
    /// The commit, in 40 hexadecimal digits.
    pub commit: &'static str,
    /// The state of the source tree relative to the commit: `clean`, `dirty`, or `archive` if it is unknown.
    pub tree_state: &'static str,
    /// The build date, in RFC 3339.
    pub date: &'static str,
    /// The compiler with its version, such as `rustc 1.90.0`.
    pub compiler: &'static str,
}

/// An unknown build.
impl Default for Build {
    fn default() -> Self {
        Self {
            commit: "0000000000000000000000000000000000000000",
            tree_state: "archive",
            date: "1970-01-01T00:00:00Z",
            compiler: "rustc",
        }
    }
}

/// The content of `/version`.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct VersionInfo {
    major: &'static str,
    minor: &'static str,
    emulation_major: &'static str,
    emulation_minor: &'static str,
    min_compatibility_major: &'static str,
    min_compatibility_minor: &'static str,
    git_version: String,
    git_commit: &'static str,
    git_tree_state: &'static str,
    build_date: &'static str,
    go_version: String,
    compiler: &'static str,
    platform: String,
}

/// Returns the version of this build: `v1.36.2+holdfast.0.1.0`.
pub fn git_version() -> String {
    format!("v{KUBERNETES}+holdfast.{}", env!("CARGO_PKG_VERSION"))
}

impl VersionInfo {
    /// Returns the compiler, which replaces the reference's Go version.
    pub(crate) fn go_version(&self) -> &str {
        &self.go_version
    }

    /// Returns the labels of the metric that reports the build, and their values.
    pub(crate) fn labels(&self) -> ([&'static str; 9], [&str; 9]) {
        let labels = [
            ("build_date", self.build_date),
            ("compiler", self.compiler),
            ("git_commit", self.git_commit),
            ("git_tree_state", self.git_tree_state),
            ("git_version", &self.git_version),
            ("go_version", &self.go_version),
            ("major", self.major),
            ("minor", self.minor),
            ("platform", &self.platform),
        ];
        (labels.map(|(name, _)| name), labels.map(|(_, value)| value))
    }

    /// Returns the version information of a server of this build.
    pub fn new(build: &Build) -> Self {
        // Clients expect the platform names of Go.
        let architecture = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        };
        Self {
            major: "1",
            minor: "36",
            emulation_major: "1",
            emulation_minor: "36",
            min_compatibility_major: "1",
            min_compatibility_minor: "35",
            git_version: git_version(),
            git_commit: build.commit,
            git_tree_state: build.tree_state,
            build_date: build.date,
            // Clients expect a Go version here. There is none; the compiler of the server follows in parentheses.
            go_version: format!("go0 ({})", build.compiler),
            compiler: "rustc",
            platform: format!("{}/{architecture}", std::env::consts::OS),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_that_of_kubernetes_with_ours_behind_it() {
        let version = git_version();
        assert!(version.starts_with("v1.36.2+holdfast."), "{version}");
        let info = serde_json::to_value(VersionInfo::new(&Build::default())).unwrap();
        assert_eq!(
            (info["major"].as_str(), info["minor"].as_str()),
            (Some("1"), Some("36"))
        );
        assert_eq!(info["gitVersion"], version);
    }

    #[test]
    fn a_build_is_described_in_the_forms_that_clients_know() {
        let build = Build {
            commit: "0123456789012345678901234567890123456789",
            tree_state: "clean",
            date: "2026-01-02T03:04:05Z",
            compiler: "rustc 1.90.0",
        };
        let info = serde_json::to_value(VersionInfo::new(&build)).unwrap();
        assert_eq!(info["gitCommit"], build.commit);
        assert_eq!(info["gitTreeState"], "clean");
        assert_eq!(info["buildDate"], build.date);
        assert_eq!(info["goVersion"], "go0 (rustc 1.90.0)");
        assert_eq!(info["compiler"], "rustc");
    }
}
