//! Change of the existing object by a PUT or a PATCH.

use holdfast_resource::{Resource, Verb};
use holdfast_schema::types::EmptyField;
use holdfast_schema::{FieldError, FieldPath, GroupKind, PatchError, PatchErrorKind};
use holdfast_value::text::Plain;
use holdfast_value::{Value, json, json_patch, merge_patch};

use crate::error::{Error, ErrorKind};
use crate::options::FieldValidation;
use crate::stage::Stage;
use crate::typed::{self, Patched, Source};
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
        configuration: Value,
        /// Findings of strict validation in its text.
        findings: Vec<String>,
        /// Handling of repeated fields.
        validation: FieldValidation,
        /// True if conflicting fields change their manager.
        force: bool,
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

/// The result of a change.
pub(crate) struct Next {
    /// The object, typed and with its defaults; after an apply also with its managers.
    pub(crate) object: Value,
    /// Warnings for the client.
    pub(crate) warnings: Vec<String>,
    /// Fields that a patch sets to an empty value and that are therefore absent from the object.
    pub(crate) empties: Vec<EmptyField>,
    /// True if it equals the existing object except for the managers in its metadata.
    pub(crate) is_live: bool,
    /// Effect of the change on raw extensions.
    pub(crate) raw_effect: RawEffect,
}

/// Effect of a change on the bytes of raw extensions that it does not mean to change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RawEffect {
    /// They stay the bytes of the existing object.
    Keep,
    /// They become the bytes of the request.
    Send,
    /// They are marshalled as raw messages, as JSON patches and merge patches do.
    Compact,
    /// They are marshalled from a tree, as strategic merge patches and applies do.
    Marshal,
}

