//! Sources that volumes of Pods and PersistentVolumes share, and the rule that a volume has exactly one.

use holdfast_schema::metadata::formats::{dns_label, dns_subdomain};
use holdfast_schema::{AnyRules, Check, Field, Part, Rules};

use crate::rules::VolumeSourceRule;
use crate::validation::paths::no_back_steps;
use crate::validation::{Errors, report, required_fields, required_text};

/// Volume source: its field, and the names under which the reference reports a second source and the errors of the only
/// one, which differ in places.
pub(crate) struct Source {
    field: &'static str,
    second: &'static str,
    shown: &'static str,
}

/// Returns a source that is reported by its own name.
pub(crate) const fn source(field: &'static str) -> Source {
    named_source(field, field, field)
}

/// Returns a source that is reported by other names.
pub(crate) const fn named_source(field: &'static str, second: &'static str, shown: &'static str) -> Source {
    Source { field, second, shown }
}

/// Validates that exactly one of `sources` is set. `more` validates whatever the source itself does not contain.
///
/// upstream: pkg/apis/core/validation#validateVolumeSource
/// upstream: pkg/apis/core/validation#ValidatePersistentVolumeSpec
pub(crate) fn validate_one_source<'v>(
    volume: &Part<'v, '_>,
    sources: &[Source],
    rules: &dyn AnyRules<'v>,
    check: &mut Check<'_>,
    more: &dyn Fn(&'static str, &mut Errors),
) {
    let mut found = false;
    for source in sources {
        let Some(value) = check.child(volume, source.field).filter(|value| value.is_set()) else {
            continue;
        };
        // One source of PersistentVolumes is validated even if it is the second.
        if found && !source.second.is_empty() {
            let second = volume.child(source.second);
            check
                .errors
                .push(second.forbidden("may not specify more than 1 volume type"));
            continue;
        }
        found = true;
        if source.shown == source.field {
            check.values(&value, rules);
        } else {
            let place = volume.path().child(source.shown);
            check.values(&value.shown_at(Field::placed(value.value(), place.as_str())), rules);
        }
        more(source.field, &mut check.errors);
    }
    if !found {
        check.errors.push(volume.required("must specify a volume type"));
    }
}

/// Checks of sources that the reference makes in code, for a volume of `name` where the name matters.
pub(crate) struct SourceRules<'a> {
    pub(crate) name: &'a str,
}

impl<'v> Rules<'v> for SourceRules<'_> {
    type Rule = VolumeSourceRule;

    fn rule(&self, rule: VolumeSourceRule, source: &Part<'v, '_>, check: &mut Check<'_>) {
        let errors = &mut check.errors;
        match rule {
            VolumeSourceRule::HostPath => host_path(source, self, check),
            VolumeSourceRule::AbsolutePath => absolute_path(source, errors),
            VolumeSourceRule::TotalLength => total_length(source, self.name, errors),
            VolumeSourceRule::Iqn => iscsi_name(source, ISCSI_STARTS, errors),
            VolumeSourceRule::PersistentIqn => iscsi_name(source, ISCSI_FORMAT, errors),
            VolumeSourceRule::Chap => iscsi_secret(source, errors),
            VolumeSourceRule::Initiator => iscsi_initiator(source, ISCSI_STARTS, errors),
            VolumeSourceRule::PersistentInitiator => iscsi_initiator(source, ISCSI_FORMAT, errors),
            VolumeSourceRule::FibreChannel => fibre_channel(source, self, check),
            VolumeSourceRule::Registry => quobyte_registry(source, errors),
            VolumeSourceRule::Dataset => flocker(source, errors),
            VolumeSourceRule::EndpointsNamespace => endpoints_namespace(source, errors),
            VolumeSourceRule::SecretName => secret_name(source, errors),
            VolumeSourceRule::SecretInNamespace => secret_in_namespace(source, errors),
            VolumeSourceRule::Options => flex_options(source, errors),
            VolumeSourceRule::DiskUri => azure_disk_uri(source, errors),
            VolumeSourceRule::BackSteps => no_back_steps(&source.child("path"), errors),
            VolumeSourceRule::CsiSecret => csi_secret(source, errors),
            VolumeSourceRule::CsiSecrets => persistent_csi_secrets(source, errors),
        }
    }
}

