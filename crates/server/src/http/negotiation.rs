//! What form the client wants its answer in, and what form its body has.
//!
//! The reference decides twice. First its router refuses a request that accepts none of the route's media types; that
//! looks at bare types only. Then the negotiation proper orders the clauses of the Accept header by quality and takes the
//! first that it can serve, parameters included (`as=Table;v=v1;g=meta.k8s.io`).

use std::borrow::Cow;

use http::header::{self, HeaderMap, HeaderValue};
use smol_str::SmolStr;

use crate::http::ApiError;
use crate::http::headers;
use crate::http::query::Query;

/// How trees are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Format {
    /// `application/json`.
    #[default]
    Json,
    /// `application/yaml`.
    Yaml,
    /// `application/vnd.kubernetes.protobuf`; of the built-in kinds alone.
    Protobuf,
    /// `application/cbor`; of objects alone, and where the server is told to serve it.
    Cbor,
}

impl Format {
    /// The media type, as it stands in Content-Type.
    pub fn content_type(self) -> HeaderValue {
        HeaderValue::from_static(self.media_type())
    }

    /// The media type.
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Json => JSON,
            Self::Yaml => YAML,
            Self::Protobuf => PROTOBUF,
            Self::Cbor => CBOR,
        }
    }
}

/// The field that clients may ask to leave out.
const MANAGED_FIELDS: &str = "metadata.managedFields";

const JSON: &str = "application/json";
const YAML: &str = "application/yaml";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const CBOR: &str = "application/cbor";

/// The formats, in the order in which one is looked for that a clause accepts.
const FORMATS: [Format; 4] = [Format::Json, Format::Yaml, Format::Protobuf, Format::Cbor];

/// The formats of objects, with or without CBOR. Documents have those without.
pub(crate) fn formats(cbor: bool) -> &'static [Format] {
    if cbor { &FORMATS } else { &FORMATS[..3] }
}

/// The media types that messages name, as the reference does.
pub const NAMED_TYPES: [&str; 3] = [JSON, YAML, PROTOBUF];

/// The media types that messages name of what is an object, with or without CBOR.
pub fn named_types(cbor: bool) -> &'static [&'static str] {
    const WITH_CBOR: [&str; 4] = [JSON, YAML, PROTOBUF, CBOR];
    if cbor { &WITH_CBOR } else { &NAMED_TYPES }
}

/// The media types of watches that messages name, with or without CBOR.
pub fn stream_types(cbor: bool) -> &'static [&'static str] {
    if cbor { &STREAM_TYPES } else { &STREAM_TYPES[..2] }
}

const JSON_STREAM: &str = "application/json;stream=watch";
pub(crate) const PROTOBUF_STREAM: &str = "application/vnd.kubernetes.protobuf;stream=watch";
pub(crate) const CBOR_SEQUENCE: &str = "application/cbor-seq";
const STREAM_TYPES: [&str; 3] = [JSON_STREAM, PROTOBUF_STREAM, CBOR_SEQUENCE];

/// The media types that messages of routes name which can be watched, with or without CBOR.
pub fn named_watch_types(cbor: bool) -> &'static [&'static str] {
    const WITHOUT_CBOR: [&str; 5] = [JSON, YAML, PROTOBUF, JSON_STREAM, PROTOBUF_STREAM];
    const WITH_CBOR: [&str; 7] = [JSON, YAML, PROTOBUF, CBOR, JSON_STREAM, PROTOBUF_STREAM, CBOR_SEQUENCE];
    if cbor { &WITH_CBOR } else { &WITHOUT_CBOR }
}

/// The media types that the routes of logs name, with or without CBOR.
pub fn log_types(cbor: bool) -> &'static [&'static str] {
    const WITH_CBOR: [&str; 5] = ["text/plain", JSON, YAML, PROTOBUF, CBOR];
    if cbor { &WITH_CBOR } else { &WITH_CBOR[..4] }
}

