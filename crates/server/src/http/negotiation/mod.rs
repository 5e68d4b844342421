//! Content negotiation: the form of the response that the client requests, and the format of its body.
//!
//! The reference decides twice. First its router rejects a request that accepts none of the route's media types; it
//! compares bare types only. Then the negotiation proper orders the clauses of the Accept header by quality and chooses
//! the first that it can serve, parameters included (`as=Table;v=v1;g=meta.k8s.io`).

mod accept;
mod content_type;
mod formats;

use http::header::{self, HeaderMap, HeaderValue};

pub(crate) use self::accept::{Clause, clauses};
use self::accept::{accept_text, accepts_plain_json};
pub use self::content_type::{PATCH_TYPES, PatchType, body_format, patch_type};
pub(crate) use self::formats::{CBOR_SEQUENCE, PROTOBUF_STREAM, formats};
pub use self::formats::{Format, NAMED_TYPES, log_types, named_types, named_watch_types, stream_types};
use crate::http::ApiError;
use crate::http::query::Query;

/// Field that clients may request to omit.
const MANAGED_FIELDS: &str = "metadata.managedFields";

/// Part of an object that is returned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum View {
    /// The whole object.
    #[default]
    Whole,
    /// A `Table` of `meta.k8s.io` with one row for each object.
    Table(MetaVersion),
    /// Its `PartialObjectMetadata`.
    PartialObject(MetaVersion),
    /// The `PartialObjectMetadataList` of a list.
    PartialList(MetaVersion),
}

/// The versions of `meta.k8s.io`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MetaVersion {
    /// `meta.k8s.io/v1`.
    V1,
    /// `meta.k8s.io/v1beta1`.
    V1Beta1,
}

impl MetaVersion {
    /// Returns the text of `apiVersion`.
    pub fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "meta.k8s.io/v1",
            Self::V1Beta1 => "meta.k8s.io/v1beta1",
        }
    }
}

/// Forms of the objects of an address in addition to JSON and YAML.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forms {
    /// True if objects have a protobuf form.
    pub protobuf: bool,
    /// True if they can be returned as rows of a table.
    pub tables: bool,
    /// True if they are served in CBOR.
    pub cbor: bool,
}

/// Form of a response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Representation {
    /// Wire format.
    pub format: Format,
    /// Part of the object that is returned.
    pub view: View,
    /// True if JSON is indented.
    pub pretty: bool,
    /// True if `metadata.managedFields` is left out of objects (`drop=metadata.managedFields`, KEP-5958).
    pub drops_managed_fields: bool,
}

/// Parts of a request that determine the form of an error, kept in case there is one.
#[derive(Clone, Debug)]
pub struct ErrorForm {
    accept: Option<HeaderValue>,
    agent: Option<HeaderValue>,
    query: Query,
}

impl ErrorForm {
    /// Keeps the relevant headers and parameters of a request.
    pub fn new(headers: &HeaderMap, query: &Query) -> Self {
        Self {
            accept: headers.get(header::ACCEPT).cloned(),
            agent: headers.get(header::USER_AGENT).cloned(),
            query: query.clone(),
        }
    }

    /// Returns the form.
    pub fn representation(self) -> Representation {
        let stated = [(header::ACCEPT, self.accept), (header::USER_AGENT, self.agent)];
        let stated = stated.into_iter().filter_map(|(name, value)| Some((name, value?)));
        Representation::of_errors(&stated.collect(), &self.query)
    }
}

impl Representation {
    /// Returns the form of errors: the form of the first clause that requests only a format, because a `Status` is
    /// always returned whole. If there is none, errors are returned nevertheless, as indented JSON.
    pub fn of_errors(headers: &HeaderMap, query: &Query) -> Self {
        let of_bodies = Self::of_document(headers, query);
        of_bodies.unwrap_or(Self {
            pretty: true,
            ..Self::default()
        })
    }