/// Validates a host path. If the path is missing, which is reported already, nothing else is validated.
///
/// upstream: pkg/apis/core/validation#validateHostPathVolumeSource
fn host_path<'v>(source: &Part<'v, '_>, rules: &SourceRules<'_>, check: &mut Check<'_>) {
    let path = source.child("path");
    if !path.text().is_empty() {
        no_back_steps(&path, &mut check.errors);
        check.field(source, "type", rules as &dyn AnyRules<'v>);
    }
}

/// Validates that the path of an NFS volume is absolute.
///
/// upstream: pkg/apis/core/validation#validateNFSVolumeSource
fn absolute_path(source: &Field<'_, '_>, errors: &mut Errors) {
    let path = source.child("path");
    if !path.text().starts_with('/') {
        errors.push(path.invalid_text("must be an absolute path"));
    }
}

/// Returns the description of valid iSCSI initiator and target names if `text` is not one.
fn iscsi_name_error(text: &str, unknown: &'static str) -> Option<&'static str> {
    let plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let well_formed = match text.get(..3) {
        Some("iqn") => is_qualified_iscsi_name(text),
        Some("eui") => text.strip_prefix("eui.").is_some_and(|id| id.len() == 16 && plain(id)),
        Some("naa") => text.strip_prefix("naa.").is_some_and(|id| id.len() == 32 && plain(id)),
        _ => return Some(unknown),
    };
    (!well_formed).then_some("must be valid format")
}

/// Returns true for `iqn.yyyy-mm.reversed.domain:name`, as the reference's regular expression matches it.
fn is_qualified_iscsi_name(text: &str) -> bool {
    let Some(rest) = text.strip_prefix("iqn.") else {
        return false;
    };
    let (Some(date), Some(domain)) = (rest.get(..7), rest.get(7..).and_then(|rest| rest.strip_prefix('.'))) else {
        return false;
    };
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let dated = date
        .split_once('-')
        .is_some_and(|(year, month)| year.len() == 4 && month.len() == 2 && digits(year) && digits(month));
    let named = domain.split_once(':').is_some_and(|(domain, name)| {
        let of_domain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
        let of_name = |letter: char| !letter.is_ascii_whitespace() && !",;*&$|".contains(letter);
        !domain.is_empty() && domain.bytes().all(of_domain) && !name.is_empty() && name.chars().all(of_name)
    });
    dated && named
}

const ISCSI_STARTS: &str = "must be valid format starting with iqn, eui, or naa";
const ISCSI_FORMAT: &str = "must be valid format";

fn iscsi_name(source: &Field<'_, '_>, unknown: &'static str, errors: &mut Errors) {
    let iqn = source.child("iqn");
    if iqn.text().is_empty() {
        errors.push(iqn.required(""));
    } else if let Some(message) = iscsi_name_error(iqn.text(), unknown) {
        errors.push(iqn.invalid(message));
    }
}

/// Validates that a target with CHAP authentication has a secret.
fn iscsi_secret(source: &Field<'_, '_>, errors: &mut Errors) {
    let secret = source.child("secretRef");
    let authenticates = ["chapAuthDiscovery", "chapAuthSession"];
    if !secret.is_set() && authenticates.iter().any(|part| source.child(part).is_true()) {
        errors.push(secret.required(""));
    }
}

fn iscsi_initiator(source: &Field<'_, '_>, unknown: &'static str, errors: &mut Errors) {
    let initiator = source.child("initiatorName");
    if initiator.is_set()
        && let Some(message) = iscsi_name_error(initiator.text(), unknown)
    {
        let shown = source.child("initiatorname");
        errors.push(shown.invalid_as(initiator.text(), message));
    }
}

/// Returns the error of an iSCSI volume called `name` that sets an initiator name, if the volume name and the target
/// portal are too long together.
pub(crate) fn iscsi_too_long(source: &Field<'_, '_>, name: &str) -> Option<&'static str> {
    const MAX_LENGTH: usize = 64;
    let portal = source.child("targetPortal").text();
    let long = source.child("initiatorName").is_set() && name.len() + 1 + portal.len() > MAX_LENGTH;
    long.then_some(
        "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified.",
    )
}

