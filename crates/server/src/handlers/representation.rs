//! What an answer shows of objects: the whole, their metadata, or a table.

use std::sync::Arc;

use bytes::Bytes;
use holdfast_proto::Messages;
use holdfast_resource::table::Column;
use holdfast_resource::{Resource, ResourceVersion};
use holdfast_value::Value;
use http::StatusCode;
use smol_str::SmolStr;

use super::list::Page;
use crate::ApiError;
use crate::negotiation::{Format, MetaVersion, Representation, View};
use crate::objects::{self, Entry};
use crate::protobuf;
use crate::query::Query;
use crate::request::ResourceRequest;
use crate::response::{self, Response};
use crate::state::Context;

/// As what stored objects are shown: the version of the address.
#[derive(Clone)]
pub(crate) struct Shown {
    /// The resource.
    pub(crate) resource: Arc<Resource>,
    /// The kind of the objects.
    pub(crate) kind: SmolStr,
    /// The kind of a list of them.
    pub(crate) list_kind: SmolStr,
    /// The `apiVersion` of the objects.
    pub(crate) api_version: SmolStr,
    /// The columns of tables where what is shown is not of the kind of the resource.
    own_columns: Option<Vec<Column>>,
}

impl Shown {
    /// As a version of its resource.
    pub(crate) fn new(resource: &Arc<Resource>, version: &ResourceVersion) -> Self {
        Self {
            resource: Arc::clone(resource),
            kind: resource.kind.clone(),
            list_kind: version.list_kind.clone(),
            api_version: version.api_version.clone(),
            own_columns: None,
        }
    }

    /// The version that a request's address is of.
    pub(crate) fn of_request(request: &ResourceRequest) -> Self {
        Self::new(&request.served.resource, request.version())
    }

    /// What the subresource of a request is shown as.
    pub(crate) fn of_subresource(request: &ResourceRequest) -> Self {
        let mut shown = Self::of_request(request);
        if let Some(subresource) = request.subresource() {
            shown.kind = subresource.kind.kind.clone();
            shown.api_version = subresource.kind.group_version.api_version();
            let own = shown.kind != request.served.resource.kind;
            shown.own_columns = own.then(|| subresource.columns.clone());
        }
        shown
    }

    /// The columns of tables.
    pub(crate) fn columns(&self) -> &[Column] {
        let mut versions = self.resource.versions.iter();
        let version = versions.find(|version| version.api_version == self.api_version);
        let columns = version.map(|version| &version.columns);
        self.own_columns.as_ref().or(columns).map_or(&[], Vec::as_slice)
    }

    /// Whether the stored bytes are what is shown.
    pub(crate) fn stored_as_shown(&self) -> bool {
        // What is of a kind of its own was made to be shown.
        if self.own_columns.is_some() {
            return true;
        }
        let storage = self.resource.storage.as_ref();
        storage.is_none_or(|storage| storage.api_version == self.api_version)
    }

    /// The tree of a stored object, in the version that is shown.
    ///
    /// # Errors
    /// 500 where the kind does not know the conversion.
    pub(crate) fn tree(&self, entry: &Entry) -> Result<Value, ApiError> {
        self.convert(objects::tree(entry))
    }

    /// A tree in its storage version, in the version that is shown.
    ///
    /// # Errors
    /// 500 where the kind does not know the conversion.
    pub(crate) fn convert(&self, tree: Value) -> Result<Value, ApiError> {
        if self.stored_as_shown() {
            return Ok(tree);
        }
        let converted = self.resource.strategy.convert(tree, &self.api_version);
        converted.map_err(|error| ApiError::internal(error.to_string()))
    }

    /// The tree of which tables and metadata are made, of one in its storage version.
    ///
    /// # Errors
    /// 500 where the kind does not know the conversion.
    pub(crate) fn summarized(&self, tree: Value) -> Result<Value, ApiError> {
        if self.resource.strategy.tables_stored_version() {
            return Ok(tree);
        }
        self.convert(tree)
    }

