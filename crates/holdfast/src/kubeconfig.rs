//! The kubeconfig by which clients find the server and show who they are
//! (<https://kubernetes.io/docs/concepts/configuration/organize-cluster-access-kubeconfig/>).

use std::fs;
use std::path::Path;

use anyhow::Result;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::files;
use crate::pki::Pki;

/// Writes the administrator's kubeconfig of the server at `url`, unless it is there already as it should be. Clients trust
/// the server by the certificates in `authority`.
pub(crate) fn write(path: &Path, url: &str, authority: &Path, pki: &Pki) -> Result<()> {
    let encoded = |path: &Path| -> Result<String> { Ok(STANDARD.encode(files::read(path)?)) };
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
        authority = encoded(authority)?,
        certificate = encoded(&pki.administrator.certificate)?,
        key = encoded(&pki.administrator.key)?,
    );
    if fs::read_to_string(path).is_ok_and(|old| old == text) {
        return Ok(());
    }
    files::write_private(path, &text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pki::Names;

    #[test]
    fn the_kubeconfig_holds_all_that_a_client_needs() {
        let folder = tempfile::tempdir().unwrap();
        let pki = Pki::ensure(folder.path(), &Names::default(), time::OffsetDateTime::now_utc()).unwrap();
        let path = folder.path().join("kubeconfig");
        write(&path, "https://127.0.0.1:6443", &pki.authority.certificate, &pki).unwrap();
        let flags = crate::remote::AccessFlags {
            kubeconfig: Some(path),
            ..Default::default()
        };
        let access = crate::remote::Access::of(&flags).unwrap();
        assert_eq!(access.server, "https://127.0.0.1:6443");
        assert_eq!(access.authority, fs::read(&pki.authority.certificate).ok());
        let read = |path: &Path| fs::read(path).unwrap();
        let administrator = (read(&pki.administrator.certificate), read(&pki.administrator.key));
        assert_eq!(access.certificate, Some(administrator));
    }
}
