//! Documents of the older form in their last sent encoding: concurrent answers share its bytes.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use super::Catalog;
use crate::http::ApiError;
use crate::http::negotiation::Representation;

/// The requested documents of the last requested catalog, in the requested forms.
#[derive(Default)]
pub(crate) struct DocumentCache(Mutex<CachedDocuments>);

#[derive(Default)]
struct CachedDocuments {
    catalog: Option<Arc<Catalog>>,
    documents: HashMap<Name, Bytes>,
}

/// The path of a document and its form.
type Name = (String, Representation);

impl DocumentCache {
    /// Returns the document of `catalog` at `path`, which `make` writes at the first request.
    ///
    /// # Errors
    /// If `make` fails.
    pub(crate) fn get(
        &self,
        catalog: &Arc<Catalog>,
        path: &str,
        representation: &Representation,
        make: impl FnOnce() -> Result<Bytes, ApiError>,
    ) -> Result<Bytes, ApiError> {
        let name = (path.to_owned(), *representation);
        let mut cached = self.0.lock();
        if cached.catalog.as_ref().is_none_or(|known| !known.is_same(catalog)) {
            *cached = CachedDocuments {
                catalog: Some(Arc::clone(catalog)),
                documents: HashMap::new(),
            };
        }
        if let Some(document) = cached.documents.get(&name) {
            return Ok(document.clone());
        }
        let document = make()?;
        cached.documents.insert(name, document.clone());
        Ok(document)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_made_once_for_each_catalog_and_form() {
        let (cached, plain) = (DocumentCache::default(), Representation::default());
        let pretty = Representation {
            pretty: true,
            ..Representation::default()
        };
        let catalog = || Arc::new(Catalog::new(Arc::default(), None));
        let catalogs = [catalog(), catalog()];
        let get = |catalog: &Arc<Catalog>, form: &Representation, text: &'static [u8]| {
            cached
                .get(catalog, "/apis", form, || Ok(Bytes::from_static(text)))
                .unwrap()
        };
        assert_eq!(get(&catalogs[0], &plain, b"1"), "1");
        assert_eq!(get(&catalogs[0], &plain, b"2"), "1");
        assert_eq!(get(&catalogs[0], &pretty, b"3"), "3");
        assert_eq!(get(&catalogs[1], &plain, b"4"), "4");
    }
}