    /// The bytes of a stored object, in the version that is shown.
    ///
    /// # Errors
    /// 500 where the kind does not know the conversion.
    pub(crate) fn bytes(&self, entry: &Entry) -> Result<Bytes, ApiError> {
        if self.stored_as_shown() {
            return Ok(entry.bytes().clone());
        }
        Ok(objects::encode_answer(&self.tree(entry)?).into())
    }
}

/// The answer that shows one stored object.
///
/// # Errors
/// 406 for a view that objects do not have, 500 where the object cannot be converted.
pub(crate) fn entry(
    context: &Context,
    shown: &Shown,
    query: &Query,
    representation: &Representation,
    code: StatusCode,
    entry: &Entry,
) -> Result<Response, ApiError> {
    if representation.view == View::Whole {
        return response::encoded(context.messages(), code, representation, shown.bytes(entry)?);
    }
    object(context, shown, query, representation, code, &objects::tree(entry))
}

/// The answer that shows one object, which is in its storage version.
///
/// # Errors
/// 406 for a view that objects do not have, 500 where the object cannot be converted.
pub(crate) fn object(
    context: &Context,
    shown: &Shown,
    query: &Query,
    representation: &Representation,
    code: StatusCode,
    object: &Value,
) -> Result<Response, ApiError> {
    let viewed = view(context, shown, query, representation.view, object)?;
    response::encoded(context.messages(), code, representation, viewed)
}

/// One object, which is in its storage version, as a view shows it, as JSON.
///
/// # Errors
/// 406 for a view that objects do not have, 500 where the object cannot be converted.
pub(crate) fn view(
    context: &Context,
    shown: &Shown,
    query: &Query,
    view: View,
    object: &Value,
) -> Result<Vec<u8>, ApiError> {
    match view {
        View::Whole => Ok(objects::encode_answer(&shown.convert(object.clone())?)),
        View::PartialObject(version) => {
            let object = shown.summarized(object.clone())?;
            Ok(objects::encode_answer(&partial(&object, version)))
        }
        View::PartialList(_) => Err(ApiError::not_acceptable(
            "you requested PartialObjectMetadataList, but the requested object is not a list (".to_owned()
                + &go_type(shown)
                + ")",
        )),
        View::Table(version) => {
            let version_text = object.str_at(&["metadata", "resourceVersion"]).unwrap_or_default();
            let metadata = if version_text.is_empty() {
                "{}".to_owned()
            } else {
                format!("{{\"resourceVersion\":\"{version_text}\"}}")
            };
            super::table::table(
                context,
                shown,
                query,
                version,
                &metadata,
                true,
                &mut [object.clone()].into_iter(),
            )
        }
    }
}

/// The answer that shows a list otherwise than as the stored bytes of its objects.
///
/// # Errors
/// 406 for a view that lists do not have, 500 where an object cannot be converted.
pub(crate) fn list(
    context: &Context,
    shown: &Shown,
    query: &Query,
    representation: &Representation,
    page: &Page,
) -> Result<Response, ApiError> {
    list_of_trees(
        context,
        shown,
        query,
        representation,
        &page.metadata(),
        &mut page.entries.iter().map(|entry| objects::tree(entry)),
    )
}

