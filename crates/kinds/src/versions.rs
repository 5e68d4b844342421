//! Conversion between the versions of a kind that are alike, or nearly.

use holdfast_resource::{ConversionError, Converts};
use holdfast_value::Value;

/// Turns the fields of an object of the first `apiVersion` into those of the second.
pub(crate) type Reshape = fn(object: &mut Value, from: &str, to: &str);

/// The versions of a kind that have the same fields, but for what `reshape` moves.
pub(crate) struct Versions {
    /// The `apiVersion` of each.
    pub(crate) known: &'static [&'static str],
    pub(crate) reshape: Reshape,
}

impl Versions {
    /// Versions that differ in nothing but their names.
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
