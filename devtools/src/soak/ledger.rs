//! Acknowledged writes, and the check that they are stored.
//!
//! Each key has one writer, and each writer has one write of a key in progress. So a key holds the write that was
//! acknowledged last, or the one that was in progress when the server was killed or could not report its result. An etcd
//! may still commit such a write some seconds later, since a request that waits for a leader outlives its client.
//!
//! The model of a key is the sequence of the states that its writer gave it. A read may return any of them from the
//! last one that was acknowledged, or seen by a finished read, when it began: then reads and writes have one order.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};

/// Objects at one moment: the values of their fields, by key. Absent objects have no entry.
pub(super) type Contents = BTreeMap<String, u64>;

/// Value of a key; `None` if it is absent.
type State = Option<u64>;

/// Duration after which an etcd no longer commits a write: its own limit is 7 s.
const COMMIT_LIMIT: Duration = Duration::from_secs(10);

/// A write whose result is unknown so far.
#[derive(Clone, Copy, Debug)]
struct Attempt {
    state: State,
    /// Time of its start, or of the response that did not report its result.
    time: Instant,
}

#[derive(Clone, Debug)]
struct Account {
    acknowledged: State,
    attempted: Option<Attempt>,
    /// Value of the key at the last audit, and values attempted since.
    states: Vec<State>,
    /// The first of these that a read may still show.
    least: usize,
}

impl Account {
    fn holding(state: State) -> Self {
        Self {
            acknowledged: state,
            attempted: None,
            states: vec![state],
            least: 0,
        }
    }
}

/// The model of a key when a read of it began.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadBegun(usize);

/// The writes of all writers.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    accounts: BTreeMap<String, Account>,
    /// Acknowledged writes since the last audit, by revision and object.
    written: BTreeSet<(u64, String)>,
    /// The newest acknowledged revision.
    newest: u64,
    /// Total number of acknowledged writes.
    pub(super) total: u64,
    /// Number of reads that were compared with the model.
    pub(super) reads: u64,
}

impl Ledger {
    /// Records that a write is about to be sent.
    pub(super) fn attempt(&mut self, key: &str, state: State) {
        let account = self.account(key);
        account.attempted = Some(Attempt {
            state,
            time: Instant::now(),
        });
        account.states.push(state);
    }

    fn account(&mut self, key: &str) -> &mut Account {
        let new = || Account::holding(None);
        self.accounts.entry(key.to_owned()).or_insert_with(new)
    }

    /// Returns true if the result of the last write of a key is unknown.
    pub(super) fn is_unsure(&self, key: &str) -> bool {
        self.accounts
            .get(key)
            .is_some_and(|account| account.attempted.is_some())
    }

    /// Records that the response to the last write of a key does not report its result.
    pub(super) fn unsure(&mut self, key: &str) {
        if let Some(attempt) = &mut self.account(key).attempted {
            attempt.time = Instant::now();
        }
    }

    /// Records that a read of a key begins.
    pub(super) fn read_begins(&mut self, key: &str) -> ReadBegun {
        ReadBegun(self.account(key).least)
    }

    /// Records that the read returned that state.
    pub(super) fn read_ends(&mut self, key: &str, begun: ReadBegun, found: State) -> Result<()> {
        self.reads += 1;
        let account = self.account(key);
        let later = account.states.iter().skip(begun.0);
        let Some(at) = later.into_iter().position(|state| *state == found) else {
            bail!(
                "a read shows {key} with {found:?}, and not one of {:?} from {begun:?} on",
                account.states
            );
        };
        account.least = account.least.max(begun.0 + at);
        Ok(())
    }

    /// Records that the write was rejected: it did not happen.
    pub(super) fn rejected(&mut self, key: &str) {
        let account = self.account(key);
        account.attempted = None;
        account.states.pop();
    }

    /// Records that the write of `key` was acknowledged; `revision` is that of its object, if the response contains it.
    pub(super) fn acknowledged(&mut self, key: &str, object: &str, revision: Option<u64>) {
        let account = self.account(key);
        if let Some(attempt) = account.attempted.take() {
            account.acknowledged = attempt.state;
            account.least = account.states.len().saturating_sub(1);
        }
        self.total += 1;
        if let Some(revision) = revision {
            self.newest = self.newest.max(revision);
            self.written.insert((revision, object.to_owned()));
        }
    }

    /// Returns the certain value of a key, from its writer's view.
    pub(super) fn state(&self, key: &str) -> State {
        self.accounts.get(key).and_then(|account| account.acknowledged)
    }

