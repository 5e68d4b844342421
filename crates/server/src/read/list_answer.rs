//! The answer with a list: objects, their metadata, or a table, written as the client reads them.

use std::sync::Arc;

use holdfast_schema::types::TypeTable;
use holdfast_value::Value;
use http::StatusCode;

use crate::http::ApiError;
use crate::http::negotiation::{Format, MetaVersion, Representation, View};
use crate::http::protobuf::{self, ListFrame};
use crate::http::query::Query;
use crate::http::response::{self, Response};
use crate::http::table::IncludeObject;
use crate::objects;
use crate::read::items::{ListItem, ListItems};
use crate::read::list::Page;
use crate::read::list_body::{self, ItemMessages};
use crate::representation::table::Rows;
use crate::representation::{Context, RequestedVersion, Tree, go_package, write_partial};
use crate::wire::body::ResponseBody;

/// Returns the answer with a list.
///
/// # Errors
/// 406 for a view that lists do not have, 500 if the objects cannot be converted.
pub(crate) async fn answer(
    context: &Arc<Context>,
    requested: &RequestedVersion,
    query: &Query,
    representation: &Representation,
    page: Page,
) -> Result<Response, ApiError> {
    let Representation {
        view, format, pretty, ..
    } = *representation;
    let metadata = match view {
        View::Whole if format != Format::Protobuf && requested.resource.conventions.chunks_count_rest => {
            page.metadata_with_continue()
        }
        _ => page.metadata(),
    };
    let body = if format == Format::Protobuf {
        protobuf_list(context, requested, query, representation, page.items, &metadata).await?
    } else {
        let (writer, head) = Writer::new(context, requested, query, representation, &metadata)?;
        list_body::body(page.items, writer, head, format, pretty).await?
    };
    Ok(response::bytes(StatusCode::OK, format.content_type(), body))
}

/// Returns the body of a list in protobuf: of whole objects or of their metadata. Tables have no such form.
async fn protobuf_list(
    context: &Arc<Context>,
    requested: &RequestedVersion,
    query: &Query,
    representation: &Representation,
    items: ListItems,
    metadata: &str,
) -> Result<ResponseBody, ApiError> {
    let messages = &context.messages;
    if representation.view == View::Whole {
        let frame = ListFrame::new(messages, &requested.api_version, &requested.list_kind, metadata)?;
        let messages = ItemMessages::new(context, requested, None);
        return list_body::protobuf_body(items, messages, frame).await;
    }
    let (writer, _) = Writer::new(context, requested, query, representation, metadata)?;
    let (api_version, kind) = writer.list_type();
    protobuf::type_with_message(messages, api_version, kind)?;
    let frame = ListFrame::new(messages, api_version, kind, metadata)?;
    let messages = ItemMessages::new(context, requested, Some(writer));
    list_body::protobuf_body(items, messages, frame).await
}

/// Returns the answer with a list of `trees`, which are in their storage version; `metadata` is that of the list, as
/// JSON.
///
/// # Errors
/// 406 for a view that lists do not have, 500 if an object cannot be converted.
pub(crate) fn of_trees(
    context: &Context,
    requested: &RequestedVersion,
    query: &Query,
    representation: &Representation,
    metadata: &str,
    trees: &[Value],
) -> Result<Response, ApiError> {
    if representation.view == View::Whole && representation.format == Format::Protobuf {
        let message = |tree: &Value| {
            let tree = requested.answered(Tree::Stored(tree))?;
            protobuf::message(&context.messages, &requested.api_version, &requested.kind, &tree)
        };
        let items: Vec<Vec<u8>> = trees.iter().map(message).collect::<Result<_, _>>()?;
        let body = protobuf::list(
            &context.messages,
            &requested.api_version,
            &requested.list_kind,
            metadata,
            &items,
        )?;
        return Ok(response::bytes(StatusCode::OK, Format::Protobuf.content_type(), body));
    }
    let (writer, mut json) = Writer::new(context, requested, query, representation, metadata)?;
    for (at, tree) in trees.iter().enumerate() {
        writer.before(at == 0, &mut json);
        writer.tree(Tree::Stored(tree), &mut json)?;
    }
    writer.end(trees.is_empty(), &mut json);
    response::encoded(&context.messages, StatusCode::OK, representation, json)
}

/// The JSON writer for the objects of a list.
pub(crate) struct Writer {
    types: Arc<TypeTable>,
    requested: RequestedVersion,
    items: ItemForm,
}

enum ItemForm {
    /// A whole object, without kind and version, which the list has.
    Whole,
    Partial(MetaVersion),
    Row(Rows),
}

