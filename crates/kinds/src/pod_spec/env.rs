//! Environment of a container, and field and resource selectors as values.

use holdfast_schema::metadata::formats::{Messages, dns_subdomain, qualified_name};
use holdfast_schema::{AnyRules, Check, Field, Part};

use super::volumes::Volumes;
use crate::validation::resources::validate_divisor;
use crate::validation::{Errors, required_text};

/// Destination of a value that is read from the Pod itself.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum DownwardTo {
    /// Environment variable.
    Env,
    /// File of a volume.
    Volume,
}

const NAME: &str = "a valid environment variable name must consist only of printable ASCII characters other than '='";

/// Fields of a Pod that can be selected.
const POD_FIELDS: [&str; 14] = [
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.phase",
    "status.podIP",
    "status.podIPs",
];
const ENV_FIELDS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
const VOLUME_FIELDS: [&str; 5] = [
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
];
const CONTAINER_RESOURCES: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

/// Validates a list of variables.
///
/// upstream: pkg/apis/core/validation#ValidateEnv
pub(super) fn validate_env<'v>(container: &Part<'v, '_>, rules: &dyn AnyRules<'v>, check: &mut Check<'_>) {
    let env = container.child("env");
    for variable in check.items(container, "env", &env) {
        let errors = &mut check.errors;
        let name = variable.child("name");
        let text = name.text();
        if text.is_empty() {
            errors.push(name.required(""));
        } else if !text.bytes().all(|byte| (b' '..=b'~').contains(&byte) && byte != b'=') {
            errors.push(name.invalid(NAME));
        }
        validate_value_from(&variable, rules, check);
    }
}

/// upstream: pkg/apis/core/validation#validateEnvVarValueFrom
fn validate_value_from<'v>(variable: &Part<'v, '_>, rules: &dyn AnyRules<'v>, check: &mut Check<'_>) {
    let Some(from) = check.child(variable, "valueFrom").filter(|from| from.is_set()) else {
        return;
    };
    let errors = &mut check.errors;
    let mut sources = 0;
    let field = from.child("fieldRef");
    if field.is_set() {
        sources += 1;
        validate_field_selector(&field, DownwardTo::Env, errors);
    }
    let resource = from.child("resourceFieldRef");
    if resource.is_set() {
        sources += 1;
        validate_resource_selector(&resource, DownwardTo::Env, errors);
    }
    for part in ["configMapKeyRef", "secretKeyRef", "fileKeyRef"] {
        sources += usize::from(from.child(part).is_set());
        check.field(&from, part, rules);
    }
    let message = match sources {
        0 => "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`",
        _ if !variable.child("value").text().is_empty() => "may not be specified when `value` is not empty",
        1 => return,
        _ => "may not have more than one field specified at a time",
    };
    check.errors.push(from.invalid_as("", message));
}

/// Validates that the files that variables are read from are in emptyDir volumes of the Pod.
///
/// upstream: pkg/apis/core/validation#validateFileKeyRefVolumes
pub(super) fn validate_env_files(env: &Field<'_, '_>, volumes: &Volumes<'_>, errors: &mut Errors) {
    for variable in env.items() {
        let from = variable.child("valueFrom");
        let file = from.child("fileKeyRef");
        if !file.is_set() {
            continue;
        }
        let name = file.child("volumeName");
        match volumes.get(name.text()) {
            None => errors.push(name.not_found()),
            Some(volume) if volume.get("emptyDir").is_none() => {
                errors.push(name.invalid("referenced volume must be of type emptyDir"));
            }
            Some(_) => {}
        }
    }
}

/// Validates sources of whole sets of variables.
///
/// upstream: pkg/apis/core/validation#ValidateEnvFrom
pub(super) fn validate_env_from(sources: &Field<'_, '_>, errors: &mut Errors) {
    for source in sources.items() {
        let prefix = source.child("prefix");
        if !prefix
            .text()
            .bytes()
            .all(|byte| (b' '..=b'~').contains(&byte) && byte != b'=')
        {
            errors.push(prefix.invalid(NAME));
        }
        let mut found = 0;
        for part in ["configMapRef", "secretRef"] {
            let reference = source.child(part);
            if reference.is_set() {
                found += 1;
                // The reference validates the name like a name prefix.
                required_text(&reference.child("name"), prefix_errors, errors);
            }
        }
        match found {
            0 => errors.push(sources.invalid_as("", "must specify one of: `configMapRef` or `secretRef`")),
            1 => {}
            _ => errors.push(sources.invalid_as("", "may not have more than one field specified at a time")),
        }
    }
}

/// Returns the errors of a name prefix.
fn prefix_errors(name: &str) -> Messages {
    match name.strip_suffix('-') {
        Some(head) if !head.is_empty() => dns_subdomain(&format!("{head}a")),
        _ => dns_subdomain(name),
    }
}

/// Validates a selector of a field of the Pod.
///
/// upstream: pkg/apis/core/validation#validateObjectFieldSelector
pub(super) fn validate_field_selector(selector: &Field<'_, '_>, to: DownwardTo, errors: &mut Errors) {
    let (version, path) = (selector.child("apiVersion"), selector.child("fieldPath"));
    if version.text().is_empty() {
        errors.push(version.required(""));
        return;
    }
    let text = path.text();
    if text.is_empty() {
        errors.push(path.required(""));
        return;
    }
    if version.text() != "v1" {
        let version = version.text();
        errors.push(path.invalid(format!(
            "error converting fieldPath: unsupported pod version: {version}"
        )));
        return;
    }
    let subscript = text.strip_suffix("']").and_then(|text| text.split_once("['"));
    if let Some((map, key)) = subscript.filter(|(map, _)| !map.is_empty()) {
        let key = match map {
            "metadata.annotations" => &key.to_lowercase(),
            "metadata.labels" => key,
            _ => {
                errors.push(path.invalid(format!(
                    "error converting fieldPath: field label does not support subscript: {text}"
                )));
                return;
            }
        };
        let messages = qualified_name(key);
        errors.extend(messages.into_iter().map(|message| selector.invalid_as(key, message)));
        return;
    }
    let known = if text == "spec.host" { "spec.nodeName" } else { text };
    if !POD_FIELDS.contains(&known) {
        errors.push(path.invalid(format!("error converting fieldPath: field label not supported: {text}")));
        return;
    }
    let supported: &[&str] = match to {
        DownwardTo::Env => &ENV_FIELDS,
        DownwardTo::Volume => &VOLUME_FIELDS,
    };
    if !supported.contains(&known) {
        errors.push(holdfast_schema::FieldError::not_supported(
            &path.path(),
            known,
            supported,
        ));
    }
}

/// Validates a selector of a resource of a container.
///
/// upstream: pkg/apis/core/validation#validateContainerResourceFieldSelector
pub(super) fn validate_resource_selector(selector: &Field<'_, '_>, to: DownwardTo, errors: &mut Errors) {
    let (container, resource) = (selector.child("containerName"), selector.child("resource"));
    let name = resource.text();
    let huge_pages = name.starts_with("requests.hugepages-") || name.starts_with("limits.hugepages-");
    if to == DownwardTo::Volume && container.text().is_empty() {
        errors.push(container.required(""));
    } else if name.is_empty() {
        errors.push(resource.required(""));
    } else if !CONTAINER_RESOURCES.contains(&name) && !huge_pages {
        errors.push(resource.not_supported(&CONTAINER_RESOURCES));
    }
    validate_divisor(name, &selector.child("divisor"), errors);
}
