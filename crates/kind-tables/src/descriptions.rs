//! Descriptions of types and fields for the OpenAPI documents.
//!
//! The texts come from a crate when this one is built (`build.rs`) and are compressed in the binary. They are
//! decompressed when documents are generated, and dropped afterwards.

use std::io::Read as _;

use flate2::read::DeflateDecoder;

const COMPRESSED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptions.deflate"));

/// Descriptions of the built-in types.
pub struct Descriptions {
    /// Name of each type, its text, and the index of its first field in `fields`; sorted by name.
    types: Vec<(String, String, usize)>,
    /// Fields of all types, name and text; grouped by type and sorted by name.
    fields: Vec<(String, String)>,
}

impl Descriptions {
    /// Reads the compressed table.
    ///
    /// # Errors
    /// If the table is damaged, which the tests of this crate rule out.
    pub fn read() -> std::io::Result<Self> {
        let mut text = String::new();
        DeflateDecoder::new(COMPRESSED).read_to_string(&mut text)?;
        let (mut types, mut fields) = (Vec::new(), Vec::new());
        for line in text.lines() {
            let (name, words) = line.trim_start_matches('\t').split_once('\t').unwrap_or((line, ""));
            let (name, words) = (name.to_owned(), unescape(words));
            match line.starts_with('\t') {
                true => fields.push((name, words)),
                false => types.push((name, words, fields.len())),
            }
        }
        Ok(Self { types, fields })
    }

    fn place(&self, name: &str) -> Option<usize> {
        self.types.binary_search_by(|(known, ..)| known.as_str().cmp(name)).ok()
    }
}

impl holdfast_openapi::Descriptions for Descriptions {
    #[expect(clippy::indexing_slicing, reason = "the index was found in this very list")]
    fn of_type(&self, name: &str) -> Option<&str> {
        let (_, words, _) = &self.types[self.place(name)?];
        Some(words.as_str()).filter(|words| !words.is_empty())
    }

    #[expect(clippy::indexing_slicing, reason = "the index was found in this very list")]
    fn of_field(&self, name: &str, field: &str) -> Option<&str> {
        let at = self.place(name)?;
        let end = self.types.get(at + 1).map_or(self.fields.len(), |(.., begin)| *begin);
        let fields = self.fields.get(self.types[at].2..end)?;
        let place = fields.binary_search_by(|(known, _)| known.as_str().cmp(field)).ok()?;
        Some(fields[place].1.as_str()).filter(|words| !words.is_empty())
    }

    fn of_any_kind(&self) -> (&str, &str) {
        ("io.k8s.api.core.v1.Pod", "io.k8s.api.core.v1.PodList")
    }
}

/// Reverses the escaping of `\` and line breaks by the build script.
pub(crate) fn unescape(words: &str) -> String {
    let mut out = String::with_capacity(words.len());
    let mut letters = words.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => out.push(match letters.next() {
                Some('n') => '\n',
                other => other.unwrap_or('\\'),
            }),
            letter => out.push(letter),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use holdfast_openapi::Descriptions as _;

    use super::*;

    #[test]
    fn nearly_every_published_type_and_field_has_words() {
        let descriptions = Descriptions::read().unwrap();
        let types = crate::types::types().unwrap();
        let (mut all, mut without) = (0, Vec::new());
        for (_, of) in types.iter().filter(|(_, of)| of.published) {
            for field in of.fields() {
                all += 1;
                if descriptions.of_field(&of.name, &field.name).is_none() {
                    without.push(format!("{} {}", of.name, field.name));
                }
            }
        }
        assert!(
            without.len() * 100 < all * 6,
            "{} of {all}: {without:#?}",
            without.len()
        );
        let words = descriptions.of_type("io.k8s.api.apps.v1.Deployment").unwrap();
        assert!(words.contains("Deployment"), "{words}");
    }

    #[test]
    fn line_breaks_come_back() {
        assert_eq!(unescape(r"a\nb\\n"), "a\nb\\n");
    }
}
