//! Watches as controllers hold them: a position in the event history, which costs nothing while nothing happens.

use std::sync::Arc;

use futures_util::future::select_all;
use holdfast_resource::Resource;
use holdfast_store::{EventKind, Watcher};

use super::{Client, Object, Objects};
use crate::objects;

type Event = holdfast_store::Event<objects::Objects>;

/// The common prefix of all keys of objects.
const EVERYTHING: &str = "/registry/";

/// One change of one object.
#[derive(Debug)]
pub struct Change(Arc<Event>);

impl Change {
    /// Returns the object as it is now; if it was removed, its last state.
    pub fn current(&self) -> Object {
        Object::new(self.0.current())
    }

    /// The object before; `None` where it is new.
    pub fn previous(&self) -> Option<Object> {
        self.0.previous().map(Object::new)
    }

    /// Returns true if the object was removed.
    pub fn is_removal(&self) -> bool {
        self.0.kind() == EventKind::Delete
    }
}

/// The changes were not followed fast enough, or the server ends: begin again with a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the changes of objects can no longer be followed from here")]
pub struct Lost;

/// All changes after a list, once each, in the order in which they happened; those of stores of their own in an order of their
/// own.
#[derive(Debug)]
pub struct Changes {
    watcher: Watcher<objects::Objects>,
    elsewhere: Vec<Watcher<objects::Objects>>,
}

impl Changes {
    /// The next change, as soon as there is one. Nothing is lost if the future is dropped before it is ready.
    ///
    /// # Errors
    /// [`Lost`]
    pub async fn next(&mut self) -> Result<Change, Lost> {
        let next = match self.elsewhere.is_empty() {
            true => self.watcher.next().await,
            false => {
                let all = std::iter::once(&mut self.watcher).chain(&mut self.elsewhere);
                let all = all.map(|watcher| Box::pin(watcher.next()));
                select_all(all).await.0
            }
        };
        next.map(Change).map_err(|_| Lost)
    }

    /// The next change if there is one.
    ///
    /// # Errors
    /// [`Lost`]
    pub fn try_next(&mut self) -> Result<Option<Change>, Lost> {
        for watcher in std::iter::once(&mut self.watcher).chain(&mut self.elsewhere) {
            if let Some(next) = watcher.try_next().map_err(|_| Lost)? {
                return Ok(Some(Change(next)));
            }
        }
        Ok(None)
    }
}

impl Client {
    /// The objects of a resource in all namespaces, and their changes from then on.
    ///
    /// # Errors
    /// [`Lost`] where the server ends.
    pub fn watch(&self, resource: &Resource) -> Result<(Objects, Changes), Lost> {
        let prefix = resource.storage.as_ref().map(|storage| storage.prefix.to_string());
        self.watch_below(prefix.ok_or(Lost)?)
    }

    /// The changes of the objects of two resources from now on. Their keys should begin alike: what lies between is looked at
    /// as well.
    ///
    /// # Errors
    /// [`Lost`] where the server ends.
    pub fn watch_both(&self, one: &Resource, other: &Resource) -> Result<Changes, Lost> {
        let prefix = |resource: &Resource| resource.storage.as_ref().map(|storage| storage.prefix.clone());
        let (one, other) = (prefix(one).ok_or(Lost)?, prefix(other).ok_or(Lost)?);
        let alike = one.chars().zip(other.chars()).take_while(|(one, other)| one == other);
        let (_, changes) = self.watch_below(alike.map(|(one, _)| one).collect())?;
        Ok(changes)
    }

    /// The objects of all resources, and their changes from then on.
    ///
    /// # Errors
    /// [`Lost`] where the server ends.
    pub fn watch_everything(&self) -> Result<(Objects, Changes), Lost> {
        self.watch_below(EVERYTHING.to_owned())
    }

    fn watch_below(&self, prefix: String) -> Result<(Objects, Changes), Lost> {
        let store = self.service.context.shared.store.of(prefix.as_bytes());
        let elsewhere = store
            .overrides()
            .iter()
            .filter(|(of, _)| of.starts_with(prefix.as_bytes()));
        let elsewhere = elsewhere.map(|(of, store)| {
            let begun = store.snapshot_and_watch(of.clone()).map_err(|_| Lost);
            begun.map(|(_, watcher)| watcher)
        });
        let elsewhere = elsewhere.collect::<Result<_, Lost>>()?;
        // Changes that these stores received meanwhile are in the snapshot and among the changes.
        let (snapshot, watcher) = store.snapshot_and_watch(prefix.as_str()).map_err(|_| Lost)?;
        Ok((Objects::new(snapshot, prefix), Changes { watcher, elsewhere }))
    }
}
