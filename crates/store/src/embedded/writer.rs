//! The single writer: a thread, or in a simulation and for a store in memory a task.
//!
//! It collects all waiting transactions, applies them to a draft of the state, writes the draft's changes in one
//! durable step, publishes the draft, and only then responds. Writers that arrive meanwhile wait for the next step, so
//! more concurrent writers share each sync.
//!
//! Invariants:
//! - Guards are checked against the published state and the earlier transactions of the same step. No response that
//!   depends on a step is sent before that step is durable.
//! - After a failed step the draft is dropped: for this process it never happened. No step is written before the disk
//!   has been restored to the published revision.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc as sync_mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};

use super::directory::Directory;
use super::disk::{Disk, Row, RowId, Step};
use super::restore::{RestoreRequest, StagedRestore};
use crate::clock::Clock;
use crate::entry::{Indexer, Value};
use crate::error::{CommitError, StorageError};
use crate::history::{Event, EventKind};
use crate::key::Revision;
use crate::state::{At, Draft, Publisher, Snapshot, State};
use crate::transaction::{Committed, Op, Revisions, Transaction};
use crate::transform::{self, Transformer};

/// Maximum number of transactions in one step.
const GROUP: usize = 512;
/// Approximate maximum number of bytes in one step; a single transaction may have more.
const GROUP_BYTES: usize = 4 << 20;
/// Number of dead rows that a step removes in addition to as many as it adds.
const TRIM: usize = 64;
/// Number of dead rows that are removed in one step when the writer is idle.
const TRIM_IDLE: usize = 512;
/// Approximate number of written bytes after which the log is moved into the file.
const CHECKPOINT_BYTES: usize = 8 << 20;
/// Size of the log beyond which the next group waits until it has been moved.
pub(crate) const LOG_BYTES: u64 = 32 << 20;

type Answer<X> = Result<Committed<X>, CommitError>;
type Reply<X> = oneshot::Sender<Answer<X>>;

/// A command for the writer.
pub(crate) enum Command<X: Indexer> {
    Commit(Prepared<X>, Reply<X>),
    /// Return to an earlier state.
    Restore(RestoreRequest<X>),
    /// Time has passed: trim old history.
    Tick,
    Close(oneshot::Sender<Result<(), StorageError>>),
}

/// A transaction with the bytes to store for its values.
pub(crate) struct Prepared<X: Indexer> {
    transaction: Transaction<X>,
    /// Bytes to store for each operation whose value is transformed. Empty if none is.
    stored: Vec<Option<Bytes>>,
}

impl<X: Indexer> From<Transaction<X>> for Prepared<X> {
    fn from(transaction: Transaction<X>) -> Self {
        Self {
            transaction,
            stored: Vec::new(),
        }
    }
}

impl<X: Indexer> Prepared<X> {
    /// Transforms the values of a transaction.
    ///
    /// # Errors
    /// [`CommitError::Refused`] if a value cannot be transformed.
    pub(crate) fn transform(
        mut transaction: Transaction<X>,
        transformer: &dyn Transformer,
    ) -> Result<Self, CommitError> {
        let transform = |op: &mut Op<X>| {
            let (key, value) = match op {
                Op::Put { key, value, .. } | Op::Delete { key, last: Some(value) } => (&*key, value),
                Op::Delete { last: None, .. } => return Ok::<_, CommitError>(None),
            };
            let transformed = transform::to_store(transformer, key, value.bytes());
            let stored = transformed.map_err(|error| CommitError::Refused(error.why.into()))?;
            Ok(stored.map(|(bytes, form)| {
                *value = value.clone().with_form(form);
                bytes
            }))
        };
        let stored: Vec<Option<Bytes>> = transaction.ops.iter_mut().map(transform).collect::<Result<_, _>>()?;
        Ok(match stored.iter().any(Option::is_some) {
            true => Self { transaction, stored },
            false => transaction.into(),
        })
    }

    /// Returns the value to store for the operation at `position`, whose value is `value`.
    fn stored(&mut self, position: usize, value: Value) -> Value {
        match self.stored.get_mut(position).and_then(Option::take) {
            Some(stored) => value.as_stored(stored),
            None => value,
        }
    }
}

/// The writer's handle of the thread that moves the log into the file.
pub(crate) struct Keeper {
    /// Requests a checkpoint; the thread ends when this is dropped.
    pub(crate) wanted: sync_mpsc::Sender<()>,
    /// Set by the thread after each checkpoint, so that the writer moves the few pages that were added meanwhile: a log
    /// that is never moved completely never restarts.
    pub(crate) rest: Arc<AtomicBool>,
    /// Held by the thread while it moves the log.
    pub(crate) moving: Arc<Mutex<()>>,
    pub(crate) thread: JoinHandle<()>,
}

