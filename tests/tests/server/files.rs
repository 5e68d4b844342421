//! Files that flags name: one that cannot be used ends the start, with the flag, the file and the reason.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use conformance::{ADMIN_TOKEN, Binary, Server, Target};
use tempfile::TempDir;

/// A flag that names a file: prefix of the errors about the file, flags that it needs, and the errors for an empty file
/// and for an invalid one.
struct Named {
    flag: &'static str,
    prefix: &'static str,
    with: &'static [&'static str],
    empty: &'static str,
    nonsense: &'static str,
}

const KEY: &str = "there is no key in it";
const CERTIFICATE: &str = "there is no certificate in";

/// An audit policy that is as it should be.
const POLICY: &str = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: None}]";

const FILES: [Named; 9] = [
    Named {
        flag: "audit-policy-file",
        prefix: "loading audit policy file: ",
        with: &[],
        empty: "from file",
        nonsense: "from file",
    },
    Named {
        flag: "audit-webhook-config-file",
        prefix: "initializing audit webhook: ",
        with: &["--audit-policy-file=FOLDER/policy.yaml"],
        empty: "there is no context \"\"",
        nonsense: "there is no context \"\"",
    },
    Named {
        flag: "token-auth-file",
        prefix: "--token-auth-file: ",
        with: &[],
        // No user has a token.
        empty: "",
        nonsense: "line 1 of the token file",
    },
    Named {
        flag: "client-ca-file",
        prefix: "--client-ca-file: ",
        with: &[],
        empty: CERTIFICATE,
        nonsense: CERTIFICATE,
    },
    Named {
        flag: "requestheader-client-ca-file",
        prefix: "--requestheader-client-ca-file: ",
        with: &[],
        empty: CERTIFICATE,
        nonsense: CERTIFICATE,
    },
    Named {
        flag: "service-account-key-file",
        prefix: "--service-account-key-file: ",
        with: &[],
        empty: KEY,
        nonsense: KEY,
    },
    Named {
        flag: "service-account-signing-key-file",
        prefix: "--service-account-signing-key-file: ",
        with: &[],
        empty: "there is no private key in it",
        nonsense: "there is no private key in it",
    },
    Named {
        flag: "tls-cert-file",
        prefix: "--tls-cert-file: ",
        with: &["--tls-private-key-file=FOLDER/key.pem"],
        empty: CERTIFICATE,
        nonsense: CERTIFICATE,
    },
    Named {
        flag: "proxy-client-cert-file",
        prefix: "--proxy-client-cert-file",
        with: &["--proxy-client-key-file=FOLDER/key.pem"],
        empty: "cannot read certificates from",
        nonsense: "cannot read certificates from",
    },
];

/// Returns the flags with which `named` is `file`.
fn flags(named: &Named, folder: &Path, file: &Path) -> Vec<String> {
    let with = named
        .with
        .iter()
        .map(|flag| flag.replace("FOLDER", folder.to_str().unwrap()));
    with.chain([format!("--{}={}", named.flag, file.display())]).collect()
}

#[test]
fn unusable_file_ends_the_start_with_flag_file_and_reason() {
    let (binary, folder) = (Binary::debug().unwrap(), TempDir::new().unwrap());
    let path = |name: &str| folder.path().join(name);
    fs::write(path("policy.yaml"), POLICY).unwrap();
    fs::write(path("key.pem"), rcgen::KeyPair::generate().unwrap().serialize_pem()).unwrap();
    fs::write(path("empty"), "").unwrap();
    fs::write(path("nonsense"), "nonsense\n").unwrap();
    fs::create_dir(path("folder")).unwrap();
    for named in &FILES {
        for (file, why) in [
            ("missing", "No such file or directory"),
            ("folder", "Is a directory"),
            ("empty", named.empty),
            ("nonsense", named.nonsense),
        ] {
            if why.is_empty() {
                continue;
            }
            let said = binary.rejection(&flags(named, folder.path(), &path(file))).unwrap();
            for part in [named.prefix, why, path(file).to_str().unwrap()] {
                assert!(
                    said.contains(part),
                    "{} {file}: {part:?} is missing: {said}",
                    named.flag
                );
            }
        }
    }
}