/// The answer that shows a list of `trees`, which are in their storage version; `metadata` is that of the list, as JSON.
///
/// # Errors
/// 406 for a view that lists do not have, 500 where an object cannot be converted.
pub(crate) fn list_of_trees(
    context: &Context,
    shown: &Shown,
    query: &Query,
    representation: &Representation,
    metadata: &str,
    trees: &mut dyn Iterator<Item = Value>,
) -> Result<Response, ApiError> {
    let json = match representation.view {
        View::Whole if representation.format == Format::Protobuf => {
            let body = protobuf_list(context.messages(), shown, metadata, trees)?;
            return Ok(response::bytes(StatusCode::OK, Format::Protobuf.content_type(), body));
        }
        View::Whole => list_of(
            &shown.list_kind,
            &shown.api_version,
            metadata,
            trees.map(|tree| {
                let mut tree = shown.convert(tree)?;
                if let Some(map) = tree.as_map_mut() {
                    map.remove("kind");
                    map.remove("apiVersion");
                }
                Ok(tree)
            }),
        )?,
        View::PartialList(version) => list_of(
            "PartialObjectMetadataList",
            version.api_version(),
            metadata,
            trees.map(|tree| Ok(partial(&shown.summarized(tree)?, version))),
        )?,
        View::PartialObject(_) => {
            return Err(ApiError::not_acceptable(format!(
                "you requested PartialObjectMetadata, but the requested object is a list (*{}.{})",
                go_package(shown),
                shown.list_kind
            )));
        }
        View::Table(version) => super::table::table(context, shown, query, version, metadata, true, trees)?,
    };
    response::encoded(context.messages(), StatusCode::OK, representation, json)
}

/// A list in protobuf, each item written once.
fn protobuf_list(
    messages: &Messages,
    shown: &Shown,
    metadata: &str,
    trees: &mut dyn Iterator<Item = Value>,
) -> Result<Vec<u8>, ApiError> {
    let message = |tree| protobuf::message(messages, &shown.api_version, &shown.kind, &shown.convert(tree)?);
    let items: Vec<Vec<u8>> = trees.map(message).collect::<Result<_, _>>()?;
    protobuf::list(messages, &shown.api_version, &shown.list_kind, metadata, &items)
}

fn list_of(
    kind: &str,
    api_version: &str,
    metadata: &str,
    items: impl Iterator<Item = Result<Value, ApiError>>,
) -> Result<Vec<u8>, ApiError> {
    let head = format!("{{\"kind\":\"{kind}\",\"apiVersion\":\"{api_version}\",\"metadata\":{metadata},\"items\":[");
    let mut bytes = head.into_bytes();
    for (at, item) in items.enumerate() {
        if at > 0 {
            bytes.push(b',');
        }
        bytes.extend_from_slice(&objects::encode_answer(&item?));
    }
    bytes.extend_from_slice(b"]}");
    Ok(bytes)
}

/// The `PartialObjectMetadata` of an object.
pub(crate) fn partial(object: &Value, version: MetaVersion) -> Value {
    let mut partial = Value::empty_map();
    partial.set_at(&["kind"], "PartialObjectMetadata".into());
    partial.set_at(&["apiVersion"], version.api_version().into());
    let metadata = object.get("metadata").cloned().unwrap_or_else(Value::empty_map);
    partial.set_at(&["metadata"], metadata);
    partial
}

/// The Go type that the reference names in messages about an object.
fn go_type(shown: &Shown) -> String {
    format!("*{}.{}", go_package(shown), shown.kind)
}

/// The package of a kind's Go type in the reference: the first part of its group's name.
fn go_package(shown: &Shown) -> &str {
    match shown.resource.group.split('.').next() {
        None | Some("") => "core",
        Some(first) => first,
    }
}

/// One object as an event of a watch that shows tables.
///
/// # Errors
/// 500 where the table cannot be made.
pub(crate) fn row_of_watch(
    context: &Context,
    shown: &Shown,
    query: &Query,
    version: MetaVersion,
    with_columns: bool,
    object: &Value,
) -> Result<Vec<u8>, ApiError> {
    let revision = object.str_at(&["metadata", "resourceVersion"]).unwrap_or_default();
    let metadata = format!("{{\"resourceVersion\":\"{revision}\"}}");
    super::table::table(
        context,
        shown,
        query,
        version,
        &metadata,
        with_columns,
        &mut [object.clone()].into_iter(),
    )
}
