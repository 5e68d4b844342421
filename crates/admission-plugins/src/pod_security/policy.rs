//! Policy of a namespace for its pods, from its labels:
//! <https://kubernetes.io/docs/concepts/security/pod-security-admission/>.

use std::fmt;

use holdfast_schema::{FieldError, FieldPath};
use holdfast_value::Value;

/// Level of a standard; each level forbids more than the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    Privileged,
    Baseline,
    Restricted,
}

impl Level {
    /// Returns the level of that name.
    pub(super) fn from_name(name: &str) -> Option<Self> {
        let levels = [Self::Privileged, Self::Baseline, Self::Restricted];
        levels.into_iter().find(|level| level.name() == name)
    }

    /// Returns the name that labels of namespaces use.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Privileged => "privileged",
            Self::Baseline => "baseline",
            Self::Restricted => "restricted",
        }
    }
}

/// Minor version of the standards; `None` is the latest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Version(pub(super) Option<u32>);

/// Level in a specific version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Standard {
    pub(super) level: Level,
    pub(super) version: Version,
}

/// Standards of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Policy {
    /// Standard whose violation rejects a Pod.
    pub(super) enforce: Standard,
    /// Standard whose violations by pods or templates are recorded in the audit log.
    pub(super) audit: Standard,
    /// Standard whose violations by pods or templates cause warnings.
    pub(super) warn: Standard,
}

/// Standard that forbids nothing.
pub(super) const OPEN: Standard = Standard {
    level: Level::Privileged,
    version: Version(None),
};

/// Mode in which a standard is evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Enforce,
    Audit,
    Warn,
}

impl Mode {
    /// Returns the name in labels, configurations and metrics.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Enforce => "enforce",
            Self::Audit => "audit",
            Self::Warn => "warn",
        }
    }
}

/// Labels for the level and the version of a mode.
struct Labels {
    level: &'static str,
    version: &'static str,
}

const ENFORCE: Labels = Labels {
    level: "pod-security.kubernetes.io/enforce",
    version: "pod-security.kubernetes.io/enforce-version",
};
const AUDIT: Labels = Labels {
    level: "pod-security.kubernetes.io/audit",
    version: "pod-security.kubernetes.io/audit-version",
};
const WARN: Labels = Labels {
    level: "pod-security.kubernetes.io/warn",
    version: "pod-security.kubernetes.io/warn-version",
};

impl Standard {
    /// Returns true if the standard has version `1.minor` or newer.
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
    /// Returns true if no mode restricts anything.
    pub(super) fn is_open(&self) -> bool {
        let standards = [self.enforce, self.audit, self.warn];
        standards.iter().all(|standard| standard.level == Level::Privileged)
    }

    /// Returns the policy of a namespace from its labels, and their errors; `defaults` is that of namespaces without
    /// labels. An invalid level enforces the restricted level, and causes no audit records or warnings.
    pub(super) fn of_namespace(namespace: &Value, defaults: Self) -> (Self, Vec<FieldError>) {
        let Some(labels) = namespace.at(&["metadata", "labels"]) else {
            return (defaults, Vec::new());
        };
        let mut errors = Vec::new();
        let (enforce, enforces) = standard(labels, &ENFORCE, defaults.enforce, Level::Restricted, &mut errors);
        let (audit, _) = standard(labels, &AUDIT, defaults.audit, Level::Privileged, &mut errors);
        let (mut warn, warns) = standard(labels, &WARN, defaults.warn, Level::Privileged, &mut errors);
        if enforces && !warns {
            warn.level = enforce.level;
            if labels.str_at(&[WARN.version]).is_none() {
                warn.version = enforce.version;
            }
        }
        (Self { enforce, audit, warn }, errors)
    }
}

/// Returns the standard of a mode, and true if its level is set. Without labels it is `default`.
fn standard(
    labels: &Value,
    mode: &Labels,
    default: Standard,
    unreadable: Level,
    errors: &mut Vec<FieldError>,
) -> (Standard, bool) {
    let mut standard = default;
    let level = labels.str_at(&[mode.level]);
    if let Some(text) = level {
        standard.level = Level::from_name(text).unwrap_or_else(|| {
            let why = "must be one of privileged, baseline, restricted";
            errors.push(error(mode.level, text, why));
            unreadable
        });
    }
    if let Some(text) = labels.str_at(&[mode.version]) {
        standard.version = Version(minor(text));
        if standard.version.0.is_none() && text != "latest" {
            errors.push(error(mode.version, text, "must be \"latest\" or \"v1.x\""));
        }
    }
    (standard, level.is_some())
}

/// Returns the number of `v1.NUMBER`, which has no leading zeros.
pub(super) fn minor(text: &str) -> Option<u32> {
    let digits = text.strip_prefix("v1.")?;
    let well_formed = digits.bytes().all(|byte| byte.is_ascii_digit()) && (digits == "0" || !digits.starts_with('0'));
    if well_formed { digits.parse().ok() } else { None }
}

fn error(label: &str, value: &str, why: &str) -> FieldError {
    let place = FieldPath::new("metadata").child("labels").key(label);
    FieldError::invalid(&place, value, why)
}
