//! The kubeconfig with the address of the server and the credentials of a client
//! (<https://kubernetes.io/docs/concepts/configuration/organize-cluster-access-kubeconfig/>).

use std::fs;
use std::path::Path;

use anyhow::Result;
use aws_lc_rs::agreement::{ECDH_P256, PrivateKey};
use aws_lc_rs::encoding::{AsDer as _, EcPrivateKeyRfc5915Der};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use holdfast_server::wire::certificates::pem;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;

use crate::files;
use crate::pki::Pki;

/// Credentials of the administrator, in PEM.
#[derive(Clone)]
pub(crate) struct Administrator {
    /// Certificates with which clients verify the server.
    pub(crate) authority: Vec<u8>,
    /// Client certificate.
    pub(crate) certificate: Vec<u8>,
    /// Private key of the client certificate.
    pub(crate) key: Vec<u8>,
}

impl Administrator {
    /// Reads the credentials in `pki`. Clients verify the server with the certificates in `authority`.
    pub(crate) fn read(authority: &Path, pki: &Pki) -> Result<Self> {
        Ok(Self {
            authority: files::read(authority)?,
            certificate: files::read(&pki.administrator.certificate)?,
            key: files::read(&pki.administrator.key)?,
        })
    }

    /// Returns the kubeconfig for the server at `url`.
    pub(crate) fn kubeconfig(&self, url: &str) -> String {
        format!(
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
            authority = STANDARD.encode(&self.authority),
            certificate = STANDARD.encode(&self.certificate),
            key = STANDARD.encode(client_key(self.key.clone())),
        )
    }
}

/// Writes a kubeconfig, unless it exists with the same content.
pub(crate) fn write(path: &Path, text: &str) -> Result<()> {
    files::restrict(path);
    if fs::read_to_string(path).is_ok_and(|old| old == text) {
        return Ok(());
    }
    files::write_private(path, text)
}

/// Converts a key to the older of its two encodings, whose label names an elliptic-curve key: fabric8's client parses
/// the newer encoding as an RSA key. Returns keys of other types unchanged.
fn client_key(text: Vec<u8>) -> Vec<u8> {
    let pkcs8 = PrivateKeyDer::from_pem_slice(&text).ok();
    let key = pkcs8.and_then(|key| PrivateKey::from_private_key_der(&ECDH_P256, key.secret_der()).ok());
    let Some(Ok(der)) = key.map(|key| -> Result<EcPrivateKeyRfc5915Der<'_>, _> { key.as_der() }) else {
        return text;
    };
    pem("EC PRIVATE KEY", der.as_ref()).into_bytes()
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
        let administrator = Administrator::read(&pki.authority.certificate, &pki).unwrap();
        write(&path, &administrator.kubeconfig("https://127.0.0.1:6443")).unwrap();
        let flags = crate::remote::AccessFlags {
            kubeconfig: Some(path),
            ..Default::default()
        };
        let access = crate::remote::Access::from_flags(&flags).unwrap();
        assert_eq!(access.server, "https://127.0.0.1:6443");
        assert_eq!(access.authority, fs::read(&pki.authority.certificate).ok());
        let read = |path: &Path| fs::read(path).unwrap();
        let (certificate, key) = access.certificate.unwrap();
        assert_eq!(certificate, read(&pki.administrator.certificate));
        assert!(key.starts_with(b"-----BEGIN EC PRIVATE KEY-----\n"));
        let public = |pem: &[u8]| {
            let key = rcgen::KeyPair::from_pem(std::str::from_utf8(pem).unwrap()).unwrap();
            key.public_key_pem()
        };
        assert_eq!(public(&key), public(&read(&pki.administrator.key)));
    }

    #[test]
    fn keys_of_another_sort_stay_as_they_are() {
        for key in [
            "",
            "no key",
            "-----BEGIN PRIVATE KEY-----\nMA==\n-----END PRIVATE KEY-----\n",
        ] {
            assert_eq!(client_key(key.into()), key.as_bytes());
        }
    }
}
