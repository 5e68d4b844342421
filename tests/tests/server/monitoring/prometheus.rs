//! Prometheus and promtool.

use std::fs;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use conformance::{ADMIN_TOKEN, Server};
use serde_json::json;
use tempfile::TempDir;
use test_support::free_address;

/// A Prometheus that scrapes a server every second. It is killed when this is dropped.
pub struct Prometheus {
    child: Child,
    address: SocketAddr,
    _folder: TempDir,
}

impl Prometheus {
    /// Starts a Prometheus that evaluates the rules of these files.
    pub fn start(server: &Server, rules: &[PathBuf]) -> Self {
        let folder = TempDir::new().unwrap();
        let job = |name: &str, path: &str| {
            json!({"job_name": name, "scheme": "https", "metrics_path": path,
                "static_configs": [{"targets": [server.address.to_string()]}],
                "authorization": {"credentials": ADMIN_TOKEN}, "tls_config": {"insecure_skip_verify": true}})
        };
        let config = json!({"global": {"scrape_interval": "1s", "evaluation_interval": "1s"}, "rule_files": rules,
            "scrape_configs": [job("apiserver", "/metrics"), job("apiserver-health", "/metrics/slis")]});
        // JSON is YAML.
        let file = folder.path().join("prometheus.yml");
        fs::write(&file, config.to_string()).unwrap();
        let address = free_address().unwrap();
        let child = Command::new("prometheus")
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()))
            .arg(format!("--web.listen-address={address}"))
            .arg("--log.level=error")
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        Self {
            child,
            address,
            _folder: folder,
        }
    }

    /// True if the query has a result that is a number. It is false while Prometheus starts.
    pub fn has_data(&self, query: &str) -> bool {
        let mut ask = Command::new("promtool");
        ask.args(["query", "instant"])
            .arg(format!("http://{}", self.address))
            .arg(query);
        let output = ask.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        output.status.success()
            && text
                .lines()
                .any(|line| line.contains("=>") && !line.contains("=> NaN "))
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the findings of `promtool check metrics`.
pub fn check_metrics(page: &str) -> String {
    let mut promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    promtool.stdin.take().unwrap().write_all(page.as_bytes()).unwrap();
    let output = promtool.wait_with_output().unwrap();
    String::from_utf8(output.stderr).unwrap()
}
