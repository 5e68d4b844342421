//! Responses, without the values that always differ between two servers.

use std::collections::BTreeSet;
use std::fmt;

use http::StatusCode;
use serde_json::Value;

use super::bodies::Kind;
use super::line;
use super::steps::Step;

/// Fields whose values each server generates, or derives from the time of day.
const DRAWN: [&str; 11] = [
    "clusterIP",
    "clusterIPs",
    "creationTimestamp",
    "deletionTimestamp",
    "healthCheckNodePort",
    "lastTransitionTime",
    "lastUpdateTime",
    "nodePort",
    "resourceVersion",
    "time",
    "uid",
];

/// Replacement of a generated value.
const MASK: &str = "*";

/// Response to one write.
#[derive(Debug)]
pub(super) struct Answer {
    code: StatusCode,
    warnings: BTreeSet<String>,
    body: Value,
}

/// First difference of two responses.
#[derive(Clone, Debug)]
pub(super) struct Difference {
    place: String,
    reference: String,
    holdfast: String,
}

impl Answer {
    pub(super) fn new(code: StatusCode, warnings: BTreeSet<String>, mut body: Value) -> Self {
        mask(&mut body);
        Self { code, warnings, body }
    }
}

impl Difference {
    /// Returns the first difference of two responses to the same step, `None` if they are equal.
    pub(super) fn between(kind: &Kind, step: &Step, reference: &Answer, holdfast: &Answer) -> Option<Self> {
        let (path, left, right) = first(reference, holdfast)?;
        Some(Self {
            place: format!("{} {:?}: {path}", kind.name(), step.verb),
            reference: left,
            holdfast: right,
        })
    }

    #[cfg(test)]
    pub(super) fn at(place: &str) -> Self {
        Self {
            place: place.to_owned(),
            reference: String::new(),
            holdfast: String::new(),
        }
    }

    /// Returns the kind, verb and path without indexes: differences at the same path count as one.
    pub(super) fn place(&self) -> &str {
        &self.place
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(to, "{}", self.place)?;
        writeln!(to, "  reference: {}", self.reference)?;
        writeln!(to, "  holdfast:  {}", self.holdfast)
    }
}

fn first(reference: &Answer, holdfast: &Answer) -> Option<(String, String, String)> {
    if reference.code != holdfast.code {
        let said = |answer: &Answer| format!("{} {}", answer.code.as_u16(), answer.body);
        let codes = format!("{} and not {}", reference.code.as_u16(), holdfast.code.as_u16());
        return Some((codes, said(reference), said(holdfast)));
    }
    let warnings = |answer: &Answer| answer.warnings.iter().cloned().collect::<Vec<_>>().join("; ");
    if reference.warnings != holdfast.warnings {
        return Some(("warnings".to_owned(), warnings(reference), warnings(holdfast)));
    }
    let (path, left, right) = differing(&reference.body, &holdfast.body)?;
    Some((path, line(left), line(right)))
}

/// Returns the first path, without indexes, at which the values differ.
fn differing<'a>(left: &'a Value, right: &'a Value) -> Option<(String, Option<&'a Value>, Option<&'a Value>)> {
    match (left, right) {
        (Value::Object(left), Value::Object(right)) => {
            let names: BTreeSet<&String> = left.keys().chain(right.keys()).collect();
            names.into_iter().find_map(|name| {
                let found = differing_members(left.get(name), right.get(name))?;
                Some((format!(".{name}{}", found.0), found.1, found.2))
            })
        }
        (Value::Array(left), Value::Array(right)) => (0..left.len().max(right.len())).find_map(|at| {
            let found = differing_members(left.get(at), right.get(at))?;
            Some((format!("[]{}", found.0), found.1, found.2))
        }),
        (left, right) => (left != right).then(|| (String::new(), Some(left), Some(right))),
    }
}

fn differing_members<'a>(
    left: Option<&'a Value>,
    right: Option<&'a Value>,
) -> Option<(String, Option<&'a Value>, Option<&'a Value>)> {
    match (left, right) {
        (Some(left), Some(right)) => differing(left, right),
        (None, None) => None,
        (left, right) => Some((String::new(), left, right)),
    }
}

/// Masks the values that each server generates; their presence still counts.
fn mask(value: &mut Value) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                if DRAWN.contains(&name.as_str()) && !member.is_null() && *member != "None" {
                    *member = MASK.into();
                } else {
                    mask(member);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(mask),
        Value::String(text) => *text = masked(text),
        _ => {}
    }
}

