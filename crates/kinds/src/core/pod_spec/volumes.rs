//! Volumes of a Pod, and where its containers mount them.

use std::collections::{HashMap, HashSet};

use holdfast_resource::metadata::formats::{dns_label, dns_subdomain};
use holdfast_resource::metadata::labels::validate_label_selector;
use holdfast_resource::{Field, FieldError};
use holdfast_value::Value;

use super::env::{
    DownwardTo, validate_field_selector, validate_key_to_path, validate_mode, validate_resource_selector,
};
use crate::core::persistentvolumeclaim::validate_claim_spec;
use crate::core::volume_sources::{self as sources, Source, named_source, source, validate_one_source};
use crate::validation::paths::{descending, descending_not_reserved};
use crate::validation::template_metadata::validate_template_metadata;
use crate::validation::{Errors, required_fields, required_text, resources, set_one_of};

/// The volumes of a Pod that are well-formed, by name.
pub(super) type Volumes<'v> = HashMap<&'v str, &'v Value>;

/// The sources of volumes in the order in which the reference looks at them.
const SOURCES: [Source; 30] = [
    source("emptyDir", validate_empty_dir),
    source("hostPath", sources::host_path),
    source("gitRepo", validate_git_repo),
    named_source(
        "gcePersistentDisk",
        "gcePersistentDisk",
        "persistentDisk",
        sources::gce_disk,
    ),
    source("awsElasticBlockStore", sources::aws_disk),
    source("secret", |source, errors| validate_keys(source, "secretName", errors)),
    source("nfs", sources::nfs),
    source("iscsi", sources::iscsi),
    source("glusterfs", sources::glusterfs),
    source("flocker", sources::flocker),
    source("persistentVolumeClaim", |source, errors| {
        required_fields(source, &["claimName"], errors)
    }),
    source("rbd", sources::rbd),
    source("cinder", sources::cinder),
    named_source("cephfs", "cephFS", "cephfs", sources::cephfs),
    source("quobyte", sources::quobyte),
    named_source("downwardAPI", "downwarAPI", "downwardAPI", validate_downward),
    source("fc", sources::fibre_channel),
    source("flexVolume", sources::flex_volume),
    source("configMap", |source, errors| validate_keys(source, "name", errors)),
    source("azureFile", sources::azure_file),
    source("vsphereVolume", sources::vsphere),
    source("photonPersistentDisk", sources::photon),
    source("portworxVolume", sources::portworx),
    source("azureDisk", sources::azure_disk),
    source("storageos", sources::storage_os),
    source("projected", validate_projected),
    source("scaleIO", sources::scale_io),
    source("csi", sources::csi),
    source("ephemeral", validate_ephemeral),
    source("image", validate_image),
];

/// Checks the volumes of a Pod called `pod_name` and gives back those that containers can mount.
pub(super) fn validate_volumes<'v>(volumes: &Field<'v, '_>, pod_name: &str, errors: &mut Errors) -> Volumes<'v> {
    let made = claims_made(volumes, pod_name);
    let mut known = Volumes::new();
    for volume in volumes.items() {
        let before = errors.len();
        validate_source(&volume, pod_name, errors);
        let name = volume.child("name");
        required_text(&name, dns_label, errors);
        if known.contains_key(name.text()) {
            errors.push(name.duplicate());
        }
        if let (true, Some(value)) = (errors.len() == before, volume.value()) {
            known.insert(name.text(), value);
        }
        let claim = volume.child("persistentVolumeClaim");
        let claim = claim.child("claimName");
        if made.contains(claim.text()) {
            errors.push(claim.invalid("must not reference a PVC that gets created for an ephemeral volume"));
        }
    }
    known
}

/// The names of the claims that come to be with the Pod; none where its name is not known.
fn claims_made(volumes: &Field<'_, '_>, pod_name: &str) -> HashSet<String> {
    if pod_name.is_empty() {
        return HashSet::new();
    }
    let ephemeral = volumes.items().filter(|volume| volume.child("ephemeral").is_set());
    ephemeral
        .map(|volume| format!("{pod_name}-{}", volume.child("name").text()))
        .collect()
}

