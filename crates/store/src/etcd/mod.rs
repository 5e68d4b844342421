//! The etcd engine: several servers may share an etcd, with each other and with kube-apiservers.
//!
//! The state is read once, in pages at one revision, and updated by one watch from the next revision on. A write is one
//! transaction that is guarded by the revisions of keys. A read that must be the most recent determines etcd's revision
//! first, by one request that all waiting readers share, and waits until the state has reached it.

mod address;
mod ahead;
mod client;
mod commit;
mod compaction;
mod current;
mod dial;
mod feed;
mod follow;
mod frames;
mod leases;
mod line;
mod load;
mod metrics;
mod prefix;
mod proto;
mod revision_queries;
#[cfg(feature = "testing")]
pub mod simulated;
#[cfg(test)]
mod tests;
mod transport;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::watch;

pub use dial::{DialEtcd, EtcdStream, EtcdStreamFuture};
pub use metrics::{NoObserver, Observer, Operation};
pub use transport::Connection;

use crate::clock::{Clock, SystemClock};
use crate::codec::Codec;
use crate::engine::{Engine, Pending};
use crate::entry::{Indexer, StoredForm};
use crate::error::{CommitError, OpenError, ReadError, StorageError};
use crate::key::{Key, Revision};
use crate::state::{HistoryLimits, Snapshot, State};
use crate::transaction::{Committed, Transaction};
use ahead::Ahead;
use client::Client;
use current::{Check, Trouble, Wanted};
use feed::Feed;
use leases::Leases;
use prefix::Prefix;
use revision_queries::{RevisionQueries, Turn};

/// Settings of an etcd engine.
pub struct EtcdConfig {
    /// Addresses and credentials.
    pub connection: Connection,
    /// Prefix of keys in etcd, such as `/registry`.
    pub prefix: String,
    /// Prefix of the only keys of this store, as the state names them; `None` for all keys.
    pub only: Option<Key>,
    /// Prefixes of keys that other stores hold. Such keys in this etcd are ignored.
    pub without: Vec<Key>,
    /// Bounds of the event history.
    pub history: HistoryLimits,
    /// Interval of compaction, which also is the minimum age of the compacted history; zero disables compaction.
    pub compaction_interval: Duration,
    /// Time to live of values that the codec classifies as events; zero means unlimited.
    pub life: Duration,
    /// Maximum time after its creation for which new keys share a lease.
    pub lease_reuse: Duration,
    /// Timeout of etcd's response in a liveness check.
    pub health_timeout: Duration,
    /// Timeout of etcd's response in a readiness check.
    pub readiness_timeout: Duration,
    /// Interval at which the size of etcd's database is read; zero disables it.
    pub size_interval: Duration,
    /// Encoding of the stored bytes.
    pub codec: Arc<dyn Codec>,
    /// Observer that counts calls.
    pub observer: Box<dyn Observer>,
    /// Wall clock.
    pub clock: Arc<dyn Clock>,
}

impl EtcdConfig {
    /// Creates the default settings.
    pub fn new(connection: Connection, codec: Arc<dyn Codec>) -> Self {
        Self {
            connection,
            prefix: "/registry".to_owned(),
            only: None,
            without: Vec::new(),
            history: HistoryLimits::default(),
            compaction_interval: Duration::from_secs(300),
            life: Duration::from_secs(3600),
            lease_reuse: Duration::from_secs(60),
            health_timeout: Duration::from_secs(2),
            readiness_timeout: Duration::from_secs(2),
            size_interval: Duration::from_secs(30),
            codec,
            observer: Box::new(NoObserver),
            clock: Arc::new(SystemClock),
        }
    }
}

/// Returns when the engine closes.
async fn closed(closing: &mut watch::Receiver<bool>) {
    let _ = closing.wait_for(|closing| *closing).await;
}

/// The engine of an etcd.
pub struct Etcd<X: Indexer> {
    shared: Arc<Shared<X>>,
}

/// State that commits, readers and background tasks share.
struct Shared<X: Indexer> {
    client: Client,
    feed: Feed<X>,
    leases: Leases,
    /// Revisions that callers wait for.
    wanted: watch::Sender<Wanted>,
    /// Entries from etcd that the state does not show yet.
    ahead: Ahead<X>,
    /// Readers that query etcd's revision.
    questions: Arc<RevisionQueries>,
    /// The encoded query, ready to send.
    question: Bytes,
    /// True if all members are known to report the progress of watches correctly.
    reports_progress: AtomicBool,
    /// True for each member that reports progress correctly; `None` if its version is unknown.
    progress_by_member: Mutex<Vec<Option<bool>>>,
    /// Problems of etcd.
    trouble: Mutex<Trouble>,
    closing: watch::Sender<bool>,
}