/// Validates the length of the names of a volume called `name`.
///
/// upstream: pkg/apis/core/validation#validateISCSIPersistentVolumeSource
fn total_length(source: &Field<'_, '_>, name: &str, errors: &mut Errors) {
    if let Some(message) = iscsi_too_long(source, name) {
        let portal = source.child("targetPortal").text();
        errors.push(source.child("targetportal").invalid_as(portal, message));
    }
}

/// Validates a Fibre Channel volume.
///
/// upstream: pkg/apis/core/validation#validateFCVolumeSource
fn fibre_channel<'v>(source: &Part<'v, '_>, rules: &SourceRules<'_>, check: &mut Check<'_>) {
    let (targets, ids) = (source.child("targetWWNs"), source.child("wwids"));
    if targets.is_empty() && ids.is_empty() {
        let error = targets.required("must specify either targetWWNs or wwids, but not both");
        check.errors.push(error);
    }
    if !targets.is_empty() && !ids.is_empty() {
        let error = targets.invalid("targetWWNs and wwids can not be specified simultaneously");
        check.errors.push(error);
    }
    if !targets.is_empty() {
        check.field(source, "lun", rules as &dyn AnyRules<'v>);
    }
}

const PAIRS: &str = "must be a host:port pair or multiple pairs separated by commas";

/// Validates the registries of a Quobyte volume.
///
/// upstream: pkg/apis/core/validation#validateQuobyteVolumeSource
fn quobyte_registry(source: &Field<'_, '_>, errors: &mut Errors) {
    let (registry, tenant) = (source.child("registry"), source.child("tenant"));
    if registry.text().is_empty() {
        errors.push(registry.required(PAIRS));
    } else if tenant.text().len() >= 65 {
        errors.push(tenant.required("must be a UUID and may not exceed a length of 64 characters"));
    } else {
        let odd = registry.text().split(',').filter(|pair| !is_host_and_port(pair));
        errors.extend(odd.map(|_| registry.invalid(PAIRS)));
    }
}

/// Returns true if Go's `net.SplitHostPort` parses the text.
fn is_host_and_port(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else {
        return false;
    };
    let inner = match host.strip_prefix('[') {
        Some(bracketed) => match bracketed.strip_suffix(']') {
            Some(inner) => inner,
            None => return false,
        },
        None if host.contains(':') => return false,
        None => host,
    };
    !inner.contains(['[', ']']) && !port.contains(['[', ']'])
}

/// Validates a Flocker volume.
///
/// upstream: pkg/apis/core/validation#validateFlockerVolumeSource
fn flocker(source: &Field<'_, '_>, errors: &mut Errors) {
    let (name, uuid) = (source.child("datasetName"), source.child("datasetUUID"));
    if name.text().is_empty() && uuid.text().is_empty() {
        errors.push(source.required("one of datasetName and datasetUUID is required"));
    }
    if !name.text().is_empty() && !uuid.text().is_empty() {
        errors.push(source.invalid_as(
            "resource",
            "datasetName and datasetUUID can not be specified simultaneously",
        ));
    }
    if name.text().contains('/') {
        errors.push(name.invalid("must not contain '/'"));
    }
}

/// Validates the namespace of the endpoints of a Glusterfs volume.
///
/// upstream: pkg/apis/core/validation#validateGlusterfsPersistentVolumeSource
fn endpoints_namespace(source: &Field<'_, '_>, errors: &mut Errors) {
    let namespace = source.child("endpointsNamespace");
    if namespace.is_set() {
        if namespace.text().is_empty() {
            errors.push(namespace.invalid("if the endpointnamespace is set, it must be a valid namespace name"));
        } else {
            report(&namespace, dns_label(namespace.text()), errors);
        }
    }
}

