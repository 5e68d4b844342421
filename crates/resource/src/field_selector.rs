//! Field selectors: `metadata.name`, `metadata.namespace` and the few fields that a kind lists.

use holdfast_authorization::FieldRequirement;
use holdfast_value::{SmolStr, Value};
use smol_str::ToSmolStr;

use crate::descriptor::SelectorWords;
use crate::descriptor::{Resource, ResourceVersion};
use crate::selector::SelectorError;

/// Requirements on fields of an object, all of which must hold. The empty selector matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector {
    requirements: Vec<FieldRequirement>,
}

impl FieldSelector {
    /// Reads the text of a `fieldSelector` parameter, such as `status.phase!=Running,spec.nodeName=a`.
    ///
    /// upstream: k8s.io/apimachinery/pkg/fields#parseSelector
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        let mut requirements = Vec::new();
        for term in terms(text) {
            if term.is_empty() {
                continue;
            }
            let Some((field, equal, value)) = split(term) else {
                return Err(SelectorError(format!(
                    "invalid selector: '{text}'; can't understand '{term}'"
                )));
            };
            requirements.push(FieldRequirement {
                field: SmolStr::new(field),
                is_equal: equal,
                value: unescape(value)?,
            });
        }
        Ok(Self { requirements })
    }

    /// Rejects fields that objects of the resource cannot be selected by, and replaces other names of a field with the
    /// stored one.
    pub fn resolve(mut self, resource: &Resource, version: &ResourceVersion) -> Result<Self, SelectorError> {
        // Terms with neither a field nor a value require nothing, unless another does.
        let asks = |requirement: &FieldRequirement| !requirement.field.is_empty() || !requirement.value.is_empty();
        if !self.requirements.iter().any(asks) {
            self.requirements.clear();
        }
        let selectors = resource.rules.field_selectors.iter().chain(&version.field_selectors);
        for requirement in &mut self.requirements {
            let field = requirement.field.as_str();
            let known = match field {
                "metadata.name" => true,
                "metadata.namespace" => resource.rules.namespace_selector,
                _ => selectors.clone().any(|known| known == field),
            };
            if !known {
                return Err(SelectorError(unknown_field(resource, version, field)));
            }
            if let Some(stored) = stored_field(resource, field) {
                requirement.field = stored;
            }
        }
        Ok(self)
    }

    /// Returns true if this matches everything.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Returns the requirements, all of which must be met.
    pub fn requirements(&self) -> &[FieldRequirement] {
        &self.requirements
    }

    /// Returns the name that objects must have, if the selector requires one.
    pub fn name(&self) -> Option<&str> {
        self.exact("metadata.name")
    }

    /// Returns the namespace that objects must be in, if the selector requires one.
    pub fn namespace(&self) -> Option<&str> {
        self.exact("metadata.namespace")
    }

    /// Returns true if the fields match; `field` returns the text of a field.
    pub fn matches<'a>(&self, field: impl Fn(&str) -> &'a str) -> bool {
        self.requirements
            .iter()
            .all(|requirement| (field(&requirement.field) == requirement.value) == requirement.is_equal)
    }

    fn exact(&self, field: &str) -> Option<&str> {
        self.requirements
            .iter()
            .find(|requirement| requirement.is_equal && requirement.field == field)
            .map(|requirement| requirement.value.as_str())
    }
}

/// Returns the text of each field beyond name and namespace by which objects of the resource can be selected, in the
/// order of the descriptor.
pub fn selectable_fields(resource: &Resource, object: &Value) -> Vec<(SmolStr, SmolStr)> {
    // An alternative name of a field is looked up by the field's own name.
    let fields = resource
        .rules
        .field_selectors
        .iter()
        .filter(|field| stored_field(resource, field).is_none());
    let mut texts: Vec<(SmolStr, SmolStr)> = fields.map(|field| (field.clone(), field_text(field, object))).collect();
    // The value of a version's selectable field is the one at its path, whatever its name.
    for field in resource.versions.iter().flat_map(|version| &version.field_selectors) {
        if !texts.iter().any(|(known, _)| known == field) {
            texts.push((field.clone(), text_at(object, field).unwrap_or_default()));
        }
    }
    texts
}

/// Returns the stored field for an alternative name in a selector: an older name, or the name in another group that
/// serves the same objects.
fn stored_field(resource: &Resource, field: &str) -> Option<SmolStr> {
    if !resource.conventions.named_selectors {
        return None;
    }
    match field {
        "spec.host" => Some(SmolStr::new_static("spec.nodeName")),
        "reportingController" => Some(SmolStr::new_static("reportingComponent")),
        _ => {
            let of_object = field.strip_prefix("regarding.")?;
            Some(["involvedObject.", of_object].concat().into())
        }
    }
}

/// Fields whose text is not simply the value at their path: their names, the paths to use instead (the first with a
/// value counts), and their text if there is no value.
const FIELD_RULES: [(&str, &[&str], &str); 5] = [
    ("source", &["source.component", "reportingComponent"], ""),
    ("spec.hostNetwork", &["spec.hostNetwork"], "false"),
    ("spec.unschedulable", &["spec.unschedulable"], "false"),
    ("status.successful", &["status.succeeded"], "0"),
    ("status.replicas", &["status.replicas"], "0"),
];

