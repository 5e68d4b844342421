//! Kinds of the group `internal.apiserver.k8s.io`: StorageVersions, with which API servers publish the version in which
//! each stores the objects of a resource.

use std::collections::HashSet;

use holdfast_kind_tables::Kind;
use holdfast_resource::table::{NamedCell, items};
use holdfast_resource::{Strategy, WriteContext};
use holdfast_schema::metadata::formats::{Messages, dns_label_1035, dns_subdomain, qualified_name};
use holdfast_schema::{Field, FieldError};
use holdfast_value::Value;

use crate::config::Config;
use crate::kind::kind;
use crate::validation::{Errors, report};

/// Returns the kind of the group with this plural name, with its capabilities.
pub(crate) fn kind_of(plural: &str, _config: &Config) -> Option<Kind> {
    let storage_versions = || {
        kind(StorageVersion)
            .named_by(name_errors)
            .cells(CELLS)
            .empty_status()
            .done()
    };
    (plural == "storageversions").then(storage_versions)
}

/// Rules of StorageVersions only.
struct StorageVersion;

/// Table cells.
const CELLS: &[NamedCell] = &[("storage-versions", |object, _| written_versions(object))];

/// Returns the versions that the first servers write, and the number of other servers.
fn written_versions(object: &Value) -> Value {
    const SHOWN: usize = 3;
    let all = items(object, &["status", "storageVersions"]);
    let text = |version: &Value, name: &str| version.str_at(&[name]).unwrap_or_default().to_owned();
    let shown: Vec<String> = all
        .iter()
        .take(SHOWN)
        .map(|version| format!("{}={}", text(version, "apiServerID"), text(version, "encodingVersion")))
        .collect();
    match (all.len(), shown.join(",")) {
        (0, _) => "<none>".into(),
        (count, shown) if count > SHOWN => format!("{shown} + {} more...", count - SHOWN).into(),
        (_, shown) => shown.into(),
    }
}

impl Strategy for StorageVersion {
    /// upstream: pkg/registry/apiserverinternal/storageversion#storageVersionStrategy.Validate
    fn validate(&self, _context: &WriteContext<'_>, object: &Value) -> Vec<FieldError> {
        validate_status(&Field::root(object).child("status"))
    }

    /// upstream: pkg/registry/apiserverinternal/storageversion#storageVersionStrategy.ValidateUpdate
    /// upstream: pkg/registry/apiserverinternal/storageversion#storageVersionStatusStrategy.ValidateUpdate
    fn validate_update(&self, context: &WriteContext<'_>, object: &Value, _old: &Value) -> Vec<FieldError> {
        match context.subresource {
            Some(_) => self.validate(context, object),
            None => Vec::new(),
        }
    }
}

/// Returns the errors of a name that is not `group.resource`.
///
/// upstream: pkg/apis/apiserverinternal/validation#ValidateStorageVersionName
fn name_errors(_object: &Value, name: &str) -> Messages {
    let Some((group, resource)) = name.rsplit_once('.') else {
        return vec!["name must be in the form of <group>.<resource>".into()];
    };
    let segment = |part: &str, details: Messages| -> Messages {
        let messages = details.into_iter();
        messages
            .map(|detail| format!("the {part} segment {detail}").into())
            .collect()
    };
    let mut details = segment("group", dns_subdomain(group));
    details.extend(segment("resource", dns_label_1035(resource)));
    details
}

/// Validates the status of a StorageVersion.
///
/// upstream: pkg/apis/apiserverinternal/validation#validateStorageVersionStatus
fn validate_status(status: &Field<'_, '_>) -> Errors {
    let mut errors = Errors::new();
    let versions = status.child("storageVersions");
    let mut servers = HashSet::new();
    for version in versions.items() {
        let server = version.child("apiServerID");
        if !servers.insert(server.text()) {
            errors.push(server.duplicate());
        }
        validate_server(&version, &mut errors);
    }
    validate_common(status, &mut errors);
    validate_conditions(status, &mut errors);
    errors
}

/// Validates the versions of one server.
///
/// upstream: pkg/apis/apiserverinternal/validation#validateServerStorageVersion
fn validate_server(version: &Field<'_, '_>, errors: &mut Errors) {
    let server = version.child("apiServerID");
    report(&server, dns_subdomain(server.text()), errors);
    let (encoding, decodable) = (version.child("encodingVersion"), version.child("decodableVersions"));
    validate_api_version(&encoding, errors);
    for one in decodable.items() {
        validate_api_version(&one, errors);
    }
    let decodes = |text: &str| decodable.items().any(|one| one.text() == text);
    if !decodes(encoding.text()) {
        let why = format!("decodableVersions must include encodingVersion {}", encoding.text());
        errors.push(decodable.invalid(why));
    }
    let served = version.child("servedVersions");
    for one in served.items() {
        validate_api_version(&one, errors);
        if !decodes(one.text()) {
            let all: Vec<&str> = decodable.items().map(|one| one.text()).collect();
            errors.push(one.invalid(format!(
                "individual served version : {} must be included in decodableVersions : [{}]",
                one.text(),
                all.join(" ")
            )));
        }
    }
}

