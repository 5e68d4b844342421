//! Readers of configuration files whose errors have the words of Go's decoder.

use holdfast_value::{Limits, SmolStr, Value, yaml};

use crate::field_error::FieldPath;

/// Reads a configuration file strictly: YAML or JSON of one of `kinds`, which are pairs of version and kind. `read` gets the
/// whole file, and a list for the errors of unknown fields.
///
/// ```
/// use holdfast_schema::read_go_file;
///
/// let read = |text: &[u8]| {
///     read_go_file(text, &[("example.com/v1", "Limits")], |file, unknown| {
///         file.check_members("v1.Limits", &["apiVersion", "kind", "name"], unknown)?;
///         file.child("Limits", "name").text("string").map(str::to_owned)
///     })
/// };
/// assert_eq!(read(b"{apiVersion: example.com/v1, kind: Limits, name: a}").unwrap(), "a");
/// let error = read(b"{apiVersion: example.com/v1, kind: Limits, nme: a}").unwrap_err();
/// assert_eq!(error, "strict decoding error: unknown field \"nme\"");
/// ```
///
/// # Errors
/// If the text cannot be decoded, is of another kind, or has unknown or repeated fields.
pub fn read_go_file<T>(
    text: &[u8],
    kinds: &[(&str, &str)],
    read: impl FnOnce(&GoField<'_>, &mut Vec<String>) -> Result<T, String>,
) -> Result<T, String> {
    let parsed = yaml::parse_with_findings(text, &Limits::REQUEST).map_err(|error| error.to_string())?;
    check_kind(&parsed.value, kinds)?;
    let mut unknown = Vec::new();
    let file = read(&GoField::root("", &parsed.value), &mut unknown)?;
    let repeated = parsed.findings.iter().map(ToString::to_string);
    let strict: Vec<String> = repeated.chain(unknown).collect();
    match strict.is_empty() {
        true => Ok(file),
        false => Err(format!("strict decoding error: {}", strict.join(", "))),
    }
}

fn check_kind(value: &Value, kinds: &[(&str, &str)]) -> Result<(), String> {
    if value.as_map().is_none() {
        return Err("couldn't get version/kind; the file is not an object".to_owned());
    }
    let text = |name| value.str_at(&[name]).unwrap_or_default();
    match (text("apiVersion"), text("kind")) {
        (_, "") => Err("Object 'Kind' is missing".to_owned()),
        ("", _) => Err("Object 'apiVersion' is missing".to_owned()),
        found if kinds.contains(&found) => Ok(()),
        (version, kind) => Err(format!("no kind {kind:?} is registered for version {version:?}")),
    }
}

/// Value of a field of a Go struct, for readers of configuration files whose errors have the words of Go's decoder.
///
/// ```
/// use holdfast_schema::GoField;
/// use holdfast_value::{Limits, yaml};
///
/// let file = yaml::parse(b"rules: [{level: 1}]", &Limits::REQUEST).unwrap();
/// let rules = GoField::root("Policy", &file).child("Policy", "rules");
/// let level = rules.items("v1.PolicyRule").unwrap()[0].child("PolicyRule", "level");
/// let error = "json: cannot unmarshal number into Go struct field PolicyRule.rules.level of type string";
/// assert_eq!(level.text("string"), Err(error.to_owned()));
/// ```
#[derive(Clone, Debug)]
pub struct GoField<'v> {
    /// Value; `None` if it is absent or null.
    pub value: Option<&'v Value>,
    /// Path with indices.
    pub path: FieldPath,
    /// Go type of the struct with this field.
    holder: &'static str,
    /// Path of fields without indices, for messages about types.
    fields: String,
}

impl<'v> GoField<'v> {
    /// Creates the field of a whole file, which has the Go type `holder`.
    pub fn root(holder: &'static str, value: &'v Value) -> Self {
        Self {
            value: Some(value),
            path: FieldPath::default(),
            holder,
            fields: String::new(),
        }
    }

    /// Returns the member `name` of the Go struct `holder`; null counts as absent.
    #[must_use]
    pub fn child(&self, holder: &'static str, name: &str) -> Self {
        let dot = if self.fields.is_empty() { "" } else { "." };
        let value = self.value.and_then(|value| value.get(name));
        Self {
            value: value.filter(|value| !value.is_null()),
            path: self.path.child(name),
            holder,
            fields: format!("{}{dot}{name}", self.fields),
        }
    }