fn validate_source(volume: &Field<'_, '_>, pod_name: &str, errors: &mut Errors) {
    let name = volume.child("name");
    validate_one_source(volume, &SOURCES, errors, &|found, errors| {
        if found == "ephemeral" && !pod_name.is_empty() && !name.text().is_empty() {
            let claim = format!("{pod_name}-{}", name.text());
            let faults = dns_subdomain(&claim);
            let told = faults.into_iter().map(|fault| format!("PVC name {claim:?}: {fault}"));
            errors.extend(told.map(|fault| name.invalid(fault)));
        }
    });
    let target = volume.child("iscsi");
    if let Some(fault) = sources::iscsi_too_long(&target, name.text()) {
        errors.push(name.invalid_text(fault));
    }
}

fn validate_empty_dir(source: &Field<'_, '_>, errors: &mut Errors) {
    let limit = source.child("sizeLimit");
    if resources::is_negative(&limit) {
        errors.push(limit.forbidden("SizeLimit field must be a valid resource quantity"));
    }
}

fn validate_image(source: &Field<'_, '_>, errors: &mut Errors) {
    required_fields(source, &["reference"], errors);
    crate::validation::one_of(
        &source.child("pullPolicy"),
        &["Always", "IfNotPresent", "Never"],
        errors,
    );
}

fn validate_git_repo(source: &Field<'_, '_>, errors: &mut Errors) {
    required_fields(source, &["repository"], errors);
    descending(&source.child("directory"), errors);
}

fn validate_keys(source: &Field<'_, '_>, name: &str, errors: &mut Errors) {
    required_fields(source, &[name], errors);
    validate_mode(&source.child("defaultMode"), errors);
    for item in source.child("items").items() {
        validate_key_to_path(&item, errors);
    }
}

fn validate_downward(source: &Field<'_, '_>, errors: &mut Errors) {
    validate_mode(&source.child("defaultMode"), errors);
    for item in source.child("items").items() {
        validate_downward_file(&item, source, errors);
    }
}

/// Checks a file; the reference reports what is wrong at the list's parent.
fn validate_downward_file(item: &Field<'_, '_>, source: &Field<'_, '_>, errors: &mut Errors) {
    let place = source.path();
    let item = Field::placed(item.value(), place.as_str());
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

const TOKEN_SECONDS_LEAST: i64 = 600;
const TOKEN_SECONDS_MOST: i64 = 1 << 32;

/// The paths that the sources of a projected volume have written so far.
type Paths<'v> = HashSet<&'v str>;

fn validate_projected(source: &Field<'_, '_>, errors: &mut Errors) {
    validate_mode(&source.child("defaultMode"), errors);
    let mut paths = Paths::new();
    for projection in source.child("sources").items() {
        let mut found = 0;
        for (part, check) in PROJECTIONS {
            let one = projection.child(part);
            if one.is_set() {
                found += 1;
                check(&one, source, &mut paths, errors);
            }
        }
        if found > 1 {
            errors.push(projection.forbidden("may not specify more than 1 volume type per source"));
        }
    }
}

/// Checks one source of a projected volume; the volume itself is where the reference reports conflicts.
type Projection = for<'v> fn(&Field<'v, '_>, &Field<'_, '_>, &mut Paths<'v>, &mut Errors);

const PROJECTIONS: [(&str, Projection); 6] = [
    ("secret", project_keys),
    ("configMap", project_keys),
    ("downwardAPI", project_downward),
    ("serviceAccountToken", project_token),
    ("clusterTrustBundle", project_trust_bundle),
    ("podCertificate", project_certificate),
];

fn conflict(volume: &Field<'_, '_>, shown: &str) -> FieldError {
    volume.invalid_as(shown, "conflicting duplicate paths")
}

fn project_keys<'v>(one: &Field<'v, '_>, volume: &Field<'_, '_>, paths: &mut Paths<'v>, errors: &mut Errors) {
    required_fields(one, &["name"], errors);
    for item in one.child("items").items() {
        validate_key_to_path(&item, errors);
        let path = item.child("path").text();
        if !path.is_empty() && !paths.insert(path) {
            errors.push(conflict(volume, one.child("name").text()));
        }
    }
}