impl Writer {
    /// Creates the writer for a request, and the bytes before the objects.
    fn new(
        context: &Context,
        requested: &RequestedVersion,
        query: &Query,
        representation: &Representation,
        metadata: &str,
    ) -> Result<(Self, Vec<u8>), ApiError> {
        let list_head = |kind: &str, api_version: &str| {
            format!("{{\"kind\":\"{kind}\",\"apiVersion\":\"{api_version}\",\"metadata\":{metadata},\"items\":")
                .into_bytes()
        };
        let (items, mut head) = match representation.view {
            View::Whole => (ItemForm::Whole, list_head(&requested.list_kind, &requested.api_version)),
            View::PartialList(version) => (
                ItemForm::Partial(version),
                list_head("PartialObjectMetadataList", version.api_version()),
            ),
            View::PartialObject(_) => {
                return Err(ApiError::not_acceptable(format!(
                    "you requested PartialObjectMetadata, but the requested object is a list (*{}.{})",
                    go_package(requested),
                    requested.list_kind
                )));
            }
            View::Table(version) => {
                let rows = Rows::new(context, requested, IncludeObject::parse(query)?, version).of_stored();
                let head = rows.head(metadata, true);
                (ItemForm::Row(rows), head)
            }
        };
        if matches!(items, ItemForm::Whole) {
            head.push(b'[');
        }
        let (types, requested) = (Arc::clone(&context.types), requested.clone());
        Ok((
            Self {
                types,
                requested,
                items,
            },
            head,
        ))
    }

    /// Writes an object of a list. An object that is sent in its stored form is not parsed if its bytes suffice.
    ///
    /// # Errors
    /// 500 if it cannot be converted.
    pub(crate) fn item(&self, item: &ListItem, bytes: &mut Vec<u8>) -> Result<(), ApiError> {
        if let Some(tree) = &item.converted {
            return self.tree(Tree::Converted(tree), bytes);
        }
        let entry = &item.entry;
        match &self.items {
            ItemForm::Whole => self.whole(&self.requested.bytes(&self.types, entry)?, bytes),
            ItemForm::Partial(version) => match self.requested.metadata_text(entry) {
                Some(metadata) => write_partial(&self.types, &Value::Null, Some(&metadata), *version, bytes),
                None => return self.tree(Tree::Stored(&objects::tree(entry)), bytes),
            },
            ItemForm::Row(rows) => return rows.row_of_stored(entry, bytes),
        }
        Ok(())
    }

    /// True if the stored bytes of an object are copied.
    pub(crate) fn copies(&self, item: &ListItem) -> bool {
        matches!(self.items, ItemForm::Whole) && item.converted.is_none() && self.requested.is_stored_whole(&item.entry)
    }

    /// Writes an object.
    ///
    /// # Errors
    /// 500 if it cannot be converted.
    fn tree(&self, tree: Tree<'_>, bytes: &mut Vec<u8>) -> Result<(), ApiError> {
        match &self.items {
            ItemForm::Whole => {
                let object = self.requested.answered(tree)?;
                self.whole(&objects::encode_answer(&self.types, &object), bytes);
            }
            ItemForm::Partial(version) => {
                let object = self.requested.summarized(tree)?;
                write_partial(&self.types, &object, None, *version, bytes);
            }
            ItemForm::Row(rows) => return rows.row(tree, None, bytes),
        }
        Ok(())
    }

    fn whole(&self, object: &[u8], bytes: &mut Vec<u8>) {
        let (kind, api_version) = (&self.requested.kind, &self.requested.api_version);
        if self.requested.resource.conventions.whole_items {
            // Items of custom resources are whole objects.
            bytes.extend_from_slice(object);
            return;
        }
        bytes.push(b'{');
        bytes.extend_from_slice(objects::list_item(object, kind, api_version));
    }

    /// Returns the name of the member that holds the objects.
    pub(crate) fn member(&self) -> &'static str {
        match &self.items {
            ItemForm::Row(_) => "rows",
            ItemForm::Whole | ItemForm::Partial(_) => "items",
        }
    }

    /// Returns version and kind of the list.
    fn list_type(&self) -> (&str, &str) {
        match &self.items {
            ItemForm::Whole => (&self.requested.api_version, &self.requested.list_kind),
            ItemForm::Partial(version) => (version.api_version(), "PartialObjectMetadataList"),
            ItemForm::Row(rows) => (rows.api_version(), "Table"),
        }
    }

    /// Writes the bytes before an object, which depend on it being the `first` one.
    pub(crate) fn before(&self, first: bool, bytes: &mut Vec<u8>) {
        match &self.items {
            _ if !first => bytes.push(b','),
            ItemForm::Partial(_) => bytes.push(b'['),
            ItemForm::Whole | ItemForm::Row(_) => {}
        }
    }

    /// Writes the bytes after the objects. An empty list of metadata has the items `null`, not an empty list.
    pub(crate) fn end(&self, empty: bool, bytes: &mut Vec<u8>) {
        match &self.items {
            ItemForm::Row(rows) => rows.end(bytes),
            ItemForm::Partial(_) if empty => bytes.extend_from_slice(b"null}"),
            ItemForm::Whole | ItemForm::Partial(_) => bytes.extend_from_slice(b"]}"),
        }
    }
}
