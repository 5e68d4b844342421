//! The objects of a list, taken from a state a few at a time.
//!
//! The objects are never gathered: what is not sent yet is an offset into a state that costs
//! nothing to keep. The taker yields to others now and then, since a long list is more work than a request may do
//! at a stretch.

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

/// How many objects a list looks at before it checks whether others should have a turn.
const LOOK: usize = 64;

/// How long a list works before others have a turn.
const SLICE: Duration = Duration::from_micros(100);

/// Objects that are taken one after the other.
#[derive(Default)]
pub(crate) struct ListItems {
    /// Those that were found and not taken yet.
    found: VecDeque<ListItem>,
    /// Where more are to be found.
    rest: Option<Rest>,
    /// As what they are shown, where a webhook may have to be asked for that.
    conversion: Option<Conversion>,
    /// Counts what is looked at and taken.
    tally: Tally,
}

/// An object of a list.
#[derive(Clone)]
pub(crate) struct ListItem {
    /// As it is stored.
    pub(crate) entry: Arc<Entry>,
    /// In the version that is shown, where a webhook had to be asked for that.
    pub(crate) converted: Option<Value>,
}

/// As what objects are shown that a webhook converts.
#[derive(Clone)]
pub(crate) struct Conversion {
    context: Arc<Context>,
    shown: RequestedVersion,
}

impl Conversion {
    /// `None` where no webhook has to be asked.
    pub(crate) fn of(context: &Arc<Context>, shown: &RequestedVersion) -> Option<Self> {
        shown.may_need_webhook().then(|| Self {
            context: Arc::clone(context),
            shown: shown.clone(),
        })
    }

    fn is_due(&self, item: &ListItem) -> bool {
        item.converted.is_none() && self.shown.needs_webhook(&item.entry)
    }

    /// Converts what must be of the first of `items`: as many as go into one review.
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

/// The part of a state that was not looked at yet.
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
    /// These objects, which are selected unless a webhook has to be asked first.
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

    /// The selected objects of `resource` below `prefix`, from the key `from` on. `conversion` says as what they are shown,
    /// where a webhook may have to be asked.
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

    /// The same, with `tally` to count what is looked at and taken.
    pub(crate) fn counted_by(mut self, tally: Tally) -> Self {
        self.tally = tally;
        self.tally.add_fetched(self.found.len());
        self
    }

    /// Converts the first objects where that is due, so that the next of them can be had.
    ///
    /// # Errors
    /// 500 where a webhook fails.
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

    /// Looks at the next few objects. Returns whether there were any.
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

    /// The first `limit` objects, in a list of their own.
    ///
    /// # Errors
    /// 500 where a webhook fails that has to be asked before objects can be selected.
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
    /// 500 where a webhook fails that has to be asked before objects can be selected.
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

    /// Those that were found and not taken yet, as they are stored.
    pub(crate) fn found(&self) -> impl DoubleEndedIterator<Item = &Arc<Entry>> {
        self.found.iter().map(|item| &item.entry)
    }

    /// The next object; gives others a turn now and then.
    ///
    /// # Errors
    /// 500 where a webhook fails that has to be asked for it.
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
}

impl ListItem {
    /// An object that nothing else is known of.
    pub(crate) fn stored(entry: &Arc<Entry>) -> Self {
        Self {
            entry: Arc::clone(entry),
            converted: None,
        }
    }
}

/// Those of `entries` that are selected. Those that a webhook converts are selected by what it makes of them.
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

/// The time that a list has had since others had a turn.
pub(crate) struct TimeSlice(Instant);

impl Default for TimeSlice {
    fn default() -> Self {
        Self(Instant::now())
    }
}

impl TimeSlice {
    /// Gives others a turn if this has lasted long enough.
    pub(crate) async fn end_if_due(&mut self) {
        if self.0.elapsed() >= SLICE {
            tokio::task::yield_now().await;
            self.0 = Instant::now();
        }
    }
}