/// What is shown of an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum View {
    /// All of it.
    #[default]
    Whole,
    /// A `Table` of `meta.k8s.io` with a row an object.
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
    /// The text of `apiVersion`.
    pub fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "meta.k8s.io/v1",
            Self::V1Beta1 => "meta.k8s.io/v1beta1",
        }
    }
}

/// Which forms the objects of an address have beside JSON and YAML.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forms {
    /// Whether objects have a protobuf form.
    pub protobuf: bool,
    /// Whether they are shown as rows of a table.
    pub tables: bool,
    /// Whether they are served in CBOR.
    pub cbor: bool,
}

/// The form of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Representation {
    /// How it is written.
    pub format: Format,
    /// What is shown of the object.
    pub view: View,
    /// Whether JSON is indented.
    pub pretty: bool,
    /// Whether `metadata.managedFields` is left out of objects (`drop=metadata.managedFields`, KEP-5958).
    pub drops_managed_fields: bool,
}

/// What of a request says in which form errors are told, kept for the case that there is one.
#[derive(Clone, Debug)]
pub struct ErrorForm {
    accept: Option<HeaderValue>,
    agent: Option<HeaderValue>,
    query: Query,
}

impl ErrorForm {
    /// What a request with these headers and parameters says.
    pub fn new(headers: &HeaderMap, query: &Query) -> Self {
        Self {
            accept: headers.get(header::ACCEPT).cloned(),
            agent: headers.get(header::USER_AGENT).cloned(),
            query: query.clone(),
        }
    }

    /// The form.
    pub fn representation(self) -> Representation {
        let stated = [(header::ACCEPT, self.accept), (header::USER_AGENT, self.agent)];
        let stated = stated.into_iter().filter_map(|(name, value)| Some((name, value?)));
        Representation::of_errors(&stated.collect(), &self.query)
    }
}

impl Representation {
    /// The form of errors: that of the first clause that asks for nothing but a format, since a `Status` is
    /// only shown whole. Where there is none, errors are shown nevertheless, as JSON for people.
    pub fn of_errors(headers: &HeaderMap, query: &Query) -> Self {
        let of_bodies = Self::of_document(headers, query);
        of_bodies.unwrap_or(Self {
            pretty: true,
            ..Self::default()
        })
    }

    /// The form of an answer that holds an object, a list or a `Status`. Where objects have no protobuf form, their metadata
    /// still do.
    ///
    /// # Errors
    /// 406 where the client accepts nothing that is served.
    pub fn of_object(headers: &HeaderMap, query: &Query, forms: Forms) -> Result<Self, ApiError> {
        Self::negotiate(headers, query, forms.cbor, |format, view| match view {
            View::Whole => format != Format::Protobuf || forms.protobuf,
            View::Table(_) => forms.tables,
            View::PartialObject(_) | View::PartialList(_) => true,
        })
    }

    /// The form of an answer that can be shown in full only, such as a discovery document.
    ///
    /// # Errors
    /// 406 where the client accepts nothing that is served.
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

/// Refuses a request that accepts none of the bare media types `produced`, as the reference's router does: quality and
/// parameters do not count, and of the wildcards only `*/*` does.
///
/// # Errors
/// 406 that names the types.
pub fn check_acceptable(headers: &HeaderMap, produced: &[&str]) -> Result<(), ApiError> {
    let accept = accept_text(headers);
    if accept.is_empty() {
        return Ok(());
    }
    // Most clients name one type.
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

/// The clauses of the Accept header, best first. Those that name no media type are left out, and only where there is no
/// header at all anything will do.
#[expect(
    clippy::indexing_slicing,
    reason = "the place goes down from one of the clauses, and stops at the first"
)]
pub(crate) fn clauses(headers: &HeaderMap) -> Vec<Clause> {
    let accept = accept_text(headers);
    let text = if accept.is_empty() { "*/*" } else { &accept };
    let mut clauses: Vec<Clause> = text.split(',').take(MAX_CLAUSES).filter_map(Clause::parse).collect();
    // The rule is no order of all clauses, so that how they are sorted counts: one by one into those before it.
    for next in 1..clauses.len() {
        let mut at = next;
        while at > 0 && clauses[at].goes_before(&clauses[at - 1]) {
            clauses.swap(at, at - 1);
            at -= 1;
        }
    }
    clauses
}

