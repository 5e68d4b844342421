//! Tables: objects as rows of cells, as `kubectl get` prints them
//! (<https://kubernetes.io/docs/reference/using-api/api-concepts/#receiving-resources-as-tables>).

use std::borrow::Cow;
use std::sync::Arc;
use std::time::SystemTime;

use holdfast_resource::table::{Column, ColumnPaths};
use holdfast_schema::types::TypeTable;
use holdfast_value::json::Selected;
use holdfast_value::{Value, json};

use super::{RequestedVersion, Tree, write_partial};
use crate::http::ApiError;
use crate::http::negotiation::MetaVersion;
use crate::http::table::IncludeObject;
use crate::objects::{self, Entry, Index};
use crate::representation::Context;

/// The settings for writing the rows of a table.
pub(crate) struct Rows {
    types: Arc<TypeTable>,
    requested: RequestedVersion,
    version: MetaVersion,
    include: IncludeObject,
    now: SystemTime,
    reading: RowReading,
}

/// Part of a stored object that is read for its row.
enum RowReading {
    /// The whole object.
    Whole,
    /// The fields that cells read, as a tree. The metadata is copied.
    Fields(Selected),
    /// The values at the paths of the cells, without a tree. The metadata is copied.
    Values(ColumnPaths),
}

impl Rows {
    /// Creates the settings for objects of this representation, with ages relative to the current time.
    pub(crate) fn new(
        context: &Context,
        requested: &RequestedVersion,
        include: IncludeObject,
        version: MetaVersion,
    ) -> Self {
        Self {
            types: Arc::clone(&context.types),
            requested: requested.clone(),
            version,
            reading: RowReading::Whole,
            include,
            now: context.shared.clock.now(),
        }
    }

    /// Returns the same settings for many stored objects, of which only the fields of rows are read.
    pub(crate) fn of_stored(mut self) -> Self {
        self.reading = RowReading::new(&self.requested, self.include);
        self
    }

    /// Writes the row of a stored object.
    ///
    /// # Errors
    /// 500 if it cannot be converted.
    pub(crate) fn row_of_stored(&self, entry: &Entry, bytes: &mut Vec<u8>) -> Result<(), ApiError> {
        if self.row_of_values(entry, bytes).is_some() {
            return Ok(());
        }
        if let Some((tree, metadata)) = self.cut(entry) {
            return self.row(Tree::Converted(&tree), Some(&metadata), bytes);
        }
        let metadata = self.requested.metadata_text(entry);
        self.row(Tree::Stored(&objects::tree(entry)), metadata.as_deref(), bytes)
    }

    /// Writes the row of a stored object from the values of its cells. Returns `None` and writes nothing if these do not
    /// suffice.
    fn row_of_values(&self, entry: &Entry, bytes: &mut Vec<u8>) -> Option<()> {
        let RowReading::Values(paths) = &self.reading else {
            return None;
        };
        let text = self.requested_text(entry)?;
        let columns = self.requested.columns();
        let mut values = Vec::with_capacity(columns.len());
        let place = paths.read(text, &mut values)?;
        let metadata = text.get(place?).filter(|text| text.first() == Some(&b'{'))?;
        write_cells(paths.cells(columns, &values, self.now), bytes);
        bytes.extend_from_slice(b",\"object\":");
        match self.include {
            IncludeObject::Metadata => {
                let metadata = self.requested.reduced_text(metadata);
                write_partial(&self.types, &Value::Null, Some(&metadata), self.version, bytes);
            }
            _ => bytes.extend_from_slice(b"null"),
        }
        bytes.push(b'}');
        Some(())
    }

