//! The Accept header: its clauses and their parameters.

use std::borrow::Cow;

use http::header::{self, HeaderMap, HeaderValue};
use smol_str::SmolStr;

use super::formats::{Format, JSON, formats};
use super::{MetaVersion, View};
use crate::http::headers;

/// Returns the clauses of the Accept header, best first. Clauses without a media type are left out. Any type is
/// accepted only if there is no header at all.
#[expect(
    clippy::indexing_slicing,
    reason = "the place goes down from one of the clauses, and stops at the first"
)]
pub(crate) fn clauses(headers: &HeaderMap) -> Vec<Clause> {
    let accept = accept_text(headers);
    let text = if accept.is_empty() { "*/*" } else { &accept };
    let mut clauses: Vec<Clause> = text.split(',').take(MAX_CLAUSES).filter_map(Clause::parse).collect();
    // The rule is not a total order, so the algorithm matters: insertion of each clause into those before it.
    for next in 1..clauses.len() {
        let mut at = next;
        while at > 0 && clauses[at].goes_before(&clauses[at - 1]) {
            clauses.swap(at, at - 1);
            at -= 1;
        }
    }
    clauses
}

/// Maximum number of clauses; more than any client sends.
const MAX_CLAUSES: usize = 64;

/// Returns true if a client prefers JSON to all else, without parameters.
pub(super) fn accepts_plain_json(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT).map(HeaderValue::as_bytes);
    accept.is_none_or(|accept| accept.is_empty() || accept == b"*/*" || accept == JSON.as_bytes())
}

pub(super) fn accept_text(headers: &HeaderMap) -> Cow<'_, str> {
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
    /// Parses a clause, if it is a media type or a wildcard. Ignores parameters that are not a pair of a name and a
    /// value.
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

    /// Returns true if it precedes a clause that comes earlier in the header: by a higher quality, or as a type before
    /// a wildcard.
    fn goes_before(&self, other: &Self) -> bool {
        self.quality > other.quality
            || self.family != "*" && other.family == "*"
            || self.subtype != "*" && other.subtype == "*"
    }

    /// Returns the value of the parameter `name`.
    pub(crate) fn parameter(&self, name: &str) -> Option<&str> {
        let found = self.parameters.iter().rev().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Returns true if the clause drops a field of objects. Several are joined by `+`; unknown fields stay.
    pub(super) fn drops(&self, field: &str) -> bool {
        let dropped = self.parameter("drop").unwrap_or_default();
        dropped.split('+').any(|dropped| dropped == field)
    }

    /// Returns true if the clause accepts a media type, by name or by a wildcard for either part.
    pub(crate) fn accepts(&self, media_type: &str) -> bool {
        media_type.split_once('/').is_some_and(|(family, subtype)| {
            [(&self.family, family), (&self.subtype, subtype)]
                .iter()
                .all(|(wanted, served)| *wanted == "*" || wanted == served)
        })
    }

    /// Returns the format of documents that this clause accepts, if it is served.
    pub(crate) fn format(&self) -> Option<Format> {
        self.format_of(formats(false))
    }

    /// Returns the first of `formats` that this clause accepts. A clause such as `*/json` accepts none.
    pub(super) fn format_of(&self, formats: &[Format]) -> Option<Format> {
        let wild_before_a_name = self.family == "*" && self.subtype != "*";
        let mut accepted = formats
            .iter()
            .copied()
            .filter(|format| self.accepts(format.media_type()));
        accepted.next().filter(|_| !wild_before_a_name)
    }

    /// Returns true if the clause requests a stream, or a version of the server, that does not exist.
    fn asks_too_much(&self, format: Format) -> bool {
        let stream = self.parameter("stream").unwrap_or_default();
        let streamed = stream.is_empty() || stream == "watch" && format != Format::Yaml;
        !streamed || self.parameter("sv").is_some_and(|version| !version.is_empty())
    }

    /// Returns the view that the clause requests; `None` if there is no such view.
    pub(super) fn view(&self, format: Format) -> Option<View> {
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