    /// Returns the form of errors of the pages `/statusz` and `/flagz`, which have no protobuf form: indented JSON if
    /// the client accepts none.
    pub(crate) fn of_page_errors(headers: &HeaderMap, query: &Query, cbor: bool) -> Self {
        let served = |format, view| view == View::Whole && format != Format::Protobuf;
        Self::negotiate(headers, query, cbor, served).unwrap_or(Self {
            pretty: true,
            ..Self::default()
        })
    }

    /// Returns the form of a response that contains an object, a list or a `Status`. If objects have no protobuf form,
    /// their metadata still do.
    ///
    /// # Errors
    /// If the client accepts none of the supported formats (406).
    pub fn of_object(headers: &HeaderMap, query: &Query, forms: Forms) -> Result<Self, ApiError> {
        Self::negotiate(headers, query, forms.cbor, |format, view| match view {
            View::Whole => format != Format::Protobuf || forms.protobuf,
            View::Table(_) => forms.tables,
            View::PartialObject(_) | View::PartialList(_) => true,
        })
    }

    /// Returns the form of a response that is always returned whole, such as a discovery document.
    ///
    /// # Errors
    /// If the client accepts none of the supported formats (406).
    pub fn of_document(headers: &HeaderMap, query: &Query) -> Result<Self, ApiError> {
        Self::negotiate(headers, query, false, |_, view| view == View::Whole)
    }

    fn negotiate(
        headers: &HeaderMap,
        query: &Query,
        cbor: bool,
        served: impl Fn(Format, View) -> bool,
    ) -> Result<Self, ApiError> {
        let pretty = pretty(headers, query);
        if accepts_plain_json(headers) && served(Format::Json, View::Whole) {
            return Ok(Self {
                pretty,
                ..Self::default()
            });
        }
        for clause in clauses(headers) {
            let Some(format) = clause.format_of(formats(cbor)) else {
                continue;
            };
            let Some(view) = clause.view(format) else { continue };
            if !served(format, view) {
                continue;
            }
            return Ok(Self {
                format,
                view,
                pretty: pretty || clause.parameter("pretty") == Some("1"),
                drops_managed_fields: clause.drops(MANAGED_FIELDS),
            });
        }
        let accepted = named_types(cbor).join(", ");
        let message = format!("only the following media types are accepted: {accepted}");
        Err(ApiError::not_acceptable(message))
    }
}

/// Rejects a request that accepts none of the bare media types `produced`, as the reference's router does: quality and
/// parameters are ignored, and `*/*` is the only wildcard.
///
/// # Errors
/// If it accepts none of them (406 that names the types).
pub fn check_acceptable(headers: &HeaderMap, produced: &[&str]) -> Result<(), ApiError> {
    let accept = accept_text(headers);
    if accept.is_empty() {
        return Ok(());
    }
    // Most clients name a single type.
    if produced.contains(&accept.as_ref()) {
        return Ok(());
    }
    let acceptable = accept.split(',').any(|clause| {
        let bare = clause.split(';').next().unwrap_or_default().trim();
        bare == "*/*" || produced.contains(&bare)
    });
    if acceptable {
        Ok(())
    } else {
        Err(ApiError::no_representation(produced))
    }
}

/// Returns true if JSON is to be indented: as requested by the parameter `pretty`, or by default for interactive tools.
pub(crate) fn pretty(headers: &HeaderMap, query: &Query) -> bool {
    if let Some(text) = query.get("pretty").filter(|text| !text.is_empty()) {
        return matches!(text, "1" | "t" | "T" | "true" | "TRUE" | "True");
    }
    let agent = headers.get(header::USER_AGENT);
    agent.is_some_and(|agent| {
        ["curl", "Wget", "Mozilla/5.0"]
            .iter()
            .any(|tool| agent.as_bytes().starts_with(tool.as_bytes()))
    })
}

#[cfg(test)]
mod tests;