/// A readable file with invalid content: its flag, its content, and the error. FOLDER is replaced by the folder of the
/// files.
struct Misfit {
    flag: &'static str,
    with: &'static [&'static str],
    text: &'static str,
    /// Another file that the first one names.
    named: Option<(&'static str, &'static str)>,
    /// Location and error; `None` if the reference accepts the file.
    why: Option<&'static str>,
}

impl Misfit {
    const fn new(flag: &'static str, text: &'static str, why: &'static str) -> Self {
        Self {
            flag,
            with: &[],
            text,
            named: None,
            why: Some(why),
        }
    }
}

const AUDITED: &[&str] = &["--audit-policy-file=FOLDER/policy.yaml"];
const STATIC: &[&str] = &["--feature-gates=ManifestBasedAdmissionControlConfig=true"];
const OF_POLICIES: &str = "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins: [{name: \
                           ValidatingAdmissionPolicy, path: FOLDER/named.yaml}]";
const OF_WEBHOOKS: &str = "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins: [{name: \
                           MutatingAdmissionWebhook, configuration: {apiVersion: apiserver.config.k8s.io/v1, kind: \
                           WebhookAdmissionConfiguration, staticManifestsDir: FOLDER/manifests}}]";
const KUBECONFIG: &str = "current-context: a\ncontexts: [{name: a, context: {cluster: a}}]\nclusters: [{name: a, cluster: \
                          {server: 'https://127.0.0.1:1'}}]\n";

/// Files of every flag that reads fields: with fields that are unknown, and of another version or kind.
fn misfits() -> Vec<Misfit> {
    let of_kubeconfig = |head: &str| -> &'static str { format!("{head}{KUBECONFIG}").leak() };
    let mut misfits = vec![
        Misfit::new(
            "audit-policy-file",
            "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: None, levels: None}]",
            "strict decoding error: unknown field \"rules[0].levels\"",
        ),
        Misfit::new(
            "audit-policy-file",
            "apiVersion: audit.k8s.io/v2\nkind: Policy\nrules: [{level: None}]",
            "no kind \"Policy\" is registered for version \"audit.k8s.io/v2\"",
        ),
        Misfit::new(
            "audit-policy-file",
            "kind: Policy\nrules: [{level: None}]",
            "unknown group version field",
        ),
        Misfit::new(
            "admission-control-config-file",
            "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugin: []",
            "strict decoding error: unknown field \"plugin\"",
        ),
        Misfit::new(
            "admission-control-config-file",
            "apiVersion: apiserver.config.k8s.io/v2\nkind: AdmissionConfiguration",
            "no kind \"AdmissionConfiguration\" is registered for version \"apiserver.config.k8s.io/v2\"",
        ),
    ];
    for (head, why) in [
        (
            "apiVersion: v2\nkind: Config\n",
            Some("no kind \"Config\" is registered for version \"v2\""),
        ),
        (
            "apiVersion: v1\nkind: Pod\n",
            Some("no kind \"Pod\" is registered for version \"v1\""),
        ),
        ("apiVersion: v1\nkind: Config\nunknown: 1\n", None),
    ] {
        misfits.push(Misfit {
            with: AUDITED,
            why,
            ..Misfit::new("audit-webhook-config-file", of_kubeconfig(head), "")
        });
    }
    for (text, why) in [
        (
            "apiVersion: apiserver.config.k8s.io/v1\nkind: ValidatingAdmissionPolicyConfiguration\nfolder: /",
            "strict decoding error: unknown field \"folder\"",
        ),
        (
            "apiVersion: apiserver.config.k8s.io/v1alpha1\nkind: ValidatingAdmissionPolicyConfiguration",
            "is registered for version \"apiserver.config.k8s.io/v1alpha1\"",
        ),
        (
            "apiVersion: apiserver.config.k8s.io/v1\nkind: WebhookAdmissionConfiguration",
            "no kind \"WebhookAdmissionConfiguration\"",
        ),
    ] {
        misfits.push(Misfit {
            with: STATIC,
            named: Some(("named.yaml", text)),
            ..Misfit::new("admission-control-config-file", OF_POLICIES, why)
        });
    }
    for (text, why) in [
        (
            "apiVersion: admissionregistration.k8s.io/v1\nkind: MutatingWebhookConfiguration\nmetadata: {name: \
             w.static.k8s.io}\nwebhooks: [{name: w.example.com, clientConfig: {url: 'https://127.0.0.1:1', urls: []}}]",
            "unknown field \"webhooks[0].clientConfig.urls\"",
        ),
        (
            "apiVersion: admissionregistration.k8s.io/v1beta1\nkind: MutatingWebhookConfiguration\nmetadata: {name: \
             w.static.k8s.io}",
            "unsupported resource type \"MutatingWebhookConfiguration\"",
        ),
        (
            "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\nmetadata: {name: \
             w.static.k8s.io}",
            "unsupported resource type \"ValidatingWebhookConfiguration\"",
        ),
    ] {
        misfits.push(Misfit {
            with: STATIC,
            named: Some(("manifests/webhook.yaml", text)),
            ..Misfit::new("admission-control-config-file", OF_WEBHOOKS, why)
        });
    }
    misfits
}