/// Validates the name of `secretRef` if it is set.
fn secret_name(source: &Field<'_, '_>, errors: &mut Errors) {
    let secret = source.child("secretRef");
    if secret.is_set() {
        required_fields(&secret, &["name"], errors);
    }
}

/// Validates the name and the namespace of `secretRef` if it is set.
fn secret_in_namespace(source: &Field<'_, '_>, errors: &mut Errors) {
    let secret = source.child("secretRef");
    if secret.is_set() {
        required_fields(&secret, &["name", "namespace"], errors);
    }
}

/// Validates the options of a FlexVolume.
///
/// upstream: pkg/apis/core/validation#validateFlexVolumeSource
fn flex_options(source: &Field<'_, '_>, errors: &mut Errors) {
    for (key, option) in source.child("options").entries() {
        let domain = key.split_once('/').map_or(key, |(namespace, _)| namespace);
        let namespace = format!(".{}", domain.to_lowercase());
        if namespace.ends_with(".kubernetes.io") || namespace.ends_with(".k8s.io") {
            errors.push(option.invalid_as(key, "kubernetes.io and k8s.io namespaces are reserved"));
        }
    }
}

/// Validates the URI of an Azure disk.
///
/// upstream: pkg/apis/core/validation#validateAzureDisk
fn azure_disk_uri(source: &Field<'_, '_>, errors: &mut Errors) {
    let (kind, uri) = (source.child("kind"), source.child("diskURI"));
    if !kind.is_set() {
        return;
    }
    let (start, form) = if kind.text() == "Managed" {
        (
            "/subscriptions/",
            "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}",
        )
    } else {
        (
            "https://",
            "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd",
        )
    };
    if !uri.text().starts_with(start) {
        errors.push(uri.not_supported(&[form]));
    }
}

/// Validates the secret of an inline CSI volume.
///
/// upstream: pkg/apis/core/validation#validateCSIVolumeSource
fn csi_secret(source: &Field<'_, '_>, errors: &mut Errors) {
    let secret = source.child("nodePublishSecretRef");
    if !secret.is_set() {
        return;
    }
    let name = secret.child("name");
    if name.text().is_empty() {
        errors.push(name.required(""));
    } else {
        // The reference reports the name next to the secret reference, not inside it.
        let messages = dns_subdomain(name.text());
        errors.extend(
            messages
                .into_iter()
                .map(|message| source.child("name").invalid_as(name.text(), message)),
        );
    }
}

/// Validates the secrets of a CSI volume.
///
/// upstream: pkg/apis/core/validation#validateCSIPersistentVolumeSource
fn persistent_csi_secrets(source: &Field<'_, '_>, errors: &mut Errors) {
    for part in [
        "controllerPublishSecretRef",
        "controllerExpandSecretRef",
        "nodePublishSecretRef",
        "nodeExpandSecretRef",
    ] {
        let secret = source.child(part);
        if secret.is_set() {
            required_text(&secret.child("name"), dns_subdomain, errors);
            required_text(&secret.child("namespace"), dns_label, errors);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn iscsi_names_have_one_of_three_forms() {
        let message = |text| iscsi_name_error(text, "unknown");
        for good in [
            "iqn.2015-02.example.com:test",
            "eui.0123456789abcdef",
            "naa.62004567BA64678D0123456789ABCDEF",
        ] {
            assert_eq!(message(good), None, "{good}");
        }
        assert_eq!(message("x"), Some("unknown"));
        for bad in [
            "iqn.15-02.a:b",
            "iqn.2015-02.a",
            "iqn.2015-02.a:b c",
            "eui.0",
            "naa.xyz",
        ] {
            assert_eq!(message(bad), Some("must be valid format"), "{bad}");
        }
    }

    #[test]
    fn hosts_and_ports_are_taken_apart_as_go_does() {
        for good in ["a:1", ":1", "[::1]:1", "a:"] {
            assert!(is_host_and_port(good), "{good}");
        }
        for bad in ["a", "a:b:c", "[::1", "", "[a:1"] {
            assert!(!is_host_and_port(bad), "{bad}");
        }
    }
}
