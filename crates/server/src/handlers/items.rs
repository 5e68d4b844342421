//! The objects of a list, taken from a state a few at a time, and the bytes that they make.
//!
//! Neither the objects nor their bytes are ever gathered: what is not sent yet is an offset into a state that costs
//! nothing to keep. Whoever takes gives others a turn now and then, since a long list is more work than a request may do
//! at a stretch.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::stream;
use holdfast_resource::Resource;
use holdfast_store::Key;
use holdfast_value::json::Indenter;

use super::representation::Writer;
use crate::body::ResponseBody;
use crate::objects::{Entry, Selection, Snapshot};

/// How many objects are looked at before it is asked whether others should have a turn.
const LOOK: usize = 64;

/// How long a list works before others have a turn.
const TURN: Duration = Duration::from_micros(500);

/// The size at which a run of bytes is sent.
const RUN_BYTES: usize = 64 * 1024;

/// Objects that are taken one after the other.
pub(crate) struct Items {
    /// Those that were found and not taken yet.
    found: VecDeque<Arc<Entry>>,
    /// Where more are to be found.
    rest: Option<Rest>,
}

/// The part of a state that was not looked at yet.
struct Rest {
    snapshot: Snapshot,
    resource: Arc<Resource>,
    selection: Selection,
    prefix: Vec<u8>,
    next: Next,
}

enum Next {
    From(Vec<u8>),
    After(Key),
}

impl Items {
    /// The selected objects of `resource` below `prefix`, from the key `from` on.
    pub(super) fn new(
        snapshot: Snapshot,
        resource: Arc<Resource>,
        selection: Selection,
        prefix: Vec<u8>,
        from: Vec<u8>,
    ) -> Self {
        Self {
            found: VecDeque::new(),
            rest: Some(Rest {
                snapshot,
                resource,
                selection,
                prefix,
                next: Next::From(from),
            }),
        }
    }

    /// The next object if it has been found.
    fn pop(&mut self) -> Option<Arc<Entry>> {
        self.found.pop_front()
    }

    /// Looks at the next few objects. Returns whether there were any.
    fn look(&mut self) -> bool {
        let Some(rest) = &mut self.rest else { return false };
        let range = match &rest.next {
            Next::From(key) => rest.snapshot.range_from(&rest.prefix, key),
            Next::After(key) => rest.snapshot.range_after(&rest.prefix, key),
        };
        let mut last = None;
        for entry in range.take(LOOK) {
            if rest.selection.selects(&rest.resource, entry) {
                self.found.push_back(Arc::clone(entry));
            }
            last = Some(entry.key().clone());
        }
        match last {
            Some(key) => rest.next = Next::After(key),
            None => self.rest = None,
        }
        self.rest.is_some()
    }

    /// The first `limit` objects, in a list of their own, and the one behind them if there is one.
    pub(super) async fn split(mut self, limit: usize) -> (Vec<Arc<Entry>>, Option<Arc<Entry>>) {
        let mut turn = Turn::default();
        while self.found.len() <= limit && self.look() {
            turn.end_if_due().await;
        }
        let next = self.found.get(limit).cloned();
        self.found.truncate(limit);
        (self.found.into(), next)
    }

    /// The next object; gives others a turn now and then.
    pub(crate) async fn next(&mut self, turn: &mut Turn) -> Option<Arc<Entry>> {
        loop {
            turn.end_if_due().await;
            if let Some(entry) = self.pop() {
                return Some(entry);
            }
            if !self.look() {
                return None;
            }
        }
    }

    /// The body that these objects make by `writer`, sent in runs as the client takes them, indented if that is asked for.
    pub(super) fn into_body(self, writer: Writer, head: Vec<u8>, indenter: Option<Indenter>) -> ResponseBody {
        let body = Body {
            items: self,
            writer,
            indenter,
            run: head,
            turn: Turn::default(),
            first: true,
            ended: false,
        };
        ResponseBody::stream(stream::unfold(body, |mut body| async move {
            let run = body.run().await?;
            Some((run, body))
        }))
    }
}

impl From<Vec<Arc<Entry>>> for Items {
    fn from(entries: Vec<Arc<Entry>>) -> Self {
        Self {
            found: entries.into(),
            rest: None,
        }
    }
}

/// The time that a list has had since others had a turn.
pub(crate) struct Turn(Instant);

impl Default for Turn {
    fn default() -> Self {
        Self(Instant::now())
    }
}

impl Turn {
    /// Gives others a turn if this has lasted long enough.
    pub(crate) async fn end_if_due(&mut self) {
        if self.0.elapsed() >= TURN {
            tokio::task::yield_now().await;
            self.0 = Instant::now();
        }
    }
}

struct Body {
    items: Items,
    writer: Writer,
    indenter: Option<Indenter>,
    run: Vec<u8>,
    /// Goes on from run to run: what the connection does with one counts as well.
    turn: Turn,
    first: bool,
    ended: bool,
}

impl Body {
    async fn run(&mut self) -> Option<Bytes> {
        while !self.ended && self.run.len() < RUN_BYTES {
            match self.items.next(&mut self.turn).await {
                Some(entry) => {
                    if !std::mem::replace(&mut self.first, false) {
                        self.run.push(b',');
                    }
                    if let Err(error) = self.writer.item(&entry, &mut self.run) {
                        // It is too late for another status; a list that breaks off cannot be read.
                        tracing::error!(key = %entry.key(), %error, "a list is broken off");
                        self.ended = true;
                    }
                }
                None => {
                    self.writer.end(&mut self.run);
                    self.ended = true;
                }
            }
        }
        let mut run = std::mem::take(&mut self.run);
        if let Some(indenter) = &mut self.indenter {
            let mut indented = Vec::new();
            indenter.write(&run, &mut indented);
            run = indented;
        }
        (!run.is_empty()).then(|| Bytes::from(run))
    }
}