fn project_downward<'v>(one: &Field<'v, '_>, volume: &Field<'_, '_>, paths: &mut Paths<'v>, errors: &mut Errors) {
    for item in one.child("items").items() {
        validate_downward_file(&item, one, errors);
        let path = item.child("path").text();
        if !path.is_empty() && !paths.insert(path) {
            errors.push(conflict(volume, path));
        }
    }
}

fn project_token<'v>(one: &Field<'v, '_>, volume: &Field<'_, '_>, _paths: &mut Paths<'v>, errors: &mut Errors) {
    let seconds = one.child("expirationSeconds");
    match seconds.number() {
        Some(few) if few < TOKEN_SECONDS_LEAST => {
            errors.push(seconds.invalid("may not specify a duration less than 10 minutes"));
        }
        Some(many) if many > TOKEN_SECONDS_MOST => {
            errors.push(seconds.invalid("may not specify a duration larger than 2^32 seconds"));
        }
        _ => {}
    }
    // The reference reports the path at the volume.
    let path = one.child("path");
    let shown = volume.child("path");
    let shown = shown.path();
    let path = Field::placed(path.value(), shown.as_str());
    if path.text().is_empty() {
        errors.push(path.required(""));
    } else {
        descending_not_reserved(&path, errors);
    }
}

fn project_trust_bundle<'v>(one: &Field<'v, '_>, volume: &Field<'_, '_>, paths: &mut Paths<'v>, errors: &mut Errors) {
    let (name, signer, selector) = (one.child("name"), one.child("signerName"), one.child("labelSelector"));
    match (name.is_set(), signer.is_set()) {
        (true, true) => errors.push(one.invalid("only one of name and signerName may be used")),
        (true, false) => {
            if name.text().is_empty() {
                errors.push(name.required("must be a valid object name"));
            }
            let faults = dns_subdomain(name.text().rsplit_once(':').map_or(name.text(), |(_, last)| last));
            errors.extend(
                faults
                    .into_iter()
                    .map(|fault| name.invalid_text(format!("not a valid clustertrustbundlename: {fault}"))),
            );
            if selector.is_set() {
                errors.push(selector.invalid("labelSelector must be unset if name is specified"));
            }
        }
        (false, true) => {
            if signer.text().is_empty() {
                errors.push(signer.required("must be a valid signer name"));
            }
            crate::certificates::validate_signer_name(&signer, errors);
            validate_label_selector(&selector, errors);
        }
        (false, false) => errors.push(one.required("either name or signerName must be specified")),
    }
    let path = one.child("path");
    if path.text().is_empty() {
        errors.push(path.required(""));
    }
    descending_not_reserved(&path, errors);
    if !paths.insert(path.text()) {
        errors.push(conflict(volume, path.text()));
    }
}

/// The kinds of keys that a projected certificate may have.
const KEY_TYPES: [&str; 6] = ["ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519", "RSA3072", "RSA4096"];

fn project_certificate<'v>(one: &Field<'v, '_>, volume: &Field<'_, '_>, paths: &mut Paths<'v>, errors: &mut Errors) {
    crate::certificates::validate_signer_name(&one.child("signerName"), errors);
    let key_type = one.child("keyType");
    if !KEY_TYPES.contains(&key_type.text()) {
        errors.push(key_type.not_supported(&KEY_TYPES));
    }
    for part in ["credentialBundlePath", "keyPath", "certificateChainPath"] {
        let path = one.child(part);
        if path.text().is_empty() {
            continue;
        }
        descending_not_reserved(&path, errors);
        if !paths.insert(path.text()) {
            errors.push(conflict(volume, path.text()));
        }
    }
}

fn validate_ephemeral(source: &Field<'_, '_>, errors: &mut Errors) {
    let template = source.child("volumeClaimTemplate");
    if template.is_set() {
        validate_template_metadata(&template.child("metadata"), errors);
        validate_claim_spec(&template.child("spec"), errors);
    } else {
        errors.push(template.required(""));
    }
}

