//! Strict reader of the configuration files of the server (`apiserver.config.k8s.io`): unknown and repeated fields are
//! errors.

use holdfast_gotext::duration;
use holdfast_schema::FieldPath;
use holdfast_value::{Limits, Value, yaml};

/// Versions of the files.
const VERSIONS: [&str; 3] = [
    "apiserver.config.k8s.io/v1",
    "apiserver.config.k8s.io/v1beta1",
    "apiserver.config.k8s.io/v1alpha1",
];

/// Error of reading a configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// There is no text.
    #[error("empty config data")]
    Empty,
    /// The text cannot be read.
    #[error("couldn't get version/kind; json parse error: {0}")]
    Unreadable(String),
    /// It is of another kind or version.
    #[error("no kind {kind:?} is registered for version {version:?}; there is {expected} of {}", VERSIONS.join(", "))]
    Kind {
        /// The expected kind.
        expected: &'static str,
        /// The stated kind.
        kind: String,
        /// The stated version.
        version: String,
    },
    /// A field has a value of another type.
    #[error("{path}: expected {expected}, got {found}")]
    Type {
        /// Path of the field.
        path: String,
        /// The expected type.
        expected: &'static str,
        /// The type of the value.
        found: &'static str,
    },
    /// A field has an invalid value.
    #[error("{path}: {why}")]
    Value {
        /// Path of the field.
        path: String,
        /// Description of the error.
        why: String,
    },
    /// It has unknown or repeated fields.
    #[error("strict decoding error: {0}")]
    Strict(String),
}

/// Reads YAML or JSON of an object of `kind`, in any version of the group.
///
/// # Errors
/// If the text cannot be decoded, is of another kind, or has unknown or repeated fields.
pub fn read_object<T>(
    bytes: &[u8],
    kind: &'static str,
    read: impl FnOnce(&mut Reader, &Node<'_>) -> Result<T, ReadError>,
) -> Result<T, ReadError> {
    if bytes.is_empty() {
        return Err(ReadError::Empty);
    }
    let outcome = yaml::parse_with_findings(bytes, &Limits::REQUEST);
    let parsed = outcome.map_err(|error| ReadError::Unreadable(error.to_string()))?;
    check_kind(&parsed.value, kind)?;
    let mut reader = Reader::default();
    let object = read(&mut reader, &Node::root(&parsed.value))?;
    let repeated = parsed.findings.iter().map(ToString::to_string);
    let strict: Vec<String> = repeated.chain(reader.unknown).collect();
    match strict.is_empty() {
        true => Ok(object),
        false => Err(ReadError::Strict(strict.join(", "))),
    }
}

fn check_kind(value: &Value, expected: &'static str) -> Result<(), ReadError> {
    let text = |name| value.str_at(&[name]).unwrap_or_default();
    let (version, kind) = (text("apiVersion"), text("kind"));
    match VERSIONS.contains(&version) && kind == expected {
        true => Ok(()),
        false => Err(ReadError::Kind {
            expected,
            kind: kind.to_owned(),
            version: version.to_owned(),
        }),
    }
}

/// Value with its path; null counts as missing.
pub struct Node<'v> {
    pub(crate) value: Option<&'v Value>,
    path: FieldPath,
}

impl<'v> Node<'v> {
    fn root(value: &'v Value) -> Self {
        Self {
            value: Some(value),
            path: FieldPath::default(),
        }
    }

    /// Returns the member `name`.
    pub fn child(&self, name: &str) -> Self {
        let value = self.value.and_then(|value| value.get(name));
        Self {
            value: value.filter(|value| !value.is_null()),
            path: self.path.child(name),
        }
    }

    fn mismatch(&self, expected: &'static str) -> ReadError {
        ReadError::Type {
            path: self.path.to_string(),
            expected,
            found: self.value.map_or("null", Value::json_kind),
        }
    }

    /// Returns the text; `None` if it is missing.
    ///
    /// # Errors
    /// If the value has another type.
    pub fn optional_text(&self) -> Result<Option<String>, ReadError> {
        let Some(value) = self.value else { return Ok(None) };
        let text = value.as_str().ok_or_else(|| self.mismatch("string"))?;
        Ok(Some(text.to_owned()))
    }

    /// Returns the text of the member `name`; empty if it is missing.
    ///
    /// # Errors
    /// If the value has another type.
    pub fn text(&self, name: &str) -> Result<String, ReadError> {
        Ok(self.child(name).optional_text()?.unwrap_or_default())
    }

    /// True if the value exists.
    pub fn is_set(&self) -> bool {
        self.value.is_some()
    }

    /// Returns the flag of the member `name`; `None` if it is missing.
    ///
    /// # Errors
    /// If the value has another type.
    pub fn optional_flag(&self, name: &str) -> Result<Option<bool>, ReadError> {
        let node = self.child(name);
        let Some(value) = node.value else { return Ok(None) };
        value.as_bool().map(Some).ok_or_else(|| node.mismatch("bool"))
    }

    /// Returns the duration of the member `name` in nanoseconds, such as that of `5m`; zero if it is missing.
    ///
    /// # Errors
    /// If the value is no duration.
    pub fn duration(&self, name: &str) -> Result<i64, ReadError> {
        let node = self.child(name);
        match node.optional_text()? {
            None => Ok(0),
            Some(text) => duration::parse(&text).map_err(|why| ReadError::Value {
                path: node.path.to_string(),
                why,
            }),
        }
    }

    /// Reads each item of the list `name`.
    ///
    /// # Errors
    /// If the value is no list, or an item cannot be read.
    pub fn list<T>(
        &self,
        name: &str,
        mut read: impl FnMut(&Node<'_>) -> Result<T, ReadError>,
    ) -> Result<Vec<T>, ReadError> {
        let node = self.child(name);
        let Some(value) = node.value else {
            return Ok(Vec::new());
        };
        let list = value.as_list().ok_or_else(|| node.mismatch("array"))?;
        let items = list.iter().enumerate().map(|(at, value)| Node {
            value: Some(value).filter(|value| !value.is_null()),
            path: node.path.index(at),
        });
        items.map(|item| read(&item)).collect()
    }
}

/// Reader of objects, which collects unknown fields.
#[derive(Default)]
pub struct Reader {
    unknown: Vec<String>,
}

impl Reader {
    /// Checks that `node` is an object, and records its members that are not among `known`.
    ///
    /// # Errors
    /// If it is no object.
    pub fn members(&mut self, node: &Node<'_>, known: &[&str]) -> Result<(), ReadError> {
        let Some(value) = node.value else { return Ok(()) };
        let map = value.as_map().ok_or_else(|| node.mismatch("object"))?;
        for (key, _) in map.iter().filter(|(key, _)| !known.contains(&key.as_str())) {
            let path = node.path.child(key);
            self.unknown.push(format!("unknown field {:?}", path.as_str()));
        }
        Ok(())
    }
}
