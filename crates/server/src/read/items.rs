//! The objects of a list, read from a snapshot a few at a time, and their encoded bytes.
//!
//! Neither the objects nor their bytes are ever collected: the unsent rest is an offset into a snapshot that costs
//! nothing to keep. The reader yields regularly, because a long list is more work than a request may do without a
//! break.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use holdfast_resource::Resource;
use holdfast_store::Key;
use holdfast_value::Value;
use holdfast_value::json::Indenter;
use tokio::time::Instant;

use crate::http::ApiError;
use crate::metrics::Tally;
use crate::objects::{Entry, Selection, Snapshot};
use crate::read::list_answer::Writer;
use crate::representation::conversion::{self, BYTES_TOGETHER, TOGETHER};
use crate::representation::{Context, RequestedVersion};
use crate::wire::body::ResponseBody;

/// The number of objects that a list examines before it checks if it should yield.
const LOOK: usize = 64;

/// The time that a list works before it yields.
const SLICE: Duration = Duration::from_micros(100);

/// The size in bytes at which a chunk is sent.
const RUN_BYTES: usize = 64 * 1024;

/// The size in bytes from which a chunk gets its full capacity at once, so that it need not grow step by step.
const LONG_BYTES: usize = 8 * 1024;

/// The objects of a list, read one after the other.
#[derive(Default)]
pub(crate) struct ListItems {
    /// The objects that were found and not yet returned.
    found: VecDeque<ListItem>,
    /// The range in which more objects are found.
    rest: Option<Rest>,
    /// The conversion of the objects, if it may need a webhook.
    conversion: Option<Conversion>,
    /// The counters of examined and returned objects.
    tally: Tally,
}

/// An object of a list.
#[derive(Clone)]
pub(crate) struct ListItem {
    /// The stored object.
    pub(crate) entry: Arc<Entry>,
    /// The object in the requested version, if a webhook converted it.
    pub(crate) converted: Option<Value>,
}

/// The representation of objects that a webhook converts.
#[derive(Clone)]
pub(crate) struct Conversion {
    context: Arc<Context>,
    shown: RequestedVersion,
}

impl Conversion {
    /// Creates the conversion; `None` if no webhook is needed.
    pub(crate) fn of(context: &Arc<Context>, shown: &RequestedVersion) -> Option<Self> {
        shown.may_need_webhook().then(|| Self {
            context: Arc::clone(context),
            shown: shown.clone(),
        })
    }

    fn is_due(&self, item: &ListItem) -> bool {
        item.converted.is_none() && self.shown.needs_webhook(&item.entry)
    }

    /// Converts the objects at the front of `items` that need it: as many as one review holds.
    async fn carry_out(&self, items: &mut VecDeque<ListItem>) -> Result<(), ApiError> {
        let (mut due, mut bytes) = (Vec::new(), 0);
        for (at, item) in items.iter().enumerate().filter(|(_, item)| self.is_due(item)) {
            if due.len() == TOGETHER || bytes > BYTES_TOGETHER {
                break;
            }
            bytes += item.entry.length();
            due.push((at, Arc::clone(&item.entry)));
        }
        let entries: Vec<&Entry> = due.iter().map(|(_, entry)| entry.as_ref()).collect();
        let trees = conversion::stored(&self.context, &self.shown, &entries).await?;
        for ((at, _), tree) in due.iter().zip(trees) {
            items[*at].converted = Some(tree);
        }
        Ok(())
    }
}

/// The part of a snapshot that was not examined yet.
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

impl ListItems {
    /// Creates a list of these objects, filtered by the selection. Objects that need a webhook are converted first if
    /// the selection depends on their content.
    pub(crate) async fn of(
        entries: Vec<Arc<Entry>>,
        resource: &Resource,
        selection: &Selection,
        conversion: Option<Conversion>,
    ) -> Result<Self, ApiError> {
        Ok(Self {
            found: select(entries, resource, selection, conversion.as_ref()).await?,
            rest: None,
            conversion,
            tally: Tally::default(),
        })
    }

    /// Creates a list of the selected objects of `resource` below `prefix`, starting at the key `from`. `conversion` is
    /// set if they may need a webhook.
    pub(crate) fn new(
        snapshot: Snapshot,
        resource: Arc<Resource>,
        selection: Selection,
        prefix: Vec<u8>,
        from: Vec<u8>,
        conversion: Option<Conversion>,
    ) -> Self {
        Self {
            found: VecDeque::new(),
            conversion,
            tally: Tally::default(),
            rest: Some(Rest {
                snapshot,
                resource,
                selection,
                prefix,
                next: Next::From(from),
            }),
        }
    }

    /// Returns the same list, with `tally` to count examined and returned objects.
    pub(crate) fn counted_by(mut self, tally: Tally) -> Self {
        self.tally = tally;
        self.tally.add_fetched(self.found.len());
        self
    }

    /// Converts the first objects if necessary, so that the next of them can be returned.
    ///
    /// # Errors
    /// 500 if a webhook fails.
    pub(crate) async fn prepare(&mut self) -> Result<(), ApiError> {
        if self.conversion.is_none() {
            return Ok(());
        }
        let mut turn = TimeSlice::default();
        while self.found.is_empty() && self.look().await? {
            turn.end_if_due().await;
        }
        self.convert_front().await
    }

    async fn convert_front(&mut self) -> Result<(), ApiError> {
        match (&self.conversion, self.found.front()) {
            (Some(conversion), Some(first)) if conversion.is_due(first) => conversion.carry_out(&mut self.found).await,
            _ => Ok(()),
        }
    }

