//! Files that flags name: one that cannot be used ends the start, with the flag, the file and the reason.

#![allow(clippy::unwrap_used, reason = "what fails here is the test")]

use std::fs;
use std::path::Path;
use std::process::Stdio;

use conformance::{Binary, Server};
use tempfile::TempDir;

/// What the binary says of flags with which it does not start.
fn refused(flags: &[String]) -> String {
    let folder = TempDir::new().unwrap();
    let mut command = Binary::debug().unwrap().command();
    let run = command
        .arg(format!("--data-dir={}", folder.path().display()))
        .arg("--secure-port=0")
        .args(flags)
        .stdin(Stdio::null());
    let output = run.output().unwrap();
    assert!(!output.status.success(), "{flags:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A flag that names a file: what the server says of the file first, flags that go with it, and what it says of files that hold
/// nothing or nonsense.
struct Named {
    flag: &'static str,
    told: &'static str,
    with: &'static [&'static str],
    empty: &'static str,
    nonsense: &'static str,
}

const KEY: &str = "there is no key in it";
const CERTIFICATE: &str = "there is no certificate in";

/// Files in the folder of the test that are as they should be.
const POLICY: &str = "policy.yaml";

const FILES: [Named; 9] = [
    Named {
        flag: "audit-policy-file",
        told: "loading audit policy file: ",
        with: &[],
        empty: "from file",
        nonsense: "from file",
    },
    Named {
        flag: "audit-webhook-config-file",
        told: "initializing audit webhook: ",
        with: &["--audit-policy-file=FOLDER/policy.yaml"],
        empty: "there is no context \"\"",
        nonsense: "there is no context \"\"",
    },
    Named {
        flag: "token-auth-file",
        told: "--token-auth-file: ",
        with: &[],
        // Nobody has a token.
        empty: "",
        nonsense: "line 1 of the token file",
    },
    Named {
        flag: "client-ca-file",
        told: "--client-ca-file: ",
        with: &[],
        empty: CERTIFICATE,
        nonsense: CERTIFICATE,
    },
    Named {
        flag: "requestheader-client-ca-file",
        told: "--requestheader-client-ca-file: ",
        with: &[],
        empty: CERTIFICATE,
        nonsense: CERTIFICATE,
    },
    Named {
        flag: "service-account-key-file",
        told: "--service-account-key-file: ",
        with: &[],
        empty: KEY,
        nonsense: KEY,
    },
    Named {
        flag: "service-account-signing-key-file",
        told: "--service-account-signing-key-file: ",
        with: &[],
        empty: "there is no private key in it",
        nonsense: "there is no private key in it",
    },
    Named {
        flag: "tls-cert-file",
        told: "--tls-cert-file: ",
        with: &["--tls-private-key-file=FOLDER/key.pem"],
        empty: CERTIFICATE,
        nonsense: CERTIFICATE,
    },
    Named {
        flag: "proxy-client-cert-file",
        told: "--proxy-client-cert-file",
        with: &["--proxy-client-key-file=FOLDER/key.pem"],
        empty: "cannot read certificates from",
        nonsense: "cannot read certificates from",
    },
];

/// What the server says where `flag` names `file`.
fn said(named: &Named, folder: &Path, file: &Path) -> String {
    let with = named.with.iter();
    let with = with.map(|flag| flag.replace("FOLDER", folder.to_str().unwrap()));
    let flags: Vec<String> = with.chain([format!("--{}={}", named.flag, file.display())]).collect();
    refused(&flags)
}

#[test]
fn a_file_that_cannot_be_used_ends_the_start_with_flag_file_and_reason() {
    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name);
    let policy = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: None}]";
    fs::write(path(POLICY), policy).unwrap();
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
            let said = said(named, folder.path(), &path(file));
            for part in [named.told, why, path(file).to_str().unwrap()] {
                assert!(
                    said.contains(part),
                    "{} {file}: {part:?} is missing: {said}",
                    named.flag
                );
            }
        }
    }
}

#[test]
fn flags_with_files_that_change_nothing_are_told_of_once() {
    let server = Server::start(
        &Binary::debug().unwrap(),
        &[
            "--tracing-config-file=/nowhere",
            "--kubelet-certificate-authority",
            "/nowhere",
        ],
    )
    .unwrap();
    let log = server.log_tail();
    let told = "these flags of kube-apiserver are taken and change nothing";
    assert_eq!(log.matches(told).count(), 1, "{log}");
    assert!(
        log.contains("--kubelet-certificate-authority --tracing-config-file"),
        "{log}"
    );
}

#[test]
fn a_token_is_not_sent_where_others_may_read_it() {
    let folder = TempDir::new().unwrap();
    let (policy, config) = (folder.path().join(POLICY), folder.path().join("webhook.yaml"));
    fs::write(
        &policy,
        "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: None}]",
    )
    .unwrap();
    let kubeconfig = "{current-context: a, contexts: [{name: a, context: {cluster: a, user: a}}], clusters: [{name: a, cluster: \
         {server: 'http://127.0.0.1:1'}}], users: [{name: a, user: {token: secret}}]}";
    fs::write(&config, kubeconfig).unwrap();
    let said = refused(&[
        format!("--audit-policy-file={}", policy.display()),
        format!("--audit-webhook-config-file={}", config.display()),
    ]);
    let why =
        "initializing audit webhook: http://127.0.0.1:1 is reached over http, where others may read the bearer token";
    assert!(said.contains(why) && !said.contains("secret"), "{said}");
}
