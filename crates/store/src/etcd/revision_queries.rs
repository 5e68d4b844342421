//! Queries of etcd's revision, whose answers readers share.
//!
//! A read needs an answer to a query that was sent after the read began. One query is under way at a time, sent by one
//! of the readers; readers that come meanwhile wait and share the next one. A reader may be cancelled at any time; then
//! the next one sends the query.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::line::Line;
use crate::error::ReadError;
use crate::key::Revision;

/// The result of a query.
pub(super) type Answer = Result<Revision, ReadError>;

/// Readers that wait for etcd's revision.
#[derive(Default)]
pub(super) struct RevisionQueries(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    /// True if a query is in progress.
    is_put: bool,
    waiting: Vec<oneshot::Sender<Turn>>,
    /// Connection for queries, while it is not in use.
    line: Option<Box<Line>>,
}

/// Outcome of a reader's wait.
pub(super) enum Turn {
    /// Another reader has queried the revision.
    Answered(Answer),
    /// This reader queries the revision.
    Queries(Querier),
}

/// The reader that queries the revision for others.
pub(super) struct Querier {
    questions: Arc<RevisionQueries>,
    /// The readers that came before the query was sent.
    sharers: Vec<oneshot::Sender<Turn>>,
    pub(super) line: Option<Box<Line>>,
}

impl RevisionQueries {
    /// Waits until another reader has queried the revision, or this one has to.
    pub(super) async fn turn(self: &Arc<Self>) -> Turn {
        let waits = {
            let mut inner = self.0.lock();
            if inner.is_put {
                let (turn, waits) = oneshot::channel();
                inner.waiting.push(turn);
                Some(waits)
            } else {
                inner.is_put = true;
                None
            }
        };
        match waits {
            None => Turn::Queries(Querier::new(self)),
            Some(turn) => turn.await.unwrap_or(Turn::Answered(Err(ReadError::Closed))),
        }
    }
}

impl Querier {
    fn new(questions: &Arc<RevisionQueries>) -> Self {
        Self {
            questions: Arc::clone(questions),
            sharers: Vec::new(),
            line: None,
        }
    }

    /// Starts the query: all current waiters share its answer.
    pub(super) fn begin(&mut self) {
        let mut inner = self.questions.0.lock();
        self.line = inner.line.take();
        self.sharers.append(&mut inner.waiting);
    }

    /// Passes the answer on to the other readers.
    pub(super) fn answered(mut self, answer: &Answer) {
        for sharer in self.sharers.drain(..) {
            // A dropped receiver needs no answer.
            let _ = sharer.send(Turn::Answered(answer.clone()));
        }
    }
}

impl Drop for Querier {
    fn drop(&mut self) {
        let mut inner = self.questions.0.lock();
        if let Some(line) = self.line.take() {
            inner.line = Some(line);
        }
        inner.waiting.append(&mut self.sharers);
        let next = loop {
            match inner.waiting.pop() {
                Some(next) if next.is_closed() => {}
                next => break next,
            }
        };
        inner.is_put = next.is_some();
        drop(inner);
        if let Some(next) = next {
            // If the receiver is dropped right now, the value passes the query on in the same way.
            let _ = next.send(Turn::Queries(Self::new(&self.questions)));
        }
    }
}

#[cfg(test)]
#[allow(clippy::panic, reason = "what fails here is the test")]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    fn asks(turn: Option<Turn>) -> Querier {
        match turn {
            Some(Turn::Queries(asking)) => asking,
            Some(Turn::Answered(answer)) => panic!("answered: {answer:?}"),
            None => panic!("it waits"),
        }
    }

    fn answer(turn: Option<Turn>) -> Option<Revision> {
        match turn {
            Some(Turn::Answered(answer)) => answer.ok(),
            _ => None,
        }
    }

    #[test]
    fn reader_after_sent_query_shares_next_query() {
        let questions = Arc::new(RevisionQueries::default());
        let mut first = asks(questions.turn().now_or_never());
        first.begin();
        let (mut second, mut third) = (Box::pin(questions.turn()), Box::pin(questions.turn()));
        assert!((&mut second).now_or_never().is_none());
        assert!((&mut third).now_or_never().is_none());
        first.answered(&Ok(5));
        // Neither may use that answer: one of them sends a query, and both get its answer.
        let mut asking = asks((&mut third).now_or_never());
        asking.begin();
        assert!((&mut second).now_or_never().is_none());
        asking.answered(&Ok(7));
        assert_eq!(answer((&mut second).now_or_never()), Some(7));
        drop(asks(questions.turn().now_or_never()));
    }

    #[test]
    fn the_turn_of_one_who_goes_away_passes_on() {
        let questions = Arc::new(RevisionQueries::default());
        let mut first = asks(questions.turn().now_or_never());
        let mut shares = Box::pin(questions.turn());
        assert!((&mut shares).now_or_never().is_none());
        first.begin();
        let mut waits = Box::pin(questions.turn());
        assert!((&mut waits).now_or_never().is_none());
        // It is dropped during its query; the next one is dropped before it learns that it must query.
        drop(first);
        drop(shares);
        let mut last = asks((&mut waits).now_or_never());
        last.begin();
        last.answered(&Ok(9));
        drop(asks(questions.turn().now_or_never()));
    }
}
