//! Change of the existing object by a PUT or a PATCH.

use holdfast_ownership::ApplyOptions;
use holdfast_resource::{Resource, Verb};
use holdfast_schema::types::EmptyField;
use holdfast_schema::{FieldError, FieldPath, GroupKind, PatchError, PatchErrorKind, Provenance};
use holdfast_value::text::Plain;
use holdfast_value::{Value, json, json_patch, merge_patch};

use crate::error::{Error, ErrorKind};
use crate::options::FieldValidation;
use crate::stage::Stage;
use crate::staged::Existing;
use crate::typed::{self, Patched};
use crate::{metadata, stage, tracking};

/// A change of one object.
pub enum Change {
    /// A PUT of this object, which is decoded, typed and has its defaults.
    Replace {
        /// The object.
        object: Value,
        /// Warnings for the client.
        warnings: Vec<String>,
    },
    /// A patch of the object's JSON.
    Patch {
        /// The patch, with the findings of strict validation in the patch itself. An error in the body is reported only if the
        /// object exists.
        patch: Result<(Patch, Vec<String>), Error>,
        /// Handling of unknown and repeated fields.
        validation: FieldValidation,
    },
    /// An apply of this configuration.
    Apply {
        /// The configuration.
        applied: Value,
        /// Findings of strict validation in its text.
        findings: Vec<String>,
        /// Handling of repeated fields.
        validation: FieldValidation,
        /// Options about the fields of other managers.
        options: ApplyOptions,
    },
}

/// A patch other than an apply.
pub enum Patch {
    /// RFC 6902.
    Json(json_patch::Patch),
    /// RFC 7396.
    Merge(Value),
    /// A strategic merge patch, which merges lists.
    Strategic(Value),
}

/// Object after a change and before admission.
pub(crate) struct Updated<'a> {
    /// The object, typed and with its defaults; after an apply also with its managers.
    pub(crate) object: Value,
    /// Warnings for the client.
    pub(crate) warnings: Vec<String>,
    /// Fields that a patch sets to an empty value and that are therefore absent from the object.
    empties: Vec<EmptyField>,
    provenance: Provenance<'a>,
}

impl<'a> Updated<'a> {
    /// Creates the object after a change that sets no field to an empty value, or only those of the provenance.
    pub(crate) fn new(object: Value, warnings: Vec<String>, provenance: Provenance<'a>) -> Self {
        Self {
            object,
            warnings,
            empties: Vec::new(),
            provenance,
        }
    }

    /// Removes and returns the object and the warnings.
    pub(crate) fn take(&mut self) -> (Value, Vec<String>) {
        (std::mem::take(&mut self.object), std::mem::take(&mut self.warnings))
    }

    /// Returns the provenance of the object.
    pub(crate) fn provenance(&self) -> Provenance<'_> {
        match self.empties.is_empty() {
            true => self.provenance,
            false => self.provenance.with_empties(&self.empties),
        }
    }
}

impl Change {
    /// Returns true if the change itself tracks the managers.
    pub(crate) fn tracks(&self) -> bool {
        matches!(self, Self::Apply { .. })
    }

    /// Returns true if the change, sent to the object itself or to a `subresource`, creates an object that does not
    /// exist.
    pub fn may_create(&self, resource: &Resource, subresource: &str) -> bool {
        match self {
            Self::Patch { .. } => false,
            Self::Replace { .. } => resource.rules.create_on_update,
            Self::Apply { .. } if !subresource.is_empty() => {
                let creates_by_status = subresource == "status" && resource.rules.status_apply_creates;
                creates_by_status || resource.rules.create_on_update
            }
            Self::Apply { .. } => resource
                .versions
                .iter()
                .any(|version| version.verbs.contains(&Verb::Create)),
        }
    }

    /// Returns the uid that the object must have, if a PUT contains one.
    pub(crate) fn required_uid(&self) -> Option<&str> {
        match self {
            Self::Replace { object, .. } => Some(metadata::uid(object)).filter(|uid| !uid.is_empty()),
            _ => None,
        }
    }

