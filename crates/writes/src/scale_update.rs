//! The run of a write to a Scale.

use holdfast_ownership::ScaleOwnership;
use holdfast_resource::{Operation, Resource};
use holdfast_schema::metadata::validate_scale_metadata;
use holdfast_schema::{FieldError, FieldPath, GroupKind, GroupResource, Provenance, ScaleFields, nested_path};
use holdfast_value::{SmolStr, Value};

use crate::change::{Change, Updated};
use crate::error::Error;
use crate::scale::{self, KIND, UNSET, at};
use crate::stage::Stage;
use crate::staged::{Existing, Staged, StoredObject};
use crate::{metadata, tracking};

/// Runs a write to the Scale of a stored object.
pub(crate) async fn update(
    stage: &Stage<'_>,
    change: &Change,
    fields: &ScaleFields,
    stored: &StoredObject,
) -> Result<Staged, Error> {
    let target = stage.target;
    let parent = stage.requested(stored).await?;
    let ownership = ownership(stage.resource(), &target.api_version);
    let undecodable = |error: holdfast_ownership::DecodeError| Error::unclassified(error.to_string());
    let mut old = scale::from_parent(&parent, fields);
    if stage.resource().conventions.untyped_scale && at(&parent, &fields.spec_replicas).is_none() {
        old.set_at(&["spec", "replicas"], UNSET.into());
    }
    if let Some(entries) = ownership.to_scale(&parent).map_err(undecodable)? {
        old.set_at(&["metadata", "managedFields"], entries);
    }
    let existing = Existing {
        object: &old,
        provenance: Provenance::from_tree(),
    };
    let Updated {
        object: mut scale,
        mut warnings,
        ..
    } = change.updated(stage, existing).await?;
    stage.check_place(&mut scale)?;
    if !change.tracks() {
        tracking::update(stage, Some(existing), &mut scale).await;
    }
    let name = SmolStr::new(metadata::name(&stored.object));
    let attributes = stage.attributes("UPDATE", &name);
    let call = stage.call(Operation::Update, &name);
    let mutated = stage.mutate(&call, &attributes, Some(&mut scale), Some(&old), None);
    mutated.await.map_err(|error| call.refused(error))?;
    warnings.extend(call.warnings());
    drop(call);
    check(stage.resource(), &scale, &stored.object)?;
    if scale.at(&["spec", "replicas"]).and_then(Value::as_i64) == Some(UNSET) {
        let path = nested_path(&fields.spec_replicas);
        return Err(Error::bad_request(format!(
            "the spec replicas field {path:?} cannot be empty"
        )));
    }

    let before = parent.clone();
    let mut object = parent;
    let replicas = scale.at(&["spec", "replicas"]).cloned().unwrap_or(Value::Int(0));
    let path: Vec<&str> = fields.spec_replicas.iter().map(SmolStr::as_str).collect();
    object.set_at(&path, replicas);
    let version = scale
        .str_at(&["metadata", "resourceVersion"])
        .unwrap_or_default()
        .to_owned();
    object.set_at(&["metadata", "resourceVersion"], version.into());
    ownership.to_parent(&mut object, &scale).map_err(undecodable)?;
    let object = stage.to_be_checked(object).await?;
    let updated = Updated::new(object, warnings, target.body.provenance());
    stage.finish_update(updated, stored, &before, Some(fields)).await
}

fn ownership(resource: &Resource, api_version: &SmolStr) -> ScaleOwnership {
    let paths = resource.versions.iter().map(|version| {
        let scale = version
            .subresource("scale")
            .and_then(|subresource| subresource.scale.as_ref());
        (
            version.api_version.clone(),
            scale.map(|fields| fields.spec_replicas.clone()),
        )
    });
    ScaleOwnership::new(api_version.clone(), paths)
}

/// Validates a Scale that was sent.
///
/// upstream: pkg/registry/apps/deployment/storage#scaleUpdatedObjectInfo.UpdatedObject
fn check(resource: &Resource, scale: &Value, stored: &Value) -> Result<(), Error> {
    let name = metadata::name(stored);
    // Custom resources have different messages for this.
    let errors = if resource.conventions.untyped_scale {
        Vec::new()
    } else {
        errors(scale)
    };
    if !errors.is_empty() {
        let kind = GroupKind {
            group: SmolStr::new_static("autoscaling"),
            kind: SmolStr::new_static(KIND),
        };
        return Err(Error::invalid(&kind, metadata::name(scale), errors));
    }
    let (wanted, uid) = (metadata::uid(scale), metadata::uid(stored));
    if !wanted.is_empty() && wanted != uid {
        let named = GroupResource {
            group: resource.group.clone(),
            resource: smol_str::format_smolstr!("{}/scale", resource.plural),
        };
        let why = format!("Precondition failed: UID in precondition: {wanted}, UID in object meta: {uid}");
        return Err(Error::conflict(&named, name, why));
    }
    Ok(())
}

/// Returns the validation errors of the metadata of a Scale and of its replicas.
///
/// upstream: pkg/apis/autoscaling/validation#ValidateScale
fn errors(scale: &Value) -> Vec<FieldError> {
    let mut errors = validate_scale_metadata(scale);
    let replicas = scale
        .at(&["spec", "replicas"])
        .and_then(Value::as_i64)
        .unwrap_or_default();
    if replicas < 0 {
        let field = FieldPath::new("spec.replicas");
        errors.push(FieldError::invalid(
            &field,
            replicas,
            "must be greater than or equal to 0",
        ));
    }
    errors
}

#[cfg(test)]
mod tests {
    use holdfast_value::{Limits, json};

    use super::*;

    #[test]
    fn the_metadata_of_a_scale_is_looked_at_before_its_number() {
        let text = r#"{"metadata":{"name":"a","namespace":"n","labels":{"/x":"y"}},"spec":{"replicas":-1}}"#;
        let scale = json::parse(text.as_bytes(), &Limits::TRUSTED).unwrap();
        let fields: Vec<String> = errors(&scale).iter().map(|error| error.field.to_string()).collect();
        assert_eq!(fields, ["metadata.labels", "spec.replicas"]);
    }
}
