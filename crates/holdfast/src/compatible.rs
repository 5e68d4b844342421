//! Flags of kube-apiserver 1.36 and their effect in Holdfast
//! (<https://kubernetes.io/docs/reference/command-line-tools-reference/kube-apiserver/>).
//!
//! Command lines written for kube-apiserver start Holdfast: flags without effect are removed and logged. A flag that
//! Holdfast does not support yet ends the process with an error that names it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};

use clap::Command;

use crate::help::SERVERS;

/// State of a flag of kube-apiserver in Holdfast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FlagState {
    /// The flag has the same effect as in kube-apiserver.
    Supported,
    /// The flag is accepted and has no effect, for this reason.
    NoEffect(&'static str),
    /// The flag is rejected.
    Unsupported,
    /// The flag is rejected, except with these values that describe what Holdfast does, with spaces between them.
    Fixed(&'static str),
}

/// A flag of kube-apiserver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReferenceFlag {
    /// Name without hyphens in front.
    pub(crate) name: &'static str,
    /// State of the flag in Holdfast.
    pub(crate) state: FlagState,
    /// True if a value always follows: `--flag=value` or `--flag value`. Otherwise `--flag` and `--flag=true` are the same.
    /// Unused for supported flags, which the command line of Holdfast describes.
    takes_value: bool,
    /// True if a supported flag with an empty value counts as absent.
    is_unset_by_empty: bool,
}

impl ReferenceFlag {
    /// Parses a line of the table. Returns `None` for comments.
    fn parse(line: &'static str) -> Option<Self> {
        let (name, rest) = line.split_once(' ').filter(|(name, _)| !name.starts_with('#'))?;
        let (kind, state) = rest.split_once(' ').unwrap_or(("", rest));
        let state = match state.strip_prefix("no-effect ") {
            Some(reason) => FlagState::NoEffect(reason),
            None if state == "unsupported" => FlagState::Unsupported,
            None => state
                .strip_prefix("fixed ")
                .map_or(FlagState::Supported, FlagState::Fixed),
        };
        Some(Self {
            name,
            state,
            takes_value: kind == "value",
            is_unset_by_empty: state == FlagState::Supported && rest == "supported or-empty",
        })
    }

    /// True if the flag asks for nothing: an empty value, a switch that is off, or the only value of a fixed flag. It is accepted
    /// even if unsupported.
    fn is_unset(&self, value: Option<&OsStr>) -> bool {
        let off: &[&str] = match self.takes_value {
            true => &[""],
            false => &["false", "False", "FALSE", "f", "F", "0"],
        };
        let fixed = match self.state {
            FlagState::Fixed(values) => values,
            _ => "",
        };
        value.is_some_and(|value| {
            off.iter()
                .copied()
                .chain(fixed.split_whitespace())
                .any(|same| value == same)
        })
    }
}

/// Returns all flags of kube-apiserver, in the order of the alphabet.
pub(crate) fn reference_flags() -> impl Iterator<Item = ReferenceFlag> {
    include_str!("kube_apiserver_flags.txt")
        .lines()
        .filter_map(ReferenceFlag::parse)
}

/// A command line without the flags that have no effect.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Reduced {
    /// Remaining words.
    pub(crate) words: Vec<OsString>,
    /// Removed flags without effect, each once.
    pub(crate) ignored: BTreeSet<String>,
    /// Removed flags that Holdfast does not support, each once.
    pub(crate) unsupported: BTreeSet<String>,
}

impl Reduced {
    /// Returns the error that names the unsupported flags, if there are any.
    pub(crate) fn error(&self) -> Option<String> {
        if self.unsupported.is_empty() {
            return None;
        }
        let flags: Vec<String> = self.unsupported.iter().map(|name| format!("--{name}")).collect();
        Some(format!("not supported by Holdfast yet: {}", flags.join(", ")))
    }
}

