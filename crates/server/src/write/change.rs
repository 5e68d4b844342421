//! What a PUT or a PATCH makes of the object in place.

use bytes::Bytes;
use holdfast_resource::{FieldError, FieldPath, GroupKind, Resource, Verb};
use holdfast_resource::{PatchError, PatchErrorKind};
use holdfast_value::text::Plain;
use holdfast_value::{Error as ValueError, Limits, Parsed, SmolStr, Value, json, json_patch, merge_patch, yaml};
use http::StatusCode;

use super::decode::{self, Patched, Source};
use super::pipeline::Pipeline;
use super::tracking;
use crate::http::ApiError;
use crate::http::negotiation::PatchType;
use crate::http::options::{FieldValidation, PatchOptions};

/// A change of one object.
pub(crate) enum Change {
    /// A PUT: the object is this. Decoded, typed and with its defaults.
    Replace {
        /// The object.
        object: Value,
        /// What the client is to be warned of.
        warnings: Vec<String>,
    },
    /// A patch of the object's JSON.
    Patch {
        /// What is done and what strict validation finds in the patch itself; the error where the body is no patch, which is
        /// told only if the object is there.
        patch: Result<(Patch, Vec<String>), ApiError>,
        /// What unknown and repeated fields do.
        validation: FieldValidation,
    },
    /// An apply: the object is to agree with this.
    Apply {
        /// The configuration.
        configuration: Value,
        /// What strict validation finds in its text.
        findings: Vec<String>,
        /// What repeated fields do.
        validation: FieldValidation,
        /// Whether fields are taken from other managers.
        force: bool,
    },
}

/// The patches that say what changes, rather than what is to be.
pub(crate) enum Patch {
    /// RFC 6902.
    Json(json_patch::Patch),
    /// RFC 7396.
    Merge(Value),
    /// A merge patch that knows about lists.
    Strategic(Value),
}

/// What a change comes to.
pub(super) struct Next {
    /// The object: typed, with its defaults; after an apply its managers are known too.
    pub(super) object: Value,
    /// What the client is to be warned of.
    pub(super) warnings: Vec<String>,
}

impl Change {
    /// Reads the body of a PATCH.
    ///
    /// # Errors
    /// 400 where the body of an apply is no configuration. What is wrong with other patches the change tells.
    pub(crate) fn read(bytes: &Bytes, sort: PatchType, options: &PatchOptions) -> Result<Self, ApiError> {
        let validation = options.write.field_validation;
        let patch = match sort {
            PatchType::Apply => return Self::read_apply(bytes, validation, options.force),
            PatchType::Json => Patch::read_json(bytes),
            PatchType::Merge => Patch::read_merge(bytes),
            PatchType::Strategic => Patch::read_strategic(bytes),
        };
        Ok(Self::Patch { patch, validation })
    }

    fn read_apply(bytes: &Bytes, validation: FieldValidation, force: bool) -> Result<Self, ApiError> {
        let parsed = yaml::parse_with_findings(bytes, &Limits::REQUEST);
        let Parsed { value, findings } = parsed.map_err(|error| {
            ApiError::bad_request(format!("error decoding YAML: error converting YAML to JSON: {error}"))
        })?;
        let mut configuration = match value {
            Value::Map(_) => value,
            Value::Null => Value::empty_map(),
            other => {
                let found = other.json_kind();
                return Err(ApiError::bad_request(format!(
                    "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"
                )));
            }
        };
        // The core group may be written with its empty name.
        if let Some(version) = configuration
            .str_at(&["apiVersion"])
            .and_then(|version| version.strip_prefix('/'))
        {
            let version = SmolStr::new(version);
            configuration.set_at(&["apiVersion"], Value::String(version));
        }
        Ok(Self::Apply {
            configuration,
            findings: findings.iter().map(ToString::to_string).collect(),
            validation,
            force,
        })
    }

    /// Whether the change itself keeps track of managers.
    pub(super) fn tracks(&self) -> bool {
        matches!(self, Self::Apply { .. })
    }

    /// Whether the change, at the address of the object itself or of a `subresource`, creates an object that is not there.
    pub(super) fn may_create(&self, resource: &Resource, subresource: &str) -> bool {
        match self {
            Self::Patch { .. } => false,
            Self::Replace { .. } => resource.rules.create_on_update,
            Self::Apply { .. } if !subresource.is_empty() => resource.rules.create_on_update,
            Self::Apply { .. } => resource
                .versions
                .iter()
                .any(|version| version.verbs.contains(&Verb::Create)),
        }
    }

