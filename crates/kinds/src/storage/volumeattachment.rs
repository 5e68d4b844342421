//! VolumeAttachments: requests to attach a volume to a node.

use holdfast_kind_tables::Kind;
use holdfast_kind_tables::metadata_checks::{of_core, with_status};
use holdfast_resource::Strategy;
use holdfast_schema::metadata::formats::dns_subdomain;
use holdfast_schema::{AnyChanges, AnyRules, Changes, Check, Field, Part, Rules};

use crate::core::persistentvolume::validate_inline_volume;
use crate::kind::kind;
use crate::rules::{VolumeAttachmentChange, VolumeAttachmentRule};
use crate::validation::{Errors, immutable, report};

/// Strategy of VolumeAttachments.
pub(crate) struct VolumeAttachment;

const MESSAGE_LENGTH: usize = 1024;
const METADATA_LENGTH: usize = 256 * 1024;

/// Returns the kind with its capabilities.
pub(super) fn declare() -> Kind {
    kind(VolumeAttachment)
        .empty_status()
        .metadata_checks(with_status(of_core(1, 0), 1, 0))
        .done()
}

impl Strategy for VolumeAttachment {
    fn rules<'v>(&self) -> &dyn AnyRules<'v> {
        self
    }

    fn changes<'v>(&self) -> &dyn AnyChanges<'v> {
        self
    }
}

impl<'v> Rules<'v> for VolumeAttachment {
    type Rule = VolumeAttachmentRule;

    fn rule(&self, rule: VolumeAttachmentRule, part: &Part<'v, '_>, check: &mut Check<'_>) {
        let errors = &mut check.errors;
        match rule {
            VolumeAttachmentRule::Source => validate_source(&part.child("source"), check),
            VolumeAttachmentRule::Volume => {
                let source = part.child("source");
                let volume = source.child("persistentVolumeName");
                if volume.is_set() {
                    report(&volume, dns_subdomain(volume.text()), errors);
                }
            }
            VolumeAttachmentRule::AttachmentMetadata => validate_metadata(&part.child("attachmentMetadata"), errors),
            VolumeAttachmentRule::Message => {
                let message = part.child("message");
                if message.text().len() > MESSAGE_LENGTH {
                    // The reference reports the limit of another field.
                    errors.push(message.too_long(METADATA_LENGTH));
                }
            }
        }
    }
}

impl<'v> Changes<'v> for VolumeAttachment {
    type Change = VolumeAttachmentChange;

    fn change(&self, change: VolumeAttachmentChange, part: &Part<'v, '_>, old: &Part<'v, '_>, check: &mut Check<'_>) {
        let VolumeAttachmentChange::Spec = change;
        let (spec, old) = (part.child("spec"), old.child("spec"));
        let is_inline = |spec: &Field<'_, '_>| spec.child("source").child("inlineVolumeSpec").is_set();
        if is_inline(&spec) == is_inline(&old) {
            immutable(&spec, &old, &mut check.errors);
        } else {
            check.errors.push(spec.invalid("field is immutable"));
        }
    }
}

/// upstream: pkg/apis/storage/validation#validateVolumeAttachmentSource
fn validate_source(source: &Field<'_, '_>, check: &mut Check<'_>) {
    let errors = &mut check.errors;
    const ONE: &str = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
    let (inline, name) = (source.child("inlineVolumeSpec"), source.child("persistentVolumeName"));
    match (inline.is_set(), name.is_set()) {
        (false, false) => errors.push(source.required(ONE)),
        (true, true) => errors.push(source.forbidden(ONE)),
        (false, true) if name.text().is_empty() => {
            errors.push(name.required("must specify non empty persistentVolumeName"));
        }
        (false, true) => {}
        (true, false) => validate_inline_volume(&inline, check),
    }
}

/// upstream: pkg/apis/storage/validation#validateAttachmentMetadata
fn validate_metadata(metadata: &Field<'_, '_>, errors: &mut Errors) {
    let size: usize = metadata
        .entries()
        .map(|(key, value)| key.len() + value.text().len())
        .sum();
    if size > METADATA_LENGTH {
        errors.push(metadata.too_long(METADATA_LENGTH));
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
    fn an_attacher_has_the_name_of_a_driver() {
        let errors = |name: &str| {
            let attachment = attachment("source: {persistentVolumeName: v}", "");
            Harness::new().errors(&attachment.replace("attacher: a", &format!("attacher: '{name}'")))
        };
        assert!(errors("D.example.com").is_empty());
        assert_eq!(errors(""), ["spec.attacher: Required value"]);
        assert!(errors("a b")[0].starts_with("spec.attacher: Invalid value: \"a b\": "));
    }

    #[test]
    fn names_and_errors_are_checked_by_updates_too() {
        let harness = Harness::new();
        let old = attachment("source: {persistentVolumeName: v}", "");
        let messages = harness.update_errors(
            &old,
            &old.replace("persistentVolumeName: v", "persistentVolumeName: ''"),
        );
        let fields: Vec<&str> = messages.iter().filter_map(|error| error.split(": ").next()).collect();
        let name = "spec.source.persistentVolumeName";
        assert_eq!(fields, [name, name, "spec"]);
        let failed = attachment("source: {persistentVolumeName: v}", "attachError: {errorCode: -1}");
        assert_eq!(
            harness.subresource_errors(Some("status"), &old, &failed),
            ["status.attachError.errorCode: Invalid value: -1: must be between 0 and 2147483647, inclusive"]
        );
    }
}
