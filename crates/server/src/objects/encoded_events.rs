//! Cache of encoded frames: an event is encoded once in each form, no matter how many clients watch in that form.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock, Weak};

use bytes::Bytes;
use holdfast_value::Value;
use parking_lot::Mutex;
use smol_str::SmolStr;
use tokio::sync::OnceCell;

use crate::http::ApiError;
use crate::http::negotiation::{Format, View};
use crate::http::table::IncludeObject;

/// The change of an object that an event of a watch shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventType {
    /// The object exists now.
    Added,
    /// The object has changed.
    Modified,
    /// The object is gone.
    Deleted,
    /// The object is no longer selected: its last selected state, at the revision at which it left.
    Left,
    /// Nothing has changed up to a revision.
    Bookmark,
}

impl EventType {
    /// Returns the type of the event.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted | Self::Left => "DELETED",
            Self::Bookmark => "BOOKMARK",
        }
    }
}

/// The form in which a watcher sees events. Frames of equal forms are equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EventForm {
    /// Format of the events: JSON or protobuf.
    pub(crate) format: Format,
    /// View of the object in the event.
    pub(crate) view: View,
    /// Object part of the rows of tables.
    pub(crate) include: IncludeObject,
    /// The version of the objects.
    pub(crate) api_version: SmolStr,
    /// True if `metadata.managedFields` is left out.
    pub(crate) drops_managed_fields: bool,
    /// State of the CRD by which the events are encoded; 0 for built-in kinds.
    pub(crate) crd_serial: u64,
}

/// The frames of one event, in every form that was requested and that is still kept.
#[derive(Default)]
pub struct EncodedEvent(OnceLock<Arc<Encodings>>);

#[derive(Default)]
struct Encodings {
    made: Mutex<Vec<(EventType, EventForm, Bytes)>>,
    conversions: Mutex<Vec<(Version, Weak<Conversion>)>>,
}

/// Objects of an event in the version of the watch, as a webhook converts them: converted once, by the first watcher,
/// and kept while any watcher waits for them.
pub(crate) type Conversion = OnceCell<Result<Converted, ApiError>>;

/// The objects of an event, as a webhook has converted them.
#[derive(Clone, Debug)]
pub(crate) struct Converted {
    /// The object of the event.
    pub(crate) current: Value,
    /// Object before the event, if there was one and a watcher must know if it was selected.
    pub(crate) previous: Option<Value>,
}

/// Key of a conversion: the version of the objects, the state of the CRD, and a flag that is true if the object before
/// the event is converted too.
#[derive(Clone, PartialEq, Eq)]
struct Version {
    api_version: SmolStr,
    crd_serial: u64,
    with_previous: bool,
}

impl EncodedEvent {
    /// Returns the conversion of the event's objects to the version of that form.
    pub(crate) fn conversion(&self, form: &EventForm, with_previous: bool) -> Arc<Conversion> {
        let version = Version {
            api_version: form.api_version.clone(),
            crd_serial: form.crd_serial,
            with_previous,
        };
        let mut known = self.0.get_or_init(Arc::default).conversions.lock();
        let found = known.iter().find(|(of, _)| *of == version);
        if let Some(conversion) = found.and_then(|(_, conversion)| conversion.upgrade()) {
            return conversion;
        }
        let conversion = Arc::default();
        known.retain(|(_, conversion)| conversion.strong_count() > 0);
        known.push((version, Arc::downgrade(&conversion)));
        conversion
    }
}

/// Cache of encoded events: the newest frames, up to a total size. An older event is encoded again for watchers that
/// lag behind.
#[derive(Debug)]
pub struct EventCache {
    cached: Mutex<CachedFrames>,
    limit: usize,
}

#[derive(Debug, Default)]
struct CachedFrames {
    /// Events whose frames are kept, in the order of encoding, with the size of the frame.
    order: VecDeque<(Weak<Encodings>, usize)>,
    bytes: usize,
}

impl std::fmt::Debug for Encodings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Encodings")
    }
}

