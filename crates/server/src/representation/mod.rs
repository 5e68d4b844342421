//! The representation of objects in answers: whole, as metadata, or as a table.

mod context;
pub(crate) mod conversion;
mod shared;
pub(crate) mod table;

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use holdfast_resource::table::Column;
use holdfast_resource::{ConversionWebhook, Resource, ResourceVersion, convert};
use holdfast_schema::types::TypeTable;
use holdfast_value::Value;
use http::StatusCode;
use smol_str::SmolStr;

use crate::http::ApiError;
use crate::http::negotiation::{Format, MetaVersion, Representation, View};
use crate::http::protobuf;
use crate::http::query::Query;
use crate::http::request::ResourceRequest;
use crate::http::response::{self, Response};
use crate::http::table::IncludeObject;
use crate::objects::{self, Entry};
use crate::runtime::long_work;
pub(crate) use context::Context;
pub use shared::Shared;
use table::Rows;

/// The requested version and kind, as which stored objects are returned.
#[derive(Clone)]
pub(crate) struct RequestedVersion {
    /// The resource.
    pub(crate) resource: Arc<Resource>,
    /// The kind of the objects.
    pub(crate) kind: SmolStr,
    /// The kind of a list of them.
    pub(crate) list_kind: SmolStr,
    /// The `apiVersion` of the objects.
    pub(crate) api_version: SmolStr,
    /// The columns of tables, if the answer is not of the resource's kind.
    own_columns: Option<Vec<Column>>,
    /// True if answers omit `metadata.managedFields`. Writes still update them.
    drops_managed_fields: bool,
}

impl RequestedVersion {
    /// Creates the representation in a version of the resource.
    pub(crate) fn new(resource: &Arc<Resource>, version: &ResourceVersion) -> Self {
        Self {
            resource: Arc::clone(resource),
            kind: resource.kind.clone(),
            list_kind: version.list_kind.clone(),
            api_version: version.api_version.clone(),
            own_columns: None,
            drops_managed_fields: false,
        }
    }

    /// Returns an object with only its kind and version set.
    pub(crate) fn zero(&self, types: &TypeTable) -> Value {
        let object_type = types.id_of_object(&self.api_version, &self.kind);
        let zero = object_type.map(|id| types.get(id).zero());
        let mut object = zero.unwrap_or_else(Value::empty_map);
        object.set_at(&["kind"], self.kind.clone().into());
        object.set_at(&["apiVersion"], self.api_version.clone().into());
        object
    }

    /// Returns the requested version of a request.
    pub(crate) fn of_request(request: &ResourceRequest) -> Self {
        Self {
            drops_managed_fields: request.representation.drops_managed_fields,
            ..Self::new(&request.served.resource, request.version())
        }
    }

    /// Creates the representation of the requested subresource.
    pub(crate) fn of_subresource(request: &ResourceRequest) -> Self {
        let mut requested = Self::of_request(request);
        if let Some(subresource) = request.subresource() {
            requested.kind = subresource.kind.kind.clone();
            requested.api_version = subresource.kind.group_version.api_version();
            let own = requested.kind != request.served.resource.kind;
            requested.own_columns = own.then(|| subresource.columns.clone());
        }
        requested
    }

    /// Returns the columns of tables.
    pub(crate) fn columns(&self) -> &[Column] {
        let mut versions = self.resource.versions.iter();
        let version = versions.find(|version| version.api_version == self.api_version);
        let columns = version.map(|version| &version.columns);
        self.own_columns.as_ref().or(columns).map_or(&[], Vec::as_slice)
    }

    /// Returns true if answers contain the stored bytes.
    pub(crate) fn stored_as_requested(&self) -> bool {
        // An object of a subresource's own kind was created for the answer.
        if self.own_columns.is_some() {
            return true;
        }
        self.resource.is_stored_in(&self.api_version)
    }

