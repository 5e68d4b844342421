//! What the pages `/statusz` and `/flagz` have in common: they are text for people, or objects of `config.k8s.io`
//! (<https://kubernetes.io/docs/reference/instrumentation/zpages/>).

use bytes::Bytes;
use holdfast_proto::Messages;
use http::StatusCode;
use http::header::{HeaderMap, HeaderValue};
use serde::Serialize;

use crate::http::ApiError;
use crate::http::negotiation::{self, Clause, Format, Representation};
use crate::http::query::Query;
use crate::http::response::{self, Response};

/// What the reference calls itself here.
const COMPONENT: &str = "apiserver";

const GROUP: &str = "config.k8s.io";

/// The media types, in the order in which the reference looks for one that a clause accepts.
static TYPES: [(&str, Option<Format>); 3] = [
    ("application/json", Some(Format::Json)),
    ("application/yaml", Some(Format::Yaml)),
    ("text/plain", None),
];

/// A page.
pub(super) trait Page {
    /// Its kind, such as `Statusz`. The page itself is called so in small letters.
    const KIND: &'static str;

    /// What an object of the kind holds besides kind, version and name.
    fn content(&self) -> impl Serialize;

    /// The content as text, behind the warning that all pages begin with.
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

/// The answer to a request of any method.
///
/// # Errors
/// 406 where the client accepts none of the forms.
pub(super) fn respond<P: Page>(
    page: &P,
    messages: &Messages,
    headers: &HeaderMap,
    query: &Query,
) -> Result<Response, ApiError> {
    let (format, version) = match form(headers, P::KIND)? {
        Form::Text => {
            let text = Bytes::from(whole_text(page));
            return Ok(response::bytes(StatusCode::OK, response::PLAIN_TEXT, text));
        }
        Form::Object(format, version) => (format, version),
    };
    let representation = Representation {
        format,
        pretty: Representation::of_errors(headers, query).pretty,
        ..Representation::default()
    };
    let document = Document {
        kind: P::KIND,
        api_version: format!("{GROUP}/{version}"),
        metadata: Name { name: COMPONENT },
        content: page.content(),
    };
    let body = response::document_bytes(messages, &representation, &document)?;
    let media_type = format!("{};g={GROUP};v={version};as={}", format.media_type(), P::KIND);
    let media_type = HeaderValue::try_from(media_type).map_err(|error| ApiError::internal(error.to_string()))?;
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

/// The form that the client accepts: text where it says nothing.
fn form(headers: &HeaderMap, kind: &str) -> Result<Form, ApiError> {
    let accepted = negotiation::clauses(headers);
    let mut forms = accepted.iter().flat_map(|clause| {
        let accepted = TYPES.iter().filter(move |(media_type, _)| clause.accepts(media_type));
        accepted.filter_map(move |(_, format)| form_of(clause, *format, kind))
    });
    forms.next().ok_or_else(|| {
        let types: Vec<&str> = TYPES.iter().map(|(media_type, _)| *media_type).collect();
        let types = types.join(", ");
        ApiError::not_acceptable(format!("only the following media types are accepted: {types}"))
    })
}

/// The form for a clause that accepts a media type: text has no object, and the others have nothing else.
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
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static(text));
        form(&headers, "Statusz").map_err(|_| ())
    }

    #[test]
    fn objects_are_requested_by_their_kind_and_text_by_nothing() {
        assert_eq!(form(&HeaderMap::new(), "Flagz").ok(), Some(Form::Text));
        assert_eq!(accepting("*/*").ok(), Some(Form::Text));
        assert_eq!(
            accepting("application/json;as=Statusz;g=config.k8s.io;v=v1beta1").ok(),
            Some(Form::Object(Format::Json, "v1beta1"))
        );
        assert_eq!(
            accepting("application/yaml;v=v1alpha1;g=config.k8s.io;as=Statusz").ok(),
            Some(Form::Object(Format::Yaml, "v1alpha1"))
        );
        for refused in [
            "application/json",
            "text/plain;as=Statusz;g=config.k8s.io;v=v1beta1",
            "application/json;as=Flagz;g=config.k8s.io;v=v1beta1",
            "application/json;as=Statusz;g=config.k8s.io;v=v1",
            "text/html",
        ] {
            assert!(accepting(refused).is_err(), "{refused}");
        }
    }
}
