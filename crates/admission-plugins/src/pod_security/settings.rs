//! Configuration of the plugin: default standards and exemptions
//! (<https://kubernetes.io/docs/tasks/configure-pod-container/enforce-standards-admission-controller/>).

use holdfast_schema::metadata::formats::{dns_label, dns_subdomain};
use holdfast_schema::{Aggregate, FieldError, FieldPath};
use holdfast_value::Value;

use super::policy::{Level, Mode, OPEN, Policy, Standard, Version, minor};
use crate::common::{check_fields, texts};

/// Configuration of the plugin PodSecurity.
///
/// ```
/// use holdfast_admission_plugins::PodSecuritySettings;
/// use holdfast_value::{Limits, yaml};
///
/// let configuration = b"{exemptions: {namespaces: [kube-system]}}";
/// let configuration = yaml::parse(configuration, &Limits::default()).unwrap();
/// assert!(PodSecuritySettings::from_configuration(&configuration).is_ok());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodSecuritySettings {
    /// Standards of namespaces without labels.
    pub(super) defaults: Policy,
    usernames: Vec<String>,
    namespaces: Vec<String>,
    runtime_classes: Vec<String>,
}

impl Default for PodSecuritySettings {
    fn default() -> Self {
        Self {
            defaults: Policy {
                enforce: OPEN,
                audit: OPEN,
                warn: OPEN,
            },
            usernames: Vec::new(),
            namespaces: Vec::new(),
            runtime_classes: Vec::new(),
        }
    }
}

impl PodSecuritySettings {
    /// Reads a `PodSecurityConfiguration`.
    ///
    /// # Errors
    /// If the configuration has fields or values that the reference rejects.
    ///
    /// upstream: k8s.io/pod-security-admission/admission/api/validation#ValidatePodSecurityConfiguration
    pub fn from_configuration(configuration: &Value) -> Result<Self, String> {
        const LISTS: [&str; 3] = ["usernames", "namespaces", "runtimeClasses"];
        const DEFAULTS: [&str; 6] = [
            "enforce",
            "enforce-version",
            "audit",
            "audit-version",
            "warn",
            "warn-version",
        ];
        check_fields(configuration, "", &["apiVersion", "kind", "defaults", "exemptions"])?;
        let nothing = Value::empty_map();
        let part = |name: &str| {
            configuration
                .get(name)
                .filter(|part| !part.is_null())
                .unwrap_or(&nothing)
        };
        let (defaults, exemptions) = (part("defaults"), part("exemptions"));
        check_fields(defaults, "defaults.", &DEFAULTS)?;
        check_fields(exemptions, "exemptions.", &LISTS)?;
        let mut errors = Vec::new();
        let mut standard = |mode: Mode| default_standard(defaults, mode.name(), &mut errors);
        let defaults = Policy {
            enforce: standard(Mode::Enforce),
            warn: standard(Mode::Warn),
            audit: standard(Mode::Audit),
        };
        let settings = Self {
            defaults,
            namespaces: exempt(exemptions, "namespaces", &|name| joined(dns_label(name)), &mut errors),
            runtime_classes: exempt(
                exemptions,
                "runtimeClasses",
                &|name| joined(dns_subdomain(name)),
                &mut errors,
            ),
            usernames: exempt(
                exemptions,
                "usernames",
                &|name| {
                    if name.is_empty() {
                        "username must not be empty".to_owned()
                    } else {
                        String::new()
                    }
                },
                &mut errors,
            ),
        };
        match errors.is_empty() {
            true => Ok(settings),
            false => Err(Aggregate(&errors).to_string()),
        }
    }

    /// Returns true if the namespace is exempt.
    pub(super) fn exempts_namespace(&self, namespace: &str) -> bool {
        self.namespaces.iter().any(|exempt| exempt == namespace)
    }

    /// Returns true if the requester is exempt.
    pub(super) fn exempts_user(&self, username: &str) -> bool {
        self.usernames.iter().any(|exempt| exempt == username)
    }

