//! Differences if the binary is invoked as kube-apiserver.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::{Result, ensure};

use super::etcd::StoreOfStub;
use crate::flags::Serve;

/// Environment variable with the controllers to run. If it is not set, none run.
pub(super) const CONTROLLERS: &str = "HOLDFAST_CONTROLLERS";

/// Environment variable with the directory of timelines.
pub(super) const RECORD: &str = "HOLDFAST_RECORD";

/// Default directory of the certificates that kube-apiserver creates for itself.
const CERTIFICATES: &str = "/var/run/kubernetes";

/// Returns the command line with kube-apiserver's defaults before the flags that were set. It runs no controllers,
/// which belong to another program there.
pub(crate) fn command_line(words: Vec<OsString>) -> Vec<OsString> {
    let mut controllers = OsString::from("--controllers=");
    controllers.push(std::env::var_os(CONTROLLERS).unwrap_or_default());
    let mut words = words.into_iter();
    let mut all: Vec<OsString> = words.next().into_iter().collect();
    all.push(controllers);
    if let Some(directory) = std::env::var_os(RECORD).filter(|directory| !directory.is_empty()) {
        let mut record = OsString::from("--record=");
        record.push(directory);
        all.push(record);
    }
    all.extend(words);
    all
}

/// Selects the store for `--etcd-servers`, and limits the server's own files to those in `--cert-dir`.
///
/// # Errors
/// If `--etcd-servers` is missing, or the response of the stub that it names cannot be parsed.
pub(crate) fn adapt(serve: &mut Serve) -> Result<()> {
    ensure!(
        !serve.storage.etcd_servers.is_empty(),
        "--etcd-servers must be specified"
    );
    serve.as_kube_apiserver = true;
    let certificates = serve.cert_dir.get_or_insert_with(|| PathBuf::from(CERTIFICATES));
    serve.data_dir.clone_from(certificates);
    if let [server] = serve.storage.etcd_servers.as_slice()
        && let Some(store) = StoreOfStub::ask(server)?
    {
        serve.data_dir = store.directory;
        serve.unsafe_no_fsync = !store.sync;
        serve.storage.etcd_servers.clear();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::flags::Arguments;

    fn serve(flags: &[&str]) -> Serve {
        let words = ["kube-apiserver"].iter().chain(flags).map(OsString::from).collect();
        Arguments::try_parse_from(command_line(words)).unwrap().serve
    }

    #[test]
    fn no_controllers_run_but_those_of_the_flags() {
        assert_eq!(serve(&[]).controllers, [""]);
        let chosen = serve(&["--controllers=garbage-collector-controller"]).controllers;
        assert_eq!(chosen, ["", "garbage-collector-controller"]);
    }

    #[test]
    fn a_missing_etcd_is_reported_in_the_words_of_the_reference() {
        let error = adapt(&mut serve(&[])).unwrap_err();
        assert_eq!(error.to_string(), "--etcd-servers must be specified");
    }

    #[test]
    fn a_real_etcd_stays() {
        // Nothing listens on port 9 (discard) of this host; the server waits for an etcd that is not reachable yet.
        let mut serve = serve(&["--etcd-servers=http://127.0.0.1:9", "--cert-dir=/certs"]);
        adapt(&mut serve).unwrap();
        assert_eq!(serve.storage.etcd_servers, ["http://127.0.0.1:9"]);
        assert_eq!(serve.data_dir, PathBuf::from("/certs"));
        assert!(serve.as_kube_apiserver);
    }
}
