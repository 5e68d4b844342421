//! The common part of the pages `/statusz` and `/flagz`: they are text for people, or objects of `config.k8s.io`
//! (<https://kubernetes.io/docs/reference/instrumentation/zpages/>).

use bytes::Bytes;
use holdfast_proto::Messages;
use http::StatusCode;
use http::header::{HeaderMap, HeaderValue};
use serde::Serialize;

use crate::http::ApiError;
use crate::http::negotiation::{self, Clause, Format, Negotiated, Representation};
use crate::http::response::{self, Response};

/// The name of the reference's component on these pages.
const COMPONENT: &str = "apiserver";

const GROUP: &str = "config.k8s.io";

/// The media types in the order in which the reference matches them with a clause. Text has no format.
static TYPES: [(&str, Option<Format>); 4] = [
    ("application/json", Some(Format::Json)),
    ("application/yaml", Some(Format::Yaml)),
    ("text/plain", None),
    ("application/cbor", Some(Format::Cbor)),
];

/// Returns the media types that are served; CBOR only if its feature gate is on.
fn media_types(cbor: bool) -> impl Iterator<Item = (&'static str, Option<Format>)> + Clone {
    let served = move |(_, format): &(&str, Option<Format>)| cbor || *format != Some(Format::Cbor);
    TYPES.iter().copied().filter(served)
}

/// A page about the server.
pub(super) trait Page {
    /// The kind of the page, such as `Statusz`. Its path is the kind in lowercase letters.
    const KIND: &'static str;

    /// Returns the content of the object, except its kind, version and name.
    fn content(&self) -> impl Serialize;

    /// Returns the content as text, which follows the warning at the start of all pages.
    fn text(&self) -> String;
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Document<C> {
    kind: &'static str,
    api_version: String,
    metadata: Name,
    #[serde(flatten)]
    content: C,
}

#[derive(Serialize)]
struct Name {
    name: &'static str,
}

/// The form of an answer.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    Text,
    Object(Format, &'static str),
}

/// A request for a page, of any method.
pub(super) struct PageRequest<'a> {
    pub(super) messages: &'a Messages,
    pub(super) headers: &'a HeaderMap,
    pub(super) negotiated: &'a Negotiated,
    /// True if CBOR is served.
    pub(super) cbor: bool,
}

/// Answers a request for a page, with 406 if the client accepts none of its forms.
///
/// # Errors
/// 500 if the page has no JSON form.
pub(super) fn respond<P: Page>(page: &P, request: &PageRequest<'_>) -> Result<Response, ApiError> {
    let &PageRequest {
        messages,
        headers,
        negotiated,
        cbor,
    } = request;
    let (format, version) = match form(headers, P::KIND, cbor) {
        Ok(Form::Text) => {
            let text = Bytes::from(whole_text(page));
            return Ok(response::bytes(StatusCode::OK, response::PLAIN_TEXT, text));
        }
        Ok(Form::Object(format, version)) => (format, version),
        Err(error) => {
            let representation = negotiated.page_errors(cbor);
            return Ok(response::error(messages, &error, &representation));
        }
    };
    let representation = Representation {
        format,
        pretty: negotiated.is_pretty(),
        ..Representation::default()
    };
    let document = Document {
        kind: P::KIND,
        api_version: format!("{GROUP}/{version}"),
        metadata: Name { name: COMPONENT },
        content: page.content(),
    };
    let body = response::document_bytes(messages, &representation, &document)?;
    let content_type = format!("{};g={GROUP};v={version};as={}", format.media_type(), P::KIND);
    let media_type = HeaderValue::try_from(content_type).map_err(|error| ApiError::internal(error.to_string()))?;
    let mut answer = response::bytes(StatusCode::OK, media_type, body);
    if version == "v1alpha1" {
        let name = P::KIND.to_lowercase();
        let why = format!("This version of the {name} endpoint is deprecated. Please use a newer version.");
        response::add_warnings(answer.headers_mut(), &[why]);
    }
    Ok(answer)
}