/// Returns the long names of the flags of a command, with aliases.
fn long_names(command: &Command) -> BTreeSet<&str> {
    let names = command.get_arguments().flat_map(|argument| {
        let aliases = argument.get_all_aliases().unwrap_or_default();
        argument.get_long().into_iter().chain(aliases)
    });
    names.collect()
}

/// Removes flags of kube-apiserver that `command` does not know from a command line that serves, and flags without a value that
/// kube-apiserver regards as absent. Underscores in names of flags become hyphens, as in kube-apiserver.
pub(crate) fn reduce(words: impl IntoIterator<Item = OsString>, command: &Command) -> Reduced {
    let mut reduced = Reduced {
        words: Vec::new(),
        ignored: BTreeSet::new(),
        unsupported: BTreeSet::new(),
    };
    let mut words = words.into_iter().peekable();
    reduced.words.extend(words.next());
    let is_flag = |word: &OsString| word.as_encoded_bytes().starts_with(b"-");
    if let Some(first) = words.next_if(|first| !is_flag(first)) {
        let is_of_server = SERVERS.iter().any(|command| first == *command);
        reduced.words.push(first);
        if !is_of_server {
            reduced.words.extend(words);
            return reduced;
        }
    }
    let own = long_names(command);
    let unknown: BTreeMap<&str, ReferenceFlag> = reference_flags()
        .filter(|flag| !own.contains(flag.name))
        .map(|flag| (flag.name, flag))
        .collect();
    let unset_by_empty: BTreeSet<&str> = reference_flags()
        .filter(|flag| flag.is_unset_by_empty)
        .map(|flag| flag.name)
        .collect();
    let mut seen = BTreeSet::new();
    while let Some(word) = words.next() {
        if word == "--" {
            reduced.words.push(word);
            reduced.words.extend(words);
            break;
        }
        let Some((name, mut value)) = flag(&word) else {
            reduced.words.push(word);
            continue;
        };
        // The value of an earlier flag is not forgotten silently: then the parser rejects the empty one.
        if seen.insert(name.clone()) && unset_by_empty.contains(name.as_str()) {
            let is_empty = match &value {
                Some(value) => value.is_empty(),
                None => words.next_if(|next| next.is_empty()).is_some(),
            };
            if is_empty {
                continue;
            }
        }
        let state = unknown.get(name.as_str()).map(|flag| (flag, flag.state));
        let Some((flag, state @ (FlagState::NoEffect(_) | FlagState::Unsupported | FlagState::Fixed(_)))) = state
        else {
            let mut word = OsString::from(format!("--{name}"));
            if let Some(value) = value {
                word.push("=");
                word.push(value);
            }
            reduced.words.push(word);
            continue;
        };
        if flag.takes_value && value.is_none() {
            value = words.next();
        }
        if !matches!(state, FlagState::NoEffect(_)) && !flag.is_unset(value.as_deref()) {
            reduced.unsupported.insert(name);
        } else {
            reduced.ignored.insert(name);
        }
    }
    reduced
}

/// Logs once which flags were accepted and have no effect.
pub(crate) fn report<'n>(names: impl IntoIterator<Item = &'n str>) {
    let flags: Vec<String> = names.into_iter().map(|name| format!("--{name}")).collect();
    if !flags.is_empty() {
        tracing::warn!(
            flags = flags.join(" "),
            "these flags of kube-apiserver are taken and change nothing"
        );
    }
}