impl Default for EventCache {
    fn default() -> Self {
        Self::new(16 << 20)
    }
}

impl EventCache {
    /// Creates a cache that keeps frames of at most this many bytes.
    pub fn new(limit: usize) -> Self {
        Self {
            cached: Mutex::default(),
            limit,
        }
    }

    /// Returns the frame of an event in that form, made by `encode` if it is not cached.
    ///
    /// # Errors
    /// If `encode` fails.
    pub(crate) fn frame<E>(
        &self,
        event: &EncodedEvent,
        event_type: EventType,
        form: &EventForm,
        encode: impl FnOnce() -> Result<Bytes, E>,
    ) -> Result<Bytes, E> {
        let frames = event.0.get_or_init(Arc::default);
        // Other watchers that need this frame wait until it is made, and then share it.
        let mut known = frames.made.lock();
        let found = known
            .iter()
            .find(|(of, in_form, _)| *of == event_type && in_form == form);
        if let Some((.., frame)) = found {
            return Ok(frame.clone());
        }
        let frame = encode()?;
        known.push((event_type, form.clone(), frame.clone()));
        drop(known);
        self.keep(frames, frame.len());
        Ok(frame)
    }

    /// Returns the frame of an event in that form, if it is cached.
    pub(crate) fn kept(&self, event: &EncodedEvent, event_type: EventType, form: &EventForm) -> Option<Bytes> {
        let known = event.0.get()?.made.lock();
        let mut frames = known.iter();
        let (.., frame) = frames.find(|(of, in_form, _)| *of == event_type && in_form == form)?;
        Some(frame.clone())
    }

    fn keep(&self, frames: &Arc<Encodings>, bytes: usize) {
        let mut gone = Vec::new();
        {
            let mut kept = self.cached.lock();
            kept.order.push_back((Arc::downgrade(frames), bytes));
            kept.bytes += bytes;
            while kept.bytes > self.limit
                && let Some((oldest, bytes)) = kept.order.pop_front()
            {
                kept.bytes -= bytes;
                gone.push(oldest);
            }
        }
        for frames in gone.iter().filter_map(Weak::upgrade) {
            frames.made.lock().clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;
    use crate::http::negotiation::MetaVersion;

    fn form(view: View) -> EventForm {
        EventForm {
            drops_managed_fields: false,
            format: Format::Json,
            view,
            include: IncludeObject::Metadata,
            api_version: SmolStr::new_static("v1"),
            crd_serial: 0,
        }
    }

    /// Returns the frame, and true if it had to be made.
    fn ask(cache: &EventCache, event: &EncodedEvent, event_type: EventType, form: &EventForm) -> (Bytes, bool) {
        let mut made = false;
        let frame = cache.frame(event, event_type, form, || {
            made = true;
            Ok::<_, Infallible>(Bytes::from(vec![b'x'; 100]))
        });
        (frame.unwrap(), made)
    }

    #[test]
    fn a_frame_is_made_once_for_each_form() {
        let (cache, event) = (EventCache::default(), EncodedEvent::default());
        let whole = form(View::Whole);
        let (first, made) = ask(&cache, &event, EventType::Added, &whole);
        let (second, made_again) = ask(&cache, &event, EventType::Added, &whole);
        assert!(made && !made_again);
        assert_eq!(first.as_ptr(), second.as_ptr());
        assert!(ask(&cache, &event, EventType::Modified, &whole).1);
        assert!(ask(&cache, &event, EventType::Added, &form(View::Table(MetaVersion::V1))).1);
    }

    #[test]
    fn the_oldest_frames_go_when_there_are_too_many() {
        let cache = EventCache::new(250);
        let (whole, events) = (form(View::Whole), [(); 3].map(|()| EncodedEvent::default()));
        for event in &events {
            assert!(ask(&cache, event, EventType::Added, &whole).1);
        }
        assert!(!ask(&cache, &events[2], EventType::Added, &whole).1);
        assert!(ask(&cache, &events[0], EventType::Added, &whole).1);
        drop(events);
        assert!(cache.cached.lock().bytes <= 250);
    }
}
