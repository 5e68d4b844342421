//! Volumes of a Pod, and where its containers mount them.

use std::collections::{HashMap, HashSet};

use holdfast_resource::metadata::formats::{dns_label, dns_subdomain};
use holdfast_resource::{Field, FieldError};
use holdfast_value::Value;

use super::env::{
    DownwardTo, validate_field_selector, validate_key_to_path, validate_mode, validate_resource_selector,
};
use crate::validation::paths::{descending, descending_not_reserved, no_back_steps};
use crate::validation::{Errors, numbers, required_text, resources};

/// The volumes of a Pod that are well-formed, by name.
pub(super) type Volumes<'v> = HashMap<&'v str, &'v Value>;

type SourceCheck = fn(&Field<'_, '_>, &mut Errors);

/// The sources of volumes in the order in which the reference looks at them.
const SOURCES: [(&str, SourceCheck); 30] = [
    ("emptyDir", validate_empty_dir),
    ("hostPath", validate_host_path),
    ("gitRepo", validate_git_repo),
    ("gcePersistentDisk", |source, errors| {
        required(source, &["pdName"], errors)
    }),
    ("awsElasticBlockStore", |source, errors| {
        required(source, &["volumeID"], errors)
    }),
    ("secret", |source, errors| validate_keys(source, "secretName", errors)),
    ("nfs", validate_nfs),
    ("iscsi", validate_iscsi),
    ("glusterfs", |source, errors| {
        required(source, &["endpoints", "path"], errors)
    }),
    ("flocker", validate_flocker),
    ("persistentVolumeClaim", |source, errors| {
        required(source, &["claimName"], errors)
    }),
    ("rbd", |source, errors| required(source, &["monitors", "image"], errors)),
    ("cinder", |source, errors| required(source, &["volumeID"], errors)),
    ("cephfs", |source, errors| required(source, &["monitors"], errors)),
    ("quobyte", |source, errors| {
        required(source, &["registry", "volume"], errors)
    }),
    ("downwardAPI", validate_downward),
    ("fc", |_, _| {}),
    ("azureFile", |source, errors| {
        required(source, &["secretName", "shareName"], errors)
    }),
    ("configMap", |source, errors| validate_keys(source, "name", errors)),
    ("flexVolume", |source, errors| required(source, &["driver"], errors)),
    ("vsphereVolume", |source, errors| {
        required(source, &["volumePath"], errors)
    }),
    ("photonPersistentDisk", |source, errors| {
        required(source, &["pdID"], errors)
    }),
    ("portworxVolume", |source, errors| {
        required(source, &["volumeID"], errors)
    }),
    ("azureDisk", |source, errors| {
        required(source, &["diskName", "diskURI"], errors)
    }),
    ("storageos", |_, _| {}),
    ("scaleIO", |source, errors| {
        required(source, &["gateway", "system", "volumeName"], errors)
    }),
    ("projected", validate_projected),
    ("csi", validate_csi),
    ("ephemeral", validate_ephemeral),
    ("image", |_, _| {}),
];

/// Checks the volumes of a Pod and gives back those that containers can mount.
pub(super) fn validate_volumes<'v>(volumes: &Field<'v, '_>, errors: &mut Errors) -> Volumes<'v> {
    let mut known = Volumes::new();
    for volume in volumes.items() {
        let before = errors.len();
        validate_source(&volume, errors);
        let name = volume.child("name");
        required_text(&name, dns_label, errors);
        if known.contains_key(name.text()) {
            errors.push(name.duplicate());
        }
        if let (true, Some(value)) = (errors.len() == before, volume.value()) {
            known.insert(name.text(), value);
        }
    }
    known
}

fn validate_source(volume: &Field<'_, '_>, errors: &mut Errors) {
    let mut found = false;
    for (name, check) in SOURCES {
        let source = volume.child(name);
        if !source.is_set() {
            continue;
        }
        if found {
            errors.push(source.forbidden("may not specify more than 1 volume type"));
        } else {
            check(&source, errors);
        }
        found = true;
    }
    if !found {
        errors.push(volume.required("must specify a volume type"));
    }
}

fn required(source: &Field<'_, '_>, fields: &[&str], errors: &mut Errors) {
    for field in fields {
        let field = source.child(field);
        if field.text().is_empty() && field.is_empty() {
            errors.push(field.required(""));
        }
    }
}

