//! Reads of a run, and parts of a request that are read through the environment of the run.

use holdfast_schema::GroupResource;

/// State outside the written object that a run reads.
///
/// Not among them is what cannot change while the server runs or the resource exists: flags, feature gates, the chain
/// of plugins, and types. The request is not among them either, except its time and its registry, which the next request
/// has anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read<'r> {
    /// One object, or its absence.
    Object {
        /// The resource of the object.
        resource: &'r GroupResource,
        /// The namespace; empty for cluster-scoped resources.
        namespace: &'r str,
        /// The name.
        name: &'r str,
    },
    /// The objects of a resource.
    List,
    /// The resources of other kinds.
    Registry,
    /// The health of the store.
    StorageHealth,
    /// The active admission policies. Their evaluation is a read of permissions, too.
    Policies,
    /// The configured admission webhooks and the writes that their rules match. Their calls are reads of answers, too.
    Webhooks,
    /// The answer of an admission or conversion webhook.
    WebhookAnswer,
    /// Permissions of users.
    Permissions,
    /// Users of tokens, or the settings of the issuer of tokens.
    Tokens,
    /// A new uid or name suffix.
    Identifier,
    /// The time.
    Clock,
    /// State that a plugin or a kind keeps between writes.
    SharedState,
}

/// Records what a run reads from its environment.
pub trait ReadObserver: Sync {
    /// Records a read that is about to happen.
    fn record(&self, read: Read<'_>);
}

/// Observer of the reads of one run, if it has one.
#[derive(Clone, Copy)]
pub(crate) struct Recorder<'a>(Option<&'a dyn ReadObserver>);

impl<'a> Recorder<'a> {
    /// Creates the recorder of a run that `observer` observes.
    pub(crate) fn new(observer: Option<&'a dyn ReadObserver>) -> Self {
        Self(observer)
    }

    /// Reports a read to the observer.
    pub(crate) fn record(self, read: Read<'_>) {
        if let Some(observer) = self.0 {
            observer.record(read);
        }
    }
}

/// Part of a request that a run reads only through its [`Environment`](crate::Environment), which records the read.
///
/// Two requests with the same text may differ in it. A run that read it is therefore not repeated from memory.
#[derive(Clone, Debug)]
pub struct RunInput<T>(T);

impl<T> RunInput<T> {
    /// Creates the part of a request.
    pub fn new(value: T) -> Self {
        Self(value)
    }

    /// Returns the value to code that is not a step of a run. The steps get it from their environment only.
    pub fn outside_run(&self) -> &T {
        &self.0
    }

    /// Returns the value to a step of a run, and records the read.
    pub(crate) fn in_run(&self, recorder: Recorder<'_>, read: Read<'_>) -> &T {
        recorder.record(read);
        &self.0
    }

    /// Returns the value to a step whose result is discarded if the run changes nothing, so that the read is not
    /// recorded.
    pub(crate) fn for_change(&self) -> &T {
        &self.0
    }
}
