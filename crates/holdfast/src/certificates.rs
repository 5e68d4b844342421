//! Certificates that the server and its clients present to each other, and the names of the server.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, Result, anyhow};
use holdfast_server::wire::pem_source::PemSource;
use holdfast_server::wire::tls::{Tls, TlsFiles, TlsRules};
use time::OffsetDateTime;
use tokio::task::JoinHandle;

use crate::files;
use crate::flags::Serve;
use crate::kubeconfig::{self, Administrator};
use crate::pki::{self, Names, Pair, PairText, Pki, PkiInMemory};

/// Certificates that the server and its clients present to each other.
#[derive(Clone)]
pub(crate) struct Certificates {
    /// Files of the TLS configuration for accepted connections.
    pub(crate) tls: TlsFiles,
    /// Expiration time of the certificate that the server creates for itself; `None` if it creates none.
    pub(crate) end: Option<OffsetDateTime>,
    /// Certificate with which clients verify the server: its authority, or the certificate that the flags provide.
    root: PemSource,
    /// File of the administrator's kubeconfig, if there is one.
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The administrator's credentials; `None` if there is no administrator.
    pub(crate) administrator: Option<Administrator>,
}

impl Certificates {
    /// Returns the certificates for a fork, which writes no kubeconfig.
    pub(crate) fn without_kubeconfig(&self) -> Self {
        Self {
            kubeconfig: None,
            ..self.clone()
        }
    }

    /// Returns the text of the certificate with which clients verify the server.
    pub(crate) fn root(&self) -> Result<Arc<str>> {
        match &self.root {
            PemSource::File(path) => Ok(files::read_text(path)?.into()),
            PemSource::Memory(text) => Ok(Arc::clone(text)),
        }
    }
}

/// Creates the missing certificates of the server and its first clients. Client certificates are trusted if the
/// server's own authority or that of the flags signed them.
pub(crate) fn certificates(flags: &Serve, url: &str, rules: TlsRules) -> JoinHandle<Result<Certificates>> {
    let (names, url, folder) = (names(flags), url.to_owned(), flags.data_dir.clone());
    let brought = match (&flags.tls_cert_file, &flags.tls_private_key_file) {
        (Some(certificate), Some(key)) => Some(Pair {
            certificate: certificate.clone(),
            key: key.clone(),
        }),
        _ => None,
    };
    let cert_dir = flags.cert_dir.clone();
    let client_authority = flags.client_ca_file.clone();
    let proxies = flags.aggregation.requestheader_client_ca_file.clone();
    let (stands_alone, in_memory) = (flags.as_kube_apiserver, flags.in_memory);
    let named = flags.transport.tls_sni_cert_key.clone();
    tokio::task::spawn_blocking(move || {
        let now = OffsetDateTime::now_utc();
        if let Some(brought) = &brought {
            files::read(&brought.certificate).context("--tls-cert-file")?;
        }
        let tls_files = |server: SourcePair, client_authorities: Vec<PemSource>| TlsFiles {
            certificate: server.certificate,
            key: server.key,
            client_authorities,
            other_authorities: proxies.into_iter().map(PemSource::from).collect(),
            named,
            rules,
        };
        let served = match (brought, cert_dir) {
            (None, Some(folder)) => Some(Pair::ensure(&folder, &names, now)?),
            (brought, _) => brought,
        };
        if let (true, Some(served)) = (stands_alone, &served) {
            return Ok(Certificates {
                tls: tls_files(
                    served.into(),
                    client_authority.map(PemSource::from).into_iter().collect(),
                ),
                end: None,
                root: served.certificate.clone().into(),
                kubeconfig: None,
                administrator: None,
            });
        }
        if in_memory {
            let pki = PkiInMemory::new(&names, now)?;
            let mut authorities = vec![PemSource::from(pki.authority.clone())];
            authorities.extend(client_authority.map(PemSource::from));
            return self::in_memory(pki, served.as_ref(), |pair| tls_files(pair, authorities));
        }
        let pki = Pki::ensure(&folder.join("pki"), &names, now)?;
        let root = served
            .as_ref()
            .map_or(&pki.authority, |served| served)
            .certificate
            .clone();
        let kubeconfig = folder.join("kubeconfig");
        let administrator = Administrator::read(&root, &pki)?;
        kubeconfig::write(&kubeconfig, &administrator.kubeconfig(&url))?;
        let mut authorities = vec![PemSource::from(pki.authority.certificate)];
        authorities.extend(client_authority.map(PemSource::from));
        Ok(Certificates {
            tls: tls_files(served.as_ref().unwrap_or(&pki.server).into(), authorities),
            end: Some(pki::end(&pki.server)?),
            root: root.into(),
            kubeconfig: Some(kubeconfig),
            administrator: Some(administrator),
        })
    })
}