    /// Examines the next few objects. Returns true if there were any.
    async fn look(&mut self) -> Result<bool, ApiError> {
        let Some(rest) = &mut self.rest else { return Ok(false) };
        let range = match &rest.next {
            Next::From(key) => rest.snapshot.range_from(&rest.prefix, key),
            Next::After(key) => rest.snapshot.range_after(&rest.prefix, key),
        };
        let mut last = None;
        let mut others = Vec::new();
        let by_webhook = self.conversion.as_ref().filter(|_| !rest.selection.is_everything());
        for entry in range.take(LOOK) {
            self.tally.add_fetched(1);
            match by_webhook {
                Some(_) => others.push(Arc::clone(entry)),
                None if rest.selection.selects(&rest.resource, entry) => self.found.push_back(ListItem::stored(entry)),
                None => {}
            }
            last = Some(entry.key().clone());
        }
        match last {
            Some(key) => rest.next = Next::After(key),
            None => {
                self.rest = None;
                return Ok(false);
            }
        }
        if !others.is_empty() {
            let selected = select(others, &rest.resource, &rest.selection, by_webhook).await?;
            self.found.extend(selected);
        }
        Ok(true)
    }

    /// Returns a list of the first `limit` objects.
    ///
    /// # Errors
    /// 500 if a webhook fails whose conversion the selection needs.
    pub(crate) async fn first(mut self, limit: usize) -> Result<Self, ApiError> {
        let mut turn = TimeSlice::default();
        while self.found.len() < limit && self.look().await? {
            turn.end_if_due().await;
        }
        self.found.truncate(limit);
        self.rest = None;
        Ok(self)
    }

    /// Returns the stored entries that were found and not yet returned.
    pub(crate) fn found(&self) -> impl DoubleEndedIterator<Item = &Arc<Entry>> {
        self.found.iter().map(|item| &item.entry)
    }

    /// Returns the next object; yields regularly.
    ///
    /// # Errors
    /// 500 if its conversion webhook fails.
    pub(crate) async fn next(&mut self, turn: &mut TimeSlice) -> Result<Option<ListItem>, ApiError> {
        loop {
            turn.end_if_due().await;
            if self.conversion.is_some() {
                self.convert_front().await?;
            }
            if let Some(item) = self.found.pop_front() {
                self.tally.add_returned();
                return Ok(Some(item));
            }
            if !self.look().await? {
                return Ok(None);
            }
        }
    }

    /// Returns the body that `writer` makes of these objects. It is sent in chunks as the client reads them, indented
    /// if that is requested.
    pub(crate) fn into_body(self, writer: Writer, head: Vec<u8>, indenter: Option<Indenter>) -> ResponseBody {
        let body = Body {
            items: self,
            writer,
            indenter,
            run: head,
            turn: TimeSlice::default(),
            first: true,
            ended: false,
        };
        ResponseBody::stream(stream::unfold(body, |mut body| async move {
            let run = body.run().await?;
            Some((run, body))
        }))
    }
}

impl ListItem {
    /// Creates an item that is not converted.
    pub(crate) fn stored(entry: &Arc<Entry>) -> Self {
        Self {
            entry: Arc::clone(entry),
            converted: None,
        }
    }
}

/// Filters `entries` by the selection. Objects that a webhook converts are selected by the converted content.
async fn select(
    entries: Vec<Arc<Entry>>,
    resource: &Resource,
    selection: &Selection,
    conversion: Option<&Conversion>,
) -> Result<VecDeque<ListItem>, ApiError> {
    let mut items: VecDeque<ListItem> = entries.iter().map(ListItem::stored).collect();
    if let Some(conversion) = conversion.filter(|_| !selection.is_everything()) {
        while items.iter().any(|item| conversion.is_due(item)) {
            conversion.carry_out(&mut items).await?;
        }
    }
    items.retain(|item| match &item.converted {
        Some(tree) => selection.selects_converted(resource, &item.entry, tree),
        None => selection.selects(resource, &item.entry),
    });
    Ok(items)
}

/// The start of the current time slice of a list.
pub(crate) struct TimeSlice(Instant);

impl Default for TimeSlice {
    fn default() -> Self {
        Self(Instant::now())
    }
}

impl TimeSlice {
    /// Yields to other tasks if the time slice is over.
    pub(crate) async fn end_if_due(&mut self) {
        if self.0.elapsed() >= SLICE {
            tokio::task::yield_now().await;
            self.0 = Instant::now();
        }
    }
}

struct Body {
    items: ListItems,
    writer: Writer,
    indenter: Option<Indenter>,
    run: Vec<u8>,
    /// The time slice, which continues from chunk to chunk: the connection's work on a chunk counts as well.
    turn: TimeSlice,
    first: bool,
    ended: bool,
}

impl Body {
    async fn run(&mut self) -> Option<Bytes> {
        while !self.ended && self.run.len() < RUN_BYTES {
            if self.run.len() >= LONG_BYTES && self.run.capacity() < RUN_BYTES {
                self.run.reserve_exact(RUN_BYTES + LONG_BYTES - self.run.len());
            }
            let written = match self.items.next(&mut self.turn).await {
                Ok(Some(item)) => {
                    let first = std::mem::replace(&mut self.first, false);
                    self.writer.before(first, &mut self.run);
                    self.writer.item(&item, &mut self.run)
                }
                Ok(None) => {
                    self.writer.end(self.first, &mut self.run);
                    if self.indenter.is_none() {
                        self.run.push(b'\n');
                    }
                    self.ended = true;
                    Ok(())
                }
                Err(error) => Err(error),
            };
            if let Err(error) = written {
                // The status is already sent; the client cannot parse a truncated list.
                tracing::error!(%error, "a list ends before its last object");
                self.ended = true;
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