    /// Returns the metadata of a stored object as JSON, if they can be cut out of its bytes.
    pub(crate) fn metadata_text<'e>(&self, entry: &'e Entry) -> Option<Cow<'e, [u8]>> {
        let place = || objects::metadata_place(entry.bytes(), &self.kind, &self.api_version);
        if !self.resource.capabilities.rows.hidden_annotations.is_empty() {
            return None;
        }
        let metadata = entry.bytes().get(self.stored_as_requested().then(place).flatten()?)?;
        Some(self.reduced_text(metadata))
    }

    /// Returns metadata as JSON without the fields that answers omit.
    fn reduced_text<'m>(&self, metadata: &'m [u8]) -> Cow<'m, [u8]> {
        let dropped = self
            .drops_managed_fields
            .then(|| objects::without_managed_fields(metadata));
        match dropped.flatten() {
            Some((head, tail)) => Cow::Owned([head, tail].concat()),
            None => Cow::Borrowed(metadata),
        }
    }

    /// Returns an object as in an answer: in the requested version, and without omitted fields.
    ///
    /// # Errors
    /// 500 if the kind does not support the conversion.
    pub(crate) fn answered(&self, tree: Tree<'_>) -> Result<Value, ApiError> {
        let requested = match tree {
            Tree::Stored(tree) => self.convert_at_once(tree.clone())?,
            Tree::Converted(tree) => tree.clone(),
        };
        Ok(self.reduced(requested))
    }

    /// Returns an object without the fields that answers omit.
    fn reduced(&self, mut tree: Value) -> Value {
        if self.drops_managed_fields {
            tree.remove_at(&["metadata", "managedFields"]);
        }
        tree
    }

    /// Returns the webhook that has to convert `tree`, if any.
    pub(crate) fn webhook(&self, tree: &Value) -> Option<&ConversionWebhook> {
        let webhook = convert::webhook(&self.resource, tree, &self.api_version);
        webhook.filter(|_| self.own_columns.is_none())
    }

    /// Returns true if the conversion of objects may need a webhook.
    pub(crate) fn may_need_webhook(&self) -> bool {
        self.own_columns.is_none() && self.resource.conversion_webhook().is_some()
    }

    /// Returns true if this object has to be converted by a webhook.
    pub(crate) fn needs_webhook(&self, entry: &Entry) -> bool {
        self.may_need_webhook() && !objects::is_of_version(entry.bytes(), &self.resource.kind, &self.api_version)
    }

    /// Returns true if the answer contains the stored bytes of this object.
    pub(crate) fn is_stored_so(&self, entry: &Entry) -> bool {
        objects::serves_stored_bytes(&self.resource, &self.api_version, entry)
    }

    /// Returns true if the answer contains the complete stored object.
    pub(crate) fn is_stored_whole(&self, entry: &Entry) -> bool {
        !self.drops_managed_fields && self.is_stored_so(entry)
    }

    /// Converts an object from its storage version to the requested version.
    ///
    /// # Errors
    /// 500 if the kind does not support the conversion, or if its webhook fails.
    pub(crate) async fn convert(&self, context: &Context, tree: Value) -> Result<Value, ApiError> {
        if self.own_columns.is_some() {
            return Ok(tree);
        }
        Ok(convert::to_requested(context, &self.resource, tree, &self.api_version).await?)
    }

    /// Converts an object that needs no webhook.
    fn convert_at_once(&self, tree: Value) -> Result<Value, ApiError> {
        if self.own_columns.is_some() {
            return Ok(tree);
        }
        Ok(convert::to_requested_at_once(&self.resource, tree, &self.api_version)?)
    }

    /// Returns the object from which tables and metadata are made.
    ///
    /// # Errors
    /// 500 if the kind does not support the conversion.
    pub(crate) fn summarized(&self, tree: Tree<'_>) -> Result<Value, ApiError> {
        let mut summarized = match tree {
            Tree::Stored(tree) if self.resource.capabilities.rows.of_stored_version => self.reduced(tree.clone()),
            tree => self.answered(tree)?,
        };
        self.hide_annotations(&mut summarized);
        Ok(summarized)
    }

    /// Removes the annotations that hold data which the reference stores elsewhere.
    fn hide_annotations(&self, object: &mut Value) {
        const PLACE: [&str; 2] = ["metadata", "annotations"];
        for name in self.resource.capabilities.rows.hidden_annotations {
            object.remove_at(&["metadata", "annotations", name]);
            if object
                .at(&PLACE)
                .and_then(Value::as_map)
                .is_some_and(|map| map.is_empty())
            {
                object.remove_at(&PLACE);
            }
        }
    }

    /// Returns the bytes of a stored object that needs no webhook, as the answer contains them. The object is not
    /// parsed if its bytes, or pieces of them, suffice.
    ///
    /// # Errors
    /// 500 if the kind does not support the conversion.
    #[expect(clippy::indexing_slicing, reason = "the place was found in these very bytes")]
    pub(crate) fn bytes(&self, types: &TypeTable, entry: &Entry) -> Result<Bytes, ApiError> {
        if !self.is_stored_so(entry) {
            let tree = objects::tree(entry);
            return Ok(objects::encode_answer(types, &self.answered(Tree::Stored(&tree))?).into());
        }
        let bytes = entry.bytes();
        if !self.drops_managed_fields {
            return Ok(bytes.clone());
        }
        let Some(place) = objects::metadata_place(bytes, &self.kind, &self.api_version) else {
            return Ok(objects::encode_answer(types, &self.reduced(objects::tree(entry))).into());
        };
        let (before, behind) = (&bytes[..place.start], &bytes[place.end..]);
        match objects::without_managed_fields(&bytes[place]) {
            Some((head, tail)) => Ok([before, head, tail, behind].concat().into()),
            None => Ok(bytes.clone()),
        }
    }
}