/// More clauses than any client sends.
const MAX_CLAUSES: usize = 64;

/// Whether a client accepts JSON before all else, and says nothing more of it.
fn accepts_plain_json(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT).map(HeaderValue::as_bytes);
    accept.is_none_or(|accept| accept.is_empty() || accept == b"*/*" || accept == JSON.as_bytes())
}

fn accept_text(headers: &HeaderMap) -> Cow<'_, str> {
    headers::text(headers, header::ACCEPT).unwrap_or_default()
}

/// A media type with its parameters, as one clause of an Accept header.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Clause {
    family: SmolStr,
    subtype: SmolStr,
    quality: f32,
    parameters: Vec<(SmolStr, SmolStr)>,
}

impl Clause {
    /// Reads a clause, if it is a media type or a wildcard. Parameters that are no pair of a name and a value do not count.
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.trim().split(';');
        let mut names = parts.next().unwrap_or_default().split('/').map(str::trim);
        let (family, subtype) = match (names.next()?, names.next(), names.next()) {
            ("*", None | Some(""), None) => ("*", "*"),
            (_, None | Some(""), None) => return None,
            (family, Some(subtype), None) => (family, subtype),
            _ => return None,
        };
        let mut clause = Self {
            family: SmolStr::new(family),
            subtype: SmolStr::new(subtype),
            quality: 1.0,
            parameters: Vec::new(),
        };
        for part in parts {
            let Some((key, value)) = part.split_once('=').filter(|(_, value)| !value.is_empty()) else {
                continue;
            };
            if value.contains('=') {
                continue;
            }
            match key.trim() {
                "q" => clause.quality = value.parse().unwrap_or_default(),
                key => clause.parameters.push((SmolStr::new(key), SmolStr::new(value.trim()))),
            }
        }
        Some(clause)
    }

    /// Whether it goes before another that stands before it: for more quality, and a type before a wildcard.
    fn goes_before(&self, other: &Self) -> bool {
        self.quality > other.quality
            || self.family != "*" && other.family == "*"
            || self.subtype != "*" && other.subtype == "*"
    }

    /// The value of the parameter `name`.
    pub(crate) fn parameter(&self, name: &str) -> Option<&str> {
        let found = self.parameters.iter().rev().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Whether it asks to leave out a field of objects. Several are joined by `+`; unknown fields stay.
    fn drops(&self, field: &str) -> bool {
        let dropped = self.parameter("drop").unwrap_or_default();
        dropped.split('+').any(|dropped| dropped == field)
    }

    /// Whether it accepts a media type, by name or by wildcards in place of either part.
    pub(crate) fn accepts(&self, media_type: &str) -> bool {
        media_type.split_once('/').is_some_and(|(family, subtype)| {
            [(&self.family, family), (&self.subtype, subtype)]
                .iter()
                .all(|(wanted, served)| *wanted == "*" || wanted == served)
        })
    }

    /// The format of documents that this clause accepts, if it is one that is served.
    pub(crate) fn format(&self) -> Option<Format> {
        self.format_of(formats(false))
    }

    /// The first of `formats` that this clause accepts. A part that is a wildcard is so alone, or last.
    fn format_of(&self, formats: &[Format]) -> Option<Format> {
        let wild_before_a_name = self.family == "*" && self.subtype != "*";
        let mut accepted = formats
            .iter()
            .copied()
            .filter(|format| self.accepts(format.media_type()));
        accepted.next().filter(|_| !wild_before_a_name)
    }

    /// Whether the clause requests a stream, or a version of the server, that does not exist.
    fn asks_too_much(&self, format: Format) -> bool {
        let stream = self.parameter("stream").unwrap_or_default();
        let streamed = stream.is_empty() || stream == "watch" && format != Format::Yaml;
        !streamed || self.parameter("sv").is_some_and(|version| !version.is_empty())
    }

    /// The view that the clause requests; `None` if there is no such view.
    fn view(&self, format: Format) -> Option<View> {
        if self.asks_too_much(format) {
            return None;
        }
        let [kind, group, version] = ["as", "g", "v"].map(|name| self.parameter(name));
        if kind.is_none() && group.is_none() && version.is_none() {
            return Some(View::Whole);
        }
        let version = match (group, version) {
            (Some("meta.k8s.io"), Some("v1")) => MetaVersion::V1,
            (Some("meta.k8s.io"), Some("v1beta1")) => MetaVersion::V1Beta1,
            _ => return None,
        };
        match kind? {
            "Table" if matches!(format, Format::Json | Format::Yaml) => Some(View::Table(version)),
            "PartialObjectMetadata" => Some(View::PartialObject(version)),
            "PartialObjectMetadataList" => Some(View::PartialList(version)),
            _ => None,
        }
    }
}