impl<X: Indexer> Etcd<X> {
    /// Waits for etcd, reads its content into a new state, and starts to watch it.
    ///
    /// # Errors
    /// If an address or certificate cannot be used, or etcd denies access to this server.
    pub async fn open(mut config: EtcdConfig, indexer: X) -> Result<(Arc<State<X>>, Self), OpenError> {
        let observer = std::mem::replace(&mut config.observer, Box::new(NoObserver));
        let client = Client::new(&config.connection, observer)?;
        Self::open_with(client, config, indexer).await
    }

    /// Opens a simulated etcd as [`Etcd::open`] does. The connection of `config` is ignored.
    ///
    /// # Errors
    /// The same as [`Etcd::open`].
    #[cfg(feature = "testing")]
    pub async fn open_simulated(
        etcd: &Arc<simulated::SimulatedEtcd>,
        mut config: EtcdConfig,
        indexer: X,
    ) -> Result<(Arc<State<X>>, Self), OpenError> {
        let observer = std::mem::replace(&mut config.observer, Box::new(NoObserver));
        let client = Client::simulated(etcd, observer);
        Self::open_with(client, config, indexer).await
    }

    async fn open_with(client: Client, config: EtcdConfig, indexer: X) -> Result<(Arc<State<X>>, Self), OpenError> {
        let (state, publisher) = State::new(indexer, config.history);
        let prefix = Prefix::new(&config.prefix).narrowed(config.only.as_ref(), &config.without);
        let question = line::question(&current::revision_request(&prefix));
        let feed = Feed::new(publisher, prefix, config.codec, config.clock);
        let shared = Arc::new(Shared {
            progress_by_member: Mutex::new(vec![None; client.member_count()]),
            client,
            feed,
            leases: Leases::new(config.life, config.lease_reuse),
            wanted: watch::Sender::new(Wanted::nothing()),
            ahead: Ahead::default(),
            questions: Arc::default(),
            question,
            reports_progress: AtomicBool::new(false),
            trouble: Mutex::default(),
            closing: watch::Sender::new(false),
        });
        shared.load().await?;
        tokio::spawn(Arc::clone(&shared).follow());
        tokio::spawn(Arc::clone(&shared).watch_health(Check::Health, config.health_timeout));
        tokio::spawn(Arc::clone(&shared).watch_health(Check::Readiness, config.readiness_timeout));
        tokio::spawn(Arc::clone(&shared).watch_size(config.size_interval));
        tokio::spawn(Arc::clone(&shared).compact(config.compaction_interval));
        Ok((state, Self { shared }))
    }
}

impl<X: Indexer> Engine<X> for Etcd<X> {
    fn commit(&self, transaction: Transaction<X>) -> Pending<'_, Result<Committed<X>, CommitError>> {
        let shared = Arc::clone(&self.shared);
        Box::pin(async move {
            let finished = tokio::spawn(shared.commit(transaction)).await;
            finished.unwrap_or(Err(CommitError::Closed))
        })
    }

    fn current(&self) -> Option<Pending<'_, Result<Revision, ReadError>>> {
        Some(Box::pin(async {
            let revision = match self.shared.questions.turn().await {
                Turn::Answered(answer) => answer?,
                Turn::Queries(asking) => self.shared.ask_revision(asking).await?,
            };
            self.shared.reach(revision).await?;
            Ok(revision)
        }))
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn want(&self, revision: Revision) {
        self.shared.want(revision);
    }

    fn is_stale(&self, key: &[u8], form: StoredForm) -> bool {
        self.shared.feed.codec.form_of(key) != form
    }

    fn health(&self) -> Result<(), String> {
        self.shared.trouble.lock().report(Check::Health)
    }

    fn readiness(&self) -> Result<(), String> {
        self.shared.trouble.lock().report(Check::Readiness)
    }

    fn ahead(&self, snapshot: Snapshot<X>) -> Snapshot<X> {
        self.shared.ahead.over(snapshot)
    }

    fn close(&self) -> Pending<'_, Result<(), StorageError>> {
        self.shared.closing.send_replace(true);
        self.shared.feed.close();
        Box::pin(async { Ok(()) })
    }
}

impl<X: Indexer> Drop for Etcd<X> {
    fn drop(&mut self) {
        self.shared.closing.send_replace(true);
    }
}