    /// Returns true if the runtime class of a Pod is exempt.
    pub(super) fn exempts_runtime_class(&self, pod: &Value) -> bool {
        let class = pod.str_at(&["spec", "runtimeClassName"]);
        class.is_some_and(|class| self.runtime_classes.iter().any(|exempt| exempt == class))
    }
}

fn joined(messages: impl IntoIterator<Item = impl ToString>) -> String {
    let messages: Vec<String> = messages.into_iter().map(|detail| detail.to_string()).collect();
    messages.join(", ")
}

/// Reads the default standard of a mode: the lowest level in the latest version if it is not set.
fn default_standard(defaults: &Value, mode: &str, errors: &mut Vec<FieldError>) -> Standard {
    let mut standard = OPEN;
    let text = |name: &str| defaults.str_at(&[name]).unwrap_or_default();
    let field = FieldPath::new("defaults");
    let level = text(mode);
    match Level::from_name(level) {
        Some(level) => standard.level = level,
        None if level.is_empty() => {}
        None => {
            let why = "must be one of privileged, baseline, restricted";
            errors.push(FieldError::invalid(&field.child(mode), level, why));
        }
    }
    let name = format!("{mode}-version");
    let version = text(&name);
    match minor(version) {
        Some(minor) => standard.version = Version(Some(minor)),
        None if matches!(version, "" | "latest") => {}
        None => {
            let why = "must be \"latest\" or \"v1.x\"";
            errors.push(FieldError::invalid(&field.child(&name), version, why));
        }
    }
    standard
}

/// Reads a list of exemptions. `error` returns the reason why a name is invalid; empty if it is valid.
fn exempt(
    exemptions: &Value,
    list: &str,
    detail: &dyn Fn(&str) -> String,
    errors: &mut Vec<FieldError>,
) -> Vec<String> {
    let names = texts(exemptions, list);
    for (at, name) in names.iter().enumerate() {
        let field = FieldPath::new("exemptions").child(list).index(at);
        let why = detail(name);
        if !why.is_empty() {
            errors.push(FieldError::invalid(&field, name.as_str(), why));
        } else if names.iter().take(at).any(|other| other == name) {
            errors.push(FieldError::duplicate(&field, name.as_str()));
        }
    }
    names
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "what fails here is the test")]
mod tests {
    use holdfast_value::{Limits, yaml};

    use super::*;

    #[test]
    fn invalid_configuration_is_rejected() {
        for (text, expected) in [
            (
                "{exemptions: {namespaces: [a, b], usernames: [c], runtimeClasses: [d.e]}}",
                None,
            ),
            (
                "{defaults: {enforce: baseline, enforce-version: v1.30, warn-version: latest}}",
                None,
            ),
            ("{other: 1}", Some("strict decoding error: unknown field \"other\"")),
            (
                "{exemptions: {users: [a]}}",
                Some("strict decoding error: unknown field \"exemptions.users\""),
            ),
            (
                "{defaults: {enforce: strict, audit-version: v2}, exemptions: {usernames: ['', a, a], namespaces: [A.]}}",
                Some(
                    "[defaults.enforce: Invalid value: \"strict\": must be one of privileged, baseline, restricted, \
                     defaults.audit-version: Invalid value: \"v2\": must be \"latest\" or \"v1.x\", \
                     exemptions.namespaces[0]: Invalid value: \"A.\": a lowercase RFC 1123 label must consist of lower case \
                     alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  \
                     or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?'), \
                     exemptions.usernames[0]: Invalid value: \"\": username must not be empty, \
                     exemptions.usernames[2]: Duplicate value: \"a\"]",
                ),
            ),
        ] {
            let configuration = yaml::parse(text.as_bytes(), &Limits::default()).unwrap();
            let read = PodSecuritySettings::from_configuration(&configuration);
            assert_eq!(read.err().as_deref(), expected, "{text}");
        }
    }
}