/// Whether JSON is to be indented: as `pretty` says, and for people's tools where it says nothing.
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

/// The content type of a body, without its parameters. Objects are read as JSON where there is none; `cbor` says whether they
/// are read in CBOR.
///
/// # Errors
/// 415 where it is none that objects are read in.
pub fn body_format(headers: &HeaderMap, cbor: bool) -> Result<Format, ApiError> {
    let bare = content_type(headers).filter(|_| has_parameters_to_read(headers));
    let stated = headers.get(header::CONTENT_TYPE).is_some_and(|value| !value.is_empty());
    let bare = bare.as_deref().unwrap_or(if stated { "" } else { JSON });
    // The names of media types are read in any case here, while the router's check of patches is exact.
    let mut read = formats(cbor).iter().copied();
    let found = read.find(|format| bare.eq_ignore_ascii_case(format.media_type()));
    found.ok_or_else(|| ApiError::unsupported_body_type(named_types(cbor)))
}

/// The types of patches, by the content type of their bodies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchType {
    /// `application/json-patch+json` (RFC 6902).
    Json,
    /// `application/merge-patch+json` (RFC 7396).
    Merge,
    /// `application/strategic-merge-patch+json`.
    Strategic,
    /// `application/apply-patch+yaml`: Server-Side Apply.
    Apply,
    /// `application/apply-patch+cbor`: Server-Side Apply, in CBOR.
    ApplyCbor,
}

impl PatchType {
    /// Whether it is Server-Side Apply.
    pub fn applies(self) -> bool {
        matches!(self, Self::Apply | Self::ApplyCbor)
    }
}

/// The content types of patches, in the order in which messages name them.
pub const PATCH_TYPES: [(&str, PatchType); 5] = [
    ("application/json-patch+json", PatchType::Json),
    ("application/merge-patch+json", PatchType::Merge),
    ("application/strategic-merge-patch+json", PatchType::Strategic),
    ("application/apply-patch+yaml", PatchType::Apply),
    ("application/apply-patch+cbor", PatchType::ApplyCbor),
];

/// The type of the patch that a body is; `cbor` says whether CBOR is read.
///
/// # Errors
/// 415 where its content type is that of none.
pub fn patch_type(headers: &HeaderMap, cbor: bool) -> Result<PatchType, ApiError> {
    let bare = content_type(headers).unwrap_or_default();
    let found = PATCH_TYPES.iter().find(|(name, _)| *name == bare);
    found
        .map(|(_, patch_type)| *patch_type)
        .filter(|patch_type| cbor || *patch_type != PatchType::ApplyCbor)
        .ok_or_else(ApiError::unsupported_patch_type)
}

/// The bare content type of a body, if one is stated.
fn content_type(headers: &HeaderMap) -> Option<Cow<'_, str>> {
    let text = headers::text(headers, header::CONTENT_TYPE).filter(|text| !text.is_empty())?;
    let bare = |text: &str| text.split(';').next().map_or(0, str::len);
    Some(match text {
        Cow::Borrowed(text) => Cow::Borrowed(text[..bare(text)].trim()),
        Cow::Owned(text) => Cow::Owned(text[..bare(&text)].trim().to_owned()),
    })
}

