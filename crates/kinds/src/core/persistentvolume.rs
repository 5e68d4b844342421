//! PersistentVolumes: <https://kubernetes.io/docs/concepts/storage/persistent-volumes/>.

use holdfast_resource::metadata::formats::dns_subdomain;
use holdfast_resource::{Field, FieldError, FieldPath, Refusal, Strategy, WriteContext};
use holdfast_value::Value;

use super::persistentvolumeclaim::validate_access_modes;
use super::pod_spec::{validate_host_path, validate_nfs, validate_node_selector};
use crate::defaults::is_zero;
use crate::time::time_text;
use crate::validation::resources::{fractional_bytes, quantity};
use crate::validation::{Errors, one_of, optional_text, report, required_text, same};

/// What only PersistentVolumes do.
pub(crate) struct PersistentVolume;

/// What a volume may be made of.
const SOURCES: [&str; 22] = [
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "flocker",
    "nfs",
    "rbd",
    "quobyte",
    "cephfs",
    "iscsi",
    "cinder",
    "fc",
    "flexVolume",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "scaleIO",
    "local",
    "storageos",
    "csi",
];

impl Strategy for PersistentVolume {
    fn prepare_for_create(&self, context: &WriteContext<'_>, object: &mut Value) -> Result<(), Refusal> {
        let mut status = Value::empty_map();
        status.set_at(&["phase"], "Pending".into());
        status.set_at(&["lastPhaseTransitionTime"], time_text(context.now));
        object.set_at(&["status"], status);
        Ok(())
    }

    fn prepare_for_update(&self, context: &WriteContext<'_>, object: &mut Value, old: &Value) -> Result<(), Refusal> {
        let phase = |object: &Value| object.str_at(&["status", "phase"]).map(str::to_owned);
        if context.subresource == Some("status") && phase(object) != phase(old) {
            let sent = object.at(&["status", "lastPhaseTransitionTime"]);
            if is_zero(sent) || sent == old.at(&["status", "lastPhaseTransitionTime"]) {
                object.set_at(&["status", "lastPhaseTransitionTime"], time_text(context.now));
            }
        }
        Ok(())
    }

    fn validate(&self, _context: &WriteContext<'_>, object: &Value) -> Vec<FieldError> {
        let mut errors = Errors::new();
        validate_volume(&Field::root(object).child("spec"), &mut errors);
        errors
    }

    fn validate_update(&self, context: &WriteContext<'_>, object: &Value, old: &Value) -> Vec<FieldError> {
        if context.subresource == Some("status") {
            return Errors::new();
        }
        let mut errors = self.validate(context, object);
        let (root, old_root) = (Field::root(object), Field::root(old));
        let (spec, old_spec) = (root.child("spec"), old_root.child("spec"));
        let changed = |part: &&str| !same(spec.child(part).value(), old_spec.child(part).value());
        if SOURCES.iter().any(changed) {
            // The reference makes this name of its own field's.
            let place = FieldPath::new("spec.persistentvolumesource");
            let detail = "spec.persistentvolumesource is immutable after creation";
            errors.push(FieldError::forbidden(&place, detail));
        }
        let mode = spec.child("volumeMode");
        crate::validation::immutable(
            &Field::placed(mode.value(), "volumeMode"),
            &old_spec.child("volumeMode"),
            &mut errors,
        );
        let (affinity, before) = (spec.child("nodeAffinity"), old_spec.child("nodeAffinity"));
        if before.is_set() && !same(affinity.value(), before.value()) {
            errors.push(affinity.invalid("field is immutable"));
        }
        errors
    }

    fn warnings(&self, context: &WriteContext<'_>, object: &Value, old: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        if context.subresource.is_none() && !old.is_some_and(|old| same(object.get("spec"), old.get("spec"))) {
            let root = Field::root(object);
            let spec = root.child("spec");
            if spec.child("persistentVolumeReclaimPolicy").text() == "Recycle" {
                warnings.push(
                    "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended \
                     approach is to use dynamic provisioning."
                        .to_owned(),
                );
            }
            fractional_bytes(&spec.child("capacity"), &mut warnings);
        }
        warnings
    }
}

