//! Volumes of a Pod, and their mounts in containers.

use std::collections::{HashMap, HashSet};

use holdfast_schema::metadata::formats::dns_subdomain;
use holdfast_schema::metadata::labels::validate_label_selector;
use holdfast_schema::{Check, Field, FieldError, Part, Rules};
use holdfast_value::Value;

use super::env::{DownwardTo, validate_field_selector, validate_resource_selector};
use crate::claim_spec::ClaimRules;
use crate::rules::PodVolumeRule;
use crate::validation::paths::{descending, descending_not_reserved};
use crate::validation::signers::validate_signer_name;
use crate::validation::template_metadata::validate_template_metadata;
use crate::validation::{Errors, resources};
use crate::volume_sources::{Source, SourceRules, iscsi_too_long, named_source, source, validate_one_source};

/// Valid volumes of a Pod, by name.
pub(super) type Volumes<'v> = HashMap<&'v str, &'v Value>;

/// Volume sources in the order in which the reference validates them.
const SOURCES: [Source; 30] = [
    source("emptyDir"),
    source("hostPath"),
    source("gitRepo"),
    named_source("gcePersistentDisk", "gcePersistentDisk", "persistentDisk"),
    source("awsElasticBlockStore"),
    source("secret"),
    source("nfs"),
    source("iscsi"),
    source("glusterfs"),
    source("flocker"),
    source("persistentVolumeClaim"),
    source("rbd"),
    source("cinder"),
    named_source("cephfs", "cephFS", "cephfs"),
    source("quobyte"),
    named_source("downwardAPI", "downwarAPI", "downwardAPI"),
    source("fc"),
    source("flexVolume"),
    source("configMap"),
    source("azureFile"),
    source("vsphereVolume"),
    source("photonPersistentDisk"),
    source("portworxVolume"),
    source("azureDisk"),
    source("storageos"),
    source("projected"),
    source("scaleIO"),
    source("csi"),
    source("ephemeral"),
    source("image"),
];

/// Checks of the sources of a Pod's volumes that the reference makes in code.
struct VolumeRules;

impl<'v> Rules<'v> for VolumeRules {
    type Rule = PodVolumeRule;

    fn rule(&self, rule: PodVolumeRule, source: &Part<'v, '_>, check: &mut Check<'_>) {
        match rule {
            PodVolumeRule::SizeLimit => validate_size_limit(source, &mut check.errors),
            PodVolumeRule::Directory => descending(&source.child("directory"), &mut check.errors),
            PodVolumeRule::Path => descending_not_reserved(&source.child("path"), &mut check.errors),
            PodVolumeRule::DownwardFiles => validate_downward_files(source, check),
            PodVolumeRule::Projections => validate_projections(source, check),
            PodVolumeRule::ClaimTemplate => validate_claim_template(source, check),
            PodVolumeRule::VolumeSource(rule) => SourceRules { name: "" }.rule(rule, source, check),
        }
    }
}

/// Validates the volumes of a Pod called `pod_name` and returns those that containers can mount.
///
/// upstream: pkg/apis/core/validation#ValidateVolumes
pub(super) fn validate_volumes<'v>(spec: &Part<'v, '_>, pod_name: &str, check: &mut Check<'_>) -> Volumes<'v> {
    let volumes = spec.child("volumes");
    let made = claims_made(&volumes, pod_name);
    let mut known = Volumes::new();
    for volume in check.items(spec, "volumes", &volumes) {
        let before = check.errors.len();
        validate_source(&volume, pod_name, check);
        check.field(&volume, "name", &VolumeRules);
        let name = volume.child("name");
        if known.contains_key(name.text()) {
            check.errors.push(name.duplicate());
        }
        if let (true, Some(value)) = (check.errors.len() == before, volume.value()) {
            known.insert(name.text(), value);
        }
        let source = volume.child("persistentVolumeClaim");
        let claim = source.child("claimName");
        if made.contains(claim.text()) {
            let detail = "must not reference a PVC that gets created for an ephemeral volume";
            check.errors.push(claim.invalid(detail));
        }
    }
    known
}

/// Returns the names of the claims that are created with the Pod; empty if the Pod's name is unknown.
fn claims_made(volumes: &Field<'_, '_>, pod_name: &str) -> HashSet<String> {
    if pod_name.is_empty() {
        return HashSet::new();
    }
    let ephemeral = volumes.items().filter(|volume| volume.child("ephemeral").is_set());
    ephemeral
        .map(|volume| format!("{pod_name}-{}", volume.child("name").text()))
        .collect()
}