/// Whether what stands behind the media type in Content-Type reads as parameters do: each a name and a value. Where it does
/// not, whoever reads the whole of it knows no format.
fn has_parameters_to_read(headers: &HeaderMap) -> bool {
    let text = headers::text(headers, header::CONTENT_TYPE).unwrap_or_default();
    let mut parameters = text.split(';').skip(1).map(str::trim).peekable();
    while let Some(parameter) = parameters.next() {
        let last = parameters.peek().is_none();
        let named = parameter
            .split_once('=')
            .is_some_and(|(name, value)| !name.is_empty() && !value.is_empty() && name.bytes().all(is_token_byte));
        if !(named || last && parameter.is_empty()) {
            return false;
        }
    }
    true
}

/// Whether a byte may stand in the name of a parameter (RFC 9110).
fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Forms = Forms {
        cbor: false,
        protobuf: true,
        tables: true,
    };

    #[test]
    fn what_has_no_rows_is_shown_as_no_table() {
        const TABLE: &str = "application/json;as=Table;g=meta.k8s.io;v=v1";
        let form = |accept: &str| {
            let forms = Forms { tables: false, ..ALL };
            Representation::of_object(&headers(accept), &Query::default(), forms)
        };
        assert_eq!(form(TABLE).unwrap_err().code(), 406);
        assert_eq!(form(&format!("{TABLE},application/json")).unwrap().view, View::Whole);
    }

    fn headers(accept: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, HeaderValue::from_str(accept).unwrap());
        headers
    }

    fn object(accept: &str) -> Option<(Format, View)> {
        let form = Representation::of_object(&headers(accept), &Query::default(), ALL).ok()?;
        Some((form.format, form.view))
    }

    #[test]
    fn the_first_clause_that_can_be_served_wins() {
        const TABLE: &str = "application/json;as=Table;g=meta.k8s.io;v=v1";
        let table = Some((Format::Json, View::Table(MetaVersion::V1)));
        let whole = Some((Format::Json, View::Whole));
        let cases = [
            ("", whole),
            ("*/*", whole),
            ("application/yaml", Some((Format::Yaml, View::Whole))),
            (TABLE, table),
            ("application/json;as=Table;v=v1;g=meta.k8s.io, application/json", table),
            ("application/json;as=Gadget;g=meta.k8s.io;v=v1, application/json", whole),
            ("application/json;as=Gadget;g=meta.k8s.io;v=v1", None),
            ("application/json;as=Table;g=meta.k8s.io;v=v9", None),
            ("application/json;as=Table;g=example.org;v=v1", None),
            ("application/json;q=0.1, text/html;q=0.9", whole),
            (
                "application/json;q=0.1, application/yaml",
                Some((Format::Yaml, View::Whole)),
            ),
            ("*/*, application/yaml", Some((Format::Yaml, View::Whole))),
            (
                "application/vnd.kubernetes.protobuf,application/json",
                Some((Format::Protobuf, View::Whole)),
            ),
            (
                "application/vnd.kubernetes.protobuf;as=Table;g=meta.k8s.io;v=v1,application/json",
                whole,
            ),
            (
                "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1beta1",
                Some((Format::Json, View::PartialObject(MetaVersion::V1Beta1))),
            ),
        ];
        for (accept, expected) in cases {
            assert_eq!(object(accept), expected, "{accept}");
        }
    }

    #[test]
    fn a_clause_is_read_as_far_as_it_is_one() {
        let whole = Some((Format::Json, View::Whole));
        let cases = [
            ("application/json;as", whole),
            ("application/json;as=", whole),
            ("application/json;as=a=b", whole),
            (",,application/json", whole),
            (
                "application/json;q=many, application/yaml",
                Some((Format::Yaml, View::Whole)),
            ),
            // A wildcard that stands behind a type goes before it for its quality, one that stands before it does not.
            ("application/yaml;q=0.1, */*;q=0.9", whole),
            ("*/*;q=0.9, application/yaml;q=0.1", Some((Format::Yaml, View::Whole))),
            ("*", whole),
            ("*/json", None),
            ("json", None),
            (";", None),
            ("a/b/c", None),
            ("application/json;stream=watch", whole),
            ("application/yaml;stream=watch", None),
            ("application/json;stream=other", None),
            ("application/json;sv=v1", None),
        ];
        for (accept, expected) in cases {
            assert_eq!(object(accept), expected, "{accept}");
        }
        let form = Representation::of_object(&headers("application/json;pretty=1"), &Query::default(), ALL).unwrap();
        assert!(form.pretty);
    }

    #[test]
    fn errors_take_the_form_of_a_clause_that_asks_for_a_format_alone() {
        const TABLE: &str = ";as=Table;g=meta.k8s.io;v=v1";
        let form = |accept: &str| {
            let form = Representation::of_errors(&headers(accept), &Query::default());
            (form.format, form.pretty)
        };
        for accept in ["application/yaml", &format!("application/json{TABLE},application/yaml")] {
            assert_eq!(form(accept), (Format::Yaml, false), "{accept}");
        }
        for accept in [&format!("application/yaml{TABLE}"), "text/html"] {
            assert_eq!(form(accept), (Format::Json, true), "{accept}");
        }
    }

    #[test]
    fn a_content_type_whose_parameters_cannot_be_read_is_that_of_no_format() {
        let format = |text: &str| {
            let value = HeaderValue::from_str(text).unwrap();
            body_format(&HeaderMap::from_iter([(header::CONTENT_TYPE, value)]), false).ok()
        };
        for text in [
            "application/json",
            "application/json;",
            "application/json; charset=latin1",
            "",
        ] {
            assert_eq!(format(text), Some(Format::Json), "{text}");
        }
        for text in [
            "application/json; foo",
            "application/json; a=",
            "application/json;;a=b",
            ";a=b",
        ] {
            assert_eq!(format(text), None, "{text}");
        }
    }

    #[test]
    fn what_has_no_protobuf_form_falls_back_to_the_next_choice() {
        let form = |accept: &str| {
            Representation::of_object(&headers(accept), &Query::default(), Forms { protobuf: false, ..ALL })
        };
        let format = |accept: &str| form(accept).map(|form| form.format).ok();
        assert_eq!(format("application/vnd.kubernetes.protobuf"), None);
        assert_eq!(
            format("application/vnd.kubernetes.protobuf, application/json"),
            Some(Format::Json)
        );
        let metadata = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
        assert_eq!(format(metadata), Some(Format::Protobuf));
        let document = Representation::of_document(&headers(metadata), &Query::default());
        assert!(document.is_err(), "a document can only be shown whole");
    }

    #[test]
    fn managed_fields_are_dropped_where_the_clause_that_is_served_says_so() {
        for (accept, drops) in [
            ("application/json", false),
            ("application/json;drop=metadata.managedFields", true),
            ("application/json; drop=metadata.managedFields", true),
            (
                "application/json;drop=metadata.annotations+metadata.managedFields",
                true,
            ),
            ("application/json;drop=metadata.annotations", false),
            ("application/json;drop=", false),
            (
                "application/yaml;drop=metadata.managedFields;q=0.5, application/json",
                false,
            ),
            (
                "application/json;as=Table;g=meta.k8s.io;v=v1;drop=metadata.managedFields",
                true,
            ),
        ] {
            let form = Representation::of_object(&headers(accept), &Query::default(), ALL).unwrap();
            assert_eq!(form.drops_managed_fields, drops, "{accept}");
        }
    }

    #[test]
    fn the_router_knows_bare_types_alone() {
        let cases = [
            ("text/html", false),
            ("application/*", false),
            ("text/html, application/json", true),
            ("application/json;q=0.1", true),
            ("*/*;q=0.1", true),
            ("", true),
        ];
        for (accept, acceptable) in cases {
            assert_eq!(
                check_acceptable(&headers(accept), &NAMED_TYPES).is_ok(),
                acceptable,
                "{accept}"
            );
        }
        let error = check_acceptable(&headers("text/html"), &NAMED_TYPES).unwrap_err();
        assert_eq!(
            error.to_string(),
            "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, application/vnd.kubernetes.protobuf"
        );
    }

    #[test]
    fn patch_types_are_exact_but_for_parameters() {
        let of = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_str(text).unwrap());
            patch_type(&headers, false).ok()
        };
        assert_eq!(
            of("application/apply-patch+yaml; charset=utf-8"),
            Some(PatchType::Apply)
        );
        assert_eq!(of("Application/Apply-Patch+YAML"), None);
        assert_eq!(of("application/json"), None);
        assert!(patch_type(&HeaderMap::new(), false).is_err());
    }

    #[test]
    fn headers_that_are_no_text_are_not_those_that_are_missing() {
        let of = |name: header::HeaderName, bytes: &[u8]| {
            HeaderMap::from_iter([(name, HeaderValue::from_bytes(bytes).unwrap())])
        };
        let accept = of(header::ACCEPT, b"application/json\xff");
        assert!(check_acceptable(&accept, &NAMED_TYPES).is_err());
        assert!(Representation::of_object(&accept, &Query::default(), ALL).is_err());
        for bytes in [&b"application/\xff"[..], b";charset=utf-8", b"application/jso\xc3\xb1"] {
            let body = of(header::CONTENT_TYPE, bytes);
            assert_eq!(body_format(&body, false).unwrap_err().code().as_u16(), 415);
            assert_eq!(patch_type(&body, false).unwrap_err().code().as_u16(), 415);
        }
        let parameters = of(header::CONTENT_TYPE, b"application/yaml; by=jos\xc3\xa9");
        assert_eq!(body_format(&parameters, false).ok(), Some(Format::Yaml));
    }

    #[test]
    fn pretty_follows_the_parameter_before_the_agent() {
        let mut headers = HeaderMap::new();
        headers.insert(header::USER_AGENT, HeaderValue::from_static("curl/8.1"));
        assert!(pretty(&headers, &Query::default()));
        assert!(!pretty(&headers, &Query::parse("pretty=false")));
        assert!(pretty(&HeaderMap::new(), &Query::parse("pretty=1")));
        assert!(!pretty(&HeaderMap::new(), &Query::parse("pretty=yes")));
    }

    #[test]
    fn cbor_is_there_where_it_is_served() {
        let negotiated = |accept, cbor| {
            let forms = Forms { cbor, ..ALL };
            let form = Representation::of_object(&headers(accept), &Query::default(), forms).ok()?;
            Some((form.format, form.view))
        };
        assert_eq!(negotiated("application/cbor", true), Some((Format::Cbor, View::Whole)));
        assert_eq!(negotiated("application/cbor", false), None);
        assert_eq!(
            negotiated("application/cbor, */*", false),
            Some((Format::Json, View::Whole))
        );
        assert_eq!(negotiated("application/*", true), Some((Format::Json, View::Whole)));
        let table = "application/cbor;as=Table;v=v1;g=meta.k8s.io";
        assert_eq!(negotiated(table, true), None);
        let metadata = "application/cbor;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
        let partial = View::PartialObject(MetaVersion::V1);
        assert_eq!(negotiated(metadata, true), Some((Format::Cbor, partial)));
        let body = |media_type: &'static str| {
            HeaderMap::from_iter([(header::CONTENT_TYPE, HeaderValue::from_static(media_type))])
        };
        for (cbor, read) in [(true, Some(Format::Cbor)), (false, None)] {
            assert_eq!(body_format(&body("application/cbor"), cbor).ok(), read);
            let applies = patch_type(&body("application/apply-patch+cbor"), cbor).is_ok_and(PatchType::applies);
            assert_eq!(applies, cbor);
        }
        let document = Representation::of_document(&headers("application/cbor"), &Query::default());
        assert!(document.is_err());
    }
}
