//! What a namespace asks of its pods by its labels:
//! <https://kubernetes.io/docs/concepts/security/pod-security-admission/>.

use std::fmt;

use holdfast_resource::{FieldError, FieldPath};
use holdfast_value::Value;

/// How much is forbidden; each level forbids more than the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    Privileged,
    Baseline,
    Restricted,
}

impl Level {
    /// Returns the name that labels of namespaces use.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Privileged => "privileged",
            Self::Baseline => "baseline",
            Self::Restricted => "restricted",
        }
    }
}

/// A minor version of the standards; `None` is the latest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Version(pub(super) Option<u32>);

/// A level as it was in some version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Standard {
    pub(super) level: Level,
    pub(super) version: Version,
}

/// What holds in a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Policy {
    /// Pods that violate it are refused.
    pub(super) enforce: Standard,
    /// The audit log reports pods and templates that violate it.
    pub(super) audit: Standard,
    /// Writers of pods or templates that violate it are warned.
    pub(super) warn: Standard,
}

/// What forbids nothing.
pub(super) const OPEN: Standard = Standard {
    level: Level::Privileged,
    version: Version(None),
};

/// The labels that state the level and the version of a mode.
struct Mode {
    level: &'static str,
    version: &'static str,
}

const ENFORCE: Mode = Mode {
    level: "pod-security.kubernetes.io/enforce",
    version: "pod-security.kubernetes.io/enforce-version",
};
const AUDIT: Mode = Mode {
    level: "pod-security.kubernetes.io/audit",
    version: "pod-security.kubernetes.io/audit-version",
};
const WARN: Mode = Mode {
    level: "pod-security.kubernetes.io/warn",
    version: "pod-security.kubernetes.io/warn-version",
};

impl Standard {
    /// Whether the standard is at least as new as that of `1.minor`.
    pub(super) fn is_since(self, minor: u32) -> bool {
        self.version.0.is_none_or(|version| version >= minor)
    }
}

impl fmt::Display for Standard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = self.level.name();
        match self.version.0 {
            None => write!(f, "{level}:latest"),
            Some(minor) => write!(f, "{level}:v1.{minor}"),
        }
    }
}

impl Policy {
    /// Whether no level restricts anything.
    pub(super) fn is_open(&self) -> bool {
        let standards = [self.enforce, self.audit, self.warn];
        standards.iter().all(|standard| standard.level == Level::Privileged)
    }

    /// What the labels of a namespace ask for, and what is wrong with them. What cannot be read enforces the most and
    /// warns of nothing.
    pub(super) fn of_namespace(namespace: &Value) -> (Self, Vec<FieldError>) {
        let Some(labels) = namespace.at(&["metadata", "labels"]) else {
            let policy = Self {
                enforce: OPEN,
                audit: OPEN,
                warn: OPEN,
            };
            return (policy, Vec::new());
        };
        let mut errors = Vec::new();
        let (enforce, enforces) = standard(labels, &ENFORCE, Level::Restricted, &mut errors);
        let (audit, _) = standard(labels, &AUDIT, Level::Privileged, &mut errors);
        let (mut warn, warns) = standard(labels, &WARN, Level::Privileged, &mut errors);
        if enforces && !warns {
            warn.level = enforce.level;
            if labels.str_at(&[WARN.version]).is_none() {
                warn.version = enforce.version;
            }
        }
        (Self { enforce, audit, warn }, errors)
    }
}

/// The standard of a mode, and whether its level is stated.
fn standard(labels: &Value, mode: &Mode, unreadable: Level, errors: &mut Vec<FieldError>) -> (Standard, bool) {
    let mut standard = OPEN;
    let level = labels.str_at(&[mode.level]);
    if let Some(text) = level {
        standard.level = match text {
            "privileged" => Level::Privileged,
            "baseline" => Level::Baseline,
            "restricted" => Level::Restricted,
            _ => {
                errors.push(fault(
                    mode.level,
                    text,
                    "must be one of privileged, baseline, restricted",
                ));
                unreadable
            }
        };
    }
    if let Some(text) = labels.str_at(&[mode.version]).filter(|text| *text != "latest") {
        match minor(text) {
            Some(minor) => standard.version = Version(Some(minor)),
            None => errors.push(fault(mode.version, text, "must be \"latest\" or \"v1.x\"")),
        }
    }
    (standard, level.is_some())
}

/// The number of `v1.NUMBER`, which has no leading zeros.
fn minor(text: &str) -> Option<u32> {
    let digits = text.strip_prefix("v1.")?;
    let well_formed = digits.bytes().all(|byte| byte.is_ascii_digit()) && (digits == "0" || !digits.starts_with('0'));
    if well_formed { digits.parse().ok() } else { None }
}

fn fault(label: &str, value: &str, why: &str) -> FieldError {
    let place = FieldPath::new("metadata").child("labels").key(label);
    FieldError::invalid(&place, value, why)
}
