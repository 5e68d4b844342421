//! Invalid flags and combinations of flags, reported as kube-apiserver does before anything starts.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Result, bail};
use holdfast_gotext::errors::aggregate;
use holdfast_gotext::{duration, url};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use crate::flags::Serve;
use crate::{admission, signing};

/// Parses a number that must not be negative; `rejection` is the error message.
pub(crate) fn number<N>(rejection: &'static str) -> impl Fn(&str) -> Result<N, String> + Clone
where
    N: FromStr<Err: Display>,
{
    move |text: &str| {
        if text.parse().is_ok_and(|number: i64| number < 0) {
            return Err(rejection.to_owned());
        }
        text.parse().map_err(|error: N::Err| error.to_string())
    }
}

/// Parses a duration that must not be negative; `rejection` is the error message.
pub(crate) fn time(rejection: &'static str) -> impl Fn(&str) -> Result<Duration, String> + Clone {
    move |text: &str| {
        let nanoseconds = u64::try_from(duration::parse(text)?);
        nanoseconds.map(Duration::from_nanos).map_err(|_| rejection.to_owned())
    }
}

/// Rejects flag values that kube-apiserver rejects, all at once and before anything starts.
///
/// # Errors
/// If any value is invalid; the error lists all of them.
pub(crate) fn check(flags: &Serve) -> Result<()> {
    let mut messages = flags.transport.errors();
    if flags.fairness.enable_priority_and_fairness {
        messages.extend(fairness_error(&flags.served.runtime_config));
    }
    messages.extend(issuer_errors(&flags.service_account_issuer));
    messages.extend(flags.service_account_jwks_uri.as_deref().and_then(keys_error));
    messages.extend(signing::errors(flags));
    messages.extend(overlap(flags));
    messages.extend(metrics_errors(
        &flags.disabled_metrics,
        &flags.show_hidden_metrics_for_version,
    ));
    messages.extend(flags.audit.errors());
    messages.extend(flags.coordination.errors());
    messages.extend(flags.testing.errors(flags.bind_address));
    messages.extend(flags.authentication.errors());
    messages.extend(flags.authorization.errors());
    messages.extend(admission::errors(
        &flags.enable_admission_plugins,
        &flags.disable_admission_plugins,
    ));
    messages.extend(flags.served.apis().err().map(|message| message.to_string()));
    match messages.is_empty() {
        true => Ok(()),
        false => bail!(aggregate(&messages)),
    }
}

/// Release before this one, whose hidden metrics can be shown.
const PREVIOUS_RELEASE: &str = "1.35";

/// Returns the errors of the flags of metrics.
///
/// upstream: k8s.io/component-base/metrics/api/v1#Validate
fn metrics_errors(disabled: &[String], shown_release: &str) -> Vec<String> {
    let release_error = (!["", PREVIOUS_RELEASE].contains(&shown_release)).then(|| {
        format!(
            "metrics.showHiddenMetricsForVersion: Invalid value: {shown_release:?}: must be omitted or have the value \
             '{PREVIOUS_RELEASE}'; only the previous minor version is allowed"
        )
    });
    let invalid = disabled.iter().find(|name| !is_metric_name(name));
    let name_error = invalid.map(|name| {
        format!(
            "metrics.disabledMetrics: Invalid value: {disabled:?}: must be fully qualified metric names matching \
             \"^[a-zA-Z_:][a-zA-Z0-9_:]*$\", got {name:?}"
        )
    });
    release_error.into_iter().chain(name_error).collect()
}

fn is_metric_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    let is_valid = |byte: u8| byte.is_ascii_alphabetic() || b"_:".contains(&byte);
    bytes.next().is_some_and(is_valid) && bytes.all(|byte| is_valid(byte) || byte.is_ascii_digit())
}

fn issuer_errors(issuers: &[String]) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let message = |issuer: &String| {
        if issuer.contains(':')
            && let Err(why) = url::parse(issuer)
        {
            return Some(format!(
                "service-account-issuer {issuer:?} contained a ':' but was not a valid URL: {why}"
            ));
        }
        if issuer.is_empty() {
            return Some("service-account-issuer should not be an empty string".to_owned());
        }
        (!seen.insert(issuer.clone())).then(|| format!("service-account-issuer {issuer:?} is already specified"))
    };
    issuers.iter().filter_map(message).collect()
}