/// Owner of the disk and the publisher.
pub(crate) struct Writer<X: Indexer, D: Disk> {
    pub(crate) disk: D,
    pub(crate) publisher: Publisher<X>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) keeper: Option<Keeper>,
    pub(crate) directory: Option<Directory>,
    /// Rows that no revision of the history needs, each with the oldest revision after its removal.
    pub(crate) dead: VecDeque<(RowId, Revision)>,
    /// True if a step failed and the disk has not been restored since.
    pub(crate) unsure: bool,
    /// Approximate number of bytes written to the log since the last checkpoint began.
    pub(crate) written: usize,
    /// Maximum size of the log.
    pub(crate) log_limit: u64,
}

impl<X: Indexer, D: Disk> Writer<X, D> {
    pub(crate) fn new(disk: D, publisher: Publisher<X>, clock: Arc<dyn Clock>) -> Self {
        Self {
            disk,
            publisher,
            clock,
            keeper: None,
            directory: None,
            dead: VecDeque::new(),
            unsure: false,
            written: 0,
            log_limit: LOG_BYTES,
        }
    }

    /// Runs until a command closes it, or until no sender of commands is left.
    pub(crate) fn run(self, commands: mpsc::Receiver<Command<X>>) {
        // Declared first, so that it is dropped last.
        let _end = End(Arc::clone(self.publisher.state()));
        self.work(commands);
    }

    fn work(mut self, mut commands: mpsc::Receiver<Command<X>>) {
        let mut group = Group::new();
        while let Some(command) = commands.blocking_recv() {
            group.collect(command, &mut commands);
            let wrote = self.stage(&mut group).is_some_and(|staged| {
                let written = self.write(&staged.draft, &staged.values);
                self.conclude(staged, written)
            });
            self.rest(wrote || group.closing.is_some());
        }
        self.finish(group.closing);
    }

    /// Does the same as [`Writer::run`] in a task, and pauses where other tasks may run or a process may end: before it
    /// collects a group, before it writes the group, and between the write and the answers.
    pub(crate) async fn run_as_task<P: Future<Output = ()>>(
        mut self,
        mut commands: mpsc::Receiver<Command<X>>,
        mut pause: impl FnMut() -> P,
    ) {
        let _end = End(Arc::clone(self.publisher.state()));
        let mut group = Group::new();
        loop {
            let command = match tokio::time::timeout(super::TICK, commands.recv()).await {
                Ok(Some(command)) => command,
                Ok(None) => break,
                Err(_) => Command::Tick,
            };
            pause().await;
            group.collect(command, &mut commands);
            let mut wrote = false;
            if let Some(staged) = self.stage(&mut group) {
                pause().await;
                let written = self.write(&staged.draft, &staged.values);
                pause().await;
                wrote = self.conclude(staged, written);
            }
            self.rest(wrote || group.closing.is_some());
        }
        self.finish(group.closing);
    }

    /// Trims old history, and applies the collected transactions to a draft. `None` if there are none.
    fn stage(&mut self, group: &mut Group<X>) -> Option<StagedGroup<X>> {
        self.retire();
        if group.transactions.is_empty() && group.restore.is_none() {
            return None;
        }
        let time = self.clock.now();
        let mut draft = self.publisher.draft();
        let mut values = Vec::new();
        let answers = group
            .transactions
            .drain(..)
            .map(|(transaction, reply)| (reply, apply(&mut draft, transaction, time, &mut values)))
            .collect();
        let restore = group
            .restore
            .take()
            .map(|request| request.stage(&mut draft, time, self.disk.stores_values().then_some(&mut values)));
        Some(StagedGroup {
            draft,
            values,
            answers,
            restore,
        })
    }

    /// Publishes a group that was written, or drops it, and answers its transactions. Returns true if there was anything
    /// to write.
    fn conclude(&mut self, staged: StagedGroup<X>, written: Result<(), StorageError>) -> bool {
        let StagedGroup {
            draft,
            answers,
            restore,
            ..
        } = staged;
        let changed = !draft.events().is_empty();
        match written {
            Ok(()) => {
                self.publisher.publish(draft);
                for (reply, answer) in answers {
                    let _ = reply.send(answer);
                }
                if let Some(restore) = restore {
                    restore.answer(Ok(()));
                }
            }
            Err(error) => {
                if let Some(restore) = restore {
                    restore.answer(Err(error.clone()));
                }
                let snapshot = self.publisher.state().snapshot();
                for (reply, answer) in answers {
                    let _ = reply.send(Err(failed(answer, &snapshot, &error)));
                }
            }
        }
        changed
    }

