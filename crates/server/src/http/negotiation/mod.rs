//! Content negotiation: the form of the response that the client requests, and the format of its body.
//!
//! The reference decides twice. First its router rejects a request that accepts none of the route's media types; it
//! compares bare types only. Then the negotiation proper orders the clauses of the Accept header by quality and chooses
//! the first that it can serve, parameters included (`as=Table;v=v1;g=meta.k8s.io`).

mod accept;
mod content_type;
mod formats;

use http::Method;
use http::header::{self, HeaderMap};

pub(crate) use self::accept::{Clause, clauses};
use self::accept::{accept_text, accepts_plain_json};
pub use self::content_type::{PATCH_TYPES, PatchType, body_format};
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

/// Result of the negotiation between a client and the server, made once for a request.
#[derive(Clone, Debug, Default)]
pub struct Negotiated {
    accepted: Accepted,
    /// True if JSON is indented.
    pretty: bool,
    /// Form of a document.
    document: Option<Representation>,
    patch_type: Option<PatchType>,
}

/// Forms that a client accepts.
#[derive(Clone, Debug, Default)]
enum Accepted {
    /// JSON without parameters, which most clients prefer to all else.
    #[default]
    PlainJson,
    /// The clauses of the Accept header, best first.
    Clauses(Vec<Clause>),
}

impl Negotiated {
    /// Reads the headers and parameters of a request; `cbor` is true if objects are served in CBOR.
    pub fn new(method: &Method, headers: &HeaderMap, query: &Query, cbor: bool) -> Self {
        let accepted = match accepts_plain_json(headers) {
            true => Accepted::PlainJson,
            false => Accepted::Clauses(clauses(headers)),
        };
        let pretty = pretty(headers, query);
        Self {
            document: accepted.choose(pretty, false, |_, view| view == View::Whole),
            accepted,
            pretty,
            patch_type: match *method == Method::PATCH {
                true => content_type::patch_type(headers, cbor),
                false => None,
            },
        }
    }

    /// Returns true if JSON is indented.
    pub(crate) fn is_pretty(&self) -> bool {
        self.pretty
    }

    /// Returns the patch type of the body.
    ///
    /// # Errors
    /// If the content type is not that of a patch (415).
    pub fn patch_type(&self) -> Result<PatchType, ApiError> {
        self.patch_type.ok_or_else(ApiError::unsupported_patch_type)
    }

    /// Returns true if the request is a Server-Side Apply.
    pub fn applies(&self) -> bool {
        self.patch_type.is_some_and(PatchType::applies)
    }

    /// Returns the form of errors: the form of the first clause that requests only a format, because a `Status` is
    /// always returned whole. If there is none, errors are returned nevertheless, as indented JSON.
    pub fn errors(&self) -> Representation {
        self.document.unwrap_or(Representation::INDENTED_JSON)
    }

    /// Returns the form of errors of the pages `/statusz` and `/flagz`, which have no protobuf form: indented JSON if
    /// the client accepts none. `cbor` is true if pages are served in CBOR.
    pub(crate) fn page_errors(&self, cbor: bool) -> Representation {
        let served = |format, view| view == View::Whole && format != Format::Protobuf;
        self.accepted
            .choose(self.pretty, cbor, served)
            .unwrap_or(Representation::INDENTED_JSON)
    }

    /// Returns the form of a response that contains an object, a list or a `Status`. If objects have no protobuf form,
    /// their metadata still do.
    ///
    /// # Errors
    /// If the client accepts none of the supported formats (406).
    pub fn object(&self, forms: Forms) -> Result<Representation, ApiError> {
        let chosen = self
            .accepted
            .choose(self.pretty, forms.cbor, |format, view| match view {
                View::Whole => format != Format::Protobuf || forms.protobuf,
                View::Table(_) => forms.tables,
                View::PartialObject(_) | View::PartialList(_) => true,
            });
        chosen.ok_or_else(|| unacceptable(forms.cbor))
    }

    /// Returns the form of a response that is always returned whole, such as a discovery document.
    ///
    /// # Errors
    /// If the client accepts none of the supported formats (406).
    pub fn document(&self) -> Result<Representation, ApiError> {
        self.document.ok_or_else(|| unacceptable(false))
    }

    /// Returns the form of a document as [`Self::document`] does; `None` if the client accepts none.
    pub(crate) fn document_form(&self) -> Option<Representation> {
        self.document
    }
}

impl Accepted {
    /// Returns the form of the first clause that requests a format and a view that are `served`. JSON is always served.
    fn choose(&self, pretty: bool, cbor: bool, served: impl Fn(Format, View) -> bool) -> Option<Representation> {
        let Self::Clauses(clauses) = self else {
            return Some(Representation {
                pretty,
                ..Representation::default()
            });
        };
        clauses.iter().find_map(|clause| {
            let format = clause.format_of(formats(cbor))?;
            let view = clause.view(format).filter(|view| served(format, *view))?;
            Some(Representation {
                format,
                view,
                pretty: pretty || clause.parameter("pretty") == Some("1"),
                drops_managed_fields: clause.drops(MANAGED_FIELDS),
            })
        })
    }
}

fn unacceptable(cbor: bool) -> ApiError {
    let accepted = named_types(cbor).join(", ");
    ApiError::not_acceptable(format!("only the following media types are accepted: {accepted}"))
}

impl Representation {
    /// Indented JSON, in which errors are returned to clients that accept no form of them.
    pub(crate) const INDENTED_JSON: Self = Self {
        format: Format::Json,
        view: View::Whole,
        pretty: true,
        drops_managed_fields: false,
    };
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
fn pretty(headers: &HeaderMap, query: &Query) -> bool {
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