fn field_text(field: &str, object: &Value) -> SmolStr {
    let (paths, missing): (&[&str], &str) = FIELD_RULES
        .iter()
        .find(|(name, ..)| *name == field)
        .map_or((&[], ""), |(_, paths, missing)| (paths, missing));
    let found = if paths.is_empty() {
        text_at(object, field)
    } else {
        paths.iter().find_map(|path| text_at(object, path))
    };
    found.unwrap_or_else(|| SmolStr::new(missing))
}

fn text_at(object: &Value, path: &str) -> Option<SmolStr> {
    match path.split('.').try_fold(object, |node, key| node.get(key))? {
        Value::String(text) if text.is_empty() => None,
        Value::String(text) => Some(text.clone()),
        Value::Null => None,
        other => Some(other.to_smolstr()),
    }
}

fn unknown_field(resource: &Resource, version: &ResourceVersion, field: &str) -> String {
    let selectors = &resource.rules.field_selectors;
    match resource.capabilities.selector_words {
        SelectorWords::NamesKind => format!("field label \"{field}\" not supported for {}", resource.kind),
        SelectorWords::NamesVersion => format!(
            "field label not supported for {}, Kind={}: {field}",
            version.api_version, resource.kind
        ),
        SelectorWords::Plain => plain(field),
        SelectorWords::Usual
            if selectors.is_empty() && resource.rules.namespace_selector && resource.conventions.named_selectors =>
        {
            plain(field)
        }
        SelectorWords::Usual => format!("field label not supported: {field}"),
    }
}

fn plain(field: &str) -> String {
    format!("\"{field}\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"")
}

/// Returns the parts between commas; a comma after a backslash does not end a part.
fn terms(text: &str) -> Vec<&str> {
    let (mut terms, mut start, mut escaped) = (Vec::new(), 0, false);
    for (at, letter) in text.char_indices() {
        match letter {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                terms.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    terms.push(&text[start..]);
    terms
}

/// Returns the field, true if it must be equal, and the value as written.
fn split(term: &str) -> Option<(&str, bool, &str)> {
    let at = term.find(['=', '!'])?;
    term.match_indices(['=', '!'])
        .map(|(at, _)| at)
        .chain([at])
        .find_map(|at| {
            let (field, rest) = term.split_at(at);
            [("!=", false), ("==", true), ("=", true)]
                .iter()
                .find_map(|(sign, equal)| Some((field, *equal, rest.strip_prefix(sign)?)))
        })
}

fn unescape(value: &str) -> Result<SmolStr, SelectorError> {
    if !value.contains(['\\', ',', '=']) {
        return Ok(SmolStr::new(value));
    }
    let invalid =
        |sequence: &str| SelectorError(format!("invalid field selector: invalid escape sequence: {sequence}"));
    let (mut text, mut letters) = (String::with_capacity(value.len()), value.chars());
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => match letters.next() {
                Some(escaped @ ('\\' | ',' | '=')) => text.push(escaped),
                Some(other) => return Err(invalid(&format!("\\{other}"))),
                None => return Err(invalid("\\")),
            },
            ',' | '=' => {
                let code = letter as u32;
                return Err(SelectorError(format!(
                    "invalid field selector: unescaped character in value: {code}"
                )));
            }
            other => text.push(other),
        }
    }
    Ok(SmolStr::from(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(selector: &str, fields: &[(&str, &'static str)]) -> bool {
        FieldSelector::parse(selector).unwrap().matches(|field| {
            fields
                .iter()
                .find(|(name, _)| *name == field)
                .map(|(_, value)| *value)
                .unwrap_or_default()
        })
    }

    #[test]
    fn equal_and_unequal_fields_are_distinguished() {
        let fields = [("a.b", "x"), ("c", "1,2")];
        for selector in [
            "",
            "a.b=x",
            "a.b==x",
            "a.b!=y",
            "a.b=x,c!=3",
            "missing=",
            r"c=1\,2",
            ",a.b=x,",
        ] {
            assert!(matches(selector, &fields), "{selector}");
        }
        for selector in ["a.b!=x", "a.b=y", "missing!=", "a.b=x,c=1"] {
            assert!(!matches(selector, &fields), "{selector}");
        }
    }

    #[test]
    fn malformed_field_selector_has_reference_error() {
        let cases = [
            (
                "metadata.name",
                "invalid selector: 'metadata.name'; can't understand 'metadata.name'",
            ),
            (r"a=b\", r"invalid field selector: invalid escape sequence: \"),
            (r"a=b\c", r"invalid field selector: invalid escape sequence: \c"),
            ("a=b=c", "invalid field selector: unescaped character in value: 61"),
        ];
        for (selector, message) in cases {
            assert_eq!(FieldSelector::parse(selector).unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn an_exact_name_can_be_requested() {
        let selector = FieldSelector::parse("metadata.name=a,metadata.namespace!=b").unwrap();
        assert_eq!((selector.name(), selector.namespace()), (Some("a"), None));
    }
}