    /// Does the work between two groups. An idle writer removes dead rows too.
    fn rest(&mut self, is_busy: bool) {
        if !is_busy {
            self.sweep();
        }
        self.care();
    }

    fn write(&mut self, draft: &Draft<X>, values: &[Option<Value>]) -> Result<(), StorageError> {
        let rows: Vec<Row<'_>> = draft
            .events()
            .iter()
            .zip(values.iter().map(Option::as_ref).chain(std::iter::repeat(None)))
            .map(|(event, value)| row(event, value))
            .collect();
        if rows.is_empty() {
            Ok(())
        } else {
            self.step(&rows, rows.len() + TRIM)
        }
    }

    /// Writes a step: new rows, and dead ones to remove.
    fn step(&mut self, rows: &[Row<'_>], trim: usize) -> Result<(), StorageError> {
        self.make_sure()?;
        let (dead, compacted) = self.dying(trim);
        match self.disk.write(Step {
            rows,
            dead: &dead,
            compacted,
        }) {
            Ok(()) => {
                self.written += rows.iter().map(Row::logged).sum::<usize>() + dead.len() * Row::PAGE;
                self.dead.drain(..dead.len());
                if self.publisher.state().is_failing() {
                    self.publisher.set_failing(false);
                    tracing::info!("the store's disk works again");
                }
                Ok(())
            }
            Err(error) => {
                tracing::error!(%error, "a write to the store failed");
                self.publisher.set_failing(true);
                self.unsure = true;
                // Tried at once, so that the next writers need not wait for it; tried again before the next step. The
                // disk may still be full after a success: only a written step proves that it works again.
                let _ = self.make_sure();
                Err(error)
            }
        }
    }

    /// Returns about `trim` dead rows, and the oldest revision after their removal: all or none of a revision, because
    /// its events need all of them.
    fn dying(&self, trim: usize) -> (Vec<RowId>, Option<Revision>) {
        let mut dead = Vec::new();
        let mut compacted = None;
        for (id, mark) in &self.dead {
            if dead.len() >= trim && compacted != Some(*mark) {
                break;
            }
            dead.push(*id);
            compacted = Some(*mark);
        }
        (dead, compacted)
    }

    /// Restores the disk to the published state after a failed step.
    fn make_sure(&mut self) -> Result<(), StorageError> {
        if self.unsure {
            self.disk.recover(self.publisher.state().revision())?;
            self.unsure = false;
        }
        Ok(())
    }

    /// Trims old history in memory, and records the rows that become dead.
    fn retire(&mut self) {
        for event in self.publisher.trim(self.clock.now()) {
            let mark = event.revision();
            if let Some(previous) = event.previous() {
                self.dead
                    .push_back((RowId::new(previous.mod_revision(), previous.position()), mark));
            }
            if event.kind() == EventKind::Delete {
                self.dead
                    .push_back((RowId::new(mark, event.current().position()), mark));
            }
        }
    }

    /// Removes dead rows when the writer is idle.
    fn sweep(&mut self) {
        if !self.dead.is_empty() {
            // Errors are already logged, and the next step tries again.
            let _ = self.step(&[], TRIM_IDLE);
        }
    }

    /// Keeps the write-ahead log from growing without bound: concurrently with the writer as long as that is fast
    /// enough, otherwise while writers wait.
    fn care(&mut self) {
        let Some(keeper) = &self.keeper else { return };
        let mut due = keeper.rest.swap(false, Ordering::AcqRel);
        if self.written > CHECKPOINT_BYTES {
            self.written = 0;
            // If the thread has ended, which only a bug of ours can cause, this one does the work.
            due |= keeper.wanted.send(()).is_err();
        }
        if self.disk.log_bytes() > self.log_limit {
            drop(keeper.moving.lock());
            due = true;
        }
        if due && let Err(error) = self.disk.checkpoint() {
            tracing::warn!(%error, "a checkpoint of the store failed");
        }
    }

    fn finish(mut self, closing: Option<oneshot::Sender<Result<(), StorageError>>>) {
        self.publisher.close();
        if let Some(Keeper { wanted, thread, .. }) = self.keeper.take() {
            drop(wanted);
            let _ = thread.join();
        }
        let closed = self.make_sure().and_then(|()| self.disk.close());
        drop(self.directory);
        if let Some(reply) = closing {
            let _ = reply.send(closed);
        }
    }
}

/// Commands that the writer has collected for its next step.
struct Group<X: Indexer> {
    transactions: Vec<(Prepared<X>, Reply<X>)>,
    /// A restore after the transactions. Nothing is collected after it.
    restore: Option<RestoreRequest<X>>,
    /// Receiver of the result of closing the store, once a command asked to close it.
    closing: Option<oneshot::Sender<Result<(), StorageError>>>,
}

impl<X: Indexer> Group<X> {
    fn new() -> Self {
        Self {
            transactions: Vec::new(),
            restore: None,
            closing: None,
        }
    }

