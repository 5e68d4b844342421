//! Applies the rows of a disk to the draft of a new state.

use super::disk::Row;
use crate::entry::{Indexer, Stored, Version};
use crate::key::Revision;
use crate::state::{At, Draft};

/// Error of a row that does not fit the rows before it.
#[derive(Debug)]
pub(super) struct Inconsistent;

/// Applies the next row: one of a revision up to `compacted` as an entry before the history begins, a later one as an
/// event.
pub(super) fn replay<X: Indexer>(draft: &mut Draft<X>, row: &Row<'_>, compacted: Revision) -> Result<(), Inconsistent> {
    let outside = row
        .revision_at
        .is_some_and(|at| at as usize > row.value.map_or(0, <[u8]>::len));
    let unborn = row.create_revision > row.id.revision();
    if outside || unborn || row.key.is_empty() || row.id.revision() == 0 {
        return Err(Inconsistent);
    }
    let value = row.value.map(|value| Stored::borrowed(value, row.revision_at));
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