    /// The uid that the object must have where a PUT names one.
    pub(super) fn required_uid(&self) -> Option<&str> {
        match self {
            Self::Replace { object, .. } => Some(super::metadata::uid(object)).filter(|uid| !uid.is_empty()),
            _ => None,
        }
    }

    /// The object that follows on `live`, which is in the version of the request.
    pub(super) async fn next(&self, pipeline: &Pipeline<'_>, live: &Value) -> Result<Next, ApiError> {
        match self {
            Self::Replace { object, warnings } => Ok(Next {
                object: object.clone(),
                warnings: warnings.clone(),
            }),
            Self::Patch { patch, validation } => {
                let (patch, findings) = patch.as_ref().map_err(ApiError::clone)?;
                patch.next(pipeline, live, findings, *validation)
            }
            Self::Apply { .. } => self.apply(pipeline, Some(live)).await,
        }
    }

    /// The object that the change makes where none is.
    pub(super) async fn first(&self, pipeline: &Pipeline<'_>) -> Result<Next, ApiError> {
        match self {
            Self::Replace { object, warnings } => Ok(Next {
                object: object.clone(),
                warnings: warnings.clone(),
            }),
            Self::Patch { .. } => Err(ApiError::not_found(
                &pipeline.resource().group_resource(),
                &pipeline.target.name,
            )),
            Self::Apply { .. } => self.apply(pipeline, None).await,
        }
    }

    async fn apply(&self, pipeline: &Pipeline<'_>, live: Option<&Value>) -> Result<Next, ApiError> {
        let Self::Apply {
            configuration,
            findings,
            validation,
            force,
        } = self
        else {
            return Err(ApiError::internal("not an apply"));
        };
        let kind_type = &*pipeline.kind_type()?;
        // The reference cannot convert the Scale of a custom resource.
        let unconvertible = pipeline.resource().conventions.untyped_scale && pipeline.target.scale.is_some();
        if unconvertible && live.is_some_and(|live| live.at(&["metadata", "managedFields"]).is_none()) {
            return Err(ApiError::unclassified(format!(
                "failed to create manager for existing fields: failed to convert live object (/; {}) to proper version: request to convert CR to an invalid group/version: {}",
                kind_type.name().described(),
                kind_type.api_version()
            )));
        }
        let applied = tracking::apply(pipeline, live, configuration, *force).await?;
        // Repeated keys are looked at after the conflicts, as in the reference.
        let mut warnings = Vec::new();
        match validation {
            FieldValidation::Ignore => {}
            FieldValidation::Warn => warnings.clone_from(findings),
            FieldValidation::Strict if findings.is_empty() => {}
            FieldValidation::Strict => return Err(repeated_keys(findings)),
        }
        let mut object = applied.object;
        if !applied.changed {
            return Ok(Next { object, warnings });
        }
        if live.is_none() && !pipeline.resource().capabilities.keeps_reset_fields_at_creation {
            super::metadata::reset_fields(&mut object, None, &pipeline.target.reset_at_creation());
        }
        let rescaled = live.is_some_and(|live| live.get("spec") != object.get("spec"));
        if unconvertible && rescaled {
            let (namespace, name) = (
                configuration.str_at(&["metadata", "namespace"]),
                super::metadata::name(&object),
            );
            return Err(ApiError::unclassified(format!(
                "failed to convert new object ({}/{name}; {}) to proper version: request to convert CR to an invalid group/version: {}",
                namespace.unwrap_or_default(),
                kind_type.name().described(),
                kind_type.api_version()
            )));
        }
        let typed =
            decode::typed(&object, Vec::new(), Source::Tree, kind_type).map_err(|why| {
                let (namespace, name) = (configuration.str_at(&["metadata", "namespace"]), super::metadata::name(&object));
                let kind = kind_type.name().described();
                ApiError::unclassified(format!(
                    "failed to convert new object ({}/{name}; {kind}) to proper version: unable to convert unstructured object to {kind}: {why}",
                    namespace.unwrap_or_default()
                ))
            })?;
        Ok(Next {
            object: kind_type
                .fill_in_applied(typed.object)
                .map_err(ApiError::too_large_because)?,
            warnings,
        })
    }
}

fn repeated_keys(findings: &[String]) -> ApiError {
    let lines: Vec<String> = findings.iter().map(|finding| format!("\n  {finding}")).collect();
    ApiError::bad_request(format!(
        "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:{}",
        lines.concat()
    ))
}

