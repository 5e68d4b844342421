//! VolumeAttachments: the wish that a volume be attached to a node.

use holdfast_resource::metadata::formats::dns_subdomain;
use holdfast_resource::{Field, FieldError, Strategy, WriteContext};
use holdfast_value::Value;

use crate::core::persistentvolume::validate_inline_volume;
use crate::resource::validate_driver_name;
use crate::validation::{Errors, immutable, numbers, report};

/// What only VolumeAttachments do.
pub(crate) struct VolumeAttachment;

const MESSAGE_LENGTH: usize = 1024;
const METADATA_LENGTH: usize = 256 * 1024;

impl Strategy for VolumeAttachment {
    fn validate(&self, _context: &WriteContext<'_>, object: &Value) -> Vec<FieldError> {
        let root = Field::root(object);
        let spec = root.child("spec");
        let mut errors = Errors::new();
        validate_driver_name(&spec.child("attacher"), &mut errors);
        let source = spec.child("source");
        let name = source.child("persistentVolumeName");
        validate_source(&source, &mut errors);
        let node = spec.child("nodeName");
        report(&node, dns_subdomain(node.text()), &mut errors);
        validate_status(&root.child("status"), &mut errors);
        if name.is_set() {
            report(&name, dns_subdomain(name.text()), &mut errors);
        }
        errors
    }

    fn validate_update(&self, context: &WriteContext<'_>, object: &Value, old: &Value) -> Vec<FieldError> {
        let (root, old) = (Field::root(object), Field::root(old));
        let mut errors = self.validate(context, object);
        let (spec, old_spec) = (root.child("spec"), old.child("spec"));
        // A volume of which nothing is said is another than none.
        let is_inline = |spec: &Field<'_, '_>| spec.child("source").child("inlineVolumeSpec").is_set();
        if is_inline(&spec) == is_inline(&old_spec) {
            immutable(&spec, &old_spec, &mut errors);
        } else {
            errors.push(spec.invalid("field is immutable"));
        }
        errors
    }
}

/// `validateVolumeAttachmentSource`
fn validate_source(source: &Field<'_, '_>, errors: &mut Errors) {
    const ONE: &str = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
    let (inline, name) = (source.child("inlineVolumeSpec"), source.child("persistentVolumeName"));
    match (inline.is_set(), name.is_set()) {
        (false, false) => errors.push(source.required(ONE)),
        (true, true) => errors.push(source.forbidden(ONE)),
        (false, true) if name.text().is_empty() => {
            errors.push(name.required("must specify non empty persistentVolumeName"));
        }
        (false, true) => {}
        (true, false) => validate_inline_volume(&inline, errors),
    }
}

/// `validateVolumeAttachmentStatus`
fn validate_status(status: &Field<'_, '_>, errors: &mut Errors) {
    let metadata = status.child("attachmentMetadata");
    let size: usize = metadata
        .entries()
        .map(|(key, value)| key.len() + value.text().len())
        .sum();
    if size > METADATA_LENGTH {
        errors.push(metadata.too_long(METADATA_LENGTH));
    }
    for part in ["attachError", "detachError"] {
        let error = status.child(part);
        let message = error.child("message");
        if message.text().len() > MESSAGE_LENGTH {
            // The reference names another limit than the one it holds to.
            errors.push(message.too_long(METADATA_LENGTH));
        }
        numbers::within(&error.child("errorCode"), 0, i64::from(i32::MAX), errors);
    }
}

#[cfg(test)]
mod tests {
    use crate::harness::{Harness, at};

    fn attachment(spec: &str, status: &str) -> String {
        format!(
            "{{apiVersion: storage.k8s.io/v1, kind: VolumeAttachment, metadata: {{name: a}}, spec: {{attacher: a, nodeName: one, \
             {spec}}}, status: {{attached: true, {status}}}}}"
        )
    }

    #[test]
    fn an_inline_volume_is_of_a_driver_and_takes_no_defaults() {
        let inline = |spec: &str| attachment(&format!("source: {{inlineVolumeSpec: {{{spec}}}}}"), "");
        let good = "csi: {driver: d, volumeHandle: h}, accessModes: [ReadWriteOnce]";
        let harness = Harness::new();
        assert!(harness.errors(&inline(good)).is_empty());
        let object = harness.create(&inline(good));
        assert_eq!(at(&object, "spec.source.inlineVolumeSpec.volumeMode"), "nothing");
        let place = "spec.source.inlineVolumeSpec";
        assert_eq!(
            harness.errors(&inline(
                "capacity: {storage: 1Gi}, nfs: {server: s, path: /}, storageClassName: c"
            )),
            [
                format!("{place}.capacity: Forbidden: may not be specified in the context of inline volumes"),
                format!("{place}.csi: Required value: has to be specified in the context of inline volumes"),
                format!("{place}.accessModes: Required value"),
                format!("{place}.storageClassName: Forbidden: may not be specified in the context of inline volumes"),
            ]
        );
    }

    #[test]
    fn names_and_errors_are_checked_by_updates_too() {
        let harness = Harness::new();
        let old = attachment("source: {persistentVolumeName: v}", "");
        let told = harness.update_errors(
            &old,
            &old.replace("persistentVolumeName: v", "persistentVolumeName: ''"),
        );
        let fields: Vec<&str> = told.iter().filter_map(|error| error.split(": ").next()).collect();
        let name = "spec.source.persistentVolumeName";
        assert_eq!(fields, [name, name, "spec"]);
        let failed = attachment("source: {persistentVolumeName: v}", "attachError: {errorCode: -1}");
        assert_eq!(
            harness.subresource_errors(Some("status"), &old, &failed),
            ["status.attachError.errorCode: Invalid value: -1: must be between 0 and 2147483647, inclusive"]
        );
    }
}
