//! The sources that volumes of Pods and PersistentVolumes share, and the rule that a volume has one.

use holdfast_resource::Field;
use holdfast_resource::metadata::formats::{dns_label, dns_subdomain};

use crate::validation::paths::no_back_steps;
use crate::validation::{Errors, numbers, report, required_fields, required_text, set_one_of};

/// A check of one source.
pub(super) type SourceCheck = fn(&Field<'_, '_>, &mut Errors);

/// A source of volumes: its field, the names under which the reference reports a second source and the faults of the only
/// one (which differ in places), and its check.
pub(super) struct Source {
    field: &'static str,
    second: &'static str,
    shown: &'static str,
    check: SourceCheck,
}

/// A source that is reported by its own name.
pub(super) const fn source(field: &'static str, check: SourceCheck) -> Source {
    named_source(field, field, field, check)
}

/// A source that is reported by other names.
pub(super) const fn named_source(
    field: &'static str,
    second: &'static str,
    shown: &'static str,
    check: SourceCheck,
) -> Source {
    Source {
        field,
        second,
        shown,
        check,
    }
}

/// Checks that one of `sources` is set, and that one; `more` checks what the source alone does not show.
pub(super) fn validate_one_source(
    volume: &Field<'_, '_>,
    sources: &[Source],
    errors: &mut Errors,
    more: &dyn Fn(&'static str, &mut Errors),
) {
    let mut found = false;
    for source in sources {
        let value = volume.child(source.field);
        if !value.is_set() {
            continue;
        }
        // One source of PersistentVolumes is checked even where it is the second.
        if found && !source.second.is_empty() {
            let second = volume.child(source.second);
            errors.push(second.forbidden("may not specify more than 1 volume type"));
            continue;
        }
        found = true;
        let place = volume.path().child(source.shown);
        (source.check)(&Field::placed(value.value(), place.as_str()), errors);
        more(source.field, errors);
    }
    if !found {
        errors.push(volume.required("must specify a volume type"));
    }
}

/// `validateGCEPersistentDiskVolumeSource`
pub(super) fn gce_disk(source: &Field<'_, '_>, errors: &mut Errors) {
    required_fields(source, &["pdName"], errors);
    partition(source, errors);
}

/// `validateAWSElasticBlockStoreVolumeSource`
pub(super) fn aws_disk(source: &Field<'_, '_>, errors: &mut Errors) {
    required_fields(source, &["volumeID"], errors);
    partition(source, errors);
}

/// A partition of a disk; 0 is the disk as a whole, of which the reference's text does not speak.
fn partition(source: &Field<'_, '_>, errors: &mut Errors) {
    let partition = source.child("partition");
    if partition.number().is_some_and(|number| !(0..=255).contains(&number)) {
        errors.push(partition.invalid("must be between 1 and 255, inclusive"));
    }
}

const HOST_PATH_TYPES: [&str; 8] = [
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
];

/// `validateHostPathVolumeSource`
pub(super) fn host_path(source: &Field<'_, '_>, errors: &mut Errors) {
    let path = source.child("path");
    if path.text().is_empty() {
        errors.push(path.required(""));
        return;
    }
    no_back_steps(&path, errors);
    set_one_of(&source.child("type"), &HOST_PATH_TYPES, errors);
}

/// `validateNFSVolumeSource`
pub(super) fn nfs(source: &Field<'_, '_>, errors: &mut Errors) {
    required_fields(source, &["server", "path"], errors);
    let path = source.child("path");
    if !path.text().starts_with('/') {
        errors.push(path.invalid_text("must be an absolute path"));
    }
}

/// What the names of iSCSI initiators and targets look like, where `text` is none.
fn iscsi_name_fault(text: &str, unknown: &'static str) -> Option<&'static str> {
    let plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let well_formed = match text.get(..3) {
        Some("iqn") => is_qualified_iscsi_name(text),
        Some("eui") => text.strip_prefix("eui.").is_some_and(|id| id.len() == 16 && plain(id)),
        Some("naa") => text.strip_prefix("naa.").is_some_and(|id| id.len() == 32 && plain(id)),
        _ => return Some(unknown),
    };
    (!well_formed).then_some("must be valid format")
}

/// `iqn.yyyy-mm.reversed.domain:name`, as the reference's expression reads it.
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

fn iscsi_names(source: &Field<'_, '_>, unknown: &'static str, errors: &mut Errors) {
    let iqn = source.child("iqn");
    if iqn.text().is_empty() {
        errors.push(iqn.required(""));
    } else if let Some(fault) = iscsi_name_fault(iqn.text(), unknown) {
        errors.push(iqn.invalid(fault));
    }
    numbers::within(&source.child("lun"), 0, 255, errors);
    let secret = source.child("secretRef");
    let authenticates = ["chapAuthDiscovery", "chapAuthSession"];
    if !secret.is_set() && authenticates.iter().any(|part| source.child(part).is_true()) {
        errors.push(secret.required(""));
    }
}

fn iscsi_initiator(source: &Field<'_, '_>, unknown: &'static str, errors: &mut Errors) {
    let initiator = source.child("initiatorName");
    if initiator.is_set()
        && let Some(fault) = iscsi_name_fault(initiator.text(), unknown)
    {
        let shown = source.child("initiatorname");
        errors.push(shown.invalid_as(initiator.text(), fault));
    }
}

/// `validateISCSIVolumeSource`
pub(super) fn iscsi(source: &Field<'_, '_>, errors: &mut Errors) {
    required_fields(source, &["targetPortal"], errors);
    iscsi_names(source, ISCSI_STARTS, errors);
    iscsi_initiator(source, ISCSI_STARTS, errors);
}

/// What is wrong with a volume of `name` whose iSCSI target is told to an initiator of a name of its own.
pub(super) fn iscsi_too_long(source: &Field<'_, '_>, name: &str) -> Option<&'static str> {
    const MOST: usize = 64;
    let portal = source.child("targetPortal").text();
    let long = source.child("initiatorName").is_set() && name.len() + 1 + portal.len() > MOST;
    long.then_some(
        "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified.",
    )
}

/// `validateISCSIPersistentVolumeSource`, for a volume called `name`.
pub(super) fn persistent_iscsi(source: &Field<'_, '_>, name: &str, errors: &mut Errors) {
    required_fields(source, &["targetPortal"], errors);
    if let Some(fault) = iscsi_too_long(source, name) {
        let portal = source.child("targetPortal").text();
        errors.push(source.child("targetportal").invalid_as(portal, fault));
    }
    iscsi_names(source, "must be valid format", errors);
    secret_name(source, errors);
    iscsi_initiator(source, "must be valid format", errors);
}

/// `validateFCVolumeSource`
pub(super) fn fibre_channel(source: &Field<'_, '_>, errors: &mut Errors) {
    let (targets, ids, lun) = (source.child("targetWWNs"), source.child("wwids"), source.child("lun"));
    if targets.is_empty() && ids.is_empty() {
        errors.push(targets.required("must specify either targetWWNs or wwids, but not both"));
    }
    if !targets.is_empty() && !ids.is_empty() {
        errors.push(targets.invalid("targetWWNs and wwids can not be specified simultaneously"));
    }
    if !targets.is_empty() {
        if lun.is_set() {
            numbers::within(&lun, 0, 255, errors);
        } else {
            errors.push(lun.required("lun is required if targetWWNs is specified"));
        }
    }
}

const PAIRS: &str = "must be a host:port pair or multiple pairs separated by commas";

/// `validateQuobyteVolumeSource`
pub(super) fn quobyte(source: &Field<'_, '_>, errors: &mut Errors) {
    let (registry, tenant) = (source.child("registry"), source.child("tenant"));
    if registry.text().is_empty() {
        errors.push(registry.required(PAIRS));
    } else if tenant.text().len() >= 65 {
        errors.push(tenant.required("must be a UUID and may not exceed a length of 64 characters"));
    } else {
        let odd = registry.text().split(',').filter(|pair| !is_host_and_port(pair));
        errors.extend(odd.map(|_| registry.invalid(PAIRS)));
    }
    required_fields(source, &["volume"], errors);
}

/// Whether Go's `net.SplitHostPort` takes the text apart.
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

/// `validateFlockerVolumeSource`
pub(super) fn flocker(source: &Field<'_, '_>, errors: &mut Errors) {
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

/// `validateGlusterfsVolumeSource`
pub(super) fn glusterfs(source: &Field<'_, '_>, errors: &mut Errors) {
    required_fields(source, &["endpoints", "path"], errors);
}

/// `validateGlusterfsPersistentVolumeSource`
pub(super) fn persistent_glusterfs(source: &Field<'_, '_>, errors: &mut Errors) {
    glusterfs(source, errors);
    let namespace = source.child("endpointsNamespace");
    if namespace.is_set() {
        if namespace.text().is_empty() {
            errors.push(namespace.invalid("if the endpointnamespace is set, it must be a valid namespace name"));
        } else {
            report(&namespace, dns_label(namespace.text()), errors);
        }
    }
}

/// `validateRBDVolumeSource`
pub(super) fn rbd(source: &Field<'_, '_>, errors: &mut Errors) {
    required_fields(source, &["monitors", "image"], errors);
}

/// `validateCephFSVolumeSource`
pub(super) fn cephfs(source: &Field<'_, '_>, errors: &mut Errors) {
    required_fields(source, &["monitors"], errors);
}

/// The name of `secretRef`, where that is set.
fn secret_name(source: &Field<'_, '_>, errors: &mut Errors) {
    let secret = source.child("secretRef");
    if secret.is_set() {
        required_fields(&secret, &["name"], errors);
    }
}

/// The name and the namespace of `secretRef`, where that is set.
fn secret_in_namespace(source: &Field<'_, '_>, errors: &mut Errors) {
    let secret = source.child("secretRef");
    if secret.is_set() {
        required_fields(&secret, &["name", "namespace"], errors);
    }
}

/// `validateCinderVolumeSource`
pub(super) fn cinder(source: &Field<'_, '_>, errors: &mut Errors) {
    required_fields(source, &["volumeID"], errors);
    secret_name(source, errors);
}

/// `validateCinderPersistentVolumeSource`
pub(super) fn persistent_cinder(source: &Field<'_, '_>, errors: &mut Errors) {
    required_fields(source, &["volumeID"], errors);
    secret_in_namespace(source, errors);
}

/// `validateFlexVolumeSource`
pub(super) fn flex_volume(source: &Field<'_, '_>, errors: &mut Errors) {
    required_fields(source, &["driver"], errors);
    for (key, option) in source.child("options").entries() {
        let namespace = key.split_once('/').map_or(key, |(namespace, _)| namespace);
        let namespace = format!(".{}", namespace.to_lowercase());
        if namespace.ends_with(".kubernetes.io") || namespace.ends_with(".k8s.io") {
            errors.push(option.invalid_as(key, "kubernetes.io and k8s.io namespaces are reserved"));
        }
    }
}

/// `validateAzureFile`
pub(super) fn azure_file(source: &Field<'_, '_>, errors: &mut Errors) {
    required_fields(source, &["secretName", "shareName"], errors);
}

/// `validateAzureFilePV`
pub(super) fn persistent_azure_file(source: &Field<'_, '_>, errors: &mut Errors) {
    azure_file(source, errors);
    if source.child("secretNamespace").is_set() {
        required_fields(source, &["secretNamespace"], errors);
    }
}

/// `validateAzureDisk`
pub(super) fn azure_disk(source: &Field<'_, '_>, errors: &mut Errors) {
    required_fields(source, &["diskName", "diskURI"], errors);
    set_one_of(&source.child("cachingMode"), &["None", "ReadOnly", "ReadWrite"], errors);
    let (kind, uri) = (source.child("kind"), source.child("diskURI"));
    set_one_of(&kind, &["Dedicated", "Managed", "Shared"], errors);
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

/// `validateVsphereVolumeSource`
pub(super) fn vsphere(source: &Field<'_, '_>, errors: &mut Errors) {
    required_fields(source, &["volumePath"], errors);
}

/// `validatePhotonPersistentDiskVolumeSource`
pub(super) fn photon(source: &Field<'_, '_>, errors: &mut Errors) {
    required_fields(source, &["pdID"], errors);
}

/// `validatePortworxVolumeSource`
pub(super) fn portworx(source: &Field<'_, '_>, errors: &mut Errors) {
    required_fields(source, &["volumeID"], errors);
}

/// `validateScaleIOVolumeSource`
pub(super) fn scale_io(source: &Field<'_, '_>, errors: &mut Errors) {
    required_fields(source, &["gateway", "system", "volumeName"], errors);
}

/// `validateLocalVolumeSource`
pub(super) fn local(source: &Field<'_, '_>, errors: &mut Errors) {
    let path = source.child("path");
    if path.text().is_empty() {
        errors.push(path.required(""));
    } else {
        no_back_steps(&path, errors);
    }
}

fn storage_os_names(source: &Field<'_, '_>, errors: &mut Errors) {
    required_text(&source.child("volumeName"), dns_label, errors);
    let namespace = source.child("volumeNamespace");
    if !namespace.text().is_empty() {
        report(&namespace, dns_label(namespace.text()), errors);
    }
}

/// `validateStorageOSVolumeSource`
pub(super) fn storage_os(source: &Field<'_, '_>, errors: &mut Errors) {
    storage_os_names(source, errors);
    secret_name(source, errors);
}

/// `validateStorageOSPersistentVolumeSource`
pub(super) fn persistent_storage_os(source: &Field<'_, '_>, errors: &mut Errors) {
    storage_os_names(source, errors);
    secret_in_namespace(source, errors);
}

/// `ValidateCSIDriverName`
pub(crate) fn driver_name(driver: &Field<'_, '_>, errors: &mut Errors) {
    const MOST: usize = 63;
    if driver.text().is_empty() {
        errors.push(driver.required(""));
        return;
    }
    if driver.text().len() > MOST {
        errors.push(driver.too_long(MOST));
    }
    report(driver, dns_subdomain(&driver.text().to_lowercase()), errors);
}

/// `validateCSIVolumeSource`
pub(super) fn csi(source: &Field<'_, '_>, errors: &mut Errors) {
    driver_name(&source.child("driver"), errors);
    let secret = source.child("nodePublishSecretRef");
    if !secret.is_set() {
        return;
    }
    let name = secret.child("name");
    if name.text().is_empty() {
        errors.push(name.required(""));
    } else {
        // The reference shows the name beside the reference rather than in it.
        let faults = dns_subdomain(name.text());
        errors.extend(
            faults
                .into_iter()
                .map(|fault| source.child("name").invalid_as(name.text(), fault)),
        );
    }
}

/// `validateCSIPersistentVolumeSource`
pub(super) fn persistent_csi(source: &Field<'_, '_>, errors: &mut Errors) {
    driver_name(&source.child("driver"), errors);
    required_fields(source, &["volumeHandle"], errors);
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
        let fault = |text| iscsi_name_fault(text, "unknown");
        for good in [
            "iqn.2015-02.example.com:test",
            "eui.0123456789abcdef",
            "naa.62004567BA64678D0123456789ABCDEF",
        ] {
            assert_eq!(fault(good), None, "{good}");
        }
        assert_eq!(fault("x"), Some("unknown"));
        for bad in [
            "iqn.15-02.a:b",
            "iqn.2015-02.a",
            "iqn.2015-02.a:b c",
            "eui.0",
            "naa.xyz",
        ] {
            assert_eq!(fault(bad), Some("must be valid format"), "{bad}");
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