    /// Collects a command and those that wait after it, up to the limits of one step.
    fn collect(&mut self, command: Command<X>, commands: &mut mpsc::Receiver<Command<X>>) {
        let mut bytes = 0;
        let mut next = Some(command);
        while let Some(command) = next {
            match command {
                Command::Commit(prepared, reply) => {
                    bytes += prepared.transaction.weight();
                    self.transactions.push((prepared, reply));
                }
                Command::Restore(request) => {
                    self.restore = Some(request);
                    return;
                }
                Command::Tick => {}
                Command::Close(reply) => {
                    commands.close();
                    self.closing = Some(reply);
                }
            }
            let more = self.transactions.len() < GROUP && bytes < GROUP_BYTES;
            next = if more { commands.try_recv().ok() } else { None };
        }
    }
}

/// A group of transactions that was applied to a draft and is not durable yet.
struct StagedGroup<X: Indexer> {
    draft: Draft<X>,
    values: Vec<Option<Value>>,
    /// Answers to send if the group becomes durable.
    answers: Vec<(Reply<X>, Answer<X>)>,
    /// A restore after the transactions of the group.
    restore: Option<StagedRestore>,
}

/// Guard for a panic of the writer: nothing can be stored any more, and no caller may wait for it.
struct End<X: Indexer>(Arc<State<X>>);

impl<X: Indexer> Drop for End<X> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.break_off();
        }
    }
}

/// Applies one transaction to the draft.
fn apply<X: Indexer>(
    draft: &mut Draft<X>,
    mut prepared: Prepared<X>,
    time: Duration,
    values: &mut Vec<Option<Value>>,
) -> Result<Committed<X>, CommitError> {
    for guard in &prepared.transaction.guards {
        guard.check(draft.get(&guard.key))?;
    }
    let shared = match prepared.transaction.revisions {
        Revisions::Shared => Some(draft.revision() + 1),
        Revisions::Consecutive => None,
    };
    let ops = std::mem::take(&mut prepared.transaction.ops);
    let mut entries = Vec::with_capacity(ops.len());
    for (position, op) in ops.into_iter().enumerate() {
        let at = At {
            revision: shared.unwrap_or(draft.revision() + 1),
            // Of an operation with its own revision, it is the first position.
            position: shared.map_or(0, |_| position as u16),
            time,
        };
        match op {
            Op::Put { key, value, index } => {
                entries.push(Some(draft.put(key, (&value).into(), at, index)));
                values.push(Some(prepared.stored(position, value)));
            }
            Op::Delete { key, last } => {
                let removed = draft.delete(&key, last.as_ref().map(Into::into), at);
                if removed.is_some() {
                    values.push(last.map(|last| prepared.stored(position, last)));
                }
                entries.push(removed);
            }
        }
    }
    Ok(Committed {
        revision: draft.revision(),
        entries,
    })
}

fn row<'a, X: Indexer>(event: &'a Event<X>, value: Option<&'a Value>) -> Row<'a> {
    Row {
        id: RowId::new(event.revision(), event.current().position()),
        key: event.key(),
        deleted: event.kind() == EventKind::Delete,
        create_revision: event.current().create_revision(),
        revision_at: value.and_then(Value::revision_at),
        time: event.time(),
        value: value.map(|value| &**value.bytes()),
    }
}

/// Returns the error of a transaction whose step failed. A guard that fails against the published state is a guard
/// failure.
fn failed<X: Indexer>(
    answer: Result<Committed<X>, CommitError>,
    snapshot: &Snapshot<X>,
    error: &StorageError,
) -> CommitError {
    if let Err(CommitError::GuardFailed { key, expected, .. }) = answer {
        let current = snapshot.get(&key).map_or(0, |entry| entry.mod_revision());
        if current != expected {
            return CommitError::GuardFailed { key, expected, current };
        }
    }
    CommitError::Storage(error.clone())
}