/// A parsed object for an answer, by the version that it is in.
#[derive(Clone, Copy)]
pub(crate) enum Tree<'a> {
    /// An object in its storage version.
    Stored(&'a Value),
    /// An object in the requested version, which a webhook converted.
    Converted(&'a Value),
}

impl Tree<'_> {
    /// Returns the parsed object.
    fn value(&self) -> &Value {
        match self {
            Self::Stored(tree) | Self::Converted(tree) => tree,
        }
    }
}

/// Returns the answer with one stored object. `tree_at_hand` is the same object, except for its resource version, if
/// the caller has parsed it already.
///
/// # Errors
/// 406 for a view that objects do not have, 500 if the object cannot be converted.
pub(crate) async fn entry(
    context: &Context,
    requested: &RequestedVersion,
    query: &Query,
    representation: &Representation,
    code: StatusCode,
    entry: &Entry,
    tree_at_hand: Option<&Value>,
) -> Result<Response, ApiError> {
    let of_stored_bytes = representation.view == View::Whole
        && representation.format == Format::Json
        && !representation.pretty
        && requested.is_stored_so(entry);
    if !of_stored_bytes {
        long_work::begins(entry.length()).await;
    }
    if requested.needs_webhook(entry) {
        return tree(context, requested, query, representation, code, objects::tree(entry)).await;
    }
    if representation.view == View::Whole
        && representation.format == Format::Protobuf
        && requested.is_stored_whole(entry)
    {
        if let Some(encoded) = protobuf::from_record(&context.messages, &entry.bytes_once()) {
            return Ok(response::bytes(code, Format::Protobuf.content_type(), encoded));
        }
        let tree = match tree_at_hand {
            Some(tree) => objects::at_revision(tree.clone(), entry),
            None => objects::tree_or_rejection(entry)?,
        };
        return response::protobuf(&context.messages, code, &tree);
    }
    if representation.view == View::Whole {
        return response::encoded(
            &context.messages,
            code,
            representation,
            requested.bytes(&context.types, entry)?,
        );
    }
    let tree = objects::tree(entry);
    object(context, requested, query, representation, code, Tree::Stored(&tree))
}

/// Returns the answer with one object, which is in its storage version.
///
/// # Errors
/// The errors of [`entry`].
pub(crate) async fn tree(
    context: &Context,
    requested: &RequestedVersion,
    query: &Query,
    representation: &Representation,
    code: StatusCode,
    tree: Value,
) -> Result<Response, ApiError> {
    if requested.webhook(&tree).is_none() {
        return object(context, requested, query, representation, code, Tree::Stored(&tree));
    }
    let tree = requested.convert(context, tree).await?;
    object(context, requested, query, representation, code, Tree::Converted(&tree))
}

