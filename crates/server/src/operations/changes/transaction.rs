//! Transactions: operations on several objects that are stored together or not at all.

use std::sync::Arc;

use bytes::Bytes;
use holdfast_value::{Value, json};
use holdfast_writes::{
    ApplyOptions, Change, DeleteOptions, Error, PathText, Target, WriteOptions, check_place, metadata,
};
use http::StatusCode;
use serde::Serialize;

use super::API_VERSION;
use super::document::{self, Fields, invalid};
use super::options::{field_manager, field_validation};
use super::subject::{Requester, Subject};
use crate::api::context::Context;
use crate::api::router::Incoming;
use crate::api::{decode_object, filled_in};
use crate::http::ApiError;
use crate::http::negotiation::{Format, PatchType, body_format};
use crate::http::options::{CreateOptions, PatchOptions};
use crate::http::response::{self, Response};
use crate::runtime::long_work;
use crate::wire::body::RequestBody;
use crate::write::{self, MAX_OPERATIONS, Operation, OperationChange, Precondition, WriteResult, WrittenObject};

/// Kind of the document.
const KIND: &str = "Transaction";

/// Number of operations from which on a transaction counts as long work.
const MANY_OPERATIONS: usize = 20;

/// Answers a POST to `transactions`.
///
/// # Errors
/// 400 or 413 if the document is invalid, otherwise the error of the operation that failed, with its position.
pub(super) async fn create(context: &Arc<Context>, mut incoming: Incoming) -> Result<Response, ApiError> {
    let form = incoming.negotiated.document()?;
    let format = body_format(&incoming.headers, false)?;
    let unread = std::mem::replace(&mut incoming.body, RequestBody::from_bytes(Bytes::new()));
    let body = unread.read().await?;
    long_work::begins(body.len()).await;
    let dry_run = CreateOptions::parse(&incoming.info.query)?.write.dry_run;
    let document = document::parse(&body, format, KIND)?;
    drop(body);
    let known = ["apiVersion", "kind", "metadata", "spec", "status"];
    Fields::new(Some(&document), "the document", &known)?;
    let spec = Fields::new(
        document.get("spec"),
        "spec",
        &["fieldManager", "fieldValidation", "namespace", "operations"],
    )?;
    let options = WriteOptions {
        dry_run,
        field_manager: field_manager(&spec)?,
        field_validation: field_validation(&spec)?,
    };
    let requester = Requester::new(context, &incoming, spec.text("namespace")?);
    let items = spec.items("operations", MAX_OPERATIONS)?;
    if items.len() >= MANY_OPERATIONS {
        long_work::begins(usize::MAX).await;
    }
    let reader = Reader {
        requester: &requester,
        options: &options,
    };
    let mut operations = Vec::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        let read = reader.operation(index, item).await;
        operations.push(read.map_err(|error| at_operation(error, index))?);
    }
    let writes: Vec<Operation> = operations.iter_mut().filter_map(|one| one.write.take()).collect();
    let outcome = write::transact(&context.write, &writes, incoming.deadline).await;
    let results = outcome.map_err(|failed| match failed.index {
        Some(index) => at_operation(failed.error, index),
        None => failed.error,
    })?;
    let warnings: Vec<String> = results
        .iter()
        .flat_map(|result| result.warnings.iter().cloned())
        .collect();
    let document = TransactionDocument::new(dry_run, &operations, &results);
    let mut answer = response::document(context.messages(), StatusCode::CREATED, &form, &document)?;
    response::add_warnings(answer.headers_mut(), &warnings);
    Ok(answer)
}

/// Returns the error of the operation at this position, as the error of the transaction.
fn at_operation(mut error: ApiError, index: usize) -> ApiError {
    let status = error.status_mut();
    status.message = format!("operations[{index}]: {}", status.message);
    status.details.get_or_insert_default().operation_index = Some(index);
    error
}

/// Kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
enum Action {
    Apply,
    Create,
    Update,
    Patch,
    Delete,
    Check,
}

impl Action {
    const NAMES: [(&'static str, Self); 6] = [
        ("Apply", Self::Apply),
        ("Create", Self::Create),
        ("Update", Self::Update),
        ("Patch", Self::Patch),
        ("Delete", Self::Delete),
        ("Check", Self::Check),
    ];

    /// Returns the fields that an operation of this kind may have, in addition to those of all operations.
    fn fields(self) -> &'static [&'static str] {
        match self {
            Self::Apply => &["object", "force", "forceFields", "unset", "allowDuplicates"],
            Self::Create | Self::Update => &["object"],
            Self::Patch => &["target", "patchType", "patch"],
            Self::Delete => &["target", "options"],
            Self::Check => &["target"],
        }
    }
}

/// An operation of the document.
struct ReadOperation {
    action: Action,
    subject: Subject,
    /// Moved out when the transaction runs.
    write: Option<Operation>,
}

