//! VolumeAttachments: the wish that a volume be attached to a node.

use holdfast_resource::metadata::formats::{dns_subdomain, qualified_name};
use holdfast_resource::{Field, FieldError, Strategy, WriteContext};
use holdfast_value::Value;

use crate::validation::{Errors, immutable, report};

/// What only VolumeAttachments do.
pub(crate) struct VolumeAttachment;

const ATTACHER_LENGTH: usize = 63;
/// The reference names another limit than the one it holds to.
const MESSAGE_LENGTH: usize = 1024;
const SHOWN_LENGTH: usize = 262_144;

impl Strategy for VolumeAttachment {
    fn validate(&self, _context: &WriteContext<'_>, object: &Value) -> Vec<FieldError> {
        let root = Field::root(object);
        let spec = root.child("spec");
        let mut errors = Errors::new();
        let attacher = spec.child("attacher");
        match attacher.text() {
            "" => errors.push(attacher.required("")),
            name if name.len() > ATTACHER_LENGTH => errors.push(attacher.too_long(ATTACHER_LENGTH)),
            name => report(&attacher, qualified_name(&name.to_lowercase()), &mut errors),
        }
        let source = spec.child("source");
        let (inline, named) = (source.child("inlineVolumeSpec"), source.child("persistentVolumeName"));
        match (inline.is_set(), named.is_set()) {
            (false, false) => {
                errors.push(source.required("must specify exactly one of inlineVolumeSpec and persistentVolumeName"))
            }
            (true, true) => {
                errors.push(source.forbidden("must specify exactly one of inlineVolumeSpec and persistentVolumeName"))
            }
            (false, true) => report(&named, dns_subdomain(named.text()), &mut errors),
            (true, false) => {}
        }
        let node = spec.child("nodeName");
        report(&node, dns_subdomain(node.text()), &mut errors);
        validate_messages(&root, &mut errors);
        errors
    }

    fn validate_update(&self, context: &WriteContext<'_>, object: &Value, old: &Value) -> Vec<FieldError> {
        let (root, old) = (Field::root(object), Field::root(old));
        let mut errors = Errors::new();
        if context.subresource == Some("status") {
            validate_messages(&root, &mut errors);
        } else {
            errors = self.validate(context, object);
            immutable(&root.child("spec"), &old.child("spec"), &mut errors);
        }
        errors
    }
}

fn validate_messages(attachment: &Field<'_, '_>, errors: &mut Errors) {
    let status = attachment.child("status");
    for part in ["attachError", "detachError"] {
        let error = status.child(part);
        let message = error.child("message");
        if message.text().len() > MESSAGE_LENGTH {
            errors.push(message.too_long(SHOWN_LENGTH));
        }
    }
}