/// upstream: pkg/apis/core/validation#validateVolumeSource
fn validate_source(volume: &Part<'_, '_>, pod_name: &str, check: &mut Check<'_>) {
    let name = volume.child("name");
    validate_one_source(volume, &SOURCES, &VolumeRules, check, &|found, errors| {
        if found == "ephemeral" && !pod_name.is_empty() && !name.text().is_empty() {
            let claim = format!("{pod_name}-{}", name.text());
            let details = dns_subdomain(&claim);
            let messages = details
                .into_iter()
                .map(|detail| format!("PVC name {claim:?}: {detail}"));
            errors.extend(messages.map(|detail| name.invalid(detail)));
        }
    });
    let target = volume.child("iscsi");
    if let Some(detail) = iscsi_too_long(&target, name.text()) {
        check.errors.push(name.invalid_text(detail));
    }
}

/// Validates the size limit of an emptyDir volume.
///
/// upstream: pkg/apis/core/validation#validateVolumeSource
fn validate_size_limit(source: &Field<'_, '_>, errors: &mut Errors) {
    let limit = source.child("sizeLimit");
    if resources::is_negative(&limit) {
        errors.push(limit.forbidden("SizeLimit field must be a valid resource quantity"));
    }
}

/// Validates the files of a downward API volume.
///
/// upstream: pkg/apis/core/validation#validateDownwardAPIVolumeSource
fn validate_downward_files(source: &Part<'_, '_>, check: &mut Check<'_>) {
    let list = source.child("items");
    for item in check.items(source, "items", &list) {
        validate_downward_file(&item, source, check);
    }
}

/// Validates a file. The reference reports its errors at the parent of the list.
///
/// upstream: pkg/apis/core/validation#validateDownwardAPIVolumeFile
fn validate_downward_file(item: &Part<'_, '_>, source: &Field<'_, '_>, check: &mut Check<'_>) {
    let place = source.path();
    let item = item.shown_at(Field::placed(item.value(), place.as_str()));
    let errors = &mut check.errors;
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
    check.field(&item, "mode", &VolumeRules);
}

const TOKEN_SECONDS_LEAST: i64 = 600;
const TOKEN_SECONDS_MOST: i64 = 1 << 32;

/// Paths that the sources of a projected volume have used so far.
type Paths<'v> = HashSet<&'v str>;

/// Validates the sources of a projected volume.
///
/// upstream: pkg/apis/core/validation#validateProjectionSources
fn validate_projections(volume: &Part<'_, '_>, check: &mut Check<'_>) {
    let mut paths = Paths::new();
    let list = volume.child("sources");
    for projection in check.items(volume, "sources", &list) {
        let mut found = 0;
        for (part, validate) in PROJECTIONS {
            if let Some(one) = check.child(&projection, part).filter(|one| one.is_set()) {
                found += 1;
                validate(&one, volume, &mut paths, check);
            }
        }
        if found > 1 {
            let detail = "may not specify more than 1 volume type per source";
            check.errors.push(projection.forbidden(detail));
        }
    }
}

/// Check of one source of a projected volume. The reference reports conflicts at the volume.
type Projection = for<'v> fn(&Part<'v, '_>, &Field<'_, '_>, &mut Paths<'v>, &mut Check<'_>);

const PROJECTIONS: [(&str, Projection); 6] = [
    ("secret", project_keys),
    ("configMap", project_keys),
    ("downwardAPI", project_downward),
    ("serviceAccountToken", project_token),
    ("clusterTrustBundle", project_trust_bundle),
    ("podCertificate", project_certificate),
];

/// upstream: pkg/apis/core/validation#validateProjectionSources
fn conflict(volume: &Field<'_, '_>, shown: &str) -> FieldError {
    volume.invalid_as(shown, "conflicting duplicate paths")
}

fn project_keys<'v>(one: &Part<'v, '_>, volume: &Field<'_, '_>, paths: &mut Paths<'v>, check: &mut Check<'_>) {
    check.field(one, "name", &VolumeRules);
    let list = one.child("items");
    for item in check.items(one, "items", &list) {
        check.values(&item, &VolumeRules);
        let path = item.child("path").text();
        if !path.is_empty() && !paths.insert(path) {
            check.errors.push(conflict(volume, one.child("name").text()));
        }
    }
}

fn project_downward<'v>(one: &Part<'v, '_>, volume: &Field<'_, '_>, paths: &mut Paths<'v>, check: &mut Check<'_>) {
    let list = one.child("items");
    for item in check.items(one, "items", &list) {
        validate_downward_file(&item, one, check);
        let path = item.child("path").text();
        if !path.is_empty() && !paths.insert(path) {
            check.errors.push(conflict(volume, path));
        }
    }
}

