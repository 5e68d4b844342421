//! `/version`: the release of Kubernetes that the server behaves like, and its own
//! (<https://kubernetes.io/docs/reference/kubernetes-api/other-resources/>, `version.Info`).

use serde::Serialize;

/// The release of Kubernetes whose behaviour is served.
pub const KUBERNETES: &str = "1.36.2";

/// What `/version` says.
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
    go_version: &'static str,
    compiler: &'static str,
    platform: String,
}

/// The version of this build: `v1.36.2+holdfast.0.1.0`.
pub fn git_version() -> String {
    format!("v{KUBERNETES}+holdfast.{}", env!("CARGO_PKG_VERSION"))
}

impl VersionInfo {
    /// The labels of the metric that tells of the build, and their values.
    pub(crate) fn labels(&self) -> ([&'static str; 9], [&str; 9]) {
        let labels = [
            ("build_date", self.build_date),
            ("compiler", self.compiler),
            ("git_commit", self.git_commit),
            ("git_tree_state", self.git_tree_state),
            ("git_version", &self.git_version),
            ("go_version", self.go_version),
            ("major", self.major),
            ("minor", self.minor),
            ("platform", &self.platform),
        ];
        (labels.map(|(name, _)| name), labels.map(|(_, value)| value))
    }

    /// What this build says of itself.
    pub fn current() -> Self {
        // Clients know platforms by the names that Go gives them.
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
            git_commit: option_env!("HOLDFAST_GIT_COMMIT").unwrap_or("unknown"),
            git_tree_state: option_env!("HOLDFAST_GIT_TREE_STATE").unwrap_or("unknown"),
            build_date: option_env!("HOLDFAST_BUILD_DATE").unwrap_or("1970-01-01T00:00:00Z"),
            go_version: "",
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
        let info = serde_json::to_value(VersionInfo::current()).unwrap();
        assert_eq!(
            (info["major"].as_str(), info["minor"].as_str()),
            (Some("1"), Some("36"))
        );
        assert_eq!(info["gitVersion"], version);
    }
}
