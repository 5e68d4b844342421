//! Return of a draft to an earlier state.
//!
//! The draft reuses the maps of the earlier state, which share their nodes with the current ones. Only keys whose
//! entries differ cost anything: each of them gets an entry with a new revision, and an event.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use imbl::ordmap::DiffItem;

use super::snapshot::{Root, Table};
use super::{Draft, Snapshot};
use crate::entry::{Entry, Indexer, StoredForm, Version};
use crate::error::CommitError;
use crate::history::{Event, EventKind};
use crate::key::{Key, Revision};
use crate::restore::{RestoreError, Restored};

/// Function that prepares a change for storage: an earlier entry that exists again, or `None` for a removal. It returns
/// the form in which the value is stored.
pub(crate) type PrepareChange<'a, X> = dyn FnMut(Option<&Arc<Entry<X>>>) -> Result<StoredForm, CommitError> + 'a;

impl<X: Indexer> Draft<X> {
    /// Changes the draft to the state of `earlier`, a snapshot of the same store. Values that are equal except for their
    /// revisions stay. Each change has its own revision, in the order of the keys, so that a watch that is interrupted
    /// between two of them misses none.
    ///
    /// `to_store` is called for each change in that order.
    ///
    /// # Errors
    /// [`RestoreError::Unreadable`], or the error of `to_store`. The draft is unchanged.
    pub(crate) fn restore(
        &mut self,
        earlier: &Snapshot<X>,
        time: Duration,
        to_store: &mut PrepareChange<'_, X>,
    ) -> Result<Restored, RestoreError> {
        let (current, target) = (&self.root, &*earlier.root);
        let mut restoring = Restoring {
            root: Root {
                revision: current.revision,
                tables: target.tables.clone(),
                groups: target.groups.clone(),
                untransformable: current.untransformable || target.untransformable,
            },
            events: Vec::new(),
            restored: Restored::default(),
            time,
        };
        let empty = Table::<X>::new();
        let names: BTreeSet<&Key> = current.tables.keys().chain(target.tables.keys()).collect();
        for name in names {
            let now = current.tables.get(name).unwrap_or(&empty);
            let before = target.tables.get(name).unwrap_or(&empty);
            for difference in now.diff(before) {
                restoring.apply(name, difference, to_store)?;
            }
        }
        let Restoring {
            root,
            events,
            mut restored,
            ..
        } = restoring;
        restored.revision = root.revision;
        self.root = root;
        self.events.extend(events);
        Ok(restored)
    }
}

/// State of a restore.
struct Restoring<X: Indexer> {
    /// The earlier root with new revisions of the entries that differ.
    root: Root<X>,
    events: Vec<Arc<Event<X>>>,
    restored: Restored,
    time: Duration,
}

impl<X: Indexer> Restoring<X> {
    fn apply(
        &mut self,
        table: &Key,
        difference: DiffItem<'_, '_, Key, Arc<Entry<X>>>,
        to_store: &mut PrepareChange<'_, X>,
    ) -> Result<(), RestoreError> {
        let (now, before) = match difference {
            DiffItem::Add(_, before) => (None, before),
            DiffItem::Update {
                old: (_, now),
                new: (_, before),
            } => (Some(now), before),
            DiffItem::Remove(_, now) => {
                to_store(None)?;
                let removed = now.at(self.next_revision(), 0);
                self.add(EventKind::Delete, removed, Some(now));
                self.restored.deleted += 1;
                return Ok(());
            }
        };
        if before.form() == StoredForm::UNREADABLE {
            return Err(RestoreError::Unreadable(before.key().clone()));
        }
        if let Some(now) = now.filter(|now| now.has_same_value(before)) {
            self.place(table, now);
            return Ok(());
        }
        let form = to_store(Some(before))?;
        let revision = self.next_revision();
        let version = Version {
            mod_revision: revision,
            create_revision: now.map_or(revision, |now| now.create_revision()),
            position: 0,
        };
        let entry = before.with_version(version, form);
        self.place(table, &entry);
        match now {
            Some(_) => self.restored.updated += 1,
            None => self.restored.created += 1,
        }
        self.add(EventKind::Put, entry, now);
        Ok(())
    }

    fn next_revision(&mut self) -> Revision {
        self.root.revision += 1;
        self.root.revision
    }

    /// Replaces an entry of the earlier state. Its key exists there, so that the groups stay as they are.
    fn place(&mut self, table: &Key, entry: &Arc<Entry<X>>) {
        if let Some(entries) = self.root.tables.get_mut(table) {
            entries.insert(entry.key().clone(), Arc::clone(entry));
        }
    }

    fn add(&mut self, kind: EventKind, entry: Arc<Entry<X>>, previous: Option<&Arc<Entry<X>>>) {
        self.events
            .push(Event::new(kind, entry, previous.map(Arc::clone), self.time));
    }
}