impl Patch {
    fn read_json(bytes: &Bytes) -> Result<(Self, Vec<String>), ApiError> {
        let (patch, findings) = json_patch::Patch::parse(bytes, &Limits::REQUEST).map_err(|error| match error {
            ValueError::TooManyOperations { .. } => ApiError::too_large_because(error),
            error => undecodable(&error),
        })?;
        let mut findings: Vec<String> = findings.iter().map(ToString::to_string).collect();
        decode::order_by_text(&mut findings, bytes);
        let findings = findings.iter().map(|finding| format!("json patch {finding}"));
        Ok((Self::Json(patch), findings.collect()))
    }

    fn read_merge(bytes: &Bytes) -> Result<(Self, Vec<String>), ApiError> {
        let (patch, findings) = read_map(bytes).map_err(undecodable)?;
        Ok((Self::Merge(patch), findings))
    }

    fn read_strategic(bytes: &Bytes) -> Result<(Self, Vec<String>), ApiError> {
        let (patch, findings) = read_map(bytes).map_err(ApiError::bad_request)?;
        let patch = if patch.is_null() { Value::empty_map() } else { patch };
        Ok((Self::Strategic(patch), findings))
    }

    fn next(
        &self,
        pipeline: &Pipeline<'_>,
        live: &Value,
        findings: &[String],
        validation: FieldValidation,
    ) -> Result<Next, ApiError> {
        let kind_type = &*pipeline.kind_type()?;
        let patched = match self {
            Self::Json(patch) => {
                let patched = patch.apply(live, &json_patch::Bounds::default());
                patched.map_err(|_| ApiError::unprocessable_patch())?
            }
            Self::Merge(patch) => {
                merge_patch::apply(live, patch).map_err(|error| ApiError::bad_request(error.to_string()))?
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
        let types = pipeline.context.body_types();
        let read = match self {
            Self::Strategic(_) => {
                decode::typed(&patched, findings.to_vec(), Source::Tree, kind_type).map(|mut typed| {
                    // The reference knows what it makes of the tree, whatever that says.
                    typed.object.set_at(&["kind"], kind_type.kind().into());
                    typed.object.set_at(&["apiVersion"], kind_type.api_version().into());
                    Patched::Own(typed)
                })
            }
            _ => decode::patched(&patched, findings.to_vec(), types, kind_type),
        };
        match read.map_err(refuse)? {
            Patched::Own(typed) => Ok(Next {
                object: kind_type.fill_in(typed.object).map_err(ApiError::too_large_because)?,
                warnings: decode::judged(typed.findings, validation).map_err(refuse)?,
            }),
            Patched::Nameless(findings) => {
                let warnings = decode::judged(findings, validation).map_err(refuse)?;
                Err(super::pipeline::nameless(&pipeline.target.name).with_warnings(warnings))
            }
        }
    }
}

/// Reads a patch that is a map, or `null`, and what strict validation finds in it.
///
/// # Errors
/// Why it is none, in the words of the reference.
fn read_map(bytes: &Bytes) -> Result<(Value, Vec<String>), String> {
    let parsed = json::parse_with_findings(bytes, &Limits::REQUEST);
    let Parsed { value, findings } = parsed.map_err(|error| error.to_string())?;
    if !matches!(value, Value::Map(_) | Value::Null) {
        let found = value.json_kind();
        return Err(format!(
            "json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"
        ));
    }
    Ok((value, findings.iter().map(ToString::to_string).collect()))
}

/// 400: what patches but strategic ones say where the body cannot be read.
fn undecodable(why: impl std::fmt::Display) -> ApiError {
    ApiError::bad_request(format!("error decoding patch: {why}"))
}

/// 422: the object that a patch makes cannot be read.
fn invalid_patch(shown: String, why: String) -> ApiError {
    let nameless = GroupKind {
        group: Default::default(),
        kind: Default::default(),
    };
    let error = FieldError::invalid(&FieldPath::new("patch"), shown, why);
    ApiError::invalid(&nameless, "", &[error])
}

/// What the client is told of a strategic merge patch that cannot be carried out.
fn patch_error(error: &PatchError) -> ApiError {
    match error.kind() {
        PatchErrorKind::BadRequest => ApiError::bad_request(error.to_string()),
        PatchErrorKind::Unprocessable => ApiError::unprocessable_patch(),
        PatchErrorKind::Internal => ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "", error.to_string(), None),
    }
}
