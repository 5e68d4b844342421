//! The requested documents, kept compressed.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use bytes::Bytes;

/// A document in one of its encodings.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct DocumentKey {
    /// The path of a document of version 3; `None` for the document of version 2.
    pub(super) path: Option<String>,
    pub(super) encoding: Encoding,
}

/// The encoding of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Encoding {
    Json,
    Protobuf,
}

impl DocumentKey {
    /// Returns the key of the document of version 2.
    pub(super) fn version_2(encoding: Encoding) -> Self {
        Self { path: None, encoding }
    }

    /// Returns the key of the document of version 3 at `path`.
    pub(super) fn version_3(path: &str, encoding: Encoding) -> Self {
        Self {
            path: Some(path.to_owned()),
            encoding,
        }
    }
}

/// The requested documents, compressed.
#[derive(Default)]
pub(super) struct DocumentCache {
    documents: HashMap<DocumentKey, Document>,
    /// The number of bytes of all documents.
    size: usize,
    /// A counter that grows with each use of a document.
    clock: u64,
}

struct Document {
    /// The state of the source from which it was made.
    fingerprint: Vec<u8>,
    compressed: Bytes,
    /// The text, while an answer with it is being sent.
    text: Weak<[u8]>,
    used: u64,
}

/// The form in which a document is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Compressed,
    Text,
}

/// The maximum number of bytes that are kept in all. The least recently used documents are dropped first.
const MAX_CACHED_BYTES: usize = 16 << 20;

impl DocumentCache {
    pub(super) fn get(&mut self, key: &DocumentKey, fingerprint: &[u8], form: Form) -> Option<Bytes> {
        let document = self.document(key, fingerprint)?;
        match form {
            Form::Compressed => Some(document.compressed.clone()),
            Form::Text => document.text.upgrade().map(Bytes::from_owner),
        }
    }

    /// Shares the text of a document between answers while it is sent.
    pub(super) fn share(&mut self, key: &DocumentKey, fingerprint: &[u8], text: &Arc<[u8]>) {
        if let Some(document) = self.document(key, fingerprint) {
            document.text = Arc::downgrade(text);
        }
    }

    fn document(&mut self, key: &DocumentKey, fingerprint: &[u8]) -> Option<&mut Document> {
        self.clock += 1;
        if self.documents.get(key)?.fingerprint != fingerprint {
            self.remove(key);
            return None;
        }
        let document = self.documents.get_mut(key)?;
        document.used = self.clock;
        Some(document)
    }

    pub(super) fn insert(&mut self, key: DocumentKey, fingerprint: Vec<u8>, compressed: Bytes) {
        self.remove(&key);
        self.clock += 1;
        self.size += compressed.len() + fingerprint.len();
        let document = Document {
            fingerprint,
            compressed,
            text: Weak::<[u8; 0]>::new(),
            used: self.clock,
        };
        self.documents.insert(key, document);
        while self.size > MAX_CACHED_BYTES && self.documents.len() > 1 {
            let oldest = self.documents.iter().min_by_key(|(_, document)| document.used);
            let Some(oldest) = oldest.map(|(key, _)| key.clone()) else {
                return;
            };
            self.remove(&oldest);
        }
    }

    fn remove(&mut self, key: &DocumentKey) {
        if let Some(document) = self.documents.remove(key) {
            self.size -= document.compressed.len() + document.fingerprint.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn least_recently_used_document_is_evicted_when_full() {
        let mut kept = DocumentCache::default();
        let key = |path| DocumentKey::version_3(path, Encoding::Json);
        let document = Bytes::from(vec![0; MAX_CACHED_BYTES / 2]);
        kept.insert(key("a"), vec![1], document.clone());
        kept.insert(key("b"), Vec::new(), document.slice(1..));
        assert!(kept.get(&key("a"), &[1], Form::Compressed).is_some());
        kept.insert(key("c"), Vec::new(), document.slice(2..));
        assert!(
            kept.get(&key("b"), &[], Form::Compressed).is_none()
                && kept.get(&key("a"), &[1], Form::Compressed).is_some()
                && kept.get(&key("c"), &[], Form::Compressed).is_some()
        );
        assert!(
            kept.get(&key("a"), &[2], Form::Compressed).is_none(),
            "of an older state"
        );
        assert_eq!(kept.size, document.len() - 2);
    }
}