fn keys_error(address: &str) -> Option<String> {
    if address.is_empty() {
        return None;
    }
    match url::parse(address) {
        Err(why) => Some(format!("service-account-jwks-uri must be a valid URL: {why}")),
        Ok(parsed) if parsed.scheme != "https" => Some(format!(
            "service-account-jwks-uri requires https scheme, parsed as: {address}"
        )),
        Ok(_) => None,
    }
}

/// Returns an error if an authority of clients is also one of front proxies, which would let any client set any user
/// name.
fn overlap(flags: &Serve) -> Option<String> {
    let clients = flags.client_ca_file.as_deref()?;
    let proxies = flags.aggregation.requestheader_client_ca_file.as_deref()?;
    if !flags.aggregation.requestheader_allowed_names.is_empty() {
        return None;
    }
    let (clients, proxies) = (certificates(clients)?, certificates(proxies)?);
    let overlap = clients.iter().any(|certificate| proxies.contains(certificate));
    overlap.then(|| {
        "--requestheader-client-ca-file and --client-ca-file contain overlapping certificates; \
         --requestheader-allowed-names must be specified to ensure regular client certificates cannot set authenticating \
         proxy headers for arbitrary users"
            .to_owned()
    })
}

/// Returns the certificates of a file. The user of the file reports an unreadable one.
fn certificates(path: &Path) -> Option<Vec<CertificateDer<'static>>> {
    CertificateDer::pem_file_iter(path).ok()?.collect::<Result<_, _>>().ok()
}

