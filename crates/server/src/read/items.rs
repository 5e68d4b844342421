//! The objects of a list, read from a snapshot a few at a time.
//!
//! The objects are never collected: the unsent rest is an offset into a snapshot that costs nothing to keep. The reader
//! yields regularly, because a long list is more work than a request may do without a break.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use holdfast_resource::Resource;
use holdfast_store::Key;
use holdfast_value::Value;
use tokio::time::Instant;

use crate::http::ApiError;
use crate::metrics::Tally;
use crate::objects::{Entry, Selection, Snapshot};
use crate::representation::conversion::{self, BYTES_TOGETHER, TOGETHER};
use crate::representation::{Context, RequestedVersion};

/// The number of objects that a list examines before it checks if it should yield.
const LOOK: usize = 64;

/// The time that a list works before it yields.
const SLICE: Duration = Duration::from_micros(100);

/// Size of the objects after which a list reads the clock.
const CHECK_BYTES: usize = 8 << 10;

/// Size that counts for an object which is smaller.
const MIN_OBJECT_BYTES: usize = 512;

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
    requested: RequestedVersion,
}

impl Conversion {
    /// Creates the conversion; `None` if no webhook is needed.
    pub(crate) fn for_version(context: &Arc<Context>, requested: &RequestedVersion) -> Option<Self> {
        requested.may_need_webhook().then(|| Self {
            context: Arc::clone(context),
            requested: requested.clone(),
        })
    }

    fn is_due(&self, item: &ListItem) -> bool {
        item.converted.is_none() && self.requested.needs_webhook(&item.entry)
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
        let trees = conversion::stored(&self.context, &self.requested, &entries).await?;
        for ((at, _), tree) in due.iter().zip(trees) {
            items[*at].converted = Some(tree);
        }
        Ok(())
    }
}

/// The part of a snapshot that was not examined yet.
#[derive(Clone)]
struct Rest {
    snapshot: Snapshot,
    resource: Arc<Resource>,
    selection: Selection,
    prefix: Vec<u8>,
    next: Next,
}

#[derive(Clone)]
enum Next {
    From(Vec<u8>),
    After(Key),
}

impl ListItems {
    /// Creates a list of these objects, filtered by the selection. Objects that need a webhook are converted first if
    /// the selection depends on their content.
    pub(crate) async fn from_entries(
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

    /// Returns a copy that yields the same objects again. It counts nothing in the metrics.
    pub(crate) fn fork(&self) -> Self {
        Self {
            found: self.found.clone(),
            rest: self.rest.clone(),
            conversion: self.conversion.clone(),
            tally: Tally::default(),
        }
    }

    /// Counts the objects.
    ///
    /// # Errors
    /// 500 if a webhook fails whose answer the selection of objects needs.
    pub(crate) async fn count(mut self) -> Result<usize, ApiError> {
        let (mut count, mut turn) = (0, TimeSlice::default());
        loop {
            count += self.found.len();
            self.found.clear();
            if !self.look().await? {
                return Ok(count);
            }
            turn.end_if_due().await;
        }
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
        turn.end_after_work().await;
        loop {
            if self.conversion.is_some() {
                self.convert_front().await?;
            }
            if let Some(item) = self.found.pop_front() {
                self.tally.add_returned();
                turn.count(item.entry.length());
                return Ok(Some(item));
            }
            if !self.look().await? {
                return Ok(None);
            }
            turn.end_if_due().await;
        }
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

/// Filters `entries` by the selection. Objects that a webhook converts are selected by the converted content. Objects that
/// the user may not read are not converted, because the error of a conversion names them.
async fn select(
    entries: Vec<Arc<Entry>>,
    resource: &Resource,
    selection: &Selection,
    conversion: Option<&Conversion>,
) -> Result<VecDeque<ListItem>, ApiError> {
    let shown = entries.iter().filter(|entry| selection.may_show(resource, entry.key()));
    let mut items: VecDeque<ListItem> = shown.map(ListItem::stored).collect();
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

/// The current time slice of a list, and the work since the clock was last read.
pub(crate) struct TimeSlice {
    start: Instant,
    /// Bytes of the objects that were returned since then.
    unchecked: usize,
}

impl Default for TimeSlice {
    fn default() -> Self {
        Self {
            start: Instant::now(),
            unchecked: 0,
        }
    }
}

impl TimeSlice {
    /// Counts an object that is written next. The clock is read only after several small objects, because reading it lasts
    /// as long as writing one.
    fn count(&mut self, bytes: usize) {
        self.unchecked = self.unchecked.saturating_add(bytes.max(MIN_OBJECT_BYTES));
    }

    /// Yields to other tasks if the time slice is over. Returns at once after little work.
    async fn end_after_work(&mut self) {
        if self.unchecked >= CHECK_BYTES {
            self.end_if_due().await;
        }
    }

    /// Yields to other tasks if the time slice is over.
    pub(crate) async fn end_if_due(&mut self) {
        self.unchecked = 0;
        if self.start.elapsed() >= SLICE {
            tokio::task::yield_now().await;
            self.start = Instant::now();
        }
    }
}