    /// Returns the object that the change makes of the existing one.
    pub(crate) async fn updated<'a>(&self, stage: &Stage<'a>, existing: Existing<'a>) -> Result<Updated<'a>, Error> {
        match self {
            Self::Replace { object, warnings } => Ok(replacement(stage, object, warnings)),
            Self::Patch { patch, validation } => {
                let (patch, findings) = patch.as_ref().map_err(Error::clone)?;
                patch.updated(stage, existing, findings, *validation)
            }
            Self::Apply { .. } => self.apply(stage, Some(existing)).await,
        }
    }

    /// Returns the object that the change creates.
    pub(crate) async fn created<'a>(&self, stage: &Stage<'a>) -> Result<Updated<'a>, Error> {
        match self {
            Self::Replace { object, warnings } => Ok(replacement(stage, object, warnings)),
            Self::Patch { .. } => Err(Error::not_found(&stage.resource().group_resource(), &stage.target.name)),
            Self::Apply { .. } => self.apply(stage, None).await,
        }
    }

    async fn apply<'a>(&self, stage: &Stage<'a>, existing: Option<Existing<'a>>) -> Result<Updated<'a>, Error> {
        let Self::Apply {
            applied,
            findings,
            validation,
            options,
        } = self
        else {
            return Err(Error::internal("not an apply"));
        };
        let kind_type = stage.kind_type()?;
        let requested = existing.map(|existing| existing.object);
        // The reference cannot convert the Scale of a custom resource.
        let unconvertible = stage.resource().conventions.untyped_scale && stage.target.body.scale.is_some();
        if unconvertible && requested.is_some_and(|existing| existing.at(&["metadata", "managedFields"]).is_none()) {
            return Err(Error::unclassified(format!(
                "failed to create manager for existing fields: failed to convert live object (/; {}) to proper version: request to convert CR to an invalid group/version: {}",
                kind_type.name().described(),
                kind_type.api_version()
            )));
        }
        let merged = tracking::apply(stage, requested, applied, options).await?;
        // Like the reference, this checks repeated keys after the conflicts.
        let mut warnings = Vec::new();
        match validation {
            FieldValidation::Ignore => {}
            FieldValidation::Warn => warnings.clone_from(findings),
            FieldValidation::Strict if findings.is_empty() => {}
            FieldValidation::Strict => return Err(repeated_keys(findings)),
        }
        if !merged.changed {
            return Ok(Updated::new(merged.object, warnings, Provenance::existing()));
        }
        let mut updated = merged.object;
        if requested.is_none() && !stage.resource().capabilities.keeps_reset_fields_at_creation {
            metadata::reset_fields(&mut updated, None, &stage.target.reset_at_creation());
        }
        let rescaled = requested.is_some_and(|existing| existing.get("spec") != updated.get("spec"));
        if unconvertible && rescaled {
            return Err(Error::unclassified(format!(
                "failed to convert new object ({}; {}) to proper version: request to convert CR to an invalid group/version: {}",
                place_of(applied),
                kind_type.name().described(),
                kind_type.api_version()
            )));
        }
        let provenance = match existing {
            Some(existing) => Provenance::apply().changing(existing.object, existing.provenance),
            None => Provenance::apply(),
        };
        let typed = typed::typed(&updated, Vec::new(), provenance, kind_type).map_err(|why| {
            let kind = kind_type.name().described();
            Error::unclassified(format!(
                "failed to convert new object ({}; {kind}) to proper version: unable to convert unstructured object to {kind}: {why}",
                place_of(applied)
            ))
        })?;
        let filled_in = kind_type.fill_in_from(typed.object, provenance);
        Ok(Updated {
            object: filled_in.map_err(Error::too_large_because)?,
            warnings,
            empties: typed.empties,
            provenance: match merged.is_existing && existing.is_some() {
                true => provenance.of_managers(),
                false => provenance,
            },
        })
    }
}

/// Returns the object of a PUT.
fn replacement<'a>(stage: &Stage<'a>, object: &Value, warnings: &[String]) -> Updated<'a> {
    Updated::new(object.clone(), warnings.to_vec(), stage.target.body.provenance())
}