#[test]
fn file_with_unknown_fields_or_version_ends_the_start() {
    let (binary, folder) = (Binary::debug().unwrap(), TempDir::new().unwrap());
    let place = folder.path().to_str().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::create_dir(path("manifests")).unwrap();
    fs::write(path("policy.yaml"), POLICY).unwrap();
    for misfit in misfits() {
        fs::write(path("file.yaml"), misfit.text.replace("FOLDER", place)).unwrap();
        if let Some((name, text)) = misfit.named {
            fs::write(path(name), text).unwrap();
        }
        let file = format!("--{}={place}/file.yaml", misfit.flag);
        let mut flags: Vec<String> = misfit.with.iter().map(|flag| flag.replace("FOLDER", place)).collect();
        flags.push(file);
        let Some(why) = misfit.why else {
            let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
            Server::start(&binary, &flags).unwrap();
            continue;
        };
        let said = binary.rejection(&flags).unwrap().replace("\\\"", "\"");
        let named = misfit.named.map_or("file.yaml", |(name, _)| name);
        for part in [why, named] {
            assert!(said.contains(part), "{}: {part:?} is missing: {said}", misfit.flag);
        }
    }
}

#[test]
fn flags_with_files_that_change_nothing_are_reported_once() {
    let server = Server::start(
        &Binary::debug().unwrap(),
        &["--peer-ca-file=/nowhere", "--vmodule", "a=1"],
    )
    .unwrap();
    let log = server.log_tail();
    let report = "these flags of kube-apiserver are taken and change nothing";
    assert_eq!(log.matches(report).count(), 1, "{log}");
    assert!(log.contains("--peer-ca-file --vmodule"), "{log}");
}

#[test]
fn a_token_is_not_sent_where_others_may_read_it() {
    let folder = TempDir::new().unwrap();
    let (policy, config) = (folder.path().join("policy.yaml"), folder.path().join("webhook.yaml"));
    fs::write(&policy, POLICY).unwrap();
    let kubeconfig = "{current-context: a, contexts: [{name: a, context: {cluster: a, user: a}}], clusters: [{name: a, cluster: \
         {server: 'http://127.0.0.1:1'}}], users: [{name: a, user: {token: secret}}]}";
    fs::write(&config, kubeconfig).unwrap();
    let flags = [
        format!("--audit-policy-file={}", policy.display()),
        format!("--audit-webhook-config-file={}", config.display()),
    ];
    let said = Binary::debug().unwrap().rejection(&flags).unwrap();
    let why =
        "initializing audit webhook: http://127.0.0.1:1 is reached over http, where others may read the bearer token";
    assert!(said.contains(why) && !said.contains("secret"), "{said}");
}