/// Reader of operations.
struct Reader<'a> {
    requester: &'a Requester,
    options: &'a WriteOptions,
}

impl Reader<'_> {
    async fn operation(&self, index: usize, item: &Value) -> Result<ReadOperation, ApiError> {
        let path = format!("spec.operations[{index}]");
        let stated = item.str_at(&["operation"]).unwrap_or_default();
        let known_action = Action::NAMES.into_iter().find(|(name, _)| *name == stated);
        let Some((_, action)) = known_action else {
            let names = Action::NAMES.map(|(name, _)| name).join(", ");
            return Err(invalid(
                &format!("{path}.operation"),
                format!("it must be one of {names}"),
            ));
        };
        let known = [&["operation", "preconditions"][..], action.fields()].concat();
        let fields = Fields::new(Some(item), path, &known)?;
        let object = fields.get("object");
        let mut subject = match object {
            Some(object) => Subject::of_manifest(object),
            None if known.contains(&"object") => return Err(invalid(&fields.path("object"), "it is required")),
            None => subject_of_target(&fields)?,
        };
        let mut target = self.requester.target(&mut subject, self.options.clone()).await?;
        target.request.patches = matches!(action, Action::Apply | Action::Patch);
        if action == Action::Create {
            target.name = Default::default();
        }
        let change = self.change(action, &fields, object, &mut target)?;
        let verb = change.verb(target.request.patches);
        self.requester.authorize(verb, &target).await?;
        let precondition = precondition(&fields)?;
        if action == Action::Check && precondition == Precondition::default() {
            return Err(invalid(&fields.path("preconditions"), "a check needs at least one"));
        }
        Ok(ReadOperation {
            action,
            subject,
            write: Some(Operation {
                target,
                change,
                precondition,
            }),
        })
    }

    fn change(
        &self,
        action: Action,
        fields: &Fields<'_>,
        object: Option<&Value>,
        target: &mut Target,
    ) -> Result<OperationChange, ApiError> {
        let text = |value: &Value| Bytes::from(json::to_string(value));
        let patch_options = PatchOptions {
            write: self.options.clone(),
            apply: ApplyOptions {
                force: fields.flag("force")?,
                force_fields: field_paths(fields, "forceFields")?,
                unset: field_paths(fields, "unset")?,
                conflict_details: true,
                allow_duplicates: fields.flag("allowDuplicates")?,
            },
        };
        match (action, object) {
            (Action::Apply, Some(object)) => {
                let change = write::read_patch(&text(object), PatchType::Apply, &patch_options)?;
                Ok(OperationChange::Update(change))
            }
            (Action::Create, Some(object)) => {
                let (mut object, _) = self.decoded(&text(object), target)?;
                metadata::drop_repeated_owners(&mut object, false);
                Ok(OperationChange::Create(object))
            }
            (Action::Update, Some(object)) => {
                let (mut object, warnings) = self.decoded(&text(object), target)?;
                metadata::drop_repeated_owners(&mut object, false);
                check_place(&mut object, &target.name, &target.namespace)?;
                Ok(OperationChange::Update(Change::Replace { object, warnings }))
            }
            (Action::Patch, _) => {
                let patch_type = patch_type(fields, target)?;
                let patch = fields
                    .get("patch")
                    .ok_or_else(|| invalid(&fields.path("patch"), "it is required"))?;
                let change = write::read_patch(&text(patch), patch_type, &patch_options)?;
                Ok(OperationChange::Update(change))
            }
            (Action::Delete, _) => {
                let empty = Value::empty_map();
                let options = DeleteOptions::from_object(fields.get("options").unwrap_or(&empty))?;
                Ok(OperationChange::Delete(options))
            }
            _ => Ok(OperationChange::Check),
        }
    }

    /// Returns the object of a creation or an update with its defaults, and warnings.
    fn decoded(&self, text: &Bytes, target: &mut Target) -> Result<(Value, Vec<String>), ApiError> {
        let context = &self.requester.context;
        let missing = || Error::internal(format!("{} has no type", target.body.kind));
        let kind_type = target.body.kind_type.clone().ok_or_else(missing)?;
        let validation = self.options.field_validation;
        let decoded = decode_object(
            context,
            &target.resource,
            kind_type.as_ref(),
            text,
            Format::Json,
            validation,
        )?;
        let mut object = decoded.object;
        let capabilities = &target.resource.capabilities;
        let reset = &target.body.reset_fields;
        let creates = target.name.is_empty();
        if creates && !capabilities.keeps_reset_fields_at_creation && !reset.is_empty() {
            metadata::reset_fields(&mut object, Some(&kind_type.empty()), reset);
        }
        target.body.empties = decoded.empties;
        target.body.raw_form = decoded.raw_form;
        Ok((filled_in(kind_type.as_ref(), object)?, decoded.warnings))
    }
}