    /// Returns the error of a value that does not have the Go type `expected`.
    pub fn mismatch(&self, expected: &str) -> String {
        let found = match self.value {
            Some(Value::Bool(_)) => "bool",
            Some(value) if value.as_str().is_some() => "string",
            Some(value) if value.as_list().is_some() => "array",
            Some(value) if value.as_map().is_some() => "object",
            _ => "number",
        };
        match self.fields.is_empty() {
            true => format!("json: cannot unmarshal {found} into Go value of type {expected}"),
            false => format!(
                "json: cannot unmarshal {found} into Go struct field {}.{} of type {expected}",
                self.holder, self.fields
            ),
        }
    }

    /// Checks that a present value is an object, and adds the errors of members that are not among `known` to `unknown`.
    ///
    /// # Errors
    /// If the value is not an object of the Go type `expected`.
    pub fn check_members(&self, expected: &str, known: &[&str], unknown: &mut Vec<String>) -> Result<(), String> {
        let Some(value) = self.value else { return Ok(()) };
        let map = value.as_map().ok_or_else(|| self.mismatch(expected))?;
        for (key, _) in map.iter().filter(|(key, _)| !known.contains(&key.as_ref())) {
            unknown.push(format!("unknown field {:?}", self.path.child(key).as_str()));
        }
        Ok(())
    }

    /// Returns the text of a field of the Go type `expected`; empty if the field is absent.
    ///
    /// # Errors
    /// If the value is not a text.
    pub fn text(&self, expected: &str) -> Result<&'v str, String> {
        match self.value {
            None => Ok(""),
            Some(value) => value.as_str().ok_or_else(|| self.mismatch(expected)),
        }
    }

    /// Returns the truth value; `None` if the field is absent.
    ///
    /// # Errors
    /// If the value is not a truth value.
    pub fn flag(&self) -> Result<Option<bool>, String> {
        match self.value {
            None => Ok(None),
            Some(value) => value.as_bool().map(Some).ok_or_else(|| self.mismatch("bool")),
        }
    }

    /// Returns the items of a list, each of the Go type `expected`; none if the field is absent.
    ///
    /// # Errors
    /// If the value is not a list.
    pub fn items(&self, expected: &str) -> Result<Vec<Self>, String> {
        let Some(value) = self.value else {
            return Ok(Vec::new());
        };
        let list = value.as_list().ok_or_else(|| self.mismatch(&format!("[]{expected}")))?;
        let item = |(at, value): (usize, &'v Value)| Self {
            value: Some(value).filter(|value| !value.is_null()),
            path: self.path.index(at),
            holder: self.holder,
            fields: self.fields.clone(),
        };
        Ok(list.iter().enumerate().map(item).collect())
    }

    /// Returns the texts of a list.
    ///
    /// # Errors
    /// If the value is not a list of texts.
    pub fn texts(&self) -> Result<Vec<SmolStr>, String> {
        let items = self.items("string")?;
        items.iter().map(|item| item.text("string").map(SmolStr::new)).collect()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "what fails here is the test")]
mod tests {
    use holdfast_value::{Limits, yaml};

    use super::*;

    #[test]
    fn null_is_an_absent_value() {
        let file = yaml::parse(b"{texts: [a, null], flag: null}", &Limits::REQUEST).unwrap();
        let root = GoField::root("File", &file);
        assert_eq!(root.child("File", "texts").texts().unwrap(), ["a", ""]);
        assert_eq!(root.child("File", "flag").flag(), Ok(None));
    }

    #[test]
    fn file_of_another_kind_is_rejected() {
        let read = |text: &str| read_go_file(text.as_bytes(), &[("v1", "File")], |_, _| Ok(()));
        assert_eq!(read("{apiVersion: v1, kind: File}"), Ok(()));
        for (text, why) in [
            ("- a", "couldn't get version/kind; the file is not an object"),
            ("{apiVersion: v1}", "Object 'Kind' is missing"),
            ("{kind: File}", "Object 'apiVersion' is missing"),
            (
                "{apiVersion: v2, kind: File}",
                "no kind \"File\" is registered for version \"v2\"",
            ),
        ] {
            assert_eq!(read(text), Err(why.to_owned()), "{text}");
        }
        let repeated = read("{apiVersion: v1, kind: File, a: 1, a: 2}").unwrap_err();
        assert!(repeated.starts_with("strict decoding error: "), "{repeated}");
    }

    #[test]
    fn unknown_members_are_named_by_their_path() {
        let file = yaml::parse(b"{items: [{known: 1, other: 2}]}", &Limits::REQUEST).unwrap();
        let items = GoField::root("File", &file).child("File", "items").items("v1.Item");
        let mut unknown = Vec::new();
        items.unwrap()[0]
            .check_members("v1.Item", &["known"], &mut unknown)
            .unwrap();
        assert_eq!(unknown, ["unknown field \"items[0].other\""]);
    }
}