/// Returns the certificates of a server without files of its own. It presents `served` if the flags name one.
fn in_memory(
    pki: PkiInMemory,
    served: Option<&Pair>,
    tls: impl FnOnce(SourcePair) -> TlsFiles,
) -> Result<Certificates> {
    let (pair, root) = match served {
        Some(served) => (served.into(), served.certificate.clone().into()),
        None => (pki.server.into(), PemSource::from(pki.authority)),
    };
    let authority = root.read().context("--tls-cert-file")?.into_owned();
    Ok(Certificates {
        tls: tls(pair),
        end: Some(pki.end),
        root,
        kubeconfig: None,
        administrator: Some(Administrator {
            authority,
            certificate: pki.administrator.certificate.into_bytes(),
            key: pki.administrator.key.into_bytes(),
        }),
    })
}

/// A certificate and its key, in files or in memory.
struct SourcePair {
    certificate: PemSource,
    key: PemSource,
}

impl From<&Pair> for SourcePair {
    fn from(pair: &Pair) -> Self {
        Self {
            certificate: pair.certificate.clone().into(),
            key: pair.key.clone().into(),
        }
    }
}

impl From<PairText> for SourcePair {
    fn from(pair: PairText) -> Self {
        Self {
            certificate: pair.certificate.into(),
            key: pair.key.into(),
        }
    }
}

/// Reads the files of TLS. Errors name the flag of the file.
pub(crate) fn load_tls(flags: &Serve, files: &TlsFiles) -> Result<Tls> {
    let single = [
        ("tls-cert-file", &flags.tls_cert_file),
        ("tls-private-key-file", &flags.tls_private_key_file),
        ("client-ca-file", &flags.client_ca_file),
        (
            "requestheader-client-ca-file",
            &flags.aggregation.requestheader_client_ca_file,
        ),
    ];
    let by_flag = single
        .into_iter()
        .filter_map(|(flag, path)| Some((flag, path.as_ref()?)));
    let by_name = files.named.iter().flat_map(|files| [&files.certificate, &files.key]);
    let mut paths = by_flag.chain(by_name.map(|path| ("tls-sni-cert-key", path)));
    files
        .load()
        .map_err(|error| match paths.find(|(_, path)| *path == error.path()) {
            Some((flag, _)) => anyhow!("--{flag}: {error}"),
            None => error.into(),
        })
}

/// Returns the address at which clients reach the server.
pub(crate) fn reached_at(flags: &Serve) -> IpAddr {
    let listened = match flags.bind_address {
        IpAddr::V4(address) if address.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(address) if address.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        address => address,
    };
    flags.advertise_address.unwrap_or(listened)
}

/// Returns the names in the server's own certificate.
fn names(flags: &Serve) -> Names {
    const DNS: [&str; 5] = [
        "localhost",
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
        "kubernetes.default.svc.cluster.local",
    ];
    let mut names = Names {
        dns: DNS.map(str::to_owned).into(),
        addresses: [
            Ipv4Addr::LOCALHOST.into(),
            Ipv6Addr::LOCALHOST.into(),
            reached_at(flags),
        ]
        .into(),
    };
    let host = hostname();
    if !host.is_empty() {
        names.dns.insert(host);
    }
    names
}

/// Returns the name of this host; empty if it has none.
pub(crate) fn hostname() -> String {
    let read = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    read.trim().to_owned()
}
