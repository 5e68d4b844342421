//! Conversion between versions of a kind with the same or nearly the same fields.

use holdfast_resource::{ConversionError, Converts};
use holdfast_value::Value;

/// Function that converts the fields of an object from the first `apiVersion` to the second.
pub(crate) type Reshape = fn(object: &mut Value, from: &str, to: &str);

/// Versions of a kind with the same fields, except those that `reshape` moves.
pub(crate) struct Versions {
    /// `apiVersion` of each version.
    pub(crate) known: &'static [&'static str],
    pub(crate) reshape: Reshape,
}

impl Versions {
    /// Returns versions that only differ in their names.
    pub(crate) const fn alike(known: &'static [&'static str]) -> Self {
        Self {
            known,
            reshape: |_, _, _| (),
        }
    }
}

impl Converts for Versions {
    fn convert(&self, mut object: Value, to_api_version: &str) -> Result<Value, ConversionError> {
        let from = object.str_at(&["apiVersion"]).unwrap_or_default().to_owned();
        if from == to_api_version {
            return Ok(object);
        }
        if ![from.as_str(), to_api_version]
            .iter()
            .all(|version| self.known.contains(version))
        {
            return Err(ConversionError::Unknown {
                from,
                to: to_api_version.to_owned(),
            });
        }
        (self.reshape)(&mut object, &from, to_api_version);
        object.set_at(&["apiVersion"], to_api_version.into());
        Ok(object)
    }
}