    /// Returns the part of a stored object from which its row is made, and its metadata as JSON; `None` if the whole
    /// object is needed.
    fn cut<'e>(&self, entry: &'e Entry) -> Option<(Value, Cow<'e, [u8]>)> {
        let RowReading::Fields(selected) = &self.reading else {
            return None;
        };
        if entry.known_index().is_some_and(Index::is_remembered) {
            return None;
        }
        let bytes = self.requested_text(entry)?;
        let (tree, metadata) = json::parse_selected_with_range(bytes, selected, "metadata")?;
        // The answer's metadata lack these annotations, so the stored JSON cannot be used.
        let hidden = self.requested.resource.capabilities.rows.hidden_annotations;
        if hidden
            .iter()
            .any(|name| tree.at(&["metadata", "annotations", name]).is_some())
        {
            return None;
        }
        let metadata = bytes.get(metadata?).filter(|text| text.first() == Some(&b'{'))?;
        Some((tree, self.requested.reduced_text(metadata)))
    }

    /// Returns the JSON of a stored object if it is that of the requested version.
    fn requested_text<'e>(&self, entry: &'e Entry) -> Option<&'e [u8]> {
        let requested = &self.requested;
        let bytes = entry.bytes();
        let is_as_requested =
            requested.is_stored_so(entry) && objects::is_of_version(bytes, &requested.kind, &requested.api_version);
        is_as_requested.then_some(bytes)
    }

    /// Returns the `apiVersion` of the table.
    pub(crate) fn api_version(&self) -> &'static str {
        self.version.api_version()
    }

    /// Returns the bytes before the rows. `metadata` is that of the list or of the one object, as JSON.
    pub(crate) fn head(&self, metadata: &str, with_columns: bool) -> Vec<u8> {
        let api_version = self.api_version();
        let head = format!(
            "{{\"kind\":\"Table\",\"apiVersion\":\"{api_version}\",\"metadata\":{metadata},\"columnDefinitions\":"
        );
        let mut bytes = head.into_bytes();
        if with_columns {
            write_list(&definitions(self.requested.columns()), &COLUMN, &mut bytes);
        } else {
            bytes.extend_from_slice(b"null");
        }
        bytes.extend_from_slice(ROWS);
        bytes
    }

    /// Writes the row of an object; `metadata` is the JSON of its metadata if it is available.
    ///
    /// # Errors
    /// 500 if it cannot be converted.
    pub(crate) fn row(&self, tree: Tree<'_>, metadata: Option<&[u8]>, bytes: &mut Vec<u8>) -> Result<(), ApiError> {
        let object = self.requested.summarized(tree)?;
        let columns = self.requested.columns().iter();
        write_cells(columns.map(|column| column.cell(&object, self.now)), bytes);
        let conditions = self.requested.resource.capabilities.rows.conditions;
        if let Some(conditions) = conditions.and_then(|conditions| (conditions.of)(&object)) {
            bytes.extend_from_slice(b",\"conditions\":");
            write_list(&conditions, &CONDITION, bytes);
        }
        bytes.extend_from_slice(b",\"object\":");
        match self.include {
            IncludeObject::Nothing => bytes.extend_from_slice(b"null"),
            IncludeObject::Metadata => write_partial(&self.types, &object, metadata, self.version, bytes),
            IncludeObject::Whole => {
                bytes.extend_from_slice(&objects::encode_answer(&self.types, &self.requested.answered(tree)?));
            }
        }
        bytes.push(b'}');
        Ok(())
    }

    /// Writes the bytes after the rows.
    pub(crate) fn end(&self, bytes: &mut Vec<u8>) {
        // For a kind without columns of its own, the reference encodes an empty list of rows as `null`.
        if bytes.ends_with(ROWS) && matches!(self.requested.columns(), [_, second] if second.name == "Created At") {
            bytes.pop();
            bytes.extend_from_slice(b"null}");
            return;
        }
        bytes.extend_from_slice(b"]}");
    }
}

impl RowReading {
    /// Returns the part that rows with this object part need.
    fn new(requested: &RequestedVersion, include: IncludeObject) -> Self {
        let rows = &requested.resource.capabilities.rows;
        let columns = requested.columns();
        if include == IncludeObject::Whole {
            return Self::Whole;
        }
        if rows.hidden_annotations.is_empty()
            && rows.conditions.is_none()
            && let Some(paths) = ColumnPaths::new(columns)
        {
            return Self::Values(paths);
        }
        let mut selected = Selected::nothing();
        for name in rows.hidden_annotations {
            selected.add(["metadata", "annotations", name].into_iter());
        }
        if let Some(conditions) = rows.conditions {
            selected.add(conditions.read.iter().copied());
        }
        match columns.iter().all(|column| column.select(&mut selected)) {
            true => Self::Fields(selected),
            false => Self::Whole,
        }
    }
}

/// Begins a row with its cells.
fn write_cells(cells: impl Iterator<Item = Value>, bytes: &mut Vec<u8>) {
    bytes.extend_from_slice(b"{\"cells\":[");
    for (at, cell) in cells.enumerate() {
        if at > 0 {
            bytes.push(b',');
        }
        json::write(&cell, bytes);
    }
    bytes.push(b']');
}

/// The bytes before the first row.
const ROWS: &[u8] = b",\"rows\":[";

/// The members of a column definition and of a row condition, in their order.
const COLUMN: [&str; 5] = ["name", "type", "format", "description", "priority"];
const CONDITION: [&str; 4] = ["type", "status", "reason", "message"];

/// Writes a list of maps whose members are in the order of `names`.
fn write_list(list: &Value, names: &[&str], bytes: &mut Vec<u8>) {
    bytes.push(b'[');
    for (at, item) in list.as_list().into_iter().flat_map(|list| list.iter()).enumerate() {
        if at > 0 {
            bytes.push(b',');
        }
        objects::write_in_order(item, names, bytes);
    }
    bytes.push(b']');
}

fn definitions(columns: &[Column]) -> Value {
    let definition = |column: &Column| {
        let mut definition = Value::empty_map();
        definition.set_at(&["name"], column.name.clone().into());
        definition.set_at(&["type"], column.data_type.clone().into());
        definition.set_at(&["format"], column.format.clone().into());
        definition.set_at(&["description"], column.description.clone().into());
        definition.set_at(&["priority"], Value::Int(column.priority));
        definition
    };
    let named = columns.iter().filter(|column| !column.name.is_empty());
    named.map(definition).collect::<Vec<_>>().into()
}