/// Returns an error if the API of priority levels is not served.
fn fairness_error(runtime_config: &[String]) -> Option<String> {
    let words = runtime_config.iter().flat_map(|flag| flag.split(','));
    let pairs: Vec<(&str, &str)> = words
        .map(|word| word.split_once('=').unwrap_or((word, "")))
        .map(|(key, value)| (key.trim(), value.trim()))
        .collect();
    for key in ["flowcontrol.apiserver.k8s.io/v1", "api/ga", "api/all"] {
        let said = pairs.iter().rev().find(|(known, _)| *known == key);
        match said.map(|(_, value)| *value) {
            Some("false") => {
                return Some(format!(
                    "--runtime-config={key}=false conflicts with --enable-priority-and-fairness=true"
                ));
            }
            Some("true") => return None,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::flags::Arguments;

    fn checked(flags: &[&str]) -> Result<(), String> {
        let parsed = Arguments::try_parse_from(["holdfast"].iter().chain(flags));
        let arguments = parsed.map_err(|error| error.to_string())?;
        check(&arguments.serve).map_err(|error| error.to_string())
    }

    #[test]
    fn metrics_flags_name_metrics_and_the_previous_release() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert_eq!(metrics_errors(&names(&["a_b:c9", "_x"]), "1.35"), [""; 0]);
        let errors = metrics_errors(&names(&["good", "9bad"]), "1.34");
        let [release, name] = errors.as_slice() else {
            panic!("{errors:?}")
        };
        assert!(
            release.starts_with("metrics.showHiddenMetricsForVersion: Invalid value: \"1.34\""),
            "{release}"
        );
        assert!(name.ends_with("got \"9bad\""), "{name}");
    }

    #[test]
    fn numbers_and_durations_below_zero_are_refused() {
        for flag in [
            "max-requests-inflight",
            "max-mutating-requests-inflight",
            "min-request-timeout",
        ] {
            let rejection = checked(&[&format!("--{flag}=-1")]).unwrap_err();
            assert!(
                rejection.contains(&format!("--{flag} can not be negative value")),
                "{rejection}"
            );
        }
        for (flag, what) in [
            ("request-timeout", "negative value"),
            ("shutdown-delay-duration", "negative value"),
            ("livez-grace-period", "a negative value"),
        ] {
            let rejection = checked(&[&format!("--{flag}=-1s")]).unwrap_err();
            assert!(
                rejection.contains(&format!("--{flag} can not be {what}")),
                "{rejection}"
            );
        }
        assert_eq!(checked(&["--max-requests-inflight=1", "--request-timeout=1s"]), Ok(()));
    }

    #[test]
    fn all_errors_are_reported_at_once() {
        let flags = [
            "--goaway-chance=1",
            "--strict-transport-security-directives=",
            "--audit-log-path=-",
            "--audit-log-mode=bad",
            "--enable-admission-plugins=Nope,AlwaysAdmit",
            "--disable-admission-plugins=AlwaysAdmit",
            "--runtime-config=a.io/v1",
        ];
        assert_eq!(
            checked(&flags).unwrap_err(),
            "[--goaway-chance can not be less than 0 or greater than 0.02, empty value in \
             strict-transport-security-directives, invalid audit log mode bad, allowed modes are \
             \"batch,blocking,blocking-strict\", enable-admission-plugins plugin \"Nope\" is unknown, [AlwaysAdmit] in \
             enable-admission-plugins and disable-admission-plugins overlapped, unknown api groups a.io/v1]"
        );
    }

    #[test]
    fn issuers_are_distinguished() {
        let two = ["--service-account-issuer=a", "--service-account-issuer=a"];
        assert_eq!(
            checked(&two).unwrap_err(),
            "service-account-issuer \"a\" is already specified"
        );
        assert_eq!(
            checked(&["--service-account-issuer="]).unwrap_err(),
            "service-account-issuer should not be an empty string"
        );
        let rejection = checked(&["--service-account-issuer=:a"]).unwrap_err();
        assert!(
            rejection.contains("contained a ':' but was not a valid URL"),
            "{rejection}"
        );
        assert_eq!(
            checked(&["--service-account-jwks-uri=http://a/b"]).unwrap_err(),
            "service-account-jwks-uri requires https scheme, parsed as: http://a/b"
        );
        assert_eq!(
            checked(&["--service-account-issuer=https://a", "--service-account-issuer=b"]),
            Ok(())
        );
    }

    #[test]
    fn priority_levels_need_their_api() {
        let conflict = |key: &str| {
            Err(format!(
                "--runtime-config={key}=false conflicts with --enable-priority-and-fairness=true"
            ))
        };
        assert_eq!(
            checked(&["--runtime-config=api/all=false,apps/v1=true"]),
            conflict("api/all")
        );
        assert_eq!(checked(&["--runtime-config=api/ga=false"]), conflict("api/ga"));
        let version = "flowcontrol.apiserver.k8s.io/v1";
        assert_eq!(
            checked(&[&format!("--runtime-config={version}=false")]),
            conflict(version)
        );
        assert_eq!(
            checked(&[&format!("--runtime-config=api/all=false,{version}=true")]),
            Ok(())
        );
        assert_eq!(
            checked(&["--runtime-config=api/ga=false", "--enable-priority-and-fairness=false"]),
            Ok(())
        );
    }

    #[test]
    fn authorities_of_clients_are_none_of_front_proxies() {
        let folder = tempfile::tempdir().unwrap();
        let certificate = || {
            let key = rcgen::KeyPair::generate().unwrap();
            rcgen::CertificateParams::default().self_signed(&key).unwrap().pem()
        };
        let (one, other) = (certificate(), certificate());
        let file = |name: &str, text: String| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path.display().to_string()
        };
        let clients = format!("--client-ca-file={}", file("clients", format!("{one}{other}")));
        let same = format!("--requestheader-client-ca-file={}", file("same", other));
        let third = format!("--requestheader-client-ca-file={}", file("third", certificate()));
        let rejection = checked(&[&clients, &same]).unwrap_err();
        assert!(rejection.contains("contain overlapping certificates"), "{rejection}");
        assert_eq!(checked(&[&clients, &third]), Ok(()));
        assert_eq!(
            checked(&[&clients, &same, "--requestheader-allowed-names=proxy"]),
            Ok(())
        );
    }
}