fn whole_text<P: Page>(page: &P) -> String {
    format!(
        "\n{COMPONENT} {}\nWarning: This endpoint is not meant to be machine parseable, has no formatting compatibility \
         guarantees and is for debugging purposes only.\n{}",
        P::KIND.to_lowercase(),
        page.text()
    )
}

/// Returns the form that the client accepts: text if it sends no `Accept`.
fn form(headers: &HeaderMap, kind: &str, cbor: bool) -> Result<Form, ApiError> {
    let accepted = negotiation::clauses(headers);
    let mut forms = accepted.iter().flat_map(|clause| {
        let accepted = media_types(cbor).filter(move |(media_type, _)| clause.accepts(media_type));
        accepted.filter_map(move |(_, format)| form_of(clause, format, kind))
    });
    forms.next().ok_or_else(|| {
        let names: Vec<&str> = media_types(cbor).map(|(media_type, _)| media_type).collect();
        let types = names.join(", ");
        ApiError::not_acceptable(format!("only the following media types are accepted: {types}"))
    })
}

/// Returns the form for a clause that accepts a media type: text has no object form, and the other types have only
/// that.
fn form_of(clause: &Clause, format: Option<Format>, kind: &str) -> Option<Form> {
    let parameter = |name: &str| clause.parameter(name).unwrap_or_default();
    if !parameter("stream").is_empty() || !parameter("sv").is_empty() {
        return None;
    }
    let wanted = ["as", "g", "v"].map(|name| clause.parameter(name));
    match (format, wanted) {
        (None, [None, None, None]) => Some(Form::Text),
        (Some(format), [Some(of), Some(GROUP), Some(version)]) if of == kind => ["v1beta1", "v1alpha1"]
            .into_iter()
            .find(|known| *known == version)
            .map(|known| Form::Object(format, known)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use http::header::ACCEPT;

    use super::*;

    fn accepting(text: &'static str) -> Result<Form, ()> {
        accepting_with(text, false)
    }

    fn accepting_with(text: &'static str, cbor: bool) -> Result<Form, ()> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static(text));
        form(&headers, "Statusz", cbor).map_err(|_| ())
    }

    #[test]
    fn objects_are_requested_by_their_kind_and_text_by_nothing() {
        assert_eq!(form(&HeaderMap::new(), "Flagz", false).ok(), Some(Form::Text));
        assert_eq!(accepting("*/*").ok(), Some(Form::Text));
        assert_eq!(
            accepting("application/json;as=Statusz;g=config.k8s.io;v=v1beta1").ok(),
            Some(Form::Object(Format::Json, "v1beta1"))
        );
        assert_eq!(
            accepting("application/yaml;v=v1alpha1;g=config.k8s.io;as=Statusz").ok(),
            Some(Form::Object(Format::Yaml, "v1alpha1"))
        );
        for rejected in [
            "application/json",
            "text/plain;as=Statusz;g=config.k8s.io;v=v1beta1",
            "application/json;as=Flagz;g=config.k8s.io;v=v1beta1",
            "application/json;as=Statusz;g=config.k8s.io;v=v1",
            "text/html",
        ] {
            assert!(accepting(rejected).is_err(), "{rejected}");
        }
    }

    #[test]
    fn cbor_is_served_with_its_gate() {
        let accept = "application/cbor;as=Statusz;g=config.k8s.io;v=v1beta1";
        assert_eq!(accepting_with(accept, true), Ok(Form::Object(Format::Cbor, "v1beta1")));
        assert_eq!(accepting_with(accept, false), Err(()));
        assert_eq!(accepting_with("application/cbor", true), Err(()));
        assert_eq!(accepting_with("*/*", true), Ok(Form::Text));
        let message = |cbor| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, HeaderValue::from_static("text/html"));
            form(&headers, "Flagz", cbor).unwrap_err().to_string()
        };
        assert!(message(false).ends_with("application/json, application/yaml, text/plain"));
        assert!(message(true).ends_with("application/json, application/yaml, text/plain, application/cbor"));
    }
}