/// Splits a word into the name of a flag and the text after its equals sign; `None` if it is not a long flag, or its
/// name is not text.
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
        let arguments = reduced.words.into_iter().skip(1);
        let words = arguments.map(|word| word.into_string().unwrap()).collect();
        (words, reduced.ignored.into_iter().collect())
    }

    #[test]
    fn flags_without_meaning_go_with_their_values() {
        let (words, ignored) = reduced(&[
            "--enable-logs-handler=false",
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
            [
                "contention-profiling",
                "enable-logs-handler",
                "kubelet-timeout",
                "vmodule"
            ]
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
    fn empty_values_unset_flags_of_files_and_lists() {
        let words = [
            "--client-ca-file=",
            "--tls_cert_file",
            "",
            "--enable-admission-plugins=",
            "--v=1",
        ];
        assert_eq!(reduced(&words).0, ["--v=1"]);
        // Values that follow, repeated flags, and flags that kube-apiserver does not unset are the parser's.
        let words = [
            "--client-ca-file",
            "a",
            "--client-ca-file=",
            "--service-account-issuer=",
        ];
        assert_eq!(reduced(&words).0, words);
    }

    #[test]
    fn unknown_flags_are_kept_for_the_parser() {
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
    fn unsupported_flags_are_rejected_by_name() {
        let error = |words: &[&str]| {
            let words = std::iter::once("holdfast")
                .chain(words.iter().copied())
                .map(OsString::from);
            reduce(words, &Arguments::command()).error()
        };
        let expected = Some("not supported by Holdfast yet: --admission-control");
        let words = ["--admission-control=AlwaysAdmit", "--secure-port=1"];
        assert_eq!(error(&words).as_deref(), expected);
        assert_eq!(error(&["--admission_control", "a"]).as_deref(), expected);
        assert_eq!(error(&["--admission-control=", "--vmodule="]), None);
    }

    #[test]
    fn release_other_than_own_is_rejected() {
        let error = |word: &str| {
            let words = ["holdfast", word].map(OsString::from);
            reduce(words, &Arguments::command()).error()
        };
        for accepted in [
            "--emulated-version=1.36",
            "--emulated-version=kube=1.36",
            "--emulated-version=",
            "--min-compatibility-version=1.35",
            "--emulation-forward-compatible=false",
        ] {
            assert_eq!(error(accepted), None, "{accepted}");
        }
        for rejected in [
            "--emulated-version=1.35",
            "--emulated-version=kube=1.37",
            "--min-compatibility-version=1.36",
            "--emulation-forward-compatible",
            "--runtime-config-emulation-forward-compatible=true",
        ] {
            let name = rejected.split('=').next().unwrap();
            let expected = format!("not supported by Holdfast yet: {name}");
            assert_eq!(error(rejected), Some(expected), "{rejected}");
        }
    }

    #[test]
    fn command_line_has_every_supported_flag() {
        let mut command = Arguments::command();
        command.build();
        let own = long_names(&command);
        for flag in reference_flags() {
            match flag.state {
                FlagState::Supported => assert!(own.contains(flag.name), "{} is unknown", flag.name),
                FlagState::Unsupported | FlagState::Fixed(_) => {
                    assert!(!own.contains(flag.name), "{} is known", flag.name);
                }
                FlagState::NoEffect(reason) => assert!(!reason.is_empty(), "{} has no reason", flag.name),
            }
        }
    }

    #[test]
    fn reference_flags_are_in_order_and_unique() {
        let names: Vec<&str> = reference_flags().map(|flag| flag.name).collect();
        assert!(names.is_sorted_by(|one, next| one < next), "{names:?}");
        let lines = include_str!("kube_apiserver_flags.txt").lines();
        assert_eq!(names.len(), lines.filter(|line| !line.starts_with('#')).count());
    }

    #[test]
    fn security_flags_are_never_without_effect() {
        let of_security = [
            "anonymous-",
            "api-audiences",
            "audit-",
            "authentication-",
            "authorization-",
            "client-ca-",
            "egress-",
            "enable-admission",
            "enable-bootstrap-",
            "encryption-",
            "oidc-",
            "requestheader-",
            "service-account-issuer",
            "service-account-key-",
            "service-account-signing-",
            "strict-transport-",
            "tls-",
            "token-auth-",
        ];
        for flag in reference_flags().filter(|flag| of_security.iter().any(|prefix| flag.name.starts_with(prefix))) {
            assert!(
                !matches!(flag.state, FlagState::NoEffect(_)),
                "{} is ignored",
                flag.name
            );
        }
    }
}
