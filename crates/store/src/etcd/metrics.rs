//! Observations of the engine's calls, for metrics.

use std::time::Duration;

/// Operation of a call, with kube-apiserver's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// One key is read.
    Get,
    /// Many keys are read.
    List,
    /// Keys are counted.
    Count,
    /// A key is created.
    Create,
    /// A key is changed.
    Update,
    /// A key is removed.
    Delete,
}

impl Operation {
    /// Returns the name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Count => "count",
            Self::Create => "create",
            Self::Update => "update",
            Self::Delete => "delete",
        }
    }
}

/// Observes what the engine does.
pub trait Observer: Send + Sync + 'static {
    /// A call about `key` ended.
    fn called(&self, operation: Operation, key: &[u8], took: Duration, succeeded: bool);

    /// Stored bytes could not be read.
    fn unreadable(&self, key: &[u8]);

    /// The watch delivered an event of `key`.
    fn received(&self, key: &[u8]);

    /// A read returned this number of objects, whose keys have the same table as `key`.
    fn listed(&self, key: &[u8], objects: usize);

    /// The watch reported its progress.
    fn progressed(&self);

    /// The file of etcd's database has this number of bytes.
    fn size(&self, bytes: i64);

    /// A lease that accepts no more keys has this number of keys.
    fn leased(&self, keys: usize);
}

/// No observer.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoObserver;

impl Observer for NoObserver {
    fn called(&self, _operation: Operation, _key: &[u8], _took: Duration, _succeeded: bool) {}

    fn unreadable(&self, _key: &[u8]) {}

    fn received(&self, _key: &[u8]) {}

    fn listed(&self, _key: &[u8], _objects: usize) {}

    fn progressed(&self) {}

    fn size(&self, _bytes: i64) {}

    fn leased(&self, _keys: usize) {}
}