fn validate_empty_dir(source: &Field<'_, '_>, errors: &mut Errors) {
    let limit = source.child("sizeLimit");
    if resources::is_negative(&limit) {
        errors.push(limit.forbidden("SizeLimit field must be a valid resource quantity"));
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

/// Checks a path of the host.
pub(crate) fn validate_host_path(source: &Field<'_, '_>, errors: &mut Errors) {
    let path = source.child("path");
    if path.text().is_empty() {
        errors.push(path.required(""));
        return;
    }
    no_back_steps(&path, errors);
    let sort = source.child("type");
    if !HOST_PATH_TYPES.contains(&sort.text()) {
        errors.push(sort.not_supported(&HOST_PATH_TYPES));
    }
}

fn validate_git_repo(source: &Field<'_, '_>, errors: &mut Errors) {
    required(source, &["repository"], errors);
    descending(&source.child("directory"), errors);
}

fn validate_keys(source: &Field<'_, '_>, name: &str, errors: &mut Errors) {
    required(source, &[name], errors);
    validate_mode(&source.child("defaultMode"), errors);
    for item in source.child("items").items() {
        validate_key_to_path(&item, errors);
    }
}

/// Checks a share of a network file system.
pub(crate) fn validate_nfs(source: &Field<'_, '_>, errors: &mut Errors) {
    required(source, &["server", "path"], errors);
    let path = source.child("path");
    if !path.text().starts_with('/') {
        errors.push(path.invalid_text("must be an absolute path"));
    }
}

fn validate_iscsi(source: &Field<'_, '_>, errors: &mut Errors) {
    required(source, &["targetPortal", "iqn"], errors);
    numbers::within(&source.child("lun"), 0, 255, errors);
}

fn validate_flocker(source: &Field<'_, '_>, errors: &mut Errors) {
    let (name, uuid) = (source.child("datasetName"), source.child("datasetUUID"));
    match (name.text(), uuid.text()) {
        ("", "") => errors.push(source.required("one of datasetName and datasetUUID is required")),
        (name_text, _) if name_text.contains('/') => errors.push(name.invalid("must not contain '/'")),
        (_, "") | ("", _) => {}
        _ => errors.push(source.invalid("resource datasetName and datasetUUID can not be specified simultaneously")),
    }
}

fn validate_downward(source: &Field<'_, '_>, errors: &mut Errors) {
    validate_mode(&source.child("defaultMode"), errors);
    for item in source.child("items").items() {
        let path = item.child("path");
        if path.text().is_empty() {
            errors.push(path.required(""));
        }
        descending_not_reserved(&path, errors);
        let (field, resource) = (item.child("fieldRef"), item.child("resourceFieldRef"));
        if field.is_set() {
            validate_field_selector(&field, DownwardTo::Volume, errors);
            if resource.is_set() {
                errors.push(item.invalid_as(
                    "resource",
                    "fieldRef and resourceFieldRef can not be specified simultaneously",
                ));
            }
        } else if resource.is_set() {
            validate_resource_selector(&resource, DownwardTo::Volume, errors);
        } else {
            errors.push(item.required("one of fieldRef and resourceFieldRef is required"));
        }
        validate_mode(&item.child("mode"), errors);
    }
}

const TOKEN_SECONDS_LEAST: i64 = 600;
const TOKEN_SECONDS_MOST: i64 = 1 << 32;

fn validate_projected(source: &Field<'_, '_>, errors: &mut Errors) {
    validate_mode(&source.child("defaultMode"), errors);
    for projection in source.child("sources").items() {
        let mut found = false;
        for part in [
            "secret",
            "configMap",
            "downwardAPI",
            "serviceAccountToken",
            "clusterTrustBundle",
        ] {
            let one = projection.child(part);
            if !one.is_set() {
                continue;
            }
            if found {
                errors.push(one.forbidden("may not specify more than 1 volume type per source"));
                continue;
            }
            found = true;
            match part {
                "secret" | "configMap" => validate_keys(&one, "name", errors),
                "downwardAPI" => validate_downward(&one, errors),
                "serviceAccountToken" => validate_token(&one, errors),
                _ => required(&one, &["path"], errors),
            }
        }
        if !found {
            errors.push(projection.required("must specify a volume type"));
        }
    }
}

fn validate_token(source: &Field<'_, '_>, errors: &mut Errors) {
    let seconds = source.child("expirationSeconds");
    match seconds.number() {
        Some(few) if few < TOKEN_SECONDS_LEAST => {
            errors.push(seconds.invalid("may not specify a duration less than 10 minutes"));
        }
        Some(many) if many > TOKEN_SECONDS_MOST => {
            errors.push(seconds.invalid("may not specify a duration larger than 2^32 seconds"));
        }
        _ => {}
    }
    let path = source.child("path");
    if path.text().is_empty() {
        errors.push(path.required(""));
    } else {
        descending_not_reserved(&path, errors);
    }
}

fn validate_csi(source: &Field<'_, '_>, errors: &mut Errors) {
    required_text(
        &source.child("driver"),
        |name| dns_subdomain(&name.to_lowercase()),
        errors,
    );
    let secret = source.child("nodePublishSecretRef");
    if secret.is_set() {
        required(&secret, &["name"], errors);
    }
}

fn validate_ephemeral(source: &Field<'_, '_>, errors: &mut Errors) {
    let template = source.child("volumeClaimTemplate");
    if template.is_set() {
        crate::core::persistentvolumeclaim::validate_claim_spec(&template.child("spec"), errors);
    } else {
        errors.push(template.required(""));
    }
}

/// Checks where a container mounts volumes.
pub(super) fn validate_mounts(container: &Field<'_, '_>, volumes: &Volumes<'_>, errors: &mut Errors) {
    let mut paths = HashSet::new();
    let devices = container.child("volumeDevices");
    let of_devices = |part: &str| -> HashSet<&str> {
        devices
            .slice()
            .iter()
            .filter_map(|device| device.str_at(&[part]))
            .collect()
    };
    let (device_names, device_paths) = (of_devices("name"), of_devices("devicePath"));
    for mount in container.child("volumeMounts").items() {
        let (name, path) = (mount.child("name"), mount.child("mountPath"));
        if name.text().is_empty() {
            errors.push(name.required(""));
        }
        if !volumes.contains_key(name.text()) {
            errors.push(FieldError::not_found(&name.path(), name.text()));
        }
        if path.text().is_empty() {
            errors.push(path.required(""));
        }
        if !paths.insert(path.text()) {
            errors.push(path.invalid_text("must be unique"));
        }
        if device_names.contains(name.text()) {
            errors.push(name.invalid("must not already exist in volumeDevices"));
        }
        if device_paths.contains(path.text()) {
            errors.push(path.invalid("must not already exist as a path in volumeDevices"));
        }
        let (sub_path, expression) = (mount.child("subPath"), mount.child("subPathExpr"));
        descending(&sub_path, errors);
        if !expression.text().is_empty() {
            if !sub_path.text().is_empty() {
                errors.push(expression.invalid("subPathExpr and subPath are mutually exclusive"));
            }
            descending(&expression, errors);
        }
        validate_propagation(&mount.child("mountPropagation"), container, errors);
        validate_recursive_read_only(&mount, errors);
    }
}

fn validate_propagation(propagation: &Field<'_, '_>, container: &Field<'_, '_>, errors: &mut Errors) {
    match propagation.text() {
        "" | "None" | "HostToContainer" => {}
        "Bidirectional" => {
            if !container.child("securityContext").child("privileged").is_true() {
                errors.push(
                    propagation.forbidden("Bidirectional mount propagation is available only to privileged containers"),
                );
            }
        }
        _ => errors.push(propagation.not_supported(&["Bidirectional", "HostToContainer", "None"])),
    }
}

fn validate_recursive_read_only(mount: &Field<'_, '_>, errors: &mut Errors) {
    let recursive = mount.child("recursiveReadOnly");
    match recursive.text() {
        "" | "Disabled" => {}
        "Enabled" | "IfPossible" => {
            if !mount.child("readOnly").is_true() {
                errors.push(recursive.forbidden("may only be specified when readOnly is true"));
            }
            if !matches!(mount.child("mountPropagation").text(), "" | "None") {
                errors
                    .push(recursive.forbidden("may only be specified when mountPropagation is None or not specified"));
            }
        }
        _ => errors.push(recursive.not_supported(&["Disabled", "Enabled", "IfPossible"])),
    }
}

/// Checks which volumes a container sees as block devices.
pub(super) fn validate_devices(container: &Field<'_, '_>, volumes: &Volumes<'_>, errors: &mut Errors) {
    let (mut names, mut paths) = (HashSet::new(), HashSet::new());
    for device in container.child("volumeDevices").items() {
        let (name, path) = (device.child("name"), device.child("devicePath"));
        if name.text().is_empty() {
            errors.push(name.required(""));
        }
        if !names.insert(name.text()) {
            errors.push(name.invalid_text("must be unique"));
        }
        match volumes.get(name.text()) {
            Some(volume) if volume.get("persistentVolumeClaim").is_none() && volume.get("ephemeral").is_none() => {
                errors.push(
                    name.invalid(
                        "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode",
                    ),
                );
            }
            Some(_) => {}
            None => errors.push(FieldError::not_found(&name.path(), name.text())),
        }
        if path.text().is_empty() {
            errors.push(path.required(""));
        }
        if !path.text().is_empty() && path.text().split('/').any(|part| part == "..") {
            errors.push(path.invalid("can not contain backsteps ('..')"));
        } else if !paths.insert(path.text()) {
            errors.push(path.invalid_text("must be unique"));
        }
    }
}