/// upstream: pkg/apis/core/validation#validateProjectionSources
fn project_token<'v>(one: &Part<'v, '_>, volume: &Field<'_, '_>, _paths: &mut Paths<'v>, check: &mut Check<'_>) {
    let errors = &mut check.errors;
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
    let field = volume.child("path");
    let shown = field.path();
    let path = Field::placed(path.value(), shown.as_str());
    if path.text().is_empty() {
        errors.push(path.required(""));
    } else {
        descending_not_reserved(&path, errors);
    }
}

/// upstream: pkg/apis/core/validation#validateProjectionSources
fn project_trust_bundle<'v>(one: &Part<'v, '_>, volume: &Field<'_, '_>, paths: &mut Paths<'v>, check: &mut Check<'_>) {
    let errors = &mut check.errors;
    let (name, signer, selector) = (one.child("name"), one.child("signerName"), one.child("labelSelector"));
    match (name.is_set(), signer.is_set()) {
        (true, true) => errors.push(one.invalid("only one of name and signerName may be used")),
        (true, false) => {
            if name.text().is_empty() {
                errors.push(name.required("must be a valid object name"));
            }
            let details = dns_subdomain(name.text().rsplit_once(':').map_or(name.text(), |(_, last)| last));
            errors.extend(
                details
                    .into_iter()
                    .map(|detail| name.invalid_text(format!("not a valid clustertrustbundlename: {detail}"))),
            );
            if selector.is_set() {
                errors.push(selector.invalid("labelSelector must be unset if name is specified"));
            }
        }
        (false, true) => {
            if signer.text().is_empty() {
                errors.push(signer.required("must be a valid signer name"));
            }
            validate_signer_name(&signer, errors);
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

/// Key types that a projected certificate supports.
const KEY_TYPES: [&str; 6] = ["ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519", "RSA3072", "RSA4096"];

fn project_certificate<'v>(one: &Part<'v, '_>, volume: &Field<'_, '_>, paths: &mut Paths<'v>, check: &mut Check<'_>) {
    let errors = &mut check.errors;
    validate_signer_name(&one.child("signerName"), errors);
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

/// Validates the claim template of an ephemeral volume.
///
/// upstream: pkg/apis/core/validation#validateEphemeralVolumeSource
fn validate_claim_template(source: &Part<'_, '_>, check: &mut Check<'_>) {
    let Some(template) = check
        .child(source, "volumeClaimTemplate")
        .filter(|template| template.is_set())
    else {
        let error = source.child("volumeClaimTemplate").required("");
        check.errors.push(error);
        return;
    };
    validate_template_metadata(&template.child("metadata"), check.provenance, &mut check.errors);
    check.field(&template, "spec", &ClaimRules);
}

/// Returns the paths at which a container already has volumes, by volume name; the last one of each name.
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

/// Validates the volume mounts of a container.
///
/// upstream: pkg/apis/core/validation#ValidateVolumeMounts
pub(super) fn validate_mounts(container: &Part<'_, '_>, volumes: &Volumes<'_>, check: &mut Check<'_>) {
    let mut paths = HashSet::new();
    let devices = mounted(&container.child("volumeDevices"), "devicePath");
    let device_paths: HashSet<&str> = devices.values().copied().collect();
    let mounts = container.child("volumeMounts");
    for mount in check.items(container, "volumeMounts", &mounts) {
        let errors = &mut check.errors;
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
        let shown = mount.shown_at(mounts.in_place(mount.value()));
        let (sub_path, expression) = (shown.child("subPath"), shown.child("subPathExpr"));
        descending(&sub_path, errors);
        if !expression.text().is_empty() {
            if !sub_path.text().is_empty() {
                let expression = mount.child("subPathExpr");
                errors.push(expression.invalid("subPathExpr and subPath are mutually exclusive"));
            }
            descending(&expression, errors);
        }
        check.field(&shown, "mountPropagation", &VolumeRules);
        validate_propagation(&shown.child("mountPropagation"), container, &mut check.errors);
        validate_recursive_read_only(&shown, &mut check.errors);
    }
}

/// upstream: pkg/apis/core/validation#validateMountPropagation
fn validate_propagation(propagation: &Field<'_, '_>, container: &Field<'_, '_>, errors: &mut Errors) {
    let context = container.child("securityContext");
    if propagation.text() == "Bidirectional" && !context.child("privileged").is_true() {
        errors
            .push(propagation.forbidden("Bidirectional mount propagation is available only to privileged containers"));
    }
}

/// upstream: pkg/apis/core/validation#validateMountRecursiveReadOnly
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

/// Validates the block devices of a container.
///
/// upstream: pkg/apis/core/validation#ValidateVolumeDevices
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
