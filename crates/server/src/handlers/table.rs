//! Tables: objects as rows of cells, which is what `kubectl get` shows
//! (<https://kubernetes.io/docs/reference/using-api/api-concepts/#receiving-resources-as-tables>).

use holdfast_resource::table::Column;
use holdfast_value::{Value, json};

use super::representation::{Shown, partial};
use crate::ApiError;
use crate::negotiation::MetaVersion;
use crate::objects;
use crate::query::Query;
use crate::state::Context;

/// What a row holds besides its cells.
#[derive(Clone, Copy, PartialEq, Eq)]
enum IncludeObject {
    Nothing,
    Metadata,
    Whole,
}

impl IncludeObject {
    fn parse(query: &Query) -> Result<Self, ApiError> {
        match query.get("includeObject").unwrap_or_default() {
            "" | "Metadata" => Ok(Self::Metadata),
            "None" => Ok(Self::Nothing),
            "Object" => Ok(Self::Whole),
            other => Err(ApiError::bad_request(format!(
                "Unable to convert to Table as requested: includeObject: Invalid value: {other:?}: must be 'Metadata', 'Object', 'None', or empty"
            ))),
        }
    }
}

/// The table of `objects`, which are as they are stored, as JSON. `metadata` is that of the list or of the one
/// object, as JSON.
///
/// # Errors
/// 400 for a parameter that cannot be read; 500 where an object cannot be converted.
pub(super) fn table(
    context: &Context,
    shown: &Shown,
    query: &Query,
    version: MetaVersion,
    metadata: &str,
    with_columns: bool,
    objects: &mut dyn Iterator<Item = Value>,
) -> Result<Vec<u8>, ApiError> {
    let include = IncludeObject::parse(query)?;
    let (api_version, now) = (version.api_version(), context.clock.now());
    let columns = shown.columns();
    let head =
        format!("{{\"kind\":\"Table\",\"apiVersion\":\"{api_version}\",\"metadata\":{metadata},\"columnDefinitions\":");
    let mut bytes = head.into_bytes();
    if with_columns {
        json::write(&definitions(columns), &mut bytes);
    } else {
        bytes.extend_from_slice(b"null");
    }
    bytes.extend_from_slice(b",\"rows\":[");
    for (at, stored) in objects.enumerate() {
        if at > 0 {
            bytes.push(b',');
        }
        let object = shown.summarized(stored.clone())?;
        bytes.extend_from_slice(b"{\"cells\":");
        let cells: Vec<Value> = columns.iter().map(|column| column.cell(&object, now)).collect();
        json::write(&cells.into(), &mut bytes);
        if let Some(conditions) = shown.resource.strategy.row_conditions(&object) {
            bytes.extend_from_slice(b",\"conditions\":");
            json::write(&conditions, &mut bytes);
        }
        match include {
            IncludeObject::Nothing => bytes.extend_from_slice(b",\"object\":null"),
            IncludeObject::Metadata => {
                bytes.extend_from_slice(b",\"object\":");
                bytes.extend_from_slice(&objects::encode_answer(&partial(&object, version)));
            }
            IncludeObject::Whole => {
                bytes.extend_from_slice(b",\"object\":");
                bytes.extend_from_slice(&objects::encode_answer(&shown.convert(stored)?));
            }
        }
        bytes.push(b'}');
    }
    bytes.extend_from_slice(b"]}");
    Ok(bytes)
}

fn definitions(columns: &[Column]) -> Value {
    let definition = |column: &Column| {
        let mut definition = Value::empty_map();
        definition.set_at(&["name"], column.name.clone().into());
        definition.set_at(&["type"], column.sort.clone().into());
        definition.set_at(&["format"], column.format.clone().into());
        definition.set_at(&["description"], column.description.clone().into());
        definition.set_at(&["priority"], Value::Int(column.priority));
        definition
    };
    let told = columns.iter().filter(|column| !column.name.is_empty());
    told.map(definition).collect::<Vec<_>>().into()
}