fn validate_volume(spec: &Field<'_, '_>, errors: &mut Errors) {
    let modes = spec.child("accessModes");
    if modes.is_empty() {
        errors.push(modes.required(""));
    }
    validate_access_modes(&modes, errors);
    let capacity = spec.child("capacity");
    if capacity.is_empty() {
        errors.push(capacity.required(""));
    }
    let only_storage = capacity.len() == 1 && capacity.entry("storage").is_set();
    if !only_storage {
        errors.push(FieldError::not_supported(
            &capacity.path(),
            capacity
                .value()
                .filter(|_| !capacity.is_empty())
                .cloned()
                .unwrap_or_default(),
            &["storage"],
        ));
    }
    for (_, amount) in capacity.entries() {
        match quantity(&amount) {
            Some(size) if size.is_negative() => {
                errors.push(amount.invalid_as(size.units(), "must be a valid resource quantity"));
                errors.push(amount.invalid("must be greater than zero"));
            }
            Some(size) if !size.is_positive() => errors.push(amount.invalid("must be greater than zero")),
            _ => {}
        }
    }
    let reclaim = spec.child("persistentVolumeReclaimPolicy");
    if !reclaim.text().is_empty() {
        one_of(&reclaim, &["Delete", "Recycle", "Retain"], errors);
    }
    let affinity = spec.child("nodeAffinity");
    if affinity.is_set() {
        let required = affinity.child("required");
        if required.is_set() {
            // Two checks of the reference find the same.
            validate_node_selector(&required, errors);
            validate_node_selector(&required, errors);
        } else {
            errors.push(required.required("must specify required node constraints"));
        }
    }
    validate_sources(spec, errors);
    if spec.child("hostPath").child("path").text() == "/" && reclaim.text() == "Recycle" {
        errors.push(reclaim.forbidden("may not be 'recycle' for a hostPath mount of '/'"));
    }
    optional_text(&spec.child("storageClassName"), dns_subdomain, errors);
    let mode = spec.child("volumeMode");
    if mode.is_set() {
        one_of(&mode, &["Block", "Filesystem"], errors);
    }
    let class = spec.child("volumeAttributesClassName");
    if class.is_set() {
        report(&class, dns_subdomain(class.text()), errors);
        if !spec.child("csi").is_set() {
            errors.push(
                spec.child("csi")
                    .required("has to be specified when using volumeAttributesClassName"),
            );
        }
    }
}

fn validate_sources(spec: &Field<'_, '_>, errors: &mut Errors) {
    let mut found = false;
    for name in SOURCES {
        let source = spec.child(name);
        if !source.is_set() {
            continue;
        }
        if found {
            errors.push(source.forbidden("may not specify more than 1 volume type"));
            continue;
        }
        found = true;
        match name {
            "hostPath" => validate_host_path(&source, errors),
            "nfs" => validate_nfs(&source, errors),
            "local" => {
                let path = source.child("path");
                if path.text().is_empty() {
                    errors.push(path.required(""));
                }
                crate::validation::paths::no_back_steps(&path, errors);
                if !spec.child("nodeAffinity").is_set() {
                    errors.push(
                        spec.child("nodeAffinity")
                            .required("Local volume requires node affinity"),
                    );
                }
            }
            "csi" => {
                required_text(
                    &source.child("driver"),
                    |name| dns_subdomain(&name.to_lowercase()),
                    errors,
                );
                let handle = source.child("volumeHandle");
                if handle.text().is_empty() {
                    errors.push(handle.required(""));
                }
            }
            _ => {}
        }
    }
    if !found {
        errors.push(spec.required("must specify a volume type"));
    }
}

#[cfg(test)]
mod tests {
    use crate::harness::{Harness, at};

    fn volume(spec: &str) -> String {
        format!("{{apiVersion: v1, kind: PersistentVolume, metadata: {{name: v}}, spec: {{{spec}}}}}")
    }

    const DISK: &str = "capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], hostPath: {path: /data}";

    #[test]
    fn a_volume_is_made_of_one_thing() {
        let harness = Harness::new();
        assert!(harness.errors(&volume(DISK)).is_empty());
        assert_eq!(
            harness.errors(&volume(&format!("{DISK}, nfs: {{server: s, path: /p}}"))),
            ["spec.nfs: Forbidden: may not specify more than 1 volume type"]
        );
        assert_eq!(
            harness.update_errors(&volume(DISK), &volume(&DISK.replace("/data", "/other"))),
            ["spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after creation"]
        );
    }

    #[test]
    fn a_new_volume_is_pending_since_now() {
        let created = Harness::new().create(&volume(DISK));
        assert_eq!(
            at(&created, "status"),
            r#"{"lastPhaseTransitionTime":"2001-09-09T01:46:40Z","phase":"Pending"}"#
        );
    }
}