    /// Compares the objects at `revision` with the acknowledged writes, and records them as the new base. A write without
    /// a result that is not there stays possible for [`COMMIT_LIMIT`]. Returns the acknowledged writes since the last
    /// audit.
    pub(super) fn audit(&mut self, there: &Contents, revision: u64) -> Result<BTreeSet<(u64, String)>> {
        ensure!(
            revision >= self.newest,
            "revision {revision} is older than {}, which was acknowledged",
            self.newest
        );
        for (key, account) in &mut self.accounts {
            let found = there.get(key).copied();
            let attempted = account.attempted.take();
            ensure!(
                found == account.acknowledged || attempted.is_some_and(|attempt| attempt.state == found),
                "{key} holds {found:?}; acknowledged was {:?}, and under way {attempted:?}",
                account.acknowledged
            );
            *account = Account::holding(found);
            let late = attempted.filter(|attempt| attempt.state != found && attempt.time.elapsed() < COMMIT_LIMIT);
            account.states.extend(late.map(|attempt| attempt.state));
            account.attempted = late;
        }
        let strange = there.keys().find(|key| !self.accounts.contains_key(*key));
        ensure!(strange.is_none(), "no client wrote {strange:?}");
        Ok(std::mem::take(&mut self.written))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "what fails here is the test")]
mod tests {
    use super::*;

    fn there(state: Option<u64>) -> Contents {
        state.map(|value| ("a".to_owned(), value)).into_iter().collect()
    }

    fn ledger() -> Ledger {
        let mut ledger = Ledger::default();
        ledger.attempt("a", Some(1));
        ledger.acknowledged("a", "a", Some(7));
        ledger
    }

    #[test]
    fn a_lost_write_is_found_and_one_under_way_may_be_there_or_not() {
        assert!(ledger().audit(&there(None), 7).is_err());
        assert!(ledger().audit(&there(Some(2)), 7).is_err());
        assert_eq!(ledger().audit(&there(Some(1)), 7).unwrap().len(), 1);
        for found in [Some(1), None] {
            let mut ledger = ledger();
            ledger.attempt("a", None);
            ledger.audit(&there(found), 8).unwrap();
            assert_eq!(ledger.state("a"), found);
        }
        let mut ledger = ledger();
        ledger.attempt("a", Some(2));
        ledger.rejected("a");
        assert!(ledger.audit(&there(Some(2)), 8).is_err());
    }

    #[test]
    fn a_write_without_a_result_may_be_committed_after_an_audit() {
        let mut ledger = ledger();
        ledger.attempt("a", Some(2));
        ledger.unsure("a");
        ledger.audit(&there(Some(1)), 8).unwrap();
        assert!(ledger.is_unsure("a"));
        let begun = ledger.read_begins("a");
        ledger.read_ends("a", begun, Some(2)).unwrap();
        let mut later = Ledger {
            accounts: ledger.accounts.clone(),
            ..Ledger::default()
        };
        ledger.audit(&there(Some(2)), 9).unwrap();
        assert!(!ledger.is_unsure("a"));
        assert!(ledger.audit(&there(Some(1)), 9).is_err());

        later.account("a").attempted.as_mut().unwrap().time -= COMMIT_LIMIT;
        later.audit(&there(Some(1)), 9).unwrap();
        assert!(!later.is_unsure("a"));
        assert!(later.audit(&there(Some(2)), 9).is_err());
    }

    #[test]
    fn reads_of_overwritten_or_unwritten_values_are_detected() {
        let mut ledger = ledger();
        let begun = ledger.read_begins("a");
        ledger.attempt("a", Some(2));
        for shown in [Some(1), Some(2)] {
            ledger.read_ends("a", begun, shown).unwrap();
        }
        assert!(ledger.read_ends("a", begun, Some(3)).is_err());
        // A read that began after another had ended returns nothing older.
        let begun = ledger.read_begins("a");
        assert!(ledger.read_ends("a", begun, Some(1)).is_err());
        ledger.acknowledged("a", "a", Some(8));
        ledger.attempt("a", None);
        ledger.acknowledged("a", "a", Some(9));
        let begun = ledger.read_begins("a");
        assert!(ledger.read_ends("a", begun, Some(2)).is_err());
        ledger.read_ends("a", begun, None).unwrap();
    }

    #[test]
    fn revisions_that_go_back_and_unknown_objects_are_found() {
        assert!(ledger().audit(&there(Some(1)), 6).is_err());
        let mut more = there(Some(1));
        more.insert("b".to_owned(), 1);
        assert!(ledger().audit(&more, 7).is_err());
    }
}
