//! `/statusz`: what runs here and since when, as text for people or as an object of `config.k8s.io`
//! (<https://kubernetes.io/docs/reference/instrumentation/zpages/>).

use std::collections::BTreeSet;
use std::time::SystemTime;

use bytes::Bytes;
use holdfast_proto::Messages;
use holdfast_writes::metadata::rfc3339;
use http::StatusCode;
use http::header::{HeaderMap, HeaderValue};
use serde::Serialize;

use crate::http::ApiError;
use crate::http::negotiation::{self, Clause, Format, Representation};
use crate::http::query::Query;
use crate::http::response::{self, Response};
use crate::runtime::version::{KUBERNETES, VersionInfo};

/// What the reference calls itself here.
const COMPONENT: &str = "apiserver";

const GROUP: &str = "config.k8s.io";

/// The media types, in the order in which the reference looks for one that a clause accepts.
static TYPES: [(&str, Option<Format>); 3] = [
    ("application/json", Some(Format::Json)),
    ("application/yaml", Some(Format::Yaml)),
    ("text/plain", None),
];

/// First parts of paths that help nobody to find out what is wrong.
const OF_CLIENTS: [&str; 5] = ["apis", "api", "openid", "openapi", ".well-known"];

/// What the page tells.
pub(super) struct Statusz<'a> {
    pub(super) started: SystemTime,
    pub(super) now: SystemTime,
    pub(super) version: &'a VersionInfo,
    /// All paths of the server.
    pub(super) paths: Vec<String>,
}

/// The form of an answer.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    Text,
    Object(Format, &'static str),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Document<'a> {
    kind: &'static str,
    api_version: String,
    metadata: Name,
    start_time: String,
    uptime_seconds: u64,
    go_version: &'a str,
    binary_version: &'static str,
    emulation_version: &'static str,
    paths: Vec<String>,
}

#[derive(Serialize)]
struct Name {
    name: &'static str,
}

impl Statusz<'_> {
    /// The answer to a request of any method.
    ///
    /// # Errors
    /// 406 where the client accepts none of the forms.
    pub(super) fn respond(self, messages: &Messages, headers: &HeaderMap, query: &Query) -> Result<Response, ApiError> {
        let (format, version) = match form(headers)? {
            Form::Text => {
                let text = Bytes::from(self.text());
                return Ok(response::bytes(StatusCode::OK, response::PLAIN_TEXT, text));
            }
            Form::Object(format, version) => (format, version),
        };
        let representation = Representation {
            format,
            pretty: Representation::of_errors(headers, query).pretty,
            ..Representation::default()
        };
        let body = response::document_bytes(messages, &representation, &self.document(version))?;
        let media_type = format!("{};g={GROUP};v={version};as=Statusz", format.media_type());
        let media_type = HeaderValue::try_from(media_type).map_err(|error| ApiError::internal(error.to_string()))?;
        let mut answer = response::bytes(StatusCode::OK, media_type, body);
        if version == "v1alpha1" {
            let why = "This version of the statusz endpoint is deprecated. Please use a newer version.";
            response::add_warnings(answer.headers_mut(), &[why.to_owned()]);
        }
        Ok(answer)
    }

    fn document(&self, version: &str) -> Document<'_> {
        Document {
            kind: "Statusz",
            api_version: format!("{GROUP}/{version}"),
            metadata: Name { name: COMPONENT },
            start_time: rfc3339(self.started).to_string(),
            uptime_seconds: self.seconds(),
            go_version: self.version.go_version(),
            binary_version: KUBERNETES,
            emulation_version: emulated(),
            paths: self.folders(),
        }
    }

    fn text(&self) -> String {
        let up = self.seconds();
        format!(
            "\n{COMPONENT} statusz\nWarning: This endpoint is not meant to be machine parseable, has no formatting \
             compatibility guarantees and is for debugging purposes only.\n\nStarted: {}\nUp: {} hr {:02} min {:02} sec\nGo \
             version: {}\nBinary version: {KUBERNETES}\nEmulation version: {}\nPaths: {}\n",
            unix_date(self.started),
            up / 3600,
            up / 60 % 60,
            up % 60,
            self.version.go_version(),
            emulated(),
            self.folders().join(" ")
        )
    }

    fn seconds(&self) -> u64 {
        let up = self.now.duration_since(self.started);
        up.unwrap_or_default().as_secs()
    }

    /// The first parts of the paths, each once, in the order of the alphabet.
    fn folders(&self) -> Vec<String> {
        let first = |path: &String| path.split('/').nth(1).map(str::to_owned);
        let first: BTreeSet<String> = self.paths.iter().filter_map(first).collect();
        let told = first
            .iter()
            .filter(|part| !part.is_empty() && !OF_CLIENTS.contains(&part.as_str()));
        told.map(|part| format!("/{part}")).collect()
    }
}