fn subject_of_target(fields: &Fields<'_>) -> Result<Subject, ApiError> {
    let known = ["apiVersion", "kind", "namespace", "name"];
    let target = Fields::new(fields.get("target"), fields.path("target"), &known)?;
    Ok(Subject {
        api_version: target.required_text("apiVersion")?.into(),
        kind: target.required_text("kind")?.into(),
        namespace: target.text("namespace")?.into(),
        name: target.required_text("name")?.into(),
    })
}

fn patch_type(fields: &Fields<'_>, target: &Target) -> Result<PatchType, ApiError> {
    match fields.text("patchType")? {
        "JSON" => Ok(PatchType::Json),
        "" | "Merge" => Ok(PatchType::Merge),
        "Strategic" if target.resource.conventions.strategic_merge => Ok(PatchType::Strategic),
        _ => Err(invalid(
            &fields.path("patchType"),
            "it must be JSON, Merge or, for kinds that support it, Strategic",
        )),
    }
}

/// Returns the fields that an apply forces or unsets.
fn field_paths(fields: &Fields<'_>, name: &str) -> Result<Vec<PathText>, ApiError> {
    let Some(list) = fields.get(name) else {
        return Ok(Vec::new());
    };
    let list = list
        .as_list()
        .ok_or_else(|| invalid(&fields.path(name), "it must be a list"))?;
    let path = |item: &Value| {
        let text = item
            .as_str()
            .ok_or_else(|| invalid(&fields.path(name), "its items must be strings"))?;
        PathText::parse(text).map_err(|error| invalid(&fields.path(name), error))
    };
    list.iter().map(path).collect()
}

fn precondition(fields: &Fields<'_>) -> Result<Precondition, ApiError> {
    let Some(value) = fields.get("preconditions") else {
        return Ok(Precondition::default());
    };
    let known = ["uid", "resourceVersion", "absent"];
    let fields = Fields::new(Some(value), fields.path("preconditions"), &known)?;
    let text = |name| {
        let text = fields.text(name)?;
        Ok::<_, ApiError>(Some(text.to_owned()).filter(|text| !text.is_empty()))
    };
    let precondition = Precondition {
        uid: text("uid")?,
        resource_version: text("resourceVersion")?,
        absent: fields.flag("absent")?,
    };
    match precondition.absent && (precondition.uid.is_some() || precondition.resource_version.is_some()) {
        true => Err(invalid(
            &fields.path("absent"),
            "an absent object has no uid and no resourceVersion",
        )),
        false => Ok(precondition),
    }
}

/// Answer to a transaction.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TransactionDocument<'a> {
    kind: &'static str,
    api_version: &'static str,
    metadata: Metadata,
    status: TransactionStatus<'a>,
}

#[derive(Serialize)]
struct Metadata {}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TransactionStatus<'a> {
    /// True if the operations are stored; false for a dry run.
    committed: bool,
    operations: Vec<OperationStatus<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OperationStatus<'a> {
    operation: Action,
    #[serde(flatten)]
    subject: Subject,
    #[serde(skip_serializing_if = "String::is_empty")]
    uid: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    resource_version: String,
    result: &'static str,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    warnings: &'a [String],
}

impl<'a> TransactionDocument<'a> {
    fn new(dry_run: bool, operations: &[ReadOperation], results: &'a [WriteResult]) -> Self {
        let statuses = operations.iter().zip(results);
        Self {
            kind: KIND,
            api_version: API_VERSION,
            metadata: Metadata {},
            status: TransactionStatus {
                committed: !dry_run,
                operations: statuses
                    .map(|(operation, result)| OperationStatus::new(operation, result))
                    .collect(),
            },
        }
    }
}

impl<'a> OperationStatus<'a> {
    fn new(operation: &ReadOperation, result: &'a WriteResult) -> Self {
        let tree = result.object.tree();
        let mut subject = operation.subject.clone();
        if subject.name.is_empty() {
            // The name of a new object may be generated.
            subject.name = metadata::name(&tree).into();
        }
        Self {
            operation: operation.action,
            subject,
            uid: metadata::uid(&tree).to_owned(),
            resource_version: match &result.object {
                WrittenObject::Stored(entry, _) => entry.mod_revision().to_string(),
                WrittenObject::Tree(_) => String::new(),
            },
            result: match (operation.action, result) {
                (Action::Check, _) => "Checked",
                (_, WriteResult { created: true, .. }) => "Created",
                (_, WriteResult { removed: true, .. }) => "Deleted",
                (Action::Delete, _) => "Deleting",
                _ if result.unchanged => "Unchanged",
                _ => "Updated",
            },
            warnings: &result.warnings,
        }
    }
}