/// Returns a text, which may hold a whole object, without the uids, times and resource versions in it.
fn masked(text: &str) -> String {
    let part_of_word = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | ':' | '.');
    let mut out = String::with_capacity(text.len());
    let (mut rest, mut versioned) = (text, false);
    while !rest.is_empty() {
        let end = rest.find(|letter| !part_of_word(letter)).unwrap_or(rest.len());
        let (word, more) = rest.split_at(end);
        let is_version = versioned && !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
        out.push_str(if is_version || is_uid(word) || is_time(word) {
            MASK
        } else {
            word
        });
        // Quotes and a colon are between the name and its value.
        versioned = word == "resourceVersion" || versioned && matches!(word, "" | ":");
        let next = more.chars().next().map_or(0, char::len_utf8);
        let (between, after) = more.split_at(next);
        out.push_str(between);
        rest = after;
    }
    out
}

fn is_uid(word: &str) -> bool {
    let lengths = word.split('-').map(str::len);
    word.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-') && lengths.eq([8, 4, 4, 4, 12])
}

fn is_time(word: &str) -> bool {
    let date = word.split_once('T').map(|(date, _)| date.split('-').map(str::len));
    word.ends_with('Z') && date.is_some_and(|lengths| lengths.eq([4, 2, 2]))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn answer(code: u16, body: Value) -> Answer {
        Answer::new(StatusCode::from_u16(code).unwrap(), BTreeSet::new(), body)
    }

    fn place(left: &Answer, right: &Answer) -> Option<String> {
        first(left, right).map(|(path, ..)| path)
    }

    #[test]
    fn drawn_values_may_differ_but_not_be_missing() {
        let with_uid = |uid: &str| answer(201, json!({"metadata": {"uid": uid, "name": "a"}}));
        assert_eq!(place(&with_uid("1"), &with_uid("2")), None);
        let without = answer(201, json!({"metadata": {"name": "a"}}));
        assert_eq!(place(&with_uid("1"), &without).as_deref(), Some(".metadata.uid"));
        let headless = answer(201, json!({"spec": {"clusterIP": "None"}}));
        let drawn = answer(201, json!({"spec": {"clusterIP": "10.0.0.7"}}));
        assert_eq!(place(&headless, &drawn).as_deref(), Some(".spec.clusterIP"));
    }

    #[test]
    fn drawn_values_within_texts_may_differ() {
        let invalid = |uid: &str, second: u32, version: u32| {
            let text = format!(
                "Invalid value: \"{{\\\"uid\\\":\\\"{uid}\\\",\\\"at\\\":\\\"2026-01-02T03:04:0{second}Z\\\",\\\"resourceVersion\\\":\\\"{version}\\\"}}\""
            );
            answer(422, json!({"message": text}))
        };
        let one = invalid("597bac90-d849-4b96-8a51-6e19c419c99e", 5, 12);
        assert_eq!(
            place(&one, &invalid("c8f41cc1-961b-4225-9093-18b2669ad309", 6, 345)),
            None
        );
        let other = answer(422, json!({"message": "Invalid value: 12"}));
        assert_eq!(
            place(&other, &answer(422, json!({"message": "Invalid value: 13"}))).as_deref(),
            Some(".message")
        );
    }

    #[test]
    fn the_first_difference_is_found_by_its_path() {
        let with_image = |image: &str| answer(200, json!({"spec": {"containers": [{"image": "a"}, {"image": image}]}}));
        assert_eq!(
            place(&with_image("a"), &with_image("b")).as_deref(),
            Some(".spec.containers[].image")
        );
        assert_eq!(
            place(&with_image("a"), &answer(422, json!({}))).as_deref(),
            Some("200 and not 422")
        );
    }

    #[test]
    fn warnings_count_in_any_order() {
        let warning = |texts: &[&str]| {
            let warnings = texts.iter().map(|text| (*text).to_owned()).collect();
            Answer::new(StatusCode::OK, warnings, Value::Null)
        };
        assert_eq!(place(&warning(&["a", "b"]), &warning(&["b", "a"])), None);
        assert_eq!(place(&warning(&["a"]), &warning(&[])).as_deref(), Some("warnings"));
    }
}