/// Where a container has volumes already: names with paths, the last of each name.
fn mounted<'v>(list: &Field<'v, '_>, path: &str) -> HashMap<&'v str, &'v str> {
    list.slice()
        .iter()
        .map(|item| {
            (
                item.str_at(&["name"]).unwrap_or_default(),
                item.str_at(&[path]).unwrap_or_default(),
            )
        })
        .collect()
}

/// Checks where a container mounts volumes.
pub(super) fn validate_mounts(container: &Field<'_, '_>, volumes: &Volumes<'_>, errors: &mut Errors) {
    let mut paths = HashSet::new();
    let devices = mounted(&container.child("volumeDevices"), "devicePath");
    let device_paths: HashSet<&str> = devices.values().copied().collect();
    let mounts = container.child("volumeMounts");
    for mount in mounts.items() {
        let (name, path) = (mount.child("name"), mount.child("mountPath"));
        if name.text().is_empty() {
            errors.push(name.required(""));
        }
        let volume = volumes.get(name.text());
        if volume.is_none() {
            errors.push(name.not_found());
        }
        if path.text().is_empty() {
            errors.push(path.required(""));
        }
        if !paths.insert(path.text()) {
            errors.push(path.invalid_text("must be unique"));
        }
        if devices.contains_key(name.text()) {
            errors.push(name.invalid_text("must not already exist in volumeDevices"));
        }
        if device_paths.contains(path.text()) {
            errors.push(path.invalid_text("must not already exist as a path in volumeDevices"));
        }
        // The reference reports these at the list rather than at its item.
        let place = mounts.path();
        let shown = Field::placed(mount.value(), place.as_str());
        let (sub_path, expression) = (shown.child("subPath"), shown.child("subPathExpr"));
        descending(&sub_path, errors);
        if !expression.text().is_empty() {
            if !sub_path.text().is_empty() {
                let expression = mount.child("subPathExpr");
                errors.push(expression.invalid("subPathExpr and subPath are mutually exclusive"));
            }
            descending(&expression, errors);
        }
        validate_propagation(&shown.child("mountPropagation"), container, errors);
        validate_recursive_read_only(&shown, errors);
    }
}

fn validate_propagation(propagation: &Field<'_, '_>, container: &Field<'_, '_>, errors: &mut Errors) {
    set_one_of(propagation, &["Bidirectional", "HostToContainer", "None"], errors);
    let context = container.child("securityContext");
    if propagation.text() == "Bidirectional" && !context.child("privileged").is_true() {
        errors
            .push(propagation.forbidden("Bidirectional mount propagation is available only to privileged containers"));
    }
}

fn validate_recursive_read_only(mount: &Field<'_, '_>, errors: &mut Errors) {
    let recursive = mount.child("recursiveReadOnly");
    if !recursive.is_set() {
        return;
    }
    match recursive.text() {
        "Disabled" => {}
        "Enabled" | "IfPossible" => {
            if !mount.child("readOnly").is_true() {
                errors.push(recursive.forbidden("may only be specified when readOnly is true"));
            }
            let propagation = mount.child("mountPropagation");
            if propagation.is_set() && propagation.text() != "None" {
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
    let mounts = mounted(&container.child("volumeMounts"), "mountPath");
    let mount_paths: HashSet<&str> = mounts.values().copied().collect();
    for device in container.child("volumeDevices").items() {
        let (name, path) = (device.child("name"), device.child("devicePath"));
        if name.text().is_empty() {
            errors.push(name.required(""));
        }
        if names.contains(name.text()) {
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
            None => errors.push(name.not_found()),
        }
        if path.text().is_empty() {
            errors.push(path.required(""));
        }
        if paths.contains(path.text()) {
            errors.push(path.invalid_text("must be unique"));
        }
        if path.text().split('/').any(|part| part == "..") {
            errors.push(path.invalid("can not contain backsteps ('..')"));
        } else {
            paths.insert(path.text());
        }
        if mounts.contains_key(name.text()) {
            errors.push(name.invalid_text("must not already exist in volumeMounts"));
        }
        if mount_paths.contains(path.text()) {
            errors.push(path.invalid_text("must not already exist as a path in volumeMounts"));
        }
        if !name.text().is_empty() {
            names.insert(name.text());
        }
    }
}