/// Returns namespace and name of an applied configuration, for messages.
fn place_of(applied: &Value) -> String {
    let namespace = applied.str_at(&["metadata", "namespace"]).unwrap_or_default();
    format!("{namespace}/{}", metadata::name(applied))
}

fn repeated_keys(findings: &[String]) -> Error {
    let lines: Vec<String> = findings.iter().map(|finding| format!("\n  {finding}")).collect();
    Error::bad_request(format!(
        "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:{}",
        lines.concat()
    ))
}

impl Patch {
    /// Returns the provenance of the patched object.
    fn provenance<'a>(&self, existing: Existing<'a>) -> Provenance<'a> {
        let provenance = match self {
            Self::Json(_) | Self::Merge(_) => Provenance::json_patch(),
            Self::Strategic(_) => Provenance::strategic_patch(),
        };
        provenance.changing(existing.object, existing.provenance)
    }

    fn updated<'a>(
        &self,
        stage: &Stage<'_>,
        existing: Existing<'a>,
        findings: &[String],
        validation: FieldValidation,
    ) -> Result<Updated<'a>, Error> {
        let (kind_type, requested) = (stage.kind_type()?, existing.object);
        let patched = match self {
            Self::Json(patch) => {
                let patched = patch.apply(requested, &json_patch::Bounds::default());
                patched.map_err(|_| Error::from(ErrorKind::UnprocessablePatch))?
            }
            Self::Merge(patch) => {
                merge_patch::apply(requested, patch).map_err(|error| Error::bad_request(error.to_string()))?
            }
            Self::Strategic(patch) => kind_type
                .strategic_merge(requested.clone(), patch)
                .map_err(|error| patch_error(&error))?,
        };
        let refuse = |why: String| {
            let shown = match self {
                // The reference shows the patch as Go prints it here, and the patched object elsewhere.
                Self::Strategic(patch) => Plain(&kind_type.consumed_patch(patch, requested)).to_string(),
                _ => json::to_string(&patched),
            };
            invalid_patch(shown, why)
        };
        let types = stage.environment.field_managers().types();
        let provenance = self.provenance(existing);
        let read = match self {
            Self::Strategic(_) => {
                typed::typed(&patched, findings.to_vec(), provenance, kind_type).map(|mut typed| {
                    // The reference decodes the tree into the kind of the resource and ignores the kind in it.
                    typed.object.set_at(&["kind"], kind_type.kind().into());
                    typed.object.set_at(&["apiVersion"], kind_type.api_version().into());
                    Patched::Own(typed)
                })
            }
            _ => typed::patched(&patched, findings.to_vec(), types, kind_type, provenance),
        };
        match read.map_err(refuse)? {
            Patched::Own(typed) => Ok(Updated {
                object: kind_type
                    .fill_in_from(typed.object, provenance)
                    .map_err(Error::too_large_because)?,
                warnings: typed::judged(typed.findings, validation).map_err(refuse)?,
                empties: typed.empties,
                provenance,
            }),
            Patched::Nameless(findings) => {
                let warnings = typed::judged(findings, validation).map_err(refuse)?;
                Err(stage::nameless(&stage.target.name).with_warnings(warnings))
            }
        }
    }
}

/// Returns the 422 error for a patched object that cannot be decoded.
fn invalid_patch(shown: String, why: String) -> Error {
    let nameless = GroupKind {
        group: Default::default(),
        kind: Default::default(),
    };
    let error = FieldError::invalid(&FieldPath::new("patch"), shown, why);
    Error::invalid(&nameless, "", vec![error])
}

/// Returns the error of a strategic merge patch that cannot be applied.
fn patch_error(error: &PatchError) -> Error {
    match error.kind() {
        PatchErrorKind::BadRequest => Error::bad_request(error.to_string()),
        PatchErrorKind::Unprocessable => ErrorKind::UnprocessablePatch.into(),
        PatchErrorKind::Internal => Error::unclassified(error.to_string()),
    }
}