/// Validates an API version.
///
/// upstream: pkg/apis/apiserverinternal/validation#isValidAPIVersion
fn validate_api_version(field: &Field<'_, '_>, errors: &mut Errors) {
    const ODD: &str = "an apiVersion is a DNS-1035 label, which must consist of lower case alphanumeric characters or '-', start \
         with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for \
         validation is '[a-z]([-a-z0-9]*[a-z0-9])?') with an optional DNS subdomain prefix and '/' (e.g. \
         'example.com/MyVersion')";
    let mut messages = Vec::new();
    let mut part = |name: &str, text: &str, details: fn(&str) -> Messages| match text {
        "" => messages.push(format!("{name} part: must be non-empty")),
        text => messages.extend(details(text).iter().map(|detail| format!("{name} part: {detail}"))),
    };
    match field.text().split('/').collect::<Vec<_>>().as_slice() {
        [version] => part("version", version, dns_label_1035),
        [group, version] => {
            part("group", group, dns_subdomain);
            part("version", version, dns_label_1035);
        }
        _ => messages.push(ODD.to_owned()),
    }
    if !messages.is_empty() {
        errors.push(field.invalid(messages.join(",")));
    }
}

/// Validates the common version, which all servers must write if they agree.
///
/// upstream: pkg/apis/apiserverinternal/validation#validateCommonVersion
fn validate_common(status: &Field<'_, '_>, errors: &mut Errors) {
    let versions = status.child("storageVersions");
    let mut written = versions
        .items()
        .map(|version| version.value().and_then(|of| of.str_at(&["encodingVersion"])));
    let first = written.next().map(Option::unwrap_or_default);
    let common = first.filter(|first| written.all(|other| other.unwrap_or_default() == *first));
    let stated = status.child("commonEncodingVersion");
    match (common, stated.is_set()) {
        (None, true) => errors.push(stated.invalid(
            "should be nil if servers do not agree on the same encoding version, or if there is no server reporting the \
             supported versions yet",
        )),
        (Some(common), false) => {
            errors.push(stated.invalid(format!("the common encoding version is {common}")));
        }
        (Some(common), true) if common != stated.text() => {
            errors.push(stated.invalid(format!("the actual common encoding version is {common}")));
        }
        _ => {}
    }
}

/// Validates conditions. The paths omit the name of the list.
///
/// upstream: pkg/apis/apiserverinternal/validation#validateStorageVersionCondition
fn validate_conditions(status: &Field<'_, '_>, errors: &mut Errors) {
    let conditions = status.child("conditions");
    let mut seen: Vec<&str> = Vec::new();
    for (at, condition) in conditions.slice().iter().enumerate() {
        let path = status.path().index(at);
        let text = |name: &str| condition.str_at(&[name]).unwrap_or_default();
        let type_name = text("type");
        if let Some(first) = seen.iter().rposition(|known| *known == type_name) {
            let why = format!("the type of the condition is not unique, it also appears in conditions[{first}]");
            errors.push(FieldError::invalid(&path.child("type"), type_name, why));
        }
        seen.push(type_name);
        for name in ["type", "status"] {
            let details = qualified_name(text(name)).into_iter();
            errors.extend(details.map(|detail| FieldError::invalid(&path.child(name), text(name), detail)));
        }
        for name in ["reason", "message"].iter().filter(|name| text(name).is_empty()) {
            errors.push(FieldError::required(&path.child(name), ""));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::harness::Harness;

    #[test]
    fn the_name_is_a_group_and_a_resource() {
        let harness = Harness::serving("api/alpha=true", "");
        let named = |name: &str| {
            format!(
                "{{apiVersion: internal.apiserver.k8s.io/v1alpha1, kind: StorageVersion, metadata: {{name: {name}}}, spec: {{}}}}"
            )
        };
        assert_eq!(
            super::name_errors(&Default::default(), "core.pods"),
            Vec::<String>::new()
        );
        assert_eq!(
            super::name_errors(&Default::default(), "pods"),
            ["name must be in the form of <group>.<resource>"]
        );
        assert_eq!(harness.errors(&named("apps.deployments")), Vec::<String>::new());
    }
}
