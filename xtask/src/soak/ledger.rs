//! What was acknowledged, and whether it is there.
//!
//! Each key has one writer, and each writer one write under way. So a key holds what was acknowledged last, or what its
//! writer was about to write when the server was killed.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, ensure};

/// The objects of a moment: what their fields hold, by key. Absent ones are not there.
pub(super) type Contents = BTreeMap<String, u64>;

/// What a key holds; `None` where it is absent.
type State = Option<u64>;

#[derive(Clone, Copy, Debug, Default)]
struct Account {
    acknowledged: State,
    attempted: Option<State>,
}

/// The writes of all writers.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    accounts: BTreeMap<String, Account>,
    /// The acknowledged writes since the last audit, by revision and object.
    written: BTreeSet<(u64, String)>,
    /// The newest acknowledged revision.
    newest: u64,
    /// How many writes were acknowledged in all.
    pub(super) total: u64,
}

impl Ledger {
    /// A write is about to be sent.
    pub(super) fn attempt(&mut self, key: &str, state: State) {
        self.accounts.entry(key.to_owned()).or_default().attempted = Some(state);
    }

    /// The write was refused: it did not happen.
    pub(super) fn refused(&mut self, key: &str) {
        self.accounts.entry(key.to_owned()).or_default().attempted = None;
    }

    /// The write of `key` was acknowledged; `revision` is that of its object, where the answer says it.
    pub(super) fn acknowledged(&mut self, key: &str, object: &str, revision: Option<u64>) {
        let account = self.accounts.entry(key.to_owned()).or_default();
        if let Some(state) = account.attempted.take() {
            account.acknowledged = state;
        }
        self.total += 1;
        if let Some(revision) = revision {
            self.newest = self.newest.max(revision);
            self.written.insert((revision, object.to_owned()));
        }
    }

    /// What a key holds for sure, as its writer knows it.
    pub(super) fn state(&self, key: &str) -> State {
        self.accounts.get(key).and_then(|account| account.acknowledged)
    }

    /// Compares what is there at `revision` with what was acknowledged, and takes it as known from here on. Gives the
    /// acknowledged writes since the last audit.
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
                found == account.acknowledged || attempted == Some(found),
                "{key} holds {found:?}; acknowledged was {:?}, and under way {attempted:?}",
                account.acknowledged
            );
            account.acknowledged = found;
        }
        let strange = there.keys().find(|key| !self.accounts.contains_key(*key));
        ensure!(strange.is_none(), "nobody wrote {strange:?}");
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
        ledger.refused("a");
        assert!(ledger.audit(&there(Some(2)), 8).is_err());
    }

    #[test]
    fn revisions_that_go_back_and_objects_of_nobody_are_found() {
        assert!(ledger().audit(&there(Some(1)), 6).is_err());
        let mut more = there(Some(1));
        more.insert("b".to_owned(), 1);
        assert!(ledger().audit(&more, 7).is_err());
    }
}