/// Returns the answer with one object that needs no further conversion by a webhook.
///
/// # Errors
/// 406 for a view that objects do not have, 500 if the object cannot be converted.
pub(crate) fn object(
    context: &Context,
    requested: &RequestedVersion,
    query: &Query,
    representation: &Representation,
    code: StatusCode,
    object: Tree<'_>,
) -> Result<Response, ApiError> {
    let viewed = view(context, requested, query, representation.view, object)?;
    response::encoded(&context.messages, code, representation, viewed)
}

/// Returns one object in the form of a view, as JSON.
///
/// # Errors
/// 406 for a view that objects do not have, 500 if the object cannot be converted.
pub(crate) fn view(
    context: &Context,
    requested: &RequestedVersion,
    query: &Query,
    view: View,
    object: Tree<'_>,
) -> Result<Vec<u8>, ApiError> {
    match view {
        View::Whole => Ok(objects::encode_answer(&context.types, &requested.answered(object)?)),
        View::PartialObject(version) => {
            let object = requested.summarized(object)?;
            Ok(objects::encode_answer(&context.types, &partial(&object, version)))
        }
        View::PartialList(_)
            if requested.resource.conventions.listable_objects && requested.kind == requested.resource.kind =>
        {
            Err(ApiError::unclassified("content is not a list"))
        }
        View::PartialList(_) => Err(ApiError::not_acceptable(
            "you requested PartialObjectMetadataList, but the requested object is not a list (".to_owned()
                + &go_type(requested)
                + ")",
        )),
        View::Table(version) => {
            let rows = Rows::new(context, requested, IncludeObject::parse(query)?, version);
            table_of_one(&rows, object, true)
        }
    }
}

/// Returns the table of one object, as JSON.
///
/// # Errors
/// 500 if the object cannot be converted.
pub(crate) fn table_of_one(rows: &Rows, object: Tree<'_>, with_columns: bool) -> Result<Vec<u8>, ApiError> {
    let metadata = match object.value().str_at(&["metadata", "resourceVersion"]) {
        None | Some("") => "{}".to_owned(),
        Some(revision) => format!("{{\"resourceVersion\":\"{revision}\"}}"),
    };
    let mut bytes = rows.head(&metadata, with_columns);
    rows.row(object, None, &mut bytes)?;
    rows.end(&mut bytes);
    Ok(bytes)
}

/// Writes the `PartialObjectMetadata` of an object. `metadata` is the JSON of its metadata, if it is available.
pub(crate) fn write_partial(
    types: &TypeTable,
    object: &Value,
    metadata: Option<&[u8]>,
    version: MetaVersion,
    bytes: &mut Vec<u8>,
) {
    let Some(metadata) = metadata else {
        bytes.extend_from_slice(&objects::encode_answer(types, &partial(object, version)));
        return;
    };
    let api_version = version.api_version();
    let head = [
        r#"{"kind":"PartialObjectMetadata","apiVersion":""#,
        api_version,
        r#"","metadata":"#,
    ];
    head.iter().for_each(|part| bytes.extend_from_slice(part.as_bytes()));
    bytes.extend_from_slice(metadata);
    bytes.push(b'}');
}

/// Returns the `PartialObjectMetadata` of an object.
pub(crate) fn partial(object: &Value, version: MetaVersion) -> Value {
    let mut partial = Value::empty_map();
    partial.set_at(&["kind"], "PartialObjectMetadata".into());
    partial.set_at(&["apiVersion"], version.api_version().into());
    let metadata = object.get("metadata").cloned().unwrap_or_else(Value::empty_map);
    partial.set_at(&["metadata"], metadata);
    partial
}

/// Returns the Go type that the reference names in messages about an object.
fn go_type(requested: &RequestedVersion) -> String {
    format!("*{}.{}", go_package(requested), requested.kind)
}

/// Returns the package of a kind's Go type in the reference: the first part of its group's name.
pub(crate) fn go_package(requested: &RequestedVersion) -> &str {
    match requested.api_version.rsplit_once('/') {
        None => "core",
        Some((group, _)) => group.split('.').next().unwrap_or_default(),
    }
}
