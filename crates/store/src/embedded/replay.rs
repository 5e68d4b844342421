//! Applies the rows of a disk to the draft of a new state.

use std::sync::Arc;

use super::disk::Row;
use crate::entry::{Indexer, Stored, StoredForm, Value, Version};
use crate::key::Revision;
use crate::state::{At, Draft};
use crate::transform::{self, Plain, Transformer};

/// Error of a row that does not fit the rows before it.
#[derive(Debug)]
pub(super) struct Inconsistent;

/// Applies the next row: one of a revision up to `compacted` as an entry before the history begins, a later one as an
/// event. A value that cannot be transformed is reported, and becomes a placeholder with the error.
pub(super) fn replay<X: Indexer>(
    draft: &mut Draft<X>,
    row: &Row<'_>,
    compacted: Revision,
    transformer: Option<&Arc<dyn Transformer>>,
) -> Result<(), Inconsistent> {
    let opened = row.value.map(|stored| transform::plain(transformer, row.key, stored));
    let placeholder: Value;
    let value = match &opened {
        None => None,
        Some(Ok(Plain { bytes, form })) => Some(Stored::borrowed(bytes, row.revision_at, *form)),
        Some(Err(error)) => {
            tracing::error!(revision = row.id.revision(), "{}", error.why);
            placeholder = error.placeholder(row.value.unwrap_or_default(), row.revision_at);
            Some(Stored::borrowed(placeholder.bytes(), None, StoredForm::UNREADABLE))
        }
    };
    let length = match &opened {
        Some(Ok(Plain { bytes, .. })) => bytes.len(),
        Some(Err(_)) => usize::MAX,
        None => 0,
    };
    let outside = row.revision_at.is_some_and(|at| at as usize > length);
    let unborn = row.create_revision > row.id.revision();
    if outside || unborn || row.key.is_empty() || row.id.revision() == 0 {
        return Err(Inconsistent);
    }
    let at = At {
        revision: row.id.revision(),
        position: row.id.position(),
        time: row.time,
    };
    match (row.deleted, value) {
        (false, Some(value)) if at.revision <= compacted => {
            let create_revision = row.create_revision;
            let version = Version {
                mod_revision: at.revision,
                create_revision,
                position: at.position,
            };
            draft.place(row.key.into(), value, version);
        }
        (false, Some(value)) => {
            draft.put_created(row.key.into(), value, at, row.create_revision, None);
        }
        (true, last) if at.revision > compacted => {
            draft.delete(&row.key.into(), last, at).ok_or(Inconsistent)?;
        }
        _ => return Err(Inconsistent),
    }
    Ok(())
}