#[test]
fn loose_modes_in_the_data_directory_are_tightened() {
    const LOOSE: [&str; 5] = ["store.db", "acknowledged", "kubeconfig", "pki/sa.key", "pki/ca.key"];
    let mut server = Server::start(&Binary::debug().unwrap(), &[]).unwrap();
    server.kill().unwrap();
    let data = server.data_dir();
    for name in LOOSE {
        fs::set_permissions(data.join(name), fs::Permissions::from_mode(0o666)).unwrap();
    }
    server.start_anew(&[]).unwrap();
    for name in LOOSE {
        let mode = fs::metadata(data.join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
        // A start writes this file anew.
        let is_new = name == "acknowledged";
        assert!(
            is_new || server.logged(&["other users had rights to the file", name]),
            "{name}: {}",
            server.log_tail()
        );
    }
}

/// Returns a certificate of the server for its own address, which is its own authority, and its key.
fn certificate() -> (String, String) {
    let mut params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    params
        .subject_alt_names
        .push(rcgen::SanType::IpAddress(std::net::Ipv4Addr::LOCALHOST.into()));
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = params.self_signed(&key).unwrap();
    (certificate.pem(), key.serialize_pem())
}

/// Flags of files that are reloaded while the server runs, each with the flag of its key if it has one.
const READ_AGAIN: [(Flagged, Option<Flagged>); 4] = [
    (("tls-cert-file", "tls.crt"), Some(("tls-private-key-file", "tls.key"))),
    (("client-ca-file", "clients.crt"), None),
    (("requestheader-client-ca-file", "proxies.crt"), None),
    (
        ("proxy-client-cert-file", "proxy.crt"),
        Some(("proxy-client-key-file", "proxy.key")),
    ),
];

/// A flag and the file that it names.
type Flagged = (&'static str, &'static str);

#[tokio::test]
async fn changed_files_are_reloaded_unless_they_are_invalid() {
    const STAY: &str = "files have changed and cannot be used; the old ones stay";
    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name);
    let write = |file: &str, key: Option<Flagged>| {
        let (certificate, of_certificate) = certificate();
        fs::write(path(file), &certificate).unwrap();
        if let Some((_, key)) = key {
            fs::write(path(key), of_certificate).unwrap();
        }
        certificate
    };
    let mut flags = vec!["--bind-address=127.0.0.1".to_owned()];
    for ((flag, file), key) in READ_AGAIN {
        write(file, key);
        flags.push(format!("--{flag}={}", path(file).display()));
        flags.extend(key.map(|(flag, key)| format!("--{flag}={}", path(key).display())));
    }
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let server = Server::start(&Binary::debug().unwrap(), &flags).unwrap();
    let url = format!("https://{}", server.address);
    let serves = async |authority: &str| {
        fs::write(path("authority.crt"), authority).unwrap();
        let target = Target::at(&url, Some(&path("authority.crt")), Some(ADMIN_TOKEN)).unwrap();
        target.is_healthy("/readyz").await
    };
    let first = fs::read_to_string(path("tls.crt")).unwrap();
    assert!(serves(&first).await);
    for ((_, file), key) in READ_AGAIN {
        fs::write(path(file), "no certificate").unwrap();
        server.until_logged(&[STAY, file]).await.unwrap();
        let shown = if file == "tls.crt" {
            first.clone()
        } else {
            fs::read_to_string(path("tls.crt")).unwrap()
        };
        assert!(serves(&shown).await, "{file}");
        let now = write(file, key);
        let read = ["files have changed and were read again", file];
        server.until_logged(&read).await.unwrap();
        if file == "tls.crt" {
            assert!(serves(&now).await && !serves(&first).await);
        }
    }
}

#[tokio::test]
async fn certificate_by_name_is_served_and_reloaded() {
    let (binary, folder) = (Binary::debug().unwrap(), TempDir::new().unwrap());
    let path = |name: &str| folder.path().join(name);
    let write = || {
        let (certificate, key) = certificate();
        fs::write(path("named.crt"), certificate).unwrap();
        fs::write(path("named.key"), key).unwrap();
    };
    let flag = |name: &str| {
        let (certificate, key) = (path("named.crt"), path("named.key"));
        format!("--tls-sni-cert-key={},{}:{name}", certificate.display(), key.display())
    };
    let said = binary.rejection(&[flag("localhost")]).unwrap();
    for part in ["--tls-sni-cert-key: ", "named.crt", "No such file or directory"] {
        assert!(said.contains(part), "{said}");
    }
    write();
    let flag = flag("localhost");
    let server = Server::start(&binary, &["--bind-address=127.0.0.1", &flag]).unwrap();
    let serves = async |host: &str| {
        let url = format!("https://{host}:{}", server.address.port());
        let target = Target::at(&url, Some(&path("named.crt")), Some(ADMIN_TOKEN)).unwrap();
        target.is_healthy("/readyz").await
    };
    // A client of an address requests no name.
    assert!(serves("localhost").await && !serves("127.0.0.1").await);
    write();
    let read = ["files have changed and were read again", "named.crt"];
    server.until_logged(&read).await.unwrap();
    assert!(serves("localhost").await);
}
