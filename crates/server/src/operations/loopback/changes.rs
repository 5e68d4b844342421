//! Watches of controllers: a position in the event history, which costs nothing while nothing happens.

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

    /// Returns the previous object; `None` for a new one.
    pub fn previous(&self) -> Option<Object> {
        self.0.previous().map(Object::new)
    }

    /// Returns true if the object was removed.
    pub fn is_removal(&self) -> bool {
        self.0.kind() == EventKind::Delete
    }
}

/// The error of a watch that fell too far behind, or whose server is shutting down: the caller must list again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the changes of objects can no longer be followed from here")]
pub struct Lost;

/// A stream of all changes after a list, once each, in the order in which they happened. Changes in separate stores are
/// ordered only within their store.
#[derive(Debug)]
pub struct Changes {
    watcher: Watcher<objects::Objects>,
    elsewhere: Vec<Watcher<objects::Objects>>,
}

impl Changes {
    /// Waits for the next change. No change is lost if the future is dropped before it is ready.
    ///
    /// # Errors
    /// [`Lost`]
    pub async fn next(&mut self) -> Result<Change, Lost> {
        let next = match self.elsewhere.is_empty() {
            true => self.watcher.next().await,
            false => {
                let watchers = std::iter::once(&mut self.watcher).chain(&mut self.elsewhere);
                let all = watchers.map(|watcher| Box::pin(watcher.next()));
                select_all(all).await.0
            }
        };
        next.map(Change).map_err(|_| Lost)
    }

    /// Returns the next change if there is one.
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
    /// Returns the objects of a resource in all namespaces, and their later changes.
    ///
    /// # Errors
    /// [`Lost`] if the server shuts down.
    pub fn watch(&self, resource: &Resource) -> Result<(Objects, Changes), Lost> {
        let prefix = resource.storage.as_ref().map(|storage| storage.prefix.to_string());
        self.watch_below(prefix.ok_or(Lost)?)
    }

    /// Returns the changes of the objects of two resources from now on. Their keys should have a common prefix, because
    /// changes of keys in between are examined as well.
    ///
    /// # Errors
    /// [`Lost`] if the server shuts down.
    pub fn watch_both(&self, one: &Resource, other: &Resource) -> Result<Changes, Lost> {
        let prefix = |resource: &Resource| resource.storage.as_ref().map(|storage| storage.prefix.clone());
        let (one, other) = (prefix(one).ok_or(Lost)?, prefix(other).ok_or(Lost)?);
        let alike = one.chars().zip(other.chars()).take_while(|(one, other)| one == other);
        let (_, changes) = self.watch_below(alike.map(|(one, _)| one).collect())?;
        Ok(changes)
    }

    /// Returns the objects of all resources, and their later changes.
    ///
    /// # Errors
    /// [`Lost`] if the server shuts down.
    pub fn watch_everything(&self) -> Result<(Objects, Changes), Lost> {
        self.watch_below(EVERYTHING.to_owned())
    }

    fn watch_below(&self, prefix: String) -> Result<(Objects, Changes), Lost> {
        let store = self.service.context.shared.store.for_key(prefix.as_bytes());
        let stores = store
            .overrides()
            .iter()
            .filter(|(of, _)| of.starts_with(prefix.as_bytes()));
        let watchers = stores.map(|(of, store)| {
            let begun = store.snapshot_and_watch(of.clone()).map_err(|_| Lost);
            begun.map(|(_, watcher)| watcher)
        });
        let elsewhere = watchers.collect::<Result<_, Lost>>()?;
        // Changes that these stores received meanwhile are in the snapshot and among the changes.
        let (snapshot, watcher) = store.snapshot_and_watch(prefix.as_str()).map_err(|_| Lost)?;
        Ok((Objects::new(snapshot, prefix), Changes { watcher, elsewhere }))
    }
}
