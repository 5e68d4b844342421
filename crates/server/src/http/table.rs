//! The parameter of requests for tables
//! (<https://kubernetes.io/docs/reference/using-api/api-concepts/#receiving-resources-as-tables>).

use crate::http::ApiError;
use crate::http::query::Query;

/// Object part of a table row, in addition to its cells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum IncludeObject {
    /// No object.
    Nothing,
    /// The metadata of the object.
    #[default]
    Metadata,
    /// The object.
    Whole,
}

impl IncludeObject {
    /// Parses the parameter of a request.
    ///
    /// # Errors
    /// If the parameter is invalid (400).
    pub(crate) fn parse(query: &Query) -> Result<Self, ApiError> {
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