impl Next {
    /// Returns the object of a PUT.
    fn replacement(object: &Value, warnings: &[String]) -> Self {
        Self {
            object: object.clone(),
            warnings: warnings.to_vec(),
            empties: Vec::new(),
            is_live: false,
            raw_effect: RawEffect::Send,
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

    /// Returns the object that follows `live`, which is in the requested version. `formed` is true if `live` is known
    /// to have the form of its type.
    pub(crate) async fn next(&self, stage: &Stage<'_>, live: &Value, formed: bool) -> Result<Next, Error> {
        match self {
            Self::Replace { object, warnings } => Ok(Next::replacement(object, warnings)),
            Self::Patch { patch, validation } => {
                let (patch, findings) = patch.as_ref().map_err(Error::clone)?;
                patch.next(stage, live, formed, findings, *validation)
            }
            Self::Apply { .. } => self.apply(stage, Some(live), formed).await,
        }
    }

    /// Returns the object that the change creates.
    pub(crate) async fn first(&self, stage: &Stage<'_>) -> Result<Next, Error> {
        match self {
            Self::Replace { object, warnings } => Ok(Next::replacement(object, warnings)),
            Self::Patch { .. } => Err(Error::not_found(&stage.resource().group_resource(), &stage.target.name)),
            Self::Apply { .. } => self.apply(stage, None, false).await,
        }
    }

    async fn apply(&self, stage: &Stage<'_>, live: Option<&Value>, formed: bool) -> Result<Next, Error> {
        let Self::Apply {
            configuration,
            findings,
            validation,
            force,
        } = self
        else {
            return Err(Error::internal("not an apply"));
        };
        let kind_type = stage.kind_type()?;
        // The reference cannot convert the Scale of a custom resource.
        let unconvertible = stage.resource().conventions.untyped_scale && stage.target.body.scale.is_some();
        if unconvertible && live.is_some_and(|live| live.at(&["metadata", "managedFields"]).is_none()) {
            return Err(Error::unclassified(format!(
                "failed to create manager for existing fields: failed to convert live object (/; {}) to proper version: request to convert CR to an invalid group/version: {}",
                kind_type.name().described(),
                kind_type.api_version()
            )));
        }
        let applied = tracking::apply(stage, live, configuration, *force).await?;
        // Like the reference, this checks repeated keys after the conflicts.
        let mut warnings = Vec::new();
        match validation {
            FieldValidation::Ignore => {}
            FieldValidation::Warn => warnings.clone_from(findings),
            FieldValidation::Strict if findings.is_empty() => {}
            FieldValidation::Strict => return Err(repeated_keys(findings)),
        }
        let mut object = applied.object;
        if !applied.changed {
            return Ok(Next {
                object,
                warnings,
                empties: Vec::new(),
                is_live: false,
                raw_effect: RawEffect::Keep,
            });
        }
        if live.is_none() && !stage.resource().capabilities.keeps_reset_fields_at_creation {
            metadata::reset_fields(&mut object, None, &stage.target.reset_at_creation());
        }
        let rescaled = live.is_some_and(|live| live.get("spec") != object.get("spec"));
        if unconvertible && rescaled {
            let (namespace, name) = (
                configuration.str_at(&["metadata", "namespace"]),
                metadata::name(configuration),
            );
            return Err(Error::unclassified(format!(
                "failed to convert new object ({}/{name}; {}) to proper version: request to convert CR to an invalid group/version: {}",
                namespace.unwrap_or_default(),
                kind_type.name().described(),
                kind_type.api_version()
            )));
        }
        let source = live.map_or(Source::Tree, |live| Source::changed(live, formed, true));
        let typed =
            typed::typed(&object, Vec::new(), source, kind_type).map_err(|why| {
                let (namespace, name) = (configuration.str_at(&["metadata", "namespace"]), metadata::name(configuration));
                let kind = kind_type.name().described();
                Error::unclassified(format!(
                    "failed to convert new object ({}/{name}; {kind}) to proper version: unable to convert unstructured object to {kind}: {why}",
                    namespace.unwrap_or_default()
                ))
            })?;
        Ok(Next {
            object: match live.filter(|_| formed) {
                Some(formed) => kind_type.fill_in_changed(typed.object, formed, true),
                None => kind_type.fill_in_applied(typed.object),
            }
            .map_err(Error::too_large_because)?,
            warnings,
            empties: typed.empties,
            is_live: applied.is_live && live.is_some(),
            raw_effect: match applied.is_live && live.is_some() {
                true => RawEffect::Keep,
                false => RawEffect::Marshal,
            },
        })
    }
}

fn repeated_keys(findings: &[String]) -> Error {
    let lines: Vec<String> = findings.iter().map(|finding| format!("\n  {finding}")).collect();
    Error::bad_request(format!(
        "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:{}",
        lines.concat()
    ))
}

impl Patch {
    fn next(
        &self,
        stage: &Stage<'_>,
        live: &Value,
        formed: bool,
        findings: &[String],
        validation: FieldValidation,
    ) -> Result<Next, Error> {
        let kind_type = stage.kind_type()?;
        let patched = match self {
            Self::Json(patch) => {
                let patched = patch.apply(live, &json_patch::Bounds::default());
                patched.map_err(|_| Error::from(ErrorKind::UnprocessablePatch))?
            }
            Self::Merge(patch) => {
                merge_patch::apply(live, patch).map_err(|error| Error::bad_request(error.to_string()))?
            }
            Self::Strategic(patch) => kind_type
                .strategic_merge(live.clone(), patch)
                .map_err(|error| patch_error(&error))?,
        };
        let refuse = |why: String| {
            let shown = match self {
                // The reference shows the patch as Go prints it here, and the patched object elsewhere.
                Self::Strategic(patch) => Plain(&kind_type.consumed_patch(patch, live)).to_string(),
                _ => json::to_string(&patched),
            };
            invalid_patch(shown, why)
        };
        let types = stage.environment.field_managers.types();
        let source = |from_tree| Source::changed(live, formed, from_tree);
        let read = match self {
            Self::Strategic(_) => {
                typed::typed(&patched, findings.to_vec(), source(true), kind_type).map(|mut typed| {
                    // The reference decodes the tree into the kind of the resource and ignores the kind in it.
                    typed.object.set_at(&["kind"], kind_type.kind().into());
                    typed.object.set_at(&["apiVersion"], kind_type.api_version().into());
                    Patched::Own(typed)
                })
            }
            _ => typed::patched(&patched, findings.to_vec(), types, kind_type, source(false)),
        };
        match read.map_err(refuse)? {
            Patched::Own(typed) => Ok(Next {
                object: match formed {
                    true => kind_type.fill_in_changed(typed.object, live, false),
                    false => kind_type.fill_in(typed.object),
                }
                .map_err(Error::too_large_because)?,
                warnings: typed::judged(typed.findings, validation).map_err(refuse)?,
                empties: typed.empties,
                is_live: false,
                raw_effect: match self {
                    Self::Strategic(_) => RawEffect::Marshal,
                    Self::Json(_) | Self::Merge(_) => RawEffect::Compact,
                },
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