/// The minor release: `1.36` of `1.36.2`.
fn emulated() -> &'static str {
    KUBERNETES.rsplit_once('.').map_or(KUBERNETES, |(minor, _)| minor)
}

/// The form that the client accepts: text where it says nothing.
fn form(headers: &HeaderMap) -> Result<Form, ApiError> {
    let accepted = negotiation::clauses(headers);
    let mut forms = accepted.iter().flat_map(|clause| {
        let accepted = TYPES.iter().filter(move |(media_type, _)| clause.accepts(media_type));
        accepted.filter_map(move |(_, format)| form_of(clause, *format))
    });
    forms.next().ok_or_else(|| {
        let types: Vec<&str> = TYPES.iter().map(|(media_type, _)| *media_type).collect();
        let types = types.join(", ");
        ApiError::not_acceptable(format!("only the following media types are accepted: {types}"))
    })
}

/// The form for a clause that accepts a media type: text has no object, and the others have nothing else.
fn form_of(clause: &Clause, format: Option<Format>) -> Option<Form> {
    let asked = |name: &str| clause.parameter(name).unwrap_or_default();
    if !asked("stream").is_empty() || !asked("sv").is_empty() {
        return None;
    }
    let kind = ["as", "g", "v"].map(|name| clause.parameter(name));
    match (format, kind) {
        (None, [None, None, None]) => Some(Form::Text),
        (Some(format), [Some("Statusz"), Some(GROUP), Some("v1beta1")]) => Some(Form::Object(format, "v1beta1")),
        (Some(format), [Some("Statusz"), Some(GROUP), Some("v1alpha1")]) => Some(Form::Object(format, "v1alpha1")),
        _ => None,
    }
}

/// A time as `date` prints it: `Sun Nov  6 08:49:37 UTC 1994`.
fn unix_date(time: SystemTime) -> String {
    let text = httpdate::fmt_http_date(time);
    let parts: Vec<&str> = text.split([' ', ',']).filter(|part| !part.is_empty()).collect();
    match parts.as_slice() {
        [weekday, day, month, year, clock, _] => {
            let day = day.trim_start_matches('0');
            format!("{weekday} {month} {day:>2} {clock} UTC {year}")
        }
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::header::ACCEPT;

    use super::*;
    use crate::runtime::version::Build;

    fn accepting(text: &'static str) -> Result<Form, ()> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static(text));
        form(&headers).map_err(|_| ())
    }

    #[test]
    fn objects_are_asked_for_by_their_kind_and_text_by_nothing() {
        assert_eq!(form(&HeaderMap::new()).ok(), Some(Form::Text));
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
            "text/html",
        ] {
            assert!(accepting(refused).is_err(), "{refused}");
        }
    }

    #[test]
    fn the_text_says_how_long_the_server_is_up() {
        let started = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        let version = VersionInfo::of(&Build::default());
        let page = Statusz {
            started,
            now: started + Duration::from_secs(3661),
            version: &version,
            paths: ["/livez/ping", "/apis/apps", "/metrics", "/livez", "/"]
                .map(str::to_owned)
                .to_vec(),
        };
        let text = page.text();
        assert!(
            text.contains("\nStarted: Sun Nov  6 08:49:37 UTC 1994\nUp: 1 hr 01 min 01 sec\n"),
            "{text}"
        );
        assert!(text.ends_with("\nPaths: /livez /metrics\n"), "{text}");
    }
}
