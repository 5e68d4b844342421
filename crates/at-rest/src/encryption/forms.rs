//! Numbers of the forms in which values are stored.

use std::collections::HashMap;

use aws_lc_rs::digest::{Context, SHA256};
use holdfast_store::StoredForm;
use parking_lot::Mutex;

/// Number of the last form. Further ones share it.
const LAST: u16 = u16::MAX - 1;

/// Forms that this process has seen, by a digest of what distinguishes them. The digests do not reveal keys.
#[derive(Debug, Default)]
pub(super) struct Forms(Mutex<HashMap<Vec<u8>, u16>>);

impl Forms {
    /// Returns the form that these parts distinguish.
    pub(super) fn intern(&self, parts: &[&[u8]]) -> StoredForm {
        let mut context = Context::new(&SHA256);
        for part in parts {
            context.update(&(part.len() as u64).to_le_bytes());
            context.update(part);
        }
        let mut forms = self.0.lock();
        let next = u16::try_from(forms.len() + 1).unwrap_or(LAST).min(LAST);
        let digest = context.finish().as_ref().to_vec();
        if next == LAST && !forms.contains_key(&digest) {
            return StoredForm::new(LAST);
        }
        StoredForm::new(*forms.entry(digest).or_insert(next))
    }
}
