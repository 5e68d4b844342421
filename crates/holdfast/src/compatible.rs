//! Flags of kube-apiserver 1.36 that mean nothing here, so that command lines written for it are taken as they are
//! (<https://kubernetes.io/docs/reference/command-line-tools-reference/kube-apiserver/>).

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};

use clap::Command;

/// What a flag is followed by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Nothing: `--flag` or `--flag=true`.
    Switch,
    /// A value: `--flag=value` or `--flag value`.
    Value,
}

/// Switches of kube-apiserver.
const SWITCHES: [&str; 11] = [
    "contention-profiling",
    "emulation-forward-compatible",
    "enable-logs-handler",
    "log-json-split-stream",
    "log-text-split-stream",
    "permit-address-sharing",
    "permit-port-sharing",
    "profiling",
    "runtime-config-emulation-forward-compatible",
    "service-account-lookup",
    "shutdown-send-retry-after",
];

/// Flags of kube-apiserver that have a value.
const VALUES: [&str; 31] = [
    "allow-metric-labels",
    "allow-metric-labels-manifest",
    "coordinated-leadership-lease-duration",
    "coordinated-leadership-renew-deadline",
    "coordinated-leadership-retry-period",
    "debug-socket-path",
    "disabled-metrics",
    "emulated-version",
    "external-hostname",
    "kubelet-certificate-authority",
    "kubelet-client-certificate",
    "kubelet-client-key",
    "kubelet-preferred-address-types",
    "kubelet-timeout",
    "kubernetes-service-node-port",
    "log-flush-frequency",
    "log-json-info-buffer-size",
    "log-text-info-buffer-size",
    "logging-format",
    "max-connection-bytes-per-sec",
    "min-compatibility-version",
    "peer-advertise-ip",
    "peer-advertise-port",
    "peer-ca-file",
    "show-hidden-metrics-for-version",
    "shutdown-watch-termination-grace-period",
    "storage-initialization-timeout",
    "tls-curve-preferences",
    "tracing-config-file",
    "vmodule",
    "service-account-signing-endpoint",
];

/// The flags that mean nothing, in the order of the alphabet.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    let names: BTreeSet<&str> = SWITCHES.iter().chain(&VALUES).copied().collect();
    names.into_iter()
}

/// A command line without the flags that mean nothing.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Reduced {
    /// What is left of it.
    pub(crate) words: Vec<OsString>,
    /// The flags that were taken away, each once.
    pub(crate) ignored: BTreeSet<String>,
}

/// Takes flags of kube-apiserver that `command` does not know away from a command line that serves. Underscores in names of
/// flags are hyphens, as kube-apiserver has them.
pub(crate) fn reduce(words: impl IntoIterator<Item = OsString>, command: &Command) -> Reduced {
    let mut reduced = Reduced {
        words: Vec::new(),
        ignored: BTreeSet::new(),
    };
    let mut words = words.into_iter().peekable();
    reduced.words.extend(words.next());
    let is_flag = |word: &OsString| word.as_encoded_bytes().starts_with(b"-");
    if words.peek().is_some_and(|first| !is_flag(first)) {
        reduced.words.extend(words);
        return reduced;
    }
    while let Some(word) = words.next() {
        let Some((name, value)) = flag(&word) else {
            reduced.words.push(word);
            continue;
        };
        let known = command
            .get_arguments()
            .any(|argument| argument.get_long() == Some(&name));
        match (known, kind(&name)) {
            (false, Some(kind)) => {
                if kind == Kind::Value && value.is_none() {
                    words.next();
                }
                reduced.ignored.insert(name);
            }
            _ => {
                let mut word = OsString::from(format!("--{name}"));
                if let Some(value) = value {
                    word.push("=");
                    word.push(value);
                }
                reduced.words.push(word);
            }
        }
    }
    reduced
}

/// Says once which flags were taken and change nothing.
pub(crate) fn report<'n>(names: impl IntoIterator<Item = &'n str>) {
    let flags: Vec<String> = names.into_iter().map(|name| format!("--{name}")).collect();
    if !flags.is_empty() {
        tracing::warn!(
            flags = flags.join(" "),
            "these flags of kube-apiserver are taken and change nothing"
        );
    }
}

/// The name of a flag and what follows its equals sign; `None` for what is no long flag, or has a name that is no text.
fn flag(word: &OsStr) -> Option<(String, Option<OsString>)> {
    let text = word.to_str()?.strip_prefix("--")?;
    if text.is_empty() {
        return None;
    }
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, Some(value.into())),
        None => (text, None),
    };
    Some((name.replace('_', "-"), value))
}

fn kind(name: &str) -> Option<Kind> {
    if SWITCHES.contains(&name) {
        return Some(Kind::Switch);
    }
    VALUES.contains(&name).then_some(Kind::Value)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::flags::Arguments;

    fn reduced(words: &[&str]) -> (Vec<String>, Vec<String>) {
        let words = std::iter::once("holdfast")
            .chain(words.iter().copied())
            .map(OsString::from);
        let reduced = reduce(words, &Arguments::command());
        let words = reduced.words.into_iter().skip(1);
        let words = words.map(|word| word.into_string().unwrap()).collect();
        (words, reduced.ignored.into_iter().collect())
    }

    #[test]
    fn flags_without_meaning_go_with_their_values() {
        let (words, ignored) = reduced(&[
            "--profiling=false",
            "--secure-port=1",
            "--kubelet-timeout",
            "5s",
            "--contention-profiling",
            "--vmodule=a=2",
            "--vmodule=b=3",
            "--anonymous-auth",
        ]);
        assert_eq!(words, ["--secure-port=1", "--anonymous-auth"]);
        assert_eq!(
            ignored,
            ["contention-profiling", "kubelet-timeout", "profiling", "vmodule"]
        );
    }

    #[test]
    fn underscores_are_hyphens_in_names_alone() {
        assert_eq!(
            reduced(&["--secure_port=1", "--kubelet_timeout=1s", "--token_auth_file=a_b"]).0,
            ["--secure-port=1", "--token-auth-file=a_b"]
        );
    }

    #[test]
    fn what_is_unknown_is_left_to_be_refused() {
        let (words, ignored) = reduced(&["--no-such-flag=1", "--", "-v=2"]);
        assert_eq!(words, ["--no-such-flag=1", "--", "-v=2"]);
        assert_eq!(ignored, [""; 0]);
    }

    #[test]
    fn command_lines_of_commands_are_left_alone() {
        let words = ["blame", "--profiling", "pod", "x"];
        assert_eq!(reduced(&words).0, words);
    }

    #[test]
    fn flags_that_are_known_stand_in_no_list() {
        let command = Arguments::command();
        let known: BTreeSet<&str> = command
            .get_arguments()
            .filter_map(|argument| argument.get_long())
            .collect();
        let doubled: Vec<&&str> = SWITCHES
            .iter()
            .chain(&VALUES)
            .filter(|name| known.contains(**name))
            .collect();
        assert!(doubled.is_empty(), "{doubled:?}");
    }

    #[test]
    fn no_flag_stands_in_two_lists() {
        assert_eq!(names().count(), SWITCHES.len() + VALUES.len());
    }
}
