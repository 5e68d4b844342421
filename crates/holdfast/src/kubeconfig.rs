//! The kubeconfig by which clients find the server and show who they are
//! (<https://kubernetes.io/docs/concepts/configuration/organize-cluster-access-kubeconfig/>).

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::files;
use crate::pki::Pki;

/// Writes the administrator's kubeconfig of the server at `url`, unless it is there already as it should be.
pub(crate) fn write(path: &Path, url: &str, pki: &Pki) -> Result<()> {
    let encoded = |path: &Path| -> Result<String> {
        let text = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        Ok(STANDARD.encode(text))
    };
    let text = format!(
        "\
apiVersion: v1
kind: Config
current-context: holdfast
clusters:
- name: holdfast
  cluster:
    server: {url}
    certificate-authority-data: {authority}
users:
- name: holdfast-admin
  user:
    client-certificate-data: {certificate}
    client-key-data: {key}
contexts:
- name: holdfast
  context:
    cluster: holdfast
    user: holdfast-admin
",
        authority = encoded(&pki.authority.certificate)?,
        certificate = encoded(&pki.administrator.certificate)?,
        key = encoded(&pki.administrator.key)?,
    );
    if fs::read_to_string(path).is_ok_and(|old| old == text) {
        return Ok(());
    }
    files::write_private(path, &text)
}
